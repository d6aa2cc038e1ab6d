"""Executors: samples do not depend on the workers, the order in which batches finish, or workers that die."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import cbq
from cbq.collect import CollectWarning, IntegrandError, WorkerError
from cbq.measures import Gaussian, Uniform
from cbq.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # by Python 3.12 and 3.13
PRIOR = Uniform([0.0, 1.0], [1.0, 4.0])
MAIN_PROCESS = os.getpid()  # forked workers have another one


def f(x, theta):
    return np.sin(x[:, 0]) + theta[1] * x[:, 1]


def problem(integrand=f, **options):
    return Problem(integrand, lambda theta: Gaussian(theta, 1.0), PRIOR, **options)


def same(one, two):
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.all_points, two.all_points)
    np.testing.assert_array_equal(one.table, two.table)


SIZE = {"T": 5, "N": [30, 7, 12, 30, 1], "rng": 0, "batch": 4}
REFERENCE = problem().collect(**SIZE)


class RandomOrder(Executor):
    """One worker that takes tasks in a random order, and records the maximum number of pending tasks."""

    def __init__(self):
        self._pool, self._tasks, self._rng = ThreadPoolExecutor(1), [], random.Random(0)
        self.pending = self.max_pending = self.submitted = 0

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self._tasks.append((future, partial(fn, *args, **kwargs)))
        self.submitted += 1
        self.pending += 1
        self.max_pending = max(self.max_pending, self.pending)
        self._pool.submit(self._one)
        return future

    def _one(self):
        future, call = self._tasks.pop(self._rng.randrange(len(self._tasks)))
        self.pending -= 1
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._pool.shutdown(wait)


class Losing(RandomOrder):
    """Loses every task this many times, and reports it like a scheduler whose worker was killed."""

    def __init__(self, times):
        super().__init__()
        self._times, self.lost = times, []

    def submit(self, fn, /, *args, **kwargs):
        batch = args[1].batch
        if self.lost.count(batch) < self._times:
            self.lost.append(batch)
            future = Future()
            future.set_exception(RuntimeError("worker killed"))
            return future
        return super().submit(fn, *args, **kwargs)


# the same samples


def processes():
    return ProcessPoolExecutor(2, multiprocessing.get_context("fork"))


@pytest.mark.parametrize(
    "make", [partial(ThreadPoolExecutor, 3), processes, RandomOrder], ids=["threads", "processes", "random order"]
)
@pytest.mark.parametrize("in_flight", [1, 3, None])
def test_samples_do_not_depend_on_the_executor(make, in_flight, tmp_path):
    with make() as executor:
        same(problem().collect(**SIZE, executor=executor, in_flight=in_flight), REFERENCE)
        path = tmp_path / "run.sqlite"
        same(problem().collect(**SIZE, executor=executor, in_flight=in_flight, checkpoint=path), REFERENCE)
        same(problem().collect(**SIZE, checkpoint=path), REFERENCE)
        same(cbq.Samples.from_checkpoint(path), REFERENCE)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_number_starts_that_many_processes(workers):
    same(problem().collect(**SIZE, executor=workers), REFERENCE)


@pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="other start methods pickle functions")
def test_forked_workers_take_functions_that_cannot_be_pickled():
    same(problem(lambda x, theta: f(x, theta)).collect(**SIZE, executor=2), REFERENCE)


@pytest.fixture
def start(request, monkeypatch):
    """The start method of the processes of a run."""
    context = multiprocessing.get_context(request.param)
    monkeypatch.setattr(multiprocessing, "get_context", lambda method=None: context)
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("start", ["spawn", "forkserver"], indirect=True)
def test_processes_that_are_not_forked(start):
    same(problem().collect(**SIZE, executor=2), REFERENCE)


@pytest.mark.parametrize("start", ["spawn"], indirect=True)
def test_processes_that_are_not_forked_refuse_functions_that_cannot_be_pickled(start):
    with pytest.raises(TypeError, match="cannot be sent to other processes"):
        problem(lambda x, theta: f(x, theta)).collect(**SIZE, executor=2)


INTERRUPTED = """
import multiprocessing, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background would ignore it
sys.path.insert(0, {folder!r})
from test_executors import f, problem

def slow(x, theta):
    time.sleep(0.01)
    return f(x, theta)

def report(done, total):
    print(done, *[child.pid for child in multiprocessing.active_children()], flush=True)

try:
    problem(slow).collect(5, 400, rng=0, batch=4, executor=2, checkpoint={path!r}, progress=report)
except KeyboardInterrupt as error:
    print(error)
"""


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")
def test_ctrl_c_ends_a_run_and_its_workers_and_says_how_to_go_on(tmp_path):
    path = tmp_path / "run.sqlite"
    code = INTERRUPTED.format(folder=str(Path(__file__).parent), path=str(path))
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", code], **options) as child:
        _, *workers = map(int, child.stdout.readline().split())
        os.killpg(child.pid, signal.SIGINT)
        out, err = child.communicate()
    assert child.returncode == 0, err
    assert re.search(r"interrupted\. \d+ of 2000 points are in .*run.sqlite: call collect again", out)
    assert err == ""
    assert len(workers) == 2
    assert not any(map(alive, workers))
    assert cbq.Samples.from_checkpoint(path).n_evaluations > 0


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, which it would not in a process in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    after = signal.signal(signal.SIGINT, before)
    assert after is signal.default_int_handler


@pytest.mark.parametrize(("presses", "submitted"), [(1, True), (2, False)])
def test_the_first_ctrl_c_waits_until_a_batch_is_submitted_and_the_second_does_not(interruptible, presses, submitted):
    futures = []

    class Pool(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            future = super().submit(fn, *args, **kwargs)
            for _ in range(0 if futures else presses):
                signal.raise_signal(signal.SIGINT)
            futures.append(future)
            return future

    with Pool(2) as executor, pytest.raises(KeyboardInterrupt):
        problem().collect(**SIZE, executor=executor)
    assert bool(futures) == submitted


def test_ctrl_c_counts_for_more_than_the_workers_it_ended(interruptible):
    class Broken(Executor):
        def submit(self, fn, /, *args, **kwargs):
            signal.raise_signal(signal.SIGINT)
            raise BrokenExecutor("a worker was ended by Ctrl-C")

    with pytest.raises(KeyboardInterrupt):
        problem().collect(**SIZE, executor=Broken())


@pytest.mark.parametrize("in_flight", [1, 5])
def test_the_number_of_pending_batches_is_bounded(in_flight):
    with RandomOrder() as executor:
        problem().collect(**SIZE, executor=executor, in_flight=in_flight)
    assert executor.max_pending <= in_flight
    assert executor.submitted == sum(-(-n // SIZE["batch"]) for n in SIZE["N"])


def test_two_batches_per_worker_and_two_more_are_pending_by_default():
    started = []

    class Pool(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            started.append(len([future for future in futures if not future.done()]) + 1)
            futures.append(super().submit(fn, *args, **kwargs))
            return futures[-1]

    futures = []
    with Pool(2) as executor:
        problem().collect(20, 4, rng=0, executor=executor)
    assert max(started) <= 6
    assert len(started) == 20


def test_a_pool_of_processes_refuses_functions_that_cannot_be_pickled_at_once():
    calls = []
    with processes() as executor, pytest.raises(TypeError, match=r"cannot be sent to other processes .*cloudpickle"):
        problem(lambda x, theta: calls.append(x) or f(x, theta)).collect(**SIZE, executor=executor)
    assert len(calls) <= 1


# failures of f


def fails(x, theta):
    if theta[0] != REFERENCE.theta[0, 0] and np.any(x[:, 0] > theta[0] + 1):
        raise ZeroDivisionError("flat")
    return f(x, theta)


@pytest.mark.parametrize("make", [partial(ThreadPoolExecutor, 2), processes, lambda: 2], ids=["threads", "pool", "own"])
def test_failures_of_f_on_workers(make, tmp_path):
    path = tmp_path / "run.sqlite"
    executor = make()
    try:
        with pytest.raises(
            IntegrandError, match=r"raised ZeroDivisionError.*flat.* points are in .*run.sqlite"
        ) as error:
            problem(fails).collect(**SIZE, executor=executor, checkpoint=path)
        np.testing.assert_array_equal(error.value.theta, REFERENCE.theta[error.value.t])
        with pytest.warns(CollectWarning, match="ZeroDivisionError: flat"):
            s = problem(fails).collect(**SIZE, executor=executor, checkpoint=path, on_error="skip")
    finally:
        if isinstance(executor, Executor):
            executor.shutdown()
    with pytest.warns(CollectWarning):
        same(s, problem(fails).collect(**SIZE, on_error="skip"))
    same(problem().collect(**SIZE, checkpoint=path), REFERENCE)


# workers that die


def test_a_lost_batch_is_tried_again():
    with Losing(2) as executor:
        same(problem().collect(**SIZE, executor=executor, retries=2), REFERENCE)
    assert len(executor.lost) == 2 * executor.submitted


def test_a_batch_is_tried_again_a_limited_number_of_times(tmp_path):
    path = tmp_path / "run.sqlite"
    with (
        Losing(3) as executor,
        pytest.raises(
            WorkerError, match=r"points 0 to 3 of theta index t = 0 came back 3 times .*worker killed"
        ) as error,
    ):
        problem().collect(**SIZE, executor=executor, retries=2, in_flight=1, checkpoint=path)
    assert isinstance(error.value.__cause__, RuntimeError)
    assert "0 of 80 points are in" in str(error.value)
    same(problem().collect(**SIZE, checkpoint=path), REFERENCE)


def deadly(folder, times, x, theta):
    """f, but the first `times` workers that evaluate a certain batch die."""
    if os.getpid() != MAIN_PROCESS and theta[0] == REFERENCE.theta[3, 0] and x[0, 0] == REFERENCE.points(3)[4, 0]:
        deaths = len(os.listdir(folder))
        if deaths < times:
            Path(folder, str(deaths)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return f(x, theta)


def dying(folder, times):
    folder.mkdir()
    return problem(partial(deadly, str(folder), times))


def test_processes_of_the_run_are_replaced_when_they_die(tmp_path):
    same(dying(tmp_path / "deaths", 2).collect(**SIZE, executor=2, retries=2), REFERENCE)
    assert len(os.listdir(tmp_path / "deaths")) == 2


def test_a_batch_that_always_kills_its_worker_ends_the_run(tmp_path):
    path = tmp_path / "run.sqlite"
    with pytest.raises(WorkerError, match=r"came back 2 times without values.*BrokenProcessPool.* call collect again"):
        dying(tmp_path / "deaths", 99).collect(**SIZE, executor=2, retries=1, checkpoint=path)
    kept = cbq.Samples.from_checkpoint(path)
    assert 0 < kept.n_evaluations < 80
    same(problem().collect(**SIZE, checkpoint=path), REFERENCE)


class NeverStarting(Executor):
    """A pool whose workers never start."""

    def submit(self, fn, /, *args, **kwargs):
        raise BrokenExecutor("no memory")


def test_workers_that_never_start_end_the_run(monkeypatch):
    with pytest.raises(WorkerError, match=r"cannot be used any more \(BrokenExecutor: no memory\)"):
        problem().collect(**SIZE, executor=NeverStarting())
    made = []
    monkeypatch.setattr("cbq.collect.executors.Workers._start", lambda workers, n: made.append(n) or NeverStarting())
    with pytest.raises(WorkerError, match="came back 3 times without values"):
        problem().collect(**SIZE, executor=2, retries=2)
    assert len(made) == 3


def test_an_interrupt_while_batches_are_reported_loses_none_of_them(tmp_path):
    path = tmp_path / "run.sqlite"

    def interrupted(done, total):
        if len(reported) == 2:
            raise KeyboardInterrupt
        reported.append(done)

    for options in ({}, {"executor": ThreadPoolExecutor(2)}):
        reported = []
        with pytest.raises(KeyboardInterrupt, match=r"points are in .*run.sqlite"):
            problem().collect(**SIZE, in_flight=1, checkpoint=path, progress=interrupted, **options)
        kept = cbq.Samples.from_checkpoint(path)
        assert kept.n_evaluations >= reported[-1] + SIZE["batch"]
        if options:
            options["executor"].shutdown()
    same(problem().collect(**SIZE, checkpoint=path), REFERENCE)


def test_a_broken_executor_of_the_user_is_not_used_again(tmp_path):
    path, killing = tmp_path / "run.sqlite", dying(tmp_path / "deaths", 1)
    with processes() as executor:
        with pytest.raises(WorkerError, match=r"cannot be used any more.*make a new one.*points are in .*call collect"):
            killing.collect(**SIZE, executor=executor, checkpoint=path)
        with pytest.raises(WorkerError, match="cannot be used any more"):
            killing.collect(**SIZE, executor=executor, checkpoint=path)
    with processes() as executor:
        same(killing.collect(**SIZE, executor=executor, checkpoint=path), REFERENCE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the cluster, whose workers come and go
def test_a_dask_cluster_that_loses_a_worker(tmp_path):
    distributed = pytest.importorskip("distributed")
    log = tmp_path / "log"
    pids = []

    def slow(x, theta):
        import time

        with open(log, "a") as file:
            file.write(f"{os.getpid()} {theta[0]!r} {x[0, 0]!r}\n")
        time.sleep(0.02)
        return f(x, theta)

    def kill(done, total):
        if pids and done > 40:
            os.kill(pids.pop(), signal.SIGKILL)
            pids.clear()

    size = {"T": 5, "N": 80, "rng": 0, "batch": 4}
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        pids += client.run(os.getpid).values()
        assert len(set(pids)) == 2
        workers = set(map(str, pids))
        path = tmp_path / "run.sqlite"
        s = problem(slow).collect(**size, executor=client.get_executor(), progress=kill, checkpoint=path)
    assert not pids
    same(s, problem().collect(**size))
    same(cbq.Samples.from_checkpoint(path), s)
    calls = [line.split(" ", 1) for line in log.read_text().splitlines()]
    assert workers <= {pid for pid, _ in calls}
    repeated = len(calls) - len({place for _, place in calls})
    assert repeated <= 2 * 2 + 2 + 1  # pending batches, and the first point, which the probe evaluates, too
