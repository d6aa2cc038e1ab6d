"""The first calls of f in a run: to see what it returns, or to see that it still returns what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from cbq.checkpoint import BatchResult, CheckpointError, Evaluations, Outputs
from cbq.common import Array, Booleans, evenly
from cbq.runs.integrand import Evaluator, IntegrandError, OutsideBounds, Points, Task, WrongReturn
from cbq.runs.resuming import Evaluate, ways_out
from cbq.runs.scheduling import OnFinished

PROBE_POINTS = 3  # of the first call to a vectorised f: enough to tell (n, C) from (C, n) for one or two outputs
PROBE_THETAS = 8  # at which f is tried if it fails at the first theta and failures are skipped
# Differences between values of the same f, on two machines or in two batches, relative to
ROUNDING = 1e-6  # the value,
ROUNDING_OF_TYPICAL = 1e-5  # the median of |f|, for single precision,
ROUNDING_OF_LARGEST = 1e-9  # and the largest |f|


class Evaluates(Protocol):
    """Where tasks are evaluated."""

    def evaluate(self, tasks: Iterable[Task], on_finished: OnFinished) -> None:
        """Evaluate tasks, and pass results on."""


def probe_outputs(
    workers: Evaluates, thetas: Array, x: Sequence[Array], *, in_batches: bool, skip_failures: bool
) -> Outputs:
    """The shape of f at one point, from a small call at the first theta, before anything expensive starts.

    skip_failures: where f fails there, try single points of this and some other thetas; one of them must succeed.
    """
    probes = [Points(thetas[0], x[0][: PROBE_POINTS if in_batches else 1], 0)]
    if skip_failures:
        probes += Points(thetas[0], x[0][:PROBE_POINTS], 0).each()
        probes += [Points(thetas[t], x[t][:1], int(t)) for t in evenly(len(x), PROBE_THETAS)[1:]]
    errors = []
    for points in probes:
        try:
            return _evaluated(workers, [points], None, skip_failures=False)[0].f.shape[1:]
        except WrongReturn:
            raise
        except IntegrandError as error:
            errors.append(error)
    raise errors[0]


def repeated(
    workers: Evaluates, evaluator: Evaluator, thetas: Array, evaluations: Evaluations, path: str, *, stochastic: bool
) -> Evaluate | None:
    """The function that evaluates stored points again; None if a random f would have other values there."""
    if stochastic and evaluator.entropy is None:
        return None
    return partial(require_same_values, workers, thetas, evaluations, path)


def require_same_values(
    workers: Evaluates, thetas: Array, evaluations: Evaluations, path: str, n: int, hint: str
) -> None:
    """Evaluate n of the points with a value again, and raise a CheckpointError if f is another one now.

    hint: what may have changed it.
    """
    good = evaluations.successes()
    points = [Points(thetas[t], evaluations.x[t][i : i + 1], t, i) for t, i in _spread_over(good, n)]
    try:
        results = _evaluated(workers, points, evaluations.outputs, skip_failures=True)
    except OutsideBounds:
        raise
    except WrongReturn as error:
        raise CheckpointError(f"{path} holds values of another f: {error} {hint} {ways_out()}") from error
    sizes = np.abs(np.concatenate([evaluations.f[t][rows] for t, rows in good.items()]))
    allowed = ROUNDING_OF_TYPICAL * np.median(sizes, axis=0) + ROUNDING_OF_LARGEST * np.max(sizes, axis=0)
    for (t, start, stop), now, failures, _ in results:
        stored = evaluations.f[t][start:stop]
        close = np.abs(now - stored) <= ROUNDING * np.abs(stored) + allowed  # False for NaN
        for k in np.flatnonzero(~np.all(close.reshape(len(now), -1), axis=1)):
            does = failures.get(start + int(k), f"gives {now[k]}")
            raise CheckpointError(
                f"{path} holds values of another f: at {Points(thetas[t], evaluations.x[t], t)}, point "
                f"i = {start + k} (x = {evaluations.x[t][start + k]}), it has {stored[k]}, and f now {does}. "
                f"{hint} {ways_out()}"
            )


def _spread_over(good: dict[int, Booleans], n: int) -> list[tuple[int, int]]:
    """The (t, i) of at most n points with a value, evenly spaced, the first and the last among them."""
    thetas, ends = list(good), np.cumsum([np.count_nonzero(rows) for rows in good.values()])
    found = []
    for k in evenly(int(ends[-1]), n):
        at = int(np.searchsorted(ends, k, side="right"))
        t = thetas[at]
        found.append((t, int(np.flatnonzero(good[t])[k - ends[at]])))  # counted from the end
    return found


def _evaluated(
    workers: Evaluates, points: Iterable[Points], outputs: Outputs | None, *, skip_failures: bool
) -> list[BatchResult]:
    results = list[BatchResult]()
    workers.evaluate([Task(each, outputs, skip_failures) for each in points], results.extend)
    return sorted(results, key=lambda result: result.batch)
