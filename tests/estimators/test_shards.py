"""Fits and comparisons on executors: the same numbers, whoever computes them, and workers that die."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import cbq
from cbq.common import workers
from cbq.common.workers import WorkerError, as_called, call_each
from cbq.measures import Gaussian, Uniform
from tests.runs.test_executors import RandomOrder

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # by Python 3.12 and 3.13


def f(x, theta):
    return np.stack([np.sin(x[:, 0]) * theta[0], x[:, 1] ** 2], axis=1)


def family(theta):
    return Gaussian(np.repeat(theta, 2), 1.0)


def square(x):
    return x * x


def refuse(x):
    raise ArithmeticError(f"not {x}")


SAMPLES = cbq.Problem(f, family, Uniform(0.0, 1.0)).collect(T=11, N=[20, 7, *[20] * 9], rng=0)


def same(one, two):
    between = 0.5 * (one.theta[1:] + one.theta[:-1])
    for each in zip(one.predict(between, return_std=True), two.predict(between, return_std=True), strict=True):
        np.testing.assert_array_equal(*each)
    for name, column in one.stage1.columns.items():
        np.testing.assert_array_equal(column, two.stage1.columns[name])


@pytest.fixture(scope="module")
def alone():
    return cbq.CBQ().fit(SAMPLES)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_fit_does_not_depend_on_the_number_of_shards(n, alone):
    with ThreadPoolExecutor(n) as executor:
        same(cbq.CBQ().fit(SAMPLES, executor=executor), alone)


class Losing(RandomOrder):
    """Loses every task once, and reports it like a scheduler whose worker was killed."""

    def submit(self, fn, /, *args, **kwargs):
        if args[-1] > 0:  # not the first attempt
            return super().submit(fn, *args, **kwargs)
        future = Future()
        future.set_exception(RuntimeError("worker killed"))
        return future


EXECUTORS = {"random order": RandomOrder, "losing": Losing, "processes": lambda: 2}


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
def test_a_fit_does_not_depend_on_the_executor(executor, alone):
    same(cbq.CBQ().fit(SAMPLES, executor=executor()), alone)


def test_borrowed_points_and_options_reach_the_workers():
    samples = cbq.problems.get("linear", dim=1).collect(T=12, N=8, rng=0)
    estimator = cbq.CBQ(borrow=20, kernel_x=cbq.kernels.Matern(1.5))
    with ThreadPoolExecutor(2) as executor:
        same(estimator.fit(samples, executor=executor), estimator.fit(samples))


def test_the_estimator_that_chooses_takes_an_executor():
    samples = cbq.problems.get("linear", dim=1).collect(T=12, N=8, rng=0)
    with ThreadPoolExecutor(2) as executor:
        one = cbq.Auto().fit(samples, executor=executor)
    two = cbq.Auto().fit(samples)
    assert one.choice == two.choice
    np.testing.assert_array_equal(one.predict(samples.theta), two.predict(samples.theta))


def test_results_come_in_the_order_of_the_tasks():
    assert call_each(square, [3, 1, 2], None, "", "") == [9, 1, 4]
    assert call_each(square, [3, 1, 2], RandomOrder(), "", "") == [9, 1, 4]
    assert call_each(square, [], RandomOrder(), "", "") == []


def test_a_task_without_a_result_is_tried_a_limited_number_of_times():
    class Forgetting(RandomOrder):
        def submit(self, fn, /, *args, **kwargs):
            return super().submit(refuse, "here")

    executor = Forgetting()
    with pytest.raises(WorkerError, match=r"came back 4 times without a result.*not here"):
        call_each(square, [1], executor, "", "")
    assert executor.submitted == workers.RETRIES + 1


def test_what_a_task_raises_is_raised_once_and_takes_back_the_others():
    executor = RandomOrder()
    with pytest.raises(ArithmeticError, match="not"):
        call_each(refuse, list(range(100)), executor, "", "")
    assert executor.submitted < 100


def test_a_caller_that_stops_takes_back_what_has_not_begun():
    started, go = [], threading.Event()

    def wait(x):
        started.append(x)
        if x:
            go.wait(10)
        return x

    with ThreadPoolExecutor(1) as executor:
        calls = as_called(wait, [0, 1, 2, 3], executor, "", "")
        assert next(calls) == (0, 0)
        calls.close()
        go.set()
    assert set(started) <= {0, 1}


def test_a_pool_that_has_lost_a_process_says_so():
    with ProcessPoolExecutor(1) as executor, pytest.raises(WorkerError, match="died, and the executor cannot be used"):
        call_each(os._exit, [1], executor, "", "")


def test_kernels_that_cannot_be_sent_are_refused_before_the_work():
    class Local(cbq.kernels.RBF):
        pass

    with pytest.raises(TypeError, match=r"the measures and kernels of x cannot be sent to other processes.*threads"):
        cbq.CBQ(kernel_x=Local(1.0)).fit(SAMPLES, executor=1)


@pytest.mark.parametrize("executor", [0, 1.5, "two", True])
def test_executors_that_are_none_are_refused(executor):
    with pytest.raises((TypeError, ValueError), match="executor must be"):
        cbq.CBQ().fit(SAMPLES, executor=executor)


def truth(theta):
    return np.stack([theta[:, 0] * np.sin(theta[:, 0]) * np.exp(-0.5), 1 + theta[:, 0] ** 2], axis=1)


@pytest.mark.parametrize("truth", [None, truth], ids=["left out", "truth"])
@pytest.mark.parametrize("executor", [2, RandomOrder()], ids=["processes", "random order"])
def test_a_comparison_does_not_depend_on_the_executor(truth, executor):
    methods = {"CBQ": cbq.CBQ(), "average": cbq.MonteCarlo()}
    one = cbq.compare(SAMPLES, methods, truth, folds=2)
    two = cbq.compare(SAMPLES, methods, truth, folds=2, executor=executor)
    assert [row.method for row in two.rows] == ["CBQ", "average"] * 2
    for a, b in zip(one.rows, two.rows, strict=True):
        a, b = vars(a) | {"seconds": 0}, vars(b) | {"seconds": 0}
        np.testing.assert_equal(a, b)


@pytest.mark.filterwarnings("ignore")  # of the cluster, whose workers come and go
def test_a_fit_on_a_dask_cluster_that_loses_a_worker():
    distributed = pytest.importorskip("distributed")
    samples = cbq.problems.get("linear").collect(T=60, N=100, rng=0)
    alone = cbq.CBQ().fit(samples)
    killed = []

    def kill_one(future):
        if not killed:  # with the first result, while others are under way
            killed.append(pids.pop())
            os.kill(killed[0], signal.SIGKILL)

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
        executor = client.get_executor()
        submit = executor.submit

        def submitted(*arguments):
            future = submit(*arguments)
            future.add_done_callback(kill_one)
            return future

        executor.submit = submitted
        fit = cbq.CBQ().fit(samples, executor=executor)
        until = time.monotonic() + 10
        while killed[0] in client.run(os.getpid).values() and time.monotonic() < until:
            time.sleep(0.1)
        assert killed[0] not in client.run(os.getpid).values()
    theta = np.linspace(*np.quantile(samples.theta, [0.1, 0.9], axis=0), 5)
    np.testing.assert_array_equal(fit.predict(theta), alone.predict(theta))


class Odd(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def raise_odd(x):
    raise Odd(f"{x} and more")


def test_errors_that_cannot_be_sent_come_back_as_text():
    with ProcessPoolExecutor(1) as executor, pytest.raises(RuntimeError, match="Odd: 1 and more"):
        call_each(raise_odd, [1], executor, "", "")


def test_an_executor_that_was_shut_down_is_refused_in_words():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(WorkerError, match="takes no more tasks"):
        call_each(square, [1], executor, "", "")


def test_workers_use_numpy_whatever_this_process_uses():
    pytest.importorskip("torch")
    with cbq.engine("torch"):
        one = cbq.CBQ().fit(SAMPLES, executor=2)
        with ThreadPoolExecutor(1) as executor:
            two = cbq.CBQ().fit(SAMPLES, executor=executor)
    for name, column in one.stage1.columns.items():
        np.testing.assert_array_equal(column, two.stage1.columns[name])


def test_a_truth_that_is_known_where_it_is_needed_is_enough():
    def known_between(theta):
        if np.any(np.isin(theta, SAMPLES.theta)):
            raise ValueError("not here")
        return truth(theta)

    theta = 0.5 * (SAMPLES.theta[1:] + SAMPLES.theta[:-1])
    methods = {"average": cbq.LSMC()}
    one = cbq.compare(SAMPLES, methods, known_between, theta=theta)
    two = cbq.compare(SAMPLES, methods, known_between, theta=theta, executor=RandomOrder())
    assert [row.rmse for row in one.rows] == [row.rmse for row in two.rows]
