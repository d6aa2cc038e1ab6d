"""Every embedding agrees with reference values or with a dense rule, over six decades of lengthscale."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import cbq
from cbq.embeddings import NoEmbedding
from cbq.embeddings.many import line_for
from cbq.embeddings.panels import density_kinks
from cbq.kernels import (
    RBF,
    Additive,
    Kernel,
    Matern,
    ProductKernel,
    Radial,
    ScaledKernel,
    Stein,
    SumKernel,
    TensorProduct,
    Warped,
)
from cbq.measures import (
    Beta,
    Empirical,
    Exponential,
    Gamma,
    Gaussian,
    LogMeasure,
    LogNormal,
    Measure,
    Mixture,
    Product,
    StudentT,
    TruncatedGaussian,
    Uniform,
    Univariate,
    as_measure,
)
from gumbel import Gumbel
from rational import Rational

DEVIATIONS = np.array([-6.0, -2.0, -0.3, 0.0, 0.7, 3.0, 6.0])
RECORDS = json.loads((Path(__file__).parents[1] / "reference" / "embeddings.json").read_text())

# on the line: a measure of each type, and a second one for `cross`
MEASURES: dict[type[Measure], tuple[Measure, Measure]] = {
    Gaussian: (Gaussian(0.3, cov=0.7), Gaussian(-1.0, cov=2.0)),
    Uniform: (Uniform(-0.5, 1.3), Uniform(0.2, 2.5)),
    LogNormal: (LogNormal(-0.3, cov=0.4), LogNormal(0.2, cov=0.1)),
    Gamma: (Gamma(2.6, 1.5), Gamma(1.4, 0.7)),
    Exponential: (Exponential(0.8), Exponential(2.1)),
    Beta: (Beta(1.7, 0.8), Beta(3.0, 2.0)),
    StudentT: (StudentT(4.2, 0.5, 1.1), StudentT(7.0, -0.5, 0.6)),
    Gumbel: (Gumbel(0.3, 0.8), Gumbel(-1.0, 0.4)),
    TruncatedGaussian: (TruncatedGaussian(0.2, 0.9, -1.0, 0.8), TruncatedGaussian(1.0, 0.5, 0.0, np.inf)),
    LogMeasure: (LogMeasure(Gamma(1.8, 2.0)), LogMeasure(Beta(2.0, 1.5))),
    Mixture: (
        Mixture([0.3, 0.7], [Gaussian(-1.0, cov=0.3), Gaussian(0.8, cov=1.2)]),
        Mixture([0.5, 0.5], [Uniform(0.0, 1.0), Exponential(1.5)]),
    ),
    Product: (Product([Gamma(3.0, 2.0)]), Product([Uniform(0.0, 2.0)])),
    Empirical: (Empirical([-0.5, 0.2, 1.1], [0.2, 0.5, 0.3]), Empirical([0.0, 2.0])),
}
MEASURES[Measure] = MEASURES[Gaussian]
# for rules that hold for every measure; a gaussianised kernel cannot be evaluated where doubles reach a bounded end
ANY: dict[type[Kernel], tuple[type[Measure], ...]] = {Stein: (Gaussian, StudentT), Warped: (Gaussian, Gamma)}

# kernels of each type on the line, from a lengthscale
KERNELS: dict[type[Kernel], list[Callable[[float], Kernel]]] = {
    RBF: [RBF],
    Matern: [lambda s: Matern(0.5, s), lambda s: Matern(1.5, s), lambda s: Matern(2.5, s)],
    Radial: [RBF, lambda s: Matern(0.5, s), lambda s: Matern(1.5, s), lambda s: Matern(2.5, s), Rational],
    TensorProduct: [lambda s: TensorProduct(Matern(1.5, s))],
    Additive: [lambda s: Additive(Matern(0.5, s))],
    SumKernel: [lambda s: RBF(s) + Matern(2.5, 2 * s)],
    ScaledKernel: [lambda s: 2.5 * Matern(1.5, s)],
    ProductKernel: [
        lambda s: RBF(s) * Matern(1.5, s),
        lambda s: Matern(0.5, s) * (RBF(s) + Matern(2.5, 3 * s)) * RBF(2 * s),
    ],
    Warped: [lambda s: Warped(RBF(s), "whiten"), lambda s: Warped(Matern(1.5, s), "gaussianise")],
    Stein: [lambda s: Stein(RBF(s)), lambda s: Stein(Matern(2.5, s))],
}


def measure_from(record: dict[str, object], key: str) -> Measure:
    parameters = {name: float(v) if isinstance(v, str) else v for name, v in record[key].items()}
    return getattr(cbq.measures, record["measure"])(**parameters)


def kernel_from(record: dict[str, object]) -> Kernel:
    ell = record["lengthscale"]
    return RBF(ell) if record["kernel"] == "RBF" else Matern(record["nu"], ell)


def assert_close(value: np.ndarray, expected: np.ndarray, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(value, expected, rtol=tolerance, atol=1e-14 * np.max(np.abs(expected)))


@pytest.mark.parametrize("case", sorted({record["case"] for record in RECORDS}))
def test_agrees_with_reference_values(case: str) -> None:
    records = [record for record in RECORDS if record["case"] == case]
    assert {r["kernel"] for r in records} == {"RBF", "Matern"}
    for record in records:
        embedding = cbq.embed(kernel_from(record), measure_from(record, "parameters"))
        assert_close(embedding.mean(record["x"]), np.array(record["mean"]))
        if record["variance"] is not None:
            assert_close(embedding.variance, record["variance"])
        if record["cross"] is not None:
            assert_close(embedding.cross(measure_from(record, "other")), record["cross"])


def pairs() -> Iterator[cbq.embeddings.Pair]:
    """All registered pairs; a rule for any `Univariate` stands for each of them that has no rule of its own."""
    registered = cbq.available_pairs()
    for pair in registered:
        own = {p.measure for p in registered if p.kernel is pair.kernel}
        kinds = [kind for kind in MEASURES if issubclass(kind, pair.measure) and kind not in own]
        yield from [pair._replace(measure=kind) for kind in kinds] if pair.measure is Univariate else [pair]


PAIRS = [pytest.param(pair, id=f"{pair.kernel.__name__}-{pair.measure.__name__}") for pair in pairs()]


@pytest.mark.parametrize("factor", [1e-3, 0.03, 0.3, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("pair", PAIRS)
def test_every_pair_agrees_with_a_dense_rule(pair: cbq.embeddings.Pair, factor: float) -> None:
    """mu from the kernel, z and cross from mu, by a dense rule in normal coordinates that the library does not use."""
    assert pair.kernel in KERNELS, f"add a kernel of type {pair.kernel.__name__} to KERNELS"
    assert pair.measure in MEASURES, f"add a measure of type {pair.measure.__name__} to MEASURES"
    any_measure = ANY.get(pair.kernel, (Gaussian, Uniform, Gamma))
    kinds = any_measure if pair.measure is Measure else (pair.measure,)
    for kind in kinds:
        check_pair(pair, *MEASURES[kind], factor)


def check_pair(pair: cbq.embeddings.Pair, measure: Measure, other: Measure, factor: float) -> None:
    mean, cov = measure.moments()
    sd = float(np.sqrt(cov[0, 0]))
    x = (mean + sd * DEVIATIONS)[:, None]
    if pair.kernel is Warped:  # points outside the support have no coordinates
        x = measure.transport(DEVIATIONS, base="normal")
    for make in KERNELS[pair.kernel]:
        embedding = cbq.embed(make(factor if pair.kernel is Warped else factor * sd), measure)
        kernel = embedding.kernel
        expected = np.array([dense_expectation(lambda y, k=kernel, p=p: k(y, p)[:, 0], measure, p) for p in x])
        if isinstance(kernel, Stein):
            size = np.sqrt(kernel.diag(x) * dense_expectation(kernel.diag, measure))  # of |k(X, x)|, at most
            assert np.all(np.abs(expected) < 1e-10 * size)
            assert np.all(embedding.mean(x) == 0)
            assert embedding.variance == 0
            continue
        assert_close(embedding.mean(x), expected)
        assert_close(embedding.variance, dense_expectation(embedding.mean, measure))
        if not isinstance(kernel, Warped):
            assert_close(embedding.cross(other), dense_expectation(embedding.mean, other, *bends(measure)))


def bends(measure: Measure) -> list[np.ndarray]:
    """Where its mean embedding is not smooth: the finite ends of its support."""
    parts = measure.components if isinstance(measure, Mixture) else (measure,)
    return [end for part in parts for end in part.support if np.isfinite(end).all()]


def dense_expectation(fn: Callable[[np.ndarray], np.ndarray], measure: Measure, *kinks: np.ndarray) -> float:
    """E fn(Y) on the line: Gauss-Legendre on panels a tenth of a standard deviation wide, graded about kinks."""
    if isinstance(measure, Empirical):
        return float(measure.weights @ fn(measure.points))
    if isinstance(measure, Mixture):
        parts = zip(measure.weights, measure.components, strict=True)
        return sum(w * dense_expectation(fn, component, *kinks) for w, component in parts)
    v = np.linspace(-8.6, 8.6, 173)
    for kink in kinks:
        inside = np.clip(kink, *measure.support)
        centre = np.clip(measure.inverse_transport(inside, base="normal").item(), -8.6, 8.6)
        steps = 2.0 ** np.arange(-26, -2)
        v = np.unique(np.clip(np.concatenate([v, [centre], centre + steps, centre - steps]), -8.6, 8.6))
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = 0.5 * np.diff(v)[:, None]
    v = (0.5 * (v[1:] + v[:-1])[:, None] + half * nodes).ravel()
    mass = (half * weights).ravel() * np.exp(-0.5 * v * v) / np.sqrt(2 * np.pi)
    return float(mass @ fn(measure.transport(v, base="normal")))


# Densities with kinks, jumps and poles that no formula names: a measure, and where they are.
KINKED = {
    "triangle": (stats.triang(0.3, loc=1.0, scale=2.0), [1.6]),
    "trapezoid": (stats.trapezoid(0.2, 0.7), [0.2, 0.7]),
    "off the median": (stats.laplace_asymmetric(1.5), [0.0]),
    "histogram": (stats.rv_histogram(([1, 3, 2, 5], [0.0, 0.5, 2.0, 3.0, 3.1]), density=True)(), [0.5, 2.0, 3.0]),
    "two modes": (stats.dweibull(1.6), [0.0]),
    "smooth": (stats.gumbel_r(0.3, 0.5), []),
    "pole at the end": (stats.weibull_min(0.6), []),
    "gap": (Mixture([0.3, 0.7], [Uniform(1.0, 2.0), Uniform(3.0, 4.0)]), [2.0, 3.0]),
}


@pytest.mark.parametrize("factor", [0.05, 1.0])
@pytest.mark.parametrize(("distribution", "kinks"), KINKED.values(), ids=KINKED)
def test_kinks_and_jumps_of_densities_are_found(distribution, kinks, factor):
    measure, at = as_measure(distribution), [np.array([kink]) for kink in kinks]
    x = np.concatenate([measure.transport([0.02, 0.4, 0.93]), np.reshape(kinks, (-1, 1))])
    for kernel in (Matern(0.5, factor), Matern(1.5, factor), RBF(factor)):
        embedding = cbq.embed(kernel, measure)
        expected = [dense_expectation(lambda y, k=kernel, p=p: k(y, p)[:, 0], measure, p[None], *at) for p in x]
        np.testing.assert_allclose(embedding.mean(x), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(embedding.variance, dense_expectation(embedding.mean, measure, *at), rtol=1e-9)
        other = Gaussian(1.0, std=0.7)
        cross = dense_expectation(cbq.embed(kernel, other).mean, measure, *at)
        np.testing.assert_allclose(embedding.cross(other), cross, rtol=1e-9)


def test_each_measure_of_a_batch_has_its_own_kinks():
    modes = np.array([0.1, 0.5, 0.77])
    batch = as_measure(stats.triang(modes))
    for c, mean, kinks in zip(
        modes, cbq.embed(RBF(0.2), batch).mean([[0.3], [0.8]]), density_kinks(batch), strict=True
    ):
        np.testing.assert_allclose(mean, cbq.embed(RBF(0.2), stats.triang(c)).mean([[0.3], [0.8]]), rtol=1e-12)
        assert c == 0.5 or np.min(np.abs(kinks - c)) < 1e-4  # the median ends a panel anyway


def test_copies_of_a_measure_do_not_keep_what_was_computed_of_it():
    measure = as_measure(stats.triang(0.3))
    cbq.embed(RBF(0.2), measure).mean([[0.5]])
    assert "_remembered" in vars(measure)
    for copied in (pickle.loads(pickle.dumps(measure)), copy.deepcopy(measure), copy.copy(measure)):
        assert "_remembered" not in vars(copied)
        assert copied.equals(measure)


class HalfDensity(Gumbel):
    """A Gumbel measure whose author forgot a factor."""

    def _log_density(self, y):
        return super()._log_density(y) - np.log(2.0)


@pytest.mark.parametrize(
    ("measure", "mass"),
    [(HalfDensity(0.0, 1.0), "0.5"), (as_measure(stats.mielke(10.4, 4.6)), "nan")],
    ids=["user", "mielke"],
)
def test_a_density_that_does_not_integrate_to_one_has_no_embedding(measure, mass):
    # the logarithm of the density of mielke overflows
    with pytest.raises(NoEmbedding, match=f"integrates to {mass}.*do not agree"):
        cbq.embed(RBF(1.0), measure)


@pytest.mark.parametrize("distribution", [stats.triang([0.3, 0.62]), stats.trapezoid([0.2, 0.31], 0.7)])
def test_masses_on_a_shared_line_allow_for_kinks(distribution):
    batch = as_measure(distribution)
    rule = line_for(RBF(0.2), [batch])
    masses = rule.masses([batch])
    np.testing.assert_allclose(masses @ rule.y[:, 0], batch.moments()[0][:, 0], rtol=1e-12)
    second = batch.moments()[1][:, 0, 0] + batch.moments()[0][:, 0] ** 2
    np.testing.assert_allclose(masses @ rule.y[:, 0] ** 2, second, rtol=1e-12)


CORRELATED = Gaussian([0.3, -0.2], [[1.0, 0.6], [0.6, 2.0]])
OTHER = Gaussian([-0.4, 0.5], [[1.5, -0.3], [-0.3, 0.8]])


@pytest.mark.parametrize("factor", [0.03, 0.3, 10.0])
@pytest.mark.parametrize(
    ("make", "measure", "other"),
    [
        (lambda s: Warped(TensorProduct(Matern(1.5, s)), "whiten"), CORRELATED, None),
        (lambda s: Warped(Matern(1.5, s), "whiten"), CORRELATED, OTHER),
        (lambda s: Warped(Matern(2.5, s), "gaussianise"), CORRELATED, None),
        (lambda s: RBF([s, 2 * s]) * Matern(1.5, s), CORRELATED, OTHER),
        (lambda s: TensorProduct([RBF(s), Matern(0.5, s)]), Uniform([-1, 0], [1, 3]), Gaussian([0, 1], cov=[1, 2])),
        (lambda s: Matern(1.5, s), Mixture([0.4, 0.6], [CORRELATED, OTHER]), CORRELATED),
        (lambda s: RBF(s), Product([Gamma(3.0, 2.0), Uniform(-1, 2)]), Product([Exponential(1.0), Beta(2, 2)])),
        (
            lambda s: 0.5 * (RBF(s) + TensorProduct(Matern(2.5, s))),
            Gaussian([0, 1], cov=[1, 2]),
            Uniform([0, 0], [1, 1]),
        ),
    ],
)
def test_in_the_plane_agrees_with_a_dense_rule(
    make: Callable[[float], Kernel], measure: Measure, other: Measure | None, factor: float
) -> None:
    embedding = cbq.embed(make(factor), measure)
    kernel = embedding.kernel
    x = measure.transport([[0.5, 0.5], [0.1, 0.7], [0.95, 0.98]])
    expected = [dense_in_plane(lambda y, p=p: kernel(y, p[None])[:, 0], measure, p) for p in x]
    np.testing.assert_allclose(embedding.mean(x), expected, rtol=1e-10)
    np.testing.assert_allclose(embedding.variance, dense_in_plane(embedding.mean, measure), rtol=1e-10)
    if other is not None:
        np.testing.assert_allclose(
            embedding.cross(other), dense_in_plane(embedding.mean, other, *bends(measure)), rtol=1e-10
        )


def dense_in_plane(fn: Callable[[np.ndarray], np.ndarray], measure: Measure, *kinks: np.ndarray) -> float:
    """E fn(Y) in two dimensions, by a tensor of panels in normal coordinates, graded about kinks."""
    if isinstance(measure, Mixture):
        parts = zip(measure.weights, measure.components, strict=True)
        return sum(w * dense_in_plane(fn, component, *kinks) for w, component in parts)
    axes = [np.linspace(-8, 8, 33)] * 2
    steps = 2.0 ** np.arange(-14, 0)
    for kink in kinks:
        centres = measure.inverse_transport(np.clip(kink, *measure.support)[None], base="normal")[0]
        axes = [
            np.unique(np.clip(np.r_[axis, c, c + steps, c - steps], -8, 8))
            for axis, c in zip(axes, np.clip(centres, -8, 8), strict=True)
        ]
    nodes, weights = np.polynomial.legendre.leggauss(10)
    v, w = [], []
    for edges in axes:
        half = 0.5 * np.diff(edges)[:, None]
        v.append((0.5 * (edges[1:] + edges[:-1])[:, None] + half * nodes).ravel())
        w.append((half * weights).ravel() * np.exp(-0.5 * v[-1] ** 2) / np.sqrt(2 * np.pi))
    points = np.stack(np.meshgrid(*v, indexing="ij"), axis=-1).reshape(-1, 2)
    return float(np.outer(*w).ravel() @ fn(measure.transport(points, base="normal")))


@pytest.mark.parametrize("alike", [True, False], ids=["one covariance", "several"])
def test_a_batch_of_measures_is_embedded_as_each_of_them(alike: bool) -> None:
    covs = np.array([[[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 1.5]]] * 4)
    covs = covs if alike else covs * np.array([1.0, 2.0, 0.5, 1.0])[:, None, None]
    measures = Gaussian(np.random.default_rng(0).normal([1000.0, 0.0, 0.0], 1.0, size=(4, 3)), cov=covs)
    kernel, x = RBF([0.7, 2.0, 1.1]), measures.mean.repeat(3, axis=0) + np.random.default_rng(1).normal(size=(12, 3))
    each = [cbq.embed(kernel, measures[i]) for i in range(4)]
    assert_close(cbq.embed(kernel, measures).mean(x), np.stack([e.mean(x) for e in each]))
    pairs = [[float(e.cross(measures[j])) for j in range(4)] for e in each]
    assert_close(cbq.embed(kernel, measures[:, None]).cross(measures[None, :]), np.array(pairs))


def test_additive_needs_only_the_marginals() -> None:
    kernel, x = Additive(Matern(0.5, [0.4, 0.9])), CORRELATED.sample(5, 0)
    embedding = cbq.embed(kernel, CORRELATED)
    parts = [cbq.embed(Matern(0.5, s), CORRELATED.marginal(j)) for j, s in enumerate((0.4, 0.9))]
    assert_close(embedding.mean(x), sum(part.mean(x[:, j]) for j, part in enumerate(parts)))
    assert_close(embedding.variance, sum(part.variance for part in parts))
    assert_close(embedding.cross(OTHER), sum(part.cross(OTHER.marginal(j)) for j, part in enumerate(parts)))


def test_kernel_on_logs_under_a_lognormal_is_the_kernel_under_a_gaussian() -> None:
    measure, other = (LogNormal(g.mean, cov=g.cov) for g in (CORRELATED, OTHER))
    x = measure.sample(6, 1)
    on_logs, plain = cbq.embed(Warped(Matern(1.5, 0.7), "log"), measure), cbq.embed(Matern(1.5, 0.7), CORRELATED)
    assert_close(on_logs.mean(x), plain.mean(np.log(x)))
    assert_close(on_logs.variance, plain.variance)
    assert_close(on_logs.cross(other), plain.cross(OTHER))


def test_transport_embeds_the_gaussianised_kernel() -> None:
    from scipy import stats

    measure = cbq.measures.from_scipy(stats.laplace(0.5, 2.0))
    embedding = cbq.embed(Matern(1.5, 0.6), stats.laplace(0.5, 2.0), method="transport")
    x = measure.sample(7, 2)
    assert embedding.method == "transport"
    assert isinstance(embedding.kernel, Warped)
    v = measure.inverse_transport(x, base="normal")
    assert_close(embedding.mean(x), cbq.embed(Matern(1.5, 0.6), Gaussian(0.0, 1.0)).mean(v))
    np.testing.assert_allclose(embedding.kernel(x), Matern(1.5, 0.6)(v), rtol=1e-14)


@pytest.mark.parametrize("kernel", [RBF(0.4), Matern(1.5, 0.4), Matern(0.5, 0.05) + RBF(2.0)])
@pytest.mark.parametrize("measure", [Gaussian(0.3, cov=0.7), Gamma(2.6, 1.5), Uniform(-0.5, 1.3)])
def test_quadrature_agrees_with_closed_forms_on_the_line(kernel: Kernel, measure: Measure) -> None:
    x = measure.transport([0.01, 0.5, 0.97])
    closed, numerical = cbq.embed(kernel, measure), cbq.embed(kernel, measure, method="quadrature")
    assert (closed.method, numerical.method) == ("closed-form", "quadrature")
    assert_close(closed.mean(x), numerical.mean(x))


def test_quadrature_gives_z_and_cross_too() -> None:
    measure, other = Gaussian(0.3, cov=0.7), Gaussian(-1.0, cov=2.0)
    closed, numerical = cbq.embed(RBF(0.8), measure), cbq.embed(RBF(0.8), measure, method="quadrature")
    assert_close(closed.variance, numerical.variance)
    assert_close(closed.cross(other), numerical.cross(other))


BATCHED = {
    Gaussian: Gaussian([[0.0], [1.0], [2.0]], cov=[[1.0], [0.5], [2.0]]),
    Gamma: Gamma([1.5, 2.5, 4.0], 2.0),
    TruncatedGaussian: TruncatedGaussian(0.0, 1.0, [-np.inf, -1.0, 0.5], [0.0, np.inf, 2.0]),
    Mixture: Mixture([0.5, 0.5], [Uniform([[0.0], [1.0], [2.0]], [[1.0], [3.0], [5.0]]), Exponential([1.0, 2.0, 3.0])]),
}


@pytest.mark.parametrize("measure", BATCHED.values(), ids=lambda measure: type(measure).__name__)
@pytest.mark.parametrize("kernel", [Matern(2.5, 0.6), RBF(0.6), Matern(1.5, [[0.3], [0.6], [1.2]])])
def test_a_batch_is_the_measures_one_by_one(kernel: Kernel, measure: Measure) -> None:
    x = measure.sample(4, 3)
    batch = cbq.embed(kernel, measure)
    assert batch.mean(x).shape == (3, 4)
    assert batch.variance.shape == (3,)
    for t in range(3):
        own = kernel if kernel.lengthscale.ndim == 0 else kernel.with_lengthscale(kernel.lengthscale[t])
        single = cbq.embed(own, measure[t])
        assert_close(batch.mean(x)[t], single.mean(x[t]), 1e-12)
        assert_close(batch.variance[t], single.variance, 1e-12)
        if kernel.lengthscale.ndim == 0:
            assert_close(batch.mean(x[0])[t], single.mean(x[0]), 1e-12)  # the same points for all
            assert_close(cbq.embed(kernel, measure[:, None]).cross(measure[None, :])[t], single.cross(measure), 1e-12)


def test_cross_is_symmetric_and_its_matrix_positive_semidefinite() -> None:
    measure = BATCHED[Gamma]
    matrix = cbq.embed(Matern(1.5, 0.5), measure[:, None]).cross(measure[None, :])
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12)
    np.testing.assert_allclose(np.diag(matrix), cbq.embed(Matern(1.5, 0.5), measure).variance, rtol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > 0


def test_no_points_and_one_point() -> None:
    for measure in (Gaussian(0.0, 1.0), Gamma(2.0, 1.0)):
        embedding = cbq.embed(Matern(1.5, 0.5), measure)
        assert embedding.mean(np.empty((0, 1))).shape == (0,)
        assert embedding.mean(0.3).shape == (1,)


@pytest.mark.parametrize(
    "measure",
    [
        Gamma(0.1, 1.0),
        Gamma(0.3, 1e6),
        Gamma(1e4, 1e-6),
        Beta(0.2, 0.1),
        Beta(1.0, 0.3),
        LogNormal(0.0, cov=25.0),
        StudentT(0.3, 0.0, 1.0),
        TruncatedGaussian(0.0, 1.0, 30.0, 31.0),
        TruncatedGaussian(0.0, 1.0, -np.inf, -12.0),
    ],
    ids=lambda measure: f"{type(measure).__name__}{[float(v.item()) for v in measure.parameters().values()]}",
)
def test_under_a_constant_kernel_every_mass_is_one(measure: Measure) -> None:
    """For an infinite lengthscale mu, z and cross are 1, however singular, skewed or heavy-tailed the measure is."""
    embedding = cbq.embed(RBF(1e120), measure)
    assert embedding.mean([0.5]) == pytest.approx(1.0, abs=1e-9)
    assert embedding.variance == pytest.approx(1.0, abs=1e-9)
    assert embedding.cross(Uniform(0.0, 1.0)) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("kernel", [RBF(1e-3), Matern(0.5, 1e-3), Matern(2.5, 1e-3)])
@pytest.mark.parametrize("narrow", [Gaussian(0.2, cov=1e-12), StudentT(3.0, 0.2, 1e-6), Gamma(1e10, 5e10)])
def test_cross_of_a_narrow_and_a_wide_measure_is_the_same_from_both_sides(kernel: Kernel, narrow: Measure) -> None:
    wide = Uniform(-1.0, 2.0)
    forth, back = cbq.embed(kernel, narrow).cross(wide), cbq.embed(kernel, wide).cross(narrow)
    np.testing.assert_allclose(forth, back, rtol=1e-10)


@pytest.mark.parametrize(
    ("near", "far"),
    [
        (StudentT(3.0, 0.0, 2.0**-10), StudentT(3.0, 2.0**20, 2.0**-10)),
        (
            TruncatedGaussian(0.0, 2.0**-10, -(2.0**-10), 2.0**-9),
            TruncatedGaussian(2.0**20, 2.0**-10, 2.0**20 - 2.0**-10, 2.0**20 + 2.0**-9),
        ),
    ],
)
@pytest.mark.parametrize("ell", [2.0**-20, 2.0**-10, 1.0])
def test_a_large_location_costs_no_digits(near: Measure, far: Measure, ell: float) -> None:
    x = np.array([-0.5, 0.0, 1.25]) * 2.0**-10  # the differences x - location are exact
    for kernel in (RBF(ell), Matern(1.5, ell)):
        a, b = cbq.embed(kernel, near), cbq.embed(kernel, far)
        assert_close(b.mean(x + 2.0**20), a.mean(x), 1e-13)
        assert_close(b.variance, a.variance, 1e-13)


@pytest.mark.parametrize(
    "measure",
    [Gamma(2.0, 3.0), Uniform(-1.0, 4.0), BATCHED[Gamma], Mixture([0.5, 0.5], [Gaussian(0, 1), Uniform(1, 2)])],
)
@pytest.mark.parametrize("make", [lambda s: 2 * RBF(s) + Matern(1.5, s), lambda s: TensorProduct([Matern(0.5, s)])])
def test_whitening_on_the_line_is_a_lengthscale_in_standard_deviations(measure: Measure, make: Callable) -> None:
    sd = np.sqrt(measure.moments()[1][..., 0, :])
    x = measure.transport([0.2, 0.5, 0.9])
    whitened, plain = cbq.embed(Warped(make(0.7), "whiten"), measure), cbq.embed(make(0.7 * sd), measure)
    assert_close(whitened.mean(x), plain.mean(x))
    assert_close(whitened.variance, plain.variance)


def test_tensor_product_of_rbf_needs_no_independence() -> None:
    x = CORRELATED.sample(4, 5)
    tensor, plain = cbq.embed(TensorProduct(RBF([0.5, 2.0])), CORRELATED), cbq.embed(RBF([0.5, 2.0]), CORRELATED)
    assert_close(tensor.mean(x), plain.mean(x))
    assert_close(tensor.cross(OTHER), plain.cross(OTHER))


EMPIRICAL = Empirical([[0.3, -1.0], [2.0, 0.5], [1.1, 1.1]], [0.2, 0.5, 0.3])


@pytest.mark.parametrize("warp", ["log", "whiten", "gaussianise", "uniform", np.square])
def test_warped_kernels_under_atoms_follow_the_definition(warp: str | Callable) -> None:
    measure = Empirical(np.exp(EMPIRICAL.points), EMPIRICAL.weights)
    embedding = cbq.embed(Warped(Matern(1.5, 0.7), warp), measure)
    gram = embedding.kernel(measure.points)
    assert_close(embedding.mean(measure.points), gram @ measure.weights)
    assert_close(embedding.variance, measure.weights @ gram @ measure.weights)


def by_singular_quadrature(kernel: Kernel, measure: Measure, x: float) -> float:
    """E k(X, x) with r = u^6 on both sides of x, so that a term r^0.6 of the kernel is smooth in u."""
    low, high = (float(np.ravel(end)[0]) for end in measure.support)
    sides = [(1.0, min(high, 50.0) - x), (-1.0, x - max(low, -50.0))]

    def integrand(u: float, sign: float) -> float:
        y = x + sign * u**6
        return float(kernel([x], [y])[0, 0] * np.exp(measure.logpdf([y])[0]) * 6 * u**5)

    return sum(quad(integrand, 0, end ** (1 / 6), args=(sign,), epsabs=1e-13, limit=200)[0] for sign, end in sides)


@pytest.mark.parametrize("nu", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("kind", [Gaussian, Uniform, Exponential, Gamma, Beta], ids=lambda kind: kind.__name__)
def test_matern_kernels_of_any_order_agree_with_adaptive_quadrature(nu: float, kind: type[Measure]) -> None:
    kernel, measure, x = Matern(nu, 0.4), MEASURES[kind][0], 0.35
    assert_close(cbq.embed(kernel, measure).mean([x]), by_singular_quadrature(kernel, measure, x))


@pytest.mark.parametrize("measure", [MEASURES[Gaussian][0], MEASURES[Exponential][0], CORRELATED], ids=repr)
def test_the_bessel_form_and_its_mixture_have_the_embeddings_of_half_orders(measure: Measure) -> None:
    x = np.abs(measure.sample(5, 0)) + 0.1
    for nu in (0.5, 1.5, 2.5):
        near, formula = (cbq.embed(Matern(order, 0.6), measure) for order in (nu + 1e-9, nu))
        np.testing.assert_allclose(near.mean(x), formula.mean(x), rtol=1e-8)
        np.testing.assert_allclose(near.variance, formula.variance, rtol=1e-8)


@pytest.mark.parametrize("nu", [0.1, 0.8, 2.0, 7.0, 20.0])
def test_a_matern_kernel_is_its_scale_mixture(nu: float) -> None:
    rho, kernel = np.array([1e-3, 0.1, 1.0, 3.0, 8.0]), Matern(nu, 1.0)
    mixture = sum(w * np.exp(-(rho**2) / (2 * g)) for g, w, _ in kernel.scale_rule())
    np.testing.assert_allclose(mixture, kernel(rho[:, None], [0.0])[:, 0], rtol=1e-12)


@pytest.mark.parametrize("measure", [Gamma(2.5, 1.0), StudentT(3.0), Product([Beta(0.5, 2.0), Gaussian(1.0, cov=2.0)])])
def test_a_kernel_of_the_unit_cube_has_the_uniform_embedding(measure: Measure) -> None:
    embedding, x = cbq.embed(Warped(RBF(0.4), "uniform"), measure), measure.sample(5, 0)
    cube = Uniform(np.zeros(measure.dim), np.ones(measure.dim))
    assert_close(embedding.mean(x), cbq.embed(RBF(0.4), cube).mean(measure.inverse_transport(x)))
    # draws of x have the mean that the embedding predicts
    draws = embedding.kernel(measure.sample(40_000, 1), x).mean(axis=0)
    np.testing.assert_allclose(draws, embedding.mean(x), atol=0.02)


def test_gaussianised_kernels_under_a_product_with_atoms() -> None:
    atoms = Empirical([0.0, 3.0], [0.25, 0.75])
    embedding = cbq.embed(RBF(0.8), Product([Gamma(2.0, 1.0), atoms]), method="transport")
    x = np.array([[1.3, 0.0], [0.2, 3.0]])
    each = [cbq.embed(RBF(0.8), measure, method="transport") for measure in (Gamma(2.0, 1.0), atoms)]
    assert_close(embedding.mean(x), each[0].mean(x[:, 0]) * each[1].mean(x[:, 1]))
    assert_close(embedding.variance, each[0].variance * each[1].variance)


@pytest.mark.parametrize(("kernel", "dim"), [(RBF(0.7), 2), (Matern(1.5, 1.2), 2), (RBF(1.5), 3)])
def test_quadrature_in_space_agrees_with_closed_forms(kernel: Kernel, dim: int) -> None:
    measure = Gaussian(np.arange(dim) / 4, cov=np.eye(dim) + 0.3 * (1 - np.eye(dim)))
    x = measure.transport([[0.2] + [0.7] * (dim - 1)])
    numerical = cbq.embed(kernel, measure, method="quadrature").mean(x)
    np.testing.assert_allclose(cbq.embed(kernel, measure).mean(x), numerical, rtol={2: 1e-8, 3: 1e-6}[dim])


def test_an_empty_batch_of_measures() -> None:
    for measure in (Gamma(np.ones(0), 1.0), Gaussian(np.ones((0, 1)), 1.0)):
        embedding = cbq.embed(Matern(1.5, 0.5), measure)
        assert embedding.mean(np.zeros((0, 3, 1))).shape == (0, 3)
        assert embedding.variance.shape == (0,)


def test_results_are_read_only_or_copies() -> None:
    embedding = cbq.embed(RBF(1.0), Gamma(2.0, 1.0))
    with pytest.raises(ValueError, match="read-only"):
        embedding.variance[...] = 0.0
    first = embedding.mean([1.0])
    first[0] = -1.0
    assert embedding.mean([1.0])[0] > 0


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(0.5, 1.0), Matern(1.5, 1e150), Matern(2.5, 1.0)])
def test_a_box_that_is_nearly_a_point(kernel: Kernel) -> None:
    embedding = cbq.embed(kernel, Uniform(0.0, 1e-200))
    assert embedding.variance == pytest.approx(1.0, abs=1e-14)
    assert embedding.mean([0.0])[0] == pytest.approx(1.0, abs=1e-14)
    assert embedding.mean([2.0])[0] == pytest.approx(kernel(0.0, 2.0).item(), abs=1e-14)
