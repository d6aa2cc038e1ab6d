"""Kernels of unit amplitude, their combinations, and the ones that follow a measure."""

from cbq.kernels.base import Kernel, ProductKernel, ScaledKernel, SumKernel
from cbq.kernels.coordinatewise import Additive, TensorProduct
from cbq.kernels.radial import RBF, Matern
from cbq.kernels.stein import Stein
from cbq.kernels.warped import Warped

__all__ = [
    "RBF",
    "Additive",
    "Kernel",
    "Matern",
    "ProductKernel",
    "ScaledKernel",
    "Stein",
    "SumKernel",
    "TensorProduct",
    "Warped",
]
