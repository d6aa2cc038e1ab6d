"""Points that a rule has chosen: quadrature takes them as they are, and averages say that they are biased."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

import cbq
from cbq.estimators import MOBQFit
from cbq.estimators.multioutput.candidates import pooled_points
from cbq.fit.findings import equal_values
from cbq.fit.heavy_tails import tails
from cbq.measures import Gaussian
from quiet import silent

NEW = np.linspace(0.2, 1.8, 9)
OF_X = {"depends_on_theta": False, "design": "adaptive"}
AVERAGING = [cbq.MonteCarlo(), cbq.LSMC(), cbq.KLSMC(), cbq.ImportanceSampling()]


def family(theta):
    return Gaussian(theta[0], 1.0)


def chosen(T, N, design="adaptive", f=np.sin, **options):
    """Points on one side of the means of their measures, N at each of T thetas."""
    theta = np.linspace(0.0, 2.0, T)
    x = theta[:, None] + np.linspace(0.1, 2.5, T * N).reshape(N, T).T
    return cbq.Samples(theta, x, f(x), family, depends_on_theta=False, design=design, **options)


def truth(theta):
    return np.exp(-0.5) * np.sin(theta)  # of E sin(X), X ~ N(theta, 1)


@pytest.mark.parametrize("estimator", AVERAGING, ids=lambda each: type(each).__name__)
@pytest.mark.filterwarnings("ignore:measures:cbq.FitWarning")  # chosen points are no Sobol points
def test_averages_of_chosen_points_say_that_they_are_biased(tmp_path, estimator):
    with pytest.warns(cbq.FitWarning, match=r"^chosen points: .* averages of f over them are biased.* Use cbq\.MOBQ"):
        fit = estimator.fit(chosen(12, 4))
    assert "4 adaptive points each" in fit.summary()
    fit.save(tmp_path / "fit.cbq")
    assert cbq.load(tmp_path / "fit.cbq", family=family).findings == fit.findings
    assert "chosen points" not in {each.kind for each in estimator.fit(chosen(12, 4, "sobol")).findings}


def test_quadratures_of_chosen_points_are_right_and_say_nothing():
    samples = chosen(24, 1)
    fit = cbq.MOBQ().fit(samples)  # warnings are errors
    assert_allclose(fit.predict(NEW), truth(NEW), atol=0.02)
    assert fit.averages is None
    assert "1 adaptive point each" in fit.summary()
    assert fit.plot() is not None
    cbq.CBQ().fit(chosen(12, 6))


def test_few_chosen_points_at_each_theta_are_too_few_for_two_stages():
    samples = chosen(24, 1)
    with pytest.warns(cbq.FitWarning, match=r"^chosen points: 24 of 24 thetas have fewer than 3 points"):
        plain = cbq.CBQ().fit(samples)
    assert "few points" not in {each.kind for each in plain.findings}
    assert np.max(np.abs(plain.predict(NEW) - truth(NEW))) > 0.2
    cbq.CBQ(borrow=20).fit(samples)
    fit = cbq.Auto().fit(samples)
    assert isinstance(fit, MOBQFit)
    assert fit.summary().startswith("Chose MOBQ. Points were chosen by a rule")


def test_no_estimate_that_needs_draws_is_made_of_chosen_points():
    samples, draws = chosen(12, 6), chosen(12, 6, "iid")
    with silent():
        fit, other = cbq.CBQ().fit(samples), cbq.CBQ().fit(draws)
    assert (fit.drawn, other.drawn) == (False, True)
    assert all(posterior.second is None for posterior in fit.posteriors)


def test_variances_of_few_chosen_points_are_not_those_of_draws():
    with silent():
        fit, other = (cbq.CBQ().fit(chosen(12, 2, design)).stage1 for design in ("adaptive", "iid"))
    assert np.all(fit.std >= other.std)
    assert np.any(fit.std > 1.01 * other.std)


def test_what_samples_show_of_draws_is_not_said_of_chosen_points():
    def steep(x):
        return np.exp(20 * x)

    assert tails(chosen(4, 30, "iid", steep)) != ()
    assert tails(chosen(4, 30, "adaptive", steep)) == ()
    (drawn,), (other,) = (equal_values(chosen(4, 6, design, np.ones_like)) for design in ("iid", "adaptive"))
    unlimited = " Nothing limits these: without bounds of f, intervals are infinite."
    assert drawn.text.endswith(f"do not exclude other values that have a probability of up to 0.5.{unlimited}")
    assert other.text.endswith(f"24 points do not exclude other values between them.{unlimited}")


@pytest.mark.filterwarnings("ignore:few points:cbq.FitWarning")  # of one point each, which averages warn of
def test_comparisons_carry_the_warning_and_score_by_nothing_that_was_chosen():
    methods = [cbq.MonteCarlo(), cbq.LSMC(), cbq.CBQ(), cbq.MOBQ()]
    with pytest.warns(cbq.FitWarning, match="^chosen points: MonteCarlo, LSMC, CBQ: "):
        by_truth = cbq.compare(chosen(24, 1), methods, lambda theta: truth(theta[:, 0]))
    assert ["chosen points" in row.note for row in by_truth.rows] == [True, True, True, False]
    with pytest.warns(cbq.FitWarning, match="^chosen points: LSMC: "):
        left_out = cbq.compare(chosen(24, 1), [cbq.LSMC(), cbq.MOBQ()])
    assert all(np.isnan(row.loo) and "no leave-one-out error" in row.note for row in left_out.rows)


@pytest.mark.parametrize("other", ["iid", "sobol", "mcmc"])
def test_samples_that_are_joined_with_chosen_points_are_warned_of(other):
    for both in (chosen(6, 4) + chosen(6, 4, other), chosen(6, 4, other) + chosen(6, 4)):
        assert both.design == "adaptive"
        with pytest.warns(cbq.FitWarning, match=r"^chosen points: .* standard errors say nothing"):
            cbq.MonteCarlo().fit(both)


def test_chosen_points_have_no_weights():
    def wide(theta):
        return Gaussian(theta[0], cov=2.0)

    with pytest.raises(ValueError, match="chosen by a rule, and drawn from no proposal"):
        chosen(6, 4, proposal=wide)
    weighted = chosen(6, 4, "iid", proposal=wide)
    for samples in (chosen(6, 4), chosen(6, 4) + weighted, weighted + chosen(6, 4), chosen(6, 4).reweighted(wide)):
        assert samples.log_weights is None
        assert not samples.drawn
    assert (weighted.drawn, chosen(6, 4, "sobol").drawn) == (False, True)
    assert chosen(6, 4, "iid").reweighted(wide).log_weights is not None


def test_a_fit_to_chosen_points_can_be_saved(tmp_path):
    fit = cbq.MOBQ().fit(chosen(24, 1))
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq", family=family)
    assert again.samples.design == "adaptive"
    assert again.summary() == fit.summary()


def test_crowded_points_stand_for_little_of_the_measures():
    x = np.concatenate([np.linspace(-2.0, 2.0, 9), np.linspace(0.9, 1.1, 12)])
    theta = np.zeros((len(x), 1))
    made = {"depends_on_theta": False, "measure": cbq.measures.Gaussian(0.0, std=1.0)}
    chosen = cbq.Samples(theta, x[:, None], np.sin(x)[:, None], design="adaptive", **made)
    points, _ = pooled_points(chosen)
    share = points.share[np.argsort(points.u[:, 0])]
    inside = (np.sort(points.u[:, 0]) >= 0.9) & (np.sort(points.u[:, 0]) <= 1.1)
    # Sorted, a point stands for what lies between the midpoints to its neighbours.
    nodes = np.sort(points.u[:, 0])
    ends = np.concatenate([[-np.inf], 0.5 * (nodes[1:] + nodes[:-1]), [np.inf]])
    assert_allclose(share / np.sum(share), np.diff(ndtr(ends)), atol=0.015)  # 8000 draws
    assert np.max(share[inside]) < np.median(share[~inside])
    far = np.append(x, 12.0)  # where no draw is
    beyond = cbq.Samples(np.zeros((len(far), 1)), far[:, None], np.sin(far)[:, None], design="adaptive", **made)
    assert 0 < pooled_points(beyond)[0].share[-1] < 1e-5
    drawn, _ = pooled_points(cbq.Samples(theta, x[:, None], np.sin(x)[:, None], design="sobol", **made))
    assert drawn.share is None


def test_thetas_of_chosen_points_are_mere_labels():
    x = np.linspace(-1.0, 3.0, 24)
    few, many = (
        cbq.Samples(theta, x.reshape(len(theta), -1), np.tanh(x).reshape(len(theta), -1), family, **OF_X)
        for theta in (np.linspace(0.0, 2.0, 6), np.linspace(0.0, 2.0, 24))
    )
    kernel = cbq.kernels.RBF(1.0)
    one, other = (cbq.MOBQ(kernel_x=kernel).fit(samples) for samples in (few, many))
    mu = np.abs(np.sin(np.arange(48.0))).reshape(2, 24)
    assert_allclose(one._amplitudes[0](mu), other._amplitudes[0](mu), rtol=1e-6)
