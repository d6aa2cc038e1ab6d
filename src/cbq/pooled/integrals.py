"""Integrals under the laws of some thetas, as a pooled process sees them: embeddings, initial errors, cross terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from cbq._arrays import Array
from cbq.embeddings import embed
from cbq.embeddings.panel_laws import PanelEmbedding
from cbq.kernels import Kernel
from cbq.measures import Measure
from cbq.pooled.candidates import Joint
from cbq.pooled.line import Line
from cbq.samples.laws import stack

MEMORY = 2**23  # numbers in the covariances of the pairs of laws that are looked at together


class _Embedded(Protocol):
    """M laws of x, integrated against a kernel of x."""

    def mean(self, x: Array) -> Array:
        """E k(X, x) at points x (n, d): (M, n)."""

    def variance(self) -> Array:
        """E k(X, X'): (M,)."""

    def cross(self) -> Array:
        """E k(X, Y) for all pairs of laws: (M, M)."""


class Integrals:
    """The integrals of k(., u) against the laws of x at M thetas, theta being the one of the law where k takes both.

    kernel: of x, or a `Joint` one of x and theta. laws: M of them. theta: (M, p). line: of all laws, if there is one.
    """

    def __init__(self, kernel: Kernel, laws: Sequence[Measure], theta: Array, line: Line | None = None) -> None:
        kernel_x, self.kernel_theta = kernel, None  # type: Kernel, Kernel | None
        if isinstance(kernel, Joint):
            kernel_x, self.kernel_theta = kernel.parts
        self.theta, self.d = theta, laws[0].dim
        whole = stack(tuple(laws))
        self._embedded: _Embedded
        if line is not None and (found := _on_line(line, laws)) is not None:
            self._embedded = _ByLine(kernel_x, *found)
        elif whole is not None:
            self._embedded = _Batch(kernel_x, whole, len(theta))
        else:
            self._embedded = _OneByOne(kernel_x, laws)

    def mean(self, u: Array) -> Array:
        """The embeddings (M, n) at points u (n, D)."""
        mu = self._embedded.mean(u[:, : self.d])
        return mu if self.kernel_theta is None else mu * self.kernel_theta(self.theta, u[:, self.d :])

    def variance(self) -> Array:
        """The initial errors (M,)."""
        z = self._embedded.variance()
        return z if self.kernel_theta is None else z * self.kernel_theta.diag(self.theta)

    def cross(self) -> Array:
        """The cross terms (M, M) of all pairs."""
        square = self._embedded.cross()
        return square if self.kernel_theta is None else square * self.kernel_theta(self.theta)


def _on_line(line: Line, laws: Sequence[Measure]) -> tuple[Array, Array] | None:
    """Nodes (Q, 1) and the masses (M, Q) of laws there, of a line that is made longer where one reaches beyond."""
    masses = line.masses(laws)
    if masses is None and (longer := line.extended(laws)) is not None:
        line, masses = longer, longer.masses(laws)
    return None if masses is None else (line.y, masses)


def line_for(kernel: Kernel, laws: Sequence[Measure]) -> Line | None:
    """A rule for all laws, where their embeddings take rules of their own."""
    kernel_x = kernel.parts[0] if isinstance(kernel, Joint) else kernel
    if laws[0].dim > 1 or not all(embed(kernel_x, law).rule.endswith(PanelEmbedding.rule) for law in laws):
        return None
    line = Line.of(laws)
    return None if line.masses(laws) is None else line


class _Batch:
    """Laws that are one measure with batch shape (M,), or the same law M times."""

    def __init__(self, kernel: Kernel, law: Measure, M: int) -> None:
        self.kernel, self.law, self.M, self.embedding = kernel, law, M, embed(kernel, law)

    def mean(self, x: Array) -> Array:
        return np.broadcast_to(self.embedding.mean(x), (self.M, len(x)))

    def variance(self) -> Array:
        return np.broadcast_to(self.embedding.variance, self.M)

    def cross(self) -> Array:
        if not self.law.batch_shape:
            return np.full((self.M, self.M), float(self.embedding.variance))
        step = max(1, MEMORY // (self.M * self.law.dim**2))
        parts = [self.law[i : i + step, None] for i in range(0, self.M, step)]
        return np.concatenate([embed(self.kernel, part).cross(self.law[None, :]) for part in parts])


class _OneByOne:
    """Laws of different kinds."""

    def __init__(self, kernel: Kernel, laws: Sequence[Measure]) -> None:
        self.embeddings = [embed(kernel, law) for law in laws]

    def mean(self, x: Array) -> Array:
        return np.stack([e.mean(x) for e in self.embeddings])

    def variance(self) -> Array:
        return np.array([float(e.variance) for e in self.embeddings])

    def cross(self) -> Array:
        found = np.diag(self.variance())
        for i, e in enumerate(self.embeddings):
            for j in range(i):
                found[i, j] = found[j, i] = float(e.cross(self.embeddings[j]))
        return found


class _ByLine:
    """Laws on the line as masses (M, Q) at nodes y (Q, 1)."""

    def __init__(self, kernel: Kernel, y: Array, masses: Array) -> None:
        self.kernel, self.y, self.masses = kernel, y, masses

    def mean(self, x: Array) -> Array:
        return np.asarray(self.masses @ self.kernel(self.y, x))

    def variance(self) -> Array:
        return np.asarray(np.sum((self.masses @ self.kernel(self.y)) * self.masses, axis=1))

    def cross(self) -> Array:
        return np.asarray(self.masses @ self.kernel(self.y) @ self.masses.T)
