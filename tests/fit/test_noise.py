"""The noise of a random f at any theta."""

from __future__ import annotations

import numpy as np
import pytest

import cbq
from cbq.measures import Gaussian, Uniform


def problem(std, outputs=1, stochastic=True):
    def f(x, theta, rng):
        draws = np.sin(x) + std(theta[0]) * rng.standard_normal((len(x), outputs))
        return draws if outputs > 1 else draws[:, 0]

    def quiet(x, theta):
        return np.sin(x[:, 0])

    integrand = f if stochastic else quiet
    return cbq.Problem(integrand, lambda theta: Gaussian(theta, 1.0), Uniform(0.0, 1.0), stochastic=stochastic)


@pytest.mark.parametrize("estimator", [cbq.MOBQ(), cbq.CBQ(), cbq.PriorMean(cbq.MOBQ(), lambda x, theta: x[:, 0])])
def test_the_noise_follows_theta(estimator):
    truth = lambda t: 0.1 + t  # noqa: E731
    samples = problem(truth).collect(T=30, N=15, rng=0, progress=False)
    theta = np.array([0.2, 0.5, 0.8])
    np.testing.assert_allclose(estimator.fit(samples).noise(theta), truth(theta), rtol=0.35)


def test_each_output_has_a_noise_of_its_own_and_units():
    fit = cbq.MOBQ().fit(problem(lambda t: np.array([1e-3, 0.5]), outputs=2).collect(T=20, N=10, rng=1))
    found = fit.noise([[0.3], [0.7]])
    assert found.shape == (2, 2)
    np.testing.assert_allclose(found, [[1e-3, 0.5]] * 2, rtol=0.5)


def test_an_f_that_is_not_random_has_none_and_some_estimators_cannot_tell():
    samples = problem(None, stochastic=False).collect(T=8, N=8, rng=0)
    assert cbq.MOBQ().fit(samples).noise([0.5]) == cbq.CBQ().fit(samples).noise([0.5]) == 0.0
    with pytest.raises(TypeError, match=r"LSMCFit has no estimate of the noise of f: fit cbq\.MOBQ\(\) or cbq"):
        cbq.LSMC().fit(samples).noise([0.5])


def test_an_answer_counts_the_runs_that_repeat_a_point():
    answer = problem(lambda t: 0.5).solve(budget=40, rng=0, progress=False)
    at = {(*theta, *x) for theta, x in zip(answer.runs.theta.tolist(), answer.runs.x.tolist(), strict=True)}
    assert answer.n_repeats == 40 - len(at)
    assert f"{answer.n_repeats} of 40 runs repeat the point of an earlier run" in answer.summary()
