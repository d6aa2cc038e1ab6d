"""One Gaussian process on the points of all thetas together."""

from cbq.pooled.calibration import SplitHalfCalibration, process, split_half_calibration
from cbq.pooled.candidates import XThetaKernel, candidates, refuse_theta
from cbq.pooled.hyperparameters import UNKNOWN, KernelChoice, choose, residuals
from cbq.pooled.integrals import Integrals, line_for
from cbq.pooled.landmarks import landmarks
from cbq.pooled.pool import PooledPoints, pooled_points
from cbq.pooled.process import PooledGP, nearest_psd

__all__ = [
    "UNKNOWN",
    "Integrals",
    "KernelChoice",
    "PooledGP",
    "PooledPoints",
    "SplitHalfCalibration",
    "XThetaKernel",
    "candidates",
    "choose",
    "landmarks",
    "line_for",
    "nearest_psd",
    "pooled_points",
    "process",
    "refuse_theta",
    "residuals",
    "split_half_calibration",
]
