"""Kernels on points (x, theta)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from cbq._arrays import Array
from cbq.io import Instance, Integer, saved
from cbq.kernels.base import Kernel
from cbq.kernels.combinations import PRODUCT, Composite
from cbq.measures import Measure


@saved(
    "XThetaKernel",
    read=lambda kernel: {"kernel_x": kernel.on_x, "kernel_theta": kernel.on_theta},
    kernel_x=Instance(Kernel),
    kernel_theta=Instance(Kernel),
    d=Integer(1),
)
class XThetaKernel(Composite):
    """k_X(x, x') k_Theta(theta, theta') on points (x, theta) (..., N, d + p), the first d coordinates of which are x.

    Neither of the two kernels may depend on a measure: all thetas share them.
    """

    combination = PRODUCT

    def __init__(self, kernel_x: Kernel, kernel_theta: Kernel, d: int) -> None:
        self.parts, self.d = (kernel_x, kernel_theta), d

    def __repr__(self) -> str:
        return f"{self.on_x!r} of x times {self.on_theta!r} of theta"

    @property
    def on_x(self) -> Kernel:
        return self.parts[0]

    @property
    def on_theta(self) -> Kernel:
        return self.parts[1]

    def _with_parts(self, parts: Sequence[Kernel]) -> Self:
        kernel_x, kernel_theta = parts
        return type(self)(kernel_x, kernel_theta, self.d)

    def _inputs(self, x: Array) -> tuple[Array, Array]:
        return x[..., : self.d], x[..., self.d :]

    def check_dim(self, d: int) -> None:
        self.on_x.check_dim(self.d)
        self.on_theta.check_dim(d - self.d)

    def bind(self, measure: Measure) -> Self:
        return self
