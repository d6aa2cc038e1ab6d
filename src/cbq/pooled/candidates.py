"""The kernels that a pooled process may have: those that all measures have an embedding for, in shared coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from cbq._arrays import Array
from cbq.embeddings import NoEmbedding, embed
from cbq.kernels import RBF, Kernel, Matern, Stein, TensorProduct, Warped, XThetaKernel
from cbq.kernels.warped import Log
from cbq.samples import Samples

Automatic = Literal["auto"]


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
    return [XThetaKernel(k, each, samples.d) for k in on_x for each in _on_theta(k.smoothness, positive)]


def refuse_theta(kernel: Kernel, theta: Array) -> None:
    """Raise where a kernel takes the logarithm of thetas (M, p) that have none."""
    of_theta = kernel.on_theta
    if isinstance(of_theta, Warped) and isinstance(of_theta.warp, Log) and np.any(theta <= 0):
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


def _on_theta(smoothness: float, positive: bool) -> Iterator[Kernel]:
    """Kernels of theta: as smooth as that of x, or analytic; on theta or, if it is positive, on log theta."""
    for kernel in (RBF(),) if smoothness == np.inf else (Matern(smoothness), RBF()):
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
