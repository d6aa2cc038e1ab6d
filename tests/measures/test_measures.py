"""Measures agree with scipy.stats, mpmath, quadrature and finite differences."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

import cbq.measures as measures
from cbq.measures import (
    Beta,
    Binomial,
    Categorical,
    Empirical,
    Exponential,
    Gamma,
    Gaussian,
    LogMeasure,
    LogNormal,
    Mixture,
    Poisson,
    Product,
    ScipyDistribution,
    ScipyVariable,
    StudentT,
    TruncatedGaussian,
    Uniform,
    Unnormalised,
    as_measure,
    from_scipy,
)
from cbq.measures.base import stack

COV = np.array([[1.0, 0.6], [0.6, 2.0]])
ATOMS = np.random.default_rng(5).standard_normal((30, 2))


def pair(s):
    return np.concatenate([s, -s], axis=-1)


def two_normals(s):
    return Mixture(
        [0.3, 0.7],
        [Gaussian(pair(s), cov=s[..., None] * COV), Gaussian([3.0, -1.0], cov=s[..., None] * np.eye(2) / 5)],
    )


# Functions from s (*batch, 1), with values of order one, to a batch of measures.
EXAMPLES = {
    Beta: [lambda s: Beta(s, 3.0), lambda s: Beta(s / 2, 0.7), lambda s: Beta(1e3 * s, 2e3)],
    Binomial: [lambda s: Binomial(7, s / 4), lambda s: Binomial(10**5, s / 10)],
    Categorical: [lambda s: Categorical(np.concatenate([s / 4, 1 - s / 4], axis=-1), [-1.0, 2.0])],
    Empirical: [
        lambda s: Empirical(s[..., None] * ATOMS[:, :1]),
        lambda s: Empirical(s[..., None] * ATOMS, np.arange(1, 31) / 465),
    ],
    Exponential: [lambda s: Exponential(s)],
    Gamma: [lambda s: Gamma(2 * s, 10.0), lambda s: Gamma(s / 2, 1e-6), lambda s: Gamma(1e4 * s, 3.0)],
    Gaussian: [
        lambda s: Gaussian(s, cov=s[..., None]),
        lambda s: Gaussian(s, cov=1e-12 * s[..., None]),
        lambda s: Gaussian(pair(s), cov=s[..., None] * COV),
    ],
    LogMeasure: [lambda s: LogMeasure(Gamma(s, 10.0)), lambda s: LogMeasure(Beta(s, 2.0))],
    LogNormal: [
        lambda s: LogNormal(s, cov=s[..., None] / 4),
        lambda s: LogNormal(pair(s), cov=s[..., None] * COV / 4),
    ],
    Mixture: [
        lambda s: Mixture([0.3, 0.7], [Gaussian(-2 * s, cov=0.5), Gaussian(3.0, cov=0.1)]),
        lambda s: Mixture([0.2, 0.5, 0.3], [Gamma(s, 2.0), Gamma(3.0, 1.0), LogNormal(0.0, cov=s[..., None])]),
        two_normals,
        lambda s: Mixture([0.4, 0.6], [Product([Gamma(s, 1.0), Beta(2.0, 2.0)]), LogNormal(pair(s), cov=0.5)]),
    ],
    Poisson: [lambda s: Poisson(s), lambda s: Poisson(1e4 * s)],
    Product: [
        lambda s: Product([Gamma(s, 2.0), Gaussian(pair(s), cov=s[..., None] * COV), Product([Beta(2.0, s)])]),
    ],
    ScipyDistribution: [
        lambda s: from_scipy(stats.weibull_min(1.5, scale=s)),
        lambda s: from_scipy(stats.johnsonsu(s, 2.0)),
    ],
    StudentT: [lambda s: StudentT(4 * s, 1.0, 2.0), lambda s: StudentT(1e8, s, 1e-6)],
    TruncatedGaussian: [
        lambda s: TruncatedGaussian(0.0, s, -1.0, 2.0),
        lambda s: TruncatedGaussian(s, 1.0, 8.0, 9.0),
        lambda s: TruncatedGaussian(0.0, s, -np.inf, -12.0),
        lambda s: TruncatedGaussian(0.0, 1e6 * s, -3.0, 1.0),
        lambda s: TruncatedGaussian(s, 2.0, -np.inf, np.inf),
    ],
    Uniform: [lambda s: Uniform(-s, 3 * s), lambda s: Uniform(pair(s) - 3, pair(s) + np.array([1e-3, 1e3]))],
    Unnormalised: [lambda s: Unnormalised(lambda x: -0.5 * np.sum(x * x, axis=-1), dim=2)],
}
ONE = np.array([1.3])
CASES = [
    pytest.param(build, id=f"{kind.__name__}-{i}")
    for kind, builds in EXAMPLES.items()
    for i, build in enumerate(builds)
]
PROPER = [case for case in CASES if not case.id.startswith("Unnormalised")]
SMOOTH = [case for case in PROPER if not case.values[0](ONE).has_atoms]
SMOOTH_1D = [case for case in SMOOTH if case.values[0](ONE).dim == 1]
STACKABLE = [case for case in PROPER if not case.id.startswith(("LogMeasure", "Mixture"))]
BASES = ["uniform", "normal"]


def quantiles(m, v):
    return m.transport(np.repeat(np.asarray(v, dtype=float)[:, None], m.dim, axis=1), "normal")


def test_every_public_measure_has_examples():
    public = [getattr(measures, name) for name in measures.__all__]
    concrete = {c for c in public if inspect.isclass(c) and not inspect.isabstract(c)}
    assert concrete - {ScipyVariable} == set(EXAMPLES)  # which is one measure, and has tests of its own
    assert measures.__all__ == sorted(measures.__all__)


# shapes, indexing, inputs, equality and stacking


@pytest.mark.parametrize("batch", [(), (3,), (3, 1)])
@pytest.mark.parametrize("build", PROPER)
def test_shapes(build, batch):
    m = build(np.linspace(1, 2, 3).reshape(*batch, 1) if batch else ONE)
    d = m.dim
    assert m.batch_shape == batch
    x = m.sample(5, 0)
    assert x.shape == (*batch, 5, d)
    mean, cov = m.moments()
    assert mean.shape == (*batch, d)
    assert cov.shape == (*batch, d, d)
    assert all(end.shape == (*batch, d) for end in m.support)
    assert m.transport(np.full((7, d), 0.4)).shape == (*batch, 7, d)
    assert m.transport(np.full((7, d), 0.4), "normal").shape == (*batch, 7, d)
    for base in BASES:
        assert m.inverse_transport(x, base).shape == (*batch, 5, d)
    assert sum(f.dim for f in m.factors()) == d
    if not isinstance(m, Empirical):
        assert m.logpdf(x).shape == (*batch, 5)
        assert m.score(x).shape == (*batch, 5, d)
        measure = m.conditional(x[..., : d - 1])
        assert (measure.dim, measure.batch_shape) == (1, (*batch, 5))


@pytest.mark.parametrize("build", PROPER)
def test_points_broadcast_against_the_batch(build):
    s = np.array([[1.0], [1.5]])
    m = build(s)
    v = np.linspace(-1, 1, 4)[:, None, None, None] * np.ones((1, 1, 3, m.dim))  # (4, 1, 3, d)
    x = m.transport(v, "normal")
    assert x.shape == (4, 2, 3, m.dim)
    for t in range(2):
        single = build(s[t])
        np.testing.assert_allclose(x[:, t], single.transport(v[:, 0], "normal"), rtol=1e-12)
        if not isinstance(m, Empirical):
            np.testing.assert_allclose(m.logpdf(x)[:, t], single.logpdf(x[:, t]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("build", PROPER)
def test_indexing_selects_measures_of_the_batch(build):
    s = np.linspace(1, 2, 6).reshape(2, 3, 1)
    m = build(s)
    for index in (0, (1, 2), slice(0, 1), (slice(None), None), (..., -1), ([0, 1], [2, 0])):
        there = np.arange(6).reshape(2, 3)[index]
        part, direct = m[index], build(s.reshape(6, 1)[there])
        assert type(part) is type(m)
        assert part.batch_shape == direct.batch_shape
        u = np.full((2, m.dim), 0.3)
        np.testing.assert_array_equal(part.transport(u), direct.transport(u))


def test_an_unnormalised_measure_has_no_batch_to_index():
    m = Unnormalised(lambda x: -(x[..., 0] ** 2), dim=1)
    assert m[()] is m
    with pytest.raises(IndexError):
        m[0]
    with pytest.raises(IndexError, match="single measure"):
        m[None]


def test_the_last_axis_of_one_dimensional_parameters_is_optional():
    theta = np.linspace(2, 9, 5)
    flat, column = Gamma(theta, 10), Gamma(theta[:, None], 10)
    assert flat.batch_shape == column.batch_shape == (5,)
    np.testing.assert_array_equal(flat.shape, column.shape)
    assert Gamma([2.0], 1).batch_shape == ()
    assert flat[0:1].batch_shape == (1,)


@pytest.mark.parametrize("build", PROPER)
def test_inputs_are_not_modified_and_arrays_are_read_only(build):
    s = np.array([[1.0], [1.5]])
    before = s.copy()
    m = build(s)
    u = np.full((3, m.dim), 0.3)
    u.setflags(write=False)
    x = m.transport(u)
    kept = x.copy()
    x.setflags(write=False)
    m.inverse_transport(x)
    if not isinstance(m, Empirical):
        m.logpdf(x)
        m.score(x)
    np.testing.assert_array_equal(s, before)
    np.testing.assert_array_equal(x, kept)
    assert not any(a.flags.writeable for a in m.parameters().values())
    s[:] = 7.0
    np.testing.assert_array_equal(m.transport(u), kept)


def test_measures_are_equal_only_if_their_parts_have_the_same_types():
    gaussian, lognormal = Gaussian(0.5, 1.0), LogNormal(0.5, 1.0)
    assert not gaussian.equals(lognormal)
    assert not Product([gaussian, gaussian]).equals(Product([gaussian, lognormal]))
    assert not Product([gaussian, gaussian]).equals(Product([gaussian] * 3))
    assert not Mixture([0.5, 0.5], [gaussian, gaussian]).equals(Mixture([0.5, 0.5], [gaussian, lognormal]))
    assert not LogMeasure(Gamma(0.5, 1.0)).equals(LogMeasure(lognormal))


@pytest.mark.parametrize("build", STACKABLE)
def test_stack_makes_one_batch_of_measures(build):
    s = np.array([[1.0], [1.5], [2.0]])
    stacked = stack([build(row) for row in s])
    assert stacked.batch_shape == (3,)
    u = np.full((4, stacked.dim), 0.3)
    np.testing.assert_array_equal(stacked.transport(u), build(s).transport(u))


@pytest.mark.parametrize("build", STACKABLE)
def test_stack_of_equal_measures_is_one_of_them(build):
    measures = [build(np.array([1.5])) for _ in range(3)]
    assert stack(measures) is measures[0]


def test_stack_returns_none_for_measures_that_differ_in_type_or_shape():
    gaussian, gamma = Gaussian(0.0, 1.0), Gamma(1.0, 1.0)
    assert stack([gaussian, gamma]) is None
    assert stack([gaussian, Gaussian([0.0, 0.0], 1.0)]) is None
    assert stack([Product([gaussian, gamma]), Product([gaussian, gaussian])]) is None
    assert stack([Product([gaussian]), Product([gaussian, gaussian])]) is None
    assert stack([Empirical([1.0, 2.0]), Empirical([1.0, 2.0, 3.0])]) is None
    assert stack([from_scipy(stats.laplace(1.0)), from_scipy(stats.gumbel_r(1.0))]) is None
    for build in (two_normals, lambda s: LogMeasure(Gamma(s, 1.0))):
        assert stack([build(np.array([1.0])), build(np.array([2.0]))]) is None


def test_stack_returns_a_measure_that_is_shared_as_it_is():
    shared = Gaussian(0.0, 1.0)
    assert stack([shared, shared, shared]) is shared


# densities

REFERENCES = {
    "uniform": (Uniform(-1, 3), stats.uniform(-1, 4)),
    "lognormal": (LogNormal(0.3, cov=0.25), stats.lognorm(0.5, scale=np.exp(0.3))),
    "gamma": (Gamma(3, 10), stats.gamma(3, scale=0.1)),
    "gamma-small": (Gamma(0.05, 2), stats.gamma(0.05, scale=0.5)),
    "exponential": (Exponential(4), stats.expon(scale=0.25)),
    "beta": (Beta(2, 3.5), stats.beta(2, 3.5)),
    "beta-u": (Beta(0.5, 0.4), stats.beta(0.5, 0.4)),
    "t": (StudentT(3, 1, 2), stats.t(3, 1, 2)),
    "cauchy": (StudentT(1, 0, 1), stats.cauchy()),
    "truncated": (TruncatedGaussian(1, 2, -np.inf, 4), stats.truncnorm(-np.inf, 1.5, 1, 2)),
    "gaussian": (Gaussian(1, cov=4), stats.norm(1, 2)),
    "quantile": (from_scipy(stats.genextreme(0.2, 1, 2)), stats.genextreme(0.2, 1, 2)),
    "log": (LogMeasure(Gamma(3, 1)), stats.loggamma(3)),
    "log-exp": (LogMeasure(Exponential(1)), stats.gumbel_l()),
}


@pytest.mark.parametrize(("m", "frozen"), REFERENCES.values(), ids=REFERENCES)
def test_one_dimensional_measures_match_scipy(m, frozen):
    q = np.array([1e-10, 1e-5, 0.01, 0.2, 0.5, 0.7, 0.95])
    x = frozen.ppf(q)
    np.testing.assert_allclose(m.logpdf(x), frozen.logpdf(x), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(m.inverse_transport(x)[:, 0], frozen.cdf(x), rtol=1e-11)
    np.testing.assert_allclose(m.transport(q)[:, 0], x, rtol=1e-9)
    upper = frozen.isf(q[2:4])
    np.testing.assert_allclose(
        -m.inverse_transport(upper, "normal")[:, 0], stats.norm.ppf(frozen.sf(upper)), rtol=1e-11
    )
    lower, higher = (float(end[0]) for end in m.support)
    np.testing.assert_allclose((lower, higher), frozen.support(), rtol=1e-14)


@pytest.mark.parametrize(("m", "frozen"), REFERENCES.values(), ids=REFERENCES)
def test_samples_follow_scipy(m, frozen):
    assert stats.kstest(m.sample(20_000, 0)[:, 0], frozen.cdf).pvalue > 1e-4


@pytest.mark.parametrize(("m", "frozen"), REFERENCES.values(), ids=REFERENCES)
def test_the_density_is_zero_outside_the_support(m, frozen):
    lower, upper = frozen.support()
    outside = np.array([end + side for end, side in ((lower, -0.5), (upper, 0.5)) if np.isfinite(end)])
    if outside.size == 0:
        return
    assert np.all(m.logpdf(outside) == -np.inf)
    np.testing.assert_array_equal(m.inverse_transport(outside)[:, 0], frozen.cdf(outside))
    with pytest.raises(ValueError, match="outside the support"):
        m.score(outside)


def test_multivariate_densities_match_scipy():
    x = np.random.default_rng(0).normal(size=(50, 2))
    first, second = stats.multivariate_normal([1, -1], COV), stats.multivariate_normal([3, -1], np.eye(2) / 5)
    np.testing.assert_allclose(Gaussian([1, -1], cov=COV).logpdf(x), first.logpdf(x), rtol=1e-12)
    mixed = np.log(0.3 * first.pdf(x) + 0.7 * second.pdf(x))
    np.testing.assert_allclose(two_normals(np.ones(1)).logpdf(x), mixed, rtol=1e-12)
    y = np.exp(x)
    np.testing.assert_allclose(LogNormal([1, -1], cov=COV).logpdf(y), first.logpdf(x) - x.sum(-1), rtol=1e-12)
    product = Product([Gamma(2, 1), Gaussian([1, -1], cov=COV)])
    z = np.concatenate([y[:, :1], x], axis=1)
    np.testing.assert_allclose(product.logpdf(z), stats.gamma(2).logpdf(y[:, 0]) + first.logpdf(x), rtol=1e-12)


def expectation(m, g):
    """Integral of g(x) p(x) over panels between quantiles, which only choose the panels."""
    edges = quantiles(m, np.arange(-8.25, 8.5, 0.25))[:, 0]
    total = 0.0
    for a, b in itertools.pairwise(edges):
        if b > a:
            nodes, weights = np.polynomial.legendre.leggauss(30)
            x = a + (b - a) * (0.5 + 0.5 * nodes)
            log_p = m.logpdf(x)
            valid = np.isfinite(log_p)  # a node next to a pole may round to it
            total += 0.5 * (b - a) * np.sum((weights * g(x) * np.exp(np.where(valid, log_p, 0)))[valid])
    return total


@pytest.mark.parametrize("build", SMOOTH_1D)
def test_densities_integrate_to_one_and_moments_match_quadrature(build):
    m = build(ONE)
    assert expectation(m, np.ones_like) == pytest.approx(1, abs=1e-10)
    mean, cov = m.moments()
    centre = float(quantiles(m, [0.0])[0, 0])
    first = expectation(m, lambda x: x - centre)
    spread = np.sqrt(cov[0, 0])
    assert mean[0] == pytest.approx(centre + first, rel=1e-13, abs=1e-9 * spread)
    assert cov[0, 0] == pytest.approx(expectation(m, lambda x: (x - centre - first) ** 2), rel=1e-7)


def test_adaptive_quadrature_agrees_on_a_mixture():
    m = Mixture([0.3, 0.7], [Gaussian(-2, cov=0.5), Gaussian(3, cov=0.1)])
    total = integrate.quad(lambda x: float(np.exp(m.logpdf(x))[0]), -12, 12, points=[-2, 2.5, 3, 3.5], epsabs=1e-12)[0]
    assert total == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("build", [case for case in SMOOTH if case not in SMOOTH_1D])
def test_moments_in_several_dimensions_match_samples(build):
    m = build(ONE)
    mean, cov = m.moments()
    x = m.sample(200_000, 1)
    sd = np.sqrt(np.diagonal(cov))
    np.testing.assert_allclose(x.mean(0), mean, atol=5 * sd.max() / np.sqrt(2e5))
    np.testing.assert_allclose(np.cov(x.T) / np.outer(sd, sd), cov / np.outer(sd, sd), atol=0.06)


def test_mixture_moments_in_two_dimensions():
    mean, cov = two_normals(np.ones(1)).moments()
    a, b = np.array([1.0, -1.0]), np.array([3.0, -1.0])
    np.testing.assert_allclose(mean, 0.3 * a + 0.7 * b, rtol=1e-14)
    second = 0.3 * (COV + np.outer(a, a)) + 0.7 * (np.eye(2) / 5 + np.outer(b, b))
    np.testing.assert_allclose(cov, second - np.outer(mean, mean), rtol=1e-13)


@pytest.mark.parametrize("build", SMOOTH)
def test_score_is_the_gradient_of_logpdf(build):
    m = build(ONE)
    rng = np.random.default_rng(2)
    x = m.transport(rng.uniform(0.05, 0.95, size=(20, m.dim)))
    spread = np.ptp(quantiles(m, [-0.5, 0.5]), axis=0)
    score = m.score(x)
    for j in range(m.dim):
        lower, upper = m.support[0][j], m.support[1][j]
        h = 1e-3 * np.minimum(spread[j], np.minimum(x[:, j] - lower, upper - x[:, j]))
        e = np.eye(m.dim)[j]

        def slope_over(c, h=h, e=e, j=j):
            ahead, behind = x + c * h[:, None] * e, x - c * h[:, None] * e
            return (m.logpdf(ahead) - m.logpdf(behind)) / (ahead - behind)[:, j]

        slope = (4 * slope_over(1) - slope_over(2)) / 3
        np.testing.assert_allclose(score[:, j] * spread[j], slope * spread[j], rtol=2e-8, atol=2e-8)


# transport


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("build", PROPER)
def test_transport_undoes_inverse_transport(build, base):
    m = build(ONE)
    x = m.sample(500, 3)
    back = m.transport(m.inverse_transport(x, base), base)
    spread = np.ptp(quantiles(m, [-1.0, 1.0]), axis=0)
    np.testing.assert_allclose(back, x, rtol=2e-11, atol=2e-11 * spread.min())


@pytest.mark.parametrize("build", PROPER)
def test_transport_and_its_inverse_agree_in_the_tails(build):
    # 7.03 is the normal quantile of 1 - 1e-12; the round trip must also work at 20 standard deviations.
    m = build(ONE)
    if isinstance(m, Empirical):
        return
    reach = [-7.03, 7.03] if isinstance(m, ScipyDistribution) else [-20.0, -7.03, 7.03, 20.0]
    x = quantiles(m, reach)
    assert np.all(np.isfinite(x))
    lower, upper = m.support
    inside = np.all((x > lower) & (x < upper), axis=-1)  # other points have been rounded to an end of the support
    v = m.inverse_transport(x[inside], "normal")
    assert np.all(np.isfinite(v))
    np.testing.assert_allclose(m.transport(v, "normal"), x[inside], rtol=1e-11)


@pytest.mark.parametrize(
    "m",
    [Gaussian([1, 2], cov=COV), two_normals(np.ones(1)), Product([Gamma(0.5, 1), two_normals(np.ones(1))])]
    + [case.values[0](ONE) for case in SMOOTH],
    ids=repr,
)
def test_inverse_transport_of_samples_is_uniform(m):
    u = m.inverse_transport(m.sample(20_000, 11))
    for j in range(m.dim):
        assert stats.kstest(u[:, j], "uniform").pvalue > 1e-4
    for i in range(m.dim):
        for j in range(i):
            assert stats.kstest((u[:, i] + u[:, j]) % 1, "uniform").pvalue > 1e-4
            assert abs(stats.spearmanr(u[:, i], u[:, j])[0]) < 4.5 / np.sqrt(20_000)


def test_transport_of_a_mixture_solves_its_distribution_function():
    mp.mp.dps = 40
    m = Mixture([0.3, 0.7], [Gaussian(-2, cov=0.25), Gaussian(3, cov=0.01)])
    for q in (1e-12, 1e-3, 0.29, 0.3 - 1e-9, 0.3, 0.4, 0.99):
        x = mp.mpf(float(m.transport(q)[0, 0]))
        reached = 0.3 * mp.ncdf((x + 2) / mp.mpf("0.5")) + 0.7 * mp.ncdf((x - 3) / mp.mpf("0.1"))
        assert abs(float(reached / mp.mpf(q) - 1)) < 1e-13
    x = mp.mpf(float(m.transport(7.0, "normal")[0, 0]))
    above = 0.7 * mp.ncdf((3 - x) / mp.mpf("0.1"))
    assert float(above / mp.ncdf(-7)) == pytest.approx(1, rel=1e-13)


def test_a_mixture_with_a_gap_and_a_zero_weight():
    m = Mixture([0.5, 0.5, 0.0], [Uniform(0, 1), Uniform(5, 6), Gaussian(100, 1)])
    np.testing.assert_allclose(m.transport([0.0, 0.25, 0.75, 1.0])[:, 0], [0, 0.5, 5.5, 6], rtol=1e-15)
    assert [float(end[0]) for end in m.support] == [0, 6]
    assert m.logpdf(100.0)[0] == -np.inf
    with pytest.raises(ValueError, match="outside the support"):
        m.score(3.0)
    np.testing.assert_array_equal(m.score([0.5, 5.5])[:, 0], [0, 0])


def test_conditional_of_a_mixture_is_its_joint_over_its_marginal():
    m = two_normals(np.ones(1))
    x = np.random.default_rng(4).normal(loc=[2, -1], size=(30, 2))
    marginal = np.log(0.3 * stats.norm(1, 1).pdf(x[:, 0]) + 0.7 * stats.norm(3, np.sqrt(0.2)).pdf(x[:, 0]))
    measure = m.conditional(x[:, :1])
    assert measure.batch_shape == (30,)
    np.testing.assert_allclose(measure.logpdf(x[:, 1, None, None])[:, 0], m.logpdf(x) - marginal, rtol=1e-11)


@pytest.mark.parametrize("build", PROPER)
def test_marginals_are_the_measures_of_single_coordinates(build):
    m = build(ONE)
    x = m.sample(20_000, 6)
    mean, cov = m.moments()
    for j in range(m.dim):
        measure = m.marginal(j)
        assert (measure.dim, measure.batch_shape) == (1, ())
        own_mean, own_cov = measure.moments()
        np.testing.assert_allclose(own_mean[0], mean[j], rtol=1e-12)
        np.testing.assert_allclose(own_cov[0, 0], cov[j, j], rtol=1e-12)
        if not isinstance(m, Empirical):
            assert stats.kstest(measure.inverse_transport(x[:, j])[:, 0], "uniform").pvalue > 1e-4


@pytest.mark.parametrize("build", SMOOTH_1D)
def test_ends_of_the_unit_interval_map_to_the_ends_of_the_support(build):
    m = build(ONE)
    np.testing.assert_array_equal(m.transport([0.0, 1.0])[:, 0], [end[0] for end in m.support])


# extreme parameters against mpmath

INTERVALS = [
    (8, 9),
    (30, 31),
    (-np.inf, -12),
    (0.5, 0.5 + 2**-20),
    (-1, 2),
    (-40, 40),
    (-1e4, 0),
    (-2, np.inf),
]


@pytest.mark.parametrize(("a", "b"), INTERVALS)
@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (-0.5, 2.0)])
def test_truncated_gaussian_against_mpmath(a, b, mean, std):
    mp.mp.dps = 50
    m = TruncatedGaussian(mean, std, a, b)
    x = np.sort(m.transport([1e-9, 1e-3, 0.2, 0.5, 0.8, 0.999])[:, 0])
    x = x[(x > a) & (x < b)]
    low, high = (mp.mpf(end) for end in (a, b))

    def mass(c, d):
        c, d = ((end - mean) / mp.mpf(std) / mp.sqrt(2) for end in (c, d))
        return (mp.erfc(c) - mp.erfc(d)) / 2 if c > 0 else (mp.erfc(-d) - mp.erfc(-c)) / 2

    total = mass(low, high)
    cdf = [float(mass(low, mp.mpf(t)) / total) for t in x]
    tail = [float(mass(mp.mpf(t), high) / total) for t in x]
    logpdf = [float(mp.log(mp.npdf(mp.mpf(t), mean, std) / total)) for t in x]
    np.testing.assert_allclose(m.inverse_transport(x)[:, 0], cdf, rtol=1e-12)
    np.testing.assert_allclose(m.logpdf(x), logpdf, rtol=1e-12, atol=1e-12)
    v = m.inverse_transport(x, "normal")[:, 0]
    np.testing.assert_allclose(stats.norm.sf(v), tail, rtol=1e-11)
    nodes = [
        low if mp.isfinite(low) else mp.mpf(-60),
        *map(mp.mpf, x),
        high if mp.isfinite(high) else mp.mpf(60),
    ]
    first, second = (mp.quad(lambda t, k=k: (t - x[0]) ** k * mp.npdf(t, mean, std) / total, nodes) for k in (1, 2))
    got_mean, got_cov = m.moments()
    assert got_mean[0] == pytest.approx(float(first + x[0]), rel=1e-13)
    assert got_cov[0, 0] == pytest.approx(float(second - first**2), rel=1e-11)


@pytest.mark.parametrize("shape", [0.05, 1.0, 9.5, 10.5, 1e4, 1e8])
def test_gamma_density_against_mpmath(shape):
    mp.mp.dps = 40
    m = Gamma(shape, 3.0)
    x = m.transport([1e-12, 0.3, 0.9])[:, 0]
    exact = [float((shape - 1) * mp.log(mp.mpf(t)) - 3 * mp.mpf(t) + shape * mp.log(3) - mp.loggamma(shape)) for t in x]
    np.testing.assert_allclose(m.logpdf(x), exact, rtol=2e-13, atol=1e-15 * np.sqrt(shape) + 1e-13)


@pytest.mark.parametrize(("a", "b"), [(0.05, 0.3), (1.0, 1.0), (2.0, 1e4), (1e6, 2e6)])
def test_beta_density_against_mpmath(a, b):
    mp.mp.dps = 40
    m = Beta(a, b)
    x = m.transport([1e-12, 0.01, 0.3, 0.9])[:, 0]
    exact = [float((a - 1) * mp.log(mp.mpf(t)) + (b - 1) * mp.log(1 - mp.mpf(t)) - mp.log(mp.beta(a, b))) for t in x]
    np.testing.assert_allclose(m.logpdf(x), exact, rtol=2e-12, atol=1e-12)


@pytest.mark.parametrize("df", [0.5, 1.0, 3.0, 80.0, 1e5, 1e9])
def test_student_t_against_mpmath(df):
    mp.mp.dps = 40
    m = StudentT(df, 0.0, 1.0)
    q = np.array([1e-12, 1e-3, 0.3, 0.4999])
    x = m.transport(q)[:, 0]
    for xi, qi in zip(x, q, strict=True):
        t, nu = mp.mpf(float(xi)), mp.mpf(df)
        tail = mp.betainc(nu / 2, mp.mpf(1) / 2, 0, nu / (nu + t * t), regularized=True) / 2
        assert float(tail) == pytest.approx(qi, rel=1e-12)
        log_p = -(nu + 1) / 2 * mp.log(1 + t * t / nu) - mp.log(nu) / 2 - mp.log(mp.beta(nu / 2, 0.5))
        assert m.logpdf(xi)[0] == pytest.approx(float(log_p), rel=1e-12, abs=1e-12)
        assert m.inverse_transport(xi)[0, 0] == pytest.approx(float(tail), rel=1e-12)


def test_log_measure_is_accurate_where_x_underflows():
    # P(X < x) = x^a / Gamma(a + 1) (1 + O(x)) for a unit-rate Gamma
    mp.mp.dps = 30
    a = 0.005
    m = LogMeasure(Gamma(a, 1.0))
    y = m.transport(1e-4)[0, 0]
    assert y == pytest.approx(float((mp.log(mp.mpf("1e-4")) + mp.loggamma(a + 1)) / mp.mpf(a)), rel=1e-12)
    assert m.inverse_transport(y)[0, 0] == pytest.approx(1e-4, rel=1e-11)
    assert m.logpdf(y)[0] == pytest.approx(float(a * y - mp.loggamma(a)), rel=1e-11)
    assert m.score(y)[0, 0] == pytest.approx(a, rel=1e-11)
    assert np.all(np.isfinite(m.sample(2000, 0)))
    assert m.logpdf(800.0)[0] < -1e300


def test_score_of_a_log_measure_is_shape_minus_rate_times_x():
    y = np.array([-30.0, -3.0, 0.0, 2.0])
    np.testing.assert_allclose(LogMeasure(Gamma(2.5, 3.0)).score(y)[:, 0], 2.5 - 3 * np.exp(y), rtol=1e-13)


# empirical and unnormalised measures


def test_empirical_transport_is_the_quantile_function():
    m = Empirical([3.0, 1.0, 2.0, 1.0], [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_array_equal(m.transport([0.0, 0.59, 0.61, 0.89, 0.91, 1.0])[:, 0], [1, 1, 2, 2, 3, 3])
    np.testing.assert_allclose(m.inverse_transport([1.0, 2.0, 3.0])[:, 0], [0.3, 0.75, 0.95], rtol=1e-14)
    mean, cov = m.moments()
    assert mean[0] == pytest.approx(1.5)
    assert cov[0, 0] == pytest.approx(0.6 * 0.25 + 0.3 * 0.25 + 0.1 * 2.25)


def test_empirical_samples_follow_the_weights_in_two_dimensions():
    weights = np.array([0.5, 0.3, 0.2, 0.0])
    points = np.array([[1.0, 5.0], [0.0, 2.0], [1.0, 4.0], [9.0, 9.0]])
    m = Empirical(points, weights)
    x = m.sample(20_000, 0)
    share = np.mean(np.all(x[:, None] == points, axis=-1), axis=0)
    np.testing.assert_allclose(share, weights, atol=5 * 0.5 / np.sqrt(20_000))
    u = m.inverse_transport(points[:3])
    np.testing.assert_allclose(u, [[0.75, 0.5], [0.15, 0.5], [0.4, 0.5]], rtol=1e-14)


def test_score_of_an_unnormalised_measure_by_differences():
    x = np.random.default_rng(0).normal(size=(4, 5, 2))
    m = Unnormalised(lambda x: -0.5 * np.sum(x @ np.linalg.inv(COV) * x, axis=-1) + np.cos(x[..., 0]), dim=2)
    exact = -x @ np.linalg.inv(COV)
    exact[..., 0] -= np.sin(x[..., 0])
    np.testing.assert_allclose(m.score(x), exact, rtol=1e-9, atol=1e-9)
    given = Unnormalised(score=lambda x: -x, dim=2)
    np.testing.assert_array_equal(given.score(x), -x)


# distributions of scipy.stats

RECOGNISED = [
    (stats.norm(1, 2), Gaussian),
    (stats.norm(loc=np.arange(3.0), scale=2), Gaussian),
    (stats.uniform(-1, scale=3), Uniform),
    (stats.uniform(np.arange(3.0), 2), Uniform),
    (stats.lognorm(0.5, scale=3), LogNormal),
    (stats.lognorm(np.array([0.5, 1.0, 2.0]), scale=3), LogNormal),
    (stats.gamma(2.5, scale=0.3), Gamma),
    (stats.gamma(np.array([0.5, 2.0]), scale=0.3), Gamma),
    (stats.erlang(3, scale=2), Gamma),
    (stats.chi2(5, scale=2), Gamma),
    (stats.expon(scale=4), Exponential),
    (stats.beta(2, 3), Beta),
    (stats.t(df=4, loc=1, scale=2), StudentT),
    (stats.truncnorm(-1, 2, loc=1, scale=3), TruncatedGaussian),
    (stats.truncnorm(2, np.inf, loc=1, scale=3), TruncatedGaussian),
    (stats.laplace(1, 2), ScipyDistribution),
    (stats.weibull_min(1.5, 1), ScipyDistribution),
    (stats.genextreme(np.array([-0.2, 0.0, 0.3])), ScipyDistribution),
    (stats.triang(0.3, 1, 2), ScipyDistribution),
    (stats.johnsonsu(1, 2), ScipyDistribution),
    (stats.gamma(2.5, loc=1), ScipyDistribution),
    (stats.lognorm(0.5, loc=-1), ScipyDistribution),
    (stats.beta(2, 3, scale=2), ScipyDistribution),
]


@pytest.mark.parametrize(("frozen", "kind"), RECOGNISED, ids=lambda a: getattr(getattr(a, "dist", a), "name", None))
def test_from_scipy_gives_the_same_distribution_in_closed_form_where_there_is_one(frozen, kind):
    m = from_scipy(frozen)
    assert type(m) is kind
    assert m.dim == 1
    u = np.array([0.01, 0.3, 0.5, 0.9])
    x = np.stack([np.atleast_1d(frozen.ppf(q)) for q in u], axis=-1)  # (T or 1, 4)
    assert m.batch_shape == np.shape(frozen.ppf(0.5))
    lead = (*m.batch_shape, 4, 1)
    logpdf = np.stack([np.atleast_1d(frozen.logpdf(t)) for t in x.T], axis=-1)
    np.testing.assert_allclose(m.logpdf(x.reshape(lead)), logpdf.reshape(lead[:-1]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(m.transport(u), x.reshape(lead), rtol=1e-11)
    mean, cov = m.moments()
    np.testing.assert_allclose(mean[..., 0], frozen.mean(), rtol=1e-9)
    np.testing.assert_allclose(cov[..., 0, 0], frozen.var(), rtol=1e-7)
    assert as_measure(m) is m
    assert type(as_measure(frozen)) is kind


def test_multivariate_normal_from_scipy():
    m = from_scipy(stats.multivariate_normal([1, 2], COV))
    assert isinstance(m, Gaussian)
    np.testing.assert_array_equal(m.mean, [1, 2])
    np.testing.assert_allclose(m.cov, COV, rtol=1e-14)
    assert from_scipy(stats.multivariate_normal(0.5, 2.0)).dim == 1


def test_the_score_of_a_quantile_measure():
    x = np.array([0.1, 0.7, 2.0])
    exact = 0.5 / x - 1.5 * np.sqrt(x)
    np.testing.assert_allclose(from_scipy(stats.weibull_min(1.5)).score(x)[:, 0], exact, rtol=1e-9, atol=1e-9)


def test_composite_measures_take_scipy_distributions():
    assert isinstance(Product([stats.norm(0, 1), Gamma(2, 1)]).blocks[0], Gaussian)
    assert isinstance(Mixture([0.5, 0.5], [stats.norm(0, 1), stats.norm(1, 1)]).components[1], Gaussian)
    assert isinstance(LogMeasure(stats.gamma(2)).measure, Gamma)


def test_products_flatten_and_factor():
    inner = Product([Gaussian([0, 1], cov=[1, 2]), Gamma(2, 1)])
    outer = Product([Beta(1, 2), inner])
    assert [type(b) for b in outer.blocks] == [Beta, Gaussian, Gamma]
    assert [type(f) for f in outer.factors()] == [Beta, Gaussian, Gaussian, Gamma]
    assert len(Gaussian([0, 1], cov=COV).factors()) == 1
    assert [type(f) for f in Uniform([0, 1], [1, 2]).factors()] == [Uniform, Uniform]
    assert [type(f) for f in LogNormal([0, 1], cov=[1, 2]).factors()] == [LogNormal, LogNormal]


def test_a_mixture_may_have_many_components_and_batched_ones():
    many = Mixture(np.full(40, 1 / 40), [Gaussian(10.0 * k, cov=1e-4) for k in range(40)])
    counts = np.bincount(np.rint(many.sample(40_000, 0)[:, 0] / 10).astype(int), minlength=40)
    assert stats.chisquare(counts).pvalue > 1e-4
    batched = Mixture([0.5, 0.5], [Gaussian([[0.0], [100.0]], 1.0), Gaussian(-100.0, 1.0)])
    assert batched.sample(7, 1).shape == (2, 7, 1)


def test_parameters_of_measures_on_the_line_broadcast_like_arrays():
    assert Gamma(np.ones(3), 1.0).batch_shape == Gamma(np.ones((3, 1)), 1.0).batch_shape == (3,)
    grid = Gamma(np.array([[1.0], [2.0], [3.0]]), np.array([[4.0, 5.0, 6.0]]))
    assert grid.batch_shape == (3, 3)
    np.testing.assert_allclose(grid.moments()[0][..., 0], np.array([[1.0], [2.0], [3.0]]) / [4.0, 5.0, 6.0])


@pytest.mark.parametrize("measure", [Gaussian(0.0, 1.0), Mixture([0.5, 0.5], [Gaussian(0.0, 1.0), Gaussian(1.0, 1.0)])])
@pytest.mark.parametrize("n", ["3", None, -1, 2.5])
def test_sample_needs_a_number_of_points(measure, n):
    with pytest.raises(ValueError, match="n must be a number of points, zero or more"):
        measure.sample(n, 0)


def test_weights_in_single_precision_are_accepted():
    weights = np.array([0.1, 0.2, 0.7], dtype=np.float32)
    assert Empirical([0.0, 1.0, 2.0], weights).weights.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda measure: pickle.loads(pickle.dumps(measure))])
def test_measures_and_their_copies_are_immutable(copied):
    for measure in (Gamma(2.0, 3.0), copied(Gamma(2.0, 3.0))):
        with pytest.raises(AttributeError, match=r"Gamma.rate cannot be changed: .* Make a new Gamma"):
            measure.rate = np.ones(1)
        with pytest.raises(AttributeError, match=r"Gamma.rate cannot be deleted: a Gamma is immutable"):
            del measure.rate
        with pytest.raises(ValueError, match="read-only"):
            measure.rate[...] = 1.0
        assert measure.equals(Gamma(2.0, 3.0))


@pytest.mark.parametrize("frozen", [stats.exponnorm(1.5), stats.moyal(), stats.crystalball(2.0, 3.0)])
def test_far_quantiles_of_scipy_distributions_are_as_accurate_as_their_distribution_functions(frozen):
    v = np.array([-4.0, 0.0, 5.0, 7.0])  # where scipy's own isf has 4 digits
    x = from_scipy(frozen).transport(v, base="normal")[:, 0]
    np.testing.assert_allclose(frozen.sf(x[1:]), stats.norm.sf(v[1:]), rtol=1e-12)
    np.testing.assert_allclose(frozen.cdf(x[:2]), stats.norm.cdf(v[:2]), rtol=1e-12)


def test_the_transport_of_a_mixture_maps_0_and_1_to_the_ends_of_its_support():
    bounded = Mixture([0.5, 0.5], [Uniform(0.0, 1.0), Uniform(2.0, 5.0)])
    np.testing.assert_array_equal(bounded.transport([0.0, 1.0])[:, 0], [0.0, 5.0])
    half = Mixture([0.5, 0.5], [Gamma(2.0, 1.0), Uniform(2.0, 5.0)])
    np.testing.assert_array_equal(half.transport([0.0, 1.0])[:, 0], [0.0, np.inf])


def test_histograms_with_other_counts_are_other_measures():
    edges = np.arange(4.0)
    rising, falling = (measures.as_measure(stats.rv_histogram((counts, edges))()) for counts in ([1, 2, 3], [3, 2, 1]))
    assert not rising.equals(falling)


def test_the_marginal_of_the_last_coordinate_by_a_negative_index():
    box = Uniform([0.0, 1.0], [1.0, 4.0])
    assert box.marginal(-1).equals(box.marginal(1))
    with pytest.raises(IndexError):
        box.marginal(2)


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (Gamma(2.0, 3.0), "Gamma(shape=2, rate=3)"),
        (Gaussian([0.0, 1.0], cov=[1.0, 0.5]), "Gaussian(mean=[0, 1], cov=[[1, 0], [0, 0.5]])"),
        (Gamma([1.0, 4.0], 2.0), "Gamma(shape=1 to 4, rate=2, batch_shape=(2,))"),
        (Gaussian(np.zeros((5, 2)), 1.0), "Gaussian(mean=[0, 0], cov=[[1, 0], [0, 1]], batch_shape=(5,))"),
        (Empirical(np.arange(30.0)), "Empirical(points=array (30, 1) of 0 to 29, weights=array (30,) of 0.0333333)"),
        (
            Mixture([0.5, 0.5], [Gamma(1.0, 2.0)] * 2),
            f"Mixture([0.5, 0.5], [{', '.join(['Gamma(shape=1, rate=2)'] * 2)}])",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_measures_print_their_parameters(measure, text):
    assert repr(measure) == text


def test_tails_are_heavy_if_they_fall_like_a_power():
    t = StudentT(3.0)
    assert t.has_heavy_tails
    assert Mixture([0.5, 0.5], [Gaussian(0.0, cov=1.0), t]).has_heavy_tails
    assert not any(m.has_heavy_tails for m in (Gaussian(0.0, cov=1.0), Gamma(1.0, 1.0), LogMeasure(Gamma(1.0, 1.0))))
