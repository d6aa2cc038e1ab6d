"""Stage 1 with a fixed kernel is Bayesian quadrature, whose properties are theorems."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cbq
from cbq.estimators.conditional.stage_one_data import sample_blocks
from cbq.gp.quadrature import evidence_and_gradient, explain, integrate
from cbq.kernels import RBF, Matern, Stein, TensorProduct, Warped
from cbq.linalg import Jitter
from cbq.linalg.engines import NumpyEngine
from cbq.measures import Empirical, Gamma, Gaussian, Uniform, Unnormalised

pytestmark = pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")  # stage 1 does without others

PLAIN = {"calibrate": False}


def samples_of(f, measures, theta, n=12, seed=0, **options):
    rng = np.random.default_rng(seed)
    x = [measure.sample(n, rng) for measure in measures]
    return cbq.Samples(theta, x, [f(points) for points in x], measures, **options)


def gaussians(T=3, d=1):
    theta = np.linspace(0.5, 1.5, T)
    return theta, [Gaussian(np.full(d, t), cov=np.full(d, 0.6)) if d > 1 else Gaussian(t, cov=0.6) for t in theta]


def rbf_embedding(x, mean, variance, ell):
    """mu (N,) and z of an RBF kernel under N(mean, variance) on the line, from the Gaussian convolution."""
    total = ell**2 + variance
    z = ell / np.sqrt(ell**2 + 2 * variance)
    return ell / np.sqrt(total) * np.exp(-0.5 * (x - mean) ** 2 / total), z


@pytest.mark.parametrize("mean", ["constant", "zero"])
def test_the_std_is_the_worst_case_error_of_the_weights_times_the_amplitude(mean):
    theta, measures = gaussians()
    samples = samples_of(lambda x: np.sin(x[:, 0]), measures, theta)
    ell = 0.2
    fit = cbq.CBQ(kernel_x=RBF(ell), mean=mean, **PLAIN).fit(samples)
    for t in range(3):
        x = samples.points(t)[:, 0]
        mu, z = rbf_embedding(x, theta[t], 0.6, ell)
        K = np.exp(-0.5 * ((x[:, None] - x[None, :]) / ell) ** 2)
        w = fit.stage1.weights[t]
        worst2 = z - 2 * w @ mu + w @ K @ w  # in the unit ball of the kernel's space
        assert_allclose(fit.stage1.std[t] / np.sqrt(fit.stage1.amplitude[t]), np.sqrt(worst2), atol=1e-8)


def test_the_weights_minimise_the_worst_case_error_under_their_constraint():
    theta, measures = gaussians(1)
    samples = samples_of(lambda x: np.sin(x[:, 0]), measures, theta, n=8)
    x = samples.points(0)[:, 0]
    mu, z = rbf_embedding(x, theta[0], 0.6, 0.9)
    K = np.exp(-0.5 * ((x[:, None] - x[None, :]) / 0.9) ** 2)
    w = cbq.CBQ(kernel_x=RBF(0.9), **PLAIN).fit(samples).stage1.weights[0]
    best = z - 2 * w @ mu + w @ K @ w
    rng = np.random.default_rng(1)
    for _ in range(50):
        step = rng.normal(size=8) * 1e-3
        other = w + step - step.mean()  # still sums to one
        assert z - 2 * other @ mu + other @ K @ other >= best - 1e-12


@pytest.mark.parametrize(
    ("kernel", "measure"),
    [
        (RBF(0.8), Gaussian(0.3, cov=0.7)),
        (Matern(1.5, 0.9), Gaussian(0.3, cov=0.7)),
        (Matern(2.5, 0.9), Gamma(3.0, 2.0)),
        (Matern(0.5, 0.4), Uniform(0.0, 2.0)),
        (TensorProduct(Matern(1.5, [0.7, 1.5])), Gaussian([0.0, 1.0], cov=[1.0, 0.5])),
        (Warped(Matern(2.5, 0.6), "gaussianise"), Gamma(3.0, 2.0)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("mean", ["constant", "zero"])
def test_a_function_in_the_span_of_the_kernel_at_the_nodes_is_integrated_exactly(kernel, measure, mean):
    rng = np.random.default_rng(3)
    x = measure.sample(9, rng)
    c = rng.normal(size=9)
    if mean == "constant":
        c -= c.mean()  # the space of a constant mean: constants, and combinations of the kernel that sum to zero
    embedding = cbq.embed(kernel, measure)
    offset = 2.5 if mean == "constant" else 0.0
    f = embedding.kernel(x) @ c + offset
    fit = cbq.CBQ(kernel_x=kernel, mean=mean, **PLAIN).fit(cbq.Samples([0.0], x[None], f[None], measure))
    assert_allclose(fit.stage1.mean[0], embedding.mean(x) @ c + offset, rtol=1e-8)


@pytest.mark.parametrize("kernel", ["auto", RBF(0.5), Matern(1.5), Stein(Matern(2.5))], ids=repr)
def test_weights_of_the_flat_mean_sum_to_one(kernel):
    theta, measures = gaussians()
    fit = cbq.CBQ(kernel_x=kernel).fit(samples_of(lambda x: np.exp(x[:, 0]), measures, theta))
    assert_allclose(np.sum(fit.stage1.weights, axis=1), 1.0, rtol=1e-9)


def test_the_stage_one_mean_is_the_weights_against_f():
    theta, measures = gaussians()
    samples = samples_of(lambda x: np.exp(x[:, 0]), measures, theta)
    fit = cbq.CBQ().fit(samples)
    assert_allclose(np.sum(fit.stage1.weights * samples.f, axis=1), fit.stage1.mean, rtol=1e-11)


@pytest.mark.parametrize("kernel", [RBF(0.4), Matern(1.5, 0.4)], ids=repr)
def test_a_finite_measure_whose_atoms_are_all_observed_is_known_exactly(kernel):
    rng = np.random.default_rng(0)
    atoms, weights = np.linspace(-2, 2, 9)[:, None], rng.dirichlet(np.ones(9))
    measure = Empirical(atoms, weights)
    f = rng.normal(size=9)
    fit = cbq.CBQ(kernel_x=kernel, **PLAIN).fit(cbq.Samples([1.0], atoms[None], f[None], measure))
    assert_allclose(fit.stage1.mean[0], weights @ f, rtol=1e-9)
    assert fit.stage1.std[0] <= 1e-5 * np.sqrt(fit.stage1.amplitude[0])  # the root of rounding
    assert_allclose(fit.stage1.weights[0], weights, atol=1e-8)


@pytest.mark.parametrize(("nu", "rate"), [(1.5, 2.0), (2.5, 3.0)])
def test_the_worst_case_error_falls_at_the_rate_of_the_theory(nu, rate):
    # N^-(nu + 1/2) in one dimension: the smoothness of the kernel's Sobolev space
    measure, sizes, errors, actual = Uniform(0.0, 1.0), [16, 32, 64, 128], [], []
    power = nu + 0.1  # |x - c|^power has derivatives up to order power + 1/2 in L2: just inside that space
    truth = (0.3 ** (power + 1) + 0.7 ** (power + 1)) / (power + 1)
    for n in sizes:
        x = (np.arange(n) + 0.5)[:, None] / n
        f = np.abs(x[:, 0] - 0.3) ** power
        fit = cbq.CBQ(kernel_x=Matern(nu, 0.2), **PLAIN).fit(cbq.Samples([0.0], x[None], f[None], measure))
        errors.append(fit.stage1.std[0] / np.sqrt(fit.stage1.amplitude[0]))
        actual.append(abs(fit.stage1.mean[0] - truth))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -rate - 0.15 < slope < -rate + 0.15
    assert np.polyfit(np.log(sizes), np.log(actual), 1)[0] < -rate + 0.3  # at least as fast, for a rough f


def test_one_theta_predicts_plain_bayesian_quadrature():
    measure = Gaussian(0.5, 1.0)
    samples = samples_of(lambda x: np.cos(x[:, 0]), [measure], [2.0])
    fit = cbq.CBQ(kernel_x=RBF(1.0), **PLAIN).fit(samples)
    mean, std = fit.predict([2.0], return_std=True)
    assert_allclose(mean, fit.stage1.mean, rtol=1e-12)
    assert_allclose(std, fit.stage1.std, rtol=1e-6)
    assert_allclose(fit.stage1.mean[0], np.exp(-0.5) * np.cos(0.5), atol=4 * fit.stage1.std[0])


def drop(samples, i):
    """The samples without point i of every theta."""
    keep = np.arange(samples.counts[0]) != i
    return cbq.Samples(samples.theta, samples.x[:, keep], samples.f[:, keep], samples.batched_measure())


@pytest.mark.parametrize("tau", [0.0, np.inf, 0.3])
@pytest.mark.parametrize("kernel", [RBF(0.6), Matern(1.5, 1.2)], ids=repr)
def test_leaving_out_a_point_by_formula_is_leaving_it_out(kernel, tau):
    theta, measures = gaussians(2)
    samples = samples_of(lambda x: np.sin(3 * x[:, 0]), measures, theta, n=7)
    jitter = Jitter(1e-13)
    (block,) = sample_blocks(samples, "raw")
    whole = integrate(kernel, block, tau, jitter)
    for i in range(7):
        (rest,) = sample_blocks(drop(samples, i), "raw")
        less = integrate(kernel, rest, tau, jitter)
        without = whole.mean - whole.weights[..., i, None] * whole.residuals[..., i, :]
        assert_allclose(without, less.mean, rtol=1e-6)
        # the evidence of the others: the same up to a constant that does not depend on the point
        shift = whole.evidence_without[..., i, :] - less.evidence
        first = (
            whole.evidence_without[..., 0, :]
            - integrate(kernel, sample_blocks(drop(samples, 0), "raw")[0], tau, jitter).evidence
        )
        assert_allclose(shift, first, atol=1e-6)


def test_the_estimated_bias_is_unbiased_for_iid_points():
    # E[I_-i + e_i] = I exactly, so the average of (mean - bias) over many runs is the truth, that of the mean is not
    measure, truth, T = Gaussian(0.0, 1.0), 1.0, 4000
    x = measure.sample(T * 6, 11).reshape(T, 6, 1)
    samples = cbq.Samples(np.arange(T), x, x[..., 0] ** 2, measure)
    stage1 = cbq.CBQ(kernel_x=RBF(0.5), kernel_theta=RBF(1.0)).fit(samples.select(slice(0, 2))).stage1
    (block,) = sample_blocks(samples, "raw")
    result = integrate(RBF(0.5), block, 0.0, Jitter())
    residuals = result.residuals[0, ..., 0]
    corrected = np.mean(result.mean[0] - result.weights[0] * residuals + residuals, axis=1)
    assert abs(np.mean(result.mean) - truth) > 0.05  # the constant mean takes the tails for the middle
    assert abs(np.mean(corrected) - truth) < 4 * np.std(corrected) / np.sqrt(T)
    assert_allclose((stage1.mean - stage1.bias), corrected[:2], rtol=1e-8)


@pytest.mark.parametrize("tau", [0.0, np.inf])
@pytest.mark.parametrize(
    "kernel",
    [RBF([0.7, 1.4]), TensorProduct(Matern(1.5, [0.7, 1.4])), Stein(Matern(2.5, 1.1)), RBF(1.0) + Matern(1.5, 2.0)],
    ids=repr,
)
def test_the_gradient_of_the_evidence_is_its_derivative(kernel, tau):
    theta, measures = gaussians(3, d=2)
    samples = samples_of(lambda x: np.stack([np.sin(x[:, 0]), x[:, 1] ** 2], axis=1), measures, theta, n=9)
    (block,) = sample_blocks(samples, "raw")
    _, gradient = evidence_and_gradient(kernel, block, tau)
    for j in range(kernel.n_lengthscales):
        step = 1e-4 * np.eye(kernel.n_lengthscales)[j]
        high, low = (
            evidence_and_gradient(kernel.with_log_lengthscales(kernel.log_lengthscales + s), block, tau)[0]
            for s in (step, -step)
        )
        assert_allclose(gradient[j], (high - low) / 2e-4, rtol=1e-4, atol=1e-4)


def test_a_theta_at_which_f_is_constant_up_to_rounding_says_nothing_about_lengthscales():
    theta, measures = gaussians(3, d=2)
    samples = samples_of(lambda x: np.stack([np.sin(x[:, 0]), x[:, 1] ** 2], axis=1), measures, theta, n=9)
    (block,) = sample_blocks(samples, "raw")
    f = block.f.copy()
    f[1] = 0.7 + 1e-13 * np.random.default_rng(0).standard_normal(f[1].shape)
    kernel = RBF([0.7, 1.4])
    value, gradient = evidence_and_gradient(kernel, replace(block, f=f), 0.0)
    others, slope = evidence_and_gradient(kernel, block[np.array([0, 2])], 0.0)
    assert_allclose(value, others, rtol=1e-12)
    assert_allclose(gradient, slope, rtol=1e-12)


def test_a_constant_that_is_added_to_f_does_not_change_its_evidence_under_a_flat_mean():
    theta, measures = gaussians(3, d=2)
    samples = samples_of(lambda x: 1e-2 * np.sin(x[:, 0]), measures, theta, n=20)
    (block,) = sample_blocks(samples, "raw")
    kernel = RBF([4.0, 5.0])  # long, so that K^-1 is large
    value, gradient = evidence_and_gradient(kernel, block, 0.0)
    higher, slope = evidence_and_gradient(kernel, replace(block, f=block.f + 1.0), 0.0)
    assert_allclose(higher, value, rtol=1e-6)
    assert_allclose(slope, gradient, rtol=1e-6)


def test_the_evidence_is_the_density_of_the_data_with_its_amplitude():
    theta, measures = gaussians(1)
    samples = samples_of(lambda x: np.sin(x[:, 0]), measures, theta, n=6)
    (block,) = sample_blocks(samples, "raw")
    f, n = block.f[0, :, 0], 6
    values = []
    for kernel in (RBF(0.5), Matern(1.5, 1.0)):
        K = kernel(block.x[0]) + 1e-12 * np.eye(n)
        A = f @ np.linalg.solve(K, f) / n
        dense = -0.5 * (n * np.log(A) + np.linalg.slogdet(K)[1])
        values.append(explain(kernel, block, np.inf, Jitter()).evidence[0, 0, 0] - dense)
    assert_allclose(values[0], values[1], rtol=1e-9)  # the same constant for every kernel


def test_a_stein_kernel_needs_the_score_alone():
    rng = np.random.default_rng(5)
    measures = [Unnormalised(score=lambda x, m=m: -(x - m) / 0.5, dim=1) for m in (0.2, 0.8)]
    x = [rng.normal(m, np.sqrt(0.5), size=(40, 1)) for m in (0.2, 0.8)]
    samples = cbq.Samples([0.2, 0.8], x, [p[:, 0] ** 2 for p in x], measures, design="mcmc")
    for kernel in ("auto", Stein(RBF())):
        fit = cbq.CBQ(kernel_x=kernel).fit(samples)
        assert_allclose(fit.stage1.mean, [0.04 + 0.5, 0.64 + 0.5], atol=1e-3)


class OneByOne(NumpyEngine):
    """An engine that works on one matrix at a time."""

    def chunks(self, T, N, *, arrays):
        return (slice(t, t + 1) for t in range(T))


def test_many_points_are_worked_on_in_chunks_with_the_same_result():
    theta, measures = gaussians(5)
    samples = samples_of(lambda x: np.sin(x[:, 0]), measures, theta, n=20)
    whole = cbq.CBQ(kernel_x=Matern(1.5)).fit(samples)
    with cbq.engine(OneByOne()):
        pieces = cbq.CBQ(kernel_x=Matern(1.5)).fit(samples)
    assert_allclose(pieces.stage1.mean, whole.stage1.mean, rtol=1e-12)
    assert_allclose(pieces.stage1.std, whole.stage1.std, rtol=1e-9)


@pytest.mark.parametrize(
    "kernel", [RBF(0.6), Matern(1.5, 0.8), Stein(Matern(2.5, 0.7)), Warped(RBF(0.5), "gaussianise")], ids=repr
)
def test_several_kernels_at_once_are_each_of_them(kernel):
    theta, measures = gaussians(4)
    samples = samples_of(lambda x: np.sin(3 * x[:, 0]), measures, theta, n=7)
    (block,) = sample_blocks(samples, "raw")
    ells = kernel.log_lengthscales + np.log([0.5, 1.0, 2.0])[:, None, None]
    together = integrate(kernel.with_log_lengthscales(ells), block, 0.0, Jitter())
    for k, ell in enumerate(ells[:, 0]):
        alone = integrate(kernel.with_log_lengthscales(ell), block, 0.0, Jitter())
        for name in ("mean", "error2", "weights", "evidence", "residuals", "evidence_without"):
            assert_allclose(getattr(together, name)[k], getattr(alone, name)[0], rtol=1e-6, atol=1e-12, err_msg=name)
