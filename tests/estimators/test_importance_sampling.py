"""Importance sampling against the formulas written out, and what it refuses to estimate."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp

import cbq
from cbq import ImportanceSampling
from cbq.measures import Beta, Empirical, Gamma, Gaussian, Product, Uniform, Unnormalised
from refusals import refusals

KINDS = ("plain", "self-normalised", "balance")
COUNTS = (4, 7, 2, 5)


def covariance(theta):
    return np.array([[1.0 + theta[0], 0.6], [0.6, 1.0]])


def gaussian(theta):
    return Gaussian([theta[0], -theta[1]], cov=covariance(theta))


def gamma(theta):
    return Gamma(theta[0] + 1.0, theta[1])


DENSITIES = {
    "gaussian": (gaussian, lambda x, t: stats.multivariate_normal([t[0], -t[1]], covariance(t)).pdf(x)),
    "gamma": (gamma, lambda x, t: stats.gamma(t[0] + 1.0, scale=1 / t[1]).pdf(x[:, 0])),
}
THETA = np.array([[0.5, 1.0], [1.0, 2.0], [2.0, 1.5], [1.5, 1.2]])
NEW = np.array([[0.8, 1.4], [2.0, 1.5], [1.7, 1.9]])


def f_of(x):
    return np.stack([np.sin(x[:, 0]) + x[:, -1] ** 2, np.cos(x[:, 0])], axis=1)


def drawn(family, counts=COUNTS, theta=THETA, outputs=True, **options):
    rng = np.random.default_rng(5)
    x = [family(t).sample(n, rng) for t, n in zip(theta, counts, strict=True)]
    f = [f_of(each) if outputs else f_of(each)[:, 0] for each in x]
    return cbq.Samples(theta, x, f, family, depends_on_theta=False, **options)


def written_out(samples, pdf, theta, kind):
    """Weights (n,), estimates (C,) and squared standard errors (C,) at theta (p,), point by point."""
    n = samples.n_evaluations
    w, f, owner = [], [], []
    for t in range(samples.T):
        for i in range(samples.counts[t]):
            x = samples.points(t)[i : i + 1]
            mixture = sum(samples.counts[s] / n * pdf(x, samples.theta[s]) for s in range(samples.T))
            w.append(float(np.squeeze(pdf(x, theta) / (mixture if kind == "balance" else pdf(x, samples.theta[t])))))
            f.append(np.atleast_1d(samples.values(t)[i]))
            owner.append(t)
    w, f, owner = np.array(w), np.array(f), np.array(owner)
    if kind == "self-normalised":
        estimate = (w @ f) / np.sum(w)
        errors = w[:, None] * (f - estimate) / np.sum(w)
        return w, estimate, n / (n - 1) * np.sum(errors**2, axis=0)
    wf = w[:, None] * f
    var = sum((N / n) ** 2 * np.var(wf[owner == t], axis=0, ddof=1) / N for t, N in enumerate(samples.counts))
    return w, np.sum(wf, axis=0) / n, var


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("family", "pdf"), DENSITIES.values(), ids=DENSITIES)
def test_estimates_errors_and_sizes_are_those_of_the_formulas(family, pdf, kind):
    samples = drawn(family)
    fit = ImportanceSampling(kind).fit(samples)
    low, high = fit.interval(NEW, 0.9)
    df = 17 if kind == "self-normalised" else 14
    for m, theta in enumerate(NEW):
        w, estimate, var = written_out(samples, pdf, theta, kind)
        assert_allclose(fit.predict(NEW)[m], estimate, rtol=1e-10)
        assert_allclose(fit.predict(NEW, return_std=True)[1][m], np.sqrt(var * df / (df - 2)), rtol=1e-10)
        measure = stats.t(df, estimate, np.sqrt(var))
        assert_allclose([low[m], high[m]], measure.interval(0.9), rtol=1e-9)
        assert_allclose(fit.effective_sample_size(NEW)[m], np.sum(w) ** 2 / np.sum(w**2), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_the_joint_measure_has_the_covariance_of_sums_over_the_same_points(kind, monkeypatch):
    samples = drawn(gamma, outputs=False)
    fit = ImportanceSampling(kind).fit(samples)
    theta = np.concatenate([NEW, NEW[:1]])
    _, cov = fit.predict(theta, return_cov=True)
    _, std = fit.predict(theta, return_std=True)
    assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-12)
    assert_allclose(cov[0, 3], cov[0, 0], rtol=1e-12)
    # Var(a + b) = Var a + Var b + 2 Cov: that of a sum of two measures is that of a sum of their densities
    df = fit._strata.df
    if kind != "self-normalised":
        pdf = DENSITIES["gamma"][1]
        _, _, both = written_out(
            samples, lambda x, t: pdf(x, t) if t is not NEW else pdf(x, NEW[0]) + pdf(x, NEW[1]), NEW, kind
        )
        assert_allclose((cov[0, 0] + cov[1, 1] + 2 * cov[0, 1]) * (df - 2) / df, both, rtol=1e-10)
    draws = fit.sample(theta, 100_000, 0)
    assert_allclose(np.cov(draws.T), cov, atol=0.03 * np.max(cov))
    monkeypatch.setattr("cbq.fit.base.MAX_NUMBERS", 2 * samples.n_evaluations + 1)
    assert_allclose(fit.predict(theta, return_cov=True)[1], cov, rtol=1e-12)


def test_thetas_with_one_point_form_a_stratum_together():
    samples = drawn(gamma, counts=(1, 6, 1, 1), outputs=False)
    n, fit = 9, ImportanceSampling("plain").fit(samples)
    w = [
        DENSITIES["gamma"][1](samples.points(t), NEW[0]) / DENSITIES["gamma"][1](samples.points(t), THETA[t])
        for t in range(4)
    ]
    wf = [each * samples.values(t) for t, each in enumerate(w)]
    parts = [wf[1], np.concatenate([wf[0], wf[2], wf[3]])]
    var = sum((len(part) / n) ** 2 * np.var(part, ddof=1) / len(part) for part in parts)
    assert_allclose(fit.predict(NEW[:1], return_std=True)[1], np.sqrt(var * 7 / 5), rtol=1e-10)
    one = ImportanceSampling("plain").fit(drawn(gamma, counts=(1, 6, 2, 3), outputs=False))
    assert sorted(one._strata.counts) == [3, 3, 6]  # the only one with one point joins that with two
    every = ImportanceSampling().fit(drawn(gamma, counts=(1, 1, 1, 1), outputs=False))
    assert np.all(every.predict(NEW, return_std=True)[1] > 0)


def test_one_theta_asked_about_itself_is_plain_monte_carlo():
    samples = drawn(gamma, counts=(8,), theta=THETA[:1])
    plain = cbq.MonteCarlo().fit(samples)
    for kind in KINDS:
        fit = ImportanceSampling(kind).fit(samples)
        assert_allclose(fit.predict(THETA[:1]), plain.predict(THETA[:1]), rtol=1e-12)
        assert_allclose(fit.interval(THETA[:1]), plain.interval(THETA[:1]), rtol=1e-10)
        assert_allclose(fit.effective_sample_size(THETA[:1]), 8.0, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_one_point_in_all_has_an_estimate_only():
    samples = drawn(gamma, counts=(1,), theta=THETA[:1], outputs=False)
    for kind in KINDS:
        fit = ImportanceSampling(kind).fit(samples)
        assert np.isfinite(fit.predict(NEW[:1])[0])
        with pytest.raises(ValueError, match="one point in all"):
            fit.interval(NEW[:1])


@pytest.mark.parametrize("kind", ["plain", "balance"])
def test_plain_and_balance_are_unbiased_and_their_intervals_hold_the_truth(kind):
    theta, new = np.array([0.6, 1.0, 1.4]), np.array([0.8])
    estimates, errors, held = [], [], []
    for seed in range(600):
        x = np.random.default_rng(seed).normal(theta[:, None], 1.0, (3, 20))
        s = cbq.Samples(theta, x, np.cos(x), lambda t: Gaussian(t, 1.0), depends_on_theta=False)
        fit = ImportanceSampling(kind).fit(s)
        mean, std = fit.predict(new, return_std=True)
        low, high = fit.interval(new, 0.9)
        exact = np.exp(-0.5) * np.cos(0.8)
        estimates.append(mean[0])
        errors.append(std[0])
        held.append(low[0] < exact < high[0])
    assert abs(np.mean(estimates) - exact) < 4 * np.std(estimates) / np.sqrt(600)
    assert_allclose(np.sqrt(np.mean(np.square(errors))), np.std(estimates), rtol=0.15)
    assert 0.84 < np.mean(held) < 0.94


def test_the_balance_heuristic_has_the_largest_effective_sample_size_of_far_thetas():
    theta = np.array([[0.0], [4.0]])
    rng = np.random.default_rng(0)
    x = rng.normal(theta, 1.0, (2, 50))
    s = cbq.Samples(theta, x, x, lambda t: Gaussian(t[0], 1.0), depends_on_theta=False)
    size = {kind: ImportanceSampling(kind).fit(s).effective_sample_size([0.0, 2.0]) for kind in KINDS}
    assert size["balance"][1] > 1.5 * size["plain"][1]
    assert_allclose(size["plain"], size["self-normalised"])
    assert_allclose(size["balance"][0], 50, rtol=0.15)  # those of the other theta have no weight


# extremes


def line(theta, x, f, width=1.0):
    return cbq.Samples(theta, x, f, lambda t: Gaussian(t[0], cov=width**2), depends_on_theta=False)


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_ratios_far_beyond_the_range_of_doubles_are_scaled_out():
    x = 0.01 * np.random.default_rng(0).normal(size=(1, 30)) * np.sqrt(2)
    s = line([0.0], x, 1e-250 * (2.0 + np.sin(x)), width=0.01)
    new = 0.5
    logs = (stats.norm(new, 0.01).logpdf(x) - stats.norm(0.0, 0.01).logpdf(x))[0]
    assert np.max(logs) < -750  # exp of it is zero
    share = np.exp(logs - logsumexp(logs))
    assert_allclose(ImportanceSampling("self-normalised").fit(s).predict([new]), share @ s.f[0], rtol=1e-10)
    assert_allclose(ImportanceSampling("balance").fit(s).effective_sample_size([new]), 1 / np.sum(share**2), rtol=1e-10)
    big = line([0.0], x, np.full((1, 30), 1e300), width=0.01)
    shrunk = np.exp(logsumexp(logs) - np.log(30) + np.log(1e300))
    assert_allclose(ImportanceSampling("plain").fit(big).predict([new]), shrunk, rtol=1e-8)


def test_weights_too_large_for_any_number_are_an_error_that_says_so():
    s = line([0.0, 4.0], [[0.0, 4.0], [4.0, 4.1]], [[1.0, 1.0], [1.0, 2.0]], width=0.1)
    with pytest.raises(
        ValueError, match=r"weights at theta = \[4.\] reach exp\(800\), and their average is not finite"
    ):
        ImportanceSampling("plain").fit(s).predict([4.0])
    mean = ImportanceSampling("balance").fit(s).predict([4.0])
    assert_allclose(mean, (2 * 1.0 + 2 * 1.0 + 2 * 2.0) / 4)  # the point at zero has no weight, the others have two


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_any_size(kind, scale):
    samples = drawn(gamma)
    scaled = samples.with_values([scale * samples.values(t) for t in range(4)])
    one, other = (ImportanceSampling(kind).fit(s).predict(NEW, return_std=True) for s in (samples, scaled))
    for a, b in zip(one, other, strict=True):
        assert_allclose(b, scale * a, rtol=1e-10)


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
def test_a_constant_f_is_known_to_the_self_normalised_kind():
    samples = drawn(gamma).with_values([np.full(n, 0.1) for n in COUNTS])
    mean, std = ImportanceSampling("self-normalised").fit(samples).predict(NEW, return_std=True)
    assert_array_equal(mean, 0.1)
    assert_array_equal(std, np.inf)


# measures


def test_measures_without_a_family_serve_where_they_are_known():
    with_family = drawn(gamma)
    x, f = with_family.x, with_family.f
    listed = cbq.Samples(THETA, x, f, [gamma(t) for t in THETA], depends_on_theta=False)
    for kind in KINDS:
        known, other = (ImportanceSampling(kind).fit(s) for s in (listed, with_family))
        assert_allclose(known.predict(THETA), other.predict(THETA), rtol=1e-12)
        with pytest.raises(ValueError, match="the measure of x is not known at theta"):
            known.predict(NEW)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_measures_serves_as_a_list_of_them_does(kind):
    samples = drawn(gamma)
    batch = gamma(THETA.T)
    assert batch.batch_shape == (4,)
    batched = cbq.Samples(THETA, samples.x, samples.f, batch, depends_on_theta=False)
    listed = cbq.Samples(THETA, samples.x, samples.f, samples.measures, depends_on_theta=False)
    one, other = (ImportanceSampling(kind).fit(each).predict(THETA, return_std=True) for each in (batched, listed))
    assert_array_equal(one, other)


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_a_measure_that_all_thetas_share_makes_all_weights_one():
    x = np.random.default_rng(0).normal(size=(3, 5))
    s = cbq.Samples([1.0, 2.0, 3.0], x, np.exp(x), Gaussian(0.0, 1.0), depends_on_theta=False)
    for kind in KINDS:
        fit = ImportanceSampling(kind).fit(s)
        assert_allclose(fit.predict([1.0, 9.0]), np.mean(np.exp(x)), rtol=1e-12)
        assert_allclose(fit.effective_sample_size([9.0]), 15.0)


def uniform(theta):
    return Uniform(0.0, theta[0])


def boxes():
    rng = np.random.default_rng(0)
    theta = np.array([1.0, 2.0, 3.0])
    x = rng.uniform(0, theta[:, None], (3, 400))
    return cbq.Samples(theta, x, x**2, uniform, depends_on_theta=False)


def test_measures_of_bounded_support_are_refused_where_points_do_not_reach():
    assert_allclose(ImportanceSampling().fit(boxes()).predict([1.5, 3.0]), [0.75, 3.0], rtol=0.1)
    assert_allclose(ImportanceSampling("plain").fit(boxes()).predict([0.7]), 0.7**2 / 3, rtol=0.15)
    with pytest.raises(
        ValueError,
        match=r"theta = \[3.1\] has the support \[0, 3.1\], but the points of all thetas together do not cover it",
    ):
        ImportanceSampling().fit(boxes()).predict([3.0, 3.1])
    for kind in ("plain", "self-normalised"):
        fit = ImportanceSampling(kind).fit(boxes())
        with pytest.raises(
            ValueError,
            match=r"\[0, 1.5\], but those of theta = \[1.\] were drawn from \[0, 1\].*pass kind='balance', or use cbq",
        ):
            fit.predict([1.5])
        assert "No estimate at 2 of the 3 observed thetas" in fit.summary()


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
def test_a_gap_between_the_supports_of_all_thetas_is_refused():
    x = np.concatenate([Uniform(0.0, 1.0).sample(40, 0), Uniform(2.0, 3.0).sample(40, 1)]).reshape(2, 40)
    samples = cbq.Samples([0.0, 2.0], x, np.ones((2, 40)), gapped, depends_on_theta=False)
    fit = cbq.ImportanceSampling("balance").fit(samples)
    np.testing.assert_allclose(fit.predict([0.0, 2.0]), 1.0)
    with pytest.raises(ValueError, match=r"support \[0, 3\], but the points of all thetas together do not cover it"):
        fit.predict([-1.0])


def gapped(theta):
    """Uniform on [theta, theta + 1]; on [0, 3] for negative theta."""
    return Uniform(theta[0], theta[0] + 1.0) if theta[0] >= 0 else Uniform(0.0, 3.0)


def test_supports_are_compared_along_each_coordinate():
    family = lambda t: Product([Gaussian(0.0, 1.0), Uniform(-t[0], 1.0)])  # noqa: E731
    x = np.random.default_rng(0).uniform(0.0, 0.9, (2, 5, 2))
    s = cbq.Samples([1.0, 2.0], x, x[..., 0], family, depends_on_theta=False)
    with pytest.raises(ValueError, match=r"along coordinate 1 of x .* has the support \[-3, 1\]"):
        ImportanceSampling().fit(s).predict([3.0])


def test_points_without_any_density_at_theta():
    family = lambda t: Uniform(t[0], 3.0)  # noqa: E731
    x = np.array([[0.1, 0.2], [1.1, 1.2]])
    fit = ImportanceSampling().fit(cbq.Samples([0.0, 1.0], x, x, family, depends_on_theta=False))
    with pytest.raises(ValueError, match=r"all 4 weights at theta = \[2.\] are zero"):
        fit.predict([0.0, 2.0])


def test_points_of_infinite_density():
    family = lambda t: Beta(t[0], 1.0)  # noqa: E731
    x = np.array([[0.0, 0.2, 0.4]])
    s = cbq.Samples([1.0], x, x, family, depends_on_theta=False)
    with pytest.raises(ValueError, match=r"1 of 3 weights at theta = \[0.5\] are not finite"):
        ImportanceSampling().fit(s).predict([0.5])
    at_the_pole = cbq.Samples([0.5], x, x, family, depends_on_theta=False)
    for kind in KINDS:
        with pytest.raises(ValueError, match="that of point 0 of all, of theta index t = 0, is infinite"):
            ImportanceSampling(kind).fit(at_the_pole)


def some(measure, depends_on_theta=False):
    return cbq.Samples(
        [1.0, 2.0], [[1.0, 2.0], [1.5, 2.5]], [[1.0, 2.0], [1.0, 2.0]], measure, depends_on_theta=depends_on_theta
    )


KNOWN_UP_TO_A_CONSTANT = Unnormalised(lambda x: -np.sum(x**2, axis=-1), dim=1)

test_refusals = refusals(
    {
        "theta": (
            lambda: ImportanceSampling().fit(some(Gaussian(0.0, 1.0), True)),
            "in these samples f depends on theta",
        ),
        "atoms": (
            lambda: ImportanceSampling().fit(some(Empirical([1.0, 2.0]))),
            r"at theta = \[1.\], has none .*finite set of points",
        ),
        "score": (
            lambda: ImportanceSampling().fit(some(Unnormalised(score=lambda x: -x, dim=1))),
            "Unnormalised.* known up to a constant only. Use cbq.CBQ",
        ),
        "constant": (lambda: ImportanceSampling("plain").fit(some(KNOWN_UP_TO_A_CONSTANT)), "up to a constant only"),
        "kind": (
            lambda: ImportanceSampling("defensive"),
            "kind must be 'plain', 'self-normalised' or 'balance', but it is 'def",
        ),
        "family": (
            lambda: (
                ImportanceSampling()
                .fit(some(lambda t: Gaussian(0.0, 1.0) if t[0] < 3 else Empirical([1.0])))
                .predict([4.0])
            ),
            r"the measure at theta = \[4.\], has none",
        ),
    },
    ValueError,
)


def test_what_are_no_samples_is_refused():
    with pytest.raises(TypeError, match=r"fit takes cbq.Samples, but a list arrived"):
        ImportanceSampling().fit([])


@pytest.mark.parametrize("kind", KINDS)
def test_the_summary_says_what_was_done_and_how_much_it_is_worth(kind):
    with pytest.warns(cbq.FitWarning, match="^chains: points of a Markov chain are correlated"):
        fit = ImportanceSampling(kind).fit(drawn(gamma, design="mcmc"))
    text = fit.summary()
    sizes = fit.effective_sample_size(THETA)
    assert f"Importance sampling, {kind}: 4 thetas (p = 2), 2 to 7 MCMC points each." in text
    assert f"smallest {sizes.min():.3g}, median {np.median(sizes):.3g}" in text
    assert "are too small" in fit.warnings[0]
    assert repr(fit) == f"ImportanceSamplingFit(kind={kind!r}, T=4, p=2, C=2)"


def test_a_picture():
    x = np.random.default_rng(0).normal(size=(3, 9))
    s = line([0.0, 0.5, 1.0], x, x**2)
    assert ImportanceSampling().fit(s).plot(points=5) is not None


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
@pytest.mark.parametrize("kind", ["plain", "self-normalised", "balance"])
def test_far_from_all_points_the_error_is_that_of_a_value_of_f(kind):
    problem = cbq.Problem(
        lambda x, t: np.sin(x[:, 0]),
        lambda t: Gaussian(t[0], 1.0),
        cbq.measures.Uniform(0.0, 1.0),
        depends_on_theta=False,
    )
    samples = problem.collect(8, 20, rng=0)
    fit = ImportanceSampling(kind).fit(samples)
    assert fit.effective_sample_size([9.0])[0] < 2
    low, high = fit.interval([9.0])
    assert low[0] <= np.exp(-0.5) * np.sin(9.0) <= high[0]
    assert_allclose(
        np.diag(fit.predict([9.0, 0.5], return_cov=True)[1]), fit.predict([9.0, 0.5], return_std=True)[1] ** 2
    )
