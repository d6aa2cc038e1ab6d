"""Multi-output Bayesian quadrature: one Gaussian process on the points of all thetas, integrated under any measure."""

from cbq.estimators.multioutput.base import PooledFit
from cbq.estimators.multioutput.estimator import MOBQ
from cbq.estimators.multioutput.fit import MOBQFit
from cbq.estimators.multioutput.kronecker import KroneckerFit
from cbq.estimators.multioutput.latent import LatentBQ, LatentBQFit

__all__ = ["MOBQ", "KroneckerFit", "LatentBQ", "LatentBQFit", "MOBQFit", "PooledFit"]
