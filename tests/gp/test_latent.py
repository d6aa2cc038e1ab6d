"""Processes behind events and counts: moments against quadrature, and draws against their posterior."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import gammaln, ndtr
from scipy.stats import multivariate_normal

from cbq.gp.latent import LatentPosterior, LatentPrior, plausible_priors
from cbq.kernels import RBF

U = np.array([[0.0], [0.7]])


def prior(link, amplitude=2.0, centre=-0.3):
    return LatentPrior(RBF(lengthscale=1.0), amplitude, centre, link, 0.5)


def by_quadrature(prior, y, likelihood):
    """log p(y), the mean (2,) and the covariance (2, 2) of h, on a fine grid."""
    K = prior.cov(U)
    grid = np.linspace(-9.0, 9.0, 601)
    h = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = multivariate_normal(np.zeros(2), K).pdf(h) * np.prod(likelihood(y, prior.centre + h), axis=1)
    weight *= (grid[1] - grid[0]) ** 2
    total = np.sum(weight)
    mean = weight @ h / total
    apart = h - mean
    return np.log(total), mean, (apart * weight[:, None]).T @ apart / total


@pytest.mark.parametrize("y", [[1.0, 0.0], [1.0, 1.0]])
@pytest.mark.parametrize("amplitude", [0.5, 4.0])
def test_expectation_propagation_has_the_moments_of_the_posterior(y, amplitude):
    p, y = prior("probit", amplitude), np.array(y)
    evidence, mean, cov = by_quadrature(p, y, lambda y, g: ndtr((2 * y - 1) * g))
    found = LatentPosterior.of(p, U, y)
    draws = found.draws(np.zeros((0, 1)), 200_000, np.random.default_rng(0))
    K = p.cov(U)
    assert_allclose(found.evidence, evidence, atol=0.01)
    assert_allclose(K @ found.a, mean, atol=0.03)
    h = (K @ draws.axes @ draws.coordinates).T
    assert_allclose(np.mean(h, axis=0), mean, atol=0.03)
    assert_allclose(np.cov(h.T), cov, atol=0.05 * amplitude)


def test_laplace_is_at_the_mode_and_near_the_evidence():
    p, y = LatentPrior(RBF(lengthscale=1.0), 1.0, 3.0, "log", 0.5), np.array([25.0, 14.0])
    evidence, _, _ = by_quadrature(p, y, lambda y, g: np.exp(y * g - np.exp(g) - gammaln(y + 1)))
    precision = np.linalg.inv(p.cov(U))
    loss = lambda h: 0.5 * h @ precision @ h + np.sum(np.exp(3.0 + h) - y * h)  # noqa: E731
    found = LatentPosterior.of(p, U, y)
    assert_allclose(p.cov(U) @ found.a, minimize(loss, np.zeros(2), tol=1e-12).x, atol=1e-4)
    assert_allclose(found.evidence - np.sum(gammaln(y + 1)), evidence, atol=0.03)


def test_draws_average_over_what_the_nodes_leave():
    p = prior("probit")
    g, left = np.array([0.4]), np.array([1.7])
    h = np.random.default_rng(0).standard_normal(400_000) * np.sqrt(1.7) + 0.4
    assert_allclose(p.mean_of(g, left), np.mean(ndtr(h)), atol=2e-3)
    counts = prior("log")
    assert_allclose(counts.mean_of(g, left), np.mean(np.exp(h)), rtol=2e-2)


def test_draws_far_from_all_points_return_to_the_prior():
    p = prior("probit")
    draws = LatentPosterior.of(p, U, np.array([1.0, 0.0])).draws(np.array([[50.0]]), 4000, np.random.default_rng(1))
    far = draws.means(np.array([[50.0]]))[0]
    assert np.std(far) > 0.15
    assert np.all((far >= 0) & (far <= 1))


def test_priors_are_draws_with_a_finite_evidence():
    rng = np.random.default_rng(0)
    u = rng.standard_normal((60, 2))
    y = 1.0 * (u[:, 0] > 0.3)
    found = plausible_priors(RBF(lengthscale=[1.0, 1.0]), u, y, "probit", rng, ard=True, noisy=False, count=8)
    assert len(found) == 8
    assert all(np.isfinite(LatentPosterior.of(each, u, y).evidence) for each in found)
    relevant, other = np.mean([np.ravel(each.kernel.log_lengthscales) for each in found], axis=0)
    assert relevant < other
