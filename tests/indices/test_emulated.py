"""Shares by an emulator: against closed forms, against draws of f, and against brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cbq
from cbq.indices.emulated import (
    Quadratic,
    SensitivityOptions,
    Shares,
    _drawn,
    _Output,
    emulated_shares,
    expected_at_ends,
)
from cbq.indices.inputs import OneMeasure
from cbq.indices.plan import Plan
from cbq.measures import Gaussian, Uniform

FAST = SensitivityOptions(points=2**13, drawn=128)
COV = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 2.0]])
BETA = np.array([1.0, 2.0, -1.0])


def fit_of(f, measure, n, **options):
    problem = cbq.Problem(
        lambda x, theta: f(x), lambda theta: measure, Uniform(0.0, 1.0), depends_on_theta=False, **options
    )
    return cbq.MOBQ().fit(problem.collect(theta=[0.5], N=n, rng=0, design="sobol"))


@pytest.fixture(scope="module")
def rough():
    """A fit to so few runs that much of f is unknown."""
    return fit_of(lambda x: np.sin(5 * x[:, 0]) * x[:, 1] + x[:, 2], Uniform(np.zeros(3), 1.0), 17)


def shares(fit, measure, subsets, options=FAST):
    inputs = OneMeasure(measure, tuple("abc"[: measure.dim]), theta=np.array([0.5]))
    every = frozenset(range(measure.dim))
    columns = [[j] for j in range(measure.dim)]
    return emulated_shares(fit.emulator, inputs, [every, *subsets], columns, options, np.random.default_rng(0))


def test_shares_of_a_linear_function_of_dependent_inputs():
    """Var E[b'x | x_S] = b'C_S C_SS^-1 C_S'b."""
    measure = Gaussian(np.zeros(3), cov=COV)
    subsets = [frozenset(s) for s in ((0,), (1,), (2,), (0, 1), (1, 2))]
    (found,) = shares(fit_of(lambda x: x @ BETA, measure, 24), measure, subsets)
    exact = [1.0]
    for each in map(sorted, subsets):
        c = COV[each] @ BETA
        exact.append(c @ np.linalg.solve(COV[np.ix_(each, each)], c) / (BETA @ COV @ BETA))
    assert_allclose(found.estimate, exact, atol=0.003)
    assert found.unknown < 1e-6


def test_a_quadratic_form_is_the_average_over_draws():
    rng = np.random.default_rng(0)
    m, m2, B, B2 = rng.normal(size=7), rng.normal(size=7), rng.normal(size=(7, 3)), rng.normal(size=(7, 3))
    found = Quadratic.of_products(m, B, m2, B2, 0.5)
    e, scale = rng.normal(size=(5, 3)), np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    values = m + scale[:, None] * (e @ B.T), m2 + scale[:, None] * (e @ B2.T)
    assert_allclose(found.at(e, scale), np.mean(values[0] * values[1], axis=1) + 0.5 * scale**2)
    assert_allclose(found.expected, m @ m2 / 7 + np.sum(B * B2) / 7 + 0.5)
    both = found.combined(2.0, -1.0, Quadratic.of_square(m, B, 0.0))
    assert_allclose(both.at(e, scale), 2 * found.at(e, scale) - np.mean(values[0] ** 2, axis=1))


def test_variances_of_draws_are_those_of_functions_from_the_emulator(rough):
    """E Var f and E Var E[f | x_0], over draws of f at all points jointly, by brute force."""
    u = np.random.default_rng(1).random((2, 200, 3))
    x = np.where([True, False, False], u[0], u[1])
    emulator = rough.emulator
    a, b, other = (emulator.correlated(each, None)[0] for each in (u[0], u[1], x))
    whole = _Output.of(a, b, few=20)
    mean, cov = emulator.predict(np.concatenate([u[0], u[1], x]), return_cov=True)
    cov = cov / np.mean(emulator.scales2)  # of the middle scale
    draws = np.random.default_rng(2).multivariate_normal(mean, cov, 4000, method="eigh")
    f_a, f_b, f_x = np.split(draws, 3, axis=1)
    V, share = whole.variance, whole.explained(other, whole.variance, 0.0)
    explained = np.mean((f_a - np.mean(f_a, axis=1, keepdims=True)) * (f_x - f_b), axis=1)
    variance = 0.5 * (np.var(f_a, axis=1) + np.var(f_b, axis=1))
    assert_allclose(V.expected, np.mean(variance), rtol=0.02)
    assert_allclose(share.expected, np.mean(explained), atol=0.02 * np.mean(variance))
    e = np.random.default_rng(3).normal(size=(4000, whole.B_a.shape[1]))
    assert_allclose(np.std(V.at(e, np.ones(4000))), np.std(variance), rtol=0.15)


def test_a_few_points_carry_the_expected_values_of_all(rough):
    """What draws do not move has its own variance, so that expected values do not depend on how many points move."""
    u = np.random.default_rng(1).random((100, 6))
    inputs = OneMeasure(Uniform(np.zeros(3), 1.0), ("a", "b", "c"), theta=np.array([0.5]))
    found = []
    for few in (16, 200):
        options = SensitivityOptions(few=few)
        drawn = _drawn(
            rough.emulator, inputs, [[0], [1, 2]], u, np.full((2, 1), 0.5), options, np.random.default_rng(0)
        )
        found.append(drawn[0])
    assert_allclose(found[0][0], found[1][0], atol=2e-3)  # centres of moves differ
    assert_allclose(found[0][2], found[1][2], rtol=0.02)


def test_unlearnt_functions_have_wide_intervals(rough):
    measure = Uniform(np.zeros(3), 1.0)
    subsets = [frozenset([0]), frozenset([1, 2])]
    (found,) = shares(rough, measure, subsets)
    (known,) = shares(fit_of(lambda x: np.sin(5 * x[:, 0]) * x[:, 1] + x[:, 2], measure, 128), measure, subsets)
    assert np.all(np.std(found.possible, axis=0)[1:] > 5 * np.std(known.possible, axis=0)[1:])
    low, high = np.quantile(found.possible, [0.01, 0.99], axis=0)
    assert np.all((low <= known.estimate + 1e-12) & (known.estimate <= high + 1e-12))


def test_expectations_at_quantiles():
    measure = Gaussian(np.zeros(3), cov=COV)
    fit = fit_of(lambda x: x @ BETA, measure, 24)
    inputs = OneMeasure(measure, ("a", "b", "c"), theta=np.array([0.5]))
    found = expected_at_ends(fit.emulator, inputs, [[0], [1, 2]], 2**10, np.random.default_rng(0))
    # E[f | x_0] = x_0 (b_0 + b_1 C_01 / C_00), at the quantiles -1.645 and 1.645
    assert_allclose(found[0, :, 0], [-3.29, 3.29], atol=0.02)
    assert np.all(np.isnan(found[1]))


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")  # of equal values
def test_a_constant_f_is_refused():
    fit = fit_of(lambda x: 0 * x[:, 0] + 3.0, Uniform(np.zeros(2), 1.0), 8, bounds=(0.0, 10.0))
    with pytest.raises(ValueError, match="f does not vary over these inputs"):
        shares(fit, Uniform(np.zeros(2), 1.0), [frozenset([0])])


def test_options_are_checked():
    with pytest.raises(ValueError, match="sequences"):
        SensitivityOptions(sequences=1)
    assert SensitivityOptions().size(2) * 8 == 2**14
    assert SensitivityOptions(points=100, sequences=2).size(1) == 64


def test_an_index_that_may_be_hidden_in_the_lengthscales_may_be_zero():
    """Of two inputs and an open share of 0.02, indices below 0.01 are not known; larger ones keep their ends."""
    plan = Plan.of(2, second=False, shapley=False, exact=8, permutations=64, rng=np.random.default_rng(0))
    estimate = np.array([{2: 1.0}.get(len(each), 0.9 if 0 in each else 0.004) for each in plan.subsets])
    possible = estimate + 1e-4 * np.linspace(-1.0, 1.0, 200)[:, None] * (estimate < 1)
    found = Shares(estimate, np.tile(estimate, (8, 1)), possible, 0.02).read(plan, 0.95)
    middle, low, high = found["first"]
    assert_allclose(middle, [0.9, 0.004])
    assert_allclose(low, [0.9 - 0.95e-4, 0.0], atol=1e-6)
    assert_allclose(high, [0.9 + 0.95e-4, 0.01], atol=1e-6)
