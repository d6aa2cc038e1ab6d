"""Limits of an adaptive run besides the number of runs, and a criterion for each output."""

from __future__ import annotations

import time

import numpy as np
import pytest

import cbq
from benchmarks._simulated import InLine
from cbq.measures import Gaussian, Uniform
from cbq.runs.goal import Goal


def curve(outputs=1):
    def f(x, theta):
        values = np.sin(x) + theta[0] * x**2 * np.arange(1, outputs + 1)
        return values if outputs > 1 else values[:, 0]

    return cbq.Problem(f, lambda theta: Gaussian(theta, 1.0), Uniform(0.0, 1.0))


def test_a_budget_of_seconds_ends_a_run():
    options = {"executor": InLine(2.0), "in_flight": 1, "rng": 0, "progress": False}
    answer = curve().solve(budget={"seconds": 61.0}, **options)
    assert answer.n_runs == 30
    assert curve().solve(budget={"seconds": 61.0, "runs": 20}, **options).n_runs == 20
    assert curve().solve(budget={"seconds": 2.0}, **options).n_runs == 16  # which the first estimate needs


def test_a_budget_of_cost_ends_a_run():
    cost = lambda theta, x: 1.0 + abs(x[0])  # noqa: E731
    answer = curve().solve(budget={"cost": 40.0}, cost=cost, rng=0, progress=False)
    spent = sum(cost(theta, x) for theta, x in zip(answer.runs.theta, answer.runs.x, strict=True))
    assert 35.0 < spent < 45.0
    with pytest.raises(ValueError, match="cost is None: pass a function"):
        curve().solve(budget={"cost": 40.0}, rng=0)


def test_no_run_begins_that_should_end_after_the_deadline():
    with curve(1).session(rng=0, budget=100) as session:
        session.deadline = time.time() + 100.0
        session.tell((asked := session.ask(20)).ids, np.sin(asked.x[:, 0]))
        session._seconds = dict.fromkeys(range(20), 20.0)
        session.deadline = time.time() + 1000.0
        assert 40 <= session._affordable(1) <= 50
        assert session._affordable(4) == 80
        session.deadline = time.time() + 10.0
        assert session.is_over
    assert curve().solve(budget=5000, deadline=1e-3, rng=0, progress=False).n_runs == 16


@pytest.mark.parametrize(
    "budget", [{}, {"hours": 2}, {"seconds": 0}, {"seconds": "long"}, {"cost": np.nan}, {"runs": 0}, 10**6]
)
def test_a_wrong_budget_is_refused(budget):
    with pytest.raises((ValueError, TypeError), match="budget"):
        Goal.of(budget=budget)


def test_limits_are_kept_and_shown():
    goal = Goal.of(rtol=0.1, budget={"seconds": 60, "cost": 3})
    assert Goal.of(**goal.record).record == goal.record
    assert str(goal) == "0.1 of the spread of I, with 10000 runs, 60 s of f, a cost of 3 at most"


def test_each_output_has_a_criterion():
    half_width = np.column_stack([np.linspace(0.0, 1.0, 100)] * 2)
    one, two = (Goal.of(criterion=each).size(half_width) for each in ("rms", "max"))
    np.testing.assert_array_equal(Goal.of(criterion=["rms", "max"]).size(half_width), [one[0], two[1]])
    for wrong in (["rms"], ["rms"] * 3):
        with pytest.raises(ValueError, match=rf"criterion has {len(wrong)} entries, but f has 2 outputs"):
            curve(2).solve(rtol=0.5, criterion=wrong, budget=40, rng=0)
    for wrong in ([], ["rms", "mean"], "mean"):
        with pytest.raises(ValueError, match="criterion"):
            Goal.of(criterion=wrong)
