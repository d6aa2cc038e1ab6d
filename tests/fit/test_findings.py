"""Findings: what fits say about themselves, the warnings that they raise, and thetas beyond the observed ones."""

import itertools
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import cbq
from cbq.fit.findings import KINDS, REMARKS, Finding, _autocorrelation, chains, warn_of
from cbq.fit.thetas import beyond
from cbq.measures import Empirical, Gaussian, LogNormal, Uniform
from cbq.measures.points import sobol
from quiet import silent

RNG = np.random.default_rng(5)


def family(theta):
    return Gaussian(theta[0], 1.0)


def collected(T, N, p=1, prior=None, **options):
    prior = prior or Uniform(np.zeros(p), np.full(p, 3.0))
    problem = cbq.Problem(lambda x, theta: np.sin(x[:, 0]) + theta[0], family, prior)
    return problem.collect(T, N, rng=0, **options)


def caught(call):
    """The messages of all FitWarnings that a call raises."""
    with warnings.catch_warnings(record=True, action="always") as found:
        call()
    assert all(each.category is cbq.FitWarning and each.filename == __file__ for each in found)
    return [str(each.message) for each in found]


FIT = cbq.LSMC().fit(collected(12, 6))


# kinds


def test_every_kind_has_a_remedy_and_a_place_in_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "guide" / "warnings.md").read_text()
    assert re.findall(r"^## (.+)$", text, re.M) == [*KINDS]
    for kind, remedy in KINDS.items():
        assert re.fullmatch(r"[A-Z].*\.", remedy), kind
        assert remedy in " ".join(text.split()), kind
    assert set(KINDS) > REMARKS


def test_a_finding_is_of_a_known_kind_and_reads_as_its_text():
    assert str(Finding("noise", "f is random.")) == "f is random."
    with pytest.raises(ValueError, match=r"kind must be one of failures, .*, but it is 'odd'"):
        Finding("odd", "f is odd.")


def test_each_kind_is_one_warning_that_begins_with_it():
    found = [Finding("noise", "One."), Finding("tails", "Two."), Finding("noise", "Three.")]
    assert caught(lambda: warn_of(found)) == [f"noise: One. Three. {KINDS['noise']}", f"tails: Two. {KINDS['tails']}"]
    with warnings.catch_warnings(action="error"):
        warnings.filterwarnings("ignore", "(noise|tails):", cbq.FitWarning)
        warn_of(found)


def test_a_fit_warns_of_what_makes_intervals_doubtful_and_not_of_remarks():
    (few,) = caught(lambda: cbq.CBQ().fit(collected(3, 6)))
    assert few.startswith("few thetas: 3 thetas are too few to learn I elsewhere: for p = 1, 6 or more are needed.")
    sobol = cbq.MonteCarlo().fit(collected(3, 6, design="sobol"))
    assert [each.kind for each in sobol.findings] == ["design"]
    assert sobol.warnings[0] in sobol.summary()
    assert caught(lambda: cbq.MonteCarlo().fit(collected(3, 6, design="sobol"))) == []


def over_theta(of_theta, T=9, N=20):
    """Samples of an f whose I is a function of theta alone, which stage 1 integrates to many digits."""
    problem = cbq.Problem(
        lambda x, theta: np.sin(x[:, 0]) + of_theta(theta[0]), lambda theta: Gaussian(0.0, 1.0), Uniform(0.0, 3.0)
    )
    return problem.collect(N=N, theta=np.linspace(0.1, 2.9, T)[:, None], rng=0, design="sobol")


@pytest.mark.parametrize("estimator", [cbq.CBQ(), cbq.MOBQ(), cbq.Auto()], ids=["CBQ", "MOBQ", "Auto"])
def test_thetas_that_do_not_predict_each_other_are_found(estimator):
    unlike = over_theta(lambda theta: 5.0 * (-1.0) ** np.round(theta / 0.35))  # up and down from one theta to the next
    (text,) = caught(lambda: estimator.fit(unlike))
    assert text.startswith("few thetas: a theta that is left out is predicted from all others hardly better than by")
    for alike in (np.sin, lambda theta: 0.0, lambda theta: 1e9):
        assert estimator.fit(over_theta(alike)).learns_over_theta


def test_auto_says_once_what_the_fits_inside_it_find():
    assert [text.split(":")[0] for text in caught(lambda: cbq.Auto().fit(collected(4, 8)))] == ["few thetas"]


def test_a_comparison_warns_once_for_each_kind_and_names_the_methods():
    samples, methods = collected(5, 8), [cbq.LSMC(), cbq.KLSMC(), cbq.MonteCarlo()]
    found = []
    (text,) = caught(lambda: found.append(cbq.compare(samples, methods, lambda theta: theta[:, 0])))
    assert text.startswith("few thetas: LSMC, KLSMC: 5 thetas are")
    assert [row.note.endswith("warned of few thetas") for row in found[0].rows] == [True, True, False]


@pytest.mark.parametrize("estimator", [cbq.CBQ(), cbq.MOBQ(), cbq.LSMC()])
def test_saved_fits_keep_their_findings(tmp_path, estimator):
    chain = np.cumsum(RNG.normal(size=(4, 40)), axis=1)
    samples = cbq.Samples(np.arange(4.0), chain, np.sin(chain), Gaussian(0.0, cov=30.0), depends_on_theta=False)
    with silent():
        fit = estimator.fit(samples)
    assert "chains" in {each.kind for each in fit.findings}
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq")
    assert (again.findings, again.summary()) == (fit.findings, fit.summary())


# thetas beyond the observed ones


def drawn(kind, n, p, seed, design="iid"):
    prior = {
        "uniform": Uniform(np.zeros(p), np.full(p, 3.0)),
        "gaussian": Gaussian(np.zeros(p), np.ones(p)),
        "lognormal": LogNormal(np.zeros(p), np.ones(p)),
    }[kind]
    return prior.sample(n, seed) if design == "iid" else prior.transport(sobol(n, p, np.random.default_rng(seed)))


@pytest.mark.parametrize(("T", "p", "share"), [(8, 1, 0.05), (8, 6, 0.05), (50, 2, 0.005), (300, 1, 0.002)])
def test_fresh_thetas_are_rarely_beyond(T, p, share):
    for kind, design in itertools.product(["uniform", "gaussian", "lognormal"], ["iid", "sobol"]):
        pairs = [(drawn(kind, 200, p, 1000 + i), drawn(kind, T, p, i, design)) for i in range(50)]
        assert np.mean([beyond(*pair) for pair in pairs]) <= share


@pytest.mark.parametrize("p", [1, 2, 6])
@pytest.mark.parametrize("T", [15, 50])
def test_extrapolation_is_beyond(T, p):
    far = Uniform(np.full(p, 3.2), np.full(p, 6.0)).sample(100, 0)
    found = np.array([beyond(far, drawn("uniform", T, p, i)) for i in range(50)])
    assert np.mean(np.any(found, axis=1)) > 0.9
    assert np.mean(found) > 0.65


@pytest.mark.parametrize("kind", ["uniform", "gaussian", "lognormal"])
@pytest.mark.parametrize(("T", "p"), [(8, 1), (15, 2), (50, 6)])
def test_thetas_in_other_units_are_beyond(kind, T, p):
    found = np.array([beyond(100.0 * drawn(kind, 200, p, 1000 + i), drawn(kind, T, p, i)) for i in range(50)])
    assert np.mean(np.any(found, axis=1)) > 0.98
    assert np.mean(found) > 0.65


def fit_at(theta):
    x = np.tile([0.1, 0.2], (len(theta), 1))
    return cbq.MonteCarlo().fit(cbq.Samples(theta, x, x, Gaussian(0.0, 1.0)))


def test_all_but_a_single_theta_is_beyond_it():
    assert fit_at([0.3]).beyond([0.3, 0.1 + 0.2, 0.31, -5.0]).tolist() == [False, False, True, True]
    assert fit_at([0.3, 0.3]).beyond([0.3, 0.31]).tolist() == [False, True]


def test_a_coordinate_that_never_varied_says_nothing_about_other_values_of_it():
    theta = np.column_stack([np.linspace(0, 1, 9), np.full(9, 2.0)])
    assert fit_at(theta).beyond([[0.5, 2.0], [0.5, 2.5], [1.05, 2.0], [4.0, 2.0]]).tolist() == [
        False,
        True,
        False,
        True,
    ]


def test_the_observed_thetas_and_what_is_between_them_are_not_beyond():
    fit = fit_at(np.array([-50.0, 0.0, 1.0, 1.1, 1.2, 100.0]))
    assert not np.any(fit.beyond(np.linspace(-50, 100, 301)))


def test_extreme_thetas_are_compared_without_overflow():
    assert fit_at([1.0, 1.0 + 1e-12, 2.0]).beyond([1e150, -1e150, 1.5]).tolist() == [True, True, False]
    assert not np.any(fit_at([-1e150, 0.0, 1e150]).beyond([1e149, 1.0]))
    assert fit_at([[0.0, 1.0], [0.0, 2.0]]).beyond([[1e120, 1.5], [0.0, 1.5]]).tolist() == [True, False]


FAR = [1.0, 30.0, 40.0]
ASK = {
    "predict": lambda fit: fit.predict(FAR),
    "covariance": lambda fit: fit.predict(theta=FAR, return_cov=True),
    "interval": lambda fit: fit.interval(FAR),
    "sample": lambda fit: fit.sample(FAR, 3, rng=0),
    "band": lambda fit: fit.band(FAR, size=100),
    "table": lambda fit: fit.to_frame(FAR),
    "figure": lambda fit: fit.plot(FAR),
}


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
def test_each_question_warns_once_of_thetas_beyond(ask):
    (text,) = caught(lambda: ask(FIT))
    assert text.startswith("beyond: 2 of 3 thetas, such as theta = [30.], are beyond the observed ones")
    assert text.endswith(KINDS["beyond"])


def test_what_is_refused_is_not_warned_of():
    plain = cbq.MonteCarlo().fit(collected(8, 4))
    with pytest.raises(ValueError, match="predicts at the 8 observed thetas only"):
        plain.predict(FAR)


def test_default_tables_and_figures_are_within_the_observed_thetas():
    assert caught(lambda: (FIT.to_frame(), FIT.plot())) == []
    assert "beyond" not in FIT.to_frame().columns


def test_tables_mark_thetas_beyond():
    with silent():
        assert FIT.to_frame(FAR)["beyond"].tolist() == [False, True, True]


@pytest.mark.parametrize("p", [1, 2])
def test_figures_show_what_is_beyond(p):
    pytest.importorskip("matplotlib")
    with silent():
        fit = cbq.LSMC().fit(collected(12, 6, p))
        axis = np.linspace(0, 20, 15)
        figure = fit.plot(axis if p == 1 else np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2))
    if p == 1:
        assert "beyond the observed thetas" in [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        assert [each.get_hatch() for each in figure.axes[0].collections if each.get_hatch()] == ["xxx"]
    else:
        assert figure.get_supxlabel() == "orange crosses: thetas beyond the observed ones"


@pytest.mark.parametrize("method", ["mc", "bq"])
def test_nested_answers_warn_once_and_keep_the_warning(method):
    answers = []
    options = {"method": method, "n": 64, "rng": 0}
    (text,) = caught(lambda: answers.append(cbq.nested_expectation(FIT, np.square, Uniform(0.0, 30.0), **options)))
    assert text.startswith("beyond: ")
    assert answers[0].warnings[0] in text
    assert caught(lambda: cbq.nested_expectation(FIT, np.square, Uniform(0.0, 3.0), **options)) == []


# chains


def as_samples(x, f=None, measure=None, **options):
    T = len(x)
    return cbq.Samples(np.arange(T), x, np.sin(x[..., 0]) if f is None else f, measure or wide(x.shape[-1]), **options)


def wide(d):
    return Gaussian(np.zeros(d), cov=np.full(d, 100.0))


def test_the_variance_over_all_orders_is_that_of_all_orders():
    z = RNG.normal(size=(6, 3))
    z -= np.mean(z, axis=0)
    G, N = z @ z.T, 6
    sums = [sum(G[a, b] for a, b in itertools.pairwise(order)) for order in itertools.permutations(range(N))]
    pairs, total = N * (N - 1), np.trace(G)
    g = G + total / pairs
    np.fill_diagonal(g, 0.0)
    squares, chained = np.sum(g**2), np.sum(np.sum(g, axis=1) ** 2) - np.sum(g**2)
    np.testing.assert_allclose(np.mean(sums), -(N - 1) * total / pairs)
    np.testing.assert_allclose(np.var(sums), ((N - 3) * squares - 2 * chained) / pairs)
    slow = np.sin(np.linspace(0, 3 * np.pi, 200))
    assert _autocorrelation([slow - np.mean(slow)]) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(("T", "N", "d", "rho"), [(1, 200, 1, 0.6), (15, 40, 1, 0.8), (10, 40, 3, 0.9)])
def test_correlated_points_that_are_said_to_be_iid_are_found(T, N, d, rho):
    x = RNG.normal(size=(T, N, d))
    for i in range(1, N):
        x[:, i] = rho * x[:, i - 1] + np.sqrt(1 - rho**2) * x[:, i]
    (found,) = chains(as_samples(x))
    assert re.fullmatch(r"the points .* autocorrelation of 0\.\d\d, but the design is 'iid'\.", found.text)
    assert chains(as_samples(x, design="mcmc")) == ()


def test_rejected_proposals_are_found():
    x = np.repeat(RNG.normal(size=(2, 8, 1)), [1, 3, 1, 2, 1, 1, 2, 1], axis=1)
    (found,) = chains(as_samples(x))
    assert found.text.startswith("8 of 24 points repeat the one before them, as in a Markov chain")


INNOCENT = {
    "iid": lambda rng: rng.normal(size=(10, 30, 2)),
    "heavy tails": lambda rng: np.clip(rng.standard_cauchy((10, 30, 1)), -1e3, 1e3),
    "the same random numbers at all thetas": lambda rng: rng.normal(size=(1, 10, 2)) * np.arange(1, 40)[:, None, None],
    "one theta": lambda rng: rng.normal(size=(1, 12, 1)),
    "few values": lambda rng: rng.integers(0, 3, (10, 30, 1)) + rng.integers(0, 5, (10, 30, 2)) / 7,
}


@pytest.mark.parametrize("make", INNOCENT.values(), ids=INNOCENT)
def test_points_in_random_order_are_no_chain(make):
    rng = np.random.default_rng(11)
    assert not any(chains(as_samples(make(rng))) for _ in range(100))


def test_sorted_points_grids_and_replicates_are_no_chain():
    x = np.sort(RNG.normal(size=(10, 40, 1)), axis=1)
    assert chains(as_samples(x)) == chains(as_samples(x[:, ::-1])) == ()
    mesh = np.stack(np.meshgrid(np.linspace(0, 1, 7), np.linspace(0, 1, 6)), axis=-1).reshape(1, -1, 2)
    assert chains(as_samples(np.repeat(mesh, 5, axis=0))) == ()
    x = np.repeat(RNG.normal(size=(10, 12, 1)), 4, axis=1)
    assert chains(as_samples(x, RNG.normal(size=(10, 48)))) == ()
    atoms = Empirical(np.arange(3.0)[:, None])
    assert chains(as_samples(RNG.integers(0, 3, (10, 30, 1)).astype(float), measure=atoms)) == ()


# few thetas, few points


def kinds(fit, samples):
    return {text.split(":")[0] for text in caught(lambda: fit(samples))}


@pytest.mark.parametrize(("T", "p", "few"), [(5, 1, True), (6, 1, False), (11, 2, True), (12, 2, False)])
def test_few_thetas_are_found_by_estimators_that_interpolate(T, p, few):
    samples = collected(T, 8, p)
    expected = {"few thetas"} if few else set()
    assert kinds(cbq.CBQ().fit, samples) == kinds(cbq.KLSMC().fit, samples) == expected
    assert kinds(cbq.MonteCarlo().fit, samples) == set()


def test_equal_thetas_count_once():
    samples = collected(5, 8)
    assert kinds(cbq.CBQ().fit, samples.select([0, 1, 2, 3, 4, 0, 1, 2])) == {"few thetas"}


def high_dimensional(T, N, d):
    x = RNG.normal(size=(T, N, d))
    measure = Gaussian(np.zeros(d), np.ones(d))
    return cbq.Samples(
        np.linspace(0, 1, T), x, np.sum(np.sin(x), axis=2), lambda theta: measure, depends_on_theta=False
    )


def test_few_points_for_many_inputs_are_found_where_f_is_learnt():
    samples = high_dimensional(8, 4, 5)
    assert kinds(cbq.CBQ().fit, samples) == {"few points"}
    assert kinds(cbq.LSMC().fit, samples) == set()
    assert "few points" not in kinds(cbq.CBQ(borrow=30).fit, samples)
    assert "few points" not in kinds(cbq.CBQ().fit, high_dimensional(8, 7, 5))
    assert "few points" in kinds(cbq.MOBQ().fit, high_dimensional(3, 8, 5))
    assert "few points" not in kinds(cbq.MOBQ().fit, high_dimensional(3, 9, 5))


# bands

GRID = np.linspace(0.2, 2.8, 25)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_a_band_holds_whole_curves_at_its_level(level):
    fit = cbq.CBQ().fit(collected(12, 6))
    low, high = fit.band(GRID, level, size=4000)
    curves = fit.sample(GRID, 4000, rng=1)
    inside = np.mean(np.all((low <= curves) & (curves <= high), axis=1))
    assert abs(inside - level) < 5 * np.sqrt(2 * level * (1 - level) / 4000)
    a, b = fit.interval(GRID, level)
    assert np.all(low < a)
    assert np.all(b < high)


def test_a_band_at_one_theta_is_its_interval_and_is_the_same_every_time():
    band, interval = FIT.band([1.5], size=20_000), FIT.interval([1.5])
    np.testing.assert_allclose(np.diff(band, axis=0), np.diff(interval, axis=0), rtol=0.05)
    np.testing.assert_array_equal(FIT.band(GRID), FIT.band(GRID))
    assert np.any(np.array(FIT.band(GRID)) != FIT.band(GRID, rng=1))


def test_each_output_has_a_band_of_its_own():
    samples = collected(12, 6)
    two = cbq.LSMC(degree=1, ridge=0.0).fit(
        samples.with_values(np.stack([samples.f, 100.0 * np.cos(samples.f)], axis=2))
    )
    low, high = two.band(GRID)
    assert low.shape == high.shape == (25, 2)
    curves = two.sample(GRID, 4000, rng=1)
    inside = np.mean(np.all((low <= curves) & (curves <= high), axis=1), axis=0)
    assert np.all(np.abs(inside - 0.95) < 0.02)


def test_a_band_is_finite_where_variances_are_not():
    fit = cbq.MonteCarlo().fit(collected(6, 2))
    assert np.all(np.isinf(fit.predict(fit.theta, return_std=True)[1]))
    low, high = fit.band(fit.theta)
    a, b = fit.interval(fit.theta)
    assert np.all(np.isfinite(high - low))
    assert np.all((low <= a) & (b <= high))
    assert np.mean(high - low) > 2 * np.mean(b - a)  # six independent values with tails as those of Cauchy's


def test_a_band_without_standard_errors_is_refused():
    with silent():
        fit = cbq.MonteCarlo().fit(collected(6, 1))
    with pytest.raises(ValueError, match="no standard error"):
        fit.band(fit.theta)


@pytest.mark.parametrize("size", [0, 99, 200.5, "many"])
def test_a_band_needs_some_draws(size):
    with pytest.raises(ValueError, match="size must be a whole number of draws, 100 or more, but it is"):
        FIT.band(GRID, size=size)


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
def test_values_that_are_known_have_a_band_without_width():
    """An output that is constant beside another is meant to be so; where all values are equal, others may exist."""
    x = RNG.normal(size=(8, 5))
    f = np.stack([x, np.ones((8, 5))], axis=-1)
    fit = cbq.MonteCarlo().fit(cbq.Samples(np.arange(8.0), x, f, Gaussian(0.0, 1.0)))
    np.testing.assert_array_equal(np.stack(fit.band(fit.theta))[..., 1], np.ones((2, 8)))
    alone = cbq.MonteCarlo().fit(cbq.Samples(np.arange(8.0), x, np.ones((8, 5)), Gaussian(0.0, 1.0)))
    np.testing.assert_array_equal(alone.band(alone.theta), [[-np.inf] * 8, [np.inf] * 8])


def test_figures_draw_bands():
    pytest.importorskip("matplotlib")
    (ax,) = FIT.plot(GRID, band=True).axes
    dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
    np.testing.assert_array_equal([line.get_ydata() for line in dotted], FIT.band(GRID))
    assert "95% band" in [text.get_text() for text in ax.get_legend().get_texts()]
    with silent():
        fit = cbq.LSMC().fit(collected(12, 6, 2))
    with pytest.raises(ValueError, match="band=True draws lines, for p = 1, but this fit has p = 2"):
        fit.plot(band=True)
