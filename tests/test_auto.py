"""The automatic choice of a method: what it takes, what it says, and that its choice is a good one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cbq
from cbq.measures import Empirical, Gaussian, Uniform, Unnormalised
from cbq.methods import CBQFit, MOBQFit
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
        assert fit.summary().startswith("Chosen: one process on all points, because it has learnt f to ")
        assert_allclose(fit.predict([0.5, 1.5]), cbq.MOBQ().fit(fit.samples).predict([0.5, 1.5]), rtol=0)


def test_a_step_that_is_not_learnt_goes_to_the_method_that_expects_the_smaller_error():
    for seed in range(3):
        samples = STEP.collect(20, 25, rng=seed)
        fit = cbq.Auto().fit(samples)
        both = np.concatenate([samples.theta, 0.5 * (samples.theta + samples.theta[_nearest(samples.theta[:, 0])])])
        pooled, borrowing = (method.fit(samples) for method in (cbq.MOBQ(), cbq.CBQ(borrow=200)))
        assert pooled.parts[0].chosen.error > 0.02
        sizes = [np.sqrt(np.mean(each.predict(both, return_std=True)[1] ** 2)) for each in (pooled, borrowing)]
        assert isinstance(fit, MOBQFit if sizes[0] <= sizes[1] else CBQFit)
        if isinstance(fit, CBQFit):
            assert np.array_equal(fit.rows, borrowing.rows)
            assert f"expects {sizes[0] / sizes[1]:.2g} times its error" in fit.summary()
        else:
            assert f"expects {sizes[0] / sizes[1]:.2g} of the error" in fit.summary()


def _nearest(theta):
    return [
        min((j for j in range(len(theta)) if j != i), key=lambda j: abs(theta[j] - theta[i])) for i in range(len(theta))
    ]


def test_an_f_that_turns_with_theta_is_left_to_two_stages():
    fit = cbq.Auto().fit(WITH_THETA.collect(15, 15, rng=1))
    assert isinstance(fit, CBQFit)
    assert fit.rows is None
    assert "times its error" in fit.choice


def test_many_inputs_are_learnt_together_with_theta():
    fit = cbq.Auto().fit(MANY_INPUTS.collect(20, 25, rng=0))
    assert isinstance(fit, MOBQFit)
    assert "of the error of conditional Bayesian quadrature" in fit.choice


@pytest.mark.parametrize("problem", [SMOOTH, STEP, WITH_THETA, MANY_INPUTS], ids=["sin", "step", "turns", "inputs"])
def test_no_other_choice_would_have_expected_a_far_smaller_error(problem):
    samples = problem.collect(20, 25, rng=5)
    others = [cbq.CBQ(), cbq.MOBQ()] + ([] if samples.depends_on_theta else [cbq.CBQ(borrow=200)])
    theta = np.linspace(0.3, 2.7, 20)
    dense = problem.collect(None, 4000, rng=6, theta=theta, design="sobol")
    truth = np.mean(dense.f, axis=1)
    errors = [np.sqrt(np.mean((m.fit(samples).predict(theta) - truth) ** 2)) for m in (cbq.Auto(), *others)]
    assert errors[0] <= 3 * min(errors)


def test_without_a_family_thetas_are_interpolated():
    given = SMOOTH.collect(10, 10, rng=0)
    samples = cbq.Samples(given.theta, given.x, given.f, list(given.measures), depends_on_theta=False)
    fit = cbq.Auto().fit(samples)
    assert isinstance(fit, CBQFit)
    assert "the samples have no family" in fit.summary()
    assert np.all(np.isfinite(fit.predict([0.7, 1.3])))


def test_one_law_for_all_thetas_needs_no_family():
    theta = np.linspace(0, 2, 8)
    x = Gaussian(0.0, 1.0).sample(64, 0).reshape(8, 8)
    samples = cbq.Samples(theta, x, np.exp(0.3 * theta[:, None] * x), Gaussian(0.0, 1.0))
    fit = cbq.Auto().fit(samples)
    assert_allclose(fit.predict(theta), np.exp(0.045 * theta**2), atol=0.01)


def test_many_points_are_not_pooled(monkeypatch):
    monkeypatch.setattr("cbq.methods.auto.LARGEST", 100)
    fit = cbq.Auto().fit(SMOOTH.collect(11, 10, rng=0))
    assert "110 points are too many for one process" in fit.choice


def test_laws_without_shared_embeddings_or_a_bulk_are_served():
    x = np.random.default_rng(0).standard_normal((5, 12))
    score = lambda x: -x  # noqa: E731
    samples = cbq.Samples(
        np.arange(5.0), x, np.cos(x), lambda theta: Unnormalised(score=score, dim=1), depends_on_theta=False
    )
    fit = cbq.Auto().fit(samples)
    assert isinstance(fit, CBQFit)
    assert fit.rows is None
    assert "one process on all points cannot be had" in fit.choice
    atoms = Empirical(x.ravel())
    same = cbq.Samples(np.arange(5.0), x, np.cos(x), lambda theta: atoms, depends_on_theta=False)
    assert_allclose(cbq.Auto().fit(same).predict([0.5, 2.5]), np.mean(np.cos(x)), rtol=1e-6)


@pytest.mark.parametrize(("T", "N"), [(1, 12), (12, 1), (2, 2), (3, 4)])
def test_small_samples_are_served(T, N):
    fit = cbq.Auto().fit(SMOOTH.collect(T, N, rng=0))
    mean, std = fit.predict([1.0, 2.0], return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std >= 0)


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
