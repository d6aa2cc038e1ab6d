"""Random integrands: every point has a generator of its own, so that runs repeat, resume and extend exactly."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import cbq
from cbq.checkpoint import CheckpointError
from cbq.measures import Empirical, Gaussian, Uniform
from cbq.runs import IntegrandError
from quiet import silent

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # by Python 3.12 and 3.13
SIZE = {"T": 4, "N": 11, "rng": 5}


def family(theta):
    return Gaussian(theta, 1.0)


def noisy(x, theta, rng):
    return x[:, 0] * theta[0] + rng.standard_normal(len(x))


def noisy_pair(x, theta, *, rng):
    return np.column_stack([x[:, 0], x[:, 0]]) + rng.standard_normal((len(x), 2))


def noisy_together(x, theta, rngs):
    return x[:, 0] * theta[0] + np.array([rng.standard_normal() for rng in rngs])


def noisy_at_a_point(x, theta, rng):
    return float(x[0] * theta[0] + rng.standard_normal())


def without_rng(x, theta):
    return x[:, 0] + np.random.default_rng().standard_normal(len(x))


def dying_once(folder, x, theta, rng):
    """Ends its process at the first call of each of four points that are not the first."""
    draw, done = rng.standard_normal(), Path(folder, x[0, 0].hex())
    if theta[0] * x[0, 0] > 0.5 and not done.exists() and len(os.listdir(folder)) < 4:
        done.touch()
        os._exit(1)
    return x[:, 0] * theta[0] + draw


class Licensed:
    """A noisy f that can be called so many times."""

    def __init__(self, calls):
        self.left = calls

    def __call__(self, x, theta, rng):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("no licence")
        return noisy(x, theta, rng)


def problem(integrand=noisy, **options):
    options = {"prior": Uniform(1.0, 2.0), "stochastic": True, "name": "noisy", **options}
    return cbq.Problem(integrand, options.pop("family", family), **options)


REFERENCE = problem().collect(**SIZE)


def test_samples_say_that_f_is_random():
    assert REFERENCE.stochastic is True
    assert problem(lambda x, theta: x[:, 0], stochastic=False).collect(**SIZE).stochastic is False


def test_every_point_has_noise_of_its_own():
    noise = np.asarray(REFERENCE.f) - np.asarray(REFERENCE.x)[..., 0] * REFERENCE.theta
    assert len(np.unique(noise)) == noise.size
    many = problem().collect(20, 200, rng=0)
    noise = np.asarray(many.f) - np.asarray(many.x)[..., 0] * many.theta
    assert abs(np.mean(noise)) < 4 / np.sqrt(4000)
    assert abs(np.std(noise) - 1) < 4 / np.sqrt(8000)
    for other in (np.asarray(many.x)[..., 0] - many.theta, np.roll(noise, 1, axis=0), np.roll(noise, 1, axis=1)):
        assert abs(np.corrcoef(noise.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(4000)


@pytest.mark.parametrize(
    "how", [{"batch": 1}, {"batch": 4}, {"executor": 2, "batch": 3}, {"on_error": "skip"}], ids=str
)
def test_values_do_not_depend_on_how_the_run_is_carried_out(how):
    np.testing.assert_array_equal(problem().collect(**SIZE, **how).f, REFERENCE.f)


def test_values_do_not_depend_on_threads_or_on_taking_one_point_at_a_time():
    with ThreadPoolExecutor(3) as threads:
        np.testing.assert_array_equal(problem().collect(**SIZE, batch=2, executor=threads).f, REFERENCE.f)
    np.testing.assert_array_equal(problem(noisy_at_a_point, vectorized=False).collect(**SIZE).f, REFERENCE.f)


@pytest.mark.parametrize("how", [{}, {"batch": 4}, {"executor": 2, "batch": 3}], ids=str)
def test_a_list_of_generators_serves_many_points_at_a_time(how):
    sizes = []

    def counting(x, theta, rngs):
        sizes.append(len(x))
        return noisy_together(x, theta, rngs)

    together = problem(noisy_together if "executor" in how else counting)
    np.testing.assert_array_equal(together.collect(**SIZE, **how).f, REFERENCE.f)
    assert sizes == ([] if "executor" in how else [3, *([11] if not how else [4, 4, 3]) * 4])
    np.testing.assert_array_equal(together.evaluate(1.5, [0.5, 1.0], rng=0), problem().evaluate(1.5, [0.5, 1.0], rng=0))
    with pytest.raises(ValueError, match="takes rngs, but with vectorized=False"):
        problem(noisy_together, vectorized=False)
    with pytest.raises(ValueError, match="takes rngs, so it is random"):
        problem(noisy_together, stochastic=False)


def test_a_list_of_generators_belongs_to_points_where_some_are_left_out():
    def failing(x, theta, rngs):
        f = noisy_together(x, theta, rngs)
        if np.any(x > 3):
            raise RuntimeError
        return f

    with pytest.warns(cbq.runs.CollectWarning):
        run = problem(failing).collect(**SIZE, on_error="skip")
    kept = REFERENCE.all_points[:, 0] <= 3
    np.testing.assert_array_equal(run.table, REFERENCE.table[kept])


def test_a_longer_run_has_the_values_of_a_shorter_one():
    longer = problem().collect(6, 15, rng=SIZE["rng"])
    np.testing.assert_array_equal(longer.f[:4, :11], REFERENCE.f)
    assert not np.array_equal(problem().collect(4, 11, rng=6).f, REFERENCE.f)


def test_values_survive_the_death_of_workers(tmp_path):
    run = problem(partial(dying_once, str(tmp_path))).collect(**SIZE, executor=2, batch=3)
    assert len(os.listdir(tmp_path)) == 4
    np.testing.assert_array_equal(run.f, REFERENCE.f)


def test_a_run_that_resumes_or_is_extended_has_the_values_of_an_uninterrupted_one(tmp_path):
    path = tmp_path / "run.sqlite"
    with pytest.raises(IntegrandError, match=r"no licence.* 16 of 44 points are in"):  # and one was the probe
        problem(Licensed(17)).collect(**SIZE, batch=5, checkpoint=path)
    again = partial(problem(Licensed(99)).collect, rng=SIZE["rng"], checkpoint=path, progress=False)
    np.testing.assert_array_equal(again(4, 11).f, REFERENCE.f)
    longer = again(5, 13)
    np.testing.assert_array_equal(longer.f, problem().collect(5, 13, rng=SIZE["rng"]).f)


def test_a_changed_f_that_takes_rng_is_found_when_a_run_resumes(tmp_path):
    path = tmp_path / "run.sqlite"
    problem().collect(**SIZE, checkpoint=path)
    with pytest.raises(CheckpointError, match="holds values of another f"):
        problem(lambda x, theta, rng: 1 + noisy(x, theta, rng)).collect(**SIZE, checkpoint=path)


def test_a_random_f_without_rng_resumes_and_is_not_asked_for_the_same_values(tmp_path):
    path = tmp_path / "run.sqlite"
    before = problem(without_rng).collect(**SIZE, checkpoint=path)
    after = problem(without_rng).collect(4, 13, rng=SIZE["rng"], checkpoint=path, progress=False)
    np.testing.assert_array_equal(after.f[:, :11], before.f)


def test_a_run_that_resumes_must_agree_on_what_is_random(tmp_path):
    path = tmp_path / "run.sqlite"
    plain = problem(lambda x, theta: x[:, 0], stochastic=False)
    plain.collect(**SIZE, checkpoint=path)
    with pytest.raises(CheckpointError, match="stochastic is False in the file, and True was asked for"):
        problem(lambda x, theta: x[:, 0]).collect(**SIZE, checkpoint=path)


def test_a_checkpoint_gives_back_what_was_said_of_f(tmp_path):
    path = tmp_path / "run.sqlite"
    run = problem(noisy_pair, bounds=(-0.1, [np.inf, 1.0])).collect(**SIZE, checkpoint=path)
    read = cbq.Samples.from_checkpoint(path)
    assert read.stochastic is True
    np.testing.assert_array_equal(read.bounds, run.bounds)
    np.testing.assert_array_equal(read.bounds, [[-0.1, -0.1], [np.inf, 1.0]])
    assert cbq.Samples.from_checkpoint(path, bounds=(0, 9)).bounds.tolist() == [[0.0, 0.0], [9.0, 9.0]]


def test_replicates_stay_apart():
    atoms = problem(family=lambda theta: Empirical(theta[0] + np.array([0.0, 1.0, 2.0])))
    run = atoms.collect(**SIZE)
    assert run.counts.tolist() == [11] * 4
    assert len(np.unique(run.points(0))) <= 3
    assert len(np.unique(run.values(0))) == 11


def test_evaluate_takes_rng_where_f_does():
    x = [[0.5], [0.5], [1.0]]
    one, again, other = (problem().evaluate(1.5, x, rng=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert len({*one, *other}) == 6  # every point, and every seed, has its own noise
    np.testing.assert_array_equal(problem(noisy_at_a_point, vectorized=False).evaluate(1.5, x, rng=0), one)
    assert problem(noisy_pair).evaluate(1.5, x, rng=np.random.default_rng(0)).shape == (3, 2)
    with pytest.raises(ValueError, match="takes rng: pass a seed"):
        problem().evaluate(1.5, x)
    with pytest.raises(ValueError, match="takes no rng: leave it out"):
        problem(without_rng).evaluate(1.5, x, rng=0)
    with pytest.raises(ValueError, match="takes no rng"):
        problem(lambda x, theta, rng=None: x[:, 0], stochastic=False).evaluate(1.5, x, rng=0)


def test_an_f_that_needs_rng_must_be_declared_random():
    with pytest.raises(ValueError, match="takes rng, so it is random: pass stochastic=True"):
        problem(stochastic=False)
    received = []
    problem(lambda x, theta, rng=None: received.append(rng) or x[:, 0], stochastic=False).collect(**SIZE)
    assert received == [None] * 5  # a probe and four batches


# bounds of f


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_value_outside_its_bounds_ends_a_run_at_once_and_is_named(on_error):
    calls = []

    def f(x, theta):
        calls.append(theta)
        return np.tanh(x[:, 0]) if len(calls) < 3 else 2 + x[:, 0] ** 2

    bounded = cbq.Problem(f, family, Uniform(1.0, 2.0), bounds=(-1, 1))
    with pytest.raises(
        IntegrandError, match=r"returned .* at theta index t = 1 .*i = 0 .*its bounds \(-1, 1\)"
    ) as caught:
        bounded.collect(**SIZE, on_error=on_error)
    assert len(calls) == 3
    assert (caught.value.t, caught.value.i) == (1, 0)
    with pytest.raises(IntegrandError, match=r"its bounds \(-1, 1\)"):
        bounded.evaluate(1.5, [0.0])


def test_bounds_of_a_problem_are_those_of_its_samples():
    tanh = partial(cbq.Problem, lambda x, theta: np.tanh(x), family, Uniform(1.0, 2.0))
    assert tanh(bounds=(-1, 1)).collect(**SIZE).bounds.tolist() == [[-1.0], [1.0]]
    assert tanh(bounds=([-1], 1)).bounds.tolist() == [[-1.0], [1.0]]
    assert tanh().collect(**SIZE).bounds is None
    with pytest.raises(IntegrandError, match="its bounds are for 2 outputs"):
        tanh(bounds=(-1, [1, 2])).collect(**SIZE)
    assert problem(bounds=(0, 1)).collect(**SIZE).bounds.tolist() == [[0.0], [1.0]]  # draws lie outside


def test_values_of_a_checkpoint_outside_later_bounds_are_refused(tmp_path):
    path = tmp_path / "run.sqlite"
    cbq.Problem(lambda x, theta: x[:, 0], family, Uniform(1.0, 2.0)).collect(**SIZE, checkpoint=path)
    with pytest.raises(ValueError, match="f must lie within its bounds"):
        cbq.Samples.from_checkpoint(path, bounds=(0, 1))
    with pytest.raises(IntegrandError, match="its bounds"):
        cbq.Problem(lambda x, theta: x[:, 0], family, Uniform(1.0, 2.0), bounds=(5, 6)).collect(**SIZE, checkpoint=path)


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")
def test_residuals_that_are_nothing_but_noise_are_not_called_zero():
    def f(x, theta, rng):
        return np.sin(x[:, 0]) + 3.0 * rng.standard_normal(1)

    problem = cbq.Problem(
        f, lambda theta: cbq.measures.Gaussian(theta, 1.0), cbq.measures.Uniform(0.0, 2.0), stochastic=True
    )
    fit = cbq.MOBQ().fit(problem.collect(10, 20, rng=0, progress=False))
    assert fit.groups[0].chosen.residual == 0.0
    assert "  Leave-one-out residuals: no larger than the noise of f." in fit.summary().splitlines()
    assert not re.search(r"\b0 times", fit.summary() + "".join(each.verdict for each in fit._diagnostics()))


@pytest.mark.parametrize("estimator", [cbq.CBQ(), cbq.MOBQ()])
def test_differences_between_thetas_are_as_uncertain_as_they_are(estimator):
    # the noise hides most of I = 1/4 - (theta - 1/2)^2: a likeliest I that is constant is no certainty that I is
    def f(x, theta, rng):
        return 0.25 - (theta[0] - 0.5) ** 2 + x[:, 0] + 0.5 * rng.standard_normal(len(x))

    problem = cbq.Problem(f, lambda theta: Gaussian(0.0, cov=0.1), Uniform(0.0, 1.0), stochastic=True)
    errors = []
    for seed in range(12):
        with silent():
            mean, cov = estimator.fit(problem.collect(10, 6, rng=seed)).predict([0.05, 0.5], return_cov=True)
        apart, std = mean[1] - mean[0] - 0.45**2, np.sqrt(cov[0, 0] + cov[1, 1] - 2 * cov[0, 1])
        errors.append(abs(apart) / std)
    assert np.median(errors) < 1.5
    assert np.max(errors) < 8.0
