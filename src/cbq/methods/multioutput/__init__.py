"""Multi-output Bayesian quadrature: one Gaussian process on the points of all thetas, integrated under any measure."""

from cbq.methods.multioutput.base import PooledFit
from cbq.methods.multioutput.estimator import MOBQ
from cbq.methods.multioutput.fit import MOBQFit
from cbq.methods.multioutput.kronecker import KroneckerFit

__all__ = ["MOBQ", "KroneckerFit", "MOBQFit", "PooledFit"]
