"""What every estimator returns: the predictive distribution of I over theta, with methods to query it."""

from cbq.fit.base import Fit
from cbq.fit.findings import Finding, FitWarning
from cbq.fit.predictive import PredictiveDistribution

__all__ = ["Finding", "Fit", "FitWarning", "PredictiveDistribution"]
