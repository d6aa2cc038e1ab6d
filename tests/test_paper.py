"""The choices of the paper: what is fixed, what comes from a grid, and the closed form of the Stein constant."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize

import cbq
from cbq.kernels import RBF, Matern, Stein, Warped
from cbq.measures import Gamma, Gaussian, LogNormal, Uniform, Unnormalised
from cbq.methods.conditional.blocks import sample_blocks
from cbq.methods.conditional.paper import AMPLITUDES, PAPER_LAMBDAS, _amplitude, _products, _stein


def samples_of(f=lambda x: np.sin(x[:, 0]) + 3.0, family=lambda t: Gaussian(t[0], 1.0), T=6, N=12, seed=0, **options):
    problem = cbq.Problem(lambda x, theta: f(x), family, Uniform(1.0, 2.0))
    return problem.collect(T, N, rng=seed, **options)


@pytest.mark.parametrize("offset", [0.0, 2.0, -30.0])
def test_the_stein_constant_maximises_the_likelihood(offset):
    samples = samples_of(lambda x: np.sin(2 * x[:, 0]) + offset, T=1)
    (block,) = sample_blocks(samples, "raw")
    kernel = Stein(Matern(1.5, 1.0))
    value, A = _amplitude(kernel, block)
    c = _stein(*(float(part[0]) for part in _products(kernel, block)[:3]), block.n)[1]
    K, f, n = kernel.bind(block.measure)(block.x)[0], block.f[0, :, 0], 12

    def minus_likelihood(logs):
        cov = np.exp(logs[0]) * K + np.exp(logs[1]) + 1e-12 * np.exp(logs[0]) * np.mean(np.diag(K)) * np.eye(n)
        return -stats.multivariate_normal(np.zeros(n), cov, allow_singular=True).logpdf(f)

    starts = [(np.log(A), s) for s in (-8.0, 0.0, 5.0)]
    best = min(
        (minimize(minus_likelihood, s, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}) for s in starts),
        key=lambda r: r.fun,
    )
    assert_allclose(-value + 0.5 * n * np.log(2 * np.pi), best.fun, atol=1e-5)
    assert_allclose(A, np.exp(best.x[0]), rtol=1e-3)
    if c > 0:
        assert_allclose(c, np.exp(best.x[1]), rtol=1e-3)


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_a_stein_kernel_shrinks_towards_the_mean_of_f_by_its_constant():
    # c b / (A + c S) is the mean of the constant given f, and c A / (A + c S) its variance
    samples = samples_of(T=4, f=lambda x: np.exp(x[:, 0]))
    kernel = Stein(Matern(1.5, 1.0))
    fit = cbq.CBQ.paper(kernel_x=kernel).fit(samples)
    shift, scale = np.mean(samples.f), np.std(samples.f)
    S, b = np.empty(4), np.empty(4)
    for t in range(4):
        K = kernel.bind(samples.measure(t))(samples.points(t))
        K = K + 1e-12 * np.mean(np.diag(K)) * np.eye(12)
        S[t], b[t] = np.ones(12) @ np.linalg.solve(K, np.stack([np.ones(12), (samples.f[t] - shift) / scale], axis=1))
    A = fit.stage1.amplitude[0] / scale**2
    c = np.mean((b / S) ** 2 - A / S)
    assert c > 0
    assert_allclose(fit.stage1.mean, shift + scale * c * b / (A + c * S), rtol=1e-7)
    assert_allclose(fit.stage1.std, scale * np.sqrt(c * A / (A + c * S)), rtol=1e-6)


def test_all_thetas_share_the_hyperparameters_of_the_first():
    samples = samples_of()
    fit = cbq.CBQ.paper(kernel_x=RBF()).fit(samples)
    assert len(fit.stage1.hyperparameters[0]) == 1
    scale2 = np.var(samples.f)
    assert_allclose(fit.stage1.amplitude, fit.stage1.amplitude[0])
    assert np.min(np.abs(np.log(np.array(AMPLITUDES) * scale2 / fit.stage1.amplitude[0]))) < 1e-9
    other = samples.with_values(np.concatenate([samples.f[:1], samples.f[1:][::-1]]))  # of the same mean and spread
    assert cbq.CBQ.paper(kernel_x=RBF()).fit(other).stage1.hyperparameters == fit.stage1.hyperparameters


def test_lambda_is_one_of_three_in_units_of_the_variance_of_f():
    samples = samples_of()
    (prior,) = cbq.CBQ.paper().fit(samples).priors[0]
    assert np.min(np.abs(prior.noise / np.var(samples.f) - np.array(PAPER_LAMBDAS))) < 1e-9
    assert isinstance(prior.kernel, Matern)
    assert prior.kernel.nu == 1.5
    assert prior.degree is None
    assert_allclose(prior.offset, np.mean(samples.f))


def test_other_lambdas_may_be_given():
    samples = samples_of()
    (prior,) = cbq.CBQ.paper(lambdas=(1e-3,)).fit(samples).priors[0]
    assert_allclose(prior.noise, 1e-3 * np.var(samples.f))
    (prior,) = cbq.CBQ.paper(lambdas=(0.0,)).fit(samples).priors[0]
    assert prior.noise == 0


@pytest.mark.parametrize("lambdas", [(), (-1.0,), (np.nan,), [[0.1]], 0.1, ("a",)])
def test_lambdas_that_are_no_variances_are_refused(lambdas):
    with pytest.raises((ValueError, TypeError), match="lambdas must"):
        cbq.CBQ.paper(lambdas=lambdas)


@pytest.mark.parametrize(("scale", "shift"), [(1000.0, 0.0), (-1e-6, 5.0)])
def test_mean_and_std_come_back_in_the_units_of_f(scale, shift):
    samples = samples_of()
    other = samples.with_values(scale * samples.f + shift)
    new = np.linspace(1.1, 1.9, 5)
    (mean, std), (mean2, std2) = (cbq.CBQ.paper().fit(s).predict(new, return_std=True) for s in (samples, other))
    assert_allclose((mean2 - shift) / scale, mean, rtol=1e-6)
    assert_allclose(std2 / abs(scale), std, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_far_from_all_thetas_it_returns_to_the_mean_of_f():
    samples = samples_of()
    assert_allclose(cbq.CBQ.paper().fit(samples).predict([1e6]), np.mean(samples.f), rtol=1e-9)


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        (lambda t: Gaussian(t[0], 1.0), "RBF("),
        (lambda t: LogNormal(t[0], 0.1), "Warped(RBF("),
        (lambda t: Gamma(t[0], 1.0), "Matern(1.5"),
    ],
    ids=["gaussian", "lognormal", "gamma"],
)
def test_the_kernel_of_x_goes_with_the_measure(family, kind):
    fit = cbq.CBQ.paper().fit(samples_of(family=family))
    assert fit.stage1.hyperparameters[0][0].kernel.startswith(kind)


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_an_unnormalised_measure_gets_a_stein_kernel():
    measures = [Unnormalised(score=lambda x, m=m: m - x, dim=1) for m in (1.0, 1.5, 2.0)]
    x = [np.random.default_rng(0).normal(m, 1.0, size=(30, 1)) for m in (1.0, 1.5, 2.0)]
    fit = cbq.CBQ.paper().fit(cbq.Samples([1.0, 1.5, 2.0], x, [np.sin(p[:, 0]) for p in x], measures, design="mcmc"))
    assert fit.stage1.hyperparameters[0][0].kernel.startswith("Stein(Matern(1.5")


def test_a_kernel_of_theta_may_be_given_and_outputs_have_their_own_choices():
    samples = samples_of(lambda x: np.stack([np.sin(x[:, 0]), x[:, 0] ** 2], axis=1))
    fit = cbq.CBQ.paper(kernel_x=Warped(Matern(2.5), "whiten"), kernel_theta=RBF()).fit(samples)
    assert fit.predict([1.5]).shape == (1, 2)
    assert all(isinstance(prior.kernel, RBF) for (prior,) in fit.priors)
    assert len(fit.stage1.hyperparameters) == 2


def test_it_takes_samples_only():
    with pytest.raises(TypeError, match=r"fit takes cbq\.Samples"):
        cbq.CBQ.paper().fit([1.0])
