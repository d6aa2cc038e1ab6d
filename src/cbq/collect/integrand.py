"""Calling the integrand, and checking what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cbq._arrays import Array, evenly, rows_not_finite
from cbq.checkpoint.evaluations import Batch, BatchResult, Outputs

Integrand = Callable[[Array, Array], Any]
PROBE_POINTS = 3  # of the first call to a vectorised f: enough to tell (n, C) from (C, n) for one or two outputs
PROBE_THETAS = 8  # at which f is tried if it fails at the first theta and failures are skipped


class IntegrandError(RuntimeError):
    """The integrand failed at point i, x (d,), of theta index t, theta (p,); each is None where it is not known."""

    def __init__(self, message: str, t: Any = None, theta: Any = None, i: Any = None, x: Any = None) -> None:
        super().__init__(message)
        self.t, self.theta, self.i, self.x = t, theta, i, x


class WrongReturn(IntegrandError):
    """The integrand returned an array of the wrong shape or type: a mistake in its code, not a failure at a point."""


class EvaluationSite(NamedTuple):
    """Where f is evaluated: theta (p,), its index t (None outside of a run), and the index of the first point."""

    theta: Array
    t: int | None = None
    start: int = 0

    def describe(self, i: int | None = None, x: Array | None = None) -> str:
        """Point i of the points from here on, x (d,), or all of them, for messages."""
        theta = f"theta = {self.theta}" if self.t is None else f"theta index t = {self.t} (theta = {self.theta})"
        return f" at {theta}" if i is None else f" at {theta}, point i = {self.start + i} (x = {x})"


class Task(NamedTuple):
    """A batch to evaluate, with everything that this needs besides f."""

    batch: Batch
    theta: Array  # (p,)
    x: Array  # (n, d)
    outputs: Outputs
    skip_failures: bool


@dataclass(frozen=True)
class Evaluator:
    """The integrand, and whether it takes many points at a time. Workers receive this object."""

    integrand: Integrand
    vectorized: bool

    def evaluate(self, task: Task) -> BatchResult:
        """Evaluate a batch; failures of f are raised, or recorded if the task says so."""
        t, start, _ = task.batch
        location = EvaluationSite(task.theta, t, start)
        if task.skip_failures:
            return BatchResult(task.batch, *self._values_and_failures(location, task.x, task.outputs))
        return BatchResult(task.batch, self.values(location, task.x, task.outputs), {})

    def values(self, location: EvaluationSite, x: Array, outputs: Outputs | None = None) -> Array:
        """f at x (n, d): (n, *outputs), all finite; `outputs` is what earlier calls returned."""
        f = self._call_checked(location, x, outputs)
        bad = rows_not_finite(f)
        if np.any(bad):
            i = int(np.argmax(bad))
            raise IntegrandError(
                f"the integrand returned {f[i]}{location.describe(i, x[i])}, and NaN or inf at "
                f"{np.count_nonzero(bad)} of the {len(x)} points there: values must be finite.",
                *(location.t, location.theta, location.start + i, x[i]),
            )
        return f

    def _values_and_failures(
        self, location: EvaluationSite, x: Array, outputs: Outputs
    ) -> tuple[Array, dict[int, str]]:
        """f at x (n, d), (n, *outputs), NaN where it fails; and what it did there, by the index of the point."""
        if self.vectorized or len(x) == 1:
            try:
                return _marked(self._call_checked(location, x, outputs), location.start)
            except WrongReturn:
                raise
            except IntegrandError as error:
                if len(x) == 1:
                    reason = f"raised {type(error.__cause__).__name__}: {error.__cause__}"
                    return np.full((1, *outputs), np.nan), {location.start: reason}
        # Only calls with one point each can tell at which of them f fails.
        starts = range(location.start, location.start + len(x))
        parts = [
            self._values_and_failures(location._replace(start=start), x[i : i + 1], outputs)
            for i, start in enumerate(starts)
        ]
        return np.concatenate([f for f, _ in parts]), {i: reason for _, one in parts for i, reason in one.items()}

    def _call_checked(self, location: EvaluationSite, x: Array, outputs: Outputs | None) -> Array:
        """What the integrand returns at x (n, d) as a new array (n, *outputs)."""
        n, values = len(x), self._call(location, x)
        try:
            raw = np.asarray(values)
            if raw.dtype.kind not in "buif":
                raise TypeError(f"values of type {raw.dtype}")
        except (TypeError, ValueError) as error:
            raise WrongReturn(
                f"the integrand must return real numbers, one or C for each of the {n} points{location.describe()}, "
                f"but it returned something else ({error}).",
                *(location.t, location.theta),
            ) from error
        as_before = outputs is None or raw.shape[1:] == outputs
        if raw.shape[:1] != (n,) or raw.ndim > 2 or 0 in raw.shape or not as_before:
            needed = f"({n},) or ({n}, C)" if outputs is None else f"{(n, *outputs)}"
            raise WrongReturn(
                f"the integrand returned shape {raw.shape} for {n} points{location.describe()}, but {needed} is "
                f"needed: one value, or C values, for each row of x. If it takes one point at a time, pass "
                f"vectorized=False.",
                *(location.t, location.theta),
            )
        return np.array(raw, dtype=np.float64)

    def _call(self, location: EvaluationSite, x: Array) -> Any:
        """What the integrand returns. It receives copies, so that it may change its arguments."""
        values = []
        for i, points in enumerate(x[None] if self.vectorized else x):
            try:
                values.append(self.integrand(points.copy(), location.theta.copy()))
            except Exception as error:
                raise _raised(error, location, None if self.vectorized else i, x) from error
        return values[0] if self.vectorized else values


def probe_outputs(evaluator: Evaluator, thetas: Array, x: Sequence[Array], *, skip_failures: bool) -> Outputs:
    """The shape of f at one point, from a small call at the first theta, before anything expensive starts.

    skip_failures: where f fails there, try the first points of some other thetas; one of these calls must succeed.
    """
    n = PROBE_POINTS if evaluator.vectorized else 1
    try:
        return evaluator.values(EvaluationSite(thetas[0], 0), x[0][:n]).shape[1:]
    except WrongReturn:
        raise
    except IntegrandError:
        for t, i in _other_points(x) if skip_failures else ():
            try:
                return evaluator.values(EvaluationSite(thetas[t], t, i), x[t][i : i + 1]).shape[1:]
            except WrongReturn:
                raise
            except IntegrandError:
                continue
        raise


def _marked(f: Array, start: int) -> tuple[Array, dict[int, str]]:
    """f (n, *outputs) with NaN in each row that is not finite; and what it was there, by the index of the point."""
    bad = rows_not_finite(f)
    failures = {start + int(i): f"returned {f[i]}" for i in np.flatnonzero(bad)}
    f[bad] = np.nan
    return f, failures


def _other_points(x: Sequence[Array]) -> Iterable[tuple[int, int]]:
    """Points (t, i) to try: the first ones of the first theta, and the first of other thetas, evenly spread."""
    yield from ((0, i) for i in range(min(PROBE_POINTS, len(x[0]))))
    yield from ((int(t), 0) for t in evenly(len(x), PROBE_THETAS) if t > 0)


def _raised(error: Exception, location: EvaluationSite, i: int | None, x: Array) -> IntegrandError:
    """The error for an exception of the integrand at point i of x, or at one of its points if i is None."""
    point = None if i is None else x[i]
    among = f" among the {len(x)} points from x = {x[0]} on" if i is None else ""
    message = f"the integrand raised {type(error).__name__}{location.describe(i, point)}{among}: {error}"
    return IntegrandError(message, location.t, location.theta, None if i is None else location.start + i, point)
