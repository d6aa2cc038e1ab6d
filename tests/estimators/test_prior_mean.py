"""Prior means: what is subtracted, what is added back, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cbq
from cbq.estimators import PriorMean
from cbq.kernels import Matern
from cbq.measures import Empirical, Gamma, Gaussian, Uniform

pytestmark = [pytest.mark.filterwarnings(f"ignore:{kind}:cbq.FitWarning") for kind in ("few thetas", "beyond")]
NEW = np.linspace(1.0, 2.0, 5)


def f(x, theta):
    return np.exp(0.3 * x[:, 0]) + 0.1 * np.sin(5 * x[:, 0])


def model(x, theta):
    return np.exp(0.3 * x[:, 0])


def integral(theta):
    """E exp(0.3 X) for X ~ N(theta, 1)."""
    return np.exp(0.3 * theta[:, 0] + 0.045)


@pytest.fixture(scope="module")
def samples():
    return cbq.Problem(f, lambda t: Gaussian(t[0], std=1.0), Uniform(1.0, 2.0), depends_on_theta=False).collect(
        8, 12, rng=0
    )


ESTIMATORS = [cbq.CBQ(), cbq.CBQ.paper(), cbq.MOBQ(), cbq.LSMC(), cbq.KLSMC(), cbq.ImportanceSampling(), cbq.Auto()]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_every_estimator_sees_the_remainder_and_returns_the_whole(samples, estimator):
    values = np.asarray(samples.f) - np.exp(0.3 * np.asarray(samples.x)[..., 0])
    rest = estimator.fit(samples.with_values(values))
    fit = PriorMean(estimator, model, integral=integral).fit(samples)
    for found, expected in zip(fit.interval(NEW), rest.interval(NEW), strict=True):
        assert_allclose(found, expected + integral(NEW[:, None]), rtol=1e-9)
    assert_allclose(fit.predict(NEW, return_cov=True)[1], rest.predict(NEW, return_cov=True)[1], rtol=1e-9)


def test_a_good_model_of_f_makes_the_error_small(samples):
    truth = integral(NEW[:, None]) + 0.1 * np.sin(5 * NEW) * np.exp(-12.5)
    errors = [
        np.max(np.abs(each.fit(samples).predict(NEW) - truth)) for each in (cbq.LSMC(), PriorMean(cbq.LSMC(), model))
    ]
    assert 5 * errors[1] < errors[0]


def test_both_means_are_those_of_the_papers_equations(samples):
    given = cbq.CBQ.paper(
        Matern(1.5, 0.8), Matern(1.5, 0.4), amplitudes=(1.0,), lambdas=(0.1,), nugget=0.0, standardise=False
    )
    fit = PriorMean(given, model, mean_theta=integral).fit(samples)
    mean, variance, theta = np.empty(8), np.empty(8), samples.theta
    for t in range(8):
        x, embedding = samples.points(t), cbq.embed(Matern(1.5, 0.8), samples.measure(t))
        weights = np.linalg.solve(Matern(1.5, 0.8)(x), embedding.mean(x))
        mean[t] = integral(theta[[t]])[0] + weights @ (samples.values(t) - model(x, None))  # J + mu K^-1 (f - m_X)
        variance[t] = embedding.variance - weights @ embedding.mean(x)
    K = Matern(1.5, 0.4)(theta) + np.diag(variance + 0.1)
    rest = np.linalg.solve(K, mean - integral(theta))
    expected = integral(NEW[:, None]) + Matern(1.5, 0.4)(NEW, theta) @ rest  # m_Theta + k K^-1 (I_BQ - m_Theta)
    assert_allclose(fit.predict(NEW), expected, rtol=1e-8)


def test_far_from_all_thetas_the_answer_is_the_prior_mean_of_I(samples):
    recipe = cbq.CBQ.paper(lambdas=(0.1,), amplitudes=(1.0,), standardise=False)
    fit = PriorMean(recipe, mean_theta=lambda theta: 7.0 + theta[:, 0]).fit(samples)
    assert_allclose(fit.predict([1e4]), [7.0 + 1e4], rtol=1e-9)


@pytest.mark.parametrize(
    ("family", "draws"),
    [
        (lambda t: Gaussian([t[0], 0.5], std=[1.0, 0.7]), 2),
        (lambda t: Gamma(t[0], 2.0), 1),
        (lambda t: Empirical(t[0] + np.arange(4.0), np.full(4, 0.25)), 1),
    ],
    ids=["plane", "gamma", "atoms"],
)
def test_integrals_by_quadrature_are_those_of_large_samples(family, draws):
    problem = cbq.Problem(lambda x, theta: np.sin(x).sum(axis=1), family, Uniform(1.0, 2.0))
    samples = problem.collect(6, 12, rng=0)
    function = lambda x, theta: np.abs(x[:, 0] - 1.0)  # noqa: E731
    fit = PriorMean(cbq.LSMC(), function).fit(samples)
    found = fit._prior_mean(np.array([[1.3]]))[0, 0]
    x = family(np.array([1.3])).sample(400_000, 1)
    assert_allclose(found, np.mean(np.abs(x[:, 0] - 1.0)), atol=5 * np.std(np.abs(x[:, 0] - 1.0)) / 600)


def test_a_mean_that_varies_with_theta_makes_the_remainder_depend_on_theta(samples):
    with pytest.raises(ValueError, match="depends on theta"):
        PriorMean(cbq.ImportanceSampling(), mean_theta=integral).fit(samples)
    fit = PriorMean(cbq.MOBQ(), lambda x, theta: theta[0] * x[:, 0]).fit(samples)
    assert_allclose(fit.predict(NEW), integral(NEW[:, None]), atol=0.05)


def test_several_outputs_and_ragged_samples(samples):
    both = samples.with_values(np.stack([samples.f, 2 * samples.f], axis=-1))
    ragged = cbq.Samples(
        both.theta,
        [both.points(t)[: 8 + t % 3] for t in range(8)],
        [both.values(t)[: 8 + t % 3] for t in range(8)],
        samples.family,
    )
    fit = PriorMean(
        cbq.CBQ(), lambda x, theta: model(x, theta)[:, None] * [1, 2], integral=lambda t: integral(t)[:, None] * [1, 2]
    ).fit(ragged)
    assert fit.predict(NEW).shape == (5, 2)
    assert_allclose(fit.predict(NEW)[:, 0], integral(NEW[:, None]), atol=0.05)


def test_findings_names_and_bounds_are_those_of_the_samples(samples):
    bounded = samples._with_bounds((0.0, 5.0)).with_names({"theta": ["dose"]})
    fit = PriorMean(cbq.CBQ(), mean_theta=lambda theta: np.full(len(theta), 40.0)).fit(bounded)
    assert fit.names.theta == ("dose",)
    assert np.max(fit.predict(NEW)) <= 5.0
    assert "less a prior mean (mean_theta)" in fit.summary()


def test_it_is_compared_and_cannot_be_saved(samples, tmp_path):
    method = PriorMean(cbq.LSMC(), model, integral=integral)
    row = cbq.compare(samples, {"with mean": method}, truth=integral).rows[0]
    assert row.rmse < 0.05
    with pytest.raises(TypeError, match="PriorMeanFit cannot be saved"):
        method.fit(samples).save(tmp_path / "fit.cbq")


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"estimator": cbq.CBQ, "mean_x": model}, TypeError, "estimator must have fit"),
        ({"estimator": cbq.CBQ()}, ValueError, "there is no prior mean"),
        ({"estimator": cbq.CBQ(), "mean_x": 3.0}, TypeError, "mean_x must be a function"),
        ({"estimator": cbq.CBQ(), "mean_theta": integral, "integral": integral}, ValueError, "integral of mean_x"),
    ],
)
def test_means_that_are_none_are_refused(options, error, match):
    with pytest.raises(error, match=match):
        PriorMean(**options)


def test_functions_that_return_other_shapes_are_refused(samples):
    with pytest.raises(ValueError, match=r"mean_x returned shape \(40, 1, 1\), but \(40,\) was expected"):
        PriorMean(cbq.CBQ(), lambda x, theta: x[..., None]).fit(samples)
    with pytest.raises(ValueError, match="the result of mean_theta must be finite"):
        PriorMean(cbq.CBQ(), mean_theta=lambda theta: np.full(len(theta), np.nan)).fit(samples)
    wide = cbq.Problem(lambda x, theta: x[:, 0], lambda t: Gaussian(np.full(4, t[0]), std=1.0), Uniform(1.0, 2.0))
    with pytest.raises(ValueError, match=r"could not be computed.* Pass integral="):
        PriorMean(cbq.LSMC(), lambda x, theta: x[:, 1]).fit(wide.collect(6, 10, rng=0))
