"""Samples of the same problem put together."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import cbq
from cbq.measures import Empirical, Gaussian, Uniform

PROBLEM = cbq.Problem(lambda x, t: x[:, 0] ** 2, lambda t: Gaussian(t, 1.0), Uniform(0.0, 1.0), depends_on_theta=False)
WHOLE = PROBLEM.collect(7, 9, rng=0)


def halves(samples):
    """The first points of each theta, and the others."""
    rows = [np.arange(start, start + n) for start, n in zip(samples.starts, samples.counts, strict=True)]
    return [samples.regrouped([row[part] for row in rows]) for part in (slice(0, 4), slice(4, None))]


def assert_same(found, expected):
    assert_array_equal(found.theta, expected.theta)
    assert_array_equal(found.counts, expected.counts)
    assert_array_equal(found.all_points, expected.all_points)
    assert_array_equal(found.table, expected.table)
    assert found.C == expected.C
    assert found.design == expected.design
    assert found.depends_on_theta == expected.depends_on_theta
    assert all(a.equals(b) for a, b in zip(found.measures, expected.measures, strict=True))


def test_points_of_equal_thetas_belong_together():
    first, second = halves(WHOLE)
    assert_same(first + second, WHOLE)


def test_thetas_that_are_not_there_come_after_those_that_are():
    assert_same(WHOLE.select([0, 1, 2]) + WHOLE.select([3, 4, 5, 6]), WHOLE)
    found = WHOLE.select([4, 1]) + WHOLE.select([1, 0])
    assert_array_equal(found.theta, WHOLE.theta[[4, 1, 0]])
    assert_array_equal(found.counts, [9, 18, 9])
    assert_array_equal(found.points(1), np.concatenate([WHOLE.points(1), WHOLE.points(1)]))


def test_the_family_of_either_serves_both():
    bare = cbq.Samples(WHOLE.theta, WHOLE.x, WHOLE.f, list(WHOLE.measures), depends_on_theta=False)
    assert (bare + WHOLE).family is WHOLE.family
    assert (WHOLE + bare).family is WHOLE.family
    assert (bare + bare).family is None
    shared = cbq.Samples([0.0, 1.0], np.zeros((2, 3)), np.zeros((2, 3)), Gaussian(0.0, 1.0))
    assert (shared + shared.select(0)).batched_measure().batch_shape == ()


def test_outputs_weights_bounds_and_designs_are_kept():
    two = cbq.problems.get("health").collect(4, 6, rng=0)
    assert_same(two.select([0, 1]) + two.select([2, 3]), two)
    wide = PROBLEM.collect(4, 6, rng=1, proposal=lambda t: Gaussian(t, cov=2.0))
    both = wide.select([0, 1]) + wide.select([2, 3])
    assert_array_equal(both.log_weights, wide.log_weights)
    assert all(a.equals(b) for a, b in zip(both.proposals, wide.proposals, strict=True))
    mixed = WHOLE + wide
    assert_array_equal(mixed.log_weights, np.concatenate([np.zeros(63), wide.log_weights]))
    assert mixed.proposals is None
    sobol = PROBLEM.collect(3, 8, rng=2, design="sobol")
    assert (WHOLE + sobol).design == (sobol + WHOLE).design == "sobol"
    bounded = WHOLE._with_bounds((0, np.inf))
    assert_array_equal((WHOLE + bounded).bounds, bounded.bounds)
    assert_array_equal((bounded + WHOLE).bounds, bounded.bounds)


def test_failures_are_those_of_both():
    x, f = [[0.0, 1.0], [2.0]], [[0.0, 1.0], [4.0]]
    one = cbq.Samples([0.0, 1.0], x, f, lambda t: Gaussian(t, 1.0), failed=[[5.0], []])
    other = cbq.Samples([1.0, 2.0], x, f, lambda t: Gaussian(t, 1.0), failed=[[6.0, 7.0], []])
    found = one + other
    assert_array_equal(found.failures.theta, [[0.0], [1.0], [2.0]])
    assert_array_equal(found.failures.counts, [1, 2, 0])
    assert_array_equal(found.failures.drawn, [3, 5, 1])
    assert_array_equal(found.failures.x, [[5.0], [6.0], [7.0]])
    assert_array_equal(found.failures.position, [0, 1, 2])


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (PROBLEM.collect(2, 3, rng=0).with_values(np.zeros((2, 3, 2))), "the same C, but they have None and 2"),
        (cbq.problems.get("linear").collect(2, 3, rng=0), "the same p, but they have 1 and 2"),
        (cbq.Samples([[0.5]], [[0.0]], [[0.0]], Gaussian(0.0, 1.0)), "the same depends_on_theta, but"),
        (
            cbq.Samples(WHOLE.theta[:1], [[0.0]], [[0.0]], Gaussian(0.0, cov=9.0), depends_on_theta=False),
            "the same measures, but at theta = ",
        ),
        (
            cbq.Samples([[0.123]], [[0.0]], [[0.0]], Gaussian(0.123, cov=9.0), depends_on_theta=False),
            "the same measures, but at theta = ",
        ),
    ],
    ids=["outputs", "dimension", "options", "measure", "family"],
)
def test_samples_of_another_problem_are_refused(other, says):
    with pytest.raises(ValueError, match=says):
        WHOLE + other


def test_other_bounds_are_refused():
    with pytest.raises(ValueError, match="the same bounds, but they have"):
        WHOLE._with_bounds((0, np.inf)) + WHOLE._with_bounds((-1, np.inf))


def test_nothing_but_samples_can_be_added():
    with pytest.raises(TypeError, match="unsupported operand"):
        WHOLE + 1


# collect(..., start=samples)


def counted(C=None, **options):
    """A problem, and the points at which its f was evaluated."""
    points = []

    def f(x, theta):
        points.extend(x[:, 0])
        return np.repeat(x, C, axis=1) if C else x[:, 0] ** 2

    return cbq.Problem(f, PROBLEM.family, PROBLEM.prior, **{"depends_on_theta": False, **options}), points


def test_new_points_are_added_to_the_samples_that_a_run_starts_from():
    assert_same(PROBLEM.collect(4, 5, rng=1, start=WHOLE), WHOLE + PROBLEM.collect(4, 5, rng=1))
    more = PROBLEM.collect(None, 5, rng=1, theta=WHOLE.theta, start=WHOLE)
    assert_array_equal(more.theta, WHOLE.theta)
    assert_array_equal(more.counts, np.full(7, 14))


def test_a_run_that_starts_from_samples_resumes_from_its_checkpoint(tmp_path):
    problem, points = counted()
    call = {"rng": 1, "start": WHOLE, "checkpoint": tmp_path / "run.sqlite", "progress": False}
    whole = problem.collect(4, 5, **call)
    evaluated = len(points)
    assert_same(problem.collect(4, 5, **call), whole)
    assert len(points) == evaluated + 3  # of the check that f is the same
    assert_same(cbq.Samples.from_checkpoint(tmp_path / "run.sqlite"), problem.collect(4, 5, rng=1))


@pytest.mark.parametrize(
    ("start", "options", "says"),
    [
        (WHOLE, {"depends_on_theta": True}, "the same depends_on_theta, but they have False and True"),
        (WHOLE, {"stochastic": True}, "the same stochastic, but they have False and True"),
        (cbq.problems.get("linear").collect(2, 3, rng=0), {}, "the same p, but they have 2 and 1"),
        (WHOLE._with_bounds((0, np.inf)), {"bounds": (-1, np.inf)}, "the same bounds, but they have"),
        (
            cbq.Samples([[0.5]], [[0.0]], [[0.0]], Gaussian(0.5, cov=9.0), depends_on_theta=False),
            {},
            "the same measures, but at theta = ",
        ),
    ],
    ids=["theta", "stochastic", "dimension", "bounds", "measure"],
)
def test_a_run_does_not_start_from_samples_of_another_problem(start, options, says):
    problem, points = counted(**options)
    with pytest.raises(ValueError, match=says):
        problem.collect(4, 5, rng=1, start=start)
    assert points == []


def test_outputs_are_compared_after_the_first_call_of_f(tmp_path):
    problem, points = counted(C=2)
    with pytest.raises(ValueError, match="the same C, but they have None and 2"):
        problem.collect(40, 50, rng=1, start=WHOLE, checkpoint=tmp_path / "run.sqlite")
    assert len(points) <= 3


@pytest.mark.parametrize("design", ["iid", "sobol"])
def test_the_same_seed_twice_is_refused_before_f_is_evaluated(design):
    problem, points = counted()
    start = PROBLEM.collect(3, 4, rng=2, design=design)
    with pytest.raises(ValueError, match=r"12 of 40 new points are in start already, such as x = .*: pass another rng"):
        problem.collect(5, 8, rng=2, design=design, theta=[*start.theta[:, 0], 0.1, 0.2], start=start)
    assert points == []


def test_draws_from_a_finite_measure_may_repeat_points():
    family = lambda theta: Empirical(np.arange(3.0)[:, None])  # noqa: E731
    problem = cbq.Problem(lambda x, theta: x[:, 0], family, Uniform(0.0, 1.0))
    start = problem.collect(None, 9, rng=0, theta=[0.5])
    assert_array_equal(problem.collect(None, 9, rng=1, theta=[0.5], start=start).counts, [18])


def test_a_run_starts_from_samples_only():
    with pytest.raises(TypeError, match=r"start must be cbq.Samples, or None, but it is a int"):
        PROBLEM.collect(4, 5, rng=1, start=3)
