"""An executor whose workers take simulated time."""

from __future__ import annotations

import heapq
import time
from collections import deque
from itertools import count

from cbq.checkpoint import BatchResult


class SimulatedExecutor:
    """Workers that finish their calls in the order of a simulated clock; futures have `done` and `result` alone.

    seconds: of a call, a function of its task. The clock moves when the run waits: to the end of the next call, and no
    further before that one has been read. started, ended: times by the number of the call.
    """

    def __init__(self, workers, seconds):
        self.num_workers, self._seconds = workers, seconds
        self.clock, self.busy = 0.0, 0.0
        self.started, self.ended = {}, {}
        self._queue, self._running, self._numbers, self._unread = deque(), [], count(), None

    def submit(self, fn, /, *args):
        number = next(self._numbers)
        self._queue.append((number, self._seconds(args[1])))
        self._start()
        return SimulatedFuture(self, number, lambda: fn(*args))

    def _start(self):
        while self._queue and len(self._running) < self.num_workers:
            number, seconds = self._queue.popleft()
            self.started[number] = self.clock
            self.busy += seconds
            heapq.heappush(self._running, (self.clock + seconds, number))

    def is_done(self, number):
        if self._unread is None:
            self.clock, self._unread = heapq.heappop(self._running)
            self.ended[self._unread] = self.clock
            self._start()
        return number == self._unread

    def read(self, number):
        assert number == self._unread
        self._unread = None
        return self.ended[number] - self.started[number]


class InLine:
    """One worker that calls at once, and reports these seconds for each call. cpu: those that calls really took."""

    num_workers = 1

    def __init__(self, seconds):
        self._seconds, self.cpu = seconds, 0.0

    def submit(self, fn, /, *args):
        begin = time.process_time()
        outcome = fn(*args)
        self.cpu += time.process_time() - begin
        if isinstance(outcome.result, BatchResult):
            outcome = outcome._replace(result=outcome.result._replace(seconds=self._seconds))
        return Done(outcome)


class Done:
    """A future that is done."""

    __hash__ = None

    def __init__(self, outcome):
        self._outcome = outcome

    def done(self):
        return True

    def result(self):
        return self._outcome


class SimulatedFuture:
    __hash__ = None

    def __init__(self, executor, number, call):
        self._executor, self._number, self._call = executor, number, call

    def done(self):
        return self._executor.is_done(self._number)

    def result(self):
        seconds, outcome = self._executor.read(self._number), self._call()
        if not isinstance(outcome.result, BatchResult):
            return outcome
        return outcome._replace(result=outcome.result._replace(seconds=seconds))
