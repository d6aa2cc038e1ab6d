"""Calling the integrand, and checking what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cbq._arrays import Array, evenly
from cbq.collect.errors import IntegrandError, WrongReturn
from cbq.samples.arrays import some_infinite

Integrand = Callable[[Array, Array], Any]
Outputs = tuple[int, ...]  # () for one value at a point, (C,) for C of them
PROBE = 3  # points of the first call to a vectorised f: enough to tell (n, C) from (C, n) for one or two outputs
OTHERS = 8  # thetas at which an f that fails at the first is tried once more, where failures are left out


class Place(NamedTuple):
    """Whose points a batch has: theta (p,), its number t (None: it has none), and the number of the first point."""

    theta: Array
    t: int | None = None
    start: int = 0

    def text(self, i: int | None = None, x: Array | None = None) -> str:
        """The place of point i of the batch, or of the whole batch, for messages."""
        where = (
            f" at theta = {self.theta}" if self.t is None else f" at theta index t = {self.t} (theta = {self.theta})"
        )
        return where if i is None else f"{where}, point i = {self.start + i} (x = {x})"


class Outcome(NamedTuple):
    """Values (n, *outputs) of a batch, NaN where f failed; and by the number of the point at its theta, how it did."""

    f: Array
    failures: dict[int, str]


@dataclass(frozen=True)
class Evaluator:
    """The integrand, and whether it takes many points at a time. This much is sent to workers."""

    integrand: Integrand
    vectorized: bool

    def values(self, place: Place, x: Array, outputs: Outputs | None = None) -> Array:
        """f at x (n, d): (n, *outputs), all finite; `outputs` is what earlier calls gave."""
        f = self._shaped(place, x, outputs)
        bad = some_infinite(f)
        if np.any(bad):
            i = int(np.argmax(bad))
            raise IntegrandError(
                f"the integrand returned {f[i]}{place.text(i, x[i])} and NaN or inf at {np.count_nonzero(bad)} of the "
                f"{len(x)} points there: values must be finite.",
                *(place.t, place.theta, place.start + i, x[i]),
            )
        return f

    def tolerant(self, place: Place, x: Array, outputs: Outputs) -> Outcome:
        """f at x (n, d), wherever it does not fail."""
        if self.vectorized and len(x) > 1:
            try:
                return _marked(self._shaped(place, x, outputs), place.start)
            except WrongReturn:
                raise
            except IntegrandError:
                pass  # at which of the points, only calls with one point each can tell
        parts = [self._alone(place._replace(start=place.start + i), x[i : i + 1], outputs) for i in range(len(x))]
        return Outcome(np.concatenate([part.f for part in parts]), {i: w for part in parts for i, w in part[1].items()})

    def _alone(self, place: Place, x: Array, outputs: Outputs) -> Outcome:
        try:
            return _marked(self._shaped(place, x, outputs), place.start)
        except WrongReturn:
            raise
        except IntegrandError as error:
            why = f"raised {type(error.__cause__).__name__}: {error.__cause__}"
            return Outcome(np.full((1, *outputs), np.nan), {place.start: why})

    def _shaped(self, place: Place, x: Array, outputs: Outputs | None) -> Array:
        f = _read(self._call(place, x), place, len(x))
        if f.shape[:1] != (len(x),) or f.ndim > 2 or 0 in f.shape or (outputs is not None and f.shape[1:] != outputs):
            wanted = f"({len(x)},) or ({len(x)}, C)" if outputs is None else f"{(len(x), *outputs)}"
            raise WrongReturn(
                f"the integrand returned shape {f.shape} for {len(x)} points{place.text()}, but {wanted} is needed: "
                f"one value, or C of them, for each row of x. If it takes one point at a time, pass vectorized=False.",
                *(place.t, place.theta),
            )
        return f

    def _call(self, place: Place, x: Array) -> Any:
        """What the integrand returns; it receives copies, and may do with them what it likes."""
        values = []
        for i, points in enumerate(x[None] if self.vectorized else x):
            try:
                values.append(self.integrand(points.copy(), place.theta.copy()))
            except Exception as error:
                raise _failure(error, place, None if self.vectorized else i, x) from error
        return values[0] if self.vectorized else values


def probe(evaluator: Evaluator, thetas: Array, x: Sequence[Array], *, tolerant: bool) -> Outputs:
    """What f has at a point, by a small call at the first theta, before anything expensive starts.

    tolerant: where f fails there, it is tried at the first points of some other thetas; it must not fail at all.
    """
    try:
        first = x[0][: PROBE if evaluator.vectorized else 1]
        return evaluator.values(Place(thetas[0], 0), first).shape[1:]
    except WrongReturn:
        raise
    except IntegrandError:
        if tolerant:
            for t, i in _elsewhere(x):
                place = Place(thetas[t], t, i)
                try:
                    return evaluator.values(place, x[t][i : i + 1]).shape[1:]
                except WrongReturn:
                    raise
                except IntegrandError:
                    continue
        raise


def _elsewhere(x: Sequence[Array]) -> Iterable[tuple[int, int]]:
    """Points to try: the first ones of the first theta, and the first of other thetas, evenly spread."""
    yield from ((0, i) for i in range(min(PROBE, len(x[0]))))
    yield from ((int(t), 0) for t in evenly(len(x), OTHERS) if t > 0)


def _marked(f: Array, start: int) -> Outcome:
    """Values with NaN wherever one is not finite."""
    bad = some_infinite(f)
    failures = {start + int(i): f"returned {f[i]}" for i in np.flatnonzero(bad)}
    f[bad] = np.nan
    return Outcome(f, failures)


def _read(values: Any, place: Place, n: int) -> Array:
    """What the integrand returned as an array of floats."""
    try:
        raw = np.asarray(values)
        if raw.dtype.kind not in "buif":
            raise TypeError(f"values of type {raw.dtype}")
    except (TypeError, ValueError) as error:
        raise WrongReturn(
            f"the integrand must return real numbers, one or C for each of the {n} points{place.text()}, but it "
            f"returned something else ({error}).",
            *(place.t, place.theta),
        ) from error
    return np.array(raw, dtype=np.float64)


def _failure(error: Exception, place: Place, i: int | None, x: Array) -> IntegrandError:
    """The error to raise when the integrand raised one at point i of x, or (i None) at one of them."""
    point = None if i is None else x[i]
    among = f" among the {len(x)} points from x = {x[0]} on" if i is None else ""
    message = f"the integrand raised {type(error).__name__}{place.text(i, point)}{among}: {error}"
    return IntegrandError(message, place.t, place.theta, None if i is None else place.start + i, point)
