"""The kernels that a pooled process may have: those that all laws have an embedding for, in shared coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Booleans
from cbq.embeddings import NoEmbedding, embed
from cbq.kernels import RBF, Kernel, Matern, Stein, TensorProduct, Warped
from cbq.kernels.base import Composite, as_points
from cbq.kernels.combine import PRODUCT, parts_to_fit, split_lengthscales
from cbq.linalg.features import Features
from cbq.measures import Measure
from cbq.samples import Samples

Auto = Literal["auto"]


class Joint(Composite):
    """k_X(x, x') k_Theta(theta, theta') on points (x, theta) (..., N, d + p), of which the first d are x."""

    combination = PRODUCT

    def __init__(self, kernel_x: Kernel, kernel_theta: Kernel, d: int) -> None:
        self.parts, self.d = (kernel_x, kernel_theta), d

    def __repr__(self) -> str:
        x, theta = self.parts
        return f"{x!r} of x times {theta!r} of theta"

    def with_log_lengthscales(self, values: npt.ArrayLike) -> Joint:
        kernel_x, kernel_theta = split_lengthscales(self.parts, values)
        return Joint(kernel_x, kernel_theta, self.d)

    def _to_fit(self, x: Array, ard: bool) -> tuple[Self, Booleans]:
        (kernel_x, kernel_theta), free = parts_to_fit(self.parts, self._split(x), ard)
        return type(self)(kernel_x, kernel_theta, self.d), free

    def check_dim(self, d: int) -> None:
        self.parts[0].check_dim(self.d)
        self.parts[1].check_dim(d - self.d)

    def bind(self, measure: Measure) -> Joint:
        return self  # its kernels need no law

    def diag(self, x: npt.ArrayLike) -> Array:
        first, second = (k.diag(part) for k, part in zip(self.parts, self._split(as_points(x)), strict=True))
        return first * second

    def features(self, x: Array) -> Features:
        return tuple(k.features(part) for k, part in zip(self.parts, self._split(x), strict=True))

    def _split(self, x: Array) -> tuple[Array, Array]:
        return x[..., : self.d], x[..., self.d :]


def candidates(samples: Samples, kernel_x: Kernel | Auto, kernel_theta: Kernel | Auto) -> list[Kernel]:
    """The kernels to choose from, rough ones first: of x, or of x and theta where f depends on both."""
    on_x = [kernel_x] if isinstance(kernel_x, Kernel) else _on_x(samples)
    for kernel in on_x:
        _refuse_unshared(kernel)
    if isinstance(kernel_x, Kernel):
        _embeddable(kernel_x, samples.measures)
    if not samples.depends_on_theta:
        return on_x
    if isinstance(kernel_theta, Kernel):
        return [Joint(k, kernel_theta, samples.d) for k in on_x]
    positive = bool(np.all(samples.theta > 0))
    return [Joint(k, each, samples.d) for k in on_x for each in _on_theta(smoothness(k), positive)]


def _on_x(samples: Samples) -> list[Kernel]:
    """The kernels of x, from rough to smooth, on x and, if it is positive, on log x."""
    laws = samples.measures
    positive = bool(np.all(samples.all_points > 0)) and all(np.all(law.support[0] >= 0) for law in laws)
    rough: list[Kernel] = [Matern(1.5), Matern(2.5)]
    if samples.d > 1:  # radial Matern kernels have embeddings under Gaussian laws, tensor products under independence
        rough = [TensorProduct(k) if _has_embedding(TensorProduct(k), laws) else k for k in (Matern(1.5), Matern(2.5))]
    found = [
        kernel
        for base in (*rough, RBF())
        for kernel in ([base, Warped(base, "log")] if positive else [base])
        if _has_embedding(kernel, laws)
    ]
    if not found:
        raise NoEmbedding(
            f"no kernel on x itself or on log x has an embedding under all laws of x, such as {laws[0]!r}: a pooled "
            f"process needs one kernel for the points of all thetas. Take cbq.CBQ(), whose kernels act on coordinates "
            f"of each theta's own."
        )
    return found


def smoothness(kernel: Kernel) -> Kernel:
    """RBF or the Matern kernel that a kernel, as far as it acts on x, is made of."""
    base = kernel.parts[0] if isinstance(kernel, Joint) else kernel
    base = base.base if isinstance(base, Warped) else base
    base = base.base if isinstance(base, TensorProduct) and isinstance(base.base, Kernel) else base
    return Matern(base.nu) if isinstance(base, Matern) else RBF()


def _on_theta(like: Kernel, positive: bool) -> Iterator[Kernel]:
    """Kernels of theta: as smooth as that of x, or analytic; on theta or, if it is positive, on log theta."""
    for kernel in (like,) if isinstance(like, RBF) else (like, RBF()):
        yield kernel
        if positive:
            yield Warped(kernel, "log")


def _has_embedding(kernel: Kernel, laws: Sequence[Measure]) -> bool:
    try:
        _embeddable(kernel, laws)
    except (NoEmbedding, TypeError):
        return False
    return True


def _embeddable(kernel: Kernel, laws: Sequence[Measure]) -> None:
    """Raise unless each kind of law has an embedding for the kernel."""
    kinds = {type(law): law for law in laws}
    for law in kinds.values():
        guess, _ = kernel.to_fit(np.array([[0.5], [1.5]]) * np.ones(law.dim), ard=False)
        embed(guess, law)


def _refuse_unshared(kernel: Kernel) -> None:
    if isinstance(kernel, Stein) or kernel.needs_measure:
        what = "a Stein kernel is made from the score of one law" if isinstance(kernel, Stein) else "it takes a law"
        raise ValueError(
            f"kernel_x = {kernel!r} cannot be shared by all thetas: {what}, and every theta has its own, while a "
            f"pooled process has one kernel for all points. Take a kernel of x itself, or cbq.CBQ(kernel_x=...)."
        )
    if not np.all(kernel.to_fit(np.ones((2, 1)), ard=False)[1]) and kernel.log_lengthscales.ndim > 1:
        raise ValueError(f"{kernel!r} has lengthscales for a batch, but a pooled process has one kernel.")
