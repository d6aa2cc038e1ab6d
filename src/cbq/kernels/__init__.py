"""Kernels of unit amplitude, their combinations, and kernels that depend on a measure."""

from cbq.kernels.base import Kernel
from cbq.kernels.combinations import ProductKernel, ScaledKernel, SumKernel, XThetaKernel
from cbq.kernels.coordinatewise import Additive, TensorProduct
from cbq.kernels.radial import RBF, Matern, Radial
from cbq.kernels.stein import Stein
from cbq.kernels.warped import Warped

__all__ = [
    "RBF",
    "Additive",
    "Kernel",
    "Matern",
    "ProductKernel",
    "Radial",
    "ScaledKernel",
    "Stein",
    "SumKernel",
    "TensorProduct",
    "Warped",
    "XThetaKernel",
]
