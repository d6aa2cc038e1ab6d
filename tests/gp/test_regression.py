"""The regression on columns of a table: each formula computed in two ways."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, optimize
from scipy.stats import halfcauchy, norm, rankdata

from cbq.gp.landmark_regression import RegressionPosterior, fit_regressions, pilot_basis
from cbq.gp.regression import (
    Sites,
    Step,
    WhiteOutputs,
    candidate_coordinates,
    find_steps,
    leftover,
    normal_scores,
    step_gains,
)
from cbq.gp.sparse import Bound, LandmarkFeatures, Moments, State, Targets, average_ratio, bound_by_ratio
from cbq.kernels import RBF, Matern

KERNELS = [RBF(np.array([0.8, 2.0])), Matern(2.5, np.array([0.8, 2.0])), Matern(1.5, np.array([0.8, 2.0]))]
IDS = ["rbf", "matern52", "matern32"]


def draws(n, seed, columns=2):
    return np.random.default_rng(seed).standard_normal((n, columns))


def bumpy(z, seed):
    """A centred output over z with noise."""
    y = np.sin(2 * z[:, 0]) + 0.3 * z[:, 1] + np.random.default_rng(seed).standard_normal(len(z))
    return y - y.mean()


@pytest.mark.parametrize("kernel", KERNELS, ids=IDS)
def test_likelihood_against_dense_matrices(kernel):
    z = draws(150, 1)
    y, landmarks, gamma = bumpy(z, 2), z[:15], 1.7
    L = np.linalg.cholesky(kernel(landmarks) + 1e-9 * np.eye(15))
    phi = np.linalg.solve(L, kernel(landmarks, z)).T
    C = np.eye(150) + gamma * phi @ phi.T
    one, inverse = np.ones(150), np.linalg.inv(C)
    Q = inverse - np.outer(inverse @ one, inverse @ one) / (one @ inverse @ one)
    noise = y @ Q @ y / 149
    logs = 149 * np.log(noise) + np.linalg.slogdet(C)[1] + np.log(one @ inverse @ one / 150)
    expected = 0.5 * (logs + gamma * (150 - np.trace(phi @ phi.T)))
    parameters = np.array([np.log(gamma), *kernel.log_lengthscales])
    bound = Bound(kernel, z, Targets.of(y), landmarks)
    moments = bound.moments(parameters)[1]
    assert_allclose([bound.value(parameters), State.at(gamma, moments).noise], [expected, noise], rtol=1e-9)
    assert_allclose(bound_by_ratio(np.array([gamma]), moments), expected, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=IDS)
def test_gradient_of_the_likelihood(kernel):
    z = draws(5000, 3)  # more than a block
    bound = Bound(kernel, z, Targets.of(bumpy(z, 4)), z[:12])
    at = np.array([-0.3, *kernel.log_lengthscales])
    numeric = optimize.approx_fprime(at, lambda p: bound(p)[0], 1e-6)
    assert_allclose(bound(at)[1], numeric, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kernel", KERNELS, ids=IDS)
def test_rows_with_counts_are_repeated_rows(kernel):
    z, counts = draws(40, 3), np.arange(40) % 4 + 1
    every = np.repeat(np.arange(40), counts)
    y = bumpy(z[every], 4)
    means = np.array([y[every == i].mean() for i in range(40)])
    scatter = np.sum((y - means[every]) ** 2)
    at = np.array([0.4, *kernel.log_lengthscales])
    plain = Bound(kernel, z[every], Targets.of(y), z[:12])
    counted = Bound(kernel, z, Targets(means, counts.astype(float), scatter), z[:12])
    assert_allclose(counted(at)[0], plain(at)[0], rtol=1e-10)
    assert_allclose(counted(at)[1], plain(at)[1], rtol=1e-8, atol=1e-8)


def posterior_at(kernel, z, y, landmarks, gamma):
    features = LandmarkFeatures.of(kernel, z, landmarks)
    moments = Moments.of(features, Targets.of(y))
    state = State.at(gamma, moments)
    return RegressionPosterior(features, moments, state, gamma * state.noise, 0.0)


@pytest.mark.parametrize("kernel", KERNELS, ids=IDS)
def test_posterior_against_a_dense_gaussian_process(kernel):
    n, gamma = 60, 2.0
    z = draws(n, 5)
    y = bumpy(z, 6)
    posterior = posterior_at(kernel, z, y, z, gamma)
    (block,) = posterior.blocks()
    k, one = posterior.amplitude * kernel(z), np.ones(n)
    inverse = np.linalg.inv(k + posterior.noise * np.eye(n))
    solved, S = inverse @ one, one @ inverse @ one
    constant = solved @ y / S
    mean = constant + k @ inverse @ (y - constant)
    rest = one - k @ solved
    covariance = k - k @ inverse @ k + np.outer(rest, rest) / S
    assert_allclose(block.mean, mean, atol=1e-6)
    ours = block.spread @ block.spread.T + posterior.mean_std**2
    assert_allclose(ours, covariance, atol=1e-6)
    assert_allclose(posterior.dof, np.trace(covariance) / posterior.noise, rtol=1e-5)
    assert_allclose(block.unseen, 0.0, atol=1e-6)


def test_average_ratio_against_quadrature():
    z = draws(200, 7)
    moments = Moments.of(LandmarkFeatures.of(KERNELS[0], z, z[:20]), Targets.of(bumpy(z, 8)))
    zero = bound_by_ratio(np.zeros(1), moments)[0]

    def weight(log_ratio):
        gamma = np.exp(log_ratio)
        likelihood = np.exp(zero - bound_by_ratio(np.array([gamma]), moments)[0])
        return likelihood * halfcauchy.pdf(np.sqrt(gamma)) * np.sqrt(gamma) / 2

    mass = integrate.quad(weight, -25, 20, limit=400)[0]
    first = integrate.quad(lambda t: np.exp(t) * weight(t), -25, 20, limit=400)[0]
    mean, zero_probability = average_ratio(moments)
    assert_allclose(mean, first / mass, rtol=1e-4)
    assert_allclose(zero_probability, 1 / (1 + mass), rtol=1e-4)


def test_landmarks_grow_until_they_see_the_function():
    z = draws(1500, 9, 1)

    def fitted(signal):
        y = signal + 0.05 * draws(1500, 8, 1)[:, 0]
        return fit_regressions([z], [Targets.of((y - y.mean()) / y.std())], np.random.default_rng(0))[0]

    line, rough = fitted(z[:, 0]), fitted(np.abs(np.sin(6 * z[:, 0])))
    assert rough.m > line.m
    assert rough.amplitude * rough.moments.unseen <= 0.06 * rough.noise * rough.dof


def test_a_column_is_gathered_in_narrow_bins_that_no_step_divides():
    column, y = np.exp(draws(5000, 52, 1)), draws(5000, 53, 2)
    step = Step(0, 1.7)
    sites = Sites.of(column, [step])
    assert 300 < len(sites.counts) < 400
    assert_array_equal(sites.counts, [np.sum(sites.place == i) for i in range(len(sites.counts))])
    assert np.max(sites.counts) <= 5000 / 256 + 1
    members = [column[sites.place == i] for i in range(len(sites.counts))]
    lowest, highest = (np.array([f(each) for each in members]) for f in (np.min, np.max))
    assert np.all(highest[:-1] < lowest[1:])
    assert not np.any((lowest <= 1.7) & (highest > 1.7))
    assert_allclose(sites.means(y)[7], y[sites.place == 7].mean(axis=0), rtol=1e-12)
    assert_allclose(sites.products(y)[7], y[sites.place == 7].T @ y[sites.place == 7], rtol=1e-12)
    assert len(Sites.of(np.round(column)).counts) == len(np.unique(np.round(column)))
    assert len(Sites.of(y).counts) == 5000


def test_the_gain_of_a_step_is_that_of_least_squares():
    u = draws(120, 54, 2)
    y = u[:, 0] + 2.0 * (u[:, 1] > 0.4) + 0.3 * draws(120, 55, 1)[:, 0]
    basis = np.linalg.qr(np.column_stack([np.ones(120), u]))[0]
    residual = y - basis @ (basis.T @ y)
    order = np.argsort(u[:, 1])
    found = step_gains(basis, residual[:, None], order, u[:, 1])[:, 0]
    for i in (30, 60, 90):
        design = np.column_stack([basis, u[:, 1] > u[order[i], 1]])
        left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
        assert_allclose(found[i], residual @ residual - left @ left, rtol=1e-9)
    ((step,),) = find_steps(basis, u, residual[:, None])
    assert step.column == 1
    assert abs(step.threshold - 0.4) < 0.05


def test_smooth_outputs_have_no_steps():
    z = draws(2000, 56)
    basis = pilot_basis(z, np.random.default_rng(0))
    y = bumpy(z, 57)
    assert find_steps(basis, z, (y - basis @ (basis.T @ y))[:, None]) == [[]]


def test_normal_scores_are_normal_quantiles_of_ranks():
    column = np.random.default_rng(0).integers(0, 30, 200).astype(float)
    expected = norm.ppf((rankdata(column) - 0.5) / 200)
    assert_allclose(normal_scores(column), (expected - expected.mean()) / expected.std(), rtol=1e-12)


def test_normal_scores_are_candidates_only_for_skewed_columns():
    z = draws(500, 13)
    assert len(candidate_coordinates(z)) == 1
    assert len(candidate_coordinates((z > 0.3).astype(float))) == 1
    assert len(candidate_coordinates(np.exp(2 * z))) == 2


def test_canonical_outputs_are_invariant_to_linear_maps():
    z = draws(400, 14)
    y = np.stack([bumpy(z, 15), bumpy(z[:, ::-1], 16), z[:, 0] + 3], axis=1)
    basis = pilot_basis(z, np.random.default_rng(0))
    first = WhiteOutputs.of(y).canonical(basis)
    assert_allclose(first.mean + first.values @ first.back, y, atol=1e-10)
    assert_allclose(first.values.T @ first.values / 400, np.eye(3), atol=1e-10)
    other = WhiteOutputs.of(5.0 + y @ np.array([[1e3, 0, 2], [-1, 1e-3, 0], [4, 2, 1.0]])).canonical(basis)
    assert_allclose(other.values, first.values, atol=1e-6)


def test_dependent_and_constant_outputs_are_dropped():
    z = draws(300, 17)
    y = bumpy(z, 18)
    basis = pilot_basis(z, np.random.default_rng(0))
    found = WhiteOutputs.of(np.stack([y, 2 * y + 1, np.full(300, 4.0)], axis=1)).canonical(basis)
    assert found.values.shape == (300, 1)
    assert_allclose(
        found.mean + found.values @ found.back, np.stack([y, 2 * y + 1, np.full(300, 4.0)], axis=1), atol=1e-9
    )
    assert WhiteOutputs.of(np.full((300, 2), 3.0)).canonical(basis).values.shape == (300, 0)


def test_leftover_structure_is_that_of_chance_for_noise_and_large_for_a_curve():
    z, e, ones = draws(2000, 63, 1)[:, 0], draws(2000, 64, 200), np.ones(2000)
    chance = np.array([leftover([z], ones, each[:, None], each[:, None] ** 2) for each in e.T])
    assert abs(chance.mean()) < 0.25
    assert_allclose(chance.std(), 1.0, atol=0.2)
    curve = e[:, :1] + 0.3 * np.cos(3 * z)[:, None]
    assert leftover([z], ones, curve, curve**2) > 6
