"""The kernels that a pooled process may have: those that all measures have an embedding for, in shared coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Booleans
from cbq.embeddings import NoEmbedding, embed
from cbq.io import Instance, Integer, saved
from cbq.kernels import RBF, Kernel, Matern, Stein, TensorProduct, Warped
from cbq.kernels.base import Composite, as_points
from cbq.kernels.combine import PRODUCT, parts_to_fit, split_lengthscales
from cbq.linalg.features import Features
from cbq.measures import Measure
from cbq.samples import Samples

Automatic = Literal["auto"]


@saved(
    "XThetaKernel",
    read=lambda kernel: dict(zip(("kernel_x", "kernel_theta"), kernel.parts, strict=True)),
    kernel_x=Instance(Kernel),
    kernel_theta=Instance(Kernel),
    d=Integer(1),
)
class XThetaKernel(Composite):
    """k_X(x, x') k_Theta(theta, theta') on points (x, theta) (..., N, d + p), of which the first d are x."""

    combination = PRODUCT

    def __init__(self, kernel_x: Kernel, kernel_theta: Kernel, d: int) -> None:
        self.parts, self.d = (kernel_x, kernel_theta), d

    def __repr__(self) -> str:
        x, theta = self.parts
        return f"{x!r} of x times {theta!r} of theta"

    def with_log_lengthscales(self, values: npt.ArrayLike) -> XThetaKernel:
        kernel_x, kernel_theta = split_lengthscales(self.parts, values)
        return XThetaKernel(kernel_x, kernel_theta, self.d)

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        (kernel_x, kernel_theta), free = parts_to_fit(self.parts, self._split(x), ard)
        return type(self)(kernel_x, kernel_theta, self.d), free

    def check_dim(self, d: int) -> None:
        self.parts[0].check_dim(self.d)
        self.parts[1].check_dim(d - self.d)

    def bind(self, measure: Measure) -> XThetaKernel:
        return self  # its kernels need no measure

    def diag(self, x: npt.ArrayLike) -> Array:
        first, second = (k.diag(part) for k, part in zip(self.parts, self._split(as_points(x)), strict=True))
        return first * second

    def features(self, x: Array) -> Features:
        return tuple(k.features(part) for k, part in zip(self.parts, self._split(x), strict=True))

    def _split(self, x: Array) -> tuple[Array, Array]:
        return x[..., : self.d], x[..., self.d :]


def candidates(samples: Samples, kernel_x: Kernel | Automatic, kernel_theta: Kernel | Automatic) -> list[Kernel]:
    """The kernels to choose from, rough ones first: of x, or of x and theta where f depends on both."""
    if isinstance(kernel_x, Kernel):
        _refuse_unshared(kernel_x, samples.all_points, "kernel_x")
        _embeddable(kernel_x, samples)
        on_x = [kernel_x]
    else:
        on_x = _on_x(samples)
    if not samples.depends_on_theta:
        return on_x
    if isinstance(kernel_theta, Kernel):
        _refuse_unshared(kernel_theta, samples.theta, "kernel_theta")
        return [XThetaKernel(k, kernel_theta, samples.d) for k in on_x]
    positive = bool(np.all(samples.theta > 0))
    return [XThetaKernel(k, each, samples.d) for k in on_x for each in _on_theta(smoothness(k), positive)]


def refuse_theta(kernel: Kernel, theta: Array) -> None:
    """Raise where a kernel takes the logarithm of thetas (M, p) that have none."""
    of_theta = kernel.parts[1] if isinstance(kernel, XThetaKernel) else None
    if isinstance(of_theta, Warped) and of_theta.warp.name == "log" and np.any(theta <= 0):
        row = theta[int(np.argmax(np.any(theta <= 0, axis=1)))]
        raise ValueError(
            f"theta must be positive, but one is {row}: all observed thetas are, and the fit works with their "
            f"logarithms. Fit again with kernel_theta=cbq.kernels.RBF() to predict at such thetas."
        )


def _on_x(samples: Samples) -> list[Kernel]:
    """The kernels of x, from rough to smooth, on x and, if it is positive, on log x."""
    positive = bool(np.all(samples.all_points > 0)) and all(
        np.all(measure.support[0] >= 0) for measure in samples.measures
    )
    matern = (Matern(1.5), Matern(2.5))
    rough: list[Kernel] = list(matern)
    if (
        samples.d > 1
    ):  # radial Matern kernels have embeddings under Gaussian distributions, tensor products under independence
        rough = [TensorProduct(k) if _has_embedding(TensorProduct(k), samples) else k for k in matern]
    found = [
        kernel
        for base in (*rough, RBF())
        for kernel in ([base, Warped(base, "log")] if positive else [base])
        if _has_embedding(kernel, samples)
    ]
    if not found:
        raise NoEmbedding(
            f"no kernel on x itself or on log x has an embedding under all measures of x, such as {samples.measure(0)!r}: a "
            f"pooled process needs one kernel for the points of all thetas. Take cbq.CBQ(), whose kernels act on "
            f"coordinates of each theta's own."
        )
    return found


def smoothness(kernel: Kernel) -> Kernel:
    """RBF or the Matern kernel that a kernel, as far as it acts on x, is made of."""
    base = kernel.parts[0] if isinstance(kernel, XThetaKernel) else kernel
    base = base.base if isinstance(base, Warped) else base
    base = base.base if isinstance(base, TensorProduct) and isinstance(base.base, Kernel) else base
    return Matern(base.nu) if isinstance(base, Matern) else RBF()


def _on_theta(like: Kernel, positive: bool) -> Iterator[Kernel]:
    """Kernels of theta: as smooth as that of x, or analytic; on theta or, if it is positive, on log theta."""
    for kernel in (like,) if isinstance(like, RBF) else (like, RBF()):
        yield kernel
        if positive:
            yield Warped(kernel, "log")


def _has_embedding(kernel: Kernel, samples: Samples) -> bool:
    try:
        _embeddable(kernel, samples)
    except (TypeError, ValueError):  # no embedding, or no logarithm of an atom
        return False
    return True


def _embeddable(kernel: Kernel, samples: Samples) -> None:
    """Raise unless all measures have an embedding for the kernel."""
    whole = samples.batched_measure()
    guess, _ = kernel.to_fit(samples.all_points, ard=False)
    for measure in [whole] if whole is not None else samples.measures:
        embed(guess, measure)


def _refuse_unshared(kernel: Kernel, points: Array, name: str) -> None:
    """Raise unless a kernel, given as `name`, can serve all points (n, d)."""
    if isinstance(kernel, Stein) or kernel.needs_measure:
        what = (
            "a Stein kernel is made from the score of one measure"
            if isinstance(kernel, Stein)
            else "it takes a measure"
        )
        raise ValueError(
            f"{name} = {kernel!r} cannot be shared by all thetas: {what}, and every theta has its own, while a pooled "
            f"process has one kernel for all points. Take a kernel such as cbq.kernels.RBF(), or cbq.CBQ(...)."
        )
    if kernel.to_fit(points, ard=False)[0].log_lengthscales.ndim > 1:
        raise ValueError(f"{name} = {kernel!r} has lengthscales for a batch, but a pooled process has one kernel.")
