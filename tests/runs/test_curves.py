"""Goals that depend on the whole curve: the best theta and risk measures, against closed forms and brute force."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import exponnorm, norm

import cbq
from cbq.estimators import WantedBest
from cbq.measures import Empirical, Gaussian, Uniform
from cbq.runs.estimands import Estimand
from cbq.runs.goal import Goal, Round, is_reached

PEAK = cbq.Problem(
    lambda x, theta: -((theta[0] - 0.3) ** 2) * (1 + x[:, 0] ** 2) + 0.1 * x[:, 0],
    lambda theta: Gaussian(0.0, cov=1.0),
    Uniform(0.0, 1.0),
)  # I = -2 (theta - 0.3)^2
LINEAR = cbq.Problem(
    lambda x, theta: 3 * theta[0] + np.sin(x[:, 0]) * (1 + 0.2 * theta[0]),
    lambda theta: Gaussian(0.0, cov=1.0),
    Gaussian(0.0, cov=1.0),
)  # I = 3 theta


def test_the_best_theta_is_found_with_few_runs():
    answer = PEAK.solve(goal=cbq.Best(tolerance=0.01), budget=40, rng=0)
    assert answer.reached
    assert answer.n_runs <= 24
    assert_allclose(answer.best.theta, [0.3], atol=0.07)  # a regret of 0.01
    value, low, high = answer.estimate()
    assert value == answer.best.value
    assert low <= 0.0 <= high
    assert answer.best.expected_regret <= 0.01
    assert "Reached: the expected regret for the largest E f is" in answer.summary()
    assert "\nThe largest E f is" in answer.summary()
    assert " at theta = [0." in answer.summary()


def test_the_smallest_of_a_finite_set_is_found():
    alternatives = Empirical([[0.0], [0.2], [0.5], [0.9]])
    problem = cbq.Problem(PEAK.integrand, PEAK.family, alternatives)
    answer = problem.solve(goal=cbq.Best(tolerance=0.1, maximize=False), budget=20, rng=0)
    assert_allclose(answer.best.theta, [0.9])
    among = PEAK.solve(goal=cbq.Best(tolerance=0.1, among=[0.1, 0.45, 0.9]), budget=20, rng=0)
    assert_allclose(among.best.theta, [0.45])


@pytest.mark.slow
def test_a_constraint_on_a_probability_is_kept():
    problem = cbq.Problem(lambda x, theta: theta[0] + x[:, 0], lambda theta: Gaussian(0.0, cov=1.0), Uniform(0.0, 2.0))
    limit = {cbq.Probability(above=2.0): (None, float(norm.sf(1.0)))}  # P(X > 2 - theta) at theta = 1
    answer = problem.solve(goal=cbq.Best(rtol=0.2, subject_to=limit), budget=16, rng=0)
    assert_allclose(answer.best.theta, [1.0], atol=0.05)
    assert answer.best.theta[0] <= 1.0 + 1e-3


def test_risk_measures_are_those_of_a_normal_distribution():
    z = norm.ppf(0.99)
    goals = [cbq.ValueAtRisk(0.99), cbq.ExpectedShortfall(0.99), cbq.ExpectedLoss(threshold=1.0)]
    answer = LINEAR.solve(goal=goals, rtol=0.1, budget=60, rng=0)
    assert answer.reached
    t = 1 / 3
    exact = [3 * z, 3 * norm.pdf(z) / 0.01, 3 * (norm.pdf(t) - t * norm.sf(t))]
    for k, value in enumerate(exact):
        estimate, low, high = answer.estimate(goal=k)
        assert low <= value <= high
        assert_allclose(estimate, value, rtol=0.05)
    assert np.max(np.abs(answer.runs.theta)) > 2.0  # thetas reach into the tail


@pytest.mark.slow
def test_two_stages_serve_where_no_kernel_has_an_embedding():
    made = cbq.Problem(
        lambda x, theta: -((theta[0] - 0.3) ** 2) * (1 + x[:, 0] ** 2),
        lambda theta: exponnorm(1.0, 0.0, 0.3),
        Uniform(0.0, 1.0),
    )
    answer = made.solve(goal=cbq.Best(), budget=60, rng=0)
    assert_allclose(answer.best.theta, [0.3], atol=0.1)
    with pytest.raises(ValueError, match=r"goal=Best\(.*needs a model of f"):
        made.session(goal=cbq.Best(subject_to={cbq.Probability(above=1.0): (None, 0.1)}), rng=0)


def test_goals_survive_their_records():
    limit = {"load": (None, 1.0), cbq.Probability(above=2.0, output="load"): (None, 0.05)}
    for goal in [
        cbq.Best(tolerance=0.1, maximize=False, bounds=[(0.0, 1.0)], output="gain", subject_to=limit),
        cbq.Best(among=[[0.1], [0.2]]),
        cbq.ValueAtRisk(0.99, rtol=0.1),
        cbq.ExpectedShortfall(0.9),
        cbq.ExpectedLoss(threshold=2.0),
    ]:
        record = json.loads(json.dumps(goal.record))
        assert Estimand.of_record(record) == goal
        assert Estimand.of_record(record).key == goal.key


def test_a_run_resumes(tmp_path):
    path, goal = tmp_path / "run.sqlite", cbq.Best(tolerance=0.001)
    first = PEAK.solve(goal=goal, budget=7, rng=0, checkpoint=path)
    second = PEAK.solve(goal=goal, budget=8, rng=0, checkpoint=path)
    whole = PEAK.solve(goal=goal, budget=8, rng=0)
    assert first.n_runs == 7
    assert_allclose(second.samples.table, whole.samples.table)
    assert_allclose([r.spread for r in second.rounds], [r.spread for r in whole.rounds])


def test_the_spread_of_I_is_the_unit_of_rtol():
    goal = Goal.of(rtol=0.1, goal=cbq.ValueAtRisk(0.9))
    mean, half = np.full((4, 1), 7.0), np.full((4, 1), 0.19)
    assert is_reached([Round(9, mean, half, True, spread=np.array([2.0]))] * 2, goal)
    assert not is_reached([Round(9, mean, half, True, spread=np.array([1.0]))] * 2, goal)


def test_alternatives_are_wanted_by_their_differences():
    wanted = WantedBest.at(np.array([[0.1], [0.5]]), lambda theta: Gaussian(theta, cov=1.0), np.array([0.0, 0.3]))

    class Moves:
        moves = np.array([[1.0, 1.0, 0.0], [1.0, 0.5, 0.4]])
        average = np.ones(3)

    s = 2.0 * np.array([0.5, 0.4])  # a value that moves both alike saves nothing
    expected = s * (norm.pdf(0.3 / s) - 0.3 / s * norm.sf(0.3 / s))
    assert_allclose(wanted.worth(Moves(), 2.0), [0.0, *expected], rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cbq.Best(bounds=[(1.0, 0.0)]), "bounds must be"),
        (lambda: cbq.Best(bounds=[(0.0, 1.0)], among=[0.5]), "not both"),
        (lambda: cbq.Best(among=[]), "among"),
        (lambda: cbq.Best(maximize="yes"), "maximize"),
        (lambda: cbq.Best(subject_to=lambda theta: theta), "subject_to must map"),
        (lambda: cbq.Best(subject_to={"load": 3.0}), "subject_to must map"),
        (lambda: cbq.Best(subject_to={"load": (None, np.nan)}), "a limit of subject_to"),
        (lambda: cbq.ValueAtRisk(1.0), "alpha"),
        (lambda: cbq.ExpectedShortfall(np.nan), "alpha"),
        (lambda: cbq.ExpectedLoss(threshold=np.inf), "threshold"),
        (lambda: PEAK.session(goal=cbq.Best(bounds=[(0.0, 1.0)] * 2), rng=0), "bounds has 2 rows"),
        (lambda: PEAK.solve(goal=cbq.Best(subject_to={"load": (None, 1.0)}), rng=0), r"subject_to limits 'load', but"),
        (lambda: PEAK.session(goal=cbq.Best(among=[[0.0, 1.0]]), rng=0), "2 coordinates, but theta has 1"),
    ],
)
def test_hostile_goals_are_refused_in_a_sentence(make, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_what_belongs_to_no_theta_takes_none():
    answer = PEAK.solve(goal=[cbq.Best(), cbq.Mean()], budget=8, rng=0)
    with pytest.raises(ValueError, match="one number for all thetas"):
        answer.estimate([0.5])
    with pytest.raises(ValueError, match="theta is missing"):
        answer.estimate(goal=1)
    assert answer.estimate([0.5], goal=1)[0].shape == (1,)
    plain = PEAK.solve(budget=16, rng=0)
    with pytest.raises(ValueError, match="no goal cbq"):
        plain.best  # noqa: B018


def test_equal_values_show_nothing():
    made = cbq.Problem(lambda x, theta: np.full(len(x), 2.0), PEAK.family, PEAK.prior)
    assert not made.solve(goal=cbq.Best(tolerance=0.1), budget=10, rng=0).reached
