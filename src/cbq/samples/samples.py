"""What was observed: thetas, the points drawn at each, the values of f there, and the measures of the points."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Booleans, Integers
from cbq._immutable import Immutable
from cbq.io import Boolean, Numbers, Text, saved
from cbq.measures import Measure
from cbq.measures.base import stack
from cbq.samples.arrays import as_thetas, equal_rows, flatten, group_averages, refuse_other_counts, some_infinite
from cbq.samples.conditional import ConditionalMeasure, Family, as_measures, log_density
from cbq.samples.saving import build_samples, read_samples
from cbq.samples.tables import block, columns

Design = Literal["iid", "sobol", "mcmc"]


@saved(
    "Samples",
    read=read_samples,
    build=build_samples,
    theta=Numbers("T p"),
    counts=Numbers("T", int, least=1, total="n"),
    x=Numbers("n d"),
    f=Numbers("n C"),
    single=Boolean(only_if=("C", 1)),
    log_density=Numbers("n"),
    depends_on_theta=Boolean(),
    design=Text(get_args(Design)),
)
class Samples(Immutable):
    """T thetas, and for each of them N_t points x with the values of f there. Immutable; arrays are read-only copies.

    Parameters
    ----------
    theta : (T, p); (T,) means p = 1. Equal thetas are allowed.
    x : (T, N, d), or (T, N) for d = 1; where the N_t differ, a list of T arrays (N_t, d) or (N_t,).
    f : (T, N), or (T, N, C) for C outputs; or a list of T arrays (N_t,) or (N_t, C).
    measure : the measures of x: a measure with batch shape (T,), or () where all thetas share one measure; a list of T
        measures; or a function from theta (p,) to a measure. Frozen scipy.stats distributions will do as well.
    depends_on_theta : whether f is a function of theta besides x. Where it is not, values can be reused.
    design : how the points were drawn from their measures: "iid", "sobol" or "mcmc".
    """

    theta: Array  # (T, p)
    counts: Integers  # (T,): N_t
    family: Family | None  # the function from theta to its measure, where one was given
    depends_on_theta: bool
    design: Design
    starts: Integers  # (T,): the rows of theta t in _x and _f are starts[t] : starts[t] + counts[t]
    _x: Array  # (sum N_t, d)
    _f: Array  # (sum N_t,) or (sum N_t, C)
    _measure: Measure | tuple[Measure, ...]

    def __init__(
        self,
        theta: npt.ArrayLike,
        x: npt.ArrayLike | Sequence[npt.ArrayLike],
        f: npt.ArrayLike | Sequence[npt.ArrayLike],
        measure: Any,
        *,
        depends_on_theta: bool = True,
        design: Design = "iid",
    ) -> None:
        if design not in get_args(Design):
            raise ValueError(f"design must be one of {', '.join(map(repr, get_args(Design)))}, but it is {design!r}.")
        theta = as_thetas(theta)
        (points, counts), (values, f_counts) = flatten(x, "x", len(theta)), flatten(f, "f", len(theta))
        refuse_other_counts(counts, f_counts)
        points = points[:, None] if points.ndim == 1 else points
        measure, family = as_measures(measure, theta, points.shape[1])
        self.theta, self.counts, self.family = theta, counts, family
        self.depends_on_theta, self.design = bool(depends_on_theta), design
        self.starts, self._x, self._f, self._measure = np.cumsum(counts) - counts, points, values, measure
        self._refuse(some_infinite(points), "x", points, "must be finite")
        self._refuse(some_infinite(values), "f", values, "must be finite")
        self._refuse(
            self.log_density() == -np.inf, "x", points, "must lie where the density of its measure is positive"
        )

    @classmethod
    def from_frame(cls, frame: Any, measure: Any, *, depends_on_theta: bool = True, design: Design = "iid") -> Samples:
        """Samples from a long table: one row per point, rows with equal theta belonging together.

        `frame` is a pandas DataFrame or a mapping from names to columns. Its columns are `theta` or `theta_*`, `x` or
        `x_*`, and `f` or `f_*`, in the order of the coordinates. Thetas come in the order of their first rows.
        """
        table = columns(frame)
        theta, _ = block(table, "theta")
        x, _ = block(table, "x")
        f, single = block(table, "f")
        bad = ~np.isfinite(theta).all(axis=1)
        if np.any(bad):
            raise ValueError(
                f"theta must be finite, but row {np.argmax(bad)} holds {theta[np.argmax(bad)]}: remove it."
            )
        kinds, first, group = np.unique(theta, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.argsort(order)[group.reshape(-1)]
        rows = np.split(np.argsort(rank, kind="stable"), np.cumsum(np.bincount(rank))[:-1])
        values = f[:, 0] if single else f
        return cls(
            kinds[order],
            [x[row] for row in rows],
            [values[row] for row in rows],
            measure,
            depends_on_theta=depends_on_theta,
            design=design,
        )

    @classmethod
    def from_checkpoint(cls, path: str | os.PathLike[str], measure: Any = None) -> Samples:
        """The samples of all finished batches of `problem.collect(..., checkpoint=path)`, without evaluating anything.

        Where the run has not ended, the N_t differ, and thetas without any value are left out; so are points at which
        the integrand failed. A run that is going on has the file for itself.

        measure: the measures of x, as for the constructor, in place of those of the file; a family, to have them at any
            theta, or because the file does not hold measures that are code of your own. Others than those of the file are
            refused.
        """
        from cbq.collect.loading import load_samples

        return load_samples(path, measure)

    def to_columns(self) -> dict[str, Array]:
        """The columns of a long table, each (sum N_t,), as `from_frame` reads them (which joins equal thetas)."""
        theta = np.repeat(self.theta, self.counts, axis=0)
        parts_of = {"theta": (theta, self.p == 1), "x": (self._x, self.d == 1), "f": (self._f, self.C is None)}
        table: dict[str, Array] = {}
        for name, (rows, single) in parts_of.items():
            parts = rows.reshape(len(rows), -1).T
            table |= {name if single else f"{name}_{j}": part.copy() for j, part in enumerate(parts)}
        return table

    @property
    def T(self) -> int:
        """The number of thetas."""
        return len(self.theta)

    @property
    def p(self) -> int:
        """The dimension of theta."""
        return int(self.theta.shape[1])

    @property
    def d(self) -> int:
        """The dimension of x."""
        return int(self._x.shape[1])

    @property
    def C(self) -> int | None:
        """The number of outputs of f; None where f has no axis of outputs."""
        return None if self._f.ndim == 1 else int(self._f.shape[1])

    @property
    def n_evaluations(self) -> int:
        """The number of points over all thetas."""
        return len(self._x)

    @property
    def is_ragged(self) -> bool:
        """Whether the N_t differ."""
        return bool(np.any(self.counts != self.counts[0]))

    @property
    def x(self) -> Array | tuple[Array, ...]:
        """The points (T, N, d); a tuple of T arrays (N_t, d) where the N_t differ."""
        return self._by_theta(self._x)

    @property
    def f(self) -> Array | tuple[Array, ...]:
        """The values (T, N) or (T, N, C); a tuple of T arrays (N_t,) or (N_t, C) where the N_t differ."""
        return self._by_theta(self._f)

    def points(self, t: int) -> Array:
        """The points of theta t: (N_t, d)."""
        return self._x[self._rows(t)]

    def values(self, t: int) -> Array:
        """The values of f at the points of theta t: (N_t,) or (N_t, C)."""
        return self._f[self._rows(t)]

    def measure(self, t: int) -> Measure:
        """The measure of x at theta t."""
        return self.conditional.observed_at(range(self.T)[t])

    @property
    def conditional(self) -> ConditionalMeasure:
        """The measure of x as a function of theta: at any theta where there is a family, else at the observed ones."""
        return ConditionalMeasure(self.theta, self._measure, self.family)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of x, one for each theta."""
        return tuple(self.measure(t) for t in range(self.T))

    def batched_measure(self) -> Measure | None:
        """One measure for all thetas, with batch shape (T,), or () where they share one measure; None if there is none."""
        return self._measure if isinstance(self._measure, Measure) else stack(self._measure)

    def select(self, indices: Any) -> Samples:
        """The samples of some thetas: `indices` is a number, a slice, a list or a mask, as NumPy takes them."""
        chosen = np.atleast_1d(np.arange(self.T)[indices])
        if chosen.size == 0:
            raise ValueError(f"select needs at least one of the {self.T} thetas, but {indices!r} chooses none.")
        rows = [self._rows(t) for t in chosen]
        counts, measure = self.counts[chosen], self._measure
        if not isinstance(measure, Measure):
            measure = tuple(measure[t] for t in chosen)
        elif measure.batch_shape:
            measure = measure[chosen]
        return self._changed(
            theta=self.theta[chosen],
            counts=counts,
            starts=np.cumsum(counts) - counts,
            _x=np.concatenate([self._x[row] for row in rows]),
            _f=np.concatenate([self._f[row] for row in rows]),
            _measure=measure,
        )

    def with_values(self, f: npt.ArrayLike | Sequence[npt.ArrayLike]) -> Samples:
        """The same thetas, points and measures with other values of f, given as to the constructor."""
        values, counts = flatten(f, "f", self.T)
        refuse_other_counts(self.counts, counts)
        self._refuse(some_infinite(values), "f", values, "must be finite")
        return self._changed(_f=values)

    def rescaled(self, shift: Array | float, scale: Array | float) -> Samples:
        """The same samples of (f - shift) / scale, both numbers or (C,)."""
        return self._changed(_f=(self._f - shift) / scale)

    def thinned(self, n: int) -> Samples:
        """At most n points of each theta: the first, or where they are a Markov chain, evenly spaced ones."""
        counts = np.minimum(self.counts, n)
        steps = self.counts // counts if self.design == "mcmc" else np.ones_like(counts)
        pairs = zip(self.starts, counts, steps, strict=True)
        rows = np.concatenate([start + step * np.arange(count) for start, count, step in pairs])
        return self._changed(counts=counts, starts=np.cumsum(counts) - counts, _x=self._x[rows], _f=self._f[rows])

    def regrouped(self, rows: Sequence[Integers]) -> Samples:
        """The same thetas and measures, each with the points of these rows, whatever theta they were drawn for."""
        counts, every = np.array([len(row) for row in rows]), np.concatenate(rows)
        return self._changed(counts=counts, starts=np.cumsum(counts) - counts, _x=self._x[every], _f=self._f[every])

    def merged(self) -> tuple[Samples, Integers]:
        """The samples with equal points of a theta made one, f averaged, and the row (n,) that each point went to.

        Markov chains repeat points, and so do draws from a finite measure.
        """
        rows, group = equal_rows(np.column_stack([self.owners, self._x]))
        if len(rows) == len(group):
            return self, np.arange(len(group))
        f = group_averages(self.table, group).reshape(len(rows), *self._f.shape[1:])
        counts = np.bincount(self.owners[rows], minlength=self.T)
        starts = np.cumsum(counts) - counts
        return self._changed(counts=counts, starts=starts, _x=self._x[rows], _f=f), group

    def averages(self, values: Array) -> Array:
        """The averages over the points of each theta (T, ...) of numbers that belong to points (sum N_t, ...)."""
        sums = np.add.reduceat(values, self.starts, axis=0)
        return np.asarray(sums / self.counts.reshape(-1, *(1,) * (values.ndim - 1)))

    def log_density(self) -> Array:
        """The log density of each point under its measure: (sum N_t,); zero where the measure has none."""
        whole, x = self.batched_measure(), self.x
        if whole is not None and isinstance(x, np.ndarray):
            return log_density(whole, x).reshape(-1)
        return np.concatenate([log_density(self.measure(t), self.points(t)) for t in range(self.T)])

    @property
    def all_points(self) -> Array:
        """All points, those of each theta together: (sum N_t, d)."""
        return self._x

    @property
    def table(self) -> Array:
        """All values of f, those of each theta together: (sum N_t, C), with C = 1 for a single output."""
        return self._f.reshape(len(self._f), -1)

    @property
    def owners(self) -> Integers:
        """The theta of each point, all points in one row: (sum N_t,)."""
        return np.repeat(np.arange(self.T), self.counts)

    def output(self, c: int) -> Samples:
        """The samples of output c alone, with C = None."""
        C = self.C or 1
        if not -C <= c < C:
            raise IndexError(f"there is no output {c}: f has {C} output{'s' * (C > 1)}, numbered from 0.")
        return self if self.C is None else self._changed(_f=np.ascontiguousarray(self._f[:, c]))

    @property
    def outputs(self) -> Iterator[Samples]:
        """The samples of every output, one after the other; of f itself where C is None."""
        return (self.output(c) for c in range(self.C or 1))

    def __repr__(self) -> str:
        N = f"{self.counts.min()}..{self.counts.max()}" if self.is_ragged else f"{self.counts[0]}"
        return f"Samples(T={self.T}, N={N}, p={self.p}, d={self.d}, C={self.C}, design={self.design!r})"

    def _rows(self, t: int) -> slice:
        t = range(self.T)[t]
        return slice(int(self.starts[t]), int(self.starts[t] + self.counts[t]))

    def _by_theta(self, flat: Array) -> Array | tuple[Array, ...]:
        if self.is_ragged:
            return tuple(flat[self._rows(t)] for t in range(self.T))
        return flat.reshape(self.T, int(self.counts[0]), *flat.shape[1:])

    def _refuse(self, bad: Booleans, name: str, flat: Array, rule: str) -> None:
        if not np.any(bad):
            return
        row, more = int(np.argmax(bad)), int(np.count_nonzero(bad)) - 1
        t = int(np.searchsorted(self.starts, row, side="right")) - 1
        raise ValueError(
            f"{name} {rule}, but it is {flat[row]} at theta index t = {t} (theta = {self.theta[t]}), point "
            f"i = {row - self.starts[t]}{f', and {more} more are like it' * (more > 0)}: correct it, or leave the "
            f"point out of x and f (lists of arrays may differ in length)."
        )

    def _changed(self, **values: Any) -> Self:
        new = object.__new__(type(self))
        new.__setstate__({**self.__dict__, **values})
        return new
