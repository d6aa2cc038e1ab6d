"""What was found about samples stays with them: in files, sums, selections, fits and reports."""

import warnings

import numpy as np
import pytest

import cbq
from cbq.fit.findings import KINDS
from cbq.samples.findings import KINDS as CARRIED
from quiet import silent

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
