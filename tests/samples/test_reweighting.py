"""Integrals of f p / q under q in place of f under p: the same numbers, known weights, and warnings of bad ratios."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gamma

import cbq
from cbq.embeddings import NoEmbedding
from cbq.kernels import RBF
from cbq.measures import (
    Beta,
    Empirical,
    Gamma,
    Gaussian,
    LogNormal,
    Mixture,
    Product,
    ScipyDistribution,
    StudentT,
    TruncatedGaussian,
    Uniform,
    Unnormalised,
    from_scipy,
)
from cbq.samples.reweighting import reach, unbounded_log_ratio

PRIOR = Uniform(1.0, 2.0)
SIZE = {"T": 6, "N": 20, "rng": 3}
NEW = np.linspace(1.05, 1.95, 19)
GRID = np.linspace(1.0, 2.0, 8)
SCALE = 1.5
SQUARE = SCALE**2 * gamma(3 / 4) / gamma(1 / 4)  # E Y^2 for the density exp(-(y / SCALE)^4), up to a constant


def family(theta):
    return Gaussian(theta, 1.0)


def wide(theta):
    return Gaussian(theta, cov=1.3)


class Slow(ScipyDistribution):
    """A measure that has no embeddings of kernels on x, as its quantiles take long."""

    has_slow_transport = True


def flat_topped(theta):
    """Such a measure with lighter tails than a Gaussian."""
    return Slow(stats.gennorm, 4.0, loc=theta[0], scale=SCALE)


def square(x, theta):
    return x[:, 0] ** 2


def problem(**options):
    return cbq.Problem(**{"integrand": square, "family": family, "prior": PRIOR, "depends_on_theta": False} | options)


SAMPLES = problem().collect(**SIZE)


def log_ratio(samples, q_variance):
    """Log N(theta, 1) - log N(theta, q_variance) at all points (T, N), from scipy."""
    x = samples.x[:, :, 0]
    return stats.norm.logpdf(x, samples.theta, 1.0) - stats.norm.logpdf(x, samples.theta, np.sqrt(q_variance))


# algebra


def test_values_and_weights_are_those_of_the_ratio():
    new, log = SAMPLES.reweighted(wide), log_ratio(SAMPLES, 1.3)
    np.testing.assert_array_equal(new.x, SAMPLES.x)
    np.testing.assert_array_equal(new.theta, SAMPLES.theta)
    np.testing.assert_allclose(new.f, SAMPLES.f * np.exp(log), rtol=1e-12)
    np.testing.assert_allclose(new.log_weights, -log.ravel(), rtol=1e-12, atol=1e-14)
    assert new.measure(2).cov == 1.3
    assert new.proposals[2].cov == 1.0
    assert not new.findings


def test_q_is_given_in_all_ways_in_which_measures_are():
    expected = SAMPLES.reweighted(wide)
    batch = Gaussian(SAMPLES.theta, cov=np.full((6, 1), 1.3))
    each = [stats.norm(theta[0], np.sqrt(1.3)) for theta in SAMPLES.theta]
    for q in (batch, each, [wide(theta) for theta in SAMPLES.theta]):
        np.testing.assert_allclose(SAMPLES.reweighted(q).f, expected.f, rtol=1e-12)
    one = SAMPLES.reweighted(stats.norm(1.5, 3.0))
    log_q = stats.norm.logpdf(SAMPLES.x[:, :, 0], 1.5, 3.0)
    log_p = stats.norm.logpdf(SAMPLES.x[:, :, 0], SAMPLES.theta, 1.0)
    np.testing.assert_allclose(one.f, SAMPLES.f * np.exp(log_p - log_q), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_the_measure_itself_changes_no_number():
    same = SAMPLES.reweighted(family)
    np.testing.assert_array_equal(same.f, SAMPLES.f)
    assert same.log_weights is None
    assert same.proposals is None
    samples = problem(depends_on_theta=True).collect(**SIZE)
    for estimator in (cbq.CBQ(), cbq.MOBQ(), cbq.LSMC()):
        one, other = (estimator.fit(each).interval(NEW) for each in (samples, samples.reweighted(family)))
        np.testing.assert_array_equal(one, other)


def test_two_steps_are_one_and_there_and_back_is_none():
    one, two = SAMPLES.reweighted(wide), SAMPLES.reweighted(stats.norm(1.5, 3.0)).reweighted(wide)
    np.testing.assert_allclose(two.f, one.f, rtol=1e-12)
    np.testing.assert_allclose(two.log_weights, one.log_weights, rtol=1e-10, atol=1e-12)
    back = one.reweighted(family)
    np.testing.assert_allclose(back.f, SAMPLES.f, rtol=1e-12)
    assert back.log_weights is None


def test_points_from_q_have_no_weights_under_it():
    drawn = problem().collect(**SIZE, proposal=wide)
    new = drawn.reweighted(wide)
    assert new.log_weights is None
    np.testing.assert_allclose(new.f, np.exp(drawn.log_weights).reshape(6, 20) * drawn.f, rtol=1e-12)


@pytest.mark.parametrize("proposal", [None, wide, lambda theta: Gaussian(theta, cov=2.0)], ids=["p", "q", "other"])
def test_averages_stay_what_they_are(proposal):
    samples = problem().collect(**SIZE, proposal=proposal)
    one, other = (cbq.MonteCarlo().fit(each).averages for each in (samples, samples.reweighted(wide)))
    np.testing.assert_allclose(other.mean, one.mean, rtol=1e-12)
    np.testing.assert_allclose(other.variance, one.variance, rtol=1e-10)


def test_a_ratio_that_depends_on_theta_makes_f_depend_on_it():
    one, other = Gaussian(1.5, 1.0), Gaussian(1.5, cov=1.3)
    common = problem(family=lambda theta: one).collect(**SIZE)
    assert not common.reweighted(other).depends_on_theta
    assert common.reweighted(wide).depends_on_theta
    assert SAMPLES.reweighted(other).depends_on_theta
    assert problem(family=lambda theta: one, depends_on_theta=True).collect(**SIZE).reweighted(other).depends_on_theta
    with pytest.raises(ValueError, match="depend"):
        cbq.ImportanceSampling().fit(SAMPLES.reweighted(wide))


def test_bounds_keep_their_signs_only():
    two = np.stack([SAMPLES.f, -SAMPLES.f], axis=-1)
    samples = cbq.Samples(SAMPLES.theta, SAMPLES.x, two, family, bounds=([0.0, -99.0], [99.0, 0.0]))
    np.testing.assert_array_equal(samples.reweighted(wide).bounds, [[0.0, -np.inf], [np.inf, 0.0]])
    np.testing.assert_allclose(samples.reweighted(wide).f[..., 1], -SAMPLES.reweighted(wide).f, rtol=1e-12)


def unnormalised():
    return Unnormalised(lambda x: -(x[..., 0] ** 2), dim=1)


@pytest.mark.parametrize(
    ("measure", "q", "says"),
    [
        (Gaussian(2.0, 1.0), unnormalised(), "two normalised densities, .* the q .* up to a constant only"),
        (unnormalised(), Gaussian(2.0, 1.0), "two normalised densities, .* the measure .* up to a constant only"),
        (Gaussian(2.0, 1.0), Empirical([[1.0], [2.0]]), "two normalised densities, .* the q"),
        (
            Gamma(2.0, 1.0),
            Gaussian(2.0, 1.0),
            r"q at theta .* has the support \[-inf, inf\] .* the measure has \[0, inf\]",
        ),
        (Uniform(0.0, 9.0), Uniform(0.0, 8.0), r"q at theta .* has the support \[0, 8\] along coordinate 0"),
        (Gaussian(2.0, 1.0), Gaussian([0.0, 0.0], 1.0), "in 2 dimensions, but x has 1"),
        (Gaussian(2.0, 1.0), [Gaussian(0.0, 1.0)] * 2, "q is a list of 2 measures, but theta has T = 1 rows"),
        (Gaussian(2.0, 1.0), 3.0, "arrived as q"),
        (Gaussian(2.0, 1.0), lambda theta: None, "the q gives no measure"),
        (Gaussian(2.0, 1.0), Gaussian(0.0, cov=1e-3), r"ratio is below exp\(300\), but it is \[1.\]"),
    ],
)
def test_what_has_no_ratio_is_refused(measure, q, says):
    samples = cbq.Samples([1.0], [[1.0, 2.0]], [[1.0, 2.0]], measure)
    with pytest.raises((ValueError, TypeError), match=says):
        samples.reweighted(q)


# integrals


def test_a_kernel_without_an_embedding_gets_one():
    one = problem(family=flat_topped)
    q = lambda theta: Gaussian(theta, 1.0)  # noqa: E731
    samples = one.collect(8, 40, rng=0, theta=GRID, design="sobol", proposal=q)
    with pytest.raises(NoEmbedding):
        cbq.CBQ(kernel_x=RBF()).fit(samples)
    fit = cbq.CBQ(kernel_x=RBF()).fit(samples.reweighted(q))
    np.testing.assert_allclose(fit.predict(NEW), NEW**2 + SQUARE, atol=0.06)  # plain averages: 0.3


@pytest.mark.parametrize("design", ["iid", "sobol"])
def test_intervals_cover_the_truth(design):
    one, covered = problem(family=flat_topped), []
    for seed in range(8):
        samples = one.collect(8, 20, rng=seed, theta=GRID, design=design, proposal=wide)
        low, high = cbq.CBQ().fit(samples.reweighted(wide)).interval(NEW)
        covered.append(np.mean((low <= NEW**2 + SQUARE) & (high >= NEW**2 + SQUARE)))
    assert np.mean(covered) > 0.9


def test_one_process_integrates_under_q_at_any_theta():
    samples = problem(integrand=lambda x, theta: np.cos(x[:, 0])).collect(8, 20, rng=0, theta=GRID, proposal=wide)
    fit = cbq.MOBQ().fit(samples.reweighted(wide))
    np.testing.assert_allclose(fit.predict(NEW), np.exp(-0.5) * np.cos(NEW), atol=1e-3)


# warnings


def rotated(variances):
    """A Gaussian in the plane whose principal axes lie between the coordinates."""
    R = np.array([[0.6, -0.8], [0.8, 0.6]])
    return Gaussian([0.0, 0.0], cov=R @ np.diag(variances) @ R.T)


UNBOUNDED = [
    (Gaussian(0.0, 1.0), Gaussian(0.0, cov=0.99)),
    (Gaussian(0.0, 1.0), Gaussian(0.1, 1.0)),
    (StudentT(3.0, 0.0, 1.0), Gaussian(0.0, cov=9.0)),
    (StudentT(3.0, 0.0, 1.0), StudentT(4.0, 0.0, 1.0)),
    (from_scipy(stats.cauchy()), Gaussian(0.0, 1.0)),
    (from_scipy(stats.logistic()), Gaussian(0.0, cov=10.0)),
    (Gamma(0.5, 1.0), Gamma(1.0, 1.0)),  # at 0
    (Gamma(2.0, 1.0), Gamma(2.0, 1.1)),
    (Beta(0.5, 2.0), Uniform(0.0, 1.0)),
    (LogNormal(0.0, 1.0), Gamma(1.0, 1.0)),
    (Gaussian([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]]), Gaussian([0.0, 0.0], [1.0, 1.0])),
    (rotated([1.0, 1.0]), rotated([3.0, 0.99])),
    (Product([StudentT(3.0, 0.0, 1.0), Gaussian(0.0, 1.0)]), Gaussian([0.0, 0.0], cov=[9.0, 9.0])),
]
BOUNDED = [
    (Gaussian(0.0, 1.0), Gaussian(0.0, 1.0)),
    (Gaussian(0.0, 1.0), Gaussian(1.0, cov=1.5)),
    (Gaussian(0.0, 1.0), StudentT(5.0, 1.0, 1.0)),
    (StudentT(3.0, 0.0, 1.0), StudentT(3.0, 0.0, 0.5)),  # the ratio grows up to 4
    (StudentT(10.0, 0.0, 1.0), StudentT(10.0, 0.0, 0.8)),
    (from_scipy(stats.logistic()), StudentT(5.0, 0.0, 2.0)),
    (from_scipy(stats.gennorm(4.0)), Gaussian(0.0, 1.0)),
    (Gamma(2.0, 1.0), Gamma(1.0, 0.5)),
    (Beta(2.0, 2.0), Uniform(0.0, 1.0)),
    (LogNormal(0.0, 1.0), LogNormal(0.0, cov=2.0)),
    (TruncatedGaussian(0.0, 1.0, -1.0, 2.0), Uniform(-1.0, 2.0)),
    (Mixture([0.5, 0.5], [Gaussian(-2.0, 1.0), Gaussian(2.0, 1.0)]), Gaussian(0.0, cov=5.0)),
    (Gaussian([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]]), Gaussian([0.0, 0.0], cov=[1.95, 1.95])),
    (rotated([1.0, 1.0]), rotated([3.0, 1.01])),
]


@pytest.mark.parametrize(("measure", "q"), UNBOUNDED, ids=lambda each: type(each).__name__)
def test_a_ratio_without_bound_is_recognised(measure, q):
    assert unbounded_log_ratio(measure, q) > 0


@pytest.mark.parametrize(("measure", "q"), BOUNDED, ids=lambda each: type(each).__name__)
def test_a_bounded_ratio_is_recognised(measure, q):
    assert unbounded_log_ratio(measure, q) is None


def test_the_ratio_far_out_is_the_one_of_the_densities():
    found = unbounded_log_ratio(Gaussian(0.0, 1.0), Gaussian(0.0, cov=0.5))
    np.testing.assert_allclose(found, stats.norm.logpdf(7.0) - stats.norm.logpdf(7.0, 0.0, np.sqrt(0.5)), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")
@pytest.mark.parametrize(
    ("variance", "says"),
    [
        (0.8, r"ratio: p / q grows without bound .* as at theta = \[.*Pass a wider q"),
        (0.05, "ratio: .* At 6 of 6 thetas fewer than 5 effective points carry the ratio p / q"),
        (4.0, "ratio: The points were drawn from measures with lighter tails than q, .*proposal=q in collect"),
    ],
)
def test_fits_warn_of_ratios_that_are_hard_to_integrate(variance, says, tmp_path):
    samples = SAMPLES.reweighted(lambda theta: Gaussian(theta, cov=variance))
    with pytest.warns(cbq.FitWarning, match=says):
        fit = cbq.CBQ().fit(samples)
    (finding,) = samples.findings
    assert finding.text in fit.summary()
    assert samples.select(slice(4)).thinned(9).findings == samples.findings
    fit.save(tmp_path / "fit.cbq")
    assert finding.text in cbq.load(tmp_path / "fit.cbq").summary()


@pytest.mark.parametrize(("d", "variance"), [(1, 1.2), (1, 1.4), (2, 1.2), (5, 1.1)])
def test_the_reach_of_points_is_that_of_their_weights(d, variance):
    one = Gaussian(np.zeros(d), np.ones(d))
    samples = cbq.Samples([0.0], np.ones((1, 3, d)), [[1.0, 2.0, 3.0]], one)
    exact = (variance * np.sqrt(2 / variance - 1)) ** d  # 1 / E w, w = q / p, under q
    np.testing.assert_allclose(
        reach(samples.reweighted(Gaussian(np.zeros(d), cov=variance * np.ones(d)))), exact, rtol=0.02
    )


def test_a_likelihood_makes_up_for_the_ratio_of_prior_and_posterior():
    def posterior(y):
        return Gaussian(0.8 * y, cov=0.25)  # of x ~ N(0, 1) given y = x + N(0, 1/4), and 25% wider

    def likelihood(x, y):
        return stats.norm.pdf(y[0], x[:, 0], 0.5)

    def constant(x, y):
        return np.ones(len(x))

    for f, is_fine in ((likelihood, True), (constant, False)):
        one = problem(integrand=f, family=lambda y: Gaussian(0.0, 1.0), depends_on_theta=True)
        samples = one.collect(**SIZE, proposal=posterior).reweighted(posterior)
        assert (not samples.findings) == is_fine


def test_points_that_reach_q_need_no_warning():
    def q(theta):
        return Gaussian(theta, cov=4.0)

    assert not problem().collect(**SIZE, proposal=q).reweighted(q).findings


def test_the_same_measure_changes_nothing():
    again = SAMPLES.reweighted(lambda theta: Gaussian(theta, 1.0))  # new objects, equal measures
    assert again.depends_on_theta is False
    assert not again.findings
    np.testing.assert_array_equal(again.f, SAMPLES.f)


def test_points_of_a_wider_measure_than_q_leave_nothing_of_it_empty():
    samples = problem().collect(**SIZE, proposal=lambda theta: Gaussian(theta, cov=9.0))
    assert not samples.reweighted(lambda theta: Gaussian(theta, cov=1.5)).findings
