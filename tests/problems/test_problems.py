"""The problems: every exact answer is checked against at least two other ways to compute it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import cache
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import cbq
from cbq import problems
from cbq.measures import Gamma, Gaussian, LogNormal
from cbq.problems import butterfly, health, linear, registry, sir, sobol_g, univariate
from cbq.problems.problem import Problem

CASES = {
    "linear": ("linear", {}, 3e-3),
    "linear-inner": ("linear", {"f": "inner"}, 5e-4),
    "linear-3": ("linear", {"dim": 3, "f": "square", "seed": 4}, 4e-3),
    "linear-1": ("linear", {"dim": 1, "f": "inner"}, 5e-4),
    "sir": ("sir", {"step": 0.25}, 80.0),
    "sir-noise": ("sir", {"step": 0.25, "noise": 0.01}, 200.0),
    "butterfly": ("butterfly", {}, 0.01),
    "health": ("health", {}, 3.0),
    "characteristic": ("characteristic", {}, 1e-3),
    "characteristic-heavy": ("characteristic", {"shape": 0.7, "rate": 0.2}, 1e-3),
    "truncated": ("truncated", {}, 1e-3),
    "truncated-scaled": ("truncated", {"mean": -5.0, "std": 0.1}, 1e-4),
    "sobol-g": ("sobol-g", {}, 1e-3),
    "sobol-g-2": ("sobol-g", {"a": [2.0, 0.5]}, 1e-3),
}
BUILDERS = {
    "butterfly": butterfly.build,
    "characteristic": univariate.build_characteristic,
    "health": health.build,
    "linear": linear.build,
    "sir": sir.build,
    "sobol-g": sobol_g.build,
    "truncated": univariate.build_truncated,
}
ALL = tuple(BUILDERS)
USES_THETA = {"characteristic", "health", "sobol-g"}


def nodes(lower, upper, n=60):
    """Gauss-Legendre on [lower, upper]."""
    x, w = np.polynomial.legendre.leggauss(n)
    return 0.5 * (lower + upper) + 0.5 * (upper - lower) * x, 0.5 * (upper - lower) * w


# all of them


@pytest.mark.parametrize(("name", "options", "tolerance"), CASES.values(), ids=CASES)
def test_the_answer_agrees_with_many_sobol_points(name, options, tolerance):
    problem = problems.get(name, **options)
    s = problem.collect(4, 4096, rng=0, design="sobol")
    np.testing.assert_allclose(s.f.mean(axis=1), problem.exact(s.theta), rtol=0, atol=tolerance)


@pytest.mark.parametrize(("name", "options", "tolerance"), CASES.values(), ids=CASES)
def test_problems_are_complete(name, options, tolerance):
    problem = problems.get(name, **options)
    assert isinstance(problem, Problem)
    assert problem.has_exact
    assert problem.depends_on_theta == (name in USES_THETA)
    assert problem.name.startswith(name)
    s = problem.collect(3, 4, rng=1)
    answer = problem.exact(s.theta)
    assert answer.shape == ((3,) if s.C is None else (3, s.C))
    np.testing.assert_allclose(problem.exact(s.theta[1:]), answer[1:], rtol=1e-14)
    assert s.batched_measure().batch_shape in ((), (3,))  # one for all, where x does not depend on theta
    again = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(again.collect(3, 4, rng=1).f, s.f)
    np.testing.assert_array_equal(again.exact(s.theta), answer)


def test_names_and_options():
    assert problems.names() == ALL
    assert {name for name, _, _ in CASES.values()} == set(problems.names())
    with pytest.raises(ValueError, match=f"no problem 'lorenz': the problems are {', '.join(map(repr, ALL))}"):
        problems.get("lorenz")
    with pytest.raises(TypeError, match="problem 'linear' has no option d: the options are 'dim', 'f', 'seed'"):
        problems.get("linear", d=3)
    with pytest.raises(TypeError, match="problem 'health' has no option step: it has none"):
        problems.get("health", step=1)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("linear", {"f": "cube"}, "f must be 'square' or 'inner', but it is 'cube'"),
        ("linear", {"dim": 0}, "dim must be a whole number, at least 1"),
        ("sir", {"step": 0}, "step must be positive and at most 0.25 days"),
        ("sir", {"step": 0.3}, "step must be positive and at most 0.25 days"),
        ("sir", {"noise": -1}, "noise must be a number of at least 0, but it is -1"),
        ("characteristic", {"shape": -1.0}, "shape must be positive"),
        ("characteristic", {"rate": 0.0}, "rate must be positive"),
        ("truncated", {"std": 0.0}, "std must be positive"),
        ("truncated", {"mean": np.inf}, "mean must be finite"),
        ("sobol-g", {"a": [1.0]}, "a must hold two or more numbers, none of them negative"),
        ("sobol-g", {"a": [1.0, -0.5]}, "a must hold two or more numbers, none of them negative"),
        ("sobol-g", {"a": [[1.0, 2.0]]}, "a must hold two or more numbers"),
    ],
)
def test_invalid_options_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        problems.get(name, **options)


# linear

THETAS = np.array([[1.0, 3.0], [1.7, 2.1], [3.0, 1.1]])


def data(dim=2, seed=0):
    rng = np.random.default_rng(seed)
    Y = np.ones((5, dim))
    Y[:, : dim - 1] = rng.uniform(-1, 1, (5, dim - 1))
    beta = rng.standard_normal(dim)
    return Y, Y @ beta + rng.standard_normal(5)


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize(
    ("f", "function"), [("square", lambda x: np.sum(x * x, axis=-1)), ("inner", lambda x: 0.3 * x[..., 0] + x[..., 1])]
)
def test_linear_is_the_posterior_expectation(f, function, theta):
    """The trapezoidal rule on the unnormalised posterior, which converges geometrically."""
    Y, Z = data()
    line = np.linspace(-14, 14, 801)
    x = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1)
    density = np.exp(-0.5 * np.sum(x * x / theta, axis=-1) - 0.5 * np.sum((Z - x @ Y.T) ** 2, axis=-1))
    reference = np.sum(density * function(x)) / np.sum(density)
    np.testing.assert_allclose(problems.get("linear", f=f).exact(theta[None]), reference, rtol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_linear_measure_is_the_posterior(dim):
    Y, Z = data(dim, seed=3)
    theta = np.linspace(1, 3, dim)
    measure = problems.get("linear", dim=dim, seed=3).family(theta)
    # by conditioning the joint Gaussian of (x, Z) instead of adding precisions
    gain = np.linalg.solve(np.eye(5) + Y @ np.diag(theta) @ Y.T, Y * theta).T
    np.testing.assert_allclose(measure.mean, gain @ Z, rtol=1e-12)
    np.testing.assert_allclose(measure.cov, np.diag(theta) - gain @ Y * theta, rtol=1e-11, atol=1e-14)


def test_linear_points_are_m_plus_L_u():
    """x'x cannot tell L u from L'u; x_1^2 can."""
    s = problems.get("linear").collect(None, 4096, rng=0, design="sobol", theta=THETAS)
    for t in range(len(THETAS)):
        mean, cov = s.measure(t).moments()
        L = np.linalg.cholesky(cov)
        second = np.mean(s.points(t)[:, 0] ** 2)
        right, wrong = (mean[0] ** 2 + (A @ A.T)[0, 0] for A in (L, L.T))
        assert abs(second - right) < 2e-3
        assert abs(wrong - right) > 1e-2


def test_linear_refuses_a_prior_variance_that_is_not_positive():
    with pytest.raises(ValueError, match="theta must be positive"):
        problems.get("linear").exact([[1.0, 0.0]])


# sir


def test_the_noise_of_sir_is_a_part_of_the_spread_of_f():
    u = (np.arange(64)[:, None] + 0.5) / 64  # midpoints of cells
    theta = problems.get("sir").prior.transport(u)
    f = sir.EpidemicModel(0.25).integrand(np.concatenate([Gamma(t, 10.0).transport(u) for t in theta]), theta[0])
    np.testing.assert_allclose(np.std(f), sir.SPREAD, rtol=0.02)
    quiet, noisy = (problems.get("sir", step=0.25, noise=noise).collect(4, 500, rng=0) for noise in (0.0, 0.3))
    assert (quiet.stochastic, noisy.stochastic) == (False, True)
    noise = (noisy.f - quiet.f) / (0.3 * sir.SPREAD)
    assert abs(np.mean(noise)) < 4 / np.sqrt(2000)
    assert abs(np.std(noise) - 1) < 4 / np.sqrt(4000)


def closed_form_peak(x):
    """I at S = gamma pop / x, from the invariant I + S - (gamma pop / x) log S; for peaks within the 150 days."""
    S0, turning = 1e6 - 50, 0.05e6 / x
    return 50 + S0 - turning * (1 + np.log(S0 / turning))


def solved(x, days):
    def flow(_, y):
        infections = x * y[0] * y[1] / 1e6
        return [-infections, infections - 0.05 * y[1], 0.05 * y[1]]

    start = [1e6 - 50, 50.0, 0.0]
    return integrate.solve_ivp(flow, (0, 150), start, method="DOP853", t_eval=days, rtol=1e-12, atol=1e-6).y


def test_sir_agrees_with_solve_ivp():
    x, days = np.array([0.02, 0.11, 0.3, 1.0]), np.arange(0, 151, 10)
    step = 0.02
    mine = np.array([y for i, y in enumerate(sir.states(x, step)) if i % 500 == 0])  # (16, 3, 4)
    for j, rate in enumerate(x):
        np.testing.assert_allclose(mine[:, :, j].T, solved(rate, days), rtol=0, atol=1e-8 * 1e6)


@pytest.mark.parametrize("step", [0.1, 0.7])
def test_sir_keeps_the_population_and_ends_on_day_150(step):
    states = np.array(list(sir.states(np.array([0.0, 0.1, 0.5, 3.0]), step)))
    assert len(states) == 1 + np.ceil(150 / step)
    np.testing.assert_allclose(states.sum(axis=1), 1e6, rtol=1e-12)
    assert np.all(np.diff(states[:, 0], axis=0) <= 0)
    assert np.all(np.diff(states[:, 2], axis=0) >= 0)


def test_sir_peak_converges_with_order_four_to_the_closed_form():
    x = np.array([0.2, 0.4, 1.0])
    errors = np.array([sir.peak(x, step)[0] - closed_form_peak(x) for step in (0.4, 0.2, 0.1)])
    order = np.log2(errors[:-1] / errors[1:])
    np.testing.assert_allclose(order, 4, atol=0.25)
    assert np.all(np.abs(errors[-1]) < 1e-7 * closed_form_peak(x))


def test_sir_peak_below_the_threshold_and_after_the_last_day():
    x = np.array([0.0, 1e-300, 0.02, 0.05, 0.07, 0.11])
    peak = problems.get("sir").evaluate(4.0, x)
    np.testing.assert_array_equal(peak[:4], 50.0)
    ends = [solved(rate, [150.0])[1, 0] for rate in x[4:]]
    np.testing.assert_allclose(peak[4:], ends, rtol=1e-9)


@cache
def late_rates():
    """The rate x* whose peak comes on day 150, and nodes, weights and I(150) for the rates from 0.05 to it."""
    last = optimize.brentq(lambda x: solved(x, [150.0])[0, 0] - 0.05e6 / x, 0.06, 0.3, xtol=1e-10)
    x, w = nodes(0.05, last, 24)
    return last, x, w * np.array([solved(rate, [150.0])[1, 0] for rate in x])


@pytest.mark.parametrize("theta", [2.0, 3.7, 5.5, 9.0])
def test_sir_answer_agrees_with_the_closed_form_and_solve_ivp(theta):
    measure = stats.gamma(theta, scale=0.1)
    last, x, late = late_rates()
    early = sum(
        integrate.quad(lambda x: closed_form_peak(x) * measure.pdf(x), a, b, epsabs=0, epsrel=1e-11, limit=200)[0]
        for a, b in ((last, 0.5), (0.5, 1.0), (1.0, 8.0))
    )
    reference = 50 * measure.cdf(0.05) + late @ measure.pdf(x) + early
    np.testing.assert_allclose(problems.get("sir").exact([theta]), reference, rtol=6e-8)  # 4e-8 is from the step 0.1


def test_sir_answer_does_not_change_with_more_panels():
    theta = np.linspace(2, 9, 8)[:, None]
    for step in (0.1, 0.25):
        coarse, fine = sir.EpidemicModel(step).exact(theta), sir.EpidemicModel(step, panels=31).exact(theta)
        np.testing.assert_allclose(coarse, fine, rtol=1e-10 if step == 0.1 else 1e-8)


def test_sir_answer_agrees_with_its_own_f_at_quantiles():
    """The midpoint rule in the probability, whose error at 4000 points is about 1e-6."""
    problem = problems.get("sir", step=0.25)
    x = stats.gamma(4.0, scale=0.1).ppf((np.arange(4000) + 0.5) / 4000)
    np.testing.assert_allclose(problem.evaluate(4.0, x).mean(), problem.exact([4.0])[0], rtol=1e-5)


def test_sir_measure_and_where_the_answer_is_known():
    assert problems.get("sir").family(np.array([3.0])).equals(Gamma(3.0, 10.0))
    for theta in (0.0, 20.0):
        with pytest.raises(ValueError, match="the exact answer is known for theta from 0 to about 14"):
            problems.get("sir").exact([theta])


# butterfly


@pytest.mark.parametrize("theta", [20.0, 55.0, 83.0, 100.0, 140.0, 300.0])
def test_butterfly_answer_by_quadrature(theta):
    def psi(x):
        return max(x - 50, 0) + max(x - 150, 0) - 2 * max(x - 100, 0)

    measure = stats.norm(np.log(theta) - 0.045, 0.3)
    kinks = np.log([50 / 1.2, 50, 100 / 1.2, 100, 150 / 1.2, 150])
    edges = np.unique(np.clip([measure.ppf(1e-18), *kinks, measure.isf(1e-18)], measure.ppf(1e-18), measure.isf(1e-18)))
    reference = sum(
        integrate.quad(lambda y: (psi(np.exp(y)) - psi(1.2 * np.exp(y))) * measure.pdf(y), a, b, epsabs=1e-13)[0]
        for a, b in pairwise(edges)
    )
    np.testing.assert_allclose(problems.get("butterfly").exact([theta]), reference, rtol=1e-11, atol=1e-11)


def test_butterfly_measures_are_martingales():
    problem = problems.get("butterfly")
    assert isinstance(problem.prior, LogNormal)
    np.testing.assert_allclose(problem.prior.moments()[0], 100.0, rtol=1e-14)
    np.testing.assert_allclose(problem.family(np.array([73.0])).moments()[0], 73.0, rtol=1e-14)
    np.testing.assert_allclose(problem.family(np.array([73.0])).log.cov, 0.09, rtol=1e-14)


def test_butterfly_expected_loss_by_quadrature():
    exact = problems.get("butterfly").exact

    def loss(z):
        return exact(100 * np.exp(0.3 * np.atleast_1d(z) - 0.045))

    grid = np.linspace(-8.5, 8.5, 341)
    signs = np.sign(loss(grid))
    roots = [optimize.brentq(lambda z: loss(z)[0], grid[i], grid[i + 1]) for i in np.flatnonzero(np.diff(signs))]
    total = 0.0
    for a, b in pairwise(np.unique([*np.linspace(-8.5, 8.5, 18), *roots])):
        z, w = nodes(a, b, 30)
        total += w @ (np.maximum(loss(z), 0) * stats.norm.pdf(z))
    assert total == pytest.approx(butterfly.EXPECTED_LOSS, abs=1e-10)


# health

HEALTH = np.array([[0.7, 0.8], [0.5, 0.9], [0.95, 0.62]])
NAMES = ["theta1", "theta2", *(f"x{j}" for j in range(1, 18))]
MEANS = [0.7, 0.8, 1000, 0.1, 5.2, 400, 0.3, 3, 0.25, -0.1, 0.5, 1500, 0.08, 6.1, 0.3, 3, 0.2, -0.1, 0.5]
STDS = [0.1, 0.1, 1, 0.02, 1, 200, 0.1, 0.5, 0.1, 0.02, 0.2, 1, 0.02, 1, 0.05, 1, 0.05, 0.02, 0.2]


def joint():
    """Mean and covariance of all 19 variables."""
    correlation = np.eye(19)
    linked = [NAMES.index(name) for name in ("theta1", "theta2", "x6", "x14")]
    for i, j in product(linked, linked):
        correlation[i, j] = 1.0 if i == j else 0.6
    return np.array(MEANS), np.outer(STDS, STDS) * correlation


@pytest.mark.parametrize("theta", HEALTH)
def test_health_measure_is_the_conditional_measure_given_both_thetas(theta):
    mean, cov = joint()
    gain = np.linalg.solve(cov[:2, :2], cov[:2, 2:]).T
    measure = problems.get("health").family(theta)
    np.testing.assert_allclose(measure.mean, mean[2:] + gain @ (theta - mean[:2]), rtol=1e-13)
    np.testing.assert_allclose(measure.cov, cov[2:, 2:] - gain @ cov[:2, 2:], rtol=1e-13, atol=1e-15)


def test_health_correlations_come_back_from_the_prior_and_the_conditional_measure():
    problem = problems.get("health")
    assert isinstance(problem.prior, Gaussian)
    centre = problem.family(np.array([0.7, 0.8]))
    slopes = np.column_stack([problem.family(np.array([0.7, 0.8]) + step).mean - centre.mean for step in np.eye(2)])
    spread = problem.prior.cov
    whole = np.block([[spread, spread @ slopes.T], [slopes @ spread, centre.cov + slopes @ spread @ slopes.T]])
    np.testing.assert_allclose(whole, joint()[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("theta", HEALTH)
def test_health_answer_by_quadrature(theta):
    """Each output is multilinear in 9 inputs, independent given theta: two Gauss-Hermite nodes each are exact."""
    problem = problems.get("health")
    measure = problem.family(theta)
    signs = np.array(list(product([-1.0, 1.0], repeat=9)))  # (512, 9)
    for c, inputs in enumerate((range(1, 10), (4, *range(10, 18)))):
        columns = [j - 1 for j in inputs]
        x = np.tile(measure.mean, (512, 1))
        x[:, columns] += signs * np.sqrt(np.diagonal(measure.cov)[columns])
        average = problem.evaluate(theta, x)[:, c].mean()
        np.testing.assert_allclose(problem.exact(theta[None])[0, c], average, rtol=1e-12)


def test_health_integrand():
    x = np.array(MEANS[2:])[None] * 1.1
    v = dict(zip(NAMES[2:], x[0], strict=True))
    f1 = 1e4 * (0.6 * v["x5"] * v["x6"] + v["x7"] * v["x8"] * v["x9"]) - (v["x1"] + v["x2"] * v["x3"] * v["x4"])
    f2 = 1e4 * (0.9 * v["x13"] * v["x14"] + v["x15"] * v["x16"] * v["x17"]) - v["x10"] - v["x11"] * v["x12"] * v["x4"]
    np.testing.assert_allclose(problems.get("health").evaluate([0.6, 0.9], x), [[f1, f2]], rtol=1e-14)


def evppi(expected):
    """E max(I_1, I_2) - max(E I_1, E I_2) over theta, for expected: theta (M, 2) -> (M, 2), quadratic in theta."""
    L = np.linalg.cholesky([[1.0, 0.6], [0.6, 1.0]])

    def benefits(a, b):
        return expected(np.array([0.7, 0.8]) + 0.1 * np.column_stack([np.full_like(b, a), b]) @ L.T)

    best, each = 0.0, np.zeros(2)
    for a, wa in zip(*nodes(-8.5, 8.5, 100), strict=True):
        trio = benefits(a, np.array([-1.0, 0.0, 1.0]))
        crossings = np.roots(np.polyfit([-1.0, 0.0, 1.0], trio[:, 0] - trio[:, 1], 2))
        kinks = [z.real for z in crossings if z.imag == 0 and abs(z.real) < 8.5]
        for low, high in pairwise(sorted([-8.5, 0.0, 8.5, *kinks])):
            b, wb = nodes(low, high, 40)
            mass, values = wa * stats.norm.pdf(a) * wb * stats.norm.pdf(b), benefits(a, b)
            best, each = best + mass @ values.max(axis=1), each + mass @ values
    return best - each.max()


def test_health_value_of_learning_both_thetas():
    assert evppi(problems.get("health").exact) == pytest.approx(health.EVPPI, abs=6e-5)


def test_health_does_not_condition_on_each_theta_separately():
    def separately(theta):
        x6 = 3 + 0.5 * 0.6 * (theta[:, 0] - 0.7) / 0.1
        x14 = 3 + 1.0 * 0.6 * (theta[:, 1] - 0.8) / 0.1
        constants = np.array([1e4 * -0.0125 - 1208, 1e4 * -0.01 - 1695.2])
        return 1e4 * 0.3 * np.column_stack([theta[:, 0] * x6, theta[:, 1] * x14]) + constants

    wrong = evppi(separately)
    assert wrong == pytest.approx(504, abs=1)
    assert abs(wrong - health.EVPPI) > 250


def test_every_problem_registers_a_documented_function_that_builds_it():
    assert all(build.__doc__ for build in BUILDERS.values())
    assert list(BUILDERS.values()) == [registry.builder(name) for name in ALL]


# characteristic


@pytest.mark.parametrize("t", [0.0, 0.3, 1.7, 5.0, -2.2])
@pytest.mark.parametrize(("shape", "rate"), [(3.0, 2.0), (0.7, 0.2), (40.0, 9.0)])
def test_characteristic_by_quadrature(shape, rate, t):
    """In y = log x, where the density is analytic and the trapezoidal rule converges geometrically."""
    y, step = np.linspace(
        np.log(shape / rate) - 60 / min(shape, 1.0), np.log(200 * (1 + shape) / rate), 400_001, retstep=True
    )
    density = step * np.exp(shape * (y + np.log(rate)) - rate * np.exp(y) - special.gammaln(shape))
    reference = [density @ np.cos(t * np.exp(y)), density @ np.sin(t * np.exp(y))]
    answer = problems.get("characteristic", shape=shape, rate=rate).exact([t])[0]
    np.testing.assert_allclose(answer, reference, rtol=0, atol=2e-13)


def test_characteristic_agrees_with_the_complex_power():
    t = np.linspace(-30, 30, 61)
    power = (1 - 1j * t / 2.0) ** -3.0
    answer = problems.get("characteristic").exact(t)
    np.testing.assert_allclose(answer, np.column_stack([power.real, power.imag]), rtol=0, atol=1e-15)
    assert np.all(np.isfinite(problems.get("characteristic").exact([1e200])))


def test_characteristic_has_the_moments_of_the_measure_as_its_derivatives():
    problem, h = problems.get("characteristic", shape=4.0, rate=1.5), 1e-4
    (_, slope), (real, _) = problem.exact([h])[0] / h, problem.exact([h])[0]
    mean, variance = 4.0 / 1.5, 4.0 / 1.5**2
    assert slope == pytest.approx(mean, rel=1e-6)
    assert 2 * (1 - real) / h**2 == pytest.approx(variance + mean**2, rel=1e-6)


def test_characteristic_has_one_measure():
    problem = problems.get("characteristic", shape=2.0, rate=0.5)
    assert all(problem.family(np.array([t])).equals(Gamma(2.0, 0.5)) for t in (0.0, 1.0))


# truncated


@pytest.mark.parametrize("a", [-40.0, -9.0, -1.0, 0.0, 2.5, 8.0, 38.0, 200.0, 1e5])
def test_truncated_mean_in_many_digits(a):
    with mpmath.workdps(40):
        z = mpmath.mpf(a)
        mills = mpmath.npdf(z) / (mpmath.erfc(z / mpmath.sqrt(2)) / 2)
        reference = float(3 + mpmath.mpf("0.5") * mills)
    answer = problems.get("truncated", mean=3.0, std=0.5).exact([3.0 + 0.5 * a])
    np.testing.assert_allclose(answer, reference, rtol=1e-14)
    np.testing.assert_allclose(univariate.inverse_mills(np.array([a])), float(mills), rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize("theta", [-2.0, 0.3, 4.0])
def test_truncated_mean_by_quadrature(theta):
    mass, first = (
        integrate.quad(lambda x, k=k: x**k * np.exp(-0.5 * x * x), theta, theta + 12, epsabs=0, epsrel=1e-12)[0]
        for k in (0, 1)
    )
    np.testing.assert_allclose(problems.get("truncated").exact([theta]), first / mass, rtol=1e-11)


def test_truncated_mean_agrees_with_the_moments_of_its_measure():
    problem = problems.get("truncated", mean=-1.0, std=2.0)
    for theta in (-9.0, -1.0, 5.0, 70.0):
        mean, _ = problem.family(np.array([theta])).moments()
        np.testing.assert_allclose(problem.exact([theta]), mean, rtol=1e-12)


# sobol-g


@pytest.mark.parametrize("theta", [0.0, 0.2, 0.5, 0.9])
def test_sobol_g_given_its_first_input_by_quadrature(theta):
    """Linear on either side of each kink, so that one node on each side is exact."""
    problem = problems.get("sobol-g", a=[0.5, 1.0, 4.5, 9.0])
    x = np.array(list(product([0.25, 0.75], repeat=3)))
    np.testing.assert_allclose(problem.evaluate([theta], x).mean(), problem.exact([theta])[0], rtol=1e-14)


@pytest.mark.parametrize("a", [(0.0, 1.0, 4.5, 9.0), (3.0, 0.2)])
def test_sobol_g_index_is_the_share_of_the_variance(a):
    """By Gauss-Legendre on either side of the kinks, where f and f^2 are polynomials."""
    half, weight = nodes(0.0, 0.5, 3)
    x, w = np.concatenate([half, half + 0.5]), np.concatenate([weight, weight])
    points = np.stack(np.meshgrid(*[x] * len(a), indexing="ij"), axis=-1).reshape(-1, len(a))
    mass = np.prod(np.stack(np.meshgrid(*[w] * len(a), indexing="ij"), axis=-1).reshape(-1, len(a)), axis=-1)
    problem = problems.get("sobol-g", a=a)
    f = np.array([problem.evaluate(point[:1], point[None, 1:])[0] for point in points])
    given = problem.exact(x)
    share = (w @ given**2 - (w @ given) ** 2) / (mass @ f**2 - (mass @ f) ** 2)
    assert sobol_g.index(a) == pytest.approx(share, rel=1e-12)


def test_sobol_g_index_from_a_fit():
    problem = problems.get("sobol-g")
    samples = problem.collect(32, 64, rng=0, design="sobol")
    fit = cbq.CBQ().fit(samples)
    between = np.var(fit.predict(problem.prior.sample(10000, rng=1)))
    within = np.mean(np.var(samples.f, axis=1, ddof=1))
    assert between / (between + within) == pytest.approx(sobol_g.index(), abs=0.02)


# the registry


REGISTERED = """
from cbq import Problem, problems
from cbq.measures import Gaussian

known = problems.names()

def build(scale=1.0, **rest):
    return Problem(lambda x, theta: scale * x[:, 0], lambda theta: Gaussian(theta, cov=1.0), Gaussian(0.0, cov=1.0))

assert problems.register("mine", build) is build
assert problems.get("mine", scale=3.0, other=1).evaluate([0.0], [2.0]) == [6.0]

@problems.register("decorated")
def decorated():
    return build()

assert isinstance(decorated(), Problem)
assert problems.get("decorated").p == 1
problems.register("empty", lambda: None)
assert problems.names() == tuple(sorted([*known, "mine", "decorated", "empty"]))
problems.get("empty")
"""


def test_problems_can_be_registered():
    done = subprocess.run([sys.executable, "-c", REGISTERED], capture_output=True, text=True, check=False)
    says = "TypeError: the function registered as 'empty' returned None, but a cbq.Problem is needed."
    assert done.stderr.splitlines()[-1] == says


@pytest.mark.parametrize(
    ("name", "build", "error", "message"),
    [
        ("sir", sir.build, ValueError, "there is a problem 'sir' already: register this one with another name"),
        ("", sir.build, ValueError, "without spaces, colons and slashes, but it is ''"),
        ("a b", sir.build, ValueError, "without spaces, colons and slashes"),
        ("file.py:problem", sir.build, ValueError, "without spaces, colons and slashes"),
        (3, sir.build, ValueError, "but it is 3"),
        ("ready", problems.get("sir"), TypeError, "wrap it as lambda: problem"),
        ("number", 3, TypeError, "build must be a function that returns a cbq.Problem, but it is 3"),
    ],
)
def test_register_refuses(name, build, error, message):
    with pytest.raises(error, match=message):
        problems.register(name, build)
    assert problems.names() == ALL


def test_installed_packages_provide_problems_by_entry_points(tmp_path, monkeypatch):
    (tmp_path / "pendulums.py").write_text("from cbq.problems import sir\n\ndef build():\n    return sir.build()\n")
    info = tmp_path / "pendulums-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pendulums\nVersion: 1.0\n")
    lines = ["[cbq.problems]", "pendulum = pendulums:build", "broken = pendulums:missing", "sir = pendulums:missing"]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert problems.names() == tuple(sorted([*ALL, "pendulum", "broken"]))
    assert problems.get("pendulum").name == "sir"
    assert problems.get("sir").name == "sir"  # entry points do not replace built-in problems
    with pytest.raises(ImportError, match="problem 'broken' cannot be loaded from pendulums:missing"):
        problems.get("broken")


@pytest.mark.parametrize("dim", [2.0, "x", True, 0, None])
def test_the_dimension_of_linear_is_a_whole_number(dim):
    with pytest.raises(ValueError, match="dim must be a whole number, at least 1, but it is"):
        cbq.problems.get("linear", dim=dim)
