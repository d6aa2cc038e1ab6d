"""Calls of the integrand, with checks of its values."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cbq.checkpoint import Batch, BatchResult, Outputs, require_outputs
from cbq.common import Array, as_text, real, rows_not_finite, sentence
from cbq.runs.draws import F_KEY, keyed_generator
from cbq.samples import Names, rows_outside, shown_bounds

Integrand = Callable[..., Any]  # of x and theta, and of rng or rngs if it is random and takes one of them


class IntegrandError(RuntimeError):
    """The integrand failed at point i, x (d,), of theta index t, theta (p,); each is None where it is not known.

    Examples
    --------
    >>> problem = cbq.Problem(
    ...     lambda x, theta: np.where(x[:, 0] > 0, 1.0, np.nan),
    ...     lambda theta: cbq.measures.Gaussian(theta, cov=1.0),
    ...     cbq.measures.Uniform(0.0, 1.0),
    ... )
    >>> try:
    ...     problem.collect(T=2, N=8, rng=0)
    ... except cbq.IntegrandError as error:
    ...     print(error.theta.shape, error.x.shape)
    (1,) (1,)
    """

    def __init__(self, message: str, t: Any = None, theta: Any = None, i: Any = None, x: Any = None) -> None:
        super().__init__(message)
        self.t, self.theta, self.i, self.x = t, theta, i, x


class WrongReturn(IntegrandError):
    """The integrand returned an array of the wrong shape or type: a mistake in its code, not a failure at a point."""


class OutsideBounds(WrongReturn):
    """The integrand returned a value outside its bounds: a mistake in its code, or in the bounds."""


class Points(NamedTuple):
    """Points x (n, d) of one theta (p,), its index t (None outside of a run), and the index of the first point."""

    theta: Array
    x: Array
    t: int | None = None
    start: int = 0

    def __str__(self) -> str:
        return f"theta = {self.theta}" if self.t is None else f"theta index t = {self.t} (theta = {self.theta})"

    def part(self, first: int, last: int) -> Points:
        """The points first : last of these."""
        return self._replace(x=self.x[first:last], start=self.start + first)

    def each(self) -> list[Points]:
        """Each of these points alone."""
        return [self.part(i, i + 1) for i in range(len(self.x))]

    def failure(self, i: int, did: str, details: str = "") -> IntegrandError:
        """The error of the integrand at point i of these."""
        x, i_of_theta = self.x[i], self.start + i
        message = f"the integrand {did} at {self}, point i = {i_of_theta} (x = {x}){details}"
        return IntegrandError(message, self.t, self.theta, i_of_theta, x)


class Task(NamedTuple):
    """Points of a run to evaluate, with everything that this needs besides f.

    outputs: the shape of f at one point, None if it is not known yet.
    """

    points: Points
    outputs: Outputs | None
    skip_failures: bool

    @property
    def n(self) -> int:
        """The number of points."""
        return len(self.points.x)

    @property
    def batch(self) -> Batch:
        return _batch(self.points)

    def part(self, first: int, last: int) -> Task:
        """The points first : last of this task."""
        return self._replace(points=self.points.part(first, last))

    def after(self, done: int) -> Task | None:
        """What is left when the first `done` points are evaluated."""
        return self.part(done, self.n) if done < self.n else None

    def failed(self, reason: str) -> BatchResult:
        """The result where f fails at all points, for the same reason."""
        indices = range(self.points.start, self.points.start + self.n)
        return BatchResult(self.batch, np.full((self.n, *(self.outputs or ())), np.nan), dict.fromkeys(indices, reason))


def _batch(points: Points) -> Batch:
    return Batch(points.t or 0, points.start, points.start + len(points.x))


def rng_parameter(integrand: Integrand | None) -> inspect.Parameter | None:
    """The parameter `rng` or `rngs` of a function, None if it has none that can be passed by name."""
    if integrand is None:
        return None
    try:
        parameters = inspect.signature(integrand).parameters
    except (ValueError, TypeError):  # compiled
        return None
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = [parameters[name] for name in ("rng", "rngs") if name in parameters]
    return next((each for each in found if each.kind in by_name), None)


NO_NAMES = Names()


@dataclass(frozen=True)
class Evaluator:
    """The integrand, and how it is called. Workers receive this object.

    vectorized : whether it takes many points at a time.
    entropy : of a run, if the integrand takes generators: each point has its own, which depends on this and on the
        indices of theta and of the point.
    takes_rngs : whether it takes those of many points, as a list `rngs`; with `rng`, each point is evaluated alone.
    bounds : (2, C) or (2, 1), between which all values must lie.
    names : of the outputs, by which the columns of a table that the integrand returns are found.
    """

    integrand: Integrand
    vectorized: bool
    entropy: list[int] | None = None
    takes_rngs: bool = False
    bounds: Array | None = None
    names: Names = NO_NAMES

    @property
    def in_batches(self) -> bool:
        """Whether the integrand is called with many points at a time."""
        return self.vectorized and (self.entropy is None or self.takes_rngs)

    def repeats(self, *, stochastic: bool) -> bool:
        """Whether a second call returns the same values: a random integrand does where it takes generators."""
        return not stochastic or self.entropy is not None

    def pieces(self, task: Task) -> Iterator[BatchResult]:
        """Evaluate a task: one result, or one for each point if f takes one point at a time.

        Failures of f are raised, or recorded if the task says so.
        """
        for points in [task.points] if self.in_batches else task.points.each():
            start = time.perf_counter()
            if task.skip_failures:
                f, failures = self._values_and_failures(points, task.outputs)
            else:
                f, failures = self.values(points, task.outputs), {}
            yield BatchResult(_batch(points), f, failures, time.perf_counter() - start)

    def values(self, points: Points, outputs: Outputs | None = None) -> Array:
        """f at n points: (n, *outputs), all finite; `outputs` is what earlier calls returned."""
        if len(points.x) > 1 and not self.in_batches:
            first, *others = points.each()
            found = self.values(first, outputs)
            return np.concatenate([found, *(self.values(each, found.shape[1:]) for each in others)])
        f = self._call_checked(points, outputs)
        bad = rows_not_finite(f)
        if np.any(bad):
            i = int(np.argmax(bad))
            share = f"{np.count_nonzero(bad)} of the {len(f)} points there"
            raise points.failure(i, f"returned {f[i]}", f", and NaN or inf at {share}: values must be finite.")
        return f

    def _values_and_failures(self, points: Points, outputs: Outputs | None) -> tuple[Array, dict[int, str]]:
        """f at n points, (n, *outputs), NaN where it fails; and what it did there, by the index of the point.

        outputs: None for one point, if it is not known yet.
        """
        n, start = len(points.x), points.start
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
                reason = f"raised {type(error.__cause__).__name__}: {as_text(error.__cause__)}"
                return np.full((1, *(outputs or ())), np.nan), {start: reason}
        # Only calls with one point each can tell at which of them f fails.
        parts = [self._values_and_failures(point, outputs) for point in points.each()]
        return np.concatenate([f for f, _ in parts]), {i: reason for _, one in parts for i, reason in one.items()}

    def _call_checked(self, points: Points, outputs: Outputs | None) -> Array:
        """What the integrand returns at n points as a new array (n, *outputs)."""
        n, values = len(points.x), self._call(points)
        try:
            if isinstance(values, np.ndarray):
                require_outputs(values.size // n)  # before it is copied
            found = self.names.ordered("f", values)  # of a table, (n, C)
            raw = real(found, "its value")
            raw = raw if self.vectorized or found is not values else raw[None]
            require_outputs(raw.size // n)
        except MemoryError as error:
            raise WrongReturn(
                f"the integrand returned too much at {points}: {error}", points.t, points.theta
            ) from error
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
        self._require_bounds(points, raw)
        return np.array(raw, dtype=np.float64, order="C")

    def _require_bounds(self, points: Points, f: Array) -> None:
        """Raise if a value of f (n,) or (n, C) lies outside the bounds."""
        if self.bounds is None:
            return
        values = f.reshape(len(f), -1)
        if self.bounds.shape[1] not in (1, values.shape[1]):
            message = f"the integrand returned shape {f.shape}, but its bounds are for {self.bounds.shape[1]} outputs."
            raise WrongReturn(message, points.t, points.theta)
        outside = rows_outside(values, self.bounds) & ~rows_not_finite(f)  # which is a failure at a point
        if np.any(outside):
            i = int(np.argmax(outside))
            rule = f": it must lie within its bounds {shown_bounds(self.bounds)}. Correct the integrand or the bounds."
            message = str(points.failure(i, f"returned {f[i]}", rule))
            raise OutsideBounds(message, points.t, points.theta, points.start + i, points.x[i])

    def _call(self, points: Points) -> Any:
        """What the integrand returns, for one point if it takes one at a time.

        It receives copies, so that it may change its arguments.
        """
        theta, x = points.theta, points.x
        if self.vectorized:
            try:
                return self._f(x.copy(), theta.copy(), **self._generators(points))
            except (Exception, SystemExit) as error:
                among = f"among the {len(x)} points from x = {x[0]} on"
                message = f"the integrand raised {type(error).__name__} at {points} {among}: {as_text(error)}"
                raise IntegrandError(sentence(message), points.t, theta) from error
        try:
            return self._f(x[0].copy(), theta.copy(), **self._generators(points))
        except (Exception, SystemExit) as error:
            raise points.failure(0, f"raised {type(error).__name__}", sentence(f": {as_text(error)}")) from error

    def _generators(self, points: Points) -> dict[str, Any]:
        """The argument `rng` at one point, or `rngs` at several, if the integrand takes it."""
        if self.entropy is None:
            return {}
        indices = range(points.start, points.start + len(points.x))
        rngs = [keyed_generator(self.entropy, F_KEY, points.t or 0, i) for i in indices]
        return {"rngs": rngs} if self.takes_rngs else {"rng": rngs[0]}

    def _f(self, x: Array, theta: Array, **rng: Any) -> Any:
        """What the integrand returns. A process that it forks must not go on as this one."""
        process, status = os.getpid(), 0
        try:
            return self.integrand(x, theta, **rng)
        except BaseException as error:
            status = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
            raise
        finally:
            if os.getpid() != process:
                os._exit(status)
