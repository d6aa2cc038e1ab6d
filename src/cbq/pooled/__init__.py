"""One Gaussian process on the points of all thetas together."""

from cbq.pooled.calibration import SplitHalfCalibration, process, split_half_calibration
from cbq.pooled.candidates import candidates, refuse_theta
from cbq.pooled.hyperparameters import UNKNOWN, KernelChoice, choose, residuals
from cbq.pooled.landmarks import landmarks
from cbq.pooled.pool import PooledPoints, pooled_points
from cbq.pooled.process import PooledGP, nearest_psd

__all__ = [
    "UNKNOWN",
    "KernelChoice",
    "PooledGP",
    "PooledPoints",
    "SplitHalfCalibration",
    "candidates",
    "choose",
    "landmarks",
    "nearest_psd",
    "pooled_points",
    "process",
    "refuse_theta",
    "residuals",
    "split_half_calibration",
]
