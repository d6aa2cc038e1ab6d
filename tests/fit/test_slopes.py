"""Slopes of I over theta: against closed forms, against derivatives by hand, and against draws of the curve."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import cbq
from cbq.fit.slopes import Stencils
from cbq.measures import Gamma, Gaussian, LogNormal, Product, Uniform
from cbq.problems import butterfly, health
from refusals import refusals

SPOTS = [85.0, 100.0, 115.0]


def power_option():
    """The value of a power of a price, whose slopes are known: I = scale spot^2 exp(0.04) / 1e4."""

    def family(theta):
        return LogNormal(np.log(theta[0]) - 0.02, std=0.2)

    def value(x, theta):
        return theta[1] * (x[:, 0] / 100.0) ** 2

    names = {"theta": ["spot", "scale"], "x": "price", "f": "value"}
    return cbq.Problem(value, family, Product([Uniform(80.0, 120.0), Uniform(1.0, 2.0)]), names=names)


@pytest.fixture(scope="module")
def curve():
    """A fit of one process with a given kernel, for p = 1."""
    prior = Uniform(-2.0, 2.0)
    problem = cbq.Problem(
        lambda x, theta: np.sin(x[:, 0]), lambda theta: Gaussian(theta, cov=0.1), prior, depends_on_theta=False
    )
    samples = problem.collect(6, 2, rng=0, design="sobol")
    return cbq.MOBQ(kernel_x=cbq.kernels.RBF(0.8)).fit(samples)


@pytest.mark.parametrize("inside", [False, True])
def test_stencils_differentiate_polynomials_of_their_degree(inside):
    theta, observed = np.array([[1.0], [1.4], [3.0]]), np.linspace(1.0, 3.0, 9)[:, None]
    stencils = Stencils.around(theta, observed, inside=inside)
    found = np.einsum("mpk,mpk->mp", stencils.weights, (stencils.nodes[..., 0] ** 6 - stencils.nodes[..., 0]))
    assert_allclose(found, 6 * theta**5 - 1, rtol=1e-10)
    if inside:
        assert np.min(stencils.nodes) >= 1.0
        assert np.max(stencils.nodes) <= 3.0


def test_the_slope_of_a_process_is_its_derivative_by_hand(curve):
    # I(theta) = beta + sum_i a_i E k(X, x_i), E k = l / s exp(-(theta - x_i)^2 / (2 s^2)) with s^2 = l^2 + 0.1
    x, f, l2 = curve.samples.all_points[:, 0], curve.samples.f.ravel(), 0.64
    K = np.exp(-0.5 * (x[:, None] - x) ** 2 / l2)
    n = len(x)
    system = np.block([[K, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    a = np.linalg.solve(system, np.append(f, 0.0))[:n]
    theta = np.array([-1.5, 0.0, 0.7])
    s2 = l2 + 0.1
    mu = np.sqrt(l2 / s2) * np.exp(-0.5 * (theta[:, None] - x) ** 2 / s2)
    by_hand = (mu * (x - theta[:, None]) / s2) @ a
    assert_allclose(curve.gradient(theta)[:, 0], by_hand, rtol=1e-7)


def test_polynomials_are_differentiated_exactly():
    problem = cbq.problems.get("butterfly")
    fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
    nodes = np.linspace(80.0, 120.0, 9)
    whole = np.polynomial.Polynomial.fit(nodes, fit.predict(nodes), 8)
    assert_allclose(fit.gradient(nodes)[:, 0], whole.deriv()(nodes), rtol=1e-8, atol=1e-9)


def test_closed_forms_are_met_where_f_is_known_exactly():
    # f is linear in x, and known everywhere after a few runs: E f = 3 theta_0 / theta_1 for Gamma measures
    problem = cbq.Problem(
        lambda x, theta: 3.0 * x[:, 0],
        lambda theta: Gamma(shape=theta[0], rate=theta[1]),
        Product([Uniform(2.0, 4.0), Uniform(1.0, 2.0)]),
    )
    fit = cbq.LSMC().fit(problem.collect(12, 4, rng=0))  # its own slopes, whatever they are, by central differences
    theta, h = np.array([[3.0, 1.5]]), 1e-4
    ends = [fit.predict(theta + sign * h * np.eye(2)[[j]]) for j in range(2) for sign in (1, -1)]
    by_differences = [(ends[0] - ends[1])[0] / (2 * h), (ends[2] - ends[3])[0] / (2 * h)]
    assert_allclose(fit.gradient(theta)[0], by_differences, rtol=1e-6)

    exact = cbq.problems.get("linear")
    theta = exact.prior.sample(5, 1)
    fit = cbq.MOBQ().fit(exact.collect(T=12, N=12, rng=0, design="sobol"))
    step = 1e-3 * np.eye(theta.shape[1])
    true = [(exact.exact(theta + step[j]) - exact.exact(theta - step[j])) / 2e-3 for j in range(theta.shape[1])]
    slopes, low, high = fit.gradient(theta, level=0.999)
    assert np.all((low <= np.stack(true, axis=1) + 1e-8) & (np.stack(true, axis=1) - 1e-8 <= high))
    assert_allclose(slopes, np.stack(true, axis=1), atol=1e-3 * np.max(np.abs(true)))


def butterfly_slopes(theta):
    def of_price(forward):  # the deltas of its calls
        return sum(n * norm.cdf(np.log(forward / K) / 0.3 + 0.15) for n, K in butterfly.STRIKES)

    return of_price(theta) - (1 + butterfly.SHOCK) * of_price((1 + butterfly.SHOCK) * theta)


def linear_slopes(theta):
    # Sigma^-1 = diag(1 / theta) + Y'Y: d Sigma = Sigma_j Sigma_j' / theta_j^2, and dm = Sigma_j m_j / theta_j^2
    m, sigma = cbq.problems.get("linear", dim=3).integrand.__self__.posterior(theta)
    return (np.sum(sigma**2, axis=1) + 2 * m * np.einsum("mi,mij->mj", m, sigma)) / theta**2


def health_slopes(theta):
    x, shared = health.conditional_mean(theta), health.RHO / (1 + health.RHO)
    k6, k14 = (health.STD[j] * shared / health.THETA_STD[0] for j in (health.X6, health.X14))
    one, two = (health.VALUE * x[:, j] for j in (4, 12))
    slopes = np.empty((len(theta), 2, 2))
    slopes[:, 0, 0], slopes[:, 1, 0] = one * (x[:, health.X6] + theta[:, 0] * k6), one * theta[:, 0] * k6
    slopes[:, 0, 1], slopes[:, 1, 1] = two * theta[:, 1] * k14, two * (x[:, health.X14] + theta[:, 1] * k14)
    return slopes


@pytest.mark.filterwarnings("ignore:equal values", "ignore:few")
@pytest.mark.parametrize(
    ("name", "options", "T", "slopes"),
    [
        ("butterfly", {}, 24, butterfly_slopes),
        ("linear", {"dim": 3}, 60, linear_slopes),
        ("health", {}, 60, health_slopes),
    ],
)
def test_slopes_of_a_known_function_are_its_closed_forms_to_1e8(name, options, T, slopes):
    problem = cbq.problems.get(name, **options)
    known = cbq.PriorMean(cbq.LSMC(), mean_x=problem.integrand, integral=problem.exact)  # nothing is left to learn
    fit = known.fit(problem.collect(T, 4, rng=0, design="sobol"))
    theta = problem.prior.sample(6, 1)
    true = slopes(theta)
    assert_allclose(fit.gradient(theta), true, atol=1e-8 * np.max(np.abs(true)))


@pytest.mark.parametrize("estimator", [cbq.CBQ(), cbq.MOBQ()])
def test_intervals_hold_the_slopes_of_an_option(estimator):
    problem, inside = power_option(), []
    for seed in range(5):
        fit = estimator.fit(problem.collect(T=20, N=10, rng=seed, design="sobol"))
        theta = np.column_stack([SPOTS, [1.3, 1.5, 1.7]])
        delta, low, high = fit.gradient(theta, level=0.95)
        price = np.exp(0.04) * theta[:, 0] / 1e4
        true = np.column_stack([2 * theta[:, 1] * price, theta[:, 0] * price])
        inside.append((low <= true) & (true <= high))
        assert_allclose(delta, true, rtol=0.2)
    assert np.mean(inside) >= 0.9


def test_answers_agree_with_each_other(curve):
    theta = [[-1.0], [0.5]]
    slopes, std = curve.gradient(theta, return_std=True)
    _, cov = curve.gradient(theta, return_cov=True)
    _, low, high = curve.gradient(theta, level=0.5)
    assert slopes.shape == std.shape == low.shape == (2, 1)
    assert cov.shape == (2, 1, 1)
    assert_allclose(slopes, curve.gradient(theta), rtol=1e-12)
    assert_allclose(cov[:, 0, 0], std[:, 0] ** 2, rtol=1e-10)
    assert np.all((low < slopes) & (slopes < high))


@pytest.mark.parametrize("estimator", [cbq.CBQ(), cbq.LSMC()])
def test_draws_have_the_slopes_of_their_curves(estimator):
    fit = estimator.fit(power_option().collect(T=20, N=10, rng=0, design="sobol"))
    near = np.array([[99.0, 1.5], [100.0, 1.5], [101.0, 1.5]])
    curves, slopes = fit.sample(near, size=400, rng=0, gradient=True)
    assert curves.shape == (400, 3)
    assert slopes.shape == (400, 3, 2)
    assert_allclose((curves[:, 2] - curves[:, 0]) / 2, slopes[:, 1, 0], rtol=1e-3)
    _, cov = fit.gradient(near[1:2], return_cov=True)
    many = fit.sample(near[1:2], size=20_000, rng=1, gradient=True)[1][:, 0]
    ends = np.array(fit.gradient(near[1:2], level=0.5)[1:])[:, 0]
    assert_allclose(np.quantile(many, [0.25, 0.75], axis=0), ends, atol=0.04 * np.max(ends[1] - ends[0]))
    assert_allclose(np.corrcoef(many.T)[0, 1], cov[0, 0, 1] / np.sqrt(cov[0, 0, 0] * cov[0, 1, 1]), atol=0.05)


def test_scales_of_theta_and_f_carry_over():
    samples = power_option().collect(T=20, N=10, rng=0, design="sobol")

    def rescaled(theta):
        return LogNormal(np.log(1e-3 * theta[0]) - 0.02, std=0.2)

    x = [np.asarray(points) for points in samples.x]
    scaled = cbq.Samples(samples.theta * [1e3, 1.0], np.array(x), 1e-6 * np.asarray(samples.f) + 5.0, rescaled)
    plain = cbq.Samples(samples.theta, np.array(x), np.asarray(samples.f), samples.family)
    theta = np.array([[100.0, 1.5]])
    for estimator in (cbq.CBQ(), cbq.LSMC()):
        usual, std = estimator.fit(plain).gradient(theta, return_std=True)
        other = estimator.fit(scaled).gradient(theta * [1e3, 1.0])
        assert_allclose(other * [1e9, 1e6], usual, atol=0.02 * float(np.max(std)), rtol=1e-3)


def test_outputs_have_slopes_of_their_own():
    problem = cbq.problems.get("health")
    fit = cbq.LSMC().fit(problem.collect(T=16, N=8, rng=0))
    theta = fit.theta[:3]
    slopes, cov = fit.gradient(theta, return_cov=True)
    assert slopes.shape == (3, 2, 2)
    assert cov.shape == (3, 2, 2, 2)
    assert_allclose(cov, np.swapaxes(cov, 1, 2), rtol=1e-8)
    curves, drawn = fit.sample(theta, size=7, rng=0, gradient=True)
    assert curves.shape == (7, 3, 2)
    assert drawn.shape == (7, 3, 2, 2)


def test_slopes_exist_at_the_end_of_the_family():
    def family(theta):
        if not 0.0 < theta[0] <= 1.0:
            raise ValueError("the share must be in (0, 1]")
        return Uniform(0.0, float(theta[0]))

    theta = np.linspace(0.2, 1.0, 9)[:, None]
    x = np.stack([family(t).transport((np.arange(8)[:, None] + 0.5) / 8) for t in theta])
    fit = cbq.MOBQ().fit(cbq.Samples(theta, x, x[..., 0] ** 2, family))  # I = theta^2 / 3
    assert_allclose(fit.gradient([0.2, 0.5, 1.0])[:, 0], [0.4 / 3, 1.0 / 3, 2.0 / 3], rtol=1e-3)


def test_bounds_of_f_do_not_bound_slopes():
    problem = cbq.Problem(
        lambda x, theta: norm.cdf(5 * x[:, 0]), lambda t: Gaussian(t, cov=0.01), Uniform(-1.0, 1.0), bounds=(0.0, 1.0)
    )
    fit = cbq.MOBQ().fit(problem.collect(15, 10, rng=0, design="sobol"))
    slope = 5 / np.sqrt(2 * np.pi * (1 + 25 * 0.01))  # E Phi(5 X) = Phi(5 theta / sqrt(1 + 25 0.01))
    assert_allclose(fit.gradient([0.0]), [[slope]], rtol=0.02)
    assert np.all(fit.sample([0.0], size=50, rng=0, gradient=True)[1] > 1.0)


def test_tables_name_slopes(curve):
    pytest.importorskip("pandas")
    fit = cbq.LSMC().fit(power_option().collect(T=20, N=10, rng=0))
    table = fit.to_frame([[100.0, 1.5]], gradient=True)
    assert table.columns[6:9].tolist() == ["d value / d spot", "d value / d spot, lower", "d value / d spot, upper"]
    assert_allclose(table["d value / d scale"], fit.gradient([[100.0, 1.5]])[:, 1], rtol=1e-12)
    assert "d I / d theta" in curve.to_frame([0.0], gradient=True)


def test_figures_and_reports_show_slopes(curve, tmp_path):
    pytest.importorskip("matplotlib")
    fit = cbq.LSMC().fit(power_option().collect(T=20, N=10, rng=0))
    labels = [ax.get_ylabel() for ax in fit.plot(gradient=True, at=[100.0, 1.5]).axes]
    assert labels == ["d value / d spot", "d value / d scale"]
    assert len(curve.plot(gradient=True).axes) == 1
    fit.report(tmp_path / "report.html")
    assert "d value / d spot" in (tmp_path / "report.html").read_text()


def averages():
    return cbq.MonteCarlo().fit(cbq.problems.get("butterfly").collect(T=5, N=20, rng=0))


test_what_has_no_slopes_is_refused = refusals(
    {
        "two spreads": (
            lambda: cbq.LSMC().fit(power_option().collect(16, 4, rng=0)).gradient([[100, 1]], True, True),
            "return_std, return_cov and level",
        ),
        "level": (
            lambda: cbq.LSMC().fit(power_option().collect(16, 4, rng=0)).gradient([[100, 1]], level=2.0),
            "level must lie",
        ),
        "theta": (lambda: cbq.LSMC().fit(power_option().collect(16, 4, rng=0)).gradient([np.nan]), "theta"),
        "averages": (lambda: averages().gradient([100.0]), "gradient needs I around"),
        "both": (
            lambda: cbq.LSMC().fit(power_option().collect(16, 4, rng=0)).plot([[100, 1]], gradient=True),
            "omit theta",
        ),
    },
    ValueError,
)
