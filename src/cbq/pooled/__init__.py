"""One Gaussian process on the points of all thetas together."""

from cbq.pooled.calibration import Doubt, doubt, process
from cbq.pooled.candidates import Joint, candidates, refuse_theta
from cbq.pooled.hyperparameters import Chosen, choose
from cbq.pooled.integrals import Integrals, line_for
from cbq.pooled.landmarks import landmarks
from cbq.pooled.pool import Pool, pool
from cbq.pooled.process import Process

__all__ = [
    "Chosen",
    "Doubt",
    "Integrals",
    "Joint",
    "Pool",
    "Process",
    "candidates",
    "choose",
    "doubt",
    "landmarks",
    "line_for",
    "pool",
    "process",
    "refuse_theta",
]
