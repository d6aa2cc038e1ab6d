"""Integrals under the measures of some thetas, as a pooled process sees them: embeddings, initial errors, cross terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from cbq._arrays import Array
from cbq.embeddings import embed
from cbq.embeddings.panel_measures import PanelEmbedding
from cbq.kernels import Kernel
from cbq.measures import Measure
from cbq.measures.base import stack
from cbq.pooled.candidates import XThetaKernel
from cbq.pooled.line import LineRule

MEMORY = 2**23  # numbers in the covariances of the pairs of measures that are looked at together


class _Embedded(Protocol):
    """M measures of x, integrated against a kernel of x."""

    def mean(self, x: Array) -> Array:
        """E k(X, x) at points x (n, d): (M, n)."""

    def variance(self) -> Array:
        """E k(X, X'): (M,)."""

    def cross(self) -> Array:
        """E k(X, Y) for all pairs of measures: (M, M)."""


class Integrals:
    """The integrals of k(., u) against the measures of x at M thetas, theta being the one of the measure where k takes both.

    kernel: of x, or a `Joint` one of x and theta. measures: M of them. theta: (M, p). line: of all measures, if there is one.
    """

    def __init__(self, kernel: Kernel, measures: Sequence[Measure], theta: Array, line: LineRule | None = None) -> None:
        kernel_x, self.kernel_theta = kernel, None  # type: Kernel, Kernel | None
        if isinstance(kernel, XThetaKernel):
            kernel_x, self.kernel_theta = kernel.parts
        self.theta, self.d = theta, measures[0].dim
        whole = stack(tuple(measures))
        self._embedded: _Embedded
        if line is not None and (found := _on_line(line, measures)) is not None:
            self._embedded = _ByLine(kernel_x, *found)
        elif whole is not None:
            self._embedded = _Batch(kernel_x, whole, len(theta))
        else:
            self._embedded = _OneByOne(kernel_x, measures)

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


def _on_line(line: LineRule, measures: Sequence[Measure]) -> tuple[Array, Array] | None:
    """Nodes (Q, 1) and the masses (M, Q) of measures there, of a line that is made longer where one reaches beyond."""
    masses = line.masses(measures)
    if masses is None and (longer := line.extended(measures)) is not None:
        line, masses = longer, longer.masses(measures)
    return None if masses is None else (line.y, masses)


def line_for(kernel: Kernel, measures: Sequence[Measure]) -> LineRule | None:
    """A rule for all measures, where their embeddings take rules of their own."""
    kernel_x = kernel.parts[0] if isinstance(kernel, XThetaKernel) else kernel
    if measures[0].dim > 1 or not all(
        embed(kernel_x, measure).rule.endswith(PanelEmbedding.rule) for measure in measures
    ):
        return None
    line = LineRule.of(measures)
    return None if line.masses(measures) is None else line


class _Batch:
    """Measures that are one measure with batch shape (M,), or the same measure M times."""

    def __init__(self, kernel: Kernel, measure: Measure, M: int) -> None:
        self.kernel, self.measure, self.M, self.embedding = kernel, measure, M, embed(kernel, measure)

    def mean(self, x: Array) -> Array:
        return np.broadcast_to(self.embedding.mean(x), (self.M, len(x)))

    def variance(self) -> Array:
        return np.broadcast_to(self.embedding.variance, self.M)

    def cross(self) -> Array:
        if not self.measure.batch_shape:
            return np.full((self.M, self.M), float(self.embedding.variance))
        step = max(1, MEMORY // (self.M * self.measure.dim**2))
        parts = [self.measure[i : i + step, None] for i in range(0, self.M, step)]
        return np.concatenate([embed(self.kernel, part).cross(self.measure[None, :]) for part in parts])


class _OneByOne:
    """Measures of different kinds."""

    def __init__(self, kernel: Kernel, measures: Sequence[Measure]) -> None:
        self.embeddings = [embed(kernel, measure) for measure in measures]

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
    """Measures on the line as masses (M, Q) at nodes y (Q, 1)."""

    def __init__(self, kernel: Kernel, y: Array, masses: Array) -> None:
        self.kernel, self.y, self.masses = kernel, y, masses

    def mean(self, x: Array) -> Array:
        return np.asarray(self.masses @ self.kernel(self.y, x))

    def variance(self) -> Array:
        return np.asarray(np.sum((self.masses @ self.kernel(self.y)) * self.masses, axis=1))

    def cross(self) -> Array:
        return np.asarray(self.masses @ self.kernel(self.y) @ self.masses.T)
