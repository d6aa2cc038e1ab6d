"""What every estimator returns: the predictive distribution of I over theta, with methods to query it."""

from cbq.fit.base import Fit
from cbq.fit.emulator import Emulator
from cbq.fit.findings import Finding, FitWarning
from cbq.fit.outcome import Outcome
from cbq.fit.predictive import PredictiveDistribution

__all__ = ["Emulator", "Finding", "Fit", "FitWarning", "Outcome", "PredictiveDistribution"]
