"""Facts that arrays of samples do not show: points at which f failed, and findings from making samples."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import cbq
from cbq.estimators.base import registrations
from cbq.fit.findings import KINDS
from cbq.measures import Gaussian, Uniform
from cbq.samples import Failures
from cbq.samples.findings import KINDS as CARRIED
from quiet import silent

PRIOR = Uniform(0.0, 2.0)


def f(x, theta):
    return np.where(x[:, 0] > 2.5, np.nan, x[:, 0] ** 2)


def problem(integrand=f, **options):
    return cbq.Problem(integrand, lambda theta: Gaussian(theta[0], 1.0), PRIOR, depends_on_theta=False, **options)


WHOLE = problem(lambda x, theta: x[:, 0] ** 2).collect(12, 20, rng=0)
FAILED = WHOLE.x[..., 0] > 2.5  # (T, N)


def collected(**options):
    with pytest.warns(cbq.CollectWarning, match="left out, which biases estimates"):
        return problem().collect(12, 20, rng=0, on_error="skip", **options)


SAMPLES = collected()
CONDITIONAL = "I is conditional on"


def fitted(estimator, samples=SAMPLES):
    with pytest.warns(cbq.FitWarning, match=CONDITIONAL):
        return estimator.fit(samples)


# samples


def check(failures):
    assert failures.n_drawn == 240
    np.testing.assert_array_equal(failures.theta, WHOLE.theta)
    np.testing.assert_array_equal(failures.shares, np.mean(FAILED, axis=1))
    np.testing.assert_array_equal(failures.x, WHOLE.x[FAILED])
    assert failures.share == np.mean(FAILED)
    assert (failures.lowest, failures.highest) == (WHOLE.x.min(), WHOLE.x.max())


def test_samples_hold_the_points_at_which_f_failed(tmp_path):
    assert 0.02 < np.mean(FAILED) < 0.5
    check(SAMPLES.failures)
    path = tmp_path / "run.sqlite"
    check(collected(checkpoint=path).failures)
    check(cbq.Samples.from_checkpoint(path).failures)
    values = {"x": [x[~bad] for x, bad in zip(WHOLE.x, FAILED, strict=True)]}
    values |= {"f": [each[~bad] for each, bad in zip(WHOLE.f, FAILED, strict=True)]}
    failed = [x[bad, 0] for x, bad in zip(WHOLE.x, FAILED, strict=True)]
    check(cbq.Samples(WHOLE.theta, **values, measure=WHOLE.family, failed=failed).failures)


def test_the_points_of_a_table_are_passed_beside_it():
    failed = [WHOLE.x[t][FAILED[t], 0] for t in range(12)]
    s = cbq.Samples.from_frame(SAMPLES.to_columns(), SAMPLES.family, failed=failed)
    check(s.failures)
    assert f"failed={np.sum(FAILED)}" in repr(s)


def test_samples_without_failures_have_none():
    assert WHOLE.failures is None
    assert cbq.Samples(WHOLE.theta, WHOLE.x, WHOLE.f, WHOLE.family, failed=[[]] * 12).failures is None


def test_a_theta_at_which_f_always_fails_counts():
    def fails(x, theta):
        return np.full(len(x), np.nan) if theta[0] == WHOLE.theta[3, 0] else x[:, 0]

    with pytest.warns(cbq.CollectWarning):
        s = problem(fails).collect(12, 20, rng=0, on_error="skip")
    assert s.T == 11
    assert s.failures.shares.tolist() == [0.0] * 3 + [1.0] + [0.0] * 8
    assert s.failures.position.tolist() == [0, 1, 2, -1, *range(3, 11)]
    assert s.failures.share == 1 / 12
    for part in (s.select(slice(None)), s.select([0, 5]).select([1])):  # nobody else would remember it
        assert WHOLE.theta[3, 0] in part.failures.theta
        assert len(part.failures.x) == 20


def test_equal_thetas_and_thinned_samples_are_counted_once():
    theta, x = np.array([[0.0], [0.0], [1.0]]), np.arange(15.0).reshape(3, 5)
    s = cbq.Samples(theta, x, x, Gaussian(0.0, cov=9.0), failed=[[1.0] * 5, [2.0] * 3, []])
    assert (s.failures.n_drawn, len(s.failures.x)) == (23, 8)
    for part in (s.select([0, 2]), s.thinned(2).select([0, 2])):
        assert (part.failures.n_drawn, part.failures.x.ravel().tolist()) == (15, [1.0] * 5)
        assert part.failures.position.tolist() == [0, 1]


def test_failures_of_selected_thetas():
    worst = int(np.argmax(np.sum(FAILED, axis=1)))
    none = int(np.argmin(np.sum(FAILED, axis=1)))
    assert not np.any(FAILED[none])
    kept = SAMPLES.select([worst, none]).failures
    assert kept.n_drawn == 40
    np.testing.assert_array_equal(kept.x, WHOLE.x[worst][FAILED[worst]])
    assert SAMPLES.select([none]).failures is None


@pytest.mark.parametrize(
    ("failed", "says"),
    [
        ([[3.0]], "failed must be a list of T = 12 arrays, one for each theta, not"),
        ([[np.nan]] * 12, r"failed\[0\] must be finite"),
    ],
)
def test_failed_points_that_do_not_fit_are_refused(failed, says):
    with pytest.raises(ValueError, match=says):
        cbq.Samples(WHOLE.theta, WHOLE.x, WHOLE.f, WHOLE.family, failed=failed)


def test_the_share_near_a_theta_is_that_of_the_nearest_one():
    failures = Failures.of(
        np.array([[0.0], [1.0], [2.0]]),
        [np.ones((1, 1)), np.ones((0, 1)), np.ones((3, 1))],
        [np.ones((3, 1)), np.ones((4, 1)), np.ones((0, 1))],
    )
    near = failures.share_near(np.array([[-1.0], [0.1], [0.9], [1.7], [5.0]]))
    assert near.tolist() == [0.25, 0.25, 0.0, 1.0, 1.0]


def test_the_region_is_described_by_the_coordinates_in_which_it_is_narrow():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 400, 3))
    bad = x[0, :, 1] > 1.0
    low, high = x[0, bad, 1].min(), x[0, bad, 1].max()
    text = str(Failures.of(np.zeros((1, 1)), [x[0, bad]], [x[0, ~bad]]))
    assert f"x_1 is from {low:.4g} to {high:.4g} (of {x[0, :, 1].min():.4g} to" in text
    everywhere = Failures.of(np.zeros((1, 1)), [x[0, ::2]], [x[0, 1::2]])
    assert "all over the range of x" in str(everywhere)


# fits


@pytest.mark.parametrize("name", [each.name for each in registrations()])
def test_every_estimator_says_that_points_are_missing(name):
    fit = fitted({each.name: each.create for each in registrations()}[name]())
    quadrature = isinstance(fit, cbq.estimators.CBQFit | cbq.estimators.MOBQFit)
    n, worst = int(np.sum(FAILED)), float(np.max(np.mean(FAILED, axis=1)))
    first = fit.summary().splitlines()[0]
    assert first.startswith(f"WARNING: f failed at {n} of 240 points ({np.mean(FAILED):.1%}; up to {worst:.1%} of")
    assert f"{CONDITIONAL} {'f going on there' if quadrature else 'success'}" in first
    assert "No warnings" not in fit.summary()
    assert CONDITIONAL in fit.warnings[0]


def test_a_fit_warns_once_and_points_to_its_caller():
    with warnings.catch_warnings(record=True, action="always") as caught:
        cbq.Auto().fit(SAMPLES)
    (warning,) = [each for each in caught if each.category is cbq.FitWarning]
    assert warning.filename == __file__


def test_a_few_failures_are_a_warning_in_the_summary_only():
    one = [x[:1, 0] for x in WHOLE.x[:1]] + [[]] * 11
    s = cbq.Samples(WHOLE.theta, WHOLE.x, WHOLE.f, WHOLE.family, failed=one)
    summary = cbq.LSMC().fit(s).summary()
    assert not summary.startswith("WARNING")
    assert "\nWarning: f failed at 1 of 241 points" in summary


def test_a_part_of_one_theta_is_a_warning_that_cannot_be_missed():
    lost = [[]] * 11 + [WHOLE.x[11][:3, 0]]
    s = cbq.Samples(WHOLE.theta, WHOLE.x, WHOLE.f, WHOLE.family, failed=lost)
    assert s.failures.share < 0.02
    assert fitted(cbq.LSMC(), s).summary().startswith("WARNING")


def test_without_failures_nothing_is_said():
    fit = cbq.LSMC().fit(WHOLE)
    assert fit.summary().endswith("No warnings.")
    assert "failed" not in fit.to_frame().columns


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_tables_have_the_share_that_failed():
    fit = fitted(cbq.LSMC())
    np.testing.assert_array_equal(fit.to_frame()["failed"], np.mean(FAILED, axis=1))
    assert fit.to_frame([5.0])["failed"][0] == np.mean(FAILED, axis=1)[np.argmax(WHOLE.theta)]


def test_comparisons_say_it():
    with pytest.warns(cbq.FitWarning, match=CONDITIONAL):
        text = " ".join(str(cbq.compare(SAMPLES, [cbq.LSMC(), cbq.MonteCarlo()])).split())
    assert f"f failed at {np.sum(FAILED)} of 240 points" in text
    assert "which biases estimates" in text


@pytest.mark.parametrize("method", ["mc", "bq"])
def test_answers_say_it(method):
    fit = fitted(cbq.CBQ())
    answer = cbq.nested_expectation(fit, np.square, PRIOR, method=method, n=64, rng=0)
    assert answer.warnings == fit.failure_warnings
    assert CONDITIONAL in repr(answer)
    assert "Warning" not in repr(cbq.nested_expectation(cbq.CBQ().fit(WHOLE), np.square, PRIOR, n=64, rng=0))


def test_figures_say_it():
    matplotlib = pytest.importorskip("matplotlib")
    figure = fitted(cbq.LSMC()).plot()
    assert f"f failed at {np.mean(FAILED):.1%} of the points: {CONDITIONAL}" in figure.get_supxlabel()
    (ax,) = figure.axes
    assert "f failed at more than 2%" in [text.get_text() for text in ax.get_legend().get_texts()]
    hatched = [each for each in ax.collections if each.get_hatch()]
    assert len(hatched) == 1
    assert isinstance(hatched[0], matplotlib.collections.PolyCollection)
    assert not cbq.LSMC().fit(WHOLE).plot().get_supxlabel()


@pytest.mark.parametrize("estimator", [cbq.CBQ(), cbq.MOBQ(), cbq.LSMC(), cbq.ImportanceSampling()])
def test_saved_fits_remember_it(tmp_path, estimator):
    fit = fitted(estimator)
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq", family=SAMPLES.family)
    assert again.summary() == fit.summary()
    np.testing.assert_array_equal(again.failures.x, fit.failures.x)


# Findings stay with samples: in files, sums, selections, fits and reports

THETA = np.arange(1.0, 9.0)
BAD = (3.0, 4.0)
flat = cbq.measures.Unnormalised(score=lambda x: -0.01 * x, dim=1)


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    apart = np.array([[0.0], [0.0], [0.0], [3.0]])  # one of four chains is elsewhere
    draws = {t: {"x": rng.normal(t, 1.0, (4, 1000)) + (t in BAD) * apart} for t in THETA}
    with pytest.warns(cbq.samples.ChainWarning, match=r"at theta = 3, R-hat of x.* 2 of 8 thetas .* more chains"):
        return cbq.Samples.from_arviz(draws, value="x", measure=lambda theta: flat, thin=100)


def kinds(samples):
    return [each.kind for each in samples.findings]


def test_every_kind_that_samples_carry_is_one_of_fits():
    assert set(CARRIED) <= set(KINDS)


def test_findings_are_kept_where_they_hold(samples):
    assert [float(each.theta[0]) for each in samples.findings] == [*BAD]
    assert kinds(samples[:3]) == ["convergence"]
    assert kinds(samples[4:]) == []
    for same in (
        samples.with_values(np.square(samples.f)),
        samples.with_names({"x": "mu"}),
        samples.rescaled(0.0, 2.0),
        samples.thinned(5),
        samples.merged()[0],
        samples.output(0),
        samples[::-1],
    ):
        assert same.findings == samples.findings


def test_sums_have_the_findings_of_both_once(samples):
    assert (samples + samples.thinned(3)).findings == samples.findings
    assert set((samples[:3] + samples[3:]).findings) == set(samples.findings)
    assert kinds(samples[4:] + samples[:2]) == []


def test_files_keep_findings(samples, tmp_path):
    plain = cbq.Samples(samples.theta, samples.x, samples.f, design="mcmc")._replaced(findings=samples.findings)
    plain.save(tmp_path / "samples.cbq")
    assert cbq.Samples.load(tmp_path / "samples.cbq").findings == samples.findings


def test_samples_show_their_findings_in_brief(samples):
    assert repr(samples).endswith("findings=(convergence))")
    assert "2 of 8 thetas have this problem." in samples._repr_html_()
    assert "findings" not in repr(samples[4:])


@pytest.mark.parametrize("estimator", [cbq.LSMC(), cbq.MonteCarlo(), cbq.CBQ(), cbq.Auto()], ids=repr)
def test_fits_and_reports_say_what_samples_carry(samples, estimator, tmp_path):
    with warnings.catch_warnings(record=True, action="always") as caught:
        fit = estimator.fit(samples)
    (text,) = (text for each in caught if (text := str(each.message)).startswith("convergence: at theta = 3, R-hat"))
    assert text.endswith("2 of 8 thetas have this problem. Run longer or more chains.")
    (found,) = (each for each in fit.serious_findings if each.kind == "convergence")
    assert found.text in fit.summary()
    fit.report(tmp_path / "report.html", samples)
    assert found.text in (tmp_path / "report.html").read_text()
    with silent():
        assert "convergence" not in {each.kind for each in estimator.fit(samples[4:]).findings}


def test_samples_of_a_loaded_fit_keep_findings(tmp_path):
    rng = np.random.default_rng(0)
    theta = np.linspace(0.0, 1.0, 8)
    x = theta[:, None] + rng.normal(size=(8, 12))
    family = lambda theta: cbq.measures.Normal(theta, std=1.0)  # noqa: E731
    samples = cbq.Samples(theta, x, np.sin(x), family, depends_on_theta=False)
    narrow = samples.reweighted(lambda theta: cbq.measures.Normal(theta, std=0.5))
    assert kinds(narrow) == ["ratio"]
    with silent():
        fit = cbq.ImportanceSampling("balance").fit(narrow._replaced(depends_on_theta=False))
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq", family=lambda theta: cbq.measures.Normal(theta, std=0.5))
    assert again.samples.findings == narrow.findings
