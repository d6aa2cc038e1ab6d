"""Executors: samples do not depend on the workers, the order in which batches finish, or workers that die."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
import time
import types
import warnings
from collections import Counter
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import cbq
from cbq.common import workers
from cbq.common.workers import WorkerError
from cbq.measures import Gaussian, Uniform
from cbq.problems.problem import Problem
from cbq.runs import CollectWarning, IntegrandError
from cbq.runs import processes as own
from cbq.runs.integrand import Points, Task

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
CULPRIT = REFERENCE.points(3)[6, 0]  # x_0 of a point in the middle of a batch


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
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"  # not waiting for init
    except (ProcessLookupError, FileNotFoundError):
        return False


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


ALONE = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background would ignore it
sys.path.insert(0, {folder!r})
from test_executors import f, problem

log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def slow(x, theta):
    time.sleep(0.1)
    os.write(log, b"finished\\n")
    return f(x[None], theta)[0]

try:
    problem(slow, vectorized=False).collect(2, 10**4, rng=0, batch=10**4, executor=2, checkpoint={path!r})
except KeyboardInterrupt as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")
def test_an_interrupt_of_the_parent_alone_keeps_what_is_finished_and_does_not_wait_for_batches(tmp_path):
    """Each batch takes a quarter of an hour."""
    path, log = tmp_path / "run.sqlite", tmp_path / "log"
    code = ALONE.format(folder=str(Path(__file__).parent), path=str(path), log=str(log))
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", code], **options) as child:
        while child.poll() is None and not (log.exists() and log.stat().st_size > 20 * len("finished\n")):
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert re.search(r"interrupted\. \d+ of 20000 points are in .*run.sqlite: call collect again", out), err
    trial, finished = 1, len(log.read_text().splitlines())
    assert cbq.Samples.from_checkpoint(path).n_evaluations >= finished - trial
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)  # no worker is left


SIMULATING = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {folder!r})
from test_executors import problem

def simulator(x, theta):
    command = f"echo 0; sleep 0.2; echo {{float(x[0])!r}}"  # if it is interrupted, the last line is 0
    return float(subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True).stdout.split()[-1])

try:
    report = lambda done, total: print(done, flush=True)
    options = {{"executor": 2, "checkpoint": {path!r}, "progress": report, "on_error": "skip"}}
    problem(simulator, vectorized=False).collect(2, 1000, rng=0, **options)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")
def test_ctrl_c_does_not_interrupt_simulators_whose_values_would_be_wrong(tmp_path):
    path = tmp_path / "run.sqlite"
    code = SIMULATING.format(folder=str(Path(__file__).parent), path=str(path))
    options = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", code], **options) as child:
        child.stdout.readline()
        os.killpg(child.pid, signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert out.endswith("interrupted\n")
    s = cbq.Samples.from_checkpoint(path)
    assert s.failures is None
    np.testing.assert_allclose(s.table[:, 0], s.all_points[:, 0], rtol=1e-15)


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
    trial = 1
    assert executor.submitted == sum(-(-n // SIZE["batch"]) for n in SIZE["N"]) + trial


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
    assert max(started) == 6
    trial = 1
    assert len(started) == 20 + trial


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
    with pytest.warns(CollectWarning, match="the integrand has changed since"):
        same(problem().collect(**SIZE, checkpoint=path), REFERENCE)


# workers that die


def test_a_lost_batch_is_tried_again():
    with Losing(2) as executor:
        same(problem().collect(**SIZE, executor=executor, retries=2), REFERENCE)
    assert len(executor.lost) == 2 * executor.submitted


def test_a_batch_is_tried_again_a_limited_number_of_times(tmp_path):
    path = tmp_path / "run.sqlite"
    says = r"points 0 to 2 of theta index t = 0 came back 3 times .*worker killed"
    with Losing(3) as executor, pytest.raises(WorkerError, match=says) as error:
        problem().collect(**SIZE, executor=executor, retries=2, in_flight=1, checkpoint=path)
    assert isinstance(error.value.__cause__.__cause__, RuntimeError)
    same(problem().collect(**SIZE, checkpoint=path), REFERENCE)


def deadly(folder, times, x, theta):
    """f, but the first `times` workers that evaluate a certain point die."""
    if os.getpid() != MAIN_PROCESS and np.any(x[:, 0] == CULPRIT):
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


def test_a_point_that_always_kills_its_worker_is_reported(tmp_path):
    path, retries = tmp_path / "run.sqlite", 1
    says = (
        r"ended its process \(signal SIGKILL\) at theta index t = 3 .* point i = 6 .* 2 attempts.* call collect again"
    )
    with pytest.raises(IntegrandError, match=says) as error:
        dying(tmp_path / "deaths", 99).collect(**SIZE, executor=2, retries=retries, checkpoint=path)
    assert (error.value.t, error.value.i) == (3, 6)
    np.testing.assert_array_equal(error.value.x, REFERENCE.points(3)[6])
    assert len(os.listdir(tmp_path / "deaths")) == retries + 1 + 2  # and batches of 4 points are halved twice
    kept = cbq.Samples.from_checkpoint(path)
    assert 0 < kept.n_evaluations < 80
    with pytest.warns(CollectWarning, match="the integrand has changed since"):
        same(problem().collect(**SIZE, checkpoint=path), REFERENCE)


@pytest.mark.parametrize("vectorized", [True, False])
def test_only_the_points_that_kill_their_worker_are_skipped(tmp_path, vectorized):
    """The batches in flight beside them are neither blamed nor evaluated twice."""
    log, culprits = tmp_path / "log", set(REFERENCE.points(3)[[6, 29], 0])

    def logged(x, theta):
        with open(log, "a") as file:
            file.writelines(f"{each}\n" for each in x[:, 0].tolist())
        if culprits & set(x[:, 0]):
            os._exit(3)
        return f(x, theta)

    integrand = logged if vectorized else lambda x, theta: logged(x[None], theta)[0]
    with pytest.warns(CollectWarning, match=r"failed at 2 of 80 points, at 1 of 5 .*process \(exit status 3\)"):
        s = problem(integrand, vectorized=vectorized).collect(**SIZE, executor=2, on_error="skip", retries=1)
    kept = [[i for i, x in enumerate(REFERENCE.points(t)[:, 0]) if x not in culprits] for t in range(5)]
    for t, rows in enumerate(kept):
        np.testing.assert_array_equal(s.points(t), REFERENCE.points(t)[rows])
        np.testing.assert_array_equal(s.values(t), REFERENCE.values(t)[rows])
    calls = Counter(map(float, log.read_text().split()))
    in_their_batches = {*REFERENCE.points(3)[4:8, 0], *REFERENCE.points(3)[28:, 0]}
    trial = set(REFERENCE.points(0)[:3, 0])
    assert {x for x, n in calls.items() if n > 1} <= in_their_batches | trial


def test_points_of_the_trial_call_that_kill_their_worker_are_skipped():
    culprits = set(REFERENCE.points(0)[[0, 2], 0])

    def deadly(x, theta):
        if culprits & set(x[:, 0]):
            os._exit(3)
        return f(x, theta)

    with pytest.warns(CollectWarning, match="failed at 2 of 80 points"):
        s = problem(deadly).collect(**SIZE, executor=2, on_error="skip", retries=0)
    rows = [1, *range(3, 30)]
    np.testing.assert_array_equal(s.values(0), REFERENCE.values(0)[rows])


class NeverStarting(Executor):
    """A pool whose workers never start."""

    def submit(self, fn, /, *args, **kwargs):
        raise BrokenExecutor("no memory")


def leaves(x, theta):
    sys.exit("no licence")


def quits(x, theta):
    os._exit(0)


@pytest.mark.parametrize(
    ("integrand", "executor", "says"),
    [
        (leaves, None, "raised SystemExit at theta index t = 0 .*no licence"),
        (leaves, 2, "raised SystemExit at theta index t = 0 .*no licence"),
        (quits, 2, r"ended its process \(exit status 0\) at theta index t = 0 .* point i = 0 .* 3 attempts"),
    ],
)
def test_an_integrand_that_ends_its_process_does_not_end_the_run_without_a_word(integrand, executor, says):
    with pytest.raises(IntegrandError, match=says):
        problem(integrand).collect(**SIZE, executor=executor)


def test_the_trial_call_runs_in_a_worker(tmp_path):
    def here(x, theta):
        assert os.getpid() != MAIN_PROCESS
        return f(x, theta)

    same(problem(here).collect(**SIZE, executor=1), REFERENCE)


def hangs(x, theta):
    if np.any(x[:, 0] == CULPRIT):
        threading.Event().wait()
    return f(x, theta)


def test_a_point_that_takes_too_long_is_skipped():
    options = {**SIZE, "batch": 2, "executor": 2, "timeout": 1.0}
    with pytest.warns(CollectWarning, match=r"failed at 1 of 80 points.*t = 3.*i = 6.*longer than timeout = 1 s"):
        s = problem(hangs).collect(**options, on_error="skip")
    assert s.n_evaluations == 79


def test_a_point_that_takes_too_long_is_reported(tmp_path):
    path, one = tmp_path / "run.sqlite", problem(lambda x, theta: hangs(x[None], theta)[0], vectorized=False)
    says = r"took longer than timeout = 1 s at theta index t = 3 .* i = 6 .* points are in"
    with pytest.raises(IntegrandError, match=says) as error:
        one.collect(**SIZE, executor=2, timeout=1.0, checkpoint=path)
    assert (error.value.t, error.value.i) == (3, 6)
    assert cbq.Samples.from_checkpoint(path).n_evaluations >= 80 - 30  # all thetas before this one


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")
def test_a_simulator_that_takes_too_long_ends_with_its_worker(tmp_path):
    def simulator(x, theta):
        with subprocess.Popen(["sleep", "3600"]) as child:
            Path(tmp_path, str(child.pid)).touch()
        return x[0]

    with pytest.raises(IntegrandError, match=r"took longer than timeout = 0.5 s"):
        problem(simulator, vectorized=False).collect(1, 1, rng=0, executor=1, timeout=0.5)
    (pid,) = map(int, os.listdir(tmp_path))
    while alive(pid):  # until init has taken it: for ever, if it is not ended
        time.sleep(0.01)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("executor", [None, 2])
def test_a_process_that_f_forks_does_not_go_on_as_a_worker(executor, tmp_path):
    def forking(x, theta):
        if os.fork() == 0:
            Path(tmp_path, str(os.getpid())).touch()
            if x[0] > theta[0]:
                sys.exit(0)
            return None
        os.wait()
        return f(x[None], theta)[0]

    same(problem(forking, vectorized=False).collect(**SIZE, executor=executor), REFERENCE)
    assert not any(map(alive, map(int, os.listdir(tmp_path))))


def test_points_that_are_quick_enough_are_not_stopped_by_the_time_limit_of_their_batch():
    def steady(x, theta):
        time.sleep(0.1)
        return f(x[None], theta)[0]

    size = {**SIZE, "N": 30, "T": 1, "batch": 30}
    same(problem(steady, vectorized=False).collect(**size, executor=1, timeout=2.0), problem().collect(**size))


@pytest.mark.parametrize("executor", [None, NeverStarting()])
def test_a_time_limit_needs_processes_of_the_run(executor):
    with pytest.raises(ValueError, match="timeout needs processes that the run can end: pass executor=1 or more"):
        problem().collect(**SIZE, executor=executor, timeout=1.0)


@pytest.mark.parametrize("timeout", [0, -1.0, np.nan, "1", True])
def test_time_limits_that_are_none_are_refused(timeout):
    with pytest.raises(ValueError, match="timeout must be a number of seconds above 0, but it is"):
        problem().collect(**SIZE, executor=1, timeout=timeout)


def test_workers_that_never_start_end_the_run(monkeypatch):
    with pytest.raises(WorkerError, match=r"cannot be used any more \(BrokenExecutor: no memory\)"):
        problem().collect(**SIZE, executor=NeverStarting())
    started, start = [], own._Worker
    monkeypatch.setattr(own, "_work", lambda *_: os._exit(9))
    monkeypatch.setattr(own, "_Worker", lambda *args: started.append(1) or start(*args))
    with pytest.raises(WorkerError, match=r"came back 3 times .*its process ended before it took work, exit status 9"):
        problem().collect(**SIZE, executor=2, retries=2)
    assert len(started) == 3


def test_processes_that_cannot_be_started_end_the_run(monkeypatch):
    def start(process):
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", start)
    with pytest.raises(WorkerError, match=r"no process can be started \(Resource .* ask for fewer, or free memory"):
        problem().collect(**SIZE, executor=2)


def test_a_process_that_was_killed_while_it_was_idle_is_replaced():
    pool = own.ProcessPool(1, problem()._evaluator(None), None, None)
    task = Task(Points(REFERENCE.theta[0], REFERENCE.points(0), 0), (), skip_failures=False)
    with closing(pool):
        for _ in range(3):
            pool.submit(task, 0)
            ((result, left, error),) = pool.finished()
            np.testing.assert_array_equal(result.f, REFERENCE.values(0))
            assert (left, error) == (None, None)
            (child,) = multiprocessing.active_children()
            child.kill()
            child.join()
    assert not multiprocessing.active_children()


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


# clusters


class WithoutWorkers(Executor):
    """The executor of a Dask client whose cluster has no workers."""

    class _client:
        status = "running"
        scheduler_info = staticmethod(lambda: {"workers": {}})

    def submit(self, fn, /, *args, **kwargs):
        return Future()


def test_a_cluster_without_workers_is_not_waited_for_forever(monkeypatch):
    monkeypatch.setattr(workers, "CHECK_INTERVAL", 0.01)
    monkeypatch.setattr(workers, "WITHOUT_WORKERS", 0.05)
    with (
        pytest.warns(CollectWarning, match="the Dask cluster has no workers: waiting for some, 0.05 s at most"),
        pytest.raises(WorkerError, match=r"has had no workers for 0.05 s.* client.wait_for_workers\(1\)"),
    ):
        problem().collect(**SIZE, executor=WithoutWorkers())


def test_mpi_refuses_functions_that_its_pickler_cannot_send(monkeypatch):
    class MPIPoolExecutor(ThreadPoolExecutor):
        __module__ = "mpi4py.futures.pool"

    mpi = types.ModuleType("mpi4py.MPI")
    monkeypatch.setitem(sys.modules, "mpi4py", types.ModuleType("mpi4py"))
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi)
    mpi.pickle = pickle
    with MPIPoolExecutor(1) as executor:
        with pytest.raises(TypeError, match=r"the integrand cannot be sent to other processes .*top level of a module"):
            problem(lambda x, theta: f(x, theta)).collect(**SIZE, executor=executor)
        same(problem().collect(**SIZE, executor=executor), REFERENCE)
        mpi.pickle = types.SimpleNamespace(dumps=lambda evaluator: b"by cloudpickle")
        same(problem(lambda x, theta: f(x, theta)).collect(**SIZE, executor=executor), REFERENCE)


def ends_its_worker(x, theta):
    if np.any(x[:, 0] == CULPRIT):
        os._exit(1)
    return f(x, theta)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the cluster, whose workers come and go
def test_a_point_that_kills_the_workers_of_a_cluster_is_found(caplog):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        cluster.scheduler.allowed_failures = 0
        with warnings.catch_warnings(record=True, action="always") as caught:
            s = problem(ends_its_worker).collect(**SIZE, executor=client.get_executor(), on_error="skip")
        with pytest.raises(IntegrandError, match="ended each worker that evaluated it at theta index t = 3") as error:
            problem(ends_its_worker).collect(**SIZE, executor=client.get_executor())
    (says,) = [str(each.message) for each in caught if each.category is CollectWarning]
    assert "failed at 1 of 80 points" in says
    rows = [i for i in range(30) if i != 6]
    np.testing.assert_array_equal(s.points(3), REFERENCE.points(3)[rows])
    assert (error.value.t, error.value.i) == (3, 6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_whose_last_worker_is_gone_ends_the_run(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "CHECK_INTERVAL", 0.5)
    monkeypatch.setattr(workers, "WITHOUT_WORKERS", 2.0)
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        executor = client.get_executor()
        cluster.scale(0)
        with pytest.raises(WorkerError, match="has had no workers for 2 s"):
            problem().collect(**SIZE, executor=executor)


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

    def calls():
        return [line.split(" ", 1) for line in log.read_text().splitlines()]

    def kill(done, total):
        if pids and set(map(str, pids)) <= {pid for pid, _ in calls()}:  # both have begun to work
            os.kill(pids.pop(), signal.SIGKILL)
            pids.clear()

    size = {"T": 5, "N": 80, "rng": 0, "batch": 4}
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        pids += client.run(os.getpid).values()
        assert len(set(pids)) == 2
        path = tmp_path / "run.sqlite"
        s = problem(slow).collect(**size, executor=client.get_executor(), progress=kill, checkpoint=path)
    assert not pids
    same(s, problem().collect(**size))
    same(cbq.Samples.from_checkpoint(path), s)
    repeated = len(calls()) - len({place for _, place in calls()})
    assert repeated <= 2 * 2 + 2 + 1  # pending batches, and the first point, which the probe evaluates, too
