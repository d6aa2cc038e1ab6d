"""The best theta: against known optima, finite sets, constraints, and the frequency of what it states."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cbq
from cbq.measures import Gaussian, Uniform
from quiet import silent
from refusals import refusals


@pytest.fixture(scope="module")
def flat():
    """I = 0.25 - (theta - 0.5)^2 from noisy runs, so that the best theta is not sure."""

    def f(x, theta, rng):
        return 0.25 - (theta[0] - 0.5) ** 2 + x[:, 0] + 0.5 * rng.standard_normal(len(x))

    return cbq.Problem(f, lambda theta: Gaussian(0.0, cov=0.1), Uniform(0.0, 1.0), stochastic=True)


@pytest.fixture(scope="module")
def two_outputs():
    def f(x, theta):
        return np.stack([theta[0] + 0.1 * x[:, 0], 100.0 * theta[0] ** 2 + x[:, 0]], axis=1)

    names = {"theta": "dose", "f": ["effect", "cost"]}
    problem = cbq.Problem(f, lambda theta: Gaussian(0.0, cov=1.0), Uniform(0.0, 1.0), names=names)
    return cbq.MOBQ().fit(problem.collect(10, 6, rng=0, design="sobol"))


def test_a_known_optimum_is_found():
    # E f = 3 theta / sqrt(1 + 2 theta) rises, so that the end of the box is best
    problem = cbq.Problem(
        lambda x, theta: 3 * theta[0] * np.exp(-theta[0] * x[:, 0] ** 2),
        lambda theta: Gaussian(0.0, cov=1.0),
        Uniform(0.5, 4.0),
    )
    fit = cbq.MOBQ().fit(problem.collect(12, 8, rng=0, design="sobol"))
    best = fit.best([(0.5, 4.0)])
    assert_allclose(best.theta, [4.0])
    assert best.interval[0] <= 4.0 <= best.interval[1]
    lowest = fit.best([(0.5, 4.0)], maximize=False)
    assert_allclose(lowest.theta, [0.5])
    assert lowest.interval[0] <= 1.5 / np.sqrt(2.0) <= lowest.interval[1]


def test_an_optimum_inside_is_found_with_its_neighbours():
    problem = cbq.Problem(
        lambda x, theta: -((theta[0] - 0.3) ** 2) * (1 + x[:, 0] ** 2),
        lambda theta: Gaussian(0.0, cov=1.0),
        Uniform(0.0, 1.0),
    )
    fit = cbq.MOBQ().fit(problem.collect(12, 6, rng=0, design="sobol"))
    best = fit.best(problem.prior)
    assert_allclose(best.theta, [0.3], atol=0.02)
    assert best.probability > 0.9
    assert best.ranges[0, 0] <= 0.3 <= best.ranges[1, 0]
    assert_array_equal(best.credible_set[0], best.theta)
    opposite = cbq.MOBQ().fit(fit.samples.with_values(-np.asarray(fit.samples.f))).best(problem.prior, maximize=False)
    assert_allclose(opposite.theta, best.theta, atol=0.02)


def test_what_is_stated_happens_as_often(flat):
    stated, held, in_set = [], [], []
    with silent():
        for seed in range(10):
            fit = cbq.MOBQ().fit(flat.collect(10, 4, rng=seed))
            best = fit.best([(0.01, 1.0)], epsilon=0.02, size=500)
            stated.append(best.probability)
            held.append((best.theta[0] - 0.5) ** 2 <= 0.02)
            in_set.append(best.ranges[0, 0] - 0.02 <= 0.5 <= best.ranges[1, 0] + 0.02)
    assert abs(np.mean(stated) - np.mean(held)) < 3 * np.sqrt(0.25 / 10)
    assert np.mean(in_set) >= 0.8


def test_alternatives_are_ranked_jointly(two_outputs):
    best = two_outputs.best(among=[0.2, 0.9, 0.5], output="effect")
    assert_allclose(best.theta, [0.9])
    assert best.probability == 1.0
    assert best.expected_regret == 0.0
    assert len(best) == 1


def test_constraints_hold(two_outputs):
    best = two_outputs.best([(0.0, 1.0)], output="effect", subject_to={"cost": (None, 25.0)})
    assert_allclose(best.theta, [0.5], atol=0.02)
    assert best.feasible >= 0.95
    by_function = two_outputs.best([(0.0, 1.0)], output="effect", subject_to=lambda theta: theta[:, 0] <= 0.4)
    assert_allclose(by_function.theta, [0.4], atol=0.02)
    with pytest.raises(ValueError, match="no theta satisfies subject_to"):
        two_outputs.best([(0.0, 1.0)], output="effect", subject_to={"cost": (200.0, None)})


def test_a_probability_may_be_a_constraint():
    problem = cbq.Problem(lambda x, theta: theta[0] + x[:, 0], lambda theta: Gaussian(0.0, cov=1.0), Uniform(0.0, 2.0))
    fit = cbq.MOBQ().fit(problem.collect(10, 6, rng=0, design="sobol"))
    best = fit.best(
        [(0.0, 2.0)], subject_to=lambda theta: fit.outcome(theta, size=2**10).sf(2.0) <= 0.1587
    )  # P(X > 2 - theta)
    assert_allclose(best.theta, [1.0], atol=0.03)


def test_the_probability_of_an_event_may_be_a_constraint_with_its_uncertainty():
    problem = cbq.Problem(lambda x, theta: theta[0] + x[:, 0], lambda theta: Gaussian(0.0, cov=1.0), Uniform(0.0, 2.0))
    fit = cbq.MOBQ().fit(problem.collect(10, 6, rng=0, design="sobol"))
    thetas = [0.5, 0.98, 1.02, 1.5]
    best = fit.best(among=thetas, subject_to={cbq.Probability(above=2.0): (None, 0.1587)})  # P(X > 1)
    assert_allclose(best.theta, [0.98])
    assert best.feasible >= 0.95
    least = fit.best(among=thetas, maximize=False, subject_to={cbq.Probability(above=2.0): (0.1587, None)})
    assert_allclose(least.theta, [1.02])
    with pytest.raises(ValueError, match="no theta satisfies subject_to"):
        fit.best(among=thetas, subject_to={cbq.Quantile(0.9): (None, -5.0)})


def test_candidates_gather_at_the_boundary_of_a_constraint():
    def f(x, theta):
        a, b = theta
        return np.stack([2 * a + b + 0.1 * x[:, 0], a**2 + b**2 + 0.1 * x[:, 0]], axis=1)

    square = Uniform([0.0, 0.0], [1.5, 1.5])
    problem = cbq.Problem(f, lambda theta: Gaussian(0.0, cov=1.0), square, names={"f": ["gain", "load"]})
    fit = cbq.MOBQ().fit(problem.collect(20, 1, rng=0, design="sobol"))
    best = fit.best(square, output="gain", subject_to={"load": (None, 1.0)}, size=200)
    assert_allclose(best.value, np.sqrt(5), atol=0.02)  # at (2, 1) / sqrt(5)
    assert np.sum(best.theta**2) <= 1.0 + 1e-3
    assert best.expected_regret < 0.02


def test_a_discrete_prior_is_a_finite_set():
    fit = any_fit()
    prior = cbq.measures.Empirical([[80.0], [90.0], [120.0]], [0.5, 0.5, 0.0])
    assert fit.best(prior).theta[0] in (80.0, 90.0)


def test_a_box_with_an_end_at_zero_is_searched_where_the_fit_takes_logarithms():
    problem = cbq.Problem(
        lambda x, theta: np.log(theta[0]) ** 2 + x[:, 0],
        lambda theta: Gaussian(0.0, cov=0.01),
        cbq.measures.LogNormal(0.0, std=1.0),
    )
    fit = cbq.MOBQ().fit(problem.collect(14, 3, rng=0, design="sobol"))
    with silent():
        assert_allclose(fit.best([(0.0, 3.0)], maximize=False).theta, [1.0], atol=0.1)


def test_two_coordinates():
    problem = cbq.Problem(
        lambda x, theta: -((theta[0] - 0.3) ** 2) - (theta[1] - 0.6) ** 2 + 0.1 * x[:, 0],
        lambda theta: Gaussian(0.0, cov=1.0),
        Uniform([0.0, 0.0], [1.0, 1.0]),
    )
    fit = cbq.MOBQ().fit(problem.collect(25, 3, rng=0, design="sobol"))
    assert_allclose(fit.best([(0.0, 1.0), (0.0, 1.0)]).theta, [0.3, 0.6], atol=0.05)


def test_results_are_tables(two_outputs):
    pytest.importorskip("pandas")
    best = two_outputs.best([(0.0, 1.0)], output=0)
    assert best.to_frame().columns.tolist() == ["dose", "probability_effect"]
    assert "dose = " in repr(best)


def test_thetas_beyond_the_observed_ones_are_told():
    problem = cbq.Problem(lambda x, theta: theta[0] + x[:, 0], lambda theta: Gaussian(0.0, cov=1.0), Uniform(0.0, 1.0))
    fit = cbq.MOBQ().fit(problem.collect(10, 6, rng=0, design="sobol"))
    with pytest.warns(cbq.FitWarning, match="beyond"):
        fit.best([(0.0, 5.0)])


test_nonsense_is_refused = refusals(
    {
        "region": (lambda: any_fit().best([(1.0, 0.0)]), "prior_or_bounds must be"),
        "both": (lambda: any_fit().best([(60.0, 90.0)], among=[70.0]), "not both"),
        "output": (lambda: any_fit().best(output="cost"), "output must be"),
        "epsilon": (lambda: any_fit().best(epsilon=np.nan), "epsilon must be"),
        "level": (lambda: any_fit().best(level=1.5), "level must"),
        "size": (lambda: any_fit().best(size=1), "size must"),
        "limits": (lambda: any_fit().best(subject_to={"f": (2.0, 1.0)}), "subject_to"),
        "no limits": (lambda: any_fit().best(subject_to={"f": 3.0}), "subject_to"),
        "text": (lambda: any_fit().best(subject_to="f < 3"), "subject_to must map"),
        "numbers": (lambda: any_fit().best(subject_to=lambda theta: theta), "must return a boolean"),
        "mean": (lambda: any_fit().best(subject_to={cbq.Mean(): (None, 1.0)}), "subject_to limits outputs"),
        "not a number": (lambda: any_fit().best(subject_to={"f": (np.nan, None)}), "subject_to"),
    },
    (ValueError, TypeError),
)


def any_fit():
    return cbq.LSMC().fit(cbq.problems.get("butterfly").collect(T=12, N=20, rng=0))
