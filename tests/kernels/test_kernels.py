"""Every kernel against independent formulas, mpmath, finite differences and integration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv
from scipy.stats import norm

import cbq.kernels as kernels
from cbq.kernels import (
    RBF,
    Additive,
    Kernel,
    Matern,
    ProductKernel,
    ScaledKernel,
    Stein,
    SumKernel,
    TensorProduct,
    Warped,
    XThetaKernel,
)
from cbq.measures import Gamma, Gaussian, LogNormal, Mixture, StudentT

T = 3  # measures in a batch
DIMS = [1, 2, 5]

# the same kernels, written independently, on points x (N, d), y (M, d) of one measure


def rbf(x, y, ell):
    return np.exp(-0.5 * cdist(x / ell, y / ell) ** 2)


def matern(nu, x, y, ell):
    r = np.sqrt(2 * nu) * cdist(x / ell, y / ell)
    if nu not in (0.5, 1.5, 2.5):
        return np.where(r == 0, 1.0, 2 ** (1 - nu) / gamma(nu) * r**nu * kv(nu, np.maximum(r, 1e-30)))
    return {0.5: 1.0, 1.5: 1 + r, 2.5: 1 + r + r**2 / 3}[nu] * np.exp(-r)


def stein(base, x, y, sx, sy, ell):
    """The table of the design document: isotropic, r = |x - y|."""
    r, d = cdist(x, y), x.shape[1]
    if base == "rbf":
        k = np.exp(-(r**2) / (2 * ell**2))
        g, tr = k / ell**2, k * (d / ell**2 - r**2 / ell**4)
    elif base == 1.5:
        a = np.sqrt(3) / ell
        e = np.exp(-a * r)
        k, g, tr = (1 + a * r) * e, a**2 * e, a**2 * e * (d - a * r)
    else:
        a = np.sqrt(5) / ell
        e = np.exp(-a * r)
        k, g = (1 + a * r + a**2 * r**2 / 3) * e, a**2 / 3 * (1 + a * r) * e
        tr = a**2 / 3 * e * (d * (1 + a * r) - a**2 * r**2)
    shift = np.einsum("nmj,nmj->nm", sx[:, None] - sy[None], x[:, None] - y[None])
    return k * (sx @ sy.T) + g * shift + tr


def stein_by_mpmath(base, x, y, sx, sy, ell):
    """s.s' k + s.grad_y k + s'.grad_x k + sum_j d^2 k / dx_j dy_j, with derivatives by mpmath; x != y."""
    d = x.shape[1]
    ell = np.broadcast_to(ell, d)

    def k(*z):
        r2 = sum(((z[j] - z[d + j]) / mp.mpf(ell[j])) ** 2 for j in range(d))
        if base == "rbf":
            return mp.exp(-r2 / 2)
        r = mp.sqrt(2 * base * r2)
        return (1 + r if base == 1.5 else 1 + r + r**2 / 3) * mp.exp(-r)

    out = np.empty((len(x), len(y)))
    with mp.workdps(40):
        for n, m in np.ndindex(out.shape):
            at = tuple(mp.mpf(float(v)) for v in (*x[n], *y[m]))
            unit = np.eye(2 * d, dtype=int)
            total = k(*at) * sum(mp.mpf(float(sx[n, j])) * mp.mpf(float(sy[m, j])) for j in range(d))
            for j in range(d):
                total += mp.mpf(float(sx[n, j])) * mp.diff(k, at, tuple(unit[d + j]))
                total += mp.mpf(float(sy[m, j])) * mp.diff(k, at, tuple(unit[j]))
                total += mp.diff(k, at, tuple(unit[j] + unit[d + j]))
            out[n, m] = float(total)
    return out


# a batch of T correlated Gaussians in d dimensions, or the LogNormals of the same parameters


def parameters(d):
    rng = np.random.default_rng(d)
    a = rng.normal(size=(T, d, d)) / np.sqrt(d)
    return rng.normal(size=(T, d)) / 2, 0.5 * np.eye(d) + a @ np.swapaxes(a, -1, -2)


def white(t, x):
    mean, cov = parameters(x.shape[1])
    return np.linalg.solve(np.linalg.cholesky(cov[t]), (x - mean[t]).T).T


def score(t, x):
    mean, cov = parameters(x.shape[1])
    return -np.linalg.solve(cov[t], (x - mean[t]).T).T


def marginal_score(t, x, j):
    d = x.shape[1]
    mean, cov = parameters(d)
    return -(x[:, j : j + 1] - mean[t, j]) / cov[t, j, j]


def columns(x):
    return [x[:, j : j + 1] for j in range(x.shape[1])]


def ard(d):
    return np.linspace(0.7, 1.6, d)


def per_measure(d):
    return np.linspace(0.6, 1.4, T)[:, None] * ard(d)


LS = np.array([[0.6], [1.0], [1.7]])  # (T, 1)


def bent(x):
    return np.concatenate([x, np.sin(3 * x)], axis=-1)


class Case(NamedTuple):
    """A kernel in d dimensions and its formula for points (N, d), (M, d) of measure t."""

    build: Callable[[int], Kernel]
    formula: Callable[..., np.ndarray]
    positive: bool = False


def one_each(d):
    kinds = [RBF(0.7), Matern(0.5, 0.9), 2.0 * Matern(2.5, 1.1) + RBF(0.4), Matern(1.5, LS)]
    return [kinds[j % 4] for j in range(d)]


def one_each_formula(t, x, y):
    kinds = [
        lambda a, b: rbf(a, b, 0.7),
        lambda a, b: matern(0.5, a, b, 0.9),
        lambda a, b: 2 * matern(2.5, a, b, 1.1) + rbf(a, b, 0.4),
        lambda a, b: matern(1.5, a, b, LS[t, 0]),
    ]
    return [kinds[j % 4](a, b) for j, (a, b) in enumerate(zip(columns(x), columns(y), strict=True))]


def marginal_steins(t, x, y):
    return [
        stein("rbf", a, b, marginal_score(t, x, j), marginal_score(t, y, j), 0.9)
        for j, (a, b) in enumerate(zip(columns(x), columns(y), strict=True))
    ]


def stein_case(build_base, name, ell, by=stein):
    return Case(
        lambda d: Stein(build_base(d)),
        lambda t, x, y: by(name, x, y, score(t, x), score(t, y), ell(t, x.shape[1])),
    )


def each_column(k):
    return lambda t, x, y: [k(j, t, a, b) for j, (a, b) in enumerate(zip(columns(x), columns(y), strict=True))]


EXAMPLES: dict[type, dict[str, Case]] = {
    RBF: {
        "isotropic": Case(lambda d: RBF(0.8), lambda t, x, y: rbf(x, y, 0.8)),
        "ard": Case(lambda d: RBF(ard(d)), lambda t, x, y: rbf(x, y, ard(x.shape[1]))),
        "batch-isotropic": Case(lambda d: RBF(LS), lambda t, x, y: rbf(x, y, LS[t, 0])),
        "batch-ard": Case(lambda d: RBF(per_measure(d)), lambda t, x, y: rbf(x, y, per_measure(x.shape[1])[t])),
    },
    Matern: {
        "0.5": Case(lambda d: Matern(0.5, 1.2), lambda t, x, y: matern(0.5, x, y, 1.2)),
        "1.5": Case(lambda d: Matern(lengthscale=0.9), lambda t, x, y: matern(1.5, x, y, 0.9)),
        "2.5": Case(lambda d: Matern(2.5, [0.7]), lambda t, x, y: matern(2.5, x, y, 0.7)),
        "0.8": Case(lambda d: Matern(0.8, 1.2), lambda t, x, y: matern(0.8, x, y, 1.2)),
        "2-ard": Case(lambda d: Matern(2, ard(d)), lambda t, x, y: matern(2.0, x, y, ard(x.shape[1]))),
        "3.5-batch": Case(lambda d: Matern(3.5, LS), lambda t, x, y: matern(3.5, x, y, LS[t, 0])),
        "0.5-ard": Case(lambda d: Matern(0.5, ard(d)), lambda t, x, y: matern(0.5, x, y, ard(x.shape[1]))),
        "1.5-batch-isotropic": Case(lambda d: Matern(1.5, LS), lambda t, x, y: matern(1.5, x, y, LS[t, 0])),
        "2.5-batch-ard": Case(
            lambda d: Matern(2.5, per_measure(d)), lambda t, x, y: matern(2.5, x, y, per_measure(x.shape[1])[t])
        ),
    },
    TensorProduct: {
        "shared": Case(
            lambda d: TensorProduct(Matern(1.5, 0.9)),
            lambda t, x, y: np.prod(each_column(lambda j, t, a, b: matern(1.5, a, b, 0.9))(t, x, y), axis=0),
        ),
        "ard": Case(
            lambda d: TensorProduct(Matern(0.5, ard(d))),
            lambda t, x, y: np.prod(
                each_column(lambda j, t, a, b: matern(0.5, a, b, ard(x.shape[1])[j]))(t, x, y), axis=0
            ),
        ),
        "batch-isotropic": Case(
            lambda d: TensorProduct(Matern(2.5, LS)),
            lambda t, x, y: np.prod(each_column(lambda j, t, a, b: matern(2.5, a, b, LS[t, 0]))(t, x, y), axis=0),
        ),
        "batch-ard": Case(
            lambda d: TensorProduct(RBF(per_measure(d))), lambda t, x, y: rbf(x, y, per_measure(x.shape[1])[t])
        ),
        "list": Case(lambda d: TensorProduct(one_each(d)), lambda t, x, y: np.prod(one_each_formula(t, x, y), axis=0)),
    },
    Additive: {
        "shared": Case(
            lambda d: Additive(Matern(2.5, 0.9)),
            lambda t, x, y: sum(each_column(lambda j, t, a, b: matern(2.5, a, b, 0.9))(t, x, y)),
        ),
        "ard": Case(
            lambda d: Additive(RBF(ard(d))),
            lambda t, x, y: sum(each_column(lambda j, t, a, b: rbf(a, b, ard(x.shape[1])[j]))(t, x, y)),
        ),
        "batch-ard": Case(
            lambda d: Additive(Matern(0.5, per_measure(d))),
            lambda t, x, y: sum(
                each_column(lambda j, t, a, b: matern(0.5, a, b, per_measure(x.shape[1])[t, j]))(t, x, y)
            ),
        ),
        "list": Case(lambda d: Additive(one_each(d)), lambda t, x, y: sum(one_each_formula(t, x, y))),
        "list-stein": Case(
            lambda d: Additive([Stein(RBF(0.9)) for _ in range(d)]), lambda t, x, y: sum(marginal_steins(t, x, y))
        ),
    },
    Stein: {
        "rbf": stein_case(lambda d: RBF(0.8), "rbf", lambda t, d: 0.8),
        "1.5": stein_case(lambda d: Matern(1.5, 1.1), 1.5, lambda t, d: 1.1),
        "2.5": stein_case(lambda d: Matern(2.5, 1.3), 2.5, lambda t, d: 1.3),
        "1.5-batch": stein_case(lambda d: Matern(1.5, LS), 1.5, lambda t, d: LS[t, 0]),
        "rbf-ard": stein_case(lambda d: RBF(ard(d)), "rbf", lambda t, d: ard(d), stein_by_mpmath),
        "1.5-ard": stein_case(lambda d: Matern(1.5, ard(d)), 1.5, lambda t, d: ard(d), stein_by_mpmath),
        "2.5-batch-ard": stein_case(
            lambda d: Matern(2.5, per_measure(d)), 2.5, lambda t, d: per_measure(d)[t], stein_by_mpmath
        ),
    },
    Warped: {
        "log": Case(
            lambda d: Warped(Matern(1.5, 0.8), "log"), lambda t, x, y: matern(1.5, np.log(x), np.log(y), 0.8), True
        ),
        "whiten": Case(
            lambda d: Warped(RBF(per_measure(d)), "whiten"),
            lambda t, x, y: rbf(white(t, x), white(t, y), per_measure(x.shape[1])[t]),
        ),
        "gaussianise": Case(
            lambda d: Warped(TensorProduct(RBF(0.8)), "gaussianise"),
            lambda t, x, y: rbf(white(t, np.log(x)), white(t, np.log(y)), 0.8),
            True,
        ),
        "uniform": Case(
            lambda d: Warped(Matern(1.5, 0.4), "uniform"),
            lambda t, x, y: matern(1.5, norm.cdf(white(t, np.log(x))), norm.cdf(white(t, np.log(y))), 0.4),
            True,
        ),
        "callable": Case(lambda d: Warped(Matern(2.5, 1.4), bent), lambda t, x, y: matern(2.5, bent(x), bent(y), 1.4)),
        "log-stein": Case(
            lambda d: Warped(Stein(Matern(2.5, 0.8)), "log"),
            lambda t, x, y: stein(2.5, np.log(x), np.log(y), score(t, np.log(x)), score(t, np.log(y)), 0.8),
            True,
        ),
        "whiten-stein": Case(
            lambda d: Warped(Stein(RBF(0.8)), "whiten"),
            lambda t, x, y: stein("rbf", white(t, x), white(t, y), -white(t, x), -white(t, y), 0.8),
        ),
    },
    SumKernel: {
        "plain": Case(
            lambda d: RBF(0.8) + Matern(0.5, LS), lambda t, x, y: rbf(x, y, 0.8) + matern(0.5, x, y, LS[t, 0])
        ),
        "nested": Case(
            lambda d: SumKernel([RBF(ard(d)), 0.5 * (Stein(RBF(1.1)) + Matern(1.5, 0.7)) * RBF(2.0), Matern(2.5, 1.0)]),
            lambda t, x, y: (
                rbf(x, y, ard(x.shape[1]))
                + 0.5 * (stein("rbf", x, y, score(t, x), score(t, y), 1.1) + matern(1.5, x, y, 0.7)) * rbf(x, y, 2.0)
                + matern(2.5, x, y, 1.0)
            ),
        ),
    },
    ProductKernel: {
        "plain": Case(
            lambda d: RBF(LS) * Matern(1.5, 0.9), lambda t, x, y: rbf(x, y, LS[t, 0]) * matern(1.5, x, y, 0.9)
        ),
        "nested": Case(
            lambda d: ProductKernel([Additive(RBF(0.8)), Warped(Matern(0.5, 1.2), "whiten"), RBF(0.9) + 2 * RBF(1.9)]),
            lambda t, x, y: (
                sum(each_column(lambda j, t, a, b: rbf(a, b, 0.8))(t, x, y))
                * matern(0.5, white(t, x), white(t, y), 1.2)
                * (rbf(x, y, 0.9) + 2 * rbf(x, y, 1.9))
            ),
        ),
    },
    ScaledKernel: {
        "plain": Case(lambda d: 3.0 * RBF(0.8), lambda t, x, y: 3 * rbf(x, y, 0.8)),
        "right": Case(lambda d: Matern(0.5, LS) * 2, lambda t, x, y: 2 * matern(0.5, x, y, LS[t, 0])),
        "nested": Case(
            lambda d: 2 * (0.5 * (RBF(0.8) * Stein(Matern(1.5, 1.1)))),
            lambda t, x, y: rbf(x, y, 0.8) * stein(1.5, x, y, score(t, x), score(t, y), 1.1),
        ),
    },
    XThetaKernel: {
        "one theta": Case(
            lambda d: XThetaKernel(RBF(0.8), Matern(1.5, LS), d - 1),  # x has no coordinates where d is 1
            lambda t, x, y: (
                (rbf(x[:, :-1], y[:, :-1], 0.8) if x.shape[1] > 1 else 1.0)
                * matern(1.5, x[:, -1:], y[:, -1:], LS[t, 0])
            ),
        ),
    },
}
CASES = [
    pytest.param(case, id=f"{kind.__name__}-{name}") for kind, cases in EXAMPLES.items() for name, case in cases.items()
]
ISOTROPIC_STEINS = [pytest.param(EXAMPLES[Stein][name], id=name) for name in ("rbf", "1.5", "2.5", "1.5-batch")]


def measure(case, d):
    mean, cov = parameters(d)
    return (LogNormal if case.positive else Gaussian)(mean, cov)


def bound(case, d):
    return case.build(d).bind(measure(case, d))


def points(case, n, d, seed=0):
    """Points (T, n, d) of the measures of the case."""
    mean, cov = parameters(d)
    v = np.random.default_rng(seed).normal(size=(T, n, d))
    x = mean[:, None] + v @ np.swapaxes(np.linalg.cholesky(cov), -1, -2)
    return np.exp(x) if case.positive else x


def duplicated(case, n, d):
    x = points(case, n, d)
    x[:, n // 2 :] = x[:, : n - n // 2]
    return x


def clustered(case, n, d):
    centres = points(case, 3, d, seed=4)[:, np.arange(n) % 3]
    return centres * (1 + 1e-6 * np.random.default_rng(5).normal(size=(T, n, d)))


CONFIGURATIONS = {"random": points, "duplicated": duplicated, "clustered": clustered}


def test_every_public_kernel_has_examples():
    public = {kind for name in kernels.__all__ if inspect.isclass(kind := getattr(kernels, name))}
    assert {c for c in public if not inspect.isabstract(c)} == set(EXAMPLES)
    for kind, cases in EXAMPLES.items():
        assert all(type(case.build(2)) is kind for case in cases.values())


# values


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("case", CASES)
def test_gram_matches_the_formula(case, d):
    x, y = points(case, 4, d), points(case, 2, d, seed=1)
    gram = bound(case, d).gram(x, y)
    expected = np.stack([case.formula(t, x[t], y[t]) for t in range(T)])
    np.testing.assert_allclose(gram, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("case", ISOTROPIC_STEINS)
def test_stein_matches_its_definition(case, d):
    x, y = points(case, 3, d), points(case, 2, d, seed=1)
    gram, base = bound(case, d).gram(x, y), case.build(d).base
    name = "rbf" if isinstance(base, RBF) else base.nu
    for t in range(T):
        ell = float(base.lengthscale if base.lengthscale.ndim == 0 else base.lengthscale[t, 0])
        expected = stein_by_mpmath(name, x[t], y[t], score(t, x[t]), score(t, y[t]), ell)
        np.testing.assert_allclose(gram[t], expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("base", [RBF(0.8), Matern(1.5, 1.1), Matern(2.5, 1.3)], ids=repr)
def test_stein_matches_finite_differences_of_its_base(base, d):
    h, m = 1e-4, Gaussian(*(p[0] for p in parameters(d)))
    x, y = np.random.default_rng(0).normal(size=(2, 4, d))
    sx, sy, e = m.score(x), m.score(y), h * np.eye(d)
    expected = (sx @ sy.T) * base(x, y)
    for j in range(d):
        expected += sx[:, j, None] * (base(x, y + e[j]) - base(x, y - e[j])) / (2 * h)
        expected += sy[None, :, j] * (base(x + e[j], y) - base(x - e[j], y)) / (2 * h)
        mixed = base(x + e[j], y + e[j]) - base(x + e[j], y - e[j]) - base(x - e[j], y + e[j])
        expected += (mixed + base(x - e[j], y - e[j])) / (4 * h * h)
    np.testing.assert_allclose(Stein(base).bind(m).gram(x, y), expected, atol=1e-6)


def test_the_values_of_stein_at_a_single_point():
    x = np.array([[0.3, -0.8]])
    m = Gaussian([0.1, 0.2], [[1.0, 0.6], [0.6, 2.0]])
    s2 = float(np.sum(score_of(m, x) ** 2))
    for base, trace in ((RBF(0.5), 2 / 0.25), (Matern(1.5, 0.5), 2 * 3 / 0.25), (Matern(2.5, 0.5), 2 * 5 / 3 / 0.25)):
        assert Stein(base).bind(m).gram(x)[0, 0] == pytest.approx(s2 + trace, rel=1e-14)


def score_of(m, x):
    return -np.linalg.solve(m.cov, (x - m.mean).T).T


def test_gaussianise_uses_the_distribution_function():
    x = np.array([0.2, 1.0, 4.0])
    v = stats.norm.ppf(stats.gamma(3, scale=0.5).cdf(x))[:, None]
    k = Warped(Matern(1.5, 0.8), "gaussianise").bind(Gamma(3, 2))
    np.testing.assert_allclose(k(x), matern(1.5, v, v, 0.8), rtol=1e-12)


def test_whitening_uses_the_moments_of_any_measure():
    x = np.array([0.2, 1.0, 4.0])
    v = ((x - 1.5) / np.sqrt(0.75))[:, None]
    np.testing.assert_allclose(Warped(RBF(0.8), "whiten").bind(Gamma(3, 2))(x), rbf(v, v, 0.8), rtol=1e-13)


@pytest.mark.parametrize("ell", [1e-3, 1e3])
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_extreme_lengthscales(nu, ell):
    x = np.random.default_rng(0).normal(size=(6, 2))
    k = RBF(ell) if nu == np.inf else Matern(nu, ell)
    expected = rbf(x, x, ell) if nu == np.inf else matern(nu, x, x, ell)
    np.testing.assert_allclose(k(x), expected, rtol=1e-11, atol=1e-300)
    np.testing.assert_array_equal(np.isfinite(k.derivatives(x)), True)


def test_close_points_lose_no_digits():
    # 1 - k is r^2 / 2 l^2 to leading order: not lost although the points lie far from the origin
    x = np.array([[1e3, 1e3], [1e3 + 2.0**-20, 1e3]])
    assert 1 - RBF(1.0)(x)[0, 1] == pytest.approx(2.0**-41, rel=1e-3)


# derivatives


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("where", [points, duplicated])
def test_derivatives_match_finite_differences(case, d, where):
    k, x, h = bound(case, d), where(case, 4, d), 1e-5
    theta = k.log_lengthscales
    derivatives = k.derivatives(x)
    assert derivatives.shape == (T, k.n_lengthscales, 4, 4)
    assert np.all(np.isfinite(derivatives))
    for j, e in enumerate(h * np.eye(k.n_lengthscales)):
        up, down = (k.with_log_lengthscales(theta + sign * e).gram(x) for sign in (1, -1))
        np.testing.assert_allclose(
            derivatives[:, j], (up - down) / (2 * h), rtol=1e-6, atol=1e-8 * np.abs(derivatives).max() + 1e-9
        )


@pytest.mark.parametrize("case", CASES)
def test_derivatives_between_two_sets_of_points(case):
    k, x, y = bound(case, 2), points(case, 3, 2), points(case, 2, 2, seed=1)
    both = k.derivatives(np.concatenate([x, y], axis=1))
    np.testing.assert_allclose(k.derivatives(x, y), both[..., :3, 3:], rtol=1e-12, atol=1e-14)


# positive definite, symmetric, diagonal


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("case", CASES)
def test_positive_semidefinite_and_symmetric(case, configuration, d):
    x = CONFIGURATIONS[configuration](case, 24, d)
    gram = bound(case, d).gram(x)
    np.testing.assert_allclose(gram, np.swapaxes(gram, -1, -2), rtol=1e-13, atol=1e-14 * np.abs(gram).max())
    eigenvalues = np.linalg.eigvalsh(gram)
    assert np.all(eigenvalues[:, 0] >= -1e-10 * eigenvalues[:, -1])
    np.testing.assert_allclose(
        bound(case, d).diag(x), np.diagonal(gram, axis1=-2, axis2=-1), rtol=1e-12, atol=1e-14 * np.abs(gram).max()
    )


# shapes, storage, inputs


@pytest.mark.parametrize("case", CASES)
def test_inputs_are_not_modified(case):
    k, x, y = bound(case, 2), points(case, 4, 2), points(case, 3, 2, seed=1)
    before = x.copy(), y.copy()
    x.setflags(write=False)
    y.setflags(write=False)
    k(x, y)
    k(x)
    k.diag(x)
    k.derivatives(x, y)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(y, before[1])


def test_parameters_are_copied():
    ell = np.array([0.5, 1.0])
    k = RBF(ell)
    ell[:] = 7.0
    np.testing.assert_array_equal(k.lengthscale, [0.5, 1.0])
    assert not k.lengthscale.flags.writeable


@pytest.mark.parametrize("case", CASES)
def test_points_broadcast_over_the_batch(case):
    k, x = bound(case, 2), points(case, 4, 2)
    y = points(case, 3, 2, seed=1)[0]  # (M, d), shared by all measures
    gram, derivatives = k.gram(x, y), k.derivatives(x, y)
    assert gram.shape == (T, 4, 3)
    assert derivatives.shape == (T, k.n_lengthscales, 4, 3)
    shared = np.broadcast_to(y, (T, 3, 2))
    np.testing.assert_array_equal(gram, k.gram(x, shared))
    np.testing.assert_array_equal(derivatives, k.derivatives(x, shared))
    np.testing.assert_allclose(k.gram(y, x), np.swapaxes(gram, -1, -2), rtol=1e-13, atol=1e-14 * np.abs(gram).max())
    more = np.stack([x, x[::-1]])  # (2, T, N, d)
    assert k.gram(more, y).shape == (2, T, 4, 3)
    np.testing.assert_array_equal(k.gram(more, y)[0], gram)
    assert k.gram(x, more).shape == (2, T, 4, 4)


@pytest.mark.parametrize("case", CASES)
def test_one_dimensional_points_need_no_axis(case):
    k, x, y = bound(case, 1), points(case, 4, 1)[0], points(case, 3, 1)[1]
    np.testing.assert_array_equal(k(x[:, 0], y[:, 0]), k(x, y))
    np.testing.assert_array_equal(k(x[:, 0].tolist()), k(x))
    np.testing.assert_array_equal(k.derivatives(x[:, 0]), k.derivatives(x))
    np.testing.assert_array_equal(k(float(x[0, 0]), y), k(x[:1], y))


@pytest.mark.parametrize("case", CASES)
def test_a_single_point(case):
    k, x = bound(case, 2), points(case, 1, 2)
    gram = k(x)
    assert gram.shape == (T, 1, 1)
    np.testing.assert_allclose(gram[..., 0], k.diag(x), rtol=1e-14)
    assert k.derivatives(x).shape == (T, k.n_lengthscales, 1, 1)
    np.testing.assert_allclose(k(x, points(case, 3, 2)), k(points(case, 3, 2), x).transpose(0, 2, 1), rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_thirty_dimensions(case):
    k, x = bound(case, 30), points(case, 6, 30)
    gram = k(x)
    assert gram.shape == (T, 6, 6)
    np.testing.assert_allclose(np.diagonal(gram, axis1=-2, axis2=-1), k.diag(x), rtol=1e-12)
    assert np.all(np.linalg.eigvalsh(gram)[:, 0] >= -1e-10 * gram.max())
    assert k.derivatives(x).shape == (T, k.n_lengthscales, 6, 6)


@pytest.mark.parametrize("case", CASES)
def test_a_batch_agrees_with_its_members(case):
    d = 2
    mean, cov = parameters(d)
    k, x = bound(case, d), points(case, 4, d)
    theta = k.log_lengthscales
    gram = k(x)
    for t in range(T):
        single = case.build(d).bind((LogNormal if case.positive else Gaussian)(mean[t], cov[t]))
        single = single.with_log_lengthscales(np.broadcast_to(theta, (T, theta.shape[-1]))[t])
        np.testing.assert_allclose(single(x[t]), gram[t], rtol=1e-12, atol=1e-14 * np.abs(gram).max())


# lengthscales and measures


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("case", CASES)
def test_log_lengthscales_round_trip(case, d):
    k, x = bound(case, d), points(case, 4, d)
    theta = k.log_lengthscales
    assert theta.shape[-1] == k.n_lengthscales
    again = k.with_log_lengthscales(theta)
    assert type(again) is type(k)
    np.testing.assert_allclose(again.log_lengthscales, theta, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(again(x), k(x), rtol=1e-12, atol=1e-14 * np.abs(k(x)).max())
    new = theta + np.linspace(0.1, 0.3, theta.shape[-1])
    np.testing.assert_allclose(k.with_log_lengthscales(new).log_lengthscales, new, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(k.log_lengthscales, theta)


def test_lengthscales_come_in_the_order_of_the_parts():
    k = RBF([1.0, 2.0]) * Matern(0.5, 3.0) + 2 * TensorProduct([RBF(4.0), Stein(RBF(5.0))]) + Warped(RBF(6.0), "log")
    np.testing.assert_allclose(np.exp(k.log_lengthscales), [1, 2, 3, 4, 5, 6], rtol=1e-15)


@pytest.mark.parametrize("case", CASES)
def test_a_bound_kernel_is_not_bound_again(case):
    d = 2
    free, k = case.build(d), bound(case, d)
    assert not k.needs_measure
    x = points(case, 4, d)
    again = k.bind(LogNormal([0.0, 1.0], cov=2.0) if case.positive else Gaussian([5.0, -5.0], cov=2.0))
    assert not again.needs_measure
    assert type(again) is type(k)
    np.testing.assert_array_equal(again(x), k(x))
    if not free.needs_measure:
        np.testing.assert_array_equal(free(x), k(x))


def test_a_kernel_knows_whether_it_needs_a_measure():
    needing = [
        Stein(RBF(1.0)),
        Warped(RBF(1.0), "whiten"),
        Warped(RBF(1.0), "gaussianise"),
        Warped(Stein(RBF(1.0)), "log"),
    ]
    for k in needing:
        for made in (k, 2 * k, RBF(1.0) + k, k * RBF(1.0), TensorProduct([RBF(1.0), k]), Additive([k])):
            assert made.needs_measure
    for k in (RBF(), Matern(), Warped(RBF(), "log"), Warped(RBF(), np.sin), TensorProduct(RBF()), RBF() + 2 * RBF()):
        assert not k.needs_measure
        assert k.bind(Gaussian(0, 1)).gram is not None


SMOOTHNESS = {
    "rbf": (RBF(), np.inf),
    "matern": (Matern(2.5), 2.5),
    "scaled": (2.0 * Matern(1.5), 1.5),
    "sum": (RBF() + Matern(0.5) + Matern(2.5), 0.5),
    "product": (RBF() * Matern(1.5), 1.5),
    "tensor product": (TensorProduct(Matern(1.5)), 1.5),
    "tensor product of a list": (TensorProduct([RBF(), Matern(2.5)]), 2.5),
    "additive": (Additive(RBF()), np.inf),
    "warped": (Warped(TensorProduct(Matern(0.5)), "log"), 0.5),
    "stein": (Stein(Matern(2.5)), 1.5),
    "stein of rbf": (Stein(RBF()), np.inf),
    "x and theta": (XThetaKernel(RBF(), Matern(1.5), 2), 1.5),
}


@pytest.mark.parametrize(("kernel", "smoothness"), SMOOTHNESS.values(), ids=SMOOTHNESS)
def test_every_kernel_declares_its_smoothness(kernel, smoothness):
    assert kernel.smoothness == smoothness
    assert {type(k) for k, _ in SMOOTHNESS.values()} == set(EXAMPLES)


ROUGHER = {2.5: 1.5, 1.5: 0.5, 0.5: 0.5, np.inf: 2.5}


@pytest.mark.parametrize("name", sorted(SMOOTHNESS.keys() - {"stein", "stein of rbf"}))
def test_a_rougher_kernel_is_a_step_rougher_and_otherwise_the_same(name):
    kernel, smoothness = SMOOTHNESS[name]
    inputs = 3 if name == "x and theta" else 2
    kernel, _ = kernel.to_fit(np.array([[1.0, 2.0, 3.0], [2.0, 5.0, 1.0]])[:, :inputs], ard=True)
    found = kernel.rougher()
    assert type(found) is (Matern if isinstance(kernel, RBF) else type(kernel))
    assert found.smoothness == ROUGHER[smoothness]
    np.testing.assert_array_equal(found.log_lengthscales, kernel.log_lengthscales)


def test_a_kernel_that_knows_no_rougher_one_is_its_own():
    kernel = Stein(Matern(2.5, 1.0))
    assert kernel.rougher() is kernel


def test_a_kernel_that_does_not_declare_its_smoothness_says_so():
    class Silent(RBF):
        smoothness = Kernel.smoothness

    with pytest.raises(NotImplementedError, match=r"Silent does not declare its smoothness: define the property"):
        _ = Silent(1.0).smoothness


def test_a_kernel_knows_whether_its_embedding_is_slow():
    slow = Matern(1.5, [1.0, 2.0])
    for kernel in (slow, 2.0 * slow, Warped(slow, "log"), slow + RBF(1.0), XThetaKernel(slow, RBF(1.0), 2)):
        assert kernel.has_slow_embedding
    for kernel in (Matern(1.5, 1.0), RBF([1.0, 2.0]), TensorProduct(slow), Additive(slow), Stein(slow)):
        assert not kernel.has_slow_embedding


def test_a_kernel_knows_its_factors_on_x_and_on_theta():
    on_x, on_theta = RBF(1.0), Warped(Matern(1.5, 2.0), "log")
    both = XThetaKernel(on_x, on_theta, 2)
    assert (both.on_x, both.on_theta) == (on_x, on_theta)
    for kernel in (on_x, on_theta, on_x + on_theta):
        assert kernel.on_x is kernel
        assert kernel.on_theta is None


def test_unknown_names_are_no_attributes():
    with pytest.raises(AttributeError, match=r"module 'cbq.kernels' has no attribute 'Cosine'"):
        _ = kernels.Cosine


def test_sums_and_products_are_flat_and_have_a_readable_repr():
    k = RBF(1.0) + (RBF(2.0) + RBF(3.0))
    assert len(k.parts) == 3
    assert len((RBF(1.0) * (RBF(2.0) * RBF(3.0))).parts) == 3
    assert len((RBF(1.0) * (RBF(2.0) + RBF(3.0))).parts) == 2
    assert repr(RBF(1.0) * (RBF(2.0) + RBF(3.0))) == (
        "RBF(lengthscale=1.) * (RBF(lengthscale=2.) + RBF(lengthscale=3.))"
    )
    assert repr(3.0 * Matern(0.5, LS)) == "3 * Matern(0.5, lengthscale of shape (3, 1))"


# Stein kernels integrate to zero, by rules written here: panels in one dimension, polar coordinates about y in two

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def panels(edges):
    """Nodes and weights between consecutive edges."""
    edges = np.unique(edges)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1 + NODES)).ravel(), (half * WEIGHTS).ravel()


def normal_mixture(x):
    return 0.3 * stats.norm(-2, 0.6).pdf(x) + 0.7 * stats.norm(1.5, 1.1).pdf(x)


LINE = {  # measure, density, range outside which there is nothing, points y
    "gaussian": (Gaussian(0.4, cov=1.7), stats.norm(0.4, np.sqrt(1.7)).pdf, (-20, 20), [-3.0, 0.4, 1.0]),
    "student": (StudentT(5, 0.3, 1.2), stats.t(5, 0.3, 1.2).pdf, (-70, 70), [-4.0, 0.0, 1.0, 9.0]),
    "mixture": (
        Mixture([0.3, 0.7], [Gaussian(-2, cov=0.36), Gaussian(1.5, cov=1.21)]),
        normal_mixture,
        (-20, 20),
        [-2.0, 0.0, 3.0],
    ),
}
STEIN_BASES = [RBF(0.9), Matern(1.5, 1.1), Matern(2.5, 0.7)]


@pytest.mark.parametrize("base", STEIN_BASES, ids=repr)
@pytest.mark.parametrize("name", LINE)
def test_stein_integrates_to_zero_on_the_line(name, base):
    m, density, (lower, upper), at = LINE[name]
    k = Stein(base).bind(m)
    for y in at:
        x, w = panels(np.append(np.linspace(lower, upper, 281), y))
        values = k(x, y)[:, 0] * w * density(x)
        assert np.sum(values) == pytest.approx(0, abs=1e-8)
        assert np.sum(np.abs(values)) > 1e-5


@pytest.mark.parametrize("base", STEIN_BASES, ids=repr)
def test_stein_on_log_x_integrates_to_zero_under_gamma(base):
    k = Warped(Stein(base), "log").bind(Gamma(3, 2))
    for y in (0.05, 1.0, 5.0):
        t, w = panels(np.append(np.linspace(-14, 4.5, 150), np.log(y)))
        x = np.exp(t)
        values = k(x, y)[:, 0] * w * x * stats.gamma(3, scale=0.5).pdf(x)
        assert np.sum(values) == pytest.approx(0, abs=1e-8)
        assert np.sum(np.abs(values)) > 1e-2


COV = np.array([[1.0, 0.6], [0.6, 1.5]])
PLANE = {
    "gaussian": (Gaussian([0.3, -0.2], cov=COV), stats.multivariate_normal([0.3, -0.2], COV).pdf),
    "mixture": (
        Mixture([0.4, 0.6], [Gaussian([-1, 0.5], cov=0.5), Gaussian([1, -0.5], cov=COV)]),
        lambda x: (
            0.4 * stats.multivariate_normal([-1, 0.5], 0.5).pdf(x)
            + 0.6 * stats.multivariate_normal([1, -0.5], COV).pdf(x)
        ),
    ),
}


@pytest.mark.parametrize("base", [*STEIN_BASES, RBF([0.7, 1.5]), Matern(1.5, [0.7, 1.5])], ids=repr)
@pytest.mark.parametrize("name", PLANE)
def test_stein_integrates_to_zero_in_the_plane(name, base):
    m, density = PLANE[name]
    k = Stein(base).bind(m)
    r, w = panels(np.linspace(0, 14, 15))
    phi = 2 * np.pi * np.arange(160) / 160
    circle = np.stack([np.cos(phi), np.sin(phi)], axis=-1)
    for y in ([[0.3, -0.2]], [[1.5, 1.0]]):
        x = y + (r[:, None, None] * circle).reshape(-1, 2)
        values = k(x, y)[:, 0] * density(x) * np.repeat(w * r, len(phi)) * 2 * np.pi / len(phi)
        assert np.sum(values) == pytest.approx(0, abs=1e-8)
        assert np.sum(np.abs(values)) > 1e-2


def test_sum_of_a_list_of_kernels():
    x = np.linspace(0.0, 1.0, 4)
    np.testing.assert_allclose(sum([RBF(1.0), Matern(1.5, 2.0)])(x), RBF(1.0)(x) + Matern(1.5, 2.0)(x))


def test_kernels_are_immutable():
    kernel = RBF(1.0)
    with pytest.raises(AttributeError, match=r"RBF.lengthscale cannot be changed"):
        kernel.lengthscale = np.array(2.0)
