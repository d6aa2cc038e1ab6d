"""Nested expectations, decisions and risk against closed forms, and the coverage of intervals."""

import json
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import entr

import cbq
from cbq.fit import predictive
from cbq.fit.base import Fit
from cbq.fit.predictive import PredictiveDistribution
from cbq.measures import Empirical, Gaussian, Uniform, Unnormalised
from cbq.measures.points import sobol
from cbq.nested import Answer, Evppi, TailRisk
from cbq.nested.risk import _Loss, quantile, step_quantile, tail_mean
from refusals import refusals

STANDARD = Gaussian(0.0, 1.0)
PLANE = Gaussian([0.0, 0.0], np.eye(2))
PHI0 = 1 / np.sqrt(2 * np.pi)  # E max(Z, 0) of a standard normal Z


class Known(Fit):
    """A fit in which I is a known function of theta plus a Gaussian error, correlated over theta and outputs."""

    def __init__(self, curves, std=0.0, lengthscale=1.0, together=None, C=None, p=1):
        self.curves, self.std, self.lengthscale, self.C = curves, std, lengthscale, C
        self.together = np.eye(C or 1) if together is None else np.asarray(together)
        self.theta = np.stack([np.full(p, -1e3), np.full(p, 1e3)])  # no theta of a prior is beyond them

    @property
    def correlation(self):
        return self.together

    def _predictives(self, theta, *, joint):
        apart2 = np.sum((theta[:, None] - theta[None]) ** 2, axis=-1) if joint else np.zeros(len(theta))
        scales2 = self.std**2 * np.exp(-0.5 * apart2 / self.lengthscale**2)
        return [PredictiveDistribution(np.asarray(curve(theta))[None], scales2[None], np.inf) for curve in self.curves]

    def _description(self):
        return [""]


def line(theta):
    return theta[:, 0]


LINE = Known([line])
UNSURE = Known([line], std=0.7, lengthscale=0.5)


# closed forms


@pytest.mark.parametrize("method", ["mc", "bq"])
@pytest.mark.parametrize(("phi", "truth"), [(np.square, 1.0), (np.cos, np.exp(-0.5))], ids=["square", "cos"])
def test_expectation_of_a_smooth_phi(method, phi, truth):
    answer = cbq.nested_expectation(LINE, phi, STANDARD, method=method)
    assert abs(answer.estimate - truth) < 4 * answer.std + 1e-9
    assert abs(answer.estimate - truth) < 1e-3
    low, high = answer.interval()
    assert low <= answer.estimate <= high


def test_expectation_of_a_phi_with_a_kink():
    answer = cbq.nested_expectation(LINE, lambda I: np.maximum(I, 0), STANDARD)
    assert abs(answer.estimate - PHI0) < 4 * answer.std
    assert answer.std < 1e-4
    assert answer.posterior_std < 1e-15
    assert_allclose(answer.estimate, cbq.expected_loss(LINE, STANDARD).estimate)
    shifted = cbq.expected_loss(LINE, STANDARD, threshold=1.0)
    assert abs(shifted.estimate - (stats.norm.pdf(1) - stats.norm.sf(1))) < 4 * shifted.std
    quadrature = cbq.expected_loss(LINE, STANDARD, method="bq", n=200)
    assert abs(quadrature.estimate - PHI0) < min(4 * quadrature.std, 1e-3)


def test_uncertainty_of_I_enters_the_expectation_of_a_nonlinear_phi():
    # I(theta) is theta plus an error of variance s^2, so it is N(0, 1 + s^2); its posterior mean is N(0, 1)
    size = np.sqrt(1 + UNSURE.std**2)
    square = cbq.nested_expectation(UNSURE, np.square, STANDARD)
    assert_allclose(square.estimate, size**2, atol=0.05)
    assert_allclose(square.plug_in, 1.0, atol=1e-3)
    loss = cbq.expected_loss(UNSURE, STANDARD)
    assert_allclose(loss.estimate, size * PHI0, rtol=0.02)
    assert_allclose(loss.plug_in, PHI0, rtol=1e-3)
    assert loss.posterior_std > 10 * loss.outer_std


@pytest.mark.parametrize("method", ["mc", "bq"])
def test_intervals_cover_posterior_draws(method):
    answer = cbq.nested_expectation(UNSURE, np.abs, STANDARD, method=method)
    grid = STANDARD.transport((np.arange(400) + 0.5)[:, None] / 400)
    numbers = np.mean(np.abs(UNSURE.sample(grid, 4000, 5)), axis=1)
    for level in (0.5, 0.95):
        low, high = answer.interval(level)
        assert_allclose(np.mean((numbers > low) & (numbers < high)), level, atol=0.04)


@pytest.mark.parametrize("design", ["iid", "sobol"])
def test_intervals_cover_under_outer_error(design):
    def phi(I):
        return np.maximum(I, 0.3)

    truth = 0.3 * stats.norm.cdf(0.3) + stats.norm.pdf(0.3)
    answers = [cbq.nested_expectation(LINE, phi, STANDARD, n=256, design=design, rng=seed) for seed in range(100)]
    covered = [low < truth < high for low, high in (answer.interval(0.9) for answer in answers)]
    assert 0.81 < np.mean(covered) < 0.98
    errors = np.array([answer.estimate for answer in answers]) - truth
    assert_allclose(np.sqrt(np.mean([answer.std**2 for answer in answers])), np.std(errors), rtol=0.25)


FUNCTIONS = {
    "cosine": (np.cos, np.exp(-0.5), 32),
    "exponential": (lambda I: np.exp(0.5 * I), np.exp(0.125), 8),
    "kink": (lambda I: np.maximum(I, 0.3), 0.3 * stats.norm.cdf(0.3) + stats.norm.pdf(0.3), 8),
    "waves": (lambda I: np.sin(3 * I) + np.cos(3 * I), np.exp(-4.5), 8),
    "cosine, 8 nodes": (np.cos, np.exp(-0.5), 8),
    "cosine, 16 nodes": (np.cos, np.exp(-0.5), 16),
}


@pytest.mark.parametrize(("phi", "truth", "n"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_intervals_of_quadrature_cover_under_outer_error(phi, truth, n):
    answers = [cbq.nested_expectation(LINE, phi, STANDARD, method="bq", n=n, rng=seed) for seed in range(40)]
    covered = [low < truth < high for low, high in (answer.interval(0.9) for answer in answers)]
    assert np.mean(covered) > 0.75


def test_quadrature_over_theta_converges_faster_than_averages():
    curve = Known([lambda theta: np.exp(-0.5 * theta[:, 0]) + theta[:, 1]], p=2)

    def error(method, n):
        answers = [cbq.nested_expectation(curve, np.square, PLANE, method=method, n=n, rng=seed) for seed in range(5)]
        return np.median([abs(answer.estimate - (np.exp(0.5) + 1.0)) for answer in answers])

    assert error("bq", 256) < 0.01 * error("mc", 256)
    assert error("bq", 256) < error("bq", 32) / 16  # averages gain a factor of 3 to 8 from eight times as many thetas


def test_outputs_are_the_last_axis_of_the_argument_of_phi():
    two = Known([line, lambda theta: 1.0 + 0 * theta[:, 0]], C=2)
    largest = cbq.nested_expectation(two, lambda I: I.max(axis=-1), STANDARD)
    assert abs(largest.estimate - (stats.norm.pdf(1) + stats.norm.cdf(1))) < 4 * largest.std
    assert_allclose(cbq.expected_loss(two, STANDARD, output=1).estimate, 1.0)
    assert cbq.expected_loss(two, STANDARD, output=0).estimate == cbq.expected_loss(LINE, STANDARD).estimate


# the prior of theta


def test_all_types_of_priors():
    frozen = cbq.nested_expectation(LINE, np.square, stats.norm(0, 1))
    assert frozen.estimate == cbq.nested_expectation(LINE, np.square, STANDARD).estimate
    atoms = cbq.nested_expectation(LINE, np.square, Empirical([1.0, 2.0, 4.0], [0.5, 0.25, 0.25]))
    assert_allclose((atoms.estimate, atoms.std, atoms.n), (0.5 + 1.0 + 4.0, 0.0, 3))
    draws = np.random.default_rng(0).normal(size=5000)
    table = cbq.nested_expectation(LINE, np.square, draws)
    assert_allclose(table.estimate, np.mean(draws**2))
    assert_allclose(table.std, np.std(draws**2) / np.sqrt(5000), rtol=0.4)  # 13% standard error, from 32 parts


def test_all_atoms_of_an_empirical_prior_enter_the_estimate():
    points, weights = np.linspace(-3, 3, 2000), np.linspace(1, 5, 2000)
    weights /= np.sum(weights)
    unsure = cbq.nested_expectation(UNSURE, np.square, Empirical(points, weights))
    assert_allclose(unsure.plug_in, weights @ points**2)
    assert_allclose(unsure.estimate, weights @ points**2 + UNSURE.std**2, rtol=0.02)


def test_answers_are_determined_by_the_seed():
    first, again, other = (cbq.expected_loss(UNSURE, STANDARD, n=64, rng=seed) for seed in (1, 1, 2))
    assert_array_equal(first.draws, again.draws)
    assert first.estimate == again.estimate != other.estimate
    rng = np.random.default_rng(1)
    assert cbq.expected_loss(UNSURE, STANDARD, n=64, rng=rng).estimate == first.estimate


def test_the_repr_of_an_answer():
    text = repr(cbq.expected_loss(LINE, STANDARD))
    assert text.startswith("Answer: 0.399")
    assert "95% interval" in text
    assert "16384 thetas" in text


# decisions


def test_evppi_of_two_gaussian_net_benefits():
    two = Known([lambda theta: 0 * theta[:, 0], line], C=2)
    found = cbq.evppi(two, STANDARD)
    assert isinstance(found, Evppi)
    assert abs(found.estimate - PHI0) < 4 * found.std
    assert found.std < 1e-4
    assert_array_equal(found.best([-1.0, 2.0, 0.1]), [0, 1, 1])
    assert_allclose(found.net_benefits([-1.0, 2.0]), [[0, -1], [0, 2]])


def test_evppi_from_samples_of_two_gaussian_net_benefits():
    problem = cbq.Problem(
        lambda x, theta: np.stack([0 * x[:, 0], x[:, 0] + 0 * theta[0]], axis=-1), lambda t: Gaussian(t, 1.0), STANDARD
    )
    samples = problem.collect(20, 20, rng=0, design="sobol")
    for method in (cbq.CBQ(), cbq.MOBQ()):
        found = cbq.evppi(method.fit(samples), problem.prior, n=2**12)
        assert abs(found.estimate - PHI0) < min(4 * found.std, 2e-3)


def clark(m1, m2, s1, s2, r):
    """E max of two Gaussians (Clark 1961)."""
    a = np.sqrt(s1**2 + s2**2 - 2 * r * s1 * s2)
    q = (m1 - m2) / a
    return m2 + a * stats.norm.pdf(q) + (m1 - m2) * stats.norm.cdf(q)


@pytest.mark.parametrize("r", [-0.8, 0.0, 0.9])
def test_evppi_is_the_expectation_over_the_joint_posterior(r):
    s, theta = 0.5, STANDARD.transport((np.arange(2000) + 0.5)[:, None] / 2000)
    two = Known([lambda t: 0.2 + 0 * t[:, 0], line], std=s, lengthscale=1e-3, together=[[1, r], [r, 1]], C=2)
    found = cbq.evppi(two, STANDARD)
    truth = (
        np.mean(clark(0.2, theta[:, 0], s, s, r)) - 0.2
    )  # errors at different thetas are independent and average out
    assert_allclose(found.estimate, truth, atol=0.004)
    assert_allclose(found.plug_in, stats.norm.pdf(0.2) - 0.2 * stats.norm.sf(0.2), atol=1e-4)


def test_effects_costs_and_willingness_to_pay():
    # effects 0 and theta, costs 0 and 1: the net benefit of the second is w theta - 1
    curves = [lambda t: 0 * t[:, 0], line, lambda t: 0 * t[:, 0], lambda t: 1 + 0 * t[:, 0]]
    fit = Known(curves, C=4)
    thresholds = np.array([0.5, 1.0, 3.0])
    found = cbq.evppi(fit, STANDARD, effects=[0, 1], costs=[2, 3], willingness_to_pay=thresholds)
    z = 1 / thresholds
    truth = thresholds * (stats.norm.pdf(z) - z * stats.norm.sf(z))
    low, high = found.interval()
    assert found.estimate.shape == low.shape == high.shape == found.std.shape == (3,)
    assert np.all(np.abs(found.estimate - truth) < 4 * found.std)
    assert_array_equal(found.best([0.5, 1.5]), [[0, 0, 1], [0, 1, 1]])
    one = cbq.evppi(fit, STANDARD, effects=[0, 1], costs=[2, 3], willingness_to_pay=3.0)
    assert_allclose(one.estimate, found.estimate[2], rtol=1e-12)
    assert isinstance(one.estimate, float)


def test_a_dominant_decision_leaves_nothing_to_learn():
    two = Known([line, lambda theta: theta[:, 0] - 5.0], std=0.1, C=2)
    found = cbq.evppi(two, STANDARD)
    assert (found.estimate, found.interval()) == (0.0, (0.0, 0.0))


def test_evppi_does_not_depend_on_units_or_on_the_order_of_decisions():
    curves = [lambda t: 0.3 * t[:, 0] ** 2, line, lambda t: 0.5 - t[:, 0]]
    plain = cbq.evppi(Known(curves, std=0.2, C=3), STANDARD)
    scaled = cbq.evppi(Known([lambda t, c=c: 1e9 * c(t) + 1e9 for c in curves], std=2e8, C=3), STANDARD)
    assert_allclose(scaled.estimate, 1e9 * plain.estimate, rtol=1e-6)
    turned = cbq.evppi(Known(curves[::-1], std=0.2, C=3), STANDARD)
    assert abs(turned.estimate - plain.estimate) < 0.2 * plain.std


# risk


def test_risk_measures_of_a_gaussian():
    fit = Known([lambda theta: 1.0 + 2.0 * theta[:, 0]])
    z = stats.norm.ppf(0.95)
    value = cbq.value_at_risk(fit, STANDARD)
    tail = cbq.conditional_value_at_risk(fit, STANDARD)
    assert abs(value.estimate - (1 + 2 * z)) < min(4 * value.std, 0.01)
    assert abs(tail.estimate - (1 + 2 * stats.norm.pdf(z) / 0.05)) < min(4 * tail.std, 0.01)
    lower = cbq.value_at_risk(fit, STANDARD, 0.9, tail="lower")
    assert abs(lower.estimate - (1 - 2 * stats.norm.ppf(0.9))) < 0.01
    below = cbq.conditional_value_at_risk(fit, STANDARD, 0.9, tail="lower")
    assert abs(below.estimate - (1 - 2 * stats.norm.pdf(stats.norm.ppf(0.9)) / 0.1)) < 0.01


@pytest.mark.parametrize("risk", [cbq.value_at_risk, cbq.conditional_value_at_risk])
def test_intervals_of_risk_measures_cover_posterior_draws(risk):
    answer = risk(UNSURE, STANDARD, 0.9)
    grid = STANDARD.transport((np.arange(500) + 0.5)[:, None] / 500)
    draws = UNSURE.sample(grid, 2000, 5)
    largest = np.sort(draws, axis=1)[:, 450:]
    numbers = largest[:, 0] if risk is cbq.value_at_risk else np.mean(largest, axis=1)
    low, high = answer.interval(0.9)
    assert_allclose(np.mean((numbers > low) & (numbers < high)), 0.9, atol=0.05)


def integrated_quantiles(values, weights, alpha):
    """The mean of the quantiles above alpha, summed over the steps of the distribution."""
    order = np.argsort(values)
    ends = np.concatenate([[0.0], np.cumsum(weights[order])])
    lengths = np.clip(ends[1:] - np.maximum(ends[:-1], alpha), 0.0, None)
    return lengths @ values[order] / (1.0 - alpha)


def test_quantiles_and_tail_means_of_weighted_values():
    values = np.array([[3.0, 1.0, 2.0, 4.0], [1.0, 1.0, 1.0, 1.0]])
    equal = np.full(4, 0.25)
    for alpha in (0.05, 0.3, 0.5, 0.77, 0.99):
        assert_allclose(quantile(values, equal, alpha), np.quantile(values, alpha, axis=-1, method="hazen"))
        assert_allclose(step_quantile(values, equal, alpha), np.quantile(values, alpha, axis=-1, method="inverted_cdf"))
        assert_allclose(tail_mean(values, equal, alpha), [integrated_quantiles(row, equal, alpha) for row in values])
    uneven = np.array([0.1, 0.6, 0.0, 0.3])
    for alpha in (0.1, 0.4, 0.65, 0.7, 0.95):
        assert_allclose(tail_mean(values[0], uneven, alpha), integrated_quantiles(values[0], uneven, alpha))


def test_risk_measures_under_an_empirical_prior_are_exact():
    measure = Empirical([0.0, 100.0], [0.96, 0.04])
    assert_allclose(cbq.value_at_risk(LINE, measure, 0.95).estimate, 0.0)
    assert_allclose(cbq.value_at_risk(LINE, measure, 0.97).estimate, 100.0)
    assert_allclose(cbq.conditional_value_at_risk(LINE, measure, 0.95).estimate, 80.0)
    assert_allclose(cbq.conditional_value_at_risk(LINE, measure, 0.95).std, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("design", ["iid", "sobol"])
@pytest.mark.parametrize("risk", [cbq.value_at_risk, cbq.conditional_value_at_risk], ids=["value", "conditional"])
def test_intervals_of_risk_measures_cover_under_outer_error(risk, design):
    z = stats.norm.ppf(0.9)
    truth = z if risk is cbq.value_at_risk else stats.norm.pdf(z) / 0.1
    answers = [risk(LINE, STANDARD, 0.9, n=1024, design=design, rng=seed) for seed in range(40)]
    covered = [low < truth < high for low, high in (answer.interval(0.9) for answer in answers)]
    assert np.mean(covered) > 0.75


def test_a_table_of_draws_must_reach_into_the_tail():
    draws = np.random.default_rng(0).normal(size=400)
    answer = cbq.value_at_risk(LINE, draws, 0.95)
    assert abs(answer.estimate - stats.norm.ppf(0.95)) < 4 * answer.std
    with pytest.raises(ValueError, match="320 or more"):
        cbq.value_at_risk(LINE, draws[:300], 0.95)


# fits of real estimators, and edge cases


def test_the_expected_loss_of_the_butterfly():
    problem = cbq.problems.get("butterfly")
    samples = problem.collect(20, 50, rng=7, design="sobol")
    truth = cbq.problems.butterfly.EXPECTED_LOSS
    for method, close in ((cbq.CBQ(), 0.06), (cbq.MOBQ(), 0.005)):
        answer = cbq.expected_loss(method.fit(samples), problem.prior, n=2**12)
        low, high = answer.interval()
        assert low < truth < high
        assert abs(answer.estimate - truth) < close


def test_monte_carlo_fits_serve_at_thetas_drawn_from_the_prior():
    theta = np.random.default_rng(0).normal(size=400)
    x = theta[:, None] + np.random.default_rng(1).normal(size=(400, 50))
    fit = cbq.MonteCarlo().fit(cbq.Samples(theta, x, x, lambda t: Gaussian(t, 1.0)))
    answer = cbq.nested_expectation(fit, np.square, fit.theta)
    assert isinstance(answer, Answer)
    # averages have variance 1/50 around theta, and the posterior adds the same again
    assert abs(answer.plug_in - np.mean(theta**2) - 1 / 50) < 0.05
    assert_allclose(answer.estimate - answer.plug_in, 49 / 47 / 50, rtol=0.3)
    answers = cbq.expected_loss(fit, Empirical(fit.theta))
    assert abs(answers.estimate - PHI0) < 0.1


def test_huge_and_tiny_values():
    for size in (1e-100, 1e100):
        fit = Known([lambda theta, s=size: s * theta[:, 0]], std=0.1 * size)
        assert_allclose(cbq.expected_loss(fit, STANDARD).estimate / size, np.sqrt(1.01) * PHI0, rtol=0.01)
        assert_allclose(cbq.value_at_risk(fit, STANDARD, 0.9).estimate / size, 1.0050 * stats.norm.ppf(0.9), rtol=0.02)


test_bad_values = refusals(
    {
        "scalar phi": (lambda: cbq.nested_expectation(LINE, lambda I: max(I, 0), STANDARD), "numpy.maximum"),
        "phi sums": (lambda: cbq.nested_expectation(LINE, np.sum, STANDARD), r"returned one of shape \(\)"),
        "phi is NaN": (lambda: cbq.nested_expectation(LINE, lambda I: I * np.nan, STANDARD), "NaN or inf for 16384"),
        "method": (lambda: cbq.nested_expectation(LINE, np.square, STANDARD, method="is"), "must be 'mc' or 'bq'"),
        "design": (
            lambda: cbq.nested_expectation(LINE, np.square, STANDARD, design="grid"),
            "must be 'sobol' or 'iid'",
        ),
        "bq design": (
            lambda: cbq.nested_expectation(LINE, np.square, STANDARD, method="bq", design="grid"),
            "must be 'sobol' or 'iid'",
        ),
        "few thetas": (lambda: cbq.nested_expectation(LINE, np.square, STANDARD, n=4), "16 or more"),
        "in place": (lambda: cbq.nested_expectation(LINE, lambda I: np.multiply(I, 2, out=I), STANDARD), "read-only"),
        "bad JSON": (lambda: cbq.nested_expectation(LINE, lambda I: json.loads("x"), STANDARD), "Expecting value"),
        "no density": (lambda: cbq.expected_loss(LINE, Unnormalised(score=np.negative, dim=1)), "pass draws of theta"),
        "half a theta": (lambda: cbq.nested_expectation(LINE, np.square, STANDARD, n=100.5), "100.5"),
        "many for bq": (lambda: cbq.nested_expectation(LINE, np.square, STANDARD, method="bq", n=9999), "from 4 to"),
        "table for bq": (lambda: cbq.nested_expectation(LINE, np.square, [1.0, 2.0], method="bq"), "method='mc'"),
        "atoms for bq": (
            lambda: cbq.nested_expectation(LINE, np.square, Empirical([1.0, 2.0]), method="bq"),
            "method='mc'",
        ),
        "other prior": (lambda: cbq.nested_expectation(LINE, np.square, PLANE), "2 coordinates"),
        "other table": (lambda: cbq.nested_expectation(LINE, np.square, np.ones((9, 2))), r"p = 1"),
        "NaN in a table": (lambda: cbq.nested_expectation(LINE, np.square, [1.0, np.nan]), "finite"),
        "one draw": (lambda: cbq.nested_expectation(LINE, np.square, [1.0]), "1 draw of theta"),
        "batch of priors": (lambda: cbq.nested_expectation(LINE, np.square, Gaussian([[0.0], [1.0]], 1.0)), "batch"),
        "a level": (lambda: cbq.expected_loss(LINE, STANDARD).interval(95), "between 0 and 1"),
        "threshold": (lambda: cbq.expected_loss(LINE, STANDARD, threshold=np.nan), "threshold"),
        "which output": (lambda: cbq.expected_loss(Known([line, line], C=2), STANDARD), "output=0 to 1"),
        "no output": (lambda: cbq.expected_loss(LINE, STANDARD, output=0), "no axis of outputs"),
        "output": (lambda: cbq.value_at_risk(Known([line, line], C=2), STANDARD, output=2), "output=0 to 1"),
        "alpha": (lambda: cbq.value_at_risk(LINE, STANDARD, 95), "alpha must lie between"),
        "tail": (lambda: cbq.value_at_risk(LINE, STANDARD, tail="left"), "must be 'upper' or 'lower'"),
        "thin tail": (lambda: cbq.value_at_risk(LINE, STANDARD, 0.9999), "32000[08] or more"),
        "one decision": (lambda: cbq.evppi(LINE, STANDARD), "at least 2 net benefits"),
        "costs alone": (lambda: cbq.evppi(Known([line] * 4, C=4), STANDARD, costs=[0, 1]), "came without"),
    },
    ValueError,
)

test_bad_types = refusals(
    {
        "no fit": (lambda: cbq.nested_expectation(cbq.CBQ(), np.square, STANDARD), "it is a CBQ"),
        "no function": (lambda: cbq.nested_expectation(LINE, 2.0, STANDARD), "phi must be a function"),
        "no fit to decide by": (lambda: cbq.evppi(None, STANDARD), "outputs must be a table .* NoneType"),
        "complex": (lambda: cbq.nested_expectation(LINE, lambda I: I + 1j, STANDARD), "real numbers"),
        "no measure": (lambda: cbq.expected_loss(LINE, "normal"), "str"),
    },
    TypeError,
)


def test_a_fit_without_standard_errors_raises():
    x = np.arange(4.0)[:, None]
    with pytest.warns(cbq.FitWarning, match="^few points: 4 of 4 thetas have one point"):
        fit = cbq.MonteCarlo().fit(cbq.Samples(np.arange(4.0), x, x, STANDARD))
    with pytest.raises(ValueError, match="no standard error"):
        cbq.expected_loss(fit, fit.theta)


def test_a_fit_without_finite_variance_raises():
    x = np.random.default_rng(0).normal(size=(40, 3))
    fit = cbq.MonteCarlo().fit(cbq.Samples(np.arange(40.0), x, x, STANDARD))
    with pytest.raises(ValueError, match="two degrees of freedom"):
        cbq.nested_expectation(fit, np.square, fit.theta)


def test_each_of_few_iid_thetas_is_a_part():
    five = Known([lambda theta: 5.0 + 0 * theta[:, 0]])
    answer = cbq.nested_expectation(five, lambda I: I, STANDARD, n=16, design="iid")
    assert (answer.estimate, answer.std) == (5.0, 0.0)


def test_quadrature_under_a_prior_without_an_embedding():
    measure = stats.weibull_min(2.0)
    for n, close in ((16, 1e-2), (64, 1e-4)):
        answer = cbq.nested_expectation(LINE, np.square, measure, method="bq", n=n)
        assert abs(answer.estimate - measure.moment(2)) < close
    both = cbq.measures.Product([cbq.measures.from_scipy(measure), STANDARD])
    sums = Known([lambda theta: theta[:, 0] + theta[:, 1]], p=2)
    assert (
        abs(cbq.nested_expectation(sums, np.square, both, method="bq", n=128).estimate - measure.moment(2) - 1) < 1e-2
    )


def test_answers_are_read_only():
    answer = cbq.evppi(Known([line] * 4, C=4), STANDARD, effects=[0, 1], costs=[2, 3], willingness_to_pay=[1, 2], n=64)
    for array in (answer.draws, answer.estimate, answer.outer_std):
        assert not array.flags.writeable


def test_a_loss_is_never_negative():
    theta, x = np.arange(2.0), np.random.default_rng(0).normal(size=(2, 4))
    fit = cbq.MonteCarlo().fit(cbq.Samples(theta, x, x, STANDARD))
    assert cbq.expected_loss(fit, Empirical(theta)).interval()[0] >= 0


def test_antithetic_draws_are_those_of_the_joint_predictive_distribution():
    draws = UNSURE.sample([0.0, 1.0], 10, 0, antithetic=True)
    assert_allclose(np.mean(draws, axis=0), [0.0, 1.0], atol=1e-12)
    assert_array_equal(draws[:5, 0] - 0.0, -(draws[5:, 0] - 0.0))
    predictives = UNSURE._predictives(np.array([[0.0], [1.0]]), joint=True)
    again = predictive.sample_jointly(predictives, np.eye(1), 10, np.random.default_rng(0), antithetic=True)
    assert_array_equal(draws, again[..., 0])


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value):RuntimeWarning")
@pytest.mark.filterwarnings("ignore:tails:cbq.FitWarning")  # of the prior, where the likelihood of far y is
def test_the_entropy_of_a_density_is_an_integral_that_is_finite_at_zero():
    box = Uniform(-6.0, 6.0)

    def likelihood(x, y):
        return stats.norm.pdf(y[0], x[:, 0], np.sqrt(0.5))

    model = cbq.Problem(likelihood, lambda y: Gaussian(0.0, 1.0), box, bounds=(0, np.inf))
    fit = cbq.CBQ().fit(model.collect(24, 24, rng=0, design="sobol"))
    with pytest.raises(ValueError, match="If phi is a logarithm, draws of I must stay away from 0"):
        cbq.nested_expectation(fit, np.log, Gaussian(0.0, cov=1.5))
    answer = cbq.nested_expectation(fit, entr, box)
    low, high = answer.interval()
    assert low <= stats.norm(0.0, np.sqrt(1.5)).entropy() / 12.0 <= high


# many outer thetas


def test_a_value_at_risk_has_the_mean_of_its_tail_from_the_same_draws():
    found = cbq.value_at_risk(UNSURE, STANDARD, 0.9, n=2048, rng=3, tail="lower")
    tail = cbq.conditional_value_at_risk(UNSURE, STANDARD, 0.9, n=2048, rng=3, tail="lower")
    assert isinstance(found, TailRisk)
    assert (found.tail.estimate, found.tail.std) == (tail.estimate, tail.std)
    assert_array_equal(found.tail.draws, tail.draws)


class Counted(Known):
    """A known fit that counts the thetas at which it is asked for a mean."""

    n_asked = 0

    def _means(self, theta):
        type(self).n_asked += len(theta)
        return super()._means(theta)


def wavy(theta):
    return np.sin(2 * theta[:, 0]) + np.exp(-0.3 * theta[:, 0])


def stepped(theta):
    return np.floor(40 * theta[:, 0])


LEVELS = (np.arange(2**14)[:, None] + 0.5) / 2**14
DRAWS = {
    "normal": stats.norm().ppf(LEVELS),
    "uniform": stats.uniform(-2.0, 4.0).ppf(LEVELS),
    "gamma": stats.gamma(2.0).ppf(LEVELS),
}


@pytest.mark.parametrize("theta", DRAWS.values(), ids=DRAWS)
def test_the_mean_of_a_smooth_curve_is_interpolated_between_outer_thetas(theta):
    Counted.n_asked = 0
    found = cbq.nested_expectation(Counted([wavy], std=1e-3), np.square, theta, rng=0)
    assert Counted.n_asked < found.n / 8
    assert abs(found.plug_in - np.mean(wavy(theta) ** 2)) < 1e-2 * found.posterior_std


def test_where_a_curve_cannot_be_interpolated_all_means_are_computed():
    Counted.n_asked, theta = 0, DRAWS["normal"]
    found = cbq.nested_expectation(Counted([stepped], std=1e-3), np.square, theta, rng=0)
    assert Counted.n_asked > found.n
    assert_allclose(found.plug_in, np.mean(stepped(theta) ** 2), rtol=1e-12)


@pytest.mark.parametrize("theta", [0.5 * np.ones(10_000), np.arange(10_000) % 2])
def test_many_draws_of_few_thetas_are_an_average_of_few_values(theta):
    found = cbq.nested_expectation(LINE, np.square, theta)
    assert_allclose(found.estimate, np.mean(theta**2), rtol=1e-12)


def test_outputs_are_interpolated_together_and_stay_within_their_bounds():
    fit = Known([wavy, lambda theta: np.exp(-(theta[:, 0] ** 2) / 0.02)], std=1e-3, C=2)
    fit = fit._replaced(bounds=np.array([[-9.0, 0.0], [9.0, 1.0]]))
    values = []
    cbq.nested_expectation(fit, lambda I: values.append(I) or np.sum(I, axis=-1), STANDARD, rng=0)
    interpolated = next(each for each in values if each.shape == (16384, 2))
    assert np.min(interpolated[:, 1]) >= 0.0
    assert np.max(interpolated[:, 1]) <= 1.0


@pytest.mark.parametrize("fit", [LINE, Known([line], p=2)], ids=["interpolated", "in blocks"])
def test_a_hundred_thousand_outer_thetas_take_little_memory_and_report_progress(fit):
    reports = []
    prior = STANDARD if fit.p == 1 else PLANE
    tracemalloc.start()
    found = cbq.nested_expectation(
        fit, np.square, prior, n=100_000, rng=0, progress=lambda done, n: reports.append((done, n))
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.n == 131072
    assert peak < 2**28  # a thousandth of the covariances of all pairs
    assert reports[-1] == (found.n, found.n)
    assert [done for done, _ in reports] == sorted({done for done, _ in reports})


def test_predictions_at_a_million_thetas_take_little_memory_and_report_progress():
    theta, reports = np.linspace(-1.0, 1.0, 10**6)[:, None], []
    tracemalloc.start()
    mean, std = UNSURE.predict(theta, return_std=True, progress=lambda done, n: reports.append((done, n)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_array_equal(mean, theta[:, 0])
    assert_allclose(std, 0.7)
    assert peak < 10 * theta.nbytes
    assert reports[0] == (4096, 10**6)
    assert reports[-1] == (10**6, 10**6)


@pytest.mark.parametrize("call", [lambda p: UNSURE.predict([0.0], progress=p), lambda p: risk_of(progress=p)])
def test_progress_that_is_no_function_raises(call):
    with pytest.raises(TypeError, match="progress must be"):
        call("yes")


def risk_of(**options):
    return cbq.value_at_risk(UNSURE, STANDARD, n=1024, **options)


# Tails that no run has seen.


def observed(theta, curve):
    """A known curve with observed thetas (T, p)."""
    return Known([curve], p=theta.shape[1])._replaced(theta=theta)


@pytest.mark.parametrize("tail", ["upper", "lower"])
@pytest.mark.parametrize("p", [1, 3])
def test_a_tail_that_no_run_has_seen_is_named(p, tail):
    """In three dimensions none of the thetas of the tail is far from the observed ones: the losses are."""
    prior = Gaussian(np.zeros(p), cov=np.eye(p))
    fit = observed(prior.transport(sobol(16, p, np.random.default_rng(2))), lambda theta: theta.sum(axis=1))
    for risk in (cbq.value_at_risk, cbq.conditional_value_at_risk):
        with pytest.warns(cbq.FitWarning, match=r"^beyond: the whole tail, theta.* 16 observed thetas"):
            answer = risk(fit, prior, 0.995, tail=tail)
        assert len(answer.warnings) == 1
        assert risk(fit, prior, 0.8, tail=tail).warnings == ()
    with pytest.warns(cbq.FitWarning, match="the whole tail"):
        assert "the whole tail" in cbq.value_at_risk(fit, prior, 0.995, tail=tail).tail.warnings[0]


def test_a_constant_loss_and_a_tail_that_was_seen_say_nothing():
    theta = np.linspace(-4, 4, 16)[:, None]
    assert cbq.value_at_risk(observed(theta, line), STANDARD, 0.995).warnings == ()
    constant = observed(theta[7:9], lambda theta: 3.0 + 0 * theta[:, 0])
    assert not any("tail" in each for each in cbq.value_at_risk(constant, Uniform(-0.3, 0.3), 0.99).warnings)


def test_a_tail_most_of_which_no_run_has_seen_is_named():
    """The worst observed theta is in the tail, but 0.35 of its 0.5 per cent lie beyond it."""
    seen = np.append(np.linspace(-2.0, 2.0, 15), stats.norm.ppf(0.9965))[:, None]
    with pytest.warns(cbq.FitWarning, match=r"^beyond: 7\d% of the tail, theta = 2.5"):
        cbq.value_at_risk(observed(seen, line), STANDARD, 0.995)
    inside = np.append(seen, [[3.5]], axis=0)
    assert cbq.value_at_risk(observed(inside, line), STANDARD, 0.995).warnings == ()
    peaked = observed(seen, lambda theta: -((theta[:, 0] - 0.1) ** 2))  # its tail lies between observed thetas
    assert cbq.value_at_risk(peaked, STANDARD, 0.995).warnings == ()


def test_a_far_value_at_risk_moves_as_far_as_the_curve_does():
    """All draws of a curve with an error that all thetas have in common are shifted by it."""
    shifted = Known([line], std=0.7, lengthscale=1e4)
    for alpha in (0.9, 0.995, 0.9995):
        found = cbq.value_at_risk(shifted, STANDARD, alpha, n=2**17)
        assert_allclose(found.estimate, stats.norm.ppf(alpha), atol=0.02)
        assert_allclose(found.posterior_std, 0.7, rtol=0.05)
        assert_allclose(found.tail.posterior_std, 0.7, rtol=0.05)


@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.995])
def test_the_thetas_of_draws_stand_for_all(alpha):
    loss = _Loss.of(LINE, alpha, "upper", None)
    posterior, _ = loss.posterior(LINE, STANDARD, n=2**14, design="sobol", rng=0)
    nodes = posterior.nodes
    assert 256 < len(nodes.subset) <= 513
    assert_allclose(np.sum(nodes.subset_weights), 1.0, rtol=1e-12)
    assert np.sum(nodes.theta[nodes.subset] > stats.norm.ppf(alpha)) > 50
    few = quantile(posterior.mean[nodes.subset], nodes.subset_weights, alpha)
    assert_allclose(few, stats.norm.ppf(alpha), atol=0.02)
