"""Random inputs of f, x or (theta, x), and their distribution given some of them.

Points come from numbers u in the unit cube, so that Sobol points serve. Given some inputs, the others are drawn from
the conditional of their declared distribution: inputs that are dependent stay dependent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cbq.common import Array, Integers, blocks
from cbq.measures import Measure, Product
from cbq.measures.base import stack
from cbq.measures.points import sobol
from cbq.samples import Samples, find_thetas


class RandomInputs(ABC):
    """The distribution of D inputs of f."""

    names: tuple[str, ...]
    indivisible: tuple[int, ...] = ()  # inputs of which either all are kept, or none

    @abstractmethod
    def points(self, u: Array) -> Array:
        """Points (n, D) from u (n, D)."""

    @abstractmethod
    def given(self, kept: Sequence[int], points: Array, u: Array) -> Array:
        """Points (n, D) with some inputs of others, `kept` and in order; the rest is drawn given these, from u."""

    @abstractmethod
    def parts(self, points: Array) -> tuple[Array, Array]:
        """x (n, d) and theta (n, p) of points."""

    def quantiles(self, j: int, shares: Sequence[float]) -> Array | None:
        """The quantiles (k,) of input j, where points may have them; otherwise None."""
        return None


@dataclass(frozen=True, eq=False)
class OneMeasure(RandomInputs):
    """Inputs with one joint measure: x at a theta, or (theta, x) if x has the same measure at every theta.

    theta : (p,), if it is none of the inputs; otherwise p of them, the first ones, are theta.
    """

    measure: Measure
    names: tuple[str, ...]
    p: int = 0
    theta: Array | None = None

    def points(self, u: Array) -> Array:
        return self.measure.transport(u)

    def given(self, kept: Sequence[int], points: Array, u: Array) -> Array:
        out, rest = points.copy(), [j for j in range(points.shape[1]) if j not in kept]
        others = self.measure.given(kept, points[:, kept])
        out[:, rest] = others.transport(u[:, None, rest])[:, 0]
        return out

    def parts(self, points: Array) -> tuple[Array, Array]:
        if self.theta is None:
            return points[:, self.p :], points[:, : self.p]
        return points, np.broadcast_to(self.theta, (len(points), len(self.theta)))

    def quantiles(self, j: int, shares: Sequence[float]) -> Array | None:
        return self.measure.marginal(j).transport(np.asarray(shares))[:, 0]


@dataclass(frozen=True, eq=False)
class Hierarchy(RandomInputs):
    """Inputs theta ~ Q and x ~ P_theta, so that x is informative about theta.

    Q is represented by `atoms` Sobol points, at which the family is asked once. Given a part of x, theta has a
    posterior: the likelihoods of the atoms.
    """

    prior: Measure
    samples: Samples
    names: tuple[str, ...]
    atoms: int = 1024

    @property
    def indivisible(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(range(self.prior.dim))

    @cached_property
    def _thetas(self) -> Array:
        """The atoms (m, p), in order, so that close u choose close thetas."""
        theta = self.prior.transport(sobol(self.atoms, self.prior.dim, np.random.default_rng(0)))
        return theta[np.lexsort(theta.T[::-1])]

    @cached_property
    def _measures(self) -> list[Measure]:
        """The measures of the atoms: m of them, or one with the batch shape (m,)."""
        every = self.samples.conditional(self._thetas)
        whole = stack(every)
        return list(every) if whole is None or not whole.batch_shape else [whole]

    def _at(self, atoms: Integers) -> list[Measure]:
        return [self._measures[0][atoms]] if len(self._measures) == 1 else [self._measures[k] for k in atoms]

    def points(self, u: Array) -> Array:
        p = self.prior.dim
        atoms = np.minimum((u[:, 0] * self.atoms).astype(np.intp), self.atoms - 1)
        return np.column_stack([self._thetas[atoms], _of_each(self._at(atoms), u[:, p:])])

    def given(self, kept: Sequence[int], points: Array, u: Array) -> Array:
        p, out = self.prior.dim, points.copy()
        of_x = [j - p for j in kept if j >= p]
        x = points[:, p:][:, of_x]
        keeps_theta = len(of_x) < len(kept)
        atoms = find_thetas(points[:, :p], self._thetas) if keeps_theta else self._posterior(of_x, x, u[:, 0])
        out[:, :p] = self._thetas[atoms]
        if rest := [j for j in range(points.shape[1] - p) if j not in of_x]:
            measures = self._at(atoms)
            rows = [x] if len(measures) == 1 else list(x)
            others = [measure.given(of_x, row) for measure, row in zip(measures, rows, strict=True)]
            out[:, [p + j for j in rest]] = _of_each(others, u[:, [p + j for j in rest]])
        return out

    def _posterior(self, of_x: list[int], x: Array, u: Array) -> Integers:
        """The atoms (n,) that u (n,) choose from the posteriors of theta given some coordinates x (n, k)."""
        marginals, chosen = [each.marginals(of_x) for each in self._measures], []
        for rows in blocks(len(x), 256):
            log = np.concatenate([each.logpdf(x[rows]).reshape(-1, len(x[rows])) for each in marginals]).T
            below = np.cumsum(np.exp(log - np.max(log, axis=1, keepdims=True)), axis=1)
            chosen.append(np.sum(below < u[rows, None] * below[:, -1:], axis=1))
        return np.concatenate(chosen)

    def parts(self, points: Array) -> tuple[Array, Array]:
        return points[:, self.prior.dim :], points[:, : self.prior.dim]


def inputs_at(samples: Samples, theta: Array) -> RandomInputs:
    """x at one theta (p,)."""
    return OneMeasure(samples.conditional.one(theta), samples.names.with_x(samples.d).x, theta=theta)


def joint_inputs(samples: Samples, prior: Measure) -> RandomInputs:
    """theta and x together."""
    names = samples.names.with_theta(samples.p).with_x(samples.d)
    labels, conditional = (*names.theta, *names.x), samples.conditional
    some = conditional(prior.transport(sobol(8, samples.p, np.random.default_rng(0))))
    if all(each.equals(some[0]) for each in some):
        return OneMeasure(Product([prior, some[0]]), labels, samples.p)
    return Hierarchy(prior, samples, labels)


def _of_each(measures: list[Measure], u: Array) -> Array:
    """A point (n, d) of each of n measures, or of one batch of them, from u (n, d)."""
    if len(measures) == 1:
        return measures[0].transport(u[:, None])[:, 0]
    return np.stack([measure.transport(row[None])[0] for measure, row in zip(measures, u, strict=True)])
