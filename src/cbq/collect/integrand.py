"""Calling the integrand, and checking what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cbq._arrays import Array, evenly, real, rows_not_finite
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


class Points(NamedTuple):
    """Points x (n, d) of one theta (p,), its index t (None outside of a run), and the index of the first point."""

    theta: Array
    x: Array
    t: int | None = None
    start: int = 0

    def __str__(self) -> str:
        return f"theta = {self.theta}" if self.t is None else f"theta index t = {self.t} (theta = {self.theta})"

    def single(self, i: int) -> Points:
        """Point i of these alone."""
        return self._replace(x=self.x[i : i + 1], start=self.start + i)

    def failure(self, i: int, did: str, details: str = "") -> IntegrandError:
        """The error for what the integrand did at point i of these."""
        x, i_of_theta = self.x[i], self.start + i
        message = f"the integrand {did} at {self}, point i = {i_of_theta} (x = {x}){details}"
        return IntegrandError(message, self.t, self.theta, i_of_theta, x)


class Task(NamedTuple):
    """A batch to evaluate, with everything that this needs besides f."""

    batch: Batch
    points: Points
    outputs: Outputs
    skip_failures: bool


@dataclass(frozen=True)
class Evaluator:
    """The integrand, and whether it takes many points at a time. Workers receive this object."""

    integrand: Integrand
    vectorized: bool

    def evaluate(self, task: Task) -> BatchResult:
        """Evaluate a batch; failures of f are raised, or recorded if the task says so."""
        if task.skip_failures:
            return BatchResult(task.batch, *self._values_and_failures(task.points, task.outputs))
        return BatchResult(task.batch, self.values(task.points, task.outputs), {})

    def values(self, points: Points, outputs: Outputs | None = None) -> Array:
        """f at n points: (n, *outputs), all finite; `outputs` is what earlier calls returned."""
        f = self._call_checked(points, outputs)
        bad = rows_not_finite(f)
        if np.any(bad):
            i = int(np.argmax(bad))
            share = f"{np.count_nonzero(bad)} of the {len(f)} points there"
            raise points.failure(i, f"returned {f[i]}", f", and NaN or inf at {share}: values must be finite.")
        return f

    def _values_and_failures(self, points: Points, outputs: Outputs) -> tuple[Array, dict[int, str]]:
        """f at n points, (n, *outputs), NaN where it fails; and what it did there, by the index of the point."""
        n, start = len(points.x), points.start
        if self.vectorized or n == 1:
            try:
                f = self._call_checked(points, outputs)
                bad = rows_not_finite(f)
                failures = {start + int(i): f"returned {f[i]}" for i in np.flatnonzero(bad)}
                f[bad] = np.nan
                return f, failures
            except WrongReturn:
                raise
            except IntegrandError as error:
                if n == 1:
                    reason = f"raised {type(error.__cause__).__name__}: {error.__cause__}"
                    return np.full((1, *outputs), np.nan), {start: reason}
        # Only calls with one point each can tell at which of them f fails.
        parts = [self._values_and_failures(points.single(i), outputs) for i in range(n)]
        return np.concatenate([f for f, _ in parts]), {i: reason for _, one in parts for i, reason in one.items()}

    def _call_checked(self, points: Points, outputs: Outputs | None) -> Array:
        """What the integrand returns at n points as a new array (n, *outputs)."""
        n, values = len(points.x), self._call(points)
        try:
            raw = real(values, "its value")
        except (TypeError, ValueError) as error:
            raise WrongReturn(
                f"the integrand must return real numbers, one or C for each of the {n} points at {points}, but it "
                f"returned something else ({error}).",
                *(points.t, points.theta),
            ) from error
        as_before = outputs is None or raw.shape[1:] == outputs
        if raw.shape[:1] != (n,) or raw.ndim > 2 or 0 in raw.shape or not as_before:
            needed = f"({n},) or ({n}, C)" if outputs is None else f"{(n, *outputs)}"
            raise WrongReturn(
                f"the integrand returned shape {raw.shape} for {n} points at {points}, but {needed} is needed: one "
                f"value, or C values, for each row of x. If it takes one point at a time, pass vectorized=False.",
                *(points.t, points.theta),
            )
        return np.array(raw, dtype=np.float64)

    def _call(self, points: Points) -> Any:
        """What the integrand returns. It receives copies, so that it may change its arguments."""
        theta, x = points.theta, points.x
        if self.vectorized:
            try:
                return self.integrand(x.copy(), theta.copy())
            except Exception as error:
                among = f"among the {len(x)} points from x = {x[0]} on"
                message = f"the integrand raised {type(error).__name__} at {points} {among}: {error}"
                raise IntegrandError(message, points.t, theta) from error
        values = []
        for i, point in enumerate(x):
            try:
                values.append(self.integrand(point.copy(), theta.copy()))
            except Exception as error:
                raise points.failure(i, f"raised {type(error).__name__}", f": {error}") from error
        return values


def probe_outputs(evaluator: Evaluator, thetas: Array, x: Sequence[Array], *, skip_failures: bool) -> Outputs:
    """The shape of f at one point, from a small call at the first theta, before anything expensive starts.

    skip_failures: where f fails there, try single points of this and some other thetas; one of them must succeed.
    """
    probes = [Points(thetas[0], x[0][: PROBE_POINTS if evaluator.vectorized else 1], 0)]
    if skip_failures:
        probes += [Points(thetas[0], x[0], 0).single(i) for i in range(min(PROBE_POINTS, len(x[0])))]
        probes += [Points(thetas[t], x[t][:1], int(t)) for t in evenly(len(x), PROBE_THETAS)[1:]]
    errors = []
    for points in probes:
        try:
            return evaluator.values(points).shape[1:]
        except WrongReturn:
            raise
        except IntegrandError as error:
            errors.append(error)
    raise errors[0]
