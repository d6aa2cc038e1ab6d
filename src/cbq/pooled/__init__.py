"""One Gaussian process on the points of all thetas together."""

from cbq.pooled.calibration import Doubt, doubt, process
from cbq.pooled.candidates import Joint, candidates, refuse_theta
from cbq.pooled.hyperparameters import UNKNOWN, Chosen, choose, residuals
from cbq.pooled.integrals import Integrals, line_for
from cbq.pooled.landmarks import landmarks
from cbq.pooled.pool import Pool, pool
from cbq.pooled.process import Process, agreeing

__all__ = [
    "UNKNOWN",
    "Chosen",
    "Doubt",
    "Integrals",
    "Joint",
    "Pool",
    "Process",
    "agreeing",
    "candidates",
    "choose",
    "doubt",
    "landmarks",
    "line_for",
    "pool",
    "process",
    "refuse_theta",
    "residuals",
]
