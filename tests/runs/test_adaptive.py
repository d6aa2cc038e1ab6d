"""Adaptive runs: sessions that ask and are told, `solve`, the goal, and the rounds that stop a run."""

from __future__ import annotations

import os
import re
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import cbq
from cbq.checkpoint.ledger import read_ledger
from cbq.measures import Empirical, Gamma, Gaussian, LogNormal, Uniform, Unnormalised
from cbq.runs import IntegrandError
from cbq.runs.goal import Goal, Round, is_reached
from quiet import silent
from tests.checkpoint.test_checkpoint import same
from tests.refusals import refusals

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # by Python 3.12 and 3.13


def family(theta):
    return Gaussian(theta[:1], 1.0)


def f(x, theta):
    return np.sin(x[:, 0]) + theta[0] * x[:, 0] ** 2


def problem(integrand=f, measure=family, prior=None, **options):
    return cbq.Problem(integrand, measure, Uniform(0.0, 1.0) if prior is None else prior, **options)


def values(asked):
    return np.array([f(x[None], theta)[0] for _, theta, x in asked])


def told(session, n):
    """A session that was told n values."""
    asked = session.ask(n)
    session.tell(asked.ids, values(asked))
    return session


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.sqlite"


# sessions


def test_order_sessions_and_a_look_at_the_estimate_change_no_run(path):
    """Two outputs, since the estimate says which of them matters more."""
    lab = problem(None)
    sizes = [16, 5, 5, 3]

    def result(x, theta):
        return [np.sin(x[0]), theta[0] * x[0] ** 2]

    one = lab.session(rng=0)
    for n in sizes:
        asked = one.ask(n)
        one.tell(asked.ids, [result(x, theta) for _, theta, x in asked])
    for n in sizes:
        with lab.session(rng=0, checkpoint=path) as session:
            session.ask(n)
        with lab.session(rng=0, checkpoint=path) as session:
            runs = list(session.pending)
            for i, theta, x in runs[: n // 2 : -1]:
                session.tell(i, result(x, theta))
                if session.n_told > 16:
                    session.fit()
                    session.answer()
                    assert not session.reached
        with lab.session(rng=0, checkpoint=path) as session:
            rest = session.pending
            session.tell(rest.ids, [result(x, theta) for _, theta, x in rest])
            assert not len(session.pending)
    with lab.session(rng=0, checkpoint=path) as session:
        same(session.samples, one.samples)
        assert_array_equal(session.fit().predict([0.3]), one.fit().predict([0.3]))
        answer, expected = session.answer(), one.answer()
    assert_array_equal(answer.next.x, expected.next.x)
    assert [each.runs for each in answer.rounds] == [each.runs for each in expected.rounds]


def test_solve_is_a_loop_of_ask_and_tell():
    answer = problem().solve(rng=0, batch=3, budget=22)
    session = problem(None).session(rng=0)
    while session.n_told < 22:
        told(session, min(3, 22 - session.n_told))
    same(session.samples, answer.samples)
    assert_array_equal(session.fit().predict([0.1, 0.7]), answer.fit.predict([0.1, 0.7]))


def test_threads_share_a_session(path):
    """Callbacks of an executor run in threads of their own."""
    with problem(None).session(rng=0, checkpoint=path) as session:
        asked = session.ask(16)
        found = dict(zip(asked.ids.tolist(), values(asked), strict=True))
        threads = [threading.Thread(target=session.tell, args=(i, value)) for i, value in found.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.n_told == 16
    assert sorted(result.batch.t for result in read_ledger(path).results) == list(range(16))


def test_pending_runs_are_not_asked_for_again():
    session = told(problem(None).session(rng=0), 16)
    asked = [session.ask(4), session.ask(4)]
    assert len({tuple(x) for each in asked for x in each.x}) == 8
    assert session.pending.ids.tolist() == list(range(16, 24))
    assert len(np.unique(problem(None).session(rng=0).ask(800).x)) == 800  # more than there are candidates by default


def test_results_may_be_told_again_and_a_failure_may_become_a_value(path):
    with problem(None).session(rng=0, checkpoint=path) as session:
        asked = session.ask(4)
        session.tell([], failures={0: "no licence", 3: "crashed"})
        session.tell([], failures={0: "no licence"})
        assert session.samples is None
        session.tell([1, 2], [1.5, 2.5])
        session.tell([2, 1], [2.5, 1.5])
        session.tell(0, 0.5)
        assert session.failures == {3: "crashed"}
        assert (session.n_told, session.n_asked) == (4, 4)
    with problem(None).session(rng=0, checkpoint=path) as session:
        assert session.failures == {3: "crashed"}
        assert_array_equal(session.samples.table[:, 0], [0.5, 1.5, 2.5])
        assert_array_equal(session.samples.all_points, asked.x[:3])
        assert_array_equal(session.samples.failures.x, asked.x[3:])
        session.tell([3], [3.5])
    assert cbq.Samples.from_checkpoint(path).failures is None


SHAPES = {
    "a number": ((), 0, 1.0),
    "a number in a list": ((), [0], [1.0]),
    "one of one number": ((), 0, [1.0]),
    "two outputs": ((2,), 0, [1.0, 2.0]),
    "two outputs of one run": ((2,), [0], [[1.0, 2.0]]),
    "one output": ((1,), [0], [[1.0]]),
}


@pytest.mark.parametrize(("outputs", "ids", "found"), SHAPES.values(), ids=SHAPES)
def test_one_run_is_told_as_numbers_or_arrays(outputs, ids, found):
    session = problem(None).session(rng=0)
    session.ask(2)
    session.tell(ids, found)
    assert session.outputs == outputs
    session.tell(1, np.zeros(outputs))
    assert session.n_told == 2


def _telling(*arguments, known=True, **options):
    """Tell this to a session of which run 0 has the value 1, and runs 1 and 2 are pending; nothing is taken."""

    def attempt():
        session = problem(None, **options.pop("problem", {})).session(rng=0)
        session.ask(3)
        if known:
            session.tell(0, 1.0)
        before = session.n_told, session.outputs, session.pending.ids.tolist()
        try:
            session.tell(*arguments, **options)
        finally:
            assert (session.n_told, session.outputs, session.pending.ids.tolist()) == before

    return attempt


REFUSED = {
    "unknown id": (
        _telling([1, 3], [1.0, 2.0]),
        "ids must be numbers of runs, but there is no run 3: runs 0 to 2 were asked",
    ),
    "negative id": (_telling(-1, 1.0), "there is no run -1"),
    "half an id": (_telling(1.5, 1.0), "there is no run 1.5"),
    "no id": (_telling(None, 1.0), "ids must hold real numbers"),
    "text": (_telling("1", 1.0), "ids must hold real numbers"),
    "table of ids": (_telling([[1, 2]], [1.0, 2.0]), r"ids must be .* of shape \(n,\), but their shape is \(1, 2\)"),
    "id twice": (_telling([1, 1], [1.0, 1.0]), "ids contain a run twice"),
    "ragged ids": (_telling([1, [2]], [1.0, 2.0]), "ids"),
    "few values": (_telling([1, 2], [1.0]), r"values have shape \(1,\), but for 2 ids they must have shape \(2,\)"),
    "other outputs": (_telling([1, 2], np.ones((2, 2))), r"values have shape \(2, 2\), but .* must have shape \(2,\)"),
    "cube": (_telling([1], np.ones((1, 1, 1)), known=False), r"must have shape \(1,\) or \(1, C\)"),
    "no outputs": (_telling([1], np.ones((1, 0)), known=False), "values have shape"),
    "nan": (_telling([1, 2], [1.0, np.nan]), r"the value of run 2 is nan, .*failures=\{2: 'the reason'\}"),
    "huge": (_telling([1, 2], [1.0, 1e300]), "too large"),
    "text value": (_telling([1], ["a"]), "values"),
    "no values": (_telling([1]), "tell needs the values of these runs, or failures="),
    "other value": (
        _telling([1, 0], [1.0, 2.0]),
        r"values have 2\.0 for run 0, which was told before, with the value 1\.0",
    ),
    "value, then failure": (
        _telling([1], [1.0], failures={0: "x"}),
        "run 0 was told before, .*it cannot fail any more",
    ),
    "value and failure": (_telling([1], [1.0], failures={1: "x"}), "told with a value and as a failure"),
    "unknown failure": (_telling([1], [1.0], failures={7: "x"}), "failures must be numbers of runs, .* no run 7"),
    "bounds": (
        _telling([1, 2], [0.5, 1.5], known=False, problem={"bounds": (0, 1)}),
        r"the value of run 2 is 1\.5, but it must lie within the bounds",
    ),
    "bounds of others": (
        _telling([1], [[0.5, 0.5, 0.5]], known=False, problem={"bounds": ([0, 0], [1, 1])}),
        r"values have shape \(1, 3\), but the bounds of the problem have 2 outputs",
    ),
}
test_what_cannot_be_told_is_refused_and_nothing_taken = refusals(REFUSED, (ValueError, TypeError))


def test_nothing_can_be_told_before_something_was_asked():
    with pytest.raises(ValueError, match=r"there is no run 0: nothing was asked for yet"):
        problem(None).session(rng=0).tell(0, 1.0)
    with pytest.raises(TypeError, match="failures must be a mapping from ids to texts"):
        problem(None).session(rng=0).tell([], failures=[0])


def test_an_estimate_needs_enough_values():
    session = problem(None).session(rng=0)
    for attempt in (session.fit, session.answer):
        with pytest.raises(ValueError, match="0 runs have values, but an estimate needs 16 values: make more runs"):
            attempt()
    told(session, 3)
    session.ask(2)
    session.tell([], failures={3: "crashed", 4: "crashed"})
    with pytest.raises(ValueError, match="3 runs have values, and 2 failed, but an estimate needs 16"):
        session.fit()


def test_a_failure_after_the_last_value_is_in_the_fit():
    session = told(problem(None).session(rng=0), 16)
    assert session.fit().samples.failures is None
    session.ask(1)
    session.tell([], failures={16: "crashed"})
    assert session.fit().samples.failures is not None


# solve


def solved(*, budget=20, rng=0, **options):
    options, of_problem = dict(options), {}
    for name in ("integrand", "measure", "prior", "depends_on_theta", "stochastic", "bounds", "vectorized"):
        if name in options:
            of_problem[name] = options.pop(name)
    answer = problem(**of_problem).solve(budget=budget, rng=rng, **options)
    assert "runs" in answer.summary()
    assert np.all(np.isfinite(answer.fit.predict(answer.samples.theta)))
    return answer


def two(x, theta):
    return np.column_stack([x[:, 0], theta[0] * x[:, 0] ** 2])


def tilted(theta):
    points = np.linspace(-1.0, 1.0, 9)
    return Empirical(points, np.exp(theta[0] * points) / np.sum(np.exp(theta[0] * points)))


KINDS = {
    "several dimensions and outputs": {
        "integrand": lambda x, theta: np.column_stack([x.sum(axis=1) * theta[1], x[:, 1] ** 2]),
        "measure": lambda theta: Gaussian([*theta, 0.0], np.eye(3)),
        "prior": Uniform([0.0, 0.0], [1.0, 2.0]),
        "rtol": 0.1,
    },
    "a tolerance for each output": {"integrand": two, "tolerance": [0.1, 0.5], "criterion": "max"},
    "both goals": {"tolerance": 0.1, "rtol": 0.1},
    "f of x alone": {"integrand": lambda x, theta: np.sin(x[:, 0]), "depends_on_theta": False, "rtol": 0.1},
    "one point at a time": {"integrand": lambda x, theta: float(np.sin(x[0])), "vectorized": False},
    "draws of a table": {"measure": lambda theta: Empirical(theta[0] + np.linspace(-1.0, 1.0, 7))},
    "more runs than points": {
        "integrand": lambda x, theta: x[:, 0] ** 2,
        "measure": tilted,
        "depends_on_theta": False,
        "rtol": 0.1,
    },
    "few thetas": {"prior": Empirical([0.0, 0.5, 1.0])},
    "a narrow prior": {"prior": Gaussian(0.5, cov=1e-20), "rtol": 0.1},
    "a narrow measure": {"measure": lambda theta: Gaussian(theta, cov=1e-24), "rtol": 0.1},
    "large values": {"integrand": lambda x, theta: 1e120 * f(x, theta), "rtol": 0.1},
    "small values": {"integrand": lambda x, theta: 1e-120 * f(x, theta), "rtol": 0.1},
    "large points": {
        "integrand": lambda x, theta: np.sin(x[:, 0] / 1e70),
        "measure": lambda theta: Gaussian(1e70 * theta, cov=1e140),
    },
    "small points": {
        "integrand": lambda x, theta: np.sin(x[:, 0] / 1e-70),
        "measure": lambda theta: Gaussian(1e-70 * theta, cov=1e-140),
    },
    "a large offset": {"integrand": lambda x, theta: 1e9 + f(x, theta), "rtol": 0.1},
    "bounds": {"integrand": lambda x, theta: 1 / (1 + x[:, 0] ** 2), "bounds": (0, 1), "rtol": 0.1},
    "a cost": {"cost": lambda theta, x: 1.0 + x[0] ** 2},
    "two workers": {"executor": 2, "rtol": 0.1},
    "an f that dies": {
        "integrand": lambda x, theta: os._exit(3) if x[0, 0] > 1.5 else x[:, 0],
        "executor": 2,
        "on_error": "skip",
        "retries": 0,
        "budget": 24,
    },
    "no embeddings": {"measure": lambda theta: stats.gumbel_r(theta[0], 1.0), "budget": 44, "rtol": 0.1},
    "no embeddings and a cost": {
        "measure": lambda theta: stats.gumbel_r(theta[0], 1.0),
        "budget": 46,
        "cost": lambda theta, x: 1.0 + theta[0],
    },
}


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_problems_of_every_kind_are_solved(options):
    answer = solved(**options)
    assert answer.n_runs <= options.get("budget", 20)
    assert len(answer.history.runs) == len(answer.rounds)


def test_the_history_has_the_runs_in_their_order():
    """Those of two stages share thetas, and samples put equal thetas together."""
    session, asked = problem(None, lambda theta: stats.gumbel_r(theta[0], 1.0)).session(rng=0), []
    for n in (42, 8, 8):
        asked.append(session.ask(n))
        session.tell(asked[-1].ids, np.cos(asked[-1].x[:, 0]))
    history = session.answer().history
    assert history.runs.tolist() == [42, 50, 58]
    for found, expected in zip(history.chosen, asked, strict=True):
        assert_array_equal(found.x, expected.x)
        assert_array_equal(found.theta, expected.theta)


@pytest.mark.parametrize(("value", "outputs"), [(0.0, 1), (3.0, 2)])
def test_a_constant_is_found_out(value, outputs):
    """The spread of I is zero, and with it what rtol allows."""

    def constant(x, theta):
        return np.full(len(x), value) if outputs == 1 else np.column_stack([x[:, 0], np.full(len(x), value)])

    answer = solved(integrand=constant, rtol=0.1, budget=40)
    assert_allclose(answer.fit.predict([0.5]).ravel()[-1], value, atol=1e-9)
    # If nothing varies, nobody knows what is between the runs; an output that is constant beside another is meant so.
    assert answer.reached is (outputs == 2)
    assert (outputs == 1) is any(finding.kind == "equal values" for finding in answer.fit.findings)


def test_a_rare_event_that_no_run_has_met_is_not_called_known():
    """All values are equal, the spread of I is zero, and intervals have no width."""
    rare = cbq.Problem(
        lambda x, theta: (np.abs(x[:, 0] - 40.0) < 1e-6).astype(float),
        lambda theta: Gaussian(theta, 1.0),
        Uniform(0.0, 1.0),
        depends_on_theta=False,
    )
    answer = rare.solve(tolerance=0.01, budget=40, rng=0, progress=False)
    assert not answer.reached
    assert "all values of f are equal" in answer.summary()


def test_a_start_with_equal_values_at_some_thetas_is_no_reason_to_spend_the_budget():
    """Their few points missed the threshold, but runs at other thetas have passed it."""
    problem = cbq.Problem(
        lambda x, theta: 10.0 * np.maximum(x[:, 0] - 6.0, 0.0),
        lambda theta: Gamma(shape=theta, rate=1.0),
        Uniform(2.0, 6.0),
        depends_on_theta=False,
    )
    few = problem.collect(T=6, N=4, rng=0, design="sobol", progress=False)
    assert np.any(np.ptp(few.f, axis=1) == 0)
    answer = problem.solve(rtol=0.05, budget=60, start=few, rng=0, progress=False)
    assert answer.reached
    theta = np.linspace(2.0, 6.0, 41)
    truth = 10.0 * (theta * stats.gamma.sf(6.0, theta + 1.0) - 6.0 * stats.gamma.sf(6.0, theta))
    assert np.sqrt(np.mean((answer.fit.predict(theta) - truth) ** 2)) < 0.05 * np.std(truth)


def test_samples_to_start_from_are_judged_by_their_parts():
    """Without rounds of its own, nothing could be said before there are half as many runs again."""
    problem = cbq.problems.get("sir")
    samples = problem.collect(10, 12, rng=0, design="sobol", progress=False)
    answer = problem.solve(rtol=0.1, start=samples, budget=30, rng=1, progress=False)
    assert answer.reached
    assert answer.n_runs <= 30
    assert "besides 120 from start" in answer.summary()


def test_failures_are_no_runs_where_an_estimate_is_missing():
    problem = cbq.problems.get("linear")

    first = []

    def fails_once(x, theta):
        first.append(1)
        return np.full(len(x), np.nan) if len(first) == 3 else problem.integrand(x, theta)

    once = cbq.Problem(fails_once, problem.family, problem.prior, depends_on_theta=False)
    answer = once.solve(budget=16, rng=0, on_error="skip", progress=False)
    assert answer.n_failed == 1
    assert answer.n_runs == 17


@pytest.mark.slow
def test_a_random_f_is_repeatable(path):
    def noisy(x, theta, rng):
        return x[:, 0] + 3.0 * rng.normal(size=len(x))

    options = {"integrand": noisy, "stochastic": True, "budget": 40}
    first = solved(checkpoint=path, **options)
    again = solved(**options)
    same(first.samples, again.samples)
    same(cbq.Samples.from_checkpoint(path, family), first.samples)
    assert first.samples.stochastic
    assert len(set(first.samples.table[:, 0])) == 40  # each run has a generator of its own


def test_the_budget_must_do_for_an_estimate(path):
    counted = []
    with pytest.raises(ValueError, match="budget is 5, but the first estimate of I needs 16 runs: pass budget=16"):
        problem(lambda x, theta: counted.append(1)).solve(budget=5, rng=0, checkpoint=path)
    assert not counted
    assert not path.exists()
    start = problem().collect(2, 6, rng=1)
    with pytest.raises(ValueError, match="needs 4 runs"):
        problem().solve(budget=3, rng=0, start=start)
    assert problem().solve(budget=4, rng=0, start=start).n_runs == 4


def test_a_tolerance_of_other_outputs_is_refused_after_the_first_run():
    counted = []

    def counting(x, theta):
        counted.append(1)
        return two(x, theta)

    with pytest.raises(ValueError, match="tolerance has 3 numbers, but f has 2 outputs"):
        problem(counting).solve([0.1, 0.2, 0.3], rng=0)
    assert len(counted) == 1
    start = problem(two).collect(2, 6, rng=1)
    with pytest.raises(ValueError, match="tolerance has 3 numbers, but f has 2 outputs"):
        problem(counting).solve([0.1, 0.2, 0.3], rng=0, start=start)
    assert len(counted) == 1


def test_an_f_that_fails_everywhere_is_reported():
    def broken(x, theta):
        counted.append(1)
        raise ZeroDivisionError("no")

    for executor in (None, 2):
        counted = []
        with pytest.raises(IntegrandError, match=r"raised ZeroDivisionError: no at .* it failed at all 10 runs so far"):
            problem(broken).solve(rng=0, on_error="skip", executor=executor)
        assert len(counted) == (10 if executor is None else 0)
        with pytest.raises(IntegrandError, match="ZeroDivisionError"):
            problem(broken).solve(rng=0, executor=executor)


def test_too_many_failures_leave_no_estimate():
    def mostly(x, theta):
        return np.where(np.abs(x[:, 0] - theta[0]) < 0.4, x[:, 0], np.nan)

    with pytest.raises(ValueError, match=r"runs have values, and \d+ failed, but an estimate needs 16"):
        problem(mostly).solve(rng=0, budget=18, on_error="skip")


def test_the_samples_to_start_from_must_be_of_the_problem():
    start = problem(bounds=(-100.0, 100.0)).collect(2, 6, rng=1)
    for other, says in {
        problem(bounds=(-200.0, 200.0)): "bounds",
        problem(measure=lambda theta: Gaussian(theta, cov=2.0)): "their measure is",
        problem(measure=lambda theta: Gaussian([0.0, 0.0], 1.0)): "their measure is",
        problem(prior=Uniform([0.0, 0.0], [1.0, 1.0])): "its p is 1, not 2",
        problem(stochastic=True): "its stochastic is False",
        problem(depends_on_theta=False): "its depends_on_theta is True",
    }.items():
        with pytest.raises(ValueError, match=says):
            other.session(rng=0, start=start)


def test_a_measure_that_cannot_be_drawn_from_is_refused():
    def score(x):
        return -x

    for options in (
        {"measure": lambda theta: Unnormalised(score=score, dim=1)},
        {"prior": Unnormalised(score=score, dim=1)},
    ):
        with pytest.raises(TypeError, match="Unnormalised has no transport: its normalisation is unknown"):
            problem(**options).solve(rng=0)


SOLVE = {
    "tolerance": (lambda: problem().solve(0.0, rng=0), "tolerance must be a number above 0"),
    "tolerances": (lambda: problem().solve([[1.0]], rng=0), "tolerance must be a number above 0"),
    "nan": (lambda: problem().solve(np.nan, rng=0), "tolerance"),
    "rtol": (lambda: problem().solve(rtol=-1, rng=0), "rtol must be a number above 0"),
    "rtols": (lambda: problem().solve(rtol=[0.1, 0.2], rng=0), "rtol must be a number above 0"),
    "text": (lambda: problem().solve(rtol="small", rng=0), "rtol"),
    "criterion": (lambda: problem().solve(criterion="mean", rng=0), "criterion"),
    "level": (lambda: problem().solve(level=95, rng=0), "level"),
    "budget": (lambda: problem().solve(budget=0, rng=0), "budget"),
    "budgets": (lambda: problem().solve(budget=20.5, rng=0), "budget"),
    "rng": (lambda: problem().solve(rng="seed"), "rng"),
    "batch": (lambda: problem().solve(batch=0, rng=0), "batch"),
    "start": (lambda: problem().solve(start=[1.0], rng=0), "start must be cbq.Samples"),
    "executor": (lambda: problem().solve(executor="two", rng=0), "executor"),
    "checkpoint": (lambda: problem().solve(checkpoint=3.0, rng=0), "checkpoint"),
    "progress": (lambda: problem().solve(progress="yes", rng=0), "progress"),
    "cost": (lambda: problem().solve(cost=1.0, rng=0), "cost must be a function"),
    "cost of text": (lambda: problem().solve(cost=lambda theta, x: "much", rng=0), "the value of cost"),
    "cost of arrays": (lambda: problem().solve(cost=lambda theta, x: theta, rng=0), "cost must return a number"),
    "no cost": (lambda: problem().solve(cost=lambda theta, x: 0.0, rng=0), "cost must return positive numbers"),
    "broken cost": (lambda: problem().solve(cost=lambda theta, x: 1 / 0, rng=0), "the function cost raised"),
    "on_error": (lambda: problem().solve(on_error="ignore", rng=0), "on_error"),
    "retries": (lambda: problem().solve(retries=-1, rng=0), "retries"),
    "timeout": (lambda: problem().solve(timeout=1.0, rng=0), "timeout needs processes"),
    "n": (lambda: problem().session(rng=0).ask(0), "n must"),
}
test_bad_arguments_are_refused = refusals(SOLVE, (ValueError, TypeError))


def test_positive_measures_are_solved_too():
    answer = solved(measure=lambda theta: LogNormal(theta[0], cov=0.5), budget=16)
    assert np.all(answer.next.x > 0)


# the goal


def goal(tolerance=None, rtol=None, criterion="rms", level=0.95, budget=100):
    return Goal.of(tolerance, rtol, criterion, level, budget)


def test_the_goal_is_the_smaller_of_tolerance_and_share_of_the_spread():
    mean = np.array([[0.0, 10.0], [2.0, 10.0], [4.0, 10.0]])
    spread = np.std([0.0, 2.0, 4.0])
    assert_allclose(goal(0.5).target(mean), [0.5, 0.5])
    assert_allclose(goal([0.5, 0.1]).target(mean), [0.5, 0.1])
    assert_allclose(goal(rtol=0.1).target(mean), [0.1 * spread, 0.0], atol=1e-10)
    assert_allclose(goal(0.1, 0.1).target(mean), [0.1, 0.0], atol=1e-10)
    assert np.all(goal().target(mean) == np.inf)
    assert not goal().has_target


def test_the_criterion_is_the_root_mean_square_or_the_largest_over_most_of_Q():
    half_width = np.arange(1.0, 101.0)[:, None]
    assert_allclose(goal().size(half_width), np.sqrt(np.mean(np.arange(1.0, 101.0) ** 2)))
    assert np.mean(half_width <= goal(criterion="max").size(half_width)) == pytest.approx(0.96)  # at least 95%


# rounds


def history(*half_widths, sound=True):
    """Rounds of a curve with two thetas whose intervals have these half-widths."""
    curve = np.array([[0.0], [1.0]])
    return [Round(16 + k, curve, np.full((2, 1), half), sound) for k, half in enumerate(half_widths)]


def test_a_goal_must_hold_twice_and_at_sound_rounds():
    assert is_reached(history(0.3, 0.1, 0.09), goal(0.1))
    assert not is_reached(history(0.3, 0.11, 0.09), goal(0.1))  # once
    assert not is_reached(history(0.09, 0.09, 0.11), goal(0.1))  # no more
    assert not is_reached(history(0.09), goal(0.1))  # too early
    assert not is_reached([], goal(0.1))
    assert not is_reached(history(0.1, 0.1), goal())  # nothing is asked for
    assert is_reached(history(0.05, 0.05), goal(rtol=0.1))  # the spread of I is 1/2
    assert not is_reached(history(0.06, 0.06), goal(rtol=0.1))
    assert not is_reached(history(0.05, 0.05, sound=False), goal(0.1))
    assert not is_reached([*history(0.05), *history(0.05, sound=False)], goal(0.1))


def test_a_round_is_what_its_record_says():
    (one,) = history(1 / 3)
    again = Round.of_record(one.record)
    assert (again.runs, again.sound) == (one.runs, one.sound)
    for name in ("mean", "half_width"):
        assert_array_equal(getattr(again, name), getattr(one, name))


# f that depends on theta, although the problem says that it does not.


def declared(f, **options):
    return cbq.Problem(f, lambda theta: Gaussian(theta, 1.0), Uniform(0.0, 2.0), depends_on_theta=False, **options)


@pytest.mark.parametrize(
    "part", [lambda theta: 1e-5 * theta, lambda theta: 0.03 * theta, lambda theta: 1.0 * (theta > 1.7)]
)
def test_solve_refuses_an_f_that_depends_on_theta_after_all(part, tmp_path):
    problem = declared(lambda x, theta: np.sin(x[:, 0]) + part(theta[0]))
    path = tmp_path / "run.sqlite"
    said = r"f depends on theta, although .*: at x = \[.*\], f is .* at theta = \[.*\] and .*depends_on_theta=True"
    for _ in range(2):  # a run that resumes says it at once
        with pytest.raises(ValueError, match=said):
            problem.solve(rtol=0.05, budget=80, rng=0, progress=False, checkpoint=path)
    assert cbq.Samples.from_checkpoint(path).n_evaluations == 16


def test_two_runs_of_the_budget_are_points_of_others_at_other_thetas():
    answer = declared(lambda x, theta: np.sin(x[:, 0])).solve(budget=24, rng=0, progress=False)
    assert answer.n_runs == 24
    x, theta = answer.runs.x[:, 0], answer.runs.theta[:, 0]
    low, high = np.argmin(theta[:14]), np.argmax(theta[:14])
    assert sorted(zip(x[14:16], theta[14:16], strict=True)) == sorted([(x[low], theta[high]), (x[high], theta[low])])
    assert answer.fit.serious_findings == ()


def test_a_session_asks_for_the_same_repeats_one_by_one_or_together():
    problem = declared(None)
    with problem.session(budget=24, rng=0) as one, problem.session(budget=24, rng=0) as other:
        one.ask(16)
        runs = one.pending
        while other.n_asked < 16:
            other.ask(1)
        for x in (runs.x, other.pending.x):
            assert np.all(np.isin(x[14:16], x[:14]))
        one.tell(runs.ids, np.sin(runs.x[:, 0]) + 0.1 * runs.theta[:, 0])
        with silent():
            (found,) = [each for each in one.fit().serious_findings if each.kind in ("noise", "dependence")]
        assert found.kind == "dependence"
        assert re.search(r"at x = \[.*\], f is .* at theta = \[.*\] and .* at theta = \[.*\]", found.text)
        assert found.remedy == "Pass depends_on_theta=True to cbq.Problem or cbq.Samples."


def test_points_outside_of_the_support_of_other_measures_are_not_repeated():
    def family(theta):
        return Uniform(theta[0], theta[0] + 0.01)

    problem = cbq.Problem(lambda x, theta: x[:, 0], family, Uniform(0.0, 2.0), depends_on_theta=False)
    answer = problem.solve(budget=20, rng=0, progress=False)
    assert answer.n_runs == 20


def test_rounding_in_single_precision_is_no_dependence_on_theta():
    answer = declared(lambda x, theta: np.sin(x[:, 0]) + 1e-7 * theta[0]).solve(budget=20, rng=0, progress=False)
    assert answer.n_runs == 20
