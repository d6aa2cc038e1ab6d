"""The runs of a fit under other measures: against closed forms, and where the runs do not reach."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import cbq
from cbq.measures import Empirical, Gamma, Gaussian, LogNormal, Uniform

THETA = np.linspace(-0.9, 0.9, 7)


def family(theta):
    return Gaussian(theta, std=1.0)


def moved(by, std=1.0):
    return lambda theta: Gaussian(theta + by, std=std)


CASES = {
    "sine": (lambda x, theta: np.sin(x[:, 0]), lambda m, s: np.sin(m) * np.exp(-0.5 * s * s)),
    "kink": (
        lambda x, theta: np.maximum(x[:, 0], 0.0),
        lambda m, s: m * norm.cdf(m / s) + s * norm.pdf(m / s),
    ),
}


def samples_of(f, *, seed=0, **options):
    options = {"depends_on_theta": False} | options
    problem = cbq.Problem(f, family, Uniform(-1.0, 1.0), **options)
    return problem.collect(10, 12, rng=seed, design="sobol")


@pytest.fixture(scope="module")
def fit():
    return cbq.MOBQ().fit(samples_of(CASES["sine"][0]))


def test_under_its_own_family_a_fit_has_the_same_answers(fit):
    again = fit.under(family)
    assert_array_equal(again.interval(THETA), fit.interval(THETA))
    assert_array_equal(again.predict(THETA, return_cov=True)[1], fit.predict(THETA, return_cov=True)[1])
    assert again.findings == fit.findings


@pytest.mark.filterwarnings("ignore:reach")
@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_integrals_of_other_measures_and_grow_where_runs_do_not_reach(case):
    f, exact = CASES[case]
    inside = []
    for seed in range(2):
        fit, widths = cbq.MOBQ().fit(samples_of(f, seed=seed)), []
        for by in (0.0, 1.0, 2.0, 3.0):
            for std in (0.5, 1.0):
                low, high = fit.under(moved(by, std)).interval(THETA)
                true = exact(THETA + by, std)
                inside.append((low <= true) & (true <= high))
                widths.append(np.max(high - low))
        assert widths[-1] > 10 * widths[1]
    assert np.mean(inside) >= 0.9


def test_the_share_of_the_mass_is_named_where_the_runs_do_not_reach(fit):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        narrow = fit.under(moved(0.0, 0.5))
    with pytest.warns(
        cbq.FitWarning, match=r"reach: under this family, \d+% of the mass is where the runs do not reach"
    ):
        far = fit.under(moved(3.0))
    assert np.all(narrow._unreached(THETA[:, None]) < 0.05)
    # Beyond the largest of all runs, which is about 3.5, lies at least this share.
    largest = np.max(fit.samples.all_points)
    assert np.all(far._unreached(THETA[:, None]) >= norm.sf(largest - THETA - 3.0) - 0.02)
    assert "reach" in far.summary()
    assert not far.under(family).findings


def test_independent_new_points_are_beyond_the_reach_of_the_runs_as_often_as_runs_are(fit):
    shares = []
    for seed in range(10):
        problem = cbq.Problem(lambda x, theta: np.sin(x[:, 0]), family, Uniform(-1.0, 1.0), depends_on_theta=False)
        fit = cbq.MOBQ(kernel_x=cbq.kernels.RBF(0.7)).fit(problem.collect(40, 1, rng=seed))
        shares.append(np.mean(fit._unreached(problem.prior.sample(64, seed))))
    assert 0.03 <= np.mean(shares) <= 0.08  # 2 of 40 runs, and more by the ends of an interpolated quantile


def test_other_answers_follow_the_new_measures(fit):
    other = fit.under(moved(0.5, 0.8))
    outcome = other.outcome([0.0])
    assert_allclose(
        outcome.sf(0.5), norm.cdf((np.pi - 0.5 - np.pi / 6) / 0.8) - norm.cdf((np.pi / 6 - 0.5) / 0.8), atol=0.01
    )
    assert other.best([(-1.0, 1.0)]).theta == pytest.approx(1.0)
    assert_allclose(other.gradient([0.2])[0, 0], np.cos(0.7) * np.exp(-0.32), atol=1e-3)
    total = cbq.sensitivity(other, theta=[0.0]).rows[0].total
    assert total == pytest.approx(1.0)
    assert other.suggest(2).theta.shape == (2, 1)


def test_measures_may_be_of_another_kind_where_the_kernel_has_embeddings(fit):
    by_atoms = fit.under(Empirical([0.0, 1.0], weights=[0.25, 0.75]))
    assert_allclose(by_atoms.predict([0.0]), 0.75 * np.sin(1.0), atol=1e-4)
    box = fit.under(lambda theta: Uniform(theta, theta + 1.0))  # runs outside of the support still inform
    assert_allclose(box.predict(THETA), np.cos(THETA) - np.cos(THETA + 1.0), atol=1e-4)


def test_f_may_depend_on_theta_and_have_outputs_and_noise():
    def f(x, theta, rng):
        return np.stack([theta[0] * x[:, 0], x[:, 0] ** 2], axis=1) + 0.01 * rng.standard_normal((len(x), 2))

    fit = cbq.MOBQ().fit(samples_of(f, depends_on_theta=True, stochastic=True))
    other = fit.under(moved(0.5, 0.9))
    exact = np.stack([THETA * (THETA + 0.5), (THETA + 0.5) ** 2 + 0.81], axis=1)
    low, high = other.interval(THETA, 0.99)
    assert np.mean((low <= exact) & (exact <= high)) >= 0.9
    assert_allclose(other.predict(THETA), exact, atol=0.1)


@pytest.mark.filterwarnings("ignore:reach")
def test_probabilities_of_events_under_other_measures():
    samples = samples_of(lambda x, theta: np.where(x[:, 0] > 1.0, 1.0, 0.0))
    fit = cbq.LatentBQ(priors=2, draws=100, nodes=32, size=256).fit(samples)
    assert_array_equal(fit.under(family).predict(THETA), fit.predict(THETA))
    low, high = fit.under(moved(0.5, 0.8)).interval(THETA)
    true = norm.sf((0.5 - THETA) / 0.8)
    assert np.mean((low - 0.01 <= true) & (true <= high + 0.01)) >= 0.8
    assert np.all((low >= 0) & (high <= 1))


def test_fits_without_a_model_of_f_and_measures_without_an_embedding_are_refused(fit, tmp_path):
    samples = samples_of(CASES["sine"][0])
    positive = cbq.Problem(
        lambda x, theta: np.log(x[:, 0]),
        lambda theta: LogNormal(theta, std=0.5),
        Uniform(-1.0, 1.0),
        depends_on_theta=False,
    ).collect(10, 12, rng=0, design="sobol")
    logs = cbq.MOBQ(kernel_x=cbq.kernels.Warped(cbq.kernels.RBF(), "log")).fit(positive)
    cases = {
        "CBQ": (lambda: cbq.CBQ().fit(samples).under(family), "no model of f"),
        "regression": (lambda: cbq.LSMC().fit(samples).under(family), "fit cbq.MOBQ"),
        "a number": (lambda: fit.under(1.0), "arrived as family"),
        "two dimensions": (lambda: fit.under(lambda theta: Gaussian([0.0, 0.0], std=[1.0, 1.0])), "2 dimensions"),
        "no embedding": (lambda: logs.under(family), "no embedding"),
        "saving": (lambda: fit.under(family).save(tmp_path / "fit.cbq"), "cannot be saved"),
        "one argument": (lambda: fit.vary(lambda theta: family(theta), [1.0]), "two arguments"),
        "no measure": (lambda: fit.vary(lambda theta, std: Gaussian(theta, std=std), [-1.0]), "std = -1"),
        "equal values": (lambda: fit.vary(lambda theta, std: family(theta), [1.0, 1.0]), "different numbers"),
    }
    for attempt, says in cases.values():
        with pytest.raises((TypeError, ValueError), match=says):
            attempt()


def test_a_varied_family_is_a_table_a_figure_and_sliders(fit, tmp_path):
    varied = fit.vary(lambda theta, spread: Gaussian(theta, std=spread), [1.0, 0.5, 4.0], theta=THETA)
    assert_array_equal(varied.values, [0.5, 1.0, 4.0])
    assert_array_equal(varied.mean[1], fit.predict(THETA))
    assert_array_equal(varied.low[1], fit.interval(THETA)[0])
    frame = varied.to_frame()
    assert list(frame.columns) == ["spread", "theta", "mean", "lower", "upper", "unreached"]
    assert_allclose(frame["mean"][:7], np.exp(-0.125) * np.sin(THETA), atol=1e-4)
    assert np.all(varied.unreached[2] > 0.2)
    assert len(varied.plot().axes) == 1
    fit.report(tmp_path / "report.html", more=[varied])
    page = (tmp_path / "report.html").read_text()
    assert "What if spread were another one?" in page
    assert 'id="varied-spread-0"' in page


def test_a_family_varies_at_several_outputs_and_thetas_of_several_coordinates():
    def f(x, theta):
        return np.stack([theta[0] * x[:, 0], theta[1] + x[:, 0]], axis=1)

    prior = Uniform([0.0, 0.0], [1.0, 1.0])
    problem = cbq.Problem(f, lambda theta: Gamma(shape=2.0, rate=1.0), prior, names={"theta": ["a", "b"]})
    fit = cbq.MOBQ().fit(problem.collect(12, 6, rng=0, design="sobol"))
    varied = fit.vary(lambda theta, k: Gamma(shape=k, rate=1.0), [1.5, 2.0, 2.5])
    assert varied.mean.shape == (3, 12, 2)
    expected = np.stack([varied.theta[:, 0] * 2.5, varied.theta[:, 1] + 2.5], axis=1)
    assert_allclose(varied.mean[2], expected, atol=0.05)
    assert {"k", "a", "b", "mean_0", "unreached"} <= set(varied.to_frame().columns)
    assert len(varied.plot().axes) == 2
    assert "varied-k" in varied._section.body.html
