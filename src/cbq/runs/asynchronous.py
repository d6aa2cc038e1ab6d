"""Asynchronous runs: a run that ends triggers the next choice, so that no worker waits for the slowest of a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import ceil
from time import perf_counter

from cbq.checkpoint import BatchResult
from cbq.runs.integrand import Points, Task
from cbq.runs.overhead import ONE_BATCH, SOBOL, Overhead
from cbq.runs.session import Session


class Watch:
    """Somebody who is told when runs are chosen; by default, nobody."""

    def choosing(self) -> None:
        """Runs are being chosen."""

    def chosen(self) -> None:
        """Runs have been chosen."""


class NextRuns:
    """The next task of a session whenever a worker is free; None while enough runs are under way, or if it is over.

    Choosing a run takes time, too. As many runs are chosen together as end during a choice, so that choosing takes no
    longer than one worker runs; one by one if runs take much longer than a choice; and at most an eighth of the runs
    so far, since a fit to a few more changes little.

    n_workers: returns the number of runs at a time. is_sensible: returns whether to go on. overhead: the limit of the
    own time. shown: is told of choices. clock: for the seconds of a
    choice.
    """

    def __init__(
        self,
        session: Session,
        n_workers: Callable[[], int],
        is_sensible: Callable[[], bool],
        *,
        skip_failures: bool,
        overhead: Overhead | None = None,
        shown: Watch | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._session, self._n_workers, self._is_sensible = session, n_workers, is_sensible
        self._skip, self._overhead, self._shown = skip_failures, overhead, shown or Watch()
        self._waiting, self._clock = deque(session.pending), clock
        self._choosing = 0.0  # seconds of the last choice
        self._running, self._ended = 0.0, 0  # seconds and number of runs that have ended
        self._is_over = False

    def __call__(self) -> Task | None:
        if not self._waiting and not self._is_over:
            self._choose()
        if not self._waiting:
            return None
        t, theta, x = self._waiting.popleft()
        return Task(Points(theta, x[None], t), self._session.outputs, self._skip)

    def note(self, results: Sequence[BatchResult]) -> None:
        """Learn from results how long runs take."""
        self._running += sum(result.seconds or 0.0 for result in results)
        self._ended += len(results)

    def _choose(self) -> None:
        session, begin = self._session, self._clock()
        if self._overhead is not None:
            session._keep_pace(self._overhead)
        unfinished, together = session.n_asked - session.n_told, self._together()
        lacking = max(self._n_workers() + together - 1, session.missing) - unfinished
        if lacking <= 0:
            return
        self._shown.choosing()
        # The runs under way are waited for, and their results may change it.
        self._is_over = session.is_over or not self._is_sensible()
        left = max(session._affordable(self._n_workers()), session.missing, 1) - unfinished
        n = min(max(lacking, together), left)
        if n > 0 and not self._is_over:
            self._waiting.extend(session.ask(n))
            self._choosing = self._clock() - begin
            self._shown.chosen()

    def _together(self) -> int:
        """The number of runs that are chosen together; all further ones where the own time is spent."""
        if self._session._share in (ONE_BATCH, SOBOL):
            return self._session.batch_size(1)
        if not self._running:
            return 1
        ending = ceil(min(self._choosing * self._n_workers() * self._ended / self._running, self._session.goal.budget))
        return max(1, min(ending, self._session.batch_size(1)))
