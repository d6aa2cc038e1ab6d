"""The recipe of the paper, against a plain implementation of its text, and what is fixed, chosen and refused."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import minimize

import cbq
from cbq.estimators.base import create
from cbq.estimators.conditional.paper import likeliest_amplitude, likeliest_stein, quadratic_forms
from cbq.estimators.conditional.stage_one_data import sample_blocks
from cbq.kernels import RBF, Matern, Stein, Warped
from cbq.kernels.warped import Columns
from cbq.measures import Gamma, Gaussian, LogNormal, Uniform, Unnormalised

GRID_L, GRID_A = [0.1, 0.3, 1.0, 3.0, 10.0], [1.0, 10.0, 100.0, 1000.0]


def samples_of(f=lambda x: np.sin(x[:, 0]) + 3.0, family=lambda t: Gaussian(t[0], 1.0), T=6, N=12, seed=0, **options):
    problem = cbq.Problem(lambda x, theta: f(x), family, Uniform(1.0, 2.0))
    return problem.collect(T, N, rng=seed, **options)


# The text of the paper in plain numpy: one theta, one hyperparameter, one matrix at a time.


def squared_distances(x, y):
    return np.array([[np.sum((a - b) ** 2) for b in y] for a in x])


def matern32(r, ell):
    return (1 + np.sqrt(3) * r / ell) * np.exp(-np.sqrt(3) * r / ell)


class Plain:
    """A kernel of unit amplitude on x under the measure of one theta: Gram matrix, mean embedding, initial error."""

    def __init__(self, samples, t):
        self.x, self.measure = samples.points(t), samples.measure(t)


class PlainRBF(Plain):
    def gram(self, ell):
        return np.exp(-squared_distances(self.x, self.x) / (2 * ell**2))

    def mean(self, ell):
        m, S = self.measure.mean, self.measure.cov
        d = len(m)
        factor = np.linalg.det(np.eye(d) + S / ell**2) ** -0.5
        inverse = np.linalg.inv(S + ell**2 * np.eye(d))
        return np.array([factor * np.exp(-0.5 * (x - m) @ inverse @ (x - m)) for x in self.x])

    def error(self, ell, literal):
        S = self.measure.cov
        d = len(S)
        return (ell if literal else ell**d) / np.sqrt(np.linalg.det(ell**2 * np.eye(d) + 2 * S))


class PlainLogRBF(Plain):
    def gram(self, ell):
        return np.exp(-squared_distances(np.log(self.x), np.log(self.x)) / (2 * ell**2))

    def mean(self, ell):
        m, s2 = self.measure.log.mean[0], self.measure.log.cov[0, 0]
        x = self.x[:, 0]
        power = x ** (m / (s2 + ell**2))
        return np.exp(-(m**2 + np.log(x) ** 2) / (2 * (s2 + ell**2))) * power / np.sqrt(1 + s2 / ell**2)

    def error(self, ell, literal):
        return np.mean(self.mean(ell)) if literal else ell / np.sqrt(ell**2 + 2 * self.measure.log.cov[0, 0])


class PlainWhitenedMatern(Plain):
    columns = slice(None)

    def __init__(self, samples, t):
        super().__init__(samples, t)
        m, S = self.measure.mean[self.columns], self.measure.cov[self.columns][:, self.columns]
        self.u = np.array([np.linalg.solve(np.linalg.cholesky(S), x[self.columns] - m) for x in self.x])

    def gram(self, ell):
        return matern32(np.sqrt(squared_distances(self.u, self.u)), ell)

    def mean(self, ell):
        # |U - u|^2 is noncentral chi-squared for standard normal U
        r, w = radial_rule()
        d = self.u.shape[1]
        return np.array([np.sum(w * matern32(r, ell) * 2 * r * stats.ncx2.pdf(r**2, d, u @ u)) for u in self.u])

    def error(self, ell, literal):
        r, w = radial_rule()
        return np.sum(w * matern32(np.sqrt(2) * r, ell) * stats.chi.pdf(r, self.u.shape[1]))


def radial_rule():
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return 10 * (nodes + 1), 10 * weights


class PlainFirstTreatment(PlainWhitenedMatern):
    columns = np.arange(9)


class PlainSecondTreatment(PlainWhitenedMatern):
    columns = np.array([3, *range(9, 17)])


def plain_stage_one(kernel, samples, f, nugget, literal):
    """I_BQ and sigma^2_BQ (T,) of standardised f (T, N), and the chosen lengthscale and amplitude."""
    T, N = f.shape
    first, best = kernel(samples, 0), (-np.inf,)
    for ell in GRID_L:
        for A in GRID_A:
            K = A * (first.gram(ell) + nugget * np.eye(N))
            value = -0.5 * np.linalg.slogdet(K)[1] - 0.5 * f[0] @ np.linalg.solve(K, f[0])
            if value > best[0]:
                best = (value, ell, A)
    _, ell, A = best
    mean, variance = np.empty(T), np.empty(T)
    for t in range(T):
        here = kernel(samples, t)
        weights = np.linalg.solve(A * (here.gram(ell) + nugget * np.eye(N)), A * here.mean(ell))
        mean[t] = weights @ f[t]
        variance[t] = max(A * here.error(ell, literal) - weights @ (A * here.mean(ell)), 0.0)
    return mean, variance


def plain_stein_gram(y, score, ell):
    """The Langevin Stein kernel of Matern 3/2 on the line: y (N,), score (N,)."""
    a, N = np.sqrt(3) / ell, len(y)
    K = np.empty((N, N))
    for i in range(N):
        for j in range(N):
            D, r = y[i] - y[j], abs(y[i] - y[j])
            k, dk = (1 + a * r) * np.exp(-a * r), -(a**2) * D * np.exp(-a * r)  # dk / dy_i = -dk / dy_j
            mixed = a**2 * (1 - a * r) * np.exp(-a * r)
            K[i, j] = score[i] * score[j] * k - score[i] * dk + score[j] * dk + mixed
    return K


def log_and_score(samples, t):
    """y = log x and the score of its density, for Gamma and lognormal measures."""
    x, measure = samples.points(t)[:, 0], samples.measure(t)
    if isinstance(measure, Gamma):
        return np.log(x), measure.shape[0] - measure.rate[0] * x
    return np.log(x), -(np.log(x) - measure.log.mean[0]) / measure.log.cov[0, 0]


def x_and_score(samples, t):
    """x and the score of its density, for Gamma measures."""
    x, measure = samples.points(t)[:, 0], samples.measure(t)
    return x, (measure.shape[0] - 1) / x - measure.rate[0]


def plain_stein_stage_one(samples, f, nugget, literal, coordinates=log_and_score):
    """The same with a Stein kernel A k_p + c, of log x or of x."""
    T, N = f.shape
    y0, s0 = coordinates(samples, 0)
    best, one = (-np.inf,), np.ones(N)
    for ell in np.std(y0) * np.array(GRID_L):
        K = plain_stein_gram(y0, s0, ell) + nugget * np.eye(N)
        q, b, S = (u @ np.linalg.solve(K, v) for u, v in ((f[0], f[0]), (one, f[0]), (one, one)))
        signal = (N - 1) * b**2 / (S * q - b**2)
        A, c = ((q - b**2 / S) / (N - 1), None) if signal > 1 else (q / N, 0.0)
        c = A * (signal - 1) / S if c is None else c
        C = A * K + c
        value = -0.5 * np.linalg.slogdet(C)[1] - 0.5 * f[0] @ np.linalg.solve(C, f[0])
        if value > best[0]:
            best = (value, ell, A)
    _, ell, A = best
    grams = [plain_stein_gram(*coordinates(samples, t), ell) + nugget * np.eye(N) for t in range(T)]
    S = np.array([one @ np.linalg.solve(K, one) for K in grams])
    b = np.array([one @ np.linalg.solve(K, each) for K, each in zip(grams, f, strict=True)])
    c = max(np.mean((b / S) ** 2 - A / S), 0.01 * A * np.mean(1 / S))
    weights = [np.linalg.solve(A * K + c, c * one) for K in grams]  # the embedding and the initial error are c
    mean = np.array([w @ each for w, each in zip(weights, f, strict=True)])
    return mean, np.array([c - c * np.sum(w) for w in weights])


def plain_stage_two(theta, mean, variance, new, lambdas, literal):
    """Mean and standard deviation (M,) at new thetas, in units of the estimates (T,)."""
    centre, unit = np.mean(mean), np.std(mean)
    y, v = (mean - centre) / unit, variance / unit**2
    z, z_new = ((each - np.mean(theta, axis=0)) / np.std(theta, axis=0) for each in (theta, new))
    best = (-np.inf,)
    for ell in GRID_L:
        k = matern32(np.sqrt(squared_distances(z, z)), ell)
        for A in GRID_A:
            for noise in lambdas:
                K = A * k + np.diag(v + noise)
                value = -0.5 * np.linalg.slogdet(A * k if literal else K)[1] - 0.5 * y @ np.linalg.solve(K, y)
                if value > best[0]:
                    best = (value, ell, A, noise)
    _, ell, A, noise = best
    K = A * matern32(np.sqrt(squared_distances(z, z)), ell) + np.diag(v + noise)
    k_new = A * matern32(np.sqrt(squared_distances(z_new, z)), ell)
    std = np.sqrt(A - np.sum(k_new * np.linalg.solve(K, k_new.T).T, axis=1))
    return centre + unit * k_new @ np.linalg.solve(K, y), std if literal else unit * std


def plain_recipe(samples, stage_one, new, *, nugget=1e-6, lambdas=(0.01, 0.1, 1.0), literal=False):
    """The whole recipe for samples with one output."""
    f = np.asarray(samples.f)
    centre, unit = np.mean(f), np.std(f)
    mean, variance = stage_one(samples, (f - centre) / unit, nugget, literal)
    return plain_stage_two(samples.theta, centre + unit * mean, unit**2 * variance, new, lambdas, literal)


def with_kernel(kernel):
    return lambda *arguments: plain_stage_one(kernel, *arguments)


RECIPES = {
    "linear": with_kernel(PlainRBF),
    "butterfly": with_kernel(PlainLogRBF),
    "butterfly-stein": plain_stein_stage_one,
    "sir": partial(plain_stein_stage_one, coordinates=x_and_score),
    "sir-log": plain_stein_stage_one,
}


def assert_same(found, expected):
    """Means and standard deviations agree to 1e-8 of the size of I and of the errors."""
    (mean, std), (plain_mean, plain_std) = found, expected
    assert_allclose(mean, plain_mean, rtol=0, atol=1e-8 * np.max(np.abs(plain_mean)))
    assert_allclose(std, plain_std, rtol=0, atol=1e-8 * np.max(plain_std))


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
@pytest.mark.parametrize("literal", [False, True], ids=["corrected", "literal"])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", RECIPES)
def test_it_is_the_text_of_the_paper(name, seed, literal):
    options = {"step": 0.25} if name.startswith("sir") else {}  # the longest, which is the fastest
    problem = cbq.problems.get(name.split("-")[0], **options)
    samples, new = problem.collect(15, 12, rng=seed), problem.prior.sample(20, 100)
    fit = cbq.CBQ.paper.for_problem(name, literal=literal).fit(samples)
    assert_same(fit.predict(new, return_std=True), plain_recipe(samples, RECIPES[name], new, literal=literal))


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_it_is_the_text_of_the_paper_for_two_treatments():
    problem = cbq.problems.get("health")
    samples, new = problem.collect(15, 20, rng=0), problem.prior.sample(20, 100)
    mean, std = cbq.CBQ.paper.for_problem("health").fit(samples).predict(new, return_std=True)
    for c, kernel in enumerate((PlainFirstTreatment, PlainSecondTreatment)):
        expected = plain_recipe(samples.output(c), with_kernel(kernel), new)
        assert_same((mean[:, c], std[:, c]), expected)


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_other_lambdas_and_no_nugget_are_the_text_of_the_paper():
    problem = cbq.problems.get("butterfly")
    samples, new = problem.collect(15, 12, rng=2), problem.prior.sample(20, 100)
    options = {"nugget": 0.0, "lambdas": (1e-3,)}
    fit = cbq.CBQ.paper.for_problem("butterfly-stein", **options).fit(samples)
    assert_same(fit.predict(new, return_std=True), plain_recipe(samples, plain_stein_stage_one, new, **options))


# What each formula as printed costs.


def test_the_printed_likelihood_takes_the_largest_lambda():
    samples = cbq.problems.get("linear").collect(30, 20, rng=0)
    noises = {}
    for literal in (False, True):
        fit = cbq.CBQ.paper(literal=literal).fit(samples)
        ((prior,),) = fit.priors
        noises[literal] = prior.noise / (1.0 if literal else np.var(fit.stage1.mean))
    assert noises[True] == 1.0
    assert noises[False] == pytest.approx(0.01)


def test_the_printed_standard_deviations_have_no_unit():
    samples = samples_of()
    other = samples.with_values(1000 * samples.f)
    std = [cbq.CBQ.paper(literal=True).fit(s).predict([1.5], return_std=True)[1] for s in (samples, other)]
    assert_allclose(*std, rtol=1e-6)


def test_an_initial_error_that_is_too_small_leaves_no_variance():
    # with l = 3 and d = 2 the printed one is a third of the right one
    samples = cbq.problems.get("linear").collect(12, 30, rng=0)
    assert_array_equal(cbq.CBQ.paper(RBF(3.0), literal=True).fit(samples).stage1.std, np.zeros(12))


# What is chosen, and where.


@pytest.mark.parametrize("offset", [0.0, 2.0, -30.0])
def test_the_stein_constant_maximises_the_likelihood(offset):
    samples = samples_of(lambda x: np.sin(2 * x[:, 0]) + offset, T=1)
    (block,) = sample_blocks(samples, "raw")
    kernel = Stein(Matern(1.5, 1.0))
    value, A = likeliest_amplitude(kernel, block, 1e-9)
    c = likeliest_stein(*(float(part[0]) for part in quadratic_forms(kernel, block, 1e-9)[:3]), block.n)[1]
    K, f, n = kernel.bind(block.measure)(block.x)[0], block.f[0, :, 0], 12

    def minus_likelihood(logs):
        cov = np.exp(logs[0]) * K + np.exp(logs[1]) + 1e-9 * np.exp(logs[0]) * np.eye(n)
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


def test_all_thetas_share_the_hyperparameters_of_the_first():
    samples = samples_of()
    fit = cbq.CBQ.paper(kernel_x=RBF()).fit(samples)
    assert len(fit.stage1.hyperparameters[0]) == 1
    scale2 = np.var(samples.f)
    assert_allclose(fit.stage1.amplitude, fit.stage1.amplitude[0])
    assert np.min(np.abs(np.log(np.array(GRID_A) * scale2 / fit.stage1.amplitude[0]))) < 1e-9
    other = samples.with_values(np.concatenate([samples.f[:1], samples.f[1:][::-1]]))  # of the same mean and spread
    assert cbq.CBQ.paper(kernel_x=RBF()).fit(other).stage1.hyperparameters == fit.stage1.hyperparameters


def test_lambda_is_one_of_three_in_units_of_the_variance_of_the_estimates():
    fit = cbq.CBQ.paper().fit(samples_of())
    (prior,) = fit.priors[0]
    unit2 = np.var(fit.stage1.mean)
    assert np.min(np.abs(prior.noise / unit2 - np.array([0.01, 0.1, 1.0]))) < 1e-9
    assert np.min(np.abs(prior.amplitude / unit2 / np.array(GRID_A) - 1)) < 1e-9
    assert isinstance(prior.kernel, Matern)
    assert prior.kernel.nu == 1.5
    assert np.min(np.abs(prior.kernel.lengthscale / np.array(GRID_L) - 1)) < 1e-9
    assert prior.degree is None
    assert_allclose(prior.offset, np.mean(fit.stage1.mean))


def test_a_kernel_of_theta_with_its_lengthscale_acts_on_theta_itself():
    samples = samples_of()
    free, given = (cbq.CBQ.paper(kernel_theta=kernel).fit(samples).priors[0][0] for kernel in (RBF(), RBF(0.7)))
    assert_allclose(free.coordinates.scale, np.std(samples.theta))
    assert_allclose(given.coordinates.scale, 1.0)
    assert given.kernel.lengthscale == 0.7


def test_each_theta_may_choose_its_own_hyperparameters():
    samples = samples_of()
    as_first = [samples.select(np.roll(np.arange(6), -t)) for t in range(6)]
    alone = [cbq.CBQ.paper(standardise=False).fit(each).stage1 for each in as_first]
    each = cbq.CBQ.paper(standardise=False, hyperparameters="each").fit(samples).stage1
    for name in ("mean", "std", "amplitude"):
        assert_allclose(getattr(each, name), [getattr(part, name)[0] for part in alone], rtol=1e-12)
    assert sum(share.share for share in each.hyperparameters[0]) == pytest.approx(1.0)


def test_given_hyperparameters_are_the_setting_of_the_theorem():
    samples, new = samples_of(), np.linspace(1.0, 2.0, 7)
    recipe = cbq.CBQ.paper(
        Matern(2.5, 0.8), Matern(1.5, 0.4), amplitudes=(1.0,), lambdas=(0.3,), nugget=0.0, standardise=False
    )
    fit = recipe.fit(samples)
    # both stages in plain algebra, with zero means and nothing estimated
    mean, variance = np.empty(samples.T), np.empty(samples.T)
    for t in range(samples.T):
        x, embedding = samples.points(t), cbq.embed(Matern(2.5, 0.8), samples.measure(t))
        mu = embedding.mean(x)
        w = np.linalg.solve(Matern(2.5, 0.8)(x), mu)
        mean[t], variance[t] = w @ samples.f[t], embedding.variance - w @ mu
    assert_allclose(fit.stage1.mean, mean, rtol=1e-8)
    assert_allclose(fit.stage1.std**2, variance, rtol=1e-6)
    K = Matern(1.5, 0.4)(samples.theta) + np.diag(variance + 0.3)
    assert_allclose(fit.predict(new), Matern(1.5, 0.4)(new, samples.theta) @ np.linalg.solve(K, mean), rtol=1e-7)
    assert_allclose(np.sum(fit.stage1.weights * samples.f, axis=1), fit.stage1.mean, rtol=1e-10)


def test_an_own_grid_is_searched():
    samples = samples_of(lambda x: np.sin(3 * x[:, 0]), N=20)
    fit = cbq.CBQ.paper(RBF(), lengthscales=(0.45, 0.5), amplitudes=[2.0, 7.0]).fit(samples)
    assert fit.stage1.hyperparameters[0][0].kernel in {"RBF(lengthscale=0.45)", "RBF(lengthscale=0.5)"}
    assert np.min(np.abs(fit.stage1.amplitude[0] / np.var(samples.f) - [2.0, 7.0])) < 1e-9
    assert fit.priors[0][0].kernel.lengthscale in (0.45, 0.5)


@pytest.mark.parametrize("name", ["lengthscales", "amplitudes"])
@pytest.mark.parametrize("values", [(), (0.0,), (-1.0,), (np.nan,), [[0.1]], 0.1, ("a",)])
def test_grids_that_are_not_positive_are_refused(name, values):
    with pytest.raises((ValueError, TypeError), match=f"{name} must"):
        cbq.CBQ.paper(**{name: values})


@pytest.mark.parametrize("kernel", [RBF(), RBF(1.0), Matern(1.5)], ids=["free", "given", "matern"])
def test_one_lengthscale_on_inputs_of_all_sizes_raises_a_warning(kernel):
    samples = cbq.problems.get("health").collect(12, 20, rng=0)
    ends = np.sqrt(17) * np.quantile(np.std(samples.all_points, axis=0), [0, 1])
    with pytest.warns(
        cbq.FitWarning, match=f"kernel: .* lengthscales from {ends[0]:.2g} to {ends[1]:.2g}".replace("+", ".")
    ):
        cbq.CBQ.paper(kernel).fit(samples)


def test_kernels_that_suit_the_inputs_raise_no_warning():
    samples = cbq.problems.get("health").collect(12, 20, rng=0)
    for kernel in (Warped(Matern(1.5), "whiten"), RBF(np.std(samples.all_points, axis=0))):
        assert not cbq.CBQ.paper(kernel).fit(samples).warnings
    assert not cbq.CBQ.paper(RBF(0.01)).fit(samples_of()).warnings  # on the line a given one is taken as meant


def test_other_lambdas_may_be_given():
    samples = samples_of()
    for noise in (1e-3, 0.0):
        fit = cbq.CBQ.paper(lambdas=(noise,)).fit(samples)
        assert_allclose(fit.priors[0][0].noise, noise * np.var(fit.stage1.mean))


@pytest.mark.parametrize("nugget", [-1e-6, np.nan, np.inf, "small", None])
def test_a_nugget_that_is_no_variance_is_refused(nugget):
    with pytest.raises(ValueError, match="nugget must be a number, zero or more"):
        cbq.CBQ.paper(nugget=nugget)


def test_options_are_named():
    with pytest.raises(TypeError, match="positional"):
        cbq.CBQ.paper(None, None, (0.1,))


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
def test_far_from_all_thetas_it_returns_to_the_mean_of_the_estimates():
    fit = cbq.CBQ.paper().fit(samples_of())
    assert_allclose(fit.predict([1e6]), np.mean(fit.stage1.mean), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning", "ignore:beyond:cbq.FitWarning")
def test_at_a_single_theta_it_is_the_quadrature():
    samples = samples_of(T=1, N=20)
    fit = cbq.CBQ.paper().fit(samples)
    assert_allclose(fit.predict(samples.theta), fit.stage1.mean, rtol=1e-9)
    _, far = fit.predict([1e6], return_std=True)
    assert_allclose(far, np.std(samples.f), rtol=1e-6)


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        (lambda t: Gaussian(t[0], 1.0), "RBF("),
        (lambda t: LogNormal(t[0], cov=0.1), "Warped(RBF("),
        (lambda t: Gamma(t[0] + 1.0, 1.0), "Stein(Matern(1.5"),
        (lambda t: Gamma(t[0] - 0.5, 1.0), "Warped(Stein(Matern(1.5"),
        (lambda t: Uniform(0.0, t[0]), "Matern(1.5"),
    ],
    ids=["gaussian", "lognormal", "gamma", "gamma-without-zero", "uniform"],
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


def test_each_output_may_have_its_own_kernel():
    samples = samples_of(lambda x: np.stack([np.sin(x[:, 0]), x[:, 0] ** 2], axis=1))
    each = cbq.CBQ.paper([RBF(), Matern(2.5)]).fit(samples)
    for c, kernel in enumerate((RBF(), Matern(2.5))):
        alone = cbq.CBQ.paper(kernel).fit(samples.output(c))
        assert_allclose(each.predict([1.5])[:, c], alone.predict([1.5]), rtol=1e-9)
    with pytest.raises(ValueError, match="kernel_x has 2 kernels, but f has 1 output"):
        cbq.CBQ.paper([RBF(), RBF()]).fit(samples.output(0))
    with pytest.raises(TypeError, match="kernel_x must be a kernel"):
        cbq.CBQ.paper([RBF(), "rbf"])


def test_a_problem_that_the_paper_does_not_have_is_refused():
    with pytest.raises(
        ValueError, match="name must be one of linear, sir, sir-log, butterfly, butterfly-stein, health, but"
    ):
        cbq.CBQ.paper.for_problem("sobol-g")
    with pytest.raises(ValueError, match="name must be one of"):
        cbq.CBQ.paper.for_problem(["linear"])
    with pytest.raises(ValueError, match="for_problem chooses kernel_x: leave it out"):
        cbq.CBQ.paper.for_problem("linear", kernel_x=RBF())


@pytest.mark.filterwarnings("ignore:equal values:cbq.FitWarning")
def test_a_constant_is_a_constant_whatever_its_rounding():
    samples = cbq.problems.get("linear").collect(12, 10, rng=0)
    stds = [
        cbq.CBQ.paper().fit(samples.with_values(np.full((12, 10), c))).predict(samples.theta, return_std=True)[1]
        for c in (3.0, 1 / 3)
    ]
    assert_allclose(*stds, rtol=1e-10)


def test_values_whose_squares_overflow_are_refused():
    samples = cbq.problems.get("linear").collect(12, 10, rng=0)
    with pytest.raises(ValueError, match=r"values of f of about 1e\+20[01] are too large"):
        cbq.CBQ.paper().fit(samples.with_values(1e200 * np.asarray(samples.f)))


def test_it_is_the_class_of_its_fits():
    assert isinstance(cbq.CBQ.paper(), cbq.CBQ.paper)
    assert cbq.CBQ.paper.for_problem("linear", nugget=0.0) == cbq.CBQ.paper(
        cbq.CBQ.paper.for_problem("linear").kernel_x, nugget=0.0
    )


# Kernels on some coordinates of x.


def test_a_kernel_of_some_coordinates_integrates_under_their_measure():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    measure = Gaussian([1.0, 2.0, 3.0], cov=root @ root.T)
    x, columns = rng.normal(size=(5, 3)), [2, 0]
    part = Gaussian(measure.mean[columns], cov=measure.cov[np.ix_(columns, columns)])
    found, expected = cbq.embed(Warped(RBF(1.3), Columns(columns)), measure), cbq.embed(RBF(1.3), part)
    assert_allclose(found.mean(x), expected.mean(x[:, columns]), rtol=1e-12)
    assert_allclose(found.variance, expected.variance, rtol=1e-12)


@pytest.mark.parametrize("columns", [[], [0, 0], [-1], [0.5], ["a"], 3])
def test_columns_that_are_no_coordinates_are_refused(columns):
    with pytest.raises(ValueError, match="columns must be distinct numbers of coordinates"):
        Columns(columns)


def test_columns_that_x_does_not_have_are_refused():
    with pytest.raises(ValueError, match="there is no coordinate 3 of x, which has 2 of them"):
        Warped(RBF(1.0), Columns([3]))(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="there is no coordinate 3 of x, which has 2 of them"):
        cbq.embed(Warped(RBF(1.0), Columns([3])), Gaussian([0.0, 0.0], [1.0, 1.0]))


def test_columns_are_shown_as_they_are_written():
    assert repr(Warped(RBF(1.0), Columns([2, 0]))) == "Warped(RBF(lengthscale=1.), Columns([2, 0]))"


def test_a_fit_with_a_kernel_of_some_coordinates_of_theta_can_be_saved(tmp_path):
    samples = cbq.problems.get("linear").collect(12, 10, rng=0)
    fit = cbq.CBQ.paper(kernel_theta=Warped(Matern(1.5), Columns([1]))).fit(samples)
    fit.save(tmp_path / "fit.cbq")
    assert_array_equal(cbq.load(tmp_path / "fit.cbq").predict(samples.theta), fit.predict(samples.theta))


def test_it_takes_samples_only():
    with pytest.raises(TypeError, match=r"fit takes cbq\.Samples"):
        cbq.CBQ.paper().fit([1.0])


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning", "ignore:few points:cbq.FitWarning")
@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("name", [*RECIPES, "health"])
def test_the_weights_give_the_mean(name, literal):
    """Both stages see values less their average, whose weight is part of those of all points."""
    problem = cbq.problems.get(name.split("-")[0], **({"step": 0.25} if name == "sir" else {}))
    samples, new = problem.collect(12, [8 + 2 * (t % 3) for t in range(12)], rng=3), problem.prior.sample(9, 100)
    shifted = samples.with_values([samples.values(t) + 1e3 for t in range(12)])
    for each in (samples, shifted):
        fit = cbq.CBQ.paper.for_problem(name, literal=literal).fit(each)
        weights = fit.weights(new)
        total = sum(np.sum(w * each.values(t), axis=1) for t, w in enumerate(weights))
        assert_allclose(total, fit.predict(new), rtol=1e-9)


def test_without_a_kernel_it_asks_for_one_where_no_lengthscale_of_its_grid_suits_all_inputs():
    samples = cbq.problems.get("health").collect(10, 20, rng=0)
    with pytest.raises(
        ValueError, match=r"one lengthscale between 0\.1 and 10 .* from 0\.0\d+ to 8\.\de\+02 suit .*kernel_x"
    ):
        cbq.CBQ.paper().fit(samples)
    for scale in (0.1, 1.0, 10.0):
        x = scale * np.random.default_rng(0).standard_normal((6, 10, 2))
        measure = cbq.measures.Gaussian([0.0, 0.0], cov=scale**2)
        cbq.CBQ.paper().fit(cbq.Samples(np.arange(6.0), x, np.sin(x[..., 0] / scale), measure))


@pytest.mark.filterwarnings("ignore:beyond:cbq.FitWarning")
def test_the_command_line_takes_the_kernels_of_the_paper_for_its_problems():
    problem = cbq.problems.get("health")
    samples, new = problem.collect(30, 30, rng=0), problem.prior.sample(200, 100)
    mean = create("paper", "health").fit(samples).predict(new)
    assert_array_equal(mean, cbq.CBQ.paper.for_problem("health").fit(samples).predict(new))
    with pytest.warns(cbq.FitWarning, match=r"kernel: RBF"):
        raw = cbq.CBQ.paper(RBF()).fit(samples).predict(new)
    error, other = (np.sqrt(np.mean((each - problem.exact(new)) ** 2)) for each in (mean, raw))
    assert error < 0.2 * other
