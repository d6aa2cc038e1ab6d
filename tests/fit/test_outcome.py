"""The distribution of f(X, theta): against formulas, brute force on f itself, and between its own answers."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, norm

import cbq
from cbq.measures import Binomial, Gaussian, Uniform

THETA = np.array([[-0.5], [0.4]])
Q = [0.05, 0.5, 0.9]


def shifted(f=lambda x: 2.0 * x[:, 0] + 1.0, **options):
    """f of x ~ N(theta, 0.7^2)."""
    return cbq.Problem(
        lambda x, theta: f(x),
        lambda theta: Gaussian(theta, cov=0.49),
        Uniform(-1.0, 1.0),
        depends_on_theta=False,
        **options,
    )


@pytest.fixture(scope="module")
def fit():
    """A fit of f = 2 x + 1, which is N(2 theta + 1, 1.4^2)."""
    return cbq.MOBQ().fit(shifted().collect(8, 8, rng=0, design="sobol"))


@pytest.fixture(scope="module")
def outcome(fit):
    return fit.outcome(THETA)


def exact():
    return norm(2 * THETA + 1, 1.4)  # (2, 1), which broadcasts against K values


def test_probabilities_quantiles_and_moments_are_those_of_a_gaussian(outcome):
    c = np.array([-1.0, 0.5, 3.0])
    assert_allclose(outcome.cdf(c), exact().cdf(c), atol=2e-4)
    assert_allclose(outcome.sf(c), exact().sf(c), atol=2e-4)
    assert_allclose(outcome.ppf(Q), exact().ppf(Q), atol=2e-3)
    assert_allclose(outcome.std(), 1.4, rtol=2e-3)
    assert_allclose(outcome.var(), 1.96, rtol=4e-3)
    z = norm.ppf(0.9)
    shortfall = (2 * THETA[:, 0] + 1) + 1.4 * norm.pdf(z) / 0.1
    assert_allclose(outcome.expected_shortfall(0.9), shortfall, rtol=5e-3)
    assert_allclose(np.transpose(outcome.interval(0.8)), exact().ppf([0.1, 0.9]), atol=3e-3)


def test_the_mean_is_the_integral(fit, outcome):
    assert_array_equal(outcome.mean(), fit.predict(THETA))
    assert_array_equal(outcome.mean(level=0.9)[1:], fit.interval(THETA, 0.9))


def test_quantiles_invert_probabilities(outcome):
    assert_allclose(outcome.cdf(outcome.ppf(0.3)[0])[0], 0.3, atol=1e-9)
    assert_allclose(outcome.sf(1.0) + outcome.cdf(1.0), 1.0, atol=1e-15)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_hold_their_estimates_and_grow_with_the_level(outcome, level):
    for triple in (outcome.cdf([0.0, 2.0], level), outcome.ppf(Q, level), outcome.std(level), outcome.sf(1.0, level)):
        estimate, low, high = triple
        assert np.all((low <= estimate) & (estimate <= high))
    _, low, high = outcome.expected_shortfall(0.8, level)
    _, lower, higher = outcome.expected_shortfall(0.8, 0.99)
    assert np.all(higher - lower > high - low)


def test_few_runs_have_wide_intervals_that_hold_the_truth():
    f = lambda x: np.exp(x[:, 0]) + np.sin(5 * x[:, 0])  # noqa: E731
    x = THETA[:, :1] + 0.7 * norm.ppf((np.arange(10**6) + 0.5) / 10**6)
    truth = np.array([np.mean(f(row[:, None]) > 2.0) for row in x])
    held = []
    for seed in range(4):
        few, many = (cbq.MOBQ().fit(shifted(f).collect(T, 4, rng=seed, design="sobol")) for T in (4, 20))
        (_, low, high), (_, lower, higher) = (each.outcome(THETA).sf(2.0, level=0.95) for each in (few, many))
        held += [(low <= truth) & (truth <= high), (lower <= truth) & (truth <= higher)]
        assert np.all(higher - lower < high - low)
    assert np.mean(held) > 0.8  # 3 of 16 misses have a probability of 0.04 at 95%


def test_discrete_measures_are_summed_over_their_atoms():
    problem = cbq.Problem(
        lambda x, theta: x[:, 0] ** 2, lambda theta: Binomial(6, theta[0]), Uniform(0.2, 0.8), depends_on_theta=False
    )
    outcome = cbq.MOBQ().fit(problem.collect(6, 6, rng=0)).outcome([0.3, 0.6])
    c = np.array([2.5, 12.5])  # between the values 0, 1, 4, 9, 16, ...
    expected = binom(6, np.array([[0.3], [0.6]])).cdf([1, 3])
    assert_allclose(outcome.cdf(c), expected, atol=1e-6)


def test_values_of_runs_at_atoms_are_exact():
    """x^2 is learnt but for rounding, and no probability depends on that: each atom has a run."""
    atoms = cbq.measures.Empirical(np.arange(4.0)[:, None], [0.1, 0.2, 0.3, 0.4])
    problem = cbq.Problem(
        lambda x, theta: x[:, 0] ** 2, lambda theta: atoms, Uniform(-1.0, 1.0), depends_on_theta=False
    )
    outcome = cbq.MOBQ().fit(problem.collect(10, 4, rng=0)).outcome([0.0])
    for found in outcome.cdf([0.0, 1.0, 4.0, 8.99, 9.0], level=0.95):
        assert_allclose(found[0], [0.1, 0.3, 0.6, 0.6, 1.0], rtol=1e-12)
    for found in outcome.ppf([0.05, 0.2, 0.5, 0.7], level=0.95):
        assert_allclose(found[0], [0.0, 1.0, 4.0, 9.0], atol=1e-12)


def test_values_far_from_zero_have_their_standard_deviation():
    problem = shifted(lambda x: 1e12 + 2.0 * x[:, 0])
    found = cbq.MOBQ().fit(problem.collect(8, 8, rng=0, design="sobol")).outcome(THETA).std()
    assert_allclose(found, 1.4, rtol=5e-3)


def test_the_spread_of_a_skewed_f_has_an_interval_above_zero():
    """Few points decide the variance of a lognormal: its interval is wide, and reaches further up than down."""
    problem = shifted(lambda x: np.exp(2.0 * x[:, 0]))  # 1.4 standard normal
    outcome = cbq.MOBQ().fit(problem.collect(10, 10, rng=0, design="sobol")).outcome([0.0], size=2**12)
    with pytest.warns(cbq.FitWarning, match="tails: .* of the variance of f at theta"):
        std, low, high = (found[0] for found in outcome.std(level=0.95))
    assert 0 < low < std < high
    assert low <= np.sqrt((np.exp(1.96) - 1) * np.exp(1.96)) <= high
    assert high - std > std - low


def of_a_tail(f, family, **options):
    """The outcome at theta = 0 of 128 runs."""
    problem = cbq.Problem(lambda x, theta: f(x[:, 0]), family, Uniform(-0.5, 0.5), depends_on_theta=False)
    return cbq.MOBQ().fit(problem.collect(16, 8, rng=0, **{"design": "sobol"} | options)).outcome([0.0])


@pytest.mark.parametrize(
    ("f", "family"),
    [
        (lambda x: np.exp(2.5 * x), lambda theta: Gaussian(theta, 1.0)),
        (lambda x: x**2, lambda theta: cbq.measures.LogNormal(theta, 1.0)),
        (lambda x: np.exp(0.45 * x), lambda theta: cbq.measures.Gamma(1.0, 1.0 + 0.0 * theta[0])),
        (lambda x: x**2, lambda theta: cbq.measures.StudentT(5.0, theta[0], 1.0)),
    ],
)
@pytest.mark.parametrize("design", ["sobol", "iid"])
def test_a_variance_that_the_runs_do_not_show_is_a_warning(f, family, design):
    outcome = of_a_tail(f, family, design=design)
    with pytest.warns(cbq.FitWarning, match="^tails: "):
        outcome.std()
    with pytest.warns(cbq.FitWarning, match="^tails: "):
        outcome.var(level=0.9)


def test_far_quantiles_of_heavy_tails_are_a_warning_and_the_middle_is_none():
    outcome = of_a_tail(lambda x: np.exp(2.5 * x), lambda theta: Gaussian(theta, 1.0))
    for far in (lambda: outcome.ppf([0.5, 0.999]), lambda: outcome.expected_shortfall(0.99)):
        with pytest.warns(cbq.FitWarning, match="^tails: "):
            far()
    assert outcome.ppf(0.5)[0] == pytest.approx(1.0, rel=0.01)
    outcome.interval(0.5)
    outcome.cdf(1.0)


@pytest.mark.parametrize(
    ("f", "family"),
    [
        (lambda x: x**2, lambda theta: Gaussian(theta, 1.0)),
        (lambda x: np.exp(0.5 * x) + np.sin(x), lambda theta: Gaussian(theta, 1.0)),
        (lambda x: x, lambda theta: cbq.measures.StudentT(5.0, theta[0], 1.0)),
        (lambda x: x**4, lambda theta: Uniform(theta - 1.0, theta + 1.0)),
    ],
)
def test_tails_that_the_runs_show_are_no_warning(f, family):
    outcome = of_a_tail(f, family)
    assert np.all(outcome.std() > 0)
    assert np.all(np.isfinite(outcome.expected_shortfall([0.5, 0.99])))


def test_the_square_of_a_linear_function_of_a_power_tail_has_no_finite_variance():
    with warnings.catch_warnings(action="ignore", category=cbq.FitWarning):  # too few runs to see the growth of f
        outcome = of_a_tail(lambda x: x, lambda theta: cbq.measures.StudentT(3.0, theta[0], 1.0))
    with pytest.warns(cbq.FitWarning, match=r"tails: f grows about as \|x\|\^1, .* the square of f has no finite"):
        outcome.std()


def test_outputs_have_distributions_of_their_own_and_events_concern_them_jointly():
    problem = cbq.Problem(
        lambda x, theta: np.column_stack([x[:, 0], -2.0 * x[:, 0]]),
        lambda theta: Gaussian(theta, 1.0),
        Uniform(-1.0, 1.0),
        depends_on_theta=False,
        names={"f": ["up", "down"]},
    )
    outcome = cbq.MOBQ().fit(problem.collect(8, 8, rng=0, design="sobol")).outcome([0.0, 0.5])
    assert outcome.cdf(0.0).shape == (2, 2)
    assert outcome.ppf(Q).shape == (2, 3, 2)
    assert outcome.ppf(Q, level=0.9)[2].shape == (2, 3, 2)
    both = outcome.probability(lambda f: (f[:, 0] > 0) & (f[:, 1] < -1.0))  # x > 0.5
    assert_allclose(both, norm.sf(0.5 - np.array([0.0, 0.5])), atol=5e-3)
    estimate, low, high = outcome.probability(lambda f: (f[:, 0] > 0) & (f[:, 1] > 0), level=0.9)
    assert_allclose(estimate, 0.0, atol=2e-3)
    assert np.all((low >= 0) & (high <= 1))
    assert any("up" in column for column in outcome.to_frame([0.5]).columns)


def test_a_random_f_has_outcomes_of_runs_and_of_means():
    problem = cbq.Problem(
        lambda x, theta, rng: x[:, 0] + 0.5 * rng.standard_normal(len(x)),
        lambda theta: Gaussian(theta, cov=0.25),
        Uniform(-1.0, 1.0),
        depends_on_theta=False,
        stochastic=True,
    )
    fit = cbq.MOBQ().fit(problem.collect(12, 25, rng=0))
    run, mean = (fit.outcome([0.0], of=of).std() for of in ("run", "mean"))
    assert_allclose(run, np.sqrt(0.5), rtol=0.1)
    assert_allclose(mean, 0.5, rtol=0.15)
    assert "of single runs" in repr(fit.outcome([0.0]))


def test_bounds_of_f_bound_its_outcomes():
    problem = shifted(lambda x: np.clip(x[:, 0], 0.0, 1.0), bounds=(0.0, 1.0))
    outcome = cbq.MOBQ().fit(problem.collect(8, 10, rng=0, design="sobol")).outcome(THETA)
    assert_array_equal(outcome.cdf([-0.1, 1.0]), [[0.0, 1.0]] * 2)
    assert np.all(outcome.ppf([0.001, 0.999], level=0.95)[0] <= 1.0)
    assert np.all(outcome.ppf([0.001, 0.999]) >= 0.0)
    clipped = np.clip(THETA + 0.7 * norm.ppf((np.arange(10_000) + 0.5) / 10_000), 0.0, 1.0)
    assert_allclose(outcome.std(), np.std(clipped, axis=1), atol=5e-3)


def test_results_do_not_depend_on_what_was_asked_before(fit):
    one, other = fit.outcome(THETA), fit.outcome(THETA)
    one.ppf(0.5, level=0.9)
    assert_array_equal(one.sf(1.0, level=0.9), other.sf(1.0, level=0.9))
    other._kept.clear()
    assert_array_equal(one.sf(1.0, level=0.9), other.sf(1.0, level=0.9))


def test_saved_fits_have_the_same_outcomes(fit, outcome, tmp_path):
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq", family=lambda theta: Gaussian(theta, cov=0.49))
    assert_array_equal(again.outcome(THETA).cdf(0.5), outcome.cdf(0.5))


def test_many_thetas_are_interpolated_within_the_error_of_their_points(fit):
    theta = np.linspace(-1.0, 1.0, 400)[:, None]
    calls = []
    outcome = fit.outcome(theta, progress=lambda done, total: calls.append(done))
    c = np.array([-1.0, 1.0, 4.0])
    truth = norm(2 * theta + 1, 1.4).cdf(c)
    assert_allclose(outcome.cdf(c), truth, atol=2e-3)
    assert len(calls) < 60  # thetas that were computed
    assert calls[-1] == 400
    assert_allclose(outcome.ppf(0.9), norm(2 * theta[:, 0] + 1, 1.4).ppf(0.9), atol=0.02)
    _, low, high = outcome.cdf(c, level=0.95)
    assert np.mean((low <= truth) & (truth <= high)) > 0.9
    assert_allclose(outcome.std(), 1.4, rtol=5e-3)


def test_thetas_are_all_computed_where_interpolation_fails():
    """The measure jumps at every other theta, so that no theta foresees its neighbours."""

    def family(theta):
        return Gaussian(theta[0] + (round(1000 * theta[0]) % 2), cov=0.01)

    problem = cbq.Problem(lambda x, theta: x[:, 0], family, Uniform(0.0, 1.0), depends_on_theta=False)
    theta = np.arange(0, 120) / 1000
    outcome = cbq.MOBQ().fit(problem.collect(8, 8, rng=0, design="sobol")).outcome(theta, size=512)
    truth = norm(theta + np.arange(120) % 2, 0.1).cdf(0.5)
    assert_allclose(outcome.cdf(0.5), truth, atol=0.01)


def test_equal_thetas_have_equal_answers(fit):
    answers = fit.outcome([0.3, -0.2, 0.3]).sf([0.0, 1.0], level=0.9)
    for each in answers:
        assert_array_equal(each[0], each[2])


def test_values_that_many_runs_share_are_met_exactly():
    """max(x, 0) is zero with probability Phi(-theta / 0.7), which no smoothing splits in half."""
    problem = shifted(lambda x: np.maximum(x[:, 0], 0.0))
    outcome = cbq.MOBQ().fit(problem.collect(10, 10, rng=0, design="sobol")).outcome(THETA)
    truth = norm.cdf(-THETA[:, 0] / 0.7)
    estimate, low, high = outcome.cdf(0.0, level=0.95)
    assert_allclose(estimate, truth, atol=0.02)
    assert np.all((low <= truth) & (truth <= high))


def test_draws_reach_the_ends_of_f(outcome):
    """The points at which f is drawn hold both extremes of f, with weights that keep the measure."""
    values = outcome._values(0)
    rows, weights = values.drawn
    mean = values.whole[0].mean
    assert np.min(mean[rows]) == np.min(mean)
    assert np.max(mean[rows]) == np.max(mean)
    assert 1000 < len(rows) < 2100
    weights = weights / np.sum(weights)
    for c in norm(2 * THETA[0, 0] + 1, 1.4).ppf([1e-3, 0.1, 0.5, 0.999]):
        share = np.mean(mean <= c)
        assert_allclose(weights @ (mean[rows] <= c), share, rtol=0.25, atol=5e-3 * min(share, 1 - share))


def test_events_that_no_draw_meets_have_an_interval(outcome):
    estimate, low, high = outcome.probability(lambda f: f > 1e6, level=0.95)
    assert_array_equal(estimate, 0.0)
    assert_array_equal(low, 0.0)
    assert np.all((high > 0) & (high < 1e-3))
    estimate, low, high = outcome.probability(lambda f: f < 1e6, level=0.95)
    assert_array_equal(estimate, 1.0)
    assert np.all((low < 1) & (low > 0.999) & (high == 1))


def test_an_outcome_is_a_table_with_a_figure_and_a_page(outcome, tmp_path):
    columns = outcome.to_columns([0.1, 0.9])
    assert list(columns) == ["theta", "mean", "std", "q10", "q90"]
    outcome.to_csv(tmp_path / "outcome.csv")
    assert len((tmp_path / "outcome.csv").read_text().splitlines()) == 3
    assert "q50" in outcome._repr_html_()
    assert len(outcome.plot().axes) == 3
    outcome.report(tmp_path / "outcome.html", repeat="fit.outcome(theta)")
    page = (tmp_path / "outcome.html").read_text()
    assert "exceeds c" in page
    assert page.count('type="range"') == 2  # theta and c


def test_figures_of_one_theta_and_of_several_coordinates(fit):
    assert len(fit.outcome([0.2]).plot().axes) == 2
    problem = cbq.Problem(
        lambda x, theta: np.column_stack([x[:, 0] + theta[1], x[:, 0] ** 2]),
        lambda theta: Gaussian([theta[0]], cov=[1.0]),
        Uniform([0.0, 0.0], [1.0, 1.0]),
    )
    outcome = cbq.MOBQ().fit(problem.collect(12, 4, rng=0)).outcome(problem.prior.sample(3, 0), size=512)
    assert len(outcome.plot().axes) == 6


def test_families_that_are_known_at_the_observed_thetas_only_are_named(fit):
    samples = fit.samples
    known = cbq.Samples(samples.theta, samples.x, samples.f, samples.measures, depends_on_theta=False)
    other = cbq.MOBQ().fit(known)
    assert_allclose(other.outcome(samples.theta[:2]).cdf(0.5), fit.outcome(samples.theta[:2]).cdf(0.5), atol=1e-3)
    with pytest.raises(ValueError, match="not known at theta"):
        other.outcome([[0.123]])


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda o: o.ppf(1.0), "q must be between 0 and 1"),
        (lambda o: o.ppf(0.0), "q must be between 0 and 1"),
        (lambda o: o.ppf(np.nan), "q must be finite"),
        (lambda o: o.ppf([[0.5]]), r"q must be a number or \(K,\).*shape \(1, 1\)"),
        (lambda o: o.expected_shortfall(-0.1), "q must be between 0 and 1"),
        (lambda o: o.interval(1.0), "share must lie between 0 and 1"),
        (lambda o: o.sf([0.0, np.nan]), "c must be finite, but 1 of its 2 values"),
        (lambda o: o.to_frame(1.5), "quantiles must be between 0 and 1"),
        (lambda o: o.probability(lambda f: f[:0] > 0), "event must return a boolean for each of"),
        (lambda o: o.fit.outcome(np.empty((0, 1))), "theta"),
        (lambda o: o.fit.outcome(np.nan), "theta"),
        (lambda o: o.fit.outcome(THETA, options=3), "options must be cbq.fit.OutcomeOptions"),
        (lambda o: o.fit.outcome(THETA, progress=3), "progress"),
        (lambda o: cbq.fit.OutcomeOptions(draws=3), "draws must be a whole number, 100 or more"),
        (lambda o: cbq.fit.OutcomeOptions(blocks=1), "blocks must be a whole number, 2 or more"),
        (lambda o: cbq.fit.Interpolation(tolerance=-1.0), "tolerance must be a number"),
        (lambda o: o.cdf(np.nan), "c must be finite"),
        (lambda o: o.cdf(0.0, level=1.5), "level"),
        (lambda o: o.probability(lambda f: f), "event must return a boolean"),
        (lambda o: o.probability(3), "event must be a function"),
        (lambda o: o.fit.outcome(THETA, size=10), "size"),
        (lambda o: o.fit.outcome(THETA, of="both"), "of"),
    ],
)
def test_what_cannot_be_answered_is_refused(outcome, ask, words):
    with pytest.raises((ValueError, TypeError), match=words):
        ask(outcome)


@pytest.mark.parametrize("estimator", [cbq.LSMC(), cbq.CBQ()])
def test_fits_without_a_model_of_f_say_so(estimator, fit):
    other = estimator.fit(fit.samples)
    with pytest.raises(ValueError, match=r"no model of f itself.*fit cbq.MOBQ\(\)"):
        other.outcome(THETA)
    with pytest.raises(ValueError, match="no emulator"):
        _ = other.emulator


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: np.where(x[:, 0] > 0.5, 1.0, 0.0), r"all of its values are 0 or 1: fit cbq.LatentBQ\(\)"),
        (lambda x: np.ones(len(x)), "all of its values are equal"),
    ],
)
def test_events_and_constants_have_no_outcome(f, words):
    with warnings.catch_warnings(action="ignore", category=cbq.FitWarning):
        fit = cbq.MOBQ().fit(shifted(f, bounds=(0.0, 2.0)).collect(40, 1, rng=0))
    with pytest.raises(ValueError, match=words):
        fit.outcome(THETA)


def test_a_theta_of_zero_is_answered_unless_the_best_kernel_takes_its_logarithm():
    problem = cbq.Problem(
        lambda x, theta: 100 * np.exp(0.3 * x[:, 0] - theta[0]) * (1 + 0.2 * x[:, 1] ** 2),
        lambda theta: Gaussian([0.0, 0.0], cov=[1.0, 1.0]),
        Uniform(0.0, 1.0),
    )
    fit = cbq.MOBQ().fit(problem.collect(T=12, N=8, rng=0, design="sobol"))  # all observed thetas are positive
    _, low, high = fit.outcome([0.0]).mean(level=0.95)
    true = 100 * np.exp(0.045) * 1.2
    assert low[0] <= true <= high[0]
    logs = cbq.MOBQ(kernel_theta=cbq.kernels.Warped(cbq.kernels.RBF(), "log")).fit(fit.samples)
    with pytest.raises(ValueError, match="theta must be positive"):
        logs.outcome([0.0]).sf(100.0)
