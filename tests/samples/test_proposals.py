"""Points from a proposal in place of the measure of x: where they are, their weights, and averages with weights."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from scipy import stats

import cbq
from cbq.checkpoint import CheckpointError
from cbq.estimators.monte_carlo import averages
from cbq.kernels import Matern
from cbq.measures import Empirical, Gamma, Gaussian, LogNormal, StudentT, Uniform, Unnormalised

pytestmark = pytest.mark.filterwarnings("ignore::cbq.FitWarning")
KINDS = ("plain", "self-normalised", "balance")
PRIOR = Uniform(1.0, 2.0)
SIZE = {"T": 5, "N": 12, "rng": 3}


def family(theta):
    return Gaussian(theta, 1.0)


def wide(theta):
    return Gaussian(theta + 1, cov=4.0)


class Own(Gaussian):
    """A measure that is code of a user."""


def own(theta):
    return Own(theta + 1, cov=4.0)


def square(x, theta):
    return x[:, 0] ** 2


def problem(**options):
    return cbq.Problem(**{"integrand": square, "family": family, "prior": PRIOR, "depends_on_theta": False} | options)


def log_ratio(samples, p=family, q=wide):
    """log p - log q at all points, from scipy."""
    parts = []
    for t, theta in enumerate(samples.theta):
        a, b = (stats.norm(m.mean[0], np.sqrt(m.cov[0, 0])) for m in (p(theta), q(theta)))
        parts.append(a.logpdf(samples.points(t)[:, 0]) - b.logpdf(samples.points(t)[:, 0]))
    return np.concatenate(parts)


SAMPLES = problem().collect(**SIZE, proposal=wide)


# points and weights


@pytest.mark.parametrize("design", ["iid", "sobol"])
def test_points_are_those_of_the_proposal_and_know_their_weights(design):
    samples = problem().collect(**SIZE, proposal=wide, design=design)
    drawn = problem(family=wide).collect(**SIZE, design=design)
    np.testing.assert_array_equal(samples.x, drawn.x)
    np.testing.assert_allclose(samples.log_weights, log_ratio(samples), rtol=1e-12, atol=1e-12)
    assert samples.measure(0).mean == samples.theta[0]  # x still has its own measure
    assert drawn.log_weights is None
    assert not samples.log_weights.flags.writeable
    assert "weighted" in repr(samples)


@pytest.mark.parametrize("design", ["iid", "sobol"])
def test_a_longer_run_begins_with_the_points_of_a_shorter_one(design):
    longer = problem().collect(7, 20, rng=SIZE["rng"], proposal=wide, design=design)
    shorter = problem().collect(**SIZE, proposal=wide, design=design)
    np.testing.assert_array_equal(longer.x[:5, :12], shorter.x)
    np.testing.assert_array_equal(longer.select(slice(5)).thinned(12).log_weights, shorter.log_weights)


def test_samples_take_a_proposal_in_all_ways_in_which_they_take_measures():
    given = (SAMPLES.theta, SAMPLES.x, SAMPLES.f, family)
    each = [wide(theta) for theta in SAMPLES.theta]
    batch = Gaussian(SAMPLES.theta + 1, cov=np.full((5, 1), 4.0))
    for proposal in (wide, each, batch):
        np.testing.assert_allclose(
            cbq.Samples(*given, proposal=proposal).log_weights, SAMPLES.log_weights, rtol=1e-12, atol=1e-12
        )
    one = cbq.Samples(*given, proposal=stats.norm(2.0, 3.0))
    np.testing.assert_allclose(
        one.log_weights, log_ratio(SAMPLES, q=lambda theta: Gaussian(2.0, cov=9.0)), rtol=1e-12, atol=1e-12
    )
    table = cbq.Samples.from_frame(SAMPLES.to_columns(), family, proposal=wide)
    np.testing.assert_array_equal(table.log_weights, SAMPLES.log_weights)


def test_points_take_their_weights_with_them():
    rows = np.arange(60).reshape(5, 12)
    weights = SAMPLES.log_weights
    np.testing.assert_array_equal(SAMPLES.select([3, 1]).log_weights, weights[rows[[3, 1]]].ravel())
    np.testing.assert_array_equal(SAMPLES.thinned(4).log_weights, weights[rows[:, :4]].ravel())
    np.testing.assert_array_equal(SAMPLES.regrouped(list(rows[:, ::-2])).log_weights, weights[rows[:, ::-2]].ravel())
    assert SAMPLES.with_values(2 * SAMPLES.f).log_weights is SAMPLES.log_weights
    assert SAMPLES.rescaled(0.0, 2.0).log_weights is SAMPLES.log_weights
    two = cbq.Samples(SAMPLES.theta, np.tile(SAMPLES.x, (1, 2, 1)), np.tile(SAMPLES.f, (1, 2)), family, proposal=wide)
    np.testing.assert_array_equal(two.merged()[0].log_weights, weights)
    assert [each.mean[0] for each in SAMPLES.select([3, 1]).proposals] == list(SAMPLES.theta[[3, 1], 0] + 1)


def test_skipped_points_take_their_weights_with_them():
    def f(x, theta):
        return np.where(x[:, 0] > 3.0, np.nan, x[:, 0])

    with pytest.warns(cbq.runs.CollectWarning):
        samples = problem(integrand=f).collect(**SIZE, proposal=wide, on_error="skip")
    kept = SAMPLES.all_points[:, 0] <= 3.0
    np.testing.assert_array_equal(samples.log_weights, SAMPLES.log_weights[kept])


@pytest.mark.parametrize(
    ("measure", "proposal", "says"),
    [
        (Gamma(2.0, 1.0), Gaussian(2.0, 1.0), r"has the support \[-inf, inf\] along coordinate 0 of x, .* \[0, inf\]"),
        (Gaussian(2.0, 1.0), Gamma(2.0, 1.0), r"has the support \[0, inf\]"),
        (Uniform(0.0, 9.0), Uniform(0.0, 8.0), "points must reach all of it"),
        (Gaussian(2.0, 1.0), Unnormalised(lambda x: -(x[..., 0] ** 2), dim=1), "proposal .* up to a constant only"),
        (Unnormalised(lambda x: -(x[..., 0] ** 2), dim=1), Gaussian(2.0, 1.0), "measure .* up to a constant only"),
        (Gaussian(2.0, 1.0), Empirical([[1.0], [2.0]]), "the proposal .* has no usable density"),
        (Gaussian(2.0, 1.0), Gaussian([0.0, 0.0], 1.0), "in 2 dimensions, but x has 1"),
        (Gaussian(2.0, 1.0), [Gaussian(0.0, 1.0)] * 2, "proposal is a list of 2 measures, but theta has T = 1 rows"),
        (Gaussian(2.0, 1.0), 3.0, "proposal"),
        (Gaussian(2.0, 1.0), lambda theta: None, "the value of the proposal"),
    ],
)
def test_what_is_no_proposal_is_refused(measure, proposal, says):
    with pytest.raises((ValueError, TypeError), match=says):
        cbq.Samples([1.0], [[1.0, 2.0]], [[1.0, 2.0]], measure, proposal=proposal)


def test_a_run_refuses_a_proposal_before_it_evaluates_anything():
    def f(x, theta):
        raise AssertionError

    run = problem(integrand=f, family=lambda theta: Gamma(theta, 1.0)).collect
    with pytest.raises(ValueError, match=r"proposal at theta = .* has the support \[-inf, inf\].*\[0, inf\]"):
        run(**SIZE, proposal=wide)
    with pytest.raises(
        ValueError, match="the measures of the proposal have dimension 2, and the measures of the family have 1"
    ):
        run(**SIZE, proposal=lambda theta: Gaussian([0.0, 0.0], 1.0))
    with pytest.raises(TypeError, match="proposal must be a function from theta to a measure"):
        run(**SIZE, proposal=Gamma(1.0, 1.0))


# estimates


def test_averages_are_those_of_weighted_values():
    wf = np.exp(log_ratio(SAMPLES)).reshape(5, 12) * SAMPLES.f
    for estimator in (cbq.MonteCarlo(), cbq.LSMC(), cbq.KLSMC()):
        found = estimator.fit(SAMPLES).averages
        np.testing.assert_allclose(found.mean[:, 0], np.mean(wf, axis=1), rtol=1e-12)
        np.testing.assert_allclose(found.variance[:, 0], np.var(wf, axis=1, ddof=1) / 12, rtol=1e-12)
    fit = cbq.MonteCarlo().fit(SAMPLES)
    np.testing.assert_allclose(fit.predict(fit.theta), np.mean(wf, axis=1), rtol=1e-12)


def test_a_proposal_that_is_the_measure_changes_nothing():
    plain, same = problem().collect(**SIZE), problem().collect(**SIZE, proposal=family)
    np.testing.assert_array_equal(same.log_weights, 0.0)
    for estimator in (cbq.MonteCarlo(), cbq.LSMC(), cbq.KLSMC(), *map(cbq.ImportanceSampling, KINDS)):
        one, other = (estimator.fit(each) for each in (plain, same))
        for a, b in zip(
            one.predict(one.theta, return_std=True), other.predict(one.theta, return_std=True), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_importance_sampling_divides_by_the_density_of_the_proposal(kind):
    fit = cbq.ImportanceSampling(kind).fit(SAMPLES)
    x, n = SAMPLES.all_points[:, 0], 60
    q = np.stack([stats.norm(theta[0] + 1, 2.0).pdf(x) for theta in SAMPLES.theta])
    denominator = np.mean(q, axis=0) if kind == "balance" else q[SAMPLES.owners, np.arange(n)]
    w = stats.norm(1.4, 1.0).pdf(x) / denominator
    expected = w @ x**2 / (np.sum(w) if kind == "self-normalised" else n)
    np.testing.assert_allclose(fit.predict([1.4])[0], expected, rtol=1e-10)
    np.testing.assert_allclose(fit.effective_sample_size([1.4])[0], np.sum(w) ** 2 / np.sum(w**2), rtol=1e-10)


def test_a_wider_proposal_sees_rare_events():
    def event(x, theta):
        return (x[:, 0] > theta[0] + 3).astype(float)

    rare = problem(integrand=event, depends_on_theta=True)
    errors = {}
    for name, proposal in (("plain", None), ("wide", lambda theta: Gaussian(theta, cov=9.0))):
        fit = cbq.MonteCarlo().fit(rare.collect(100, 500, rng=0, proposal=proposal))
        mean, std = fit.predict(fit.theta, return_std=True)
        errors[name] = np.sqrt(np.mean((mean - stats.norm.sf(3)) ** 2))
        assert 0.7 < errors[name] / np.sqrt(np.mean(std**2)) < 1.3  # of 100 thetas, four standard deviations
    assert errors["wide"] < 0.5 * errors["plain"]  # by hand, a quarter


@pytest.mark.parametrize("estimator", [cbq.CBQ(), cbq.MOBQ()], ids=lambda each: type(each).__name__)
def test_quadrature_takes_points_from_a_proposal_as_they_are(estimator):
    smooth = problem(integrand=lambda x, theta: np.cos(x[:, 0]))
    fit = estimator.fit(smooth.collect(8, 20, rng=0, proposal=wide, design="sobol"))
    new = np.linspace(1.1, 1.9, 9)
    np.testing.assert_allclose(fit.predict(new), np.exp(-0.5) * np.cos(new), atol=0.02)


@pytest.mark.parametrize("proposal", [lambda theta: Gaussian(1.0, cov=2.0), None], ids=["proposal", "measure"])
def test_leave_one_out_estimates_are_unbiased_wherever_points_come_from(proposal):
    def f(x, theta):
        return np.cos(2 * x[:, 0]) + x[:, 0]

    one = problem(integrand=f, family=lambda theta: Gaussian(0.0, 1.0), depends_on_theta=True)
    samples = one.collect(300, 6, rng=0, theta=np.linspace(1.0, 2.0, 300), proposal=proposal)
    stage1 = cbq.CBQ(kernel_x=Matern(0.5, 1.0)).fit(samples).stage1
    apart = stage1.mean - stage1.bias - np.exp(-2)  # E cos(2x) = exp(-2)
    assert abs(np.mean(apart)) < 4 * np.std(apart) / np.sqrt(300)  # without weights, 15


def test_few_points_that_carry_the_weight_are_a_finding():
    def far(theta):
        return Gaussian(theta + 4, 1.0)

    with pytest.warns(cbq.FitWarning, match="few points: the points of 5 of 5 thetas come from a proposal"):
        fit = cbq.MonteCarlo().fit(problem().collect(**SIZE, proposal=far))
    assert "Points come from a proposal q" in fit.summary()
    many = cbq.MonteCarlo().fit(problem().collect(5, 200, rng=3, proposal=wide))
    assert many.findings == ()
    assert np.all(many.averages.sizes > 50)
    w = np.exp(SAMPLES.log_weights).reshape(5, 12)
    np.testing.assert_allclose(averages(SAMPLES).sizes, np.sum(w, axis=1) ** 2 / np.sum(w**2, axis=1), rtol=1e-12)


def test_weights_beyond_float64_are_refused():
    narrow = cbq.Samples([0.0], [[1.0, 2.0]], [[1.0, 2.0]], Gaussian(0.0, 1.0), proposal=Gaussian(0.0, cov=1e-3))
    with pytest.raises(ValueError, match="its proposal hardly reaches the measure"):
        cbq.MonteCarlo().fit(narrow)


def test_evpi_refuses_weighted_and_random_values():
    two = problem(integrand=lambda x, theta: np.column_stack([x, -x]))
    with pytest.raises(ValueError, match="points from a proposal"):
        cbq.evpi(two.collect(**SIZE, proposal=wide))
    random = problem(integrand=lambda x, theta, rng: np.column_stack([x, -x]), stochastic=True)
    with pytest.raises(ValueError, match="random values of f"):
        cbq.evpi(random.collect(**SIZE))


# files


@pytest.mark.parametrize(
    "estimator", [cbq.MonteCarlo(), cbq.LSMC(), *map(cbq.ImportanceSampling, KINDS)], ids=lambda each: repr(each)[:24]
)
def test_saved_fits_answer_as_before(estimator, tmp_path):
    fit = estimator.fit(SAMPLES)
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq", family=family)
    assert again.summary() == fit.summary()
    for one, other in zip(fit.interval(fit.theta), again.interval(fit.theta), strict=True):
        np.testing.assert_array_equal(one, other)
    if hasattr(fit, "samples"):
        np.testing.assert_array_equal(again.samples.log_weights, SAMPLES.log_weights)
        with pytest.raises(ValueError, match="a file keeps their weights alone"):
            cbq.ImportanceSampling().fit(again.samples)


def test_a_run_resumes_and_extends_with_its_proposal_only(tmp_path):
    path = tmp_path / "run.sqlite"
    begun = problem().collect(3, 12, rng=3, proposal=wide, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"the proposal at theta index t = 0 is Gaussian\(.*, 4\) in .*, 9\) was"):
        problem().collect(**SIZE, proposal=lambda theta: Gaussian(theta + 1, cov=9.0), checkpoint=path)
    with pytest.raises(
        CheckpointError, match="whether points are drawn from a proposal is True in the file, and False"
    ):
        problem().collect(**SIZE, checkpoint=path)
    whole = problem().collect(**SIZE, proposal=wide, checkpoint=path, progress=False)
    np.testing.assert_array_equal(whole.log_weights, SAMPLES.log_weights)
    np.testing.assert_array_equal(whole.x[:3], begun.x)
    read = cbq.Samples.from_checkpoint(path)
    np.testing.assert_array_equal(read.log_weights, SAMPLES.log_weights)
    np.testing.assert_array_equal(
        cbq.Samples.from_checkpoint(path, family, proposal=wide).log_weights, read.log_weights
    )
    with pytest.raises(CheckpointError, match="does not go with this proposal"):
        cbq.Samples.from_checkpoint(path, proposal=family)


def test_a_file_without_proposals_takes_none(tmp_path):
    problem().collect(**SIZE, checkpoint=tmp_path / "run.sqlite")
    with pytest.raises(CheckpointError, match="not of a proposal: leave proposal out"):
        cbq.Samples.from_checkpoint(tmp_path / "run.sqlite", proposal=wide)


def test_a_proposal_that_is_code_must_be_passed_again(tmp_path):
    path = tmp_path / "run.sqlite"
    problem().collect(**SIZE, proposal=own, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"does not hold the proposal .*pass proposal="):
        cbq.Samples.from_checkpoint(path)
    read = cbq.Samples.from_checkpoint(path, proposal=own)
    np.testing.assert_allclose(read.log_weights, SAMPLES.log_weights, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("change", "says"), [("DELETE FROM proposals WHERE t = 4", "4 proposals for 5 thetas")])
def test_a_damaged_list_of_proposals_is_reported(change, says, tmp_path):
    path = tmp_path / "run.sqlite"
    problem().collect(**SIZE, proposal=wide, checkpoint=path)
    connection = sqlite3.connect(path)
    connection.execute(change)
    connection.commit()
    connection.close()
    with pytest.raises(CheckpointError, match=f"is damaged: it has {says}"):
        cbq.Samples.from_checkpoint(path)


def test_other_shapes_of_proposals():
    heavy = problem(family=lambda theta: LogNormal(theta, 1.0)).collect(
        **SIZE, proposal=lambda theta: LogNormal(theta, cov=4.0)
    )
    assert np.all(np.isfinite(heavy.log_weights))
    student = problem().collect(**SIZE, proposal=lambda theta: StudentT(3.0, theta, 1.0), design="sobol")
    p, q = stats.norm(student.theta, 1.0), stats.t(3.0, student.theta, 1.0)
    x = np.asarray(student.x)[..., 0]
    np.testing.assert_allclose(student.log_weights.reshape(5, 12), p.logpdf(x) - q.logpdf(x), rtol=1e-10, atol=1e-10)
