"""The first calls of f in a run: to see what it returns, or to see that it still returns what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Protocol

import numpy as np

from cbq.checkpoint import BatchResult, CheckpointError, Evaluations, Outputs
from cbq.common import Array, Booleans, evenly
from cbq.runs.integrand import IntegrandError, OutsideBounds, Points, Task, WrongReturn
from cbq.runs.resuming import ResumedFile, ways_out
from cbq.runs.scheduling import Choose, OnFinished, Scheduler

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


class StoredPoints:
    """Stored points that a run evaluates again when it resumes, beside its first new ones.

    Until f has the stored values there, new results are held back, and the file takes nothing. Where f has another
    value, a CheckpointError names the point and both values.

    file: that the run resumes from; None for a new run, which repeats nothing. thetas (T, p), evaluations: those in it.
    """

    def __init__(self, file: ResumedFile | None, thetas: Array, evaluations: Evaluations) -> None:
        self._file, self._thetas, self._evaluations = file, thetas, evaluations
        self._tasks = list[Task]()
        self._all, self._left = set[tuple[int, int]](), set[tuple[int, int]]()  # (t, i)
        self._again, self._held = dict[tuple[int, int], BatchResult](), list[BatchResult]()

    def choose(self, n: int, hint: str, accept: Callable[[], None]) -> None:
        """Let the next evaluation have n of the points with a value. accept: is called once f has the values there.

        hint: what may have changed f.
        """
        assert self._file is not None
        good = self._evaluations.successes()
        sizes = np.abs(np.concatenate([self._evaluations.f[t][rows] for t, rows in good.items()]))
        self._allowed = ROUNDING_OF_TYPICAL * np.median(sizes, axis=0) + ROUNDING_OF_LARGEST * np.max(sizes, axis=0)
        self._hint, self._accept = hint, accept
        self._all = set(_spread_over(good, n))
        self._left = set(self._all)
        points = [Points(self._thetas[t], self._evaluations.x[t][i : i + 1], t, i) for t, i in sorted(self._all)]
        self._tasks = [Task(each, self._evaluations.outputs, True) for each in points]  # a failure is another value
        self._file.hold()

    def evaluate(self, workers: Evaluates, tasks: Iterable[Task], on_finished: OnFinished) -> None:
        """Evaluate the chosen points, if that was not done before, and tasks, whose results are passed on."""
        with self._refusing():
            workers.evaluate(chain(self._begun(), tasks), self._sifted(on_finished))

    def evaluate_chosen(self, scheduler: Scheduler, choose: Choose, on_finished: OnFinished) -> None:
        """The same for tasks that are chosen as workers become free."""
        first = iter(self._begun())
        with self._refusing():
            scheduler.evaluate_chosen(
                lambda: next(first, None) or choose(), self._sifted(on_finished), report_first=True
            )

    def _begun(self) -> list[Task]:
        tasks, self._tasks = self._tasks, []
        return tasks

    def _sifted(self, on_finished: OnFinished) -> OnFinished:
        """Compare results of stored points, and pass the others on when all of these agree."""

        def take(results: Sequence[BatchResult]) -> None:
            for piece in (piece for result in results for piece in result.cut_around(self._all)):
                t, i, _ = piece.batch
                if (t, i) not in self._all:
                    self._held.append(piece)
                elif (t, i) in self._left:
                    self._again[t, i] = piece
                    self._left.remove((t, i))
                    if not self._left:
                        self._require_same()
                        self._accept()
            if self._held and not self._left:
                held, self._held = self._held, []
                on_finished(held)

        return take

    def _require_same(self) -> None:
        """Raise a CheckpointError if f has another value at a point now, the first of them by theta."""
        for (t, i), now in sorted(self._again.items()):
            stored, value, x = self._evaluations.f[t][i], now.f[0], self._evaluations.x[t]
            if np.all(np.abs(value - stored) <= ROUNDING * np.abs(stored) + self._allowed):  # False for NaN
                continue
            does = now.failures.get(i, f"gives {value}")
            raise self._other_f(
                f"at {Points(self._thetas[t], x, t)}, point i = {i} (x = {x[i]}), it has {stored}, and f now {does}."
            )

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Refuse an f that returns something else at a stored point."""
        try:
            yield
        except OutsideBounds:
            raise
        except WrongReturn as error:
            if all(error.t != t for t, _ in self._left):
                raise
            raise self._other_f(str(error)) from error

    def _other_f(self, why: str) -> CheckpointError:
        assert self._file is not None
        return CheckpointError(f"{self._file.path} holds values of another f: {why} {self._hint} {ways_out()}")


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
