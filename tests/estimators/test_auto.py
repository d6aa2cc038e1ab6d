"""The automatic choice of a method: what it takes, what it says, and that its choice is a good one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln, ndtr

import cbq
from cbq.estimators import CBQFit, MOBQFit
from cbq.linalg.engines import NumpyEngine
from cbq.measures import Empirical, Exponential, Gamma, Gaussian, Uniform, Unnormalised
from refusals import refusals


def on_line(f, **options):
    return cbq.Problem(f, lambda theta: Gaussian(theta[0], 1.0), Uniform(0.0, 3.0), **options)


SMOOTH = on_line(lambda x, theta: np.sin(2 * x[:, 0]), depends_on_theta=False)
STEP = on_line(lambda x, theta: (x[:, 0] > 1.5) * 1.0, depends_on_theta=False)
WITH_THETA = on_line(lambda x, theta: np.sin(x[:, 0] * theta[0]))
MANY_INPUTS = cbq.Problem(
    lambda x, theta: theta[0] * np.sum(x**2, axis=1) + x[:, 0] * x[:, 1],
    lambda theta: Gaussian(np.full(6, theta[0]), np.ones(6)),
    Uniform(0.0, 3.0),
)


def test_a_smooth_f_of_x_is_learnt_once_for_all_thetas():
    fits = [cbq.Auto().fit(SMOOTH.collect(15, 12, rng=seed)) for seed in range(6)]
    pooled = [fit for fit in fits if isinstance(fit, MOBQFit)]
    assert len(pooled) >= 5  # one far point that others say nothing about may hide that f is learnt
    for fit in pooled:
        assert fit.summary().startswith("Chose MOBQ. MOBQ's predicted error is ")
        assert_allclose(fit.predict([0.5, 1.5]), cbq.MOBQ().fit(fit.samples).predict([0.5, 1.5]), rtol=0)


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_many_inputs_are_learnt_together_with_theta():
    fit = cbq.Auto().fit(MANY_INPUTS.collect(20, 25, rng=0))
    assert isinstance(fit, MOBQFit)
    assert fit.choice.startswith("Chose MOBQ. ")


def root_of_gamma(theta):
    return np.exp(gammaln(theta + 0.5) - gammaln(theta))


KNOWN = {
    "sin": (SMOOTH, lambda t: np.exp(-2) * np.sin(2 * t)),
    "step": (STEP, lambda t: ndtr(t - 1.5)),
    "turns": (WITH_THETA, lambda t: np.exp(-0.5 * t**2) * np.sin(t**2)),
    "inputs": (MANY_INPUTS, lambda t: 6 * t * (t**2 + 1) + t**2),
    "gamma": (
        cbq.Problem(
            lambda x, t: np.sqrt(x[:, 0]), lambda t: Gamma(t[0], 1.0), Uniform(1.0, 4.0), depends_on_theta=False
        ),
        root_of_gamma,
    ),
    "exponential": (
        cbq.Problem(lambda x, t: x[:, 0] ** 2, lambda t: Exponential(t[0]), Uniform(1.0, 4.0), depends_on_theta=False),
        lambda t: 2 / t**2,
    ),
}


LONG = ("exponential", "step", "inputs")


@pytest.mark.filterwarnings("ignore:tails:cbq.FitWarning", "ignore:noise:cbq.FitWarning")
@pytest.mark.parametrize(
    ("problem", "exact"),
    [pytest.param(*each, marks=[pytest.mark.slow] * (name in LONG), id=name) for name, each in KNOWN.items()],
)
def test_no_other_method_would_have_been_far_better(problem, exact):
    ratios = []
    for seed in range(3):
        samples = problem.collect(15, 20, rng=seed)
        theta = np.linspace(samples.theta.min(), samples.theta.max(), 20)
        others = [cbq.CBQ(), cbq.MOBQ()] + ([] if samples.depends_on_theta else [cbq.CBQ(borrow=200)])
        errors = [np.sqrt(np.mean((m.fit(samples).predict(theta) - exact(theta)) ** 2)) for m in (cbq.Auto(), *others)]
        ratios.append(errors[0] / min(errors))
    assert np.median(ratios) < 5


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
def test_a_family_for_some_thetas_only_is_not_asked_about_others():
    def family(theta):
        if theta[0] != round(theta[0]):
            raise ValueError("whole thetas only")
        return Gamma(theta[0], 1.0)

    theta = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 8.0])
    x = [family(t[None]).sample(10, i)[:, 0] for i, t in enumerate(theta)]
    samples = cbq.Samples(theta, np.array(x), np.array(x) > 2.0, family, depends_on_theta=False)
    assert np.all(np.isfinite(cbq.Auto().fit(samples).predict(theta)))


def test_without_a_family_thetas_are_interpolated():
    given = SMOOTH.collect(10, 10, rng=0)
    samples = cbq.Samples(given.theta, given.x, given.f, list(given.measures), depends_on_theta=False)
    fit = cbq.Auto().fit(samples)
    assert isinstance(fit, CBQFit)
    assert "MOBQ needs a family, and these samples have none." in fit.summary()
    assert np.all(np.isfinite(fit.predict([0.7, 1.3])))


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
def test_one_measure_for_all_thetas_needs_no_family():
    theta = np.linspace(0, 2, 8)
    x = Gaussian(0.0, 1.0).sample(64, 0).reshape(8, 8)
    samples = cbq.Samples(theta, x, np.exp(0.3 * theta[:, None] * x), Gaussian(0.0, 1.0))
    fit = cbq.Auto().fit(samples)
    assert_allclose(fit.predict(theta), np.exp(0.045 * theta**2), atol=0.01)


class Small(NumpyEngine):
    """An engine of small matrices."""

    largest_exact = 200


def test_many_points_are_pooled_through_landmarks():
    samples = SMOOTH.collect(15, 12, rng=0)
    with cbq.engine(Small()):
        fit = cbq.Auto().fit(samples)
    assert fit.choice.startswith("Chose MOBQ. ")
    assert fit.groups[0].landmarks is not None
    exact, std = cbq.MOBQ().fit(samples).predict([0.5, 1.5], return_std=True)
    assert np.all(np.abs(fit.predict([0.5, 1.5]) - exact) < 5 * std)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:tails:cbq.FitWarning")
def test_errors_do_not_rise_where_an_exact_process_ends():
    problem = cbq.problems.get("linear", dim=5)
    theta = problem.prior.sample(200, 1)
    truth = problem.exact(theta)
    below, above = (cbq.Auto().fit(problem.collect(side, side, rng=0)) for side in (70, 72))
    assert below.groups[0].landmarks is None
    assert above.groups[0].landmarks is not None
    errors = [np.sqrt(np.mean((fit.predict(theta) - truth) ** 2)) for fit in (below, above)]
    assert errors[1] < 1.5 * errors[0]


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_measures_without_shared_embeddings_or_a_bulk_are_served():
    x = np.random.default_rng(0).standard_normal((5, 12))
    score = lambda x: -x  # noqa: E731
    samples = cbq.Samples(
        np.arange(5.0), x, np.cos(x), lambda theta: Unnormalised(score=score, dim=1), depends_on_theta=False
    )
    fit = cbq.Auto().fit(samples)
    assert isinstance(fit, CBQFit)
    assert fit.rows is None
    assert "MOBQ could not be fitted: no kernel on x or on log x" in fit.choice
    atoms = Empirical(x.ravel())
    same = cbq.Samples(np.arange(5.0), x, np.cos(x), lambda theta: atoms, depends_on_theta=False)
    assert_allclose(cbq.Auto().fit(same).predict([0.5, 2.5]), np.mean(np.cos(x)), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:few points:cbq.FitWarning")
@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.parametrize(("T", "N"), [(1, 12), (12, 1), (2, 2), (3, 4)])
def test_small_samples_are_served(T, N):
    fit = cbq.Auto().fit(SMOOTH.collect(T, N, rng=0))
    mean, std = fit.predict([1.0, 2.0], return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std >= 0)


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
def test_several_outputs_and_constants():
    f = lambda x, theta: np.stack([np.sin(2 * x[:, 0]), np.full(len(x), 3.0)], axis=1)  # noqa: E731
    fit = cbq.Auto().fit(on_line(f, depends_on_theta=False).collect(10, 10, rng=0))
    assert fit.predict([0.5, 1.0]).shape == (2, 2)
    assert_allclose(fit.predict([0.5, 1.0])[:, 1], 3.0, rtol=1e-12)


def test_it_changes_nothing_and_repeats_itself():
    samples = SMOOTH.collect(8, 8, rng=0)
    before = samples.table.copy()
    first, second = (cbq.Auto().fit(samples) for _ in range(2))
    assert np.array_equal(first.predict([1.0]), second.predict([1.0]))
    assert np.array_equal(samples.table, before)
    assert first.choice == second.choice
    assert cbq.CBQ().fit(samples).choice is None


test_what_it_refuses = refusals(
    {
        "no samples": (lambda: cbq.Auto().fit([1.0, 2.0]), "fit takes cbq.Samples"),
    },
    TypeError,
)

test_what_says_nothing = refusals(
    {
        "one value": (lambda: cbq.Auto().fit(SMOOTH.collect(1, 1, rng=0)), "one theta with one value of f"),
    },
    ValueError,
)


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")
@pytest.mark.parametrize("T", [3, 8])
def test_one_value_at_each_theta_is_left_to_one_process(T):
    problem = cbq.Problem(
        lambda x, t: np.sin(x[:, 0]), lambda t: Gaussian(t[0], 1.0), Uniform(0.0, 2.0), depends_on_theta=False
    )
    fit = cbq.Auto().fit(problem.collect(T, 1, rng=0))
    assert isinstance(fit, MOBQFit)
    assert fit.choice == "Chose MOBQ. One value at each theta cannot show CBQ how large its error is."
