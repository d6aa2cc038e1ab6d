"""Kernels of unit amplitude, their combinations, and kernels that depend on a measure."""

from cbq.kernels.base import Kernel
from cbq.kernels.combinations import Additive, ProductKernel, ScaledKernel, SumKernel, TensorProduct, XThetaKernel
from cbq.kernels.custom import CustomKernel
from cbq.kernels.radial import RBF, Matern, Radial, standard_kernels
from cbq.kernels.stein import Stein
from cbq.kernels.warped import Warped

__all__ = [
    "RBF",
    "Additive",
    "CustomKernel",
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
    "standard_kernels",
]
