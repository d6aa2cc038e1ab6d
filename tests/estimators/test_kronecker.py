"""The process on a grid of thetas and shared points: against dense algebra, as a user meets it, and what it refuses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri

import cbq
from cbq import MOBQ
from cbq.embeddings import embed
from cbq.embeddings.many import Integrals
from cbq.estimators import KroneckerFit, MOBQFit
from cbq.gp.kronecker import GridPoints, KroneckerGP
from cbq.gp.pooled import ExactGP, IntegralPosterior
from cbq.kernels import RBF, Matern, TensorProduct, XThetaKernel
from cbq.linalg import Jitter
from cbq.measures import Beta, Gamma, Gaussian, LogNormal, Product, TruncatedGaussian, Uniform
from cbq.samples.probabilities import common_points

NONE = Jitter(start=0.0)


def grid(T, N, d=2, seed=0):
    """Two outputs on a grid, one of which has a kink that moves with theta."""
    v = np.random.default_rng(seed).standard_normal((N, d))
    theta = np.linspace(0.0, 2.0, T)[:, None]
    f = np.stack([np.sin(np.sum(v, axis=1) * (1 + theta)) + theta, np.abs(v[:, 0] - theta)])
    standard = Gaussian(np.zeros(d), np.ones(d))
    return GridPoints(theta, v, standard, f, np.ones((2, T, 1)), np.zeros(2), np.ones(2))


KERNEL = XThetaKernel(TensorProduct(Matern(1.5, 1.0)), Matern(1.5, 0.7), 2)


def collected(family, f=lambda x, theta: np.sin(x[:, 0] * theta[0]), T=12, N=16, scramble="common", **options):
    problem = cbq.Problem(f, family, Uniform(0.5, 2.0))
    return problem.collect(T, N, rng=0, design="sobol", scramble=scramble, **options)


# The process -------------------------------------------------------------------------------------------------------


def test_kronecker_and_dense_agree_on_means_variances_and_covariances():
    points = grid(60, 60)
    at = np.array([[0.0], [2.0], points.theta[7], [0.613], [1.99], [2.3]])
    process = KroneckerGP(KERNEL, points, NONE)
    dense = ExactGP(KERNEL, points.u, points.f.reshape(2, -1).T, NONE)
    assert_allclose(process.process.beta, dense.process.beta, rtol=1e-8)
    assert_allclose(process.amplitude, dense.amplitude, rtol=1e-8)
    for joint in (False, True):
        mine = IntegralPosterior.of(process, process.integrals(at), joint=joint)
        other = IntegralPosterior.of(dense, Integrals(KERNEL, [points.measure], at), joint=joint)
        assert_allclose(mine.mean, other.mean, rtol=1e-8)
        assert_allclose(mine.spread, other.spread, rtol=1e-8, atol=1e-8 * np.max(other.spread))


def test_the_process_is_that_of_kriging_with_an_unknown_constant():
    """By the saddle-point system of the weights, with a part of f that no two thetas share."""
    points, noise, at = grid(4, 5), 0.3, np.array([[0.0], [0.4], [3.0]])
    k_x, k_theta = KERNEL.on_x, KERNEL.on_theta
    K = np.kron(k_theta(points.theta) + noise * np.eye(4), k_x(points.v))
    embedding = embed(k_x, points.measure)
    mu = np.einsum("mt,n->mtn", k_theta(at, points.theta), embedding.mean(points.v)).reshape(3, -1)
    saddle = np.block([[K, np.ones((20, 1))], [np.ones((1, 20)), np.zeros((1, 1))]])
    w = np.linalg.solve(saddle, np.vstack([mu.T, np.ones((1, 3))]))[:20]
    f = points.f.reshape(2, -1)
    cov = embedding.variance * k_theta(at) - w.T @ mu.T - mu @ w + w.T @ K @ w
    process = KroneckerGP(KERNEL, points, NONE, noise)
    integrals = process.integrals(at)
    embedded = integrals.mean(process.nodes)
    assert_allclose(process.mean(embedded), w.T @ f.T, rtol=1e-10)
    assert_allclose(process.variance(embedded, integrals.variance())[:, 1], np.diag(cov), rtol=1e-10)
    assert_allclose(process.covariance(embedded, integrals.cross())[0], cov, rtol=1e-10)
    centred = f - process.process.beta.T
    assert_allclose(process.amplitude, np.sum(centred * np.linalg.solve(K, centred.T).T, axis=1) / 19, rtol=1e-10)


# The design --------------------------------------------------------------------------------------------------------

FAMILIES = {
    "lognormal": lambda t: LogNormal(t[0], cov=0.3 * t[0]),
    "gamma": lambda t: Gamma(2.0 * t[0], t[0]),
    "beta": lambda t: Beta(1.0 + t[0], 2.0),
    "truncated": lambda t: TruncatedGaussian(t[0], 1.0, 0.0, 2.0),
    "correlated": lambda t: Gaussian([t[0], 0.0], [[1.0, 0.4 * t[0]], [0.4 * t[0], 1.0]]),
    "product": lambda t: Product([Gamma(t[0], 1.0), Uniform(0.0, t[0])]),
    "types that differ": lambda t: Gaussian(t[0], 1.0) if t[0] < 1.0 else Gamma(t[0], 1.0),
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_common_design_is_found_in_normal_scores(family):
    samples = collected(family)
    v, measure = common_points(samples)
    assert measure.equals(Gaussian(np.zeros(samples.d), np.ones(samples.d)))
    assert_allclose(samples.measures[3].transport(v, "normal"), samples.points(3), rtol=1e-7)
    assert common_points(collected(family, scramble="independent")) is None


def test_one_measure_and_the_same_points_are_a_common_design_of_x():
    x, theta = ndtri(np.linspace(0.02, 0.98, 9)), np.linspace(0.0, 1.0, 6)
    samples = cbq.Samples(theta, np.tile(x, (6, 1)), np.cos(x + theta[:, None]), Gaussian(0.0, 1.0))
    v, measure = common_points(samples)
    assert_allclose(v[:, 0], x, rtol=0)
    assert measure.equals(Gaussian(0.0, 1.0))


def test_a_point_that_has_moved_is_no_common_design():
    samples = collected(FAMILIES["gamma"])
    x = np.array(samples.x)
    x[2, 5] *= 1.0 + 1e-6
    moved = cbq.Samples(samples.theta, x, samples.f, samples.measures)
    assert common_points(moved) is None
    ragged = samples.regrouped([np.arange(16 * t, 16 * t + 16 - (t == 0)) for t in range(12)])
    assert common_points(ragged) is None


# The fit -----------------------------------------------------------------------------------------------------------


def shared_points(T=8, N=9, outputs=False):
    x, theta = ndtri(np.linspace(0.02, 0.98, N)), np.linspace(0.0, 1.0, T)
    f = np.cos(x + theta[:, None])
    f = np.stack([f, x + x**2 * np.exp(theta[:, None])], axis=-1) if outputs else f
    return cbq.Samples(theta, np.tile(x, (T, 1)), f, Gaussian(0.0, 1.0))


def test_means_are_those_of_a_dense_fit_with_the_same_kernels():
    kernels = Matern(1.5, 0.8), Matern(1.5, 0.6)
    one, other = (
        MOBQ(*kernels, structure=s, jitter=NONE).fit(shared_points(12, 20, outputs=True))
        for s in ("kronecker", "dense")
    )
    assert isinstance(one, KroneckerFit)
    assert isinstance(other, MOBQFit)
    at = np.linspace(0.0, 1.0, 23)
    assert_allclose(one.predict(at), other.predict(at), rtol=1e-8)


def test_more_points_than_an_exact_process_takes_are_fitted_as_a_grid():
    """And fewer are not: existing fits stay as they are."""
    problem = cbq.problems.get("linear")
    samples = problem.collect(101, 100, rng=0, design="sobol", scramble="common")
    fit = MOBQ().fit(samples)
    assert isinstance(fit, KroneckerFit)
    assert "Kronecker product of 101 thetas and 100 shared points" in fit.summary()
    theta = problem.prior.sample(50, 1)
    assert_allclose(fit.predict(theta), problem.exact(theta), rtol=1e-3)
    with pytest.raises(ValueError, match="there are 10100 points, but an exact fit takes at most 10000"):
        MOBQ(structure="dense").fit(samples)
    assert isinstance(MOBQ().fit(collected(FAMILIES["gamma"])), MOBQFit)


@pytest.mark.parametrize(
    "name", [*(pytest.param(each, marks=pytest.mark.slow) for each in ("linear", "sir")), "butterfly"]
)
def test_intervals_hold_the_exact_answers(name):
    problem = cbq.problems.get(name)
    inside = []
    for seed in range(5):
        samples = problem.collect(20, 20, rng=seed, design="sobol", scramble="common")
        fit, theta = MOBQ(structure="kronecker").fit(samples), samples.theta
        low, high = fit.interval(theta)
        exact = problem.exact(theta)
        inside.append(np.mean((low <= exact) & (exact <= high)))
    assert np.mean(inside) > 0.88


def test_new_thetas_need_no_family():
    samples = collected(FAMILIES["gamma"])
    bare = cbq.Samples(samples.theta, samples.x, samples.f, samples.measures)
    at = np.array([[0.9], [1.4]])
    with_family, without = (MOBQ(structure="kronecker").fit(each) for each in (samples, bare))
    assert_allclose(without.predict(at), with_family.predict(at), rtol=1e-9)


def test_joint_draws_have_the_predicted_variances():
    fit = MOBQ(structure="kronecker").fit(shared_points(outputs=True))
    at = np.array([0.1, 0.15, 0.8])
    _, std = fit.predict(at, return_std=True)
    _, cov = fit.predict(at, return_cov=True)
    assert_allclose(np.diagonal(cov).T, std**2, rtol=1e-8)
    assert fit.sample(at, 4, rng=0).shape == (4, 3, 2)


def test_of_a_constant_the_mean_is_known():
    samples = shared_points().with_values(np.full((8, 9), 3.0))
    with pytest.warns(cbq.FitWarning, match="equal values"):
        fit = MOBQ(structure="kronecker").fit(samples)
    mean, std = fit.predict([0.3], return_std=True)
    assert_allclose(mean, 3.0, rtol=1e-12)
    assert np.all(np.isinf(std))


# What it refuses ---------------------------------------------------------------------------------------------------


def test_another_design_is_refused_with_the_way_to_collect_one():
    with pytest.raises(ValueError, match="design='sobol', scramble='common'"):
        MOBQ(structure="kronecker").fit(collected(FAMILIES["gamma"], scramble="independent"))


def test_landmarks_random_values_and_unknown_structures_are_refused():
    with pytest.raises(ValueError, match="takes no landmarks"):
        MOBQ(structure="kronecker", nystrom=10)
    with pytest.raises(ValueError, match="structure"):
        MOBQ(structure="sparse")
    samples = shared_points()
    noisy = cbq.Samples(samples.theta, samples.x, samples.f, Gaussian(0.0, 1.0), stochastic=True)
    with pytest.raises(ValueError, match="stochastic=True"):
        MOBQ(structure="kronecker").fit(noisy)


def test_runs_to_add_are_not_suggested():
    with pytest.raises(ValueError, match="KroneckerFit does not know where f should be run next"):
        MOBQ(structure="kronecker").fit(shared_points()).suggest(2)


def test_a_given_kernel_acts_on_the_shared_coordinates():
    fit = MOBQ(RBF(1.3), RBF(0.7), structure="kronecker").fit(collected(FAMILIES["gamma"]))
    (member,) = fit.groups[0].chosen.members
    assert repr(member.kernel) == "RBF(lengthscale=1.3) of x times RBF(lengthscale=0.7) of theta"
    assert member.noise == 0.0
