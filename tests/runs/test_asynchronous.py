"""Asynchronous runs: busy workers, runs that are chosen by what is known, and files that are resumed."""

from __future__ import annotations

import hashlib
import math
import pickle
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import cbq
from benchmarks._simulated import SimulatedExecutor
from cbq.checkpoint.ledger import read_ledger
from cbq.measures import Gaussian, Uniform
from cbq.runs.asked import Asked
from cbq.runs.asynchronous import NextRuns
from cbq.runs.executors import ExecutorPool
from cbq.runs.integrand import Evaluator
from cbq.runs.resuming import CHECKED_POINTS
from cbq.runs.scheduling import Scheduler
from cbq.samples import Names
from tests.checkpoint.test_checkpoint import kill_while_running, lines
from tests.runs.test_executors import SIZE, problem, same

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # by Python 3.12 and 3.13


def uneven(task):
    """From 1 to 30 s, by the point."""
    digest = hashlib.blake2b(task.points.x.tobytes(), digest_size=8).digest()
    return 1.0 + 29.0 * int.from_bytes(digest) / 2**64


class Counted:
    """A session that asks for numbered runs, and records how many were known and pending at each choice."""

    outputs, missing, _share = (), 0, 8

    def __init__(self, budget):
        self.goal, self.n_asked, self.n_told, self.choices = SimpleNamespace(budget=budget), 0, 0, []
        self.pending = self._runs(0)

    @property
    def is_over(self):
        return self.n_told >= self.goal.budget

    def _affordable(self, workers):
        return self.goal.budget - self.n_told

    def batch_size(self, workers):
        return max(1, self.n_told // 8)

    def ask(self, n):
        self.choices.append((self.n_told, self.n_asked - self.n_told, n))
        self.n_asked += n
        return self._runs(n)

    def _runs(self, n):
        ids = np.arange(self.n_asked - n, self.n_asked)
        return Asked(ids, np.zeros((n, 1)), ids[:, None].astype(float), Names())


def simulate(budget, workers, seconds=uneven, choosing=0.0):
    """The session and the executor of a run whose choices take this many seconds."""
    session, executor = Counted(budget), SimulatedExecutor(workers, seconds)
    ticks = iter(range(10**6))
    clock = lambda: choosing * next(ticks)  # noqa: E731
    runs = NextRuns(session, lambda: workers, lambda: True, skip_failures=False, clock=clock)

    def on_finished(results):
        runs.note(results)
        session.n_told += len(results)

    pool = ExecutorPool(executor, Evaluator(lambda x, theta: x[:, 0], vectorized=True), None)
    Scheduler(pool, retries=0).evaluate_chosen(runs, on_finished, report_first=True)
    assert session.n_told == session.n_asked == budget
    return session, executor


@pytest.mark.parametrize("workers", [2, 8])
def test_workers_are_busy_until_the_last_runs(workers):
    """Each but the last of these lasts until no run is left to begin, so that at most one run is waited for."""
    session, executor = simulate(200, workers)
    assert executor.clock <= executor.busy / workers + 30.0
    assert executor.clock <= 1.3 * executor.busy / workers
    assert [n for _, _, n in session.choices] == [workers, *[1] * (200 - workers)]
    assert all(pending == workers - 1 for _, pending, _ in session.choices[1:])


def test_quick_runs_are_chosen_together():
    """As many as end during a choice: with runs of 1 s on 4 workers, these are 4 in each second of choosing."""
    for choosing in (0.2, 0.5, 2.0, 1e9):
        session, _ = simulate(400, 4, lambda task: 1.0, choosing)
        together = [n for told, _, n in session.choices if told > 100]
        most = math.ceil(4 * choosing)
        assert all(n >= min(most, told // 8) for told, _, n in session.choices if 100 < told < 300)
        assert max(together) <= max(most, 400 // 8) + 4


def curve(integrand=lambda x, theta: np.sin(x[:, 0]) + theta[0] * x[:, 0] ** 2):
    return cbq.Problem(integrand, lambda theta: Gaussian(theta, 1.0), Uniform(0.0, 1.0))


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """The answer, the executor and the file of a run with four workers."""
    path, executor = tmp_path_factory.mktemp("solved") / "run.sqlite", SimulatedExecutor(4, uneven)
    return curve().solve(budget=22, rng=0, executor=executor, checkpoint=path), executor, path


def test_several_workers_get_runs_one_by_one(solved):
    answer, executor, _ = solved
    assert answer.n_runs == 22
    starts, ends = (sorted(each.values()) for each in (executor.started, executor.ended))
    first = 1  # before it, the outputs of f are unknown
    assert starts[first : first + 4] == [ends[0]] * 4
    assert starts[first + 4 :] == ends[1:-4]  # whenever a run ends, the next one begins


def test_an_f_that_depends_on_theta_after_all_ends_the_run_when_no_run_is_under_way():
    claims = cbq.Problem(
        lambda x, theta: theta[0] + x[:, 0],
        lambda theta: Gaussian(theta, 1.0),
        Uniform(0.0, 1.0),
        depends_on_theta=False,
    )
    executor = SimulatedExecutor(4, uneven)
    with pytest.raises(ValueError, match="f depends on theta, although the problem has depends_on_theta=False"):
        claims.solve(budget=60, rng=0, executor=executor)
    assert set(executor.started) == set(executor.ended)
    assert len(executor.started) < 30


def test_an_error_of_the_caller_takes_back_what_has_not_begun(tmp_path):
    def stop(done, total):
        raise RuntimeError("no more")

    with ThreadPoolExecutor(1) as executor:
        started = []
        slow = problem(lambda x, theta: started.append(1) or time.sleep(0.2) or x[:, 0])
        with pytest.raises(RuntimeError, match="no more"):
            slow.collect(**SIZE, executor=executor, progress=stop)
    assert len(started) <= 4  # the trial, the batch that was reported, and those that had begun by then


# the file


def replayed(path):
    """The runs that a new session asks for, if it is told at each choice what was known according to the file."""
    stored, at = read_ledger(path), 0
    with curve(None).session(rng=0) as session:
        for first in sorted({first for first, _ in stored.choices}):
            (known,) = {known for begin, known in stored.choices if begin == first}
            session.take(stored.results[at:known])
            session.ask(sum(begin == first for begin, _ in stored.choices))
            at = known
        return session.pending + session._asked(sorted(session._values))


def test_each_choice_follows_from_the_results_that_the_file_names(solved):
    _, _, path = solved
    stored = read_ledger(path)
    assert len({first for first, _ in stored.choices}) > 4
    assert [result.batch.t for result in stored.results] != sorted(result.batch.t for result in stored.results)
    runs = replayed(path)
    np.testing.assert_array_equal(runs.x[np.argsort(runs.ids)], stored.x)
    np.testing.assert_array_equal(runs.theta[np.argsort(runs.ids)], stored.theta)


CHILD = """
import os, time
import numpy as np
import cbq

log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def f(x, theta):
    time.sleep(0.02 + 0.02 * (x[0, 0] % 1))
    os.write(log, (theta.tobytes().hex() + " " + x.tobytes().hex() + "\\n").encode())
    return np.sin(x[:, 0]) + theta[0] * x[:, 0] ** 2

problem = cbq.Problem(f, lambda theta: cbq.measures.Gaussian(theta, 1.0), cbq.measures.Uniform(0.0, 1.0))
problem.solve(rng=0, budget=40, checkpoint={path!r}, executor=2)
"""


@pytest.mark.slow
def test_ten_kills_repeat_no_finished_run_and_leave_choices_that_follow_from_the_file(tmp_path):
    path, log, rng, done = tmp_path / "run.sqlite", tmp_path / "log", random.Random(0), set()
    code = CHILD.format(log=str(log), path=str(path))

    def finished():
        if not path.exists() or not path.stat().st_size:
            return set()
        stored = read_ledger(path)
        runs = [result.batch.t for result in stored.results]
        return {f"{stored.theta[t].tobytes().hex()} {stored.x[t].tobytes().hex()}" for t in runs}

    killed = checked = 0
    for _ in range(10):
        before = len(lines(log))
        killed += kill_while_running(code, log, rng, most_calls=2, longest_delay=0.3)
        checked += (again := len(done & set(lines(log)[before:])))
        assert again <= CHECKED_POINTS
        done = finished()
    assert killed >= 5
    before = len(lines(log))
    subprocess.run([sys.executable, "-c", code], check=True)
    checked += (again := len(done & set(lines(log)[before:])))
    assert again == min(CHECKED_POINTS, len(done))
    calls, stored = Counter(lines(log)), read_ledger(path)
    assert len(stored.results) == len(stored.theta) == 40
    assert set(calls) == finished()
    assert calls.total() - len(calls) <= killed * 2 + checked  # only runs in flight are repeated besides
    runs = replayed(path)
    np.testing.assert_array_equal(runs.x[np.argsort(runs.ids)], stored.x)


# executors


class Future:
    """The least that a future has."""

    __hash__ = None

    def __init__(self, function, *args):
        self._call, self._looks = (function, args), 0

    def done(self):
        self._looks += 1
        return self._looks > 1

    def result(self):
        function, args = self._call
        return function(*args)


class Submits:
    """The least that an executor has."""

    def __init__(self, future=Future):
        self._future, self.submitted = future, 0

    def submit(self, function, *args):
        self.submitted += 1
        return self._future(function, *args)


class Uncancellable(Future):
    """As those of parsl."""

    def cancel(self):
        raise NotImplementedError


class Raising(Future):
    """The cluster is down when its state is asked for, as it may be once."""

    def done(self):
        raise OSError("no route to host")


REFERENCE = problem().collect(**SIZE)


@pytest.mark.parametrize("future", [Future, Uncancellable, Raising])
def test_anything_that_submits_is_an_executor(future):
    executor = Submits(future)
    same(problem().collect(**SIZE, executor=executor), REFERENCE)
    assert executor.submitted > 20
    assert curve().solve(budget=17, rng=0, executor=Submits(future), in_flight=3).n_runs == 17
    samples = cbq.problems.get("linear", dim=1).collect(T=8, N=8, rng=0)
    one, two = cbq.CBQ().fit(samples, executor=executor), cbq.CBQ().fit(samples)
    np.testing.assert_array_equal(one.predict(samples.theta), two.predict(samples.theta))


def test_errors_of_f_are_told_from_errors_of_the_executor():
    def broken(x, theta):
        raise ArithmeticError("flat")

    class Wrapping(Future):
        """As in submitit, whatever was raised comes back as an error of the executor."""

        def result(self):
            try:
                return super().result()
            except Exception as error:
                raise OSError("job failed") from error

    executor = Submits(Wrapping)
    with pytest.raises(cbq.IntegrandError, match=r"raised ArithmeticError at theta index t = 0 .*flat"):
        problem(broken).collect(**SIZE, executor=executor)
    assert executor.submitted == 1


def test_an_error_in_another_process_has_its_traceback():
    class Sending(Future):
        def result(self):
            return pickle.loads(pickle.dumps(super().result()))

    def broken(x, theta):
        raise ArithmeticError("flat")

    for future in (Sending, Future):
        with pytest.raises(cbq.IntegrandError) as error:
            problem(broken).collect(**SIZE, executor=Submits(future))
        # Where tblib is installed for pickle, as by Dask and parsl, errors bring their traceback with them.
        assert "in broken" in "".join(traceback.format_exception(error.value))
    assert isinstance(error.value.__cause__, ArithmeticError)


def test_a_future_that_cannot_be_waited_for_is_refused():
    class Blocking:
        def __init__(self, *call):
            pass

        def result(self):
            return None

    with pytest.raises(TypeError, match=r"must return a future with result\(\), and with add_done_callback"):
        problem().collect(**SIZE, executor=Submits(Blocking))


def test_a_client_of_dask_stands_for_its_executor():
    class Client:
        def get_executor(self):
            return Submits()

        def submit(self, function, *args):
            raise AssertionError("equal calls would be one")

    same(problem().collect(**SIZE, executor=Client()), REFERENCE)


@pytest.mark.parametrize("executor", [Submits, "two", SimpleNamespace(submit=3)])
def test_what_submits_nothing_is_refused(executor):
    with pytest.raises(TypeError, match=r"or an object with submit\(function, \*arguments\).* but it is"):
        problem().collect(**SIZE, executor=executor)
