"""One process on the points of all thetas, against dense formulas: kriging weights from a saddle-point system."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cbq
from cbq.embeddings import embed
from cbq.embeddings.many import Integrals, line_for, together
from cbq.estimators.multioutput.candidates import candidate_kernels, pooled_points
from cbq.gp.landmarks import choose_landmarks, enough_landmarks
from cbq.gp.pooled import NOISES, ExactGP, NystromGP, pooled_gp
from cbq.gp.process import FLAT
from cbq.gp.quadrature import GPData, explain
from cbq.gp.search import descend
from cbq.gp.selection import PooledPoints, choose_kernel
from cbq.kernels import RBF, Matern, TensorProduct, Warped, XThetaKernel
from cbq.linalg import Jitter
from cbq.measures import Beta, Empirical, Gamma, Gaussian, LogNormal, Product, StudentT, TruncatedGaussian, Uniform

NONE = Jitter(start=0.0)
ROUGH = Matern(1.5, 0.6)
JOINT = XThetaKernel(Matern(1.5, 0.6), Matern(2.5, 0.9), 1)


def kriging(V, q):
    """Weights (n, M) of the best unbiased predictions, from covariances V (n, n) of the values and q (n, M)."""
    n = len(V)
    saddle = np.block([[V, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    return np.linalg.solve(saddle, np.vstack([q, np.ones((1, q.shape[1]))]))[:n]


def errors_of(V, q, cross):
    """The covariances (M, M) of the errors of those predictions, at unit amplitude."""
    w = kriging(V, q)
    return cross - w.T @ q - q.T @ w + w.T @ V @ w


def reml(V, f):
    """Twice the negative restricted log-likelihood at the best amplitude, and that amplitude; f (n,)."""
    n, one = len(V), np.ones(len(V))
    S = one @ np.linalg.solve(V, one)
    centred = f - (one @ np.linalg.solve(V, f)) / S
    A = centred @ np.linalg.solve(V, centred) / (n - 1)
    return (n - 1) * np.log(A) + np.linalg.slogdet(V)[1] + np.log(S), A


def made(n=30, outputs=2, joint=False, seed=0):
    """Points u (n, D) and values f (n, C)."""
    rng = np.random.default_rng(seed)
    x, theta = rng.normal(size=n), np.repeat(rng.uniform(1, 3, n // 5), 5)
    f = np.stack([np.sin(2 * x) * theta, np.abs(x - 0.2)], axis=1)[:, :outputs]
    return (np.column_stack([x, theta]) if joint else x[:, None]), f


def draws(kernel, u, outputs, seed=0):
    """Functions (n, C) from the prior."""
    return np.linalg.cholesky(kernel(u)) @ np.random.default_rng(seed).normal(size=(len(u), outputs))


def pooled(u, f, **options):
    C = f.shape[1]
    return PooledPoints(u, f, **{"spread": np.ones(f.shape), "shift": np.zeros(C), "scale": np.ones(C)} | options)


def atoms(count=4, seed=7, equal=True):
    rng = np.random.default_rng(seed)
    return [Empirical(rng.normal(size=n), rng.dirichlet(np.ones(n))) for n in ([6] * count if equal else range(3, 7))]


def discretised(kernel, measures, theta, u):
    """Embeddings (M, n) and cross terms (M, M) as sums over the values of f at all atoms."""
    joint = u.shape[1] > 1
    points = [
        np.column_stack([measure.points, np.full(len(measure.points), t)])
        for measure, t in zip(measures, theta[:, 0], strict=False)
    ]
    every = np.concatenate(points if joint else [measure.points for measure in measures])
    owner = np.repeat(np.arange(len(measures)), [len(measure.points) for measure in measures])
    W = np.where(
        owner == np.arange(len(measures))[:, None], np.concatenate([measure.weights for measure in measures]), 0.0
    )
    return W @ kernel(every, u), W @ kernel(every) @ W.T


THETA = np.array([[1.2], [2.0], [2.5], [1.7]])


# Integrals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [ROUGH, RBF(0.5), JOINT], ids=["matern", "rbf", "joint"])
@pytest.mark.parametrize("equal", [True, False], ids=["as many atoms", "not as many"])
def test_integrals_of_measures_with_atoms_are_finite_sums(kernel, equal):
    u = made(joint=kernel is JOINT)[0]
    measures = atoms(equal=equal)
    mu, cross = discretised(kernel, measures, THETA, u)
    integrals = Integrals(kernel, measures, THETA)
    assert_allclose(integrals.mean(u), mu, rtol=1e-12)
    assert_allclose(integrals.variance(), np.diag(cross), rtol=1e-12)
    assert_allclose(integrals.cross(), cross, rtol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(1.1), XThetaKernel(RBF(1.1), ROUGH, 1)], ids=["x", "x and theta"])
def test_integrals_of_gaussian_measures_are_those_of_quadrature_nodes(kernel):
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    measures = [Gaussian(t[0], cov=0.25 * t[0]) for t in THETA]
    dots = [Empirical(t + np.sqrt(0.25 * t) * nodes, weights / weights.sum()) for t in THETA[:, 0]]
    u = made(joint=isinstance(kernel, XThetaKernel))[0]
    one, other = Integrals(kernel, measures, THETA), Integrals(kernel, dots, THETA)
    assert_allclose(one.mean(u), other.mean(u), rtol=1e-9)
    assert_allclose(one.variance(), other.variance(), rtol=1e-10)
    assert_allclose(one.cross(), other.cross(), rtol=1e-10)


def test_integrals_of_measures_of_several_kinds_and_of_one_that_all_share():
    measures = [Gaussian(0.0, 1.0), Uniform(-1.0, 2.0), Gaussian(0.5, cov=0.3), Empirical([0.0, 1.0])]
    u = made()[0]
    mixed = Integrals(RBF(0.7), measures, THETA)
    for i, measure in enumerate(measures):
        alone = embed(RBF(0.7), measure)
        assert_allclose(mixed.mean(u)[i], alone.mean(u), rtol=1e-13)
        assert_allclose(mixed.variance()[i], alone.variance, rtol=1e-13)
        assert_allclose(mixed.cross()[i], [alone.cross(other) for other in measures], rtol=1e-12)
    kernel = XThetaKernel(RBF(0.7), RBF(0.4), 1)
    shared = Integrals(kernel, [measures[0]] * 4, THETA)
    u = made(joint=True)[0]
    z = embed(RBF(0.7), measures[0]).variance
    assert_allclose(shared.mean(u), embed(RBF(0.7), measures[0]).mean(u[:, :1]) * RBF(0.4)(THETA, u[:, 1:]), rtol=1e-13)
    assert_allclose(shared.variance(), np.full(4, z), rtol=1e-13)
    assert_allclose(shared.cross(), z * RBF(0.4)(THETA), rtol=1e-13)
    one = Integrals(RBF(0.7), measures[:1], THETA[:1])
    assert_allclose(one.cross(), [[z]], rtol=1e-13)
    assert one.mean(u[:, :1]).shape == (1, len(u))


@pytest.mark.parametrize("kernel", [RBF(0.5), XThetaKernel(RBF(0.5), ROUGH, 1)], ids=["x", "x and theta"])
def test_one_rule_for_all_measures_gives_their_own_integrals(kernel):
    measures = [Gamma(2.0 * t[0], 2.0) for t in THETA]
    line = line_for(kernel, measures)
    by_line, own = Integrals(kernel, measures, THETA, line), Integrals(kernel, measures, THETA)
    u = np.abs(made(joint=isinstance(kernel, XThetaKernel))[0])
    assert_allclose(by_line.mean(u), own.mean(u), rtol=1e-10)
    assert_allclose(by_line.variance(), own.variance(), rtol=1e-10)
    assert_allclose(by_line.cross(), own.cross(), rtol=1e-10)
    beyond = [Gamma(2.0, 0.5), *measures[1:]]  # for which the line is made longer
    assert line.masses(beyond) is None
    by_longer, own = Integrals(kernel, beyond, THETA, line), Integrals(kernel, beyond, THETA)
    assert_allclose(by_longer.mean(u), own.mean(u), rtol=1e-10)
    assert_allclose(by_longer.cross(), own.cross(), rtol=1e-10)
    assert np.any(by_longer.mean(u) != own.mean(u))
    far = [Gamma(2.0, 1e-4), *measures[1:]]  # for which it would be too long: it takes rules of its own
    assert_array_equal(Integrals(kernel, far, THETA, line).mean(u), Integrals(kernel, far, THETA).mean(u))
    assert line_for(kernel, [Gaussian(0.0, 1.0)]) is None  # there is a formula


def above(lower):
    return [TruncatedGaussian(0.3, 1.0, t, end) for t, end in zip(lower, [2.5, np.inf, 2.7, np.inf], strict=True)]


def test_one_rule_serves_measures_whose_supports_end_at_different_places():
    kernel, u = RBF(0.5), np.abs(made()[0])
    line = line_for(kernel, above([0.0, 0.4, 1.1, 1.9]))
    for lower in ([0.0, 0.4, 1.1, 1.9], [0.2, 0.9, 1.3, 2.1]):  # those of the line, and new ones
        measures = above(lower)
        assert line.masses(measures) is not None
        by_line, own = Integrals(kernel, measures, THETA, line), Integrals(kernel, measures, THETA)
        assert_allclose(by_line.mean(u), own.mean(u), rtol=1e-10)
        assert_allclose(by_line.variance(), own.variance(), rtol=1e-10)
        assert_allclose(by_line.cross(), own.cross(), rtol=1e-10)


def test_a_support_within_one_panel_keeps_its_moments():
    line, narrow = line_for(RBF(0.5), above([0.0, 0.4, 1.1, 1.9])), TruncatedGaussian(0.3, 1.0, 1.001, 1.002)
    y, masses = line.covering([narrow])
    assert np.count_nonzero(masses) == 6  # the nodes of a panel
    (mean,), ((variance,),) = narrow.moments()
    assert_allclose(masses @ y, [[mean]], rtol=1e-12)
    assert_allclose(masses @ (y - mean) ** 2, [[variance]], rtol=1e-6)  # a millionth of the squares that cancel


def test_the_variance_on_a_line_is_the_diagonal_of_the_cross_terms():
    measures = [Gamma(2.0 * t[0], 2.0) for t in THETA]
    for kernel in (ROUGH, JOINT):
        integrals = Integrals(kernel, measures, THETA, line_for(kernel, measures))
        assert_allclose(integrals.variance(), np.diag(integrals.cross()), rtol=1e-13)


def test_measures_that_are_equal_are_embedded_once():
    measures = [Gamma(2.0, 3.0) for _ in THETA]  # equal, but not the same
    (one,) = together(measures)
    assert one.batch_shape == ()
    u = np.abs(made(joint=True)[0])
    for line in (None, line_for(JOINT, measures)):
        equal, same = (Integrals(JOINT, m, THETA, line) for m in (measures, measures[:1] * len(THETA)))
        assert_array_equal(equal.mean(u), same.mean(u))
        assert_array_equal(equal.variance(), same.variance())
        assert_array_equal(equal.cross(), same.cross())


def test_a_line_for_many_measures_takes_one_embedding_and_no_panels_of_each():
    quantiles = []

    class Recorded(Gamma):
        def _from_normal(self, v):
            quantiles.append(self)
            return super()._from_normal(v)

    measures = [Recorded(2.0 * t[0], 2.0) for t in THETA]
    assert embed(ROUGH, measures[0]).uses_panels
    assert not quantiles
    assert line_for(ROUGH, measures) is not None
    assert all(measure.batch_shape == (len(THETA),) for measure in quantiles)


def lognormals(reach=0.3):
    return [LogNormal([reach * t[0], -reach * t[0]], cov=[0.09, 0.04]) for t in THETA]


def of_three_kinds():
    return [Product([Gamma(2.0 * t[0], 2.0), Beta(2.0, 3.0), Gaussian(t[0], cov=1.0)]) for t in THETA]


def of_two_positive_kinds():
    return [Product([Gamma(2.0 * t[0], 2.0), LogNormal(t[0], cov=0.04)]) for t in THETA]


def heavy_tailed():
    return [Product([StudentT(3.0, t[0], 1.0), Gamma(2.0 * t[0], 2.0)]) for t in THETA]


def on_coordinates(kernel, measures):
    """The kernels and measures of all coordinates: d times a kernel and M measures."""
    embeddings = [embed(kernel, measure)._factors() for measure in measures]
    return [(parts[0].kernel, [part.measure for part in parts]) for parts in zip(*embeddings, strict=True)]


ARD = {2: [0.5, 0.8], 3: [0.5, 0.8, 0.6]}
OF_PRODUCTS = {  # with the accuracy that a kink between nodes allows
    "matern 1/2": (lambda d: TensorProduct(Matern(0.5, ARD[d])), 1e-3),
    "matern 3/2": (lambda d: TensorProduct(Matern(1.5, ARD[d])), 1e-5),
    "matern 5/2": (lambda d: TensorProduct(Matern(2.5, ARD[d])), 1e-7),
    "rbf": (lambda d: RBF(ARD[d]), 1e-10),
    "product": (lambda d: RBF(ARD[d]) * TensorProduct(Matern(2.5, ARD[d])), 1e-7),
}


@pytest.mark.parametrize("kind", OF_PRODUCTS)
@pytest.mark.parametrize(
    ("measures", "warp"),
    [(lognormals(), None), (of_three_kinds(), None), (of_two_positive_kinds(), None), (of_two_positive_kinds(), "log")],
    ids=["lognormal", "three kinds", "positive", "log of positive"],
)
def test_independent_coordinates_have_a_line_each(measures, warp, kind):
    make, rtol = OF_PRODUCTS[kind]
    kernel = make(measures[0].dim) if warp is None else Warped(make(measures[0].dim), warp)
    line = line_for(kernel, measures)
    parts = on_coordinates(kernel, measures)
    assert line.lines.keys() == {j for j, (k, m) in enumerate(parts) if embed(k, m[0]).uses_panels}
    u = np.concatenate([measure.sample(8, rng=0) for measure in measures])
    by_line, own = Integrals(kernel, measures, THETA, line), Integrals(kernel, measures, THETA)
    each = [Integrals(k, m, THETA, line_for(k, m)) for k, m in parts]
    means = np.prod([part.mean(u[:, [j]]) for j, part in enumerate(each)], axis=0)
    assert_allclose(by_line.mean(u), means, rtol=1e-13)
    assert_allclose(by_line.variance(), np.prod([part.variance() for part in each], axis=0), rtol=1e-13)
    assert_allclose(by_line.cross(), np.prod([part.cross() for part in each], axis=0), rtol=1e-13)
    assert_allclose(by_line.mean(u), own.mean(u), rtol=rtol)
    assert_allclose(by_line.variance(), own.variance(), rtol=rtol)
    assert_allclose(by_line.cross(), own.cross(), rtol=rtol)


def test_a_kernel_of_x_and_theta_has_a_line_for_each_coordinate_of_x():
    measures, kernel = lognormals(), XThetaKernel(TensorProduct(Matern(1.5, [0.5, 0.8])), ROUGH, 2)
    u = np.column_stack([measures[0].sample(8, rng=0), np.linspace(0.5, 2.0, 8)])
    own = Integrals(kernel, measures, THETA).mean(u)
    integrals = Integrals(kernel, measures, THETA, line_for(kernel, measures))
    assert_allclose(integrals.mean(u), own, rtol=1e-6)
    assert_allclose(integrals.variance(), np.diag(integrals.cross()), rtol=1e-13)


def test_the_line_of_a_coordinate_is_made_longer_unless_it_were_too_long():
    kernel, measures = TensorProduct(Matern(2.5, [0.5, 0.8])), of_two_positive_kinds()
    line, u = line_for(kernel, measures), np.concatenate([measure.sample(8, rng=0) for measure in measures])
    longer = [Product([Gamma(2.0, 0.5), measures[0].blocks[1]]), *measures[1:]]
    assert line.lines[0].masses([each.blocks[0] for each in longer]) is None
    by_line, own = Integrals(kernel, longer, THETA, line), Integrals(kernel, longer, THETA)
    assert_allclose(by_line.mean(u), own.mean(u), rtol=1e-7)
    assert_allclose(by_line.cross(), own.cross(), rtol=1e-7)
    far = [Product([Gamma(2.0, 1e-4), measures[0].blocks[1]]), *measures[1:]]  # beyond any line of coordinate 0
    (first, gammas), (second, others) = on_coordinates(kernel, far)
    one, other = Integrals(first, gammas, THETA), Integrals(second, others, THETA, line.lines[1])
    by_line = Integrals(kernel, far, THETA, line)
    assert_array_equal(by_line.mean(u), one.mean(u[:, :1]) * other.mean(u[:, 1:]))
    assert_array_equal(by_line.variance(), one.variance() * other.variance())
    assert_array_equal(by_line.cross(), one.cross() * other.cross())


def test_lines_of_coordinates_serve_where_kernel_and_measures_are_products():
    kernel, dependent = RBF([0.5, 0.8]), [[0.09, 0.03], [0.03, 0.04]]
    line, u = line_for(kernel, lognormals()), lognormals()[0].sample(8, rng=0)
    assert line_for(Matern(1.5, [0.5, 0.8]), lognormals()) is None  # a radial kernel is no product
    assert line_for(kernel, [Gaussian([t[0], 0.0], cov=[1.0, 2.0]) for t in THETA]) is None  # there is a formula
    assert line_for(Warped(kernel, "log"), lognormals()) is None
    rough = TensorProduct(Matern(1.5, [0.5, 0.8, 0.6]))
    assert line_for(rough, of_three_kinds()).lines.keys() == {0, 1}  # a Gaussian coordinate has one
    mixed = [Product([Gamma(2.0, 1.0), Gamma(3.0, 1.0)]), *lognormals()[1:]]
    assert line_for(kernel, mixed) is None
    assert_array_equal(Integrals(kernel, mixed, THETA, line).mean(u), Integrals(kernel, mixed, THETA).mean(u))
    with pytest.raises(cbq.embeddings.NoEmbedding, match="correlated LogNormal"):
        line_for(kernel, [LogNormal([t[0], 0.0], cov=dependent) for t in THETA])
    # independent of two that are not
    block = [Product([LogNormal([t[0], 0.0], cov=dependent), Gamma(2.0 * t[0], 2.0)]) for t in THETA]
    kernel = Warped(RBF([0.5, 0.8, 0.6]), "log")
    line, u = line_for(kernel, block), block[0].sample(8, rng=0)
    assert line.lines.keys() == {2}
    by_line, own = Integrals(kernel, block, THETA, line), Integrals(kernel, block, THETA)
    assert_allclose(by_line.mean(u), own.mean(u), rtol=1e-10)
    assert_allclose(by_line.cross(), own.cross(), rtol=1e-10)


def test_a_line_of_a_heavy_tail_holds_points_far_out():
    kernel, measures = TensorProduct(Matern(1.5, [0.5, 0.8])), heavy_tailed()
    line, u = line_for(kernel, measures), np.array([[-1e4, 1e-9], [-30.0, 3.0], [0.0, 1.0], [50.0, 20.0], [1e6, 1e3]])
    by_line, own = (Integrals(kernel, measures, THETA, each).mean(u) for each in (line, None))
    assert line.lines.keys() == {0, 1}
    assert np.all(np.isfinite(by_line))
    assert_allclose(by_line, own, atol=1e-4 * np.max(own))


def test_products_of_measures_that_are_equal_have_one_row_of_masses():
    kernel, measures = TensorProduct(Matern(1.5, [0.5, 0.8])), lognormals()[:1] * len(THETA)
    line, u = line_for(kernel, measures), lognormals()[0].sample(8, rng=0)
    integrals = Integrals(kernel, measures, THETA, line)
    assert [part.masses.shape[0] for _, part in integrals._embedded.parts] == [1, 1]
    assert_allclose(integrals.mean(u), Integrals(kernel, measures, THETA).mean(u), rtol=1e-6)
    assert integrals.variance().shape == THETA[:, 0].shape
    assert integrals.cross().shape == (len(THETA), len(THETA))


# The search for kernels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lowest", [-2.25, -0.25, 0.0, 0.25, 1.75])
def test_a_descent_ends_at_the_lowest_step_and_evaluates_none_twice(lowest):
    tried = []
    found = descend(lambda v: tried.append(v) or 1.0 + (v - lowest) ** 2, 0.0, 0.25, least=0.0)
    assert found == lowest  # the steps are exact in binary, and so would repeated points be
    assert len(set(tried)) == len(tried)


def test_a_descent_ends_where_steps_gain_less_than_their_least_share():
    tried = []
    found = descend(lambda v: tried.append(v) or 1.0 + 0.5**v, 0.0, 1.0, least=0.12)
    # values 2, 1.5, 1.25, 1.125: steps gain 25%, 17% and 10%
    assert (found, tried) == (2.0, [0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize("value", [np.inf, np.nan, 0.0])
def test_a_descent_ends_where_all_values_are_equal(value):
    assert descend(lambda v: value, 2.0, 0.5) == 2.0


# The exact process -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("kernel", [ROUGH, JOINT], ids=["x", "x and theta"])
def test_the_exact_process_is_kriging_of_the_atoms(kernel, outputs):
    u, f = made(outputs=outputs, joint=kernel is JOINT)
    measures = atoms()
    mu, cross = discretised(kernel, measures, THETA, u)
    K = kernel(u)
    each = ExactGP(kernel, u, f, NONE)
    assert each.nodes is u
    assert_allclose(each.mean(mu), kriging(K, mu.T).T @ f, rtol=1e-10)
    expected = errors_of(K, mu.T, cross)
    assert_allclose(each.covariance(mu, cross), np.stack([expected] * outputs), atol=1e-12)
    assert_allclose(each.variance(mu, np.diag(cross)), np.stack([np.diag(expected)] * outputs, axis=1), atol=1e-12)
    assert_allclose(each.amplitude, [reml(K, column)[1] for column in f.T], rtol=1e-10)


def test_the_exact_process_interpolates_and_knows_constants():
    u, f = made()
    each = ExactGP(ROUGH, u, f, NONE)
    K = ROUGH(u)
    assert_allclose(each.mean(K), f, atol=1e-10)  # an integral under a measure of one atom is a value of f
    assert_allclose(each.variance(K, np.diag(K)), 0.0, atol=1e-10)
    constant = ExactGP(ROUGH, u, np.full((len(u), 1), 3.0), NONE)
    assert_allclose(constant.mean(0.3 * K), 3.0, rtol=1e-12)
    assert_allclose(constant.amplitude, 0.0, atol=1e-20)


def test_a_jitter_is_a_noise_of_that_variance():
    u, f = made()
    mu, cross = discretised(ROUGH, atoms(), THETA, u)
    each = ExactGP(ROUGH, u, f, Jitter(start=1e-3, ceiling=1e-2))
    V = ROUGH(u) + 1e-3 * np.eye(len(u))
    assert_allclose(each.mean(mu), kriging(V, mu.T).T @ f, rtol=1e-10)
    assert_allclose(each.covariance(mu, cross)[0], errors_of(V, mu.T, cross), atol=1e-12)


@pytest.mark.parametrize("kernel", [ROUGH, JOINT], ids=["x", "x and theta"])
def test_an_exact_process_with_noise_is_kriging_of_noisy_values(kernel):
    u, f = made(joint=kernel is JOINT)
    V = kernel(u) + 0.3 * np.eye(len(u))
    process = ExactGP(kernel, u, f, NONE, 0.3)
    measures = [Gaussian(t[0], 1.0) for t in THETA]
    integrals = Integrals(kernel, measures, THETA)
    mu, cross = integrals.mean(u), integrals.cross()
    assert_allclose(process.mean(mu), kriging(V, mu.T).T @ f, rtol=1e-9)
    assert_allclose(process.variance(mu, np.diag(cross))[:, 0], np.diag(errors_of(V, mu.T, cross)), rtol=1e-9)
    assert_allclose(process.amplitude, [reml(V, column)[1] for column in f.T], rtol=1e-9)
    rest = [np.delete(np.arange(len(u)), i) for i in range(len(u))]
    left_out = [f[i] - kriging(V[np.ix_(r, r)], V[r, i : i + 1])[:, 0] @ f[r] for i, r in enumerate(rest)]
    explained = explain(kernel, GPData(u[None], f[None]), FLAT, NONE, [0.3])
    assert_allclose(explained.residuals[0, 0], left_out, rtol=1e-8, atol=1e-12)


def test_one_point_and_two_are_no_error():
    one = ExactGP(ROUGH, np.zeros((1, 1)), np.full((1, 1), 2.0), NONE)
    assert_allclose(one.mean(np.array([[0.4]])), 2.0)
    assert one.amplitude[0] == 0
    two = ExactGP(ROUGH, np.array([[0.0], [1.0]]), np.array([[0.0], [2.0]]), NONE)
    assert_allclose(two.mean(np.array([[0.4, 0.4]])), 1.0)  # by symmetry


# Landmarks and the low-rank process --------------------------------------------------------------------------------


def left_by(kernel, u, rows):
    """The variance (n,) of f at the points given its values at those in `rows`."""
    K = kernel(u)
    return np.diag(K) - np.sum(K[rows].T * np.linalg.lstsq(K[np.ix_(rows, rows)], K[rows], rcond=None)[0].T, axis=1)


@pytest.mark.parametrize("kernel", [ROUGH, RBF(0.4), JOINT], ids=["matern", "rbf", "joint"])
def test_landmarks_are_different_points_that_leave_less_and_less(kernel):
    u = made(100, joint=kernel is JOINT)[0]
    rows = choose_landmarks(kernel, u, 20, np.random.default_rng(3))
    assert rows.shape == (20,)
    assert len(np.unique(rows)) == 20
    assert_array_equal(choose_landmarks(kernel, u, 20, np.random.default_rng(3)), rows)
    assert not np.array_equal(choose_landmarks(kernel, u, 20, np.random.default_rng(4)), rows)
    assert_array_equal(choose_landmarks(kernel, u, 7, np.random.default_rng(3)), rows[:7])
    left = [np.sum(left_by(kernel, u, rows[:k])) for k in range(1, 21)]
    assert np.all(np.diff(left) < 0)
    rng = np.random.default_rng(0)
    others = [np.sum(left_by(kernel, u, rng.choice(100, 20, replace=False))) for _ in range(20)]
    assert left[-1] < np.median(others)


def test_landmarks_stop_where_the_points_have_nothing_left_to_say():
    few = np.repeat([[0.0], [1.0], [5.0]], 10, axis=0)
    rows = choose_landmarks(ROUGH, few, 20, np.random.default_rng(0))
    assert sorted(few[rows, 0]) == [0.0, 1.0, 5.0]
    u = np.random.default_rng(0).uniform(size=(200, 1))
    rows = choose_landmarks(RBF(3.0), u, 100, np.random.default_rng(0))
    assert len(rows) < 20  # the Gram matrix has so many eigenvalues above rounding
    assert np.max(left_by(RBF(3.0), u, rows)) < 1e-12
    assert sorted(choose_landmarks(ROUGH, u[:6], 100, np.random.default_rng(0))) == list(range(6))


def low_rank(kernel, u, rows, measures, s2):
    """Covariances of the values, q (n, M) and cross terms of the model: f = b + Phi w + e."""
    K, Km = kernel(u, u[rows]), kernel(u[rows])
    mu, cross = discretised(kernel, measures, THETA, u[rows])
    V = K @ np.linalg.solve(Km, K.T) + s2 * np.eye(len(u))
    return V, K @ np.linalg.solve(Km, mu.T), mu, cross


@pytest.mark.parametrize("kernel", [ROUGH, JOINT], ids=["x", "x and theta"])
def test_the_low_rank_process_is_that_of_its_model(kernel):
    u, f = made(60, joint=kernel is JOINT)
    f = f + 0.02 * np.random.default_rng(1).normal(size=f.shape)
    rows = np.arange(0, 60, 5)
    each = NystromGP(kernel, u, f, u[rows], NONE)
    assert_array_equal(each.nodes, u[rows])
    for c in range(2):
        V, q, mu, cross = low_rank(kernel, u, rows, atoms(), each.noise[c])
        assert_allclose(each.mean(mu)[:, c], kriging(V, q).T @ f[:, c], rtol=1e-9)
        expected = errors_of(V, q, cross)
        assert_allclose(each.covariance(mu, cross)[c], expected, atol=1e-11)
        assert_allclose(each.variance(mu, np.diag(cross))[:, c], np.diag(expected), atol=1e-11)
        assert_allclose(each.amplitude[c], reml(V, f[:, c])[1], rtol=1e-9)


def test_the_noise_of_a_low_rank_process_is_the_likeliest():
    u, f = made(60)
    f = f + 0.02 * np.random.default_rng(1).normal(size=f.shape)
    rows = np.arange(0, 60, 5)
    each = NystromGP(ROUGH, u, f, u[rows], NONE)
    able = NOISES[NOISES > 1e-9]  # below, the dense matrix is singular
    for c in range(2):
        losses = [reml(low_rank(ROUGH, u, rows, atoms(), s2)[0], f[:, c])[0] for s2 in able]
        assert able[np.argmin(losses)] == each.noise[c]
        assert NOISES[0] < each.noise[c] < NOISES[-1]


def test_a_low_rank_process_through_all_points_is_the_exact_one():
    u = np.linspace(-3.0, 3.0, 40)[:, None]
    f = draws(ROUGH, u, 2)
    mu, cross = discretised(ROUGH, atoms(), THETA, u)
    each, exact = NystromGP(ROUGH, u, f, u, NONE), ExactGP(ROUGH, u, f, NONE)
    assert_array_equal(each.noise, NOISES[0])  # the likelihood sees that there is none
    assert_allclose(each.mean(mu), exact.mean(mu), atol=1e-11)
    assert_allclose(each.covariance(mu, cross), exact.covariance(mu, cross), atol=1e-11)
    assert_allclose(each.amplitude, exact.amplitude, rtol=1e-10)


def test_blocks_of_points_make_the_process_of_all_in_memory():
    u, f = made(4500)
    rows = np.arange(0, 4500, 375)
    each = NystromGP(ROUGH, u, f, u[rows], NONE)
    features = each.factor.solve_lower(ROUGH(u[rows], u)).T
    Q, R = np.linalg.qr(features - np.mean(features, axis=0))
    assert_allclose(each.roots, np.linalg.svd(R, compute_uv=False), rtol=1e-9)
    assert_allclose(each.centre, np.mean(features, axis=0), rtol=1e-10)
    apart = f - np.mean(f, axis=0)
    shares = np.linalg.solve(R.T @ R + each.noise[0] * np.eye(len(rows)), R.T @ (Q.T @ apart[:, 0]))
    psi = (features - np.mean(features, axis=0)) @ shares
    assert_allclose(each.mean(ROUGH(u, u[rows]))[:, 0], np.mean(f[:, 0]) + psi, rtol=1e-8)


def test_a_rougher_f_takes_more_landmarks():
    options = cbq.LandmarkSelection(fewest=8, many=32, most=64, candidates=150)
    u = np.linspace(-3.0, 3.0, 300)[:, None]
    noise = np.random.default_rng(0).normal(size=(300, 1))
    functions = {"noise": noise, "smooth": np.sin(u), "rough": np.sin(40 * u)}
    rows = {name: enough_landmarks(ROUGH, pooled(u, f), Jitter(1e-13), 0, options) for name, f in functions.items()}
    assert len(rows["noise"]) == 8  # an exact process predicts nothing more
    assert 8 < len(rows["smooth"]) <= 32 < len(rows["rough"]) == 64
    for each in rows.values():
        assert len(np.unique(each)) == len(each)
        assert_array_equal(each[:8], rows["rough"][:8])


def test_landmarks_are_added_by_weight_to_those_before():
    u = np.linspace(-3.0, 3.0, 100)[:, None]
    first = choose_landmarks(ROUGH, u, 5, np.random.default_rng(0))
    weights = np.where(u[:, 0] > 1.0, 1.0, 0.0)
    rows = choose_landmarks(ROUGH, u, 15, np.random.default_rng(1), first, weights)
    assert_array_equal(rows[:5], first)
    assert len(np.unique(rows)) == 15
    assert np.all(u[rows[5:], 0] > 1.0)


def test_nodes_decide_which_process_it_is():
    u, f = made()
    assert isinstance(pooled_gp(ROUGH, u, f, None, NONE), ExactGP)
    assert isinstance(pooled_gp(ROUGH, u, f, u[:5], NONE), NystromGP)


# The joint kernel --------------------------------------------------------------------------------------------------

PAIR = XThetaKernel(RBF([0.7, 1.3]), Warped(Matern(2.5, 0.8), "log"), 2)


def points_of_pair(n=6, seed=0, batch=()):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(*batch, n, 2)), rng.uniform(1, 2, (*batch, n, 1))], axis=-1)


def test_the_joint_kernel_is_the_product_of_its_parts():
    u, v = points_of_pair(), points_of_pair(4, seed=1)
    on_x, on_theta = PAIR.parts
    assert_allclose(PAIR(u, v), on_x(u[:, :2], v[:, :2]) * on_theta(u[:, 2:], v[:, 2:]), rtol=1e-14)
    assert_allclose(PAIR(u), PAIR(u, u), rtol=1e-14)
    scaled = XThetaKernel(2.0 * RBF(1.0), 3.0 * RBF(1.0), 2)
    assert_allclose(scaled.diag(u), np.diag(scaled(u)), rtol=1e-14)
    assert_allclose(scaled.diag(u), 6.0, rtol=1e-14)
    assert repr(PAIR) == f"{on_x!r} of x times {on_theta!r} of theta"
    assert PAIR.bind(Gaussian(np.zeros(3), np.ones(3))) is PAIR
    assert_array_equal(PAIR.log_lengthscales, np.log([0.7, 1.3, 0.8]))
    PAIR.check_dim(3)
    for d in (3, 5):
        with pytest.raises(ValueError, match="2 lengthscales, but the points have"):
            XThetaKernel(RBF([1.0, 2.0]), RBF([1.0, 2.0]), 2).check_dim(d)


def test_derivatives_of_the_joint_kernel_are_those_of_differences():
    u, h = points_of_pair(), 1e-5
    rng = np.random.default_rng(2)
    G = rng.normal(size=(6, 6))
    G = G + G.T
    ell = PAIR.log_lengthscales
    grams = [
        [PAIR.with_log_lengthscales(ell + s * h * np.eye(3)[j])(u) for s in (1, -1)] for j in range(PAIR.n_lengthscales)
    ]
    slopes = np.array([(up - down) / (2 * h) for up, down in grams])
    assert_allclose(PAIR.derivatives(u), slopes, atol=1e-9)
    assert_allclose(PAIR.contract(u, G), np.sum(G * slopes, axis=(1, 2)), atol=1e-8)


def test_the_joint_kernel_takes_batches_of_lengthscales_and_of_points():
    u = points_of_pair(batch=(1,))
    ells = PAIR.log_lengthscales + np.array([0.0, 0.5, -1.0])[:, None, None]
    grams = PAIR.with_log_lengthscales(ells)(u)
    assert grams.shape == (3, 1, 6, 6)
    for k in range(3):
        assert_allclose(grams[k, 0], PAIR.with_log_lengthscales(ells[k, 0])(u[0]), rtol=1e-14)
    v = points_of_pair(batch=(2,))
    assert_allclose(PAIR(v), [PAIR(v[0]), PAIR(v[1])], rtol=1e-14)
    assert PAIR.diag(v).shape == (2, 6)


def test_free_lengthscales_of_the_joint_kernel():
    u = points_of_pair(50)
    kernel, free = XThetaKernel(RBF(), Matern(1.5, 0.4), 2).to_fit(u, ard=True)
    assert isinstance(kernel, XThetaKernel)
    assert kernel.d == 2
    assert_array_equal(free, [True, True, False])
    expected = [*np.exp(RBF().to_fit(u[:, :2], ard=True)[0].log_lengthscales), 0.4]
    assert_allclose(np.exp(kernel.log_lengthscales), expected, rtol=1e-14)
    assert_array_equal(XThetaKernel(RBF(), RBF(), 2).to_fit(u, ard=False)[1], [True, True])
    fixed, free = PAIR.to_fit(u, ard=True)
    assert fixed is PAIR
    assert not free.any()


# The pool ----------------------------------------------------------------------------------------------------------


def some(x, f, depends_on_theta=False, theta=(1.0, 2.0)):
    return cbq.Samples(theta, x, f, Gaussian(0.0, 1.0), depends_on_theta=depends_on_theta)


def test_a_pool_holds_all_points_and_values_of_size_one():
    rng = np.random.default_rng(0)
    x, f = [rng.normal(size=3), rng.normal(size=5)], [rng.normal(5, 3, (3, 2)), rng.normal(5, 3, (5, 2))]
    points, findings = pooled_points(some(x, f))
    flat = np.concatenate(f)
    assert (points.n, findings) == (8, [])
    assert_array_equal(points.u, np.concatenate(x)[:, None])
    assert_allclose(points.shift, flat.mean(axis=0))
    assert_allclose(points.scale, flat.std(axis=0))
    assert_allclose(points.shift + points.scale * points.f, flat, rtol=1e-12)
    deviations = np.repeat([f[0].std(axis=0), f[1].std(axis=0)], [3, 5], axis=0)
    assert_allclose(points.spread * points.scale, deviations, rtol=1e-12)
    both, _ = pooled_points(some(x, f, depends_on_theta=True))
    assert_array_equal(both.u, np.column_stack([np.concatenate(x), [1.0] * 3 + [2.0] * 5]))
    assert_array_equal(both.f, points.f)


def test_equal_points_are_one_with_the_average_of_their_values():
    x, f = [[3.0, 1.0, 3.0], [1.0, 2.0, 3.0]], [[1.0, 5.0, 2.0], [7.0, 4.0, 6.0]]
    points, findings = pooled_points(some(x, f))
    assert_array_equal(points.u[:, 0], [3.0, 1.0, 2.0])
    assert_allclose(points.spread[:, 0] * points.scale, np.std(f, axis=1)[[0, 0, 1]])  # of the theta they came from
    assert_allclose(points.shift + points.scale * points.f[:, 0], [3.0, 6.0, 4.0])
    assert [each.kind for each in findings] == ["noise"]
    assert "different values at equal points" in findings[0].text
    assert "If it depends on theta after all, pass depends_on_theta=True" in findings[0].text
    both, findings = pooled_points(some(x, f, depends_on_theta=True))
    assert_array_equal(both.u, [[3.0, 1.0], [1.0, 1.0], [1.0, 2.0], [2.0, 2.0], [3.0, 2.0]])
    assert_allclose(both.shift + both.scale * both.f[:, 0], [1.5, 5.0, 7.0, 4.0, 6.0])
    assert "after all" not in findings[0].text


def test_other_values_at_other_thetas_are_dependence_and_at_the_same_theta_noise():
    x = [[3.0, 1.0], [1.0, 2.0]]
    assert [each.kind for each in pooled_points(some(x, [[1.0, 5.0], [7.0, 4.0]]))[1]] == ["dependence"]
    assert [each.kind for each in pooled_points(some(x, [[1.0, 5.0], [5.0 + 1e-7, 4.0]]))[1]] == ["noise"]
    x = [[3.0, 1.0, 1.0], [1.0, 2.0, 2.0]]
    assert [each.kind for each in pooled_points(some(x, [[1.0, 5.0, 5.0], [7.0, 4.0, 4.5]]))[1]] == ["noise"]


def test_equal_points_with_equal_values_are_no_reason_to_warn():
    x = np.array([[0.3, 0.1, 0.3], [0.1, 0.2, 0.0]])
    points, findings = pooled_points(some(x, np.sin(x) / 3))
    assert (points.n, findings) == (4, [])
    assert_allclose(points.shift + points.scale * points.f[:, 0], np.sin(points.u[:, 0]) / 3, rtol=1e-14)
    zeros = np.array([[0.0, 1.0], [-0.0, 2.0]])
    assert pooled_points(some(zeros, zeros**2))[0].n == 3


def test_parts_of_a_pool():
    rng = np.random.default_rng(0)
    points = pooled(
        rng.normal(size=(10, 1)), rng.normal(size=(10, 3)), shift=np.arange(3.0), scale=np.array([1.0, 2.0, 3.0])
    )
    half = points.take(slice(1, None, 2))
    assert_array_equal(half.u, points.u[1::2])
    assert_array_equal(half.f, points.f[1::2])
    assert half.shift is points.shift
    two = points.outputs((2, 0))
    assert_array_equal(two.f, points.f[:, [2, 0]])
    assert_array_equal(two.spread, points.spread[:, [2, 0]])
    assert_array_equal((two.shift, two.scale), [[2.0, 0.0], [3.0, 1.0]])
    assert points.thinned(10) is points
    few = points.thinned(4)
    assert_array_equal(few.u, points.u[[0, 3, 6, 9]])
    assert_array_equal(few.f, points.f[[0, 3, 6, 9]])


# Candidates ----------------------------------------------------------------------------------------------------------


def test_the_evidence_is_the_restricted_likelihood():
    u, f = made()
    points = pooled(u, f)
    losses = [sum(reml(Matern(1.5, ell)(u), column)[0] for column in f.T) for ell in (0.5, 2.0)]
    found = [np.sum(ExactGP(Matern(1.5, ell), points.u, points.f, NONE).process.evidence) for ell in (0.5, 2.0)]
    assert_allclose(np.diff(found), -0.5 * np.diff(losses), rtol=1e-9)


def test_candidates_are_those_with_an_embedding_under_all_measures():
    def kinds(family, d=1, depends_on_theta=False, shift=0.0):
        x = np.random.default_rng(0).uniform(0.1, 0.9, (2, 3, d)) + shift
        s = cbq.Samples([1.0, 2.0], x, x[..., 0], family, depends_on_theta=depends_on_theta)
        return [" ".join(repr(k).split()) for k in candidate_kernels(s, "auto", "auto")]

    assert kinds(lambda t: Gaussian(0.0, 1.0), shift=-0.5) == [
        "Matern(0.5, lengthscale=None)",
        "Matern(1.5, lengthscale=None)",
        "Matern(2.5, lengthscale=None)",
        "RBF(lengthscale=None)",
    ]
    assert len(kinds(lambda t: Uniform(0.0, 1.0))) == 8
    assert kinds(lambda t: Uniform([0.0, 0.0], [1.0, 1.0]), d=2)[0] == repr(TensorProduct(Matern(0.5)))
    correlated = Gaussian([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]])
    assert kinds(lambda t: correlated, d=2, shift=-0.5)[0] == repr(Matern(0.5))
    joint = kinds(lambda t: Gaussian(0.0, 1.0), depends_on_theta=True, shift=-0.5)
    assert len(joint) == 4 + 4 + 4 + 2  # as smooth in theta as in x, or analytic; on theta or log theta
    assert joint[0] == "Matern(0.5, lengthscale=None) of x times Matern(0.5, lengthscale=None) of theta"
    many = kinds(lambda t: Gaussian(np.zeros(7), np.ones(7)), d=7, shift=-0.5)
    assert many[0] == repr(TensorProduct(Matern(1.5)))  # nothing tells a jump from what was not learnt
    given = candidate_kernels(some(np.ones((2, 2)), np.ones((2, 2)), depends_on_theta=True), RBF(1.0), Matern(2.5, 1.0))
    assert [type(k) for k in given] == [XThetaKernel]


def test_the_rooms_change_nothing():
    u, f = made()
    points = pooled(u, f)
    kept = replace(points, u=u.copy(), f=f.copy(), spread=points.spread.copy())
    for array in (u, f, points.spread):
        array.setflags(write=False)
    choose_kernel([Matern(1.5), RBF()], points, Jitter(1e-13))
    ExactGP(ROUGH, u, f, NONE).mean(ROUGH(u))
    NystromGP(ROUGH, u, f, u[:9], NONE).mean(ROUGH(u, u[:9]))
    choose_landmarks(ROUGH, u, 9, np.random.default_rng(0))
    for name in ("u", "f", "spread"):
        assert_array_equal(getattr(points, name), getattr(kept, name))
