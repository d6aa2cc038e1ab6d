"""The runs that a session asks for, and checks of the results that it is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.checkpoint import Batch, BatchResult, Outputs
from cbq.common import Array, is_number, real, rows_not_finite, shown
from cbq.report import ArrayTable
from cbq.samples import Names, by_run, rows_outside, shown_bounds


@dataclass(frozen=True, eq=False, repr=False)
class Asked(ArrayTable):
    """Runs to be made: their ids (n,), theta (n, p) and x (n, d).

    Examples
    --------
    >>> problem = cbq.Problem(None, lambda theta: cbq.measures.Gaussian(theta, cov=1.0), cbq.measures.Uniform(0.0, 2.0))
    >>> with problem.session(rng=0) as session:
    ...     runs = session.ask(4)
    >>> [number for number, theta, x in runs]
    [0, 1, 2, 3]
    """

    ids: npt.NDArray[np.intp]
    theta: Array
    x: Array
    names: Names

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[int, Array, Array]]:
        """Each run: its id, theta (p,) and x (d,)."""
        return iter([(int(i), theta, x) for i, theta, x in zip(self.ids, self.theta, self.x, strict=True)])

    def __add__(self, other: Asked) -> Asked:
        """These runs, and then others of the same session."""
        ids, theta, x = (np.concatenate([getattr(self, each), getattr(other, each)]) for each in ("ids", "theta", "x"))
        return Asked(ids, theta, x, self.names)

    def to_columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of a table, (n,) each: id, and the coordinates of theta and x by their names."""
        return {"id": self.ids, **by_run(self.theta, self.x, self.names)}

    def __repr__(self) -> str:
        if not len(self):
            return "Asked(no runs)"
        x = f", {self.names.ranges('x', self.x)}"
        return f"Asked({len(self)} runs, {self.names.ranges('theta', self.theta)}{x})"


class RefusedResult(ValueError):
    """A result that a session refuses. id : of the run."""

    def __init__(self, id: int, message: str) -> None:
        super().__init__(message)
        self.id = id


@dataclass(frozen=True, eq=False)
class ExpectedResults:
    """The rules for results.

    n: the number of runs that were asked for. known: values so far, by id. outputs: the shape of a value, None before
    the first. names: of the coordinates and outputs. bounds: of f, (2, 1) or (2, C), unless f is random.
    """

    n: int
    known: Mapping[int, Array]
    outputs: Outputs | None
    names: Names
    bounds: Array | None

    def values(self, ids: npt.ArrayLike, values: npt.ArrayLike | None) -> list[BatchResult]:
        """Results from ids (n,) and values (n, *outputs), checked."""
        given = real(ids, "ids")
        if given.ndim > 1:
            raise ValueError(f"ids must be a number or of shape (n,), but their shape is {given.shape}.")
        numbers = np.atleast_1d(given).tolist()
        rows = self._checked([int(number) if number.is_integer() else number for number in numbers], "ids")
        if values is None:
            if rows:
                raise ValueError("tell needs the values of these runs, or failures={id: reason} for runs without one.")
            return []
        f = np.atleast_1d(real(self.names.ordered("f", values, "values"), "values"))
        if given.ndim == 0 and (f.shape != (1,) or self.outputs == (1,)):
            f = f[None]
        n, as_before = len(rows), self.outputs is None or f.shape[1:] == self.outputs
        if f.ndim > 2 or 0 in f.shape[1:] or len(f) != n or not as_before:
            needed = f"({n},) or ({n}, C)" if self.outputs is None else f"{(n, *self.outputs)}"
            raise ValueError(f"values have shape {f.shape}, but for {n} ids they must have shape {needed}.")
        bad = rows_not_finite(f)
        if np.any(bad):
            i = int(np.argmax(bad))
            raise RefusedResult(
                rows[i],
                f"the value of run {rows[i]} is {f[i]}, but values must be finite: tell a run without a value as "
                f"failures={{{rows[i]}: 'the reason'}}.",
            )
        self._check_bounds(rows, f)
        for t, value in zip(rows, f, strict=True):
            if t in self.known and not np.array_equal(self.known[t], value):
                raise RefusedResult(
                    t,
                    f"values have {value} for run {t}, which was told before, with the value {self.known[t]}: a run "
                    f"is told once. Ask for more runs to make one again.",
                )
        pairs = [(t, value) for t, value in zip(rows, f, strict=True) if t not in self.known]
        return [BatchResult(Batch(t, 0, 1), np.array(value, dtype=np.float64)[None], {}) for t, value in pairs]

    def _check_bounds(self, rows: Sequence[int], f: Array) -> None:
        bounds = self.bounds
        if bounds is None:
            return
        table = f.reshape(len(f), -1)
        if bounds.shape[1] not in (1, table.shape[1]):
            raise ValueError(
                f"values have shape {f.shape}, but the bounds of the problem have {bounds.shape[1]} outputs."
            )
        outside = rows_outside(table, bounds)
        if np.any(outside):
            i = int(np.argmax(outside))
            raise RefusedResult(
                rows[i],
                f"the value of run {rows[i]} is {f[i]}, but it must lie within the bounds {shown_bounds(bounds)}.",
            )

    def failures(self, failures: Mapping[int, str]) -> list[BatchResult]:
        if not isinstance(failures, Mapping):
            raise TypeError(f"failures must be a mapping from ids to texts, but it is {shown(failures)}.")
        rows = self._checked(list(failures), "failures")
        for t in rows:
            if t in self.known:
                raise RefusedResult(
                    t, f"run {t} was told before, with the value {self.known[t]}: it cannot fail any more."
                )
        return [BatchResult(Batch(t, 0, 1), np.array([np.nan]), {0: str(failures[t])}) for t in rows]

    def _checked(self, ids: Sequence[Any], name: str) -> list[int]:
        n = self.n
        for number in ids:
            if not is_number(number) or not 0 <= number < n or number != int(number):
                known = f"runs 0 to {n - 1} were asked for" if n else "nothing was asked for yet"
                raise RefusedResult(
                    number, f"{name} must be numbers of runs, but there is no run {shown(number)}: {known}."
                )
        if len(set(ids)) < len(ids):
            raise ValueError(f"{name} contain a run twice: tell each run once.")
        return [int(number) for number in ids]
