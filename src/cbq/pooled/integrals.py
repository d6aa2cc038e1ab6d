"""Integrals under the laws of some thetas, as a pooled process sees them: embeddings, initial errors, cross terms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq._arrays import Array
from cbq.embeddings import embed
from cbq.kernels import Kernel
from cbq.measures import Measure
from cbq.pooled.candidates import Joint
from cbq.samples.laws import stack


class Integrals:
    """The integrals of k(., u) against the laws of x at M thetas, theta being the one of the law where k takes both.

    kernel: of x, or a `Joint` one of x and theta. laws: M of them. theta: (M, p).
    """

    def __init__(self, kernel: Kernel, laws: Sequence[Measure], theta: Array) -> None:
        self.kernel_x, self.kernel_theta = kernel, None  # type: Kernel, Kernel | None
        if isinstance(kernel, Joint):
            self.kernel_x, self.kernel_theta = kernel.parts
        self.theta, self.d = theta, laws[0].dim
        whole = stack(tuple(laws))
        self.embeddings = [embed(self.kernel_x, law) for law in ([whole] if whole is not None else laws)]

    def mean(self, u: Array) -> Array:
        """The embeddings (M, n) at points u (n, D)."""
        mu = np.concatenate([np.atleast_2d(e.mean(u[:, : self.d])) for e in self.embeddings])
        mu = np.broadcast_to(mu, (len(self.theta), len(u)))  # one law may serve all thetas
        return mu if self.kernel_theta is None else mu * self.kernel_theta(self.theta, u[:, self.d :])

    def variance(self) -> Array:
        """The initial errors (M,)."""
        z = np.concatenate([np.atleast_1d(e.variance) for e in self.embeddings])
        z = np.broadcast_to(z, len(self.theta))
        return z if self.kernel_theta is None else z * self.kernel_theta.diag(self.theta)

    def cross(self) -> Array:
        """The cross terms (M, M) of all pairs."""
        M = len(self.theta)
        if len(self.embeddings) == 1 and M > 1:
            law = self.embeddings[0].measure
            square = embed(self.kernel_x, law[:, None]).cross(law[None, :]) if law.batch_shape else law_alone(self, M)
        else:
            square = np.array([[e.cross(other) for other in self.embeddings] for e in self.embeddings]).reshape(M, M)
        return square if self.kernel_theta is None else square * self.kernel_theta(self.theta)


def law_alone(integrals: Integrals, M: int) -> Array:
    """The cross terms (M, M) where all thetas have the same law."""
    return np.full((M, M), float(integrals.embeddings[0].variance))
