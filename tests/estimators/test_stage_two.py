"""Stage 2 against the textbook: Gaussian-process regression with known noise and a trend of unknown coefficients."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize

from cbq.estimators.conditional.stage_two import (
    NodeEstimates,
    StageTwoOptions,
    ThetaPosterior,
    fit_stage_two,
    nearest_nodes,
    smoothed_noise,
)
from cbq.fit import predictive
from cbq.fit.predictive import PredictiveDistribution
from cbq.gp import Calibration
from cbq.gp.heteroscedastic import (
    GPPrior,
    HeteroscedasticGP,
    ThetaCoordinates,
    largest_degree,
    polynomial_basis,
)
from cbq.gp.likelihood import Likelihood, fit_priors
from cbq.gp.search import newton
from cbq.kernels import RBF, Matern, Warped
from cbq.linalg.jitter import SMALL_JITTER


def example(T=12, p=2, seed=0):
    rng = np.random.default_rng(seed)
    theta = rng.uniform(1.0, 3.0, size=(T, p))
    v = rng.uniform(0.5, 2.0, size=T) * 1e-3
    y = np.sin(theta).sum(axis=1) + np.sqrt(v) * rng.normal(size=T)
    return theta, y, v


def prior(p=2, degree=0, kernel=None, noise=1e-4):
    return GPPrior(ThetaCoordinates.identity(p), kernel or Matern(2.5, np.linspace(0.8, 1.4, p)), 2.0, noise, degree)


@pytest.mark.parametrize("degree", [None, 0, 1, 2])
def test_a_surface_is_the_limit_of_a_wide_prior_on_the_trend(degree):
    theta, y, v = example()
    new = np.random.default_rng(1).uniform(1.0, 3.0, size=(5, 2))
    p = prior(degree=degree)
    surface = HeteroscedasticGP(p, theta, y, v)
    wide = 1e6  # the variance of the coefficients: a Gaussian process without a trend then says nearly the same

    def k(a, b):
        return 2.0 * p.kernel(a, b) + wide * polynomial_basis(a, degree) @ polynomial_basis(b, degree).T

    K = k(theta, theta) + np.diag(v + p.noise + 2e-10)
    mean = k(new, theta) @ np.linalg.solve(K, y)
    cov = k(new, new) - k(new, theta) @ np.linalg.solve(K, k(theta, new))
    got = surface.predict(new, joint=True)
    noise = v + p.noise
    assert_allclose(got.mean, mean, rtol=1e-4)
    assert_allclose(got.variance + (got.weights * noise) @ got.weights.T, cov, atol=1e-5)
    assert_allclose(got.weights @ y, got.mean, rtol=1e-10)
    assert_allclose(surface.mean(new), got.mean, rtol=1e-9)
    assert_allclose(np.diag(got.variance), surface.predict(new).variance, atol=1e-12)


def test_the_variance_of_the_prediction_is_that_of_its_error():
    # simulate the model: the error of the weights at a new theta has the variance that is promised
    theta, _, v = example(T=6, p=1)
    new = np.array([[2.2]])
    p = prior(1, 0)
    got = HeteroscedasticGP(p, theta, np.zeros(6), v).predict(new)
    both = np.concatenate([theta, new])
    K = 2.0 * p.kernel(both) + 1e-10 * np.eye(7)
    row = np.append(got.weights[0], -1.0)
    assert_allclose(got.variance[0], row @ K @ row, rtol=1e-6)
    assert_allclose(np.sum(got.weights), 1.0, rtol=1e-10)  # the unknown constant is reproduced


@pytest.mark.parametrize("degree", [None, 0, 1])
def test_leaving_out_a_theta_by_formula_is_leaving_it_out(degree):
    theta, y, v = example()
    p = prior(degree=degree)
    Qy, diagonal = HeteroscedasticGP(p, theta, y, v).leave_one_out()
    for t in range(len(y)):
        keep = np.arange(len(y)) != t
        got = HeteroscedasticGP(p, theta[keep], y[keep], v[keep]).predict(theta[t : t + 1])
        variance = got.variance[0] + got.weights[0] ** 2 @ (v[keep] + p.noise) + v[t] + p.noise
        assert_allclose(Qy[t] / diagonal[t], y[t] - got.mean[0], rtol=1e-6, atol=1e-9)
        assert_allclose(1.0 / diagonal[t], variance, rtol=1e-5)


def likelihood(degree=0, noise=None, kernel=None):
    theta, y, v = example()
    kernel, free = (kernel or RBF()).to_fit(theta, ard=True)
    return Likelihood(kernel, free, theta, polynomial_basis(theta, degree), y / np.std(y), v / np.var(y), noise)


@pytest.mark.parametrize("degree", [None, 0, 1])
@pytest.mark.parametrize("noise", [None, 1e-3])
@pytest.mark.parametrize("kernel", [RBF(), Matern(1.5), RBF() + Matern(2.5, 1.0)], ids=repr)
def test_the_gradient_of_the_likelihood_is_its_derivative(degree, noise, kernel):
    target = likelihood(degree, noise, kernel)
    P = 1 + (noise is None) + int(np.count_nonzero(target.free))
    at = np.full(P, 0.3)
    if noise is None:
        at[1] = -6.0
    _, gradient, information = target(at)
    for j in range(P):
        step = 1e-5 * np.eye(P)[j]
        assert_allclose(gradient[j], (target(at + step)[0] - target(at - step)[0]) / 2e-5, rtol=1e-5, atol=1e-5)
    assert np.all(np.linalg.eigvalsh(information) > 0)


def test_the_likelihood_contains_the_noise_in_its_determinant():
    target = likelihood(None, 0.05)
    A, noise, kernel = target.unpack(np.array([0.2, 0.1, -0.3]))
    K = A * kernel(target.z) + np.diag(target.v + noise)
    dense = -stats.multivariate_normal(np.zeros(12), K).logpdf(target.y) - 6 * np.log(2 * np.pi)
    flat = target(np.array([0.2, 0.1, -0.3]))[0]
    ell = np.array([0.1, -0.3]) - target.kernel.log_lengthscales
    log_prior = -0.5 * np.sum((ell - np.log(3.0)) ** 2) / 1.5**2 + 0.5 * 0.2  # of lengthscales, and of A^(1/2)
    assert_allclose(flat, dense - log_prior, rtol=1e-6)


@pytest.mark.parametrize("kernel", [RBF(np.full(3, 500.0)), Matern(1.5, np.full(3, 500.0))], ids=repr)
@pytest.mark.parametrize("log_amplitude", [-10.0, -20.0, -29.9])
def test_the_likelihood_is_right_where_some_nodes_are_known_exactly_and_others_hardly(kernel, log_amplitude):
    T, A = 12, float(np.exp(log_amplitude))
    theta, hardly = np.random.default_rng(4).uniform(0.0, 1.0, (T, 3)), np.arange(T) % 2 == 1
    y, v = np.where(hardly, np.linspace(-2.0, 2.0, T), 0.0) - 0.3, np.where(hardly, 0.1, 1e-31)
    target = Likelihood(kernel, np.zeros(3, dtype=bool), theta, np.ones((T, 1)), y, v, 0.0)
    with mpmath.workdps(80):
        noise = mpmath.diag([mpmath.mpf(each) + SMALL_JITTER.start * A for each in v])
        K, one, exact_y = (
            A * mpmath.matrix(kernel(theta).tolist()) + noise,
            mpmath.ones(T, 1),
            mpmath.matrix(y.tolist()),
        )
        solved = mpmath.lu_solve(K, one)
        S = (one.T * solved)[0]
        quadratic = (exact_y.T * mpmath.lu_solve(K, exact_y))[0] - (solved.T * exact_y)[0] ** 2 / S
        exact = float((quadratic + mpmath.log(mpmath.det(K)) + mpmath.log(S)) / 2)
    assert_allclose(target(np.array([log_amplitude]))[0], exact - 0.5 * log_amplitude, rtol=1e-4)


def test_the_maximum_is_as_good_as_that_of_a_general_optimiser():
    theta, y, v = example(T=25)
    (best,) = fit_priors([[(ThetaCoordinates.standard(theta, np.zeros(2, dtype=bool)), RBF())]], theta, y, v)
    z = best.coordinates(theta)
    kernel, free = RBF().to_fit(z, ard=True)
    target = Likelihood(kernel, free, z, polynomial_basis(z, 0), (y - y.mean()) / y.std(), v / y.var(), None)
    starts = np.random.default_rng(0).normal(size=(10, 4)) + np.array([0.0, -6.0, *kernel.log_lengthscales])
    found = [
        minimize(
            lambda x: target(x)[:2], s, jac=True, method="L-BFGS-B", bounds=[(-12, 12), (-30, 3), (-5, 7), (-5, 7)]
        ).fun
        for s in starts
    ]
    assert -best.evidence <= min(found) + 1e-4


def test_scoring_finds_the_minimum_of_a_quadratic_within_bounds():
    centre, matrix = np.array([1.0, -2.0, 5.0]), np.diag([1.0, 10.0, 100.0])

    def objective(x):
        return 0.5 * (x - centre) @ matrix @ (x - centre), lambda: (matrix @ (x - centre), matrix)

    low, high = np.full(3, -3.0), np.array([3.0, 3.0, 2.0])
    x, value = newton(objective, np.zeros(3), list(zip(low, high, strict=True)), 1e-12)
    assert_allclose(x, [1.0, -2.0, 2.0], atol=1e-5)
    assert_allclose(value, 450.0, rtol=1e-9)


def test_lambda_is_fitted_down_to_zero_and_up_to_what_is_there():
    rng = np.random.default_rng(2)
    theta = np.linspace(1, 3, 40)[:, None]
    smooth = np.sin(2 * theta[:, 0])
    tiny = np.full(40, 1e-12)
    exact = fit_stage_two(theta, smooth, tiny, 1.0, StageTwoOptions())[0]
    assert exact.noise < 1e-9
    noisy = fit_stage_two(theta, smooth + 0.1 * rng.normal(size=40), tiny, 1.0, StageTwoOptions())[0]
    assert 0.005 < noisy.noise < 0.02
    assert fit_stage_two(theta, smooth, tiny, 1.0, StageTwoOptions(noise=0.5))[0].noise == pytest.approx(0.5)
    assert fit_stage_two(theta, smooth, tiny, 1.0, StageTwoOptions(noise=[0.01, 0.1]))[0].noise == pytest.approx(0.01)


def test_positive_thetas_are_tried_in_logs_and_the_likelihood_chooses():
    theta = np.geomspace(0.01, 100.0, 30)[:, None]
    v = np.full(30, 1e-8)
    assert fit_stage_two(theta, np.sin(np.log(theta[:, 0])), v, 1.0, StageTwoOptions())[0].coordinates.logs[0]
    linear = np.linspace(0.1, 10.0, 30)[:, None]
    assert not fit_stage_two(linear, np.sin(linear[:, 0]), v, 1.0, StageTwoOptions())[0].coordinates.logs[0]
    assert len(fit_stage_two(linear - 5.0, np.sin(linear[:, 0]), v, 1.0, StageTwoOptions())) <= 3  # no logs to try
    assert len(fit_stage_two(linear, np.sin(linear[:, 0]), v, 1.0, StageTwoOptions(log_theta=False))) <= 3
    assert (
        fit_stage_two(linear, np.sin(linear[:, 0]), v, 1.0, StageTwoOptions(Warped(RBF(), "log")))[0].kernel.warp.name
        == "log"
    )


def test_a_smooth_function_gets_a_smooth_kernel_and_a_rough_one_a_rough_kernel():
    theta, v = np.linspace(-1.0, 1.0, 30)[:, None], np.full(30, 1e-10)
    assert isinstance(fit_stage_two(theta, np.exp(theta[:, 0]), v, 1.0, StageTwoOptions())[0].kernel, RBF)
    assert isinstance(fit_stage_two(theta, np.abs(theta[:, 0]), v, 1.0, StageTwoOptions())[0].kernel, Matern)


def test_a_trend_is_of_the_degree_that_the_thetas_can_tell_apart():
    z = np.linspace(-1, 1, 4)[:, None]
    assert largest_degree(z, 2) == 2
    assert largest_degree(z, 7) == 2  # fewer terms than thetas
    assert largest_degree(np.repeat(z[:2], 2, axis=0), 3) == 1
    assert largest_degree(np.zeros((5, 1)), 1) == 0
    assert largest_degree(z, None) is None
    assert polynomial_basis(np.ones((3, 2)), 2).shape == (3, 6)


def test_coordinates_have_unit_spread_and_refuse_logs_of_what_is_not_positive():
    theta = np.column_stack([np.geomspace(1, 1e6, 9), np.linspace(-1e9, 1e9, 9), np.full(9, 3.0)])
    z = ThetaCoordinates.standard(theta, np.array([True, False, False]))
    assert_allclose(np.std(z(theta), axis=0), [1.0, 1.0, 0.0], atol=1e-12)
    with pytest.raises(ValueError, match=r"theta\[:, 0\] must not be negative.*log_theta=False"):
        z(-theta)


def test_nearest_nodes():
    z = np.array([0.0, 1.0, 2.0, 10.0, 11.0])[:, None]
    assert {tuple(sorted(row)) for row in nearest_nodes(z)} == {(0, 1, 2), (2, 3, 4)}


def mixture(joint=False):
    rng = np.random.default_rng(4)
    locations = rng.normal(size=(2, 3))
    roots = rng.normal(size=(2, 3, 3))
    scales2 = roots @ roots.swapaxes(1, 2)
    return PredictiveDistribution(locations, scales2 if joint else np.diagonal(scales2, axis1=1, axis2=2), 9.0)


def test_quantiles_invert_the_distribution_of_the_mixture():
    measure = mixture()
    for q in (0.01, 0.3, 0.5, 0.975):
        x = measure.quantile(q)
        parts = [
            stats.t(9.0, loc, np.sqrt(s2)).cdf(x) for loc, s2 in zip(measure.locations, measure.scales2, strict=True)
        ]
        assert_allclose(np.mean(parts, axis=0), q, atol=1e-12)
        assert_allclose(measure.cdf(x), q, atol=1e-12)


def test_mean_variance_and_covariance_are_those_of_the_draws():
    measure = mixture(joint=True)
    draws = predictive.sample_jointly([measure], np.eye(1), 400_000, np.random.default_rng(0))[..., 0]
    assert_allclose(draws.mean(axis=0), measure.mean, atol=0.02)
    assert_allclose(np.cov(draws.T), measure.cov, atol=0.1)
    assert_allclose(np.diag(measure.cov), mixture().variance, rtol=1e-12)
    inside = np.mean((draws >= measure.quantile(0.25)) & (draws <= measure.quantile(0.75)), axis=0)
    assert_allclose(inside, 0.5, atol=0.005)


def test_a_measure_without_spread_is_a_point():
    measure = PredictiveDistribution(np.array([[1.0, 2.0]]), np.zeros((1, 2)), np.inf)
    assert_allclose(measure.quantile(0.975), [1.0, 2.0])
    assert_allclose(measure.variance, 0.0)


def calibrated(bias, *, iid, T=40):
    """The calibrated and the plain posterior of nodes whose errors have a common part of `bias` standard deviations."""
    rng = np.random.default_rng(7)
    theta = np.linspace(0, 1, T)[:, None]
    size = 0.1
    y = np.sin(3 * theta[:, 0]) + size * bias + 0.3 * size * rng.normal(size=T)
    nodes = NodeEstimates(
        theta, y, np.full(T, size**2), np.full(T, bias * size) + 0.2 * size * rng.normal(size=T), np.full(T, size**2)
    )
    priors = fit_stage_two(theta, y, nodes.variance, 1.0, StageTwoOptions())
    return [ThetaPosterior(priors, nodes, iid=iid, calibration=c) for c in (Calibration(), None)]


def test_a_common_bias_is_found_by_the_second_curve_for_iid_points_alone():
    new = np.linspace(0.1, 0.9, 20)[:, None]
    truth = np.sin(3 * new[:, 0])
    repaired, plain = (posterior.predictive(new) for posterior in calibrated(2.0, iid=True))
    assert np.sqrt(np.mean((plain.mean - truth) ** 2)) > 0.15
    assert np.sqrt(np.mean((repaired.mean - truth) ** 2)) < 0.05
    same, plain = (posterior.predictive(new) for posterior in calibrated(2.0, iid=False))
    assert_allclose(same.mean, plain.mean, rtol=1e-12)


def test_no_bias_means_no_shift():
    new = np.linspace(0.1, 0.9, 20)[:, None]
    for iid in (True, False):
        measure, plain = (posterior.predictive(new) for posterior in calibrated(0.0, iid=iid))
        assert_allclose(measure.mean, plain.mean, atol=0.01)


@pytest.mark.parametrize("T", [3, 25])
def test_scales_are_those_of_refits_without_each_theta(T):
    theta, y, v = example(T, p=1)
    given = GPPrior(ThetaCoordinates.standard(theta, np.zeros(1, dtype=bool)), Matern(2.5, 0.8), 2.0, 1e-4, 0)
    rng, new = np.random.default_rng(2), np.array([[1.3], [2.2], [3.1]])
    nodes = NodeEstimates(theta, y, v, np.zeros(T), v * rng.uniform(0.1, 2.0, T))
    got = ThetaPosterior([given], nodes, iid=False, calibration=Calibration(factor=1.0, common=0.0)).predictive(new)
    noise = smoothed_noise(nodes, nearest_nodes(given.coordinates(theta)))
    own = HeteroscedasticGP(given, theta, y, v).predict(new)
    residual2, variance = np.empty(T), np.empty(T)
    for t in range(T):  # each theta by a process that has not seen it
        keep = np.arange(T) != t
        other = HeteroscedasticGP(given, theta[keep], y[keep], noise[keep]).predict(theta[t : t + 1])
        residual2[t] = (y[t] - other.mean[0]) ** 2
        weights2 = other.weights[0] ** 2
        variance[t] = other.variance[0] + weights2 @ (noise[keep] + given.noise) + noise[t] + given.noise
    squares = own.weights**2
    amplitude = (squares @ residual2) / (squares @ variance)
    assert_allclose(got.mean, own.mean, rtol=1e-12)
    assert_allclose(got.scales2[1], amplitude * (squares @ (noise + given.noise) + own.variance), rtol=1e-4)


def test_the_joint_measure_agrees_with_the_marginal_one_and_is_a_measure():
    posterior, _ = calibrated(1.0, iid=True)
    new = np.linspace(-0.2, 1.2, 15)[:, None]
    joint, single = posterior.predictive(new, joint=True), posterior.predictive(new)
    assert_allclose(np.diag(joint.cov), single.variance, rtol=1e-6)
    assert_allclose(joint.mean, single.mean, rtol=1e-12)
    assert np.linalg.eigvalsh(joint.cov).min() > -1e-9 * np.trace(joint.cov)
