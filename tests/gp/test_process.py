"""The process with a mean of unknown coefficients, against explicit inverses and against refitting without rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cbq.gp.pooled import ExactGP, IntegralPosterior, NystromGP, PointValues
from cbq.gp.process import FLAT, ZERO, Process
from cbq.kernels import RBF, Matern
from cbq.linalg import Jitter, factor

NONE = Jitter(start=0.0)
KERNEL = Matern(1.5, 0.8)
N = 11
X = np.sort(np.random.default_rng(0).uniform(-2.0, 2.0, N))[:, None]
F = np.column_stack([np.sin(2 * X[:, 0]) + 3.0, np.abs(X[:, 0] - 0.3)])
K = KERNEL(X) + np.diag(np.linspace(1e-3, 0.1, N))
NEW = np.array([[-1.7], [0.05], [0.9], [2.6]])
OWNERS = np.array([0, 2, 1, 1, 2, 0, 0, 1, 2, 0, 3])


def polynomials(x, q):
    return np.column_stack([x[:, 0] ** k for k in range(q)])


MEANS = {
    "constant": (1, FLAT),
    "zero": (1, ZERO),
    "a prior": (1, 0.4),
    "quadratic": (3, FLAT),
    "quadratic, a prior": (3, 0.4),
}


@pytest.fixture(params=MEANS.values(), ids=MEANS.keys())
def mean(request):
    """The number of polynomials and tau."""
    return request.param


def process(q, tau, rows=slice(None), f=F, **options):
    return Process(factor(K[rows][:, rows], jitter=NONE), f[rows], polynomials(X, q)[rows], tau, **options)


def brute_force(q, tau, rows=slice(None)):
    """P and K^-1, by inverses."""
    H, inverse = polynomials(X, q)[rows], np.linalg.inv(K[rows][:, rows])
    if np.isinf(tau):
        return inverse, inverse
    S = np.linalg.inv(H.T @ inverse @ H + tau * np.eye(q))
    return inverse - inverse @ H @ S @ H.T @ inverse, inverse


def functionals(found, q, new=NEW):
    h = polynomials(new, q)[:, : found.q]
    return found.functionals(KERNEL(new, X[: found.f.shape[-2]]), h)


def without(rows, q, tau):
    """The process given all other rows, and functionals at points."""
    rest = np.setdiff1d(np.arange(N), rows)
    found = process(q, tau, rest)

    def at(x):
        return found.functionals(KERNEL(x, X[rest]), polynomials(x, q)[:, : found.q])

    return found, at


def test_products_with_P(mean):
    found, (P, _) = process(*mean), brute_force(*mean)
    V = np.random.default_rng(1).normal(size=(N, 3))
    half = found.half(V)
    assert_allclose(half.T @ half, V.T @ P @ V, rtol=1e-8, atol=1e-10)
    assert_allclose(found.apply(V), P @ V, rtol=1e-8, atol=1e-9)
    assert_allclose(found.a, P @ F, rtol=1e-8, atol=1e-9)
    assert_allclose(found.inverse(), P, rtol=1e-7, atol=1e-9)
    assert_allclose(found.precision, np.diag(P), rtol=1e-9)
    assert_allclose(found.block(np.array([1, 4, 5])), P[np.ix_([1, 4, 5], [1, 4, 5])], rtol=1e-8, atol=1e-10)
    assert_allclose(found.energy, np.diag(F.T @ P @ F), rtol=1e-8)


def test_the_evidence_is_the_density_of_the_values(mean):
    """A prior of the mean is part of the covariance; a flat one is its limit, without the evidence of the mean."""
    q, tau = mean
    found, (P, inverse) = process(q, tau), brute_force(q, tau)
    H = polynomials(X, q)
    n = N - q if tau == FLAT else N
    logdet = -np.linalg.slogdet(inverse)[1]
    if tau == FLAT:
        logdet += np.linalg.slogdet(H.T @ inverse @ H)[1]
    elif not np.isinf(tau):
        logdet = np.linalg.slogdet(K + H @ H.T / tau)[1]
    assert found.dof == n
    assert_allclose(found.evidence, -0.5 * (n * np.log(np.diag(F.T @ P @ F)) + logdet), rtol=1e-9)
    assert_allclose(found.amplitude, np.diag(F.T @ P @ F) / n, rtol=1e-8)


def kriging(q, tau):
    """Weights (M, N) at new points and the covariances (M, M) of their errors, by a saddle-point system."""
    q = 0 if np.isinf(tau) else q
    H, h = polynomials(X, 3)[:, :q], polynomials(NEW, 3)[:, :q]
    saddle = np.block([[K, H], [H.T, -tau * np.eye(q) if q else np.empty((0, 0))]])
    right = np.column_stack([KERNEL(NEW, X), h])
    return np.linalg.solve(saddle, right.T)[:N].T, KERNEL(NEW) - right @ np.linalg.solve(saddle, right.T)


def test_functionals_are_kriging(mean):
    q, tau = mean
    at, (weights, cov) = functionals(process(q, tau), q), kriging(q, tau)
    assert_allclose(at.weights, weights, rtol=1e-8, atol=1e-10)
    assert_allclose(at.mean, weights @ F, rtol=1e-9)
    assert_allclose(at.covariance(KERNEL(NEW)), cov, rtol=1e-8, atol=1e-10)
    assert_allclose(at.variance(KERNEL.diag(NEW)), np.diag(at.covariance(KERNEL(NEW))), rtol=1e-12)
    others = functionals(process(q, tau), q, NEW[:2])
    assert_allclose(at.covariance(KERNEL(NEW, NEW[:2]), others), at.covariance(KERNEL(NEW))[:, :2], rtol=1e-12)


def test_functionals_that_are_given_with_the_values_are_the_same():
    mu = KERNEL(NEW, X)
    found = process(1, FLAT, mu=mu)
    for name in ("mean", "weights", "psi", "gap"):
        assert_allclose(getattr(found.given, name), getattr(found.functionals(mu), name), rtol=1e-11, err_msg=name)


def test_polynomials_need_the_basis_of_functionals():
    with pytest.raises(ValueError, match=r"3 coefficients: pass the basis h \(M, 3\)"):
        process(3, FLAT).functionals(KERNEL(NEW, X))


def test_leaving_one_out_is_refitting_without_it(mean):
    found = process(*mean)
    for i in range(N):
        _, at = without([i], *mean)
        x = at(X[i : i + 1])
        assert_allclose(found.residuals[i], F[i] - x.mean[0], rtol=1e-6, atol=1e-9)
        assert_allclose(1.0 / found.precision[i], x.variance(K[i, i])[0], rtol=1e-7)


def test_leaving_a_group_out_is_refitting_without_it(mean):
    q, tau = mean
    found = process(q, tau)
    whole = functionals(found, q)
    for left in found.leave_groups_out(OWNERS):
        assert len(set(OWNERS[left.rows])) == 1
        _, at = without(left.rows, q, tau)
        x = at(X[left.rows])
        assert_allclose(left.residuals, F[left.rows] - x.mean, rtol=1e-6, atol=1e-9)
        assert_allclose(left.covariance, x.covariance(K[np.ix_(left.rows, left.rows)]), rtol=1e-6, atol=1e-9)
        move, variance = left.move(whole.weights)
        again = at(NEW)
        assert_allclose(move, whole.mean - again.mean, rtol=1e-6, atol=1e-9)
        fall = again.variance(KERNEL.diag(NEW)) - whole.variance(KERNEL.diag(NEW))
        assert_allclose(variance, fall, rtol=1e-6, atol=1e-9)


def test_a_group_of_all_values_leaves_nothing_and_is_no_error():
    (left,) = process(1, FLAT).leave_groups_out(np.zeros(N, dtype=int))
    assert np.all(np.isfinite(left.residuals))
    assert np.max(left.covariance) > 1e10  # nothing predicts a constant


def test_batches_are_each_of_them():
    kernels, rng = [RBF(0.4), Matern(1.5, 0.8), Matern(2.5, 1.5)], np.random.default_rng(2)
    grams, f = np.stack([k(X) + 0.05 * np.eye(N) for k in kernels]), rng.normal(size=(3, N, 2))
    mu = rng.normal(size=(3, 4, N))
    together = Process(factor(grams, jitter=NONE), f, mu=mu)
    for k in range(3):
        alone = Process(factor(grams[k], jitter=NONE), f[k], mu=mu[k])
        for name in ("beta", "energy", "evidence", "a", "precision", "residuals"):
            assert_allclose(getattr(together, name)[k], getattr(alone, name), rtol=1e-10, err_msg=name)
        for name in ("mean", "weights", "gap"):
            assert_allclose(getattr(together.given, name)[k], getattr(alone.given, name), rtol=1e-9, atol=1e-12)
        groups = zip(together.leave_groups_out(OWNERS), alone.leave_groups_out(OWNERS), strict=True)
        for one, other in groups:
            assert_allclose(one.residuals[k], other.residuals, rtol=1e-9)
            assert_allclose(one.move(mu)[1][k], other.move(mu[k])[1], rtol=1e-9)


def test_the_slope_is_the_derivative_of_the_evidence(mean):
    q, tau = mean
    step = np.random.default_rng(3).normal(size=(N, N))
    step = 1e-5 * (step + step.T)

    def evidence(gram):
        return np.sum(Process(factor(gram, jitter=NONE), F, polynomials(X, q), tau).evidence)

    found = process(q, tau)
    slope = found.slope(np.ones(2), found.amplitude)
    assert_allclose(-0.5 * np.sum(slope * step), 0.5 * (evidence(K + step) - evidence(K - step)), rtol=1e-5)


@pytest.mark.parametrize("level", [0.0, 1e6])
def test_a_constant_that_is_added_changes_nothing_but_the_mean(level):
    rough = Process(factor(RBF(3.0)(X), jitter=Jitter(1e-12)), F[:, :1] + level)  # whose inverse is large
    plain = Process(rough.solver, F[:, :1])
    assert_allclose(rough.residuals, plain.residuals, rtol=1e-3, atol=1e-9)
    assert_allclose(rough.energy, plain.energy, rtol=1e-4)
    assert_allclose(rough.beta - level, plain.beta, rtol=1e-3, atol=1e-6)


def test_one_value_is_no_error():
    found = Process(factor(np.array([[2.0]]), jitter=NONE), np.array([[5.0]]))
    assert found.dof == 0
    assert found.energy[0] == 0.0
    assert_allclose(found.functionals(np.array([[0.3]])).mean, 5.0)
    assert np.all(found.precision > 0)


# f itself ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("landmarks", [None, X[::2]], ids=["exact", "landmarks"])
def test_values_of_f_are_predicted_as_integrals_under_atoms(landmarks):
    f = F + 0.01 * np.random.default_rng(4).normal(size=F.shape)
    given = (KERNEL, X, f, NONE) if landmarks is None else (KERNEL, X, f, landmarks, NONE)
    found = (ExactGP if landmarks is None else NystromGP)(*given)
    values = PointValues(KERNEL, NEW)
    marginal, joint = (IntegralPosterior.of(found, values, joint=each) for each in (False, True))
    assert_allclose(joint.mean, marginal.mean, rtol=1e-12)
    assert_allclose(np.diagonal(joint.spread, axis1=-2, axis2=-1), marginal.spread, rtol=1e-8)
    if landmarks is None:
        observed = IntegralPosterior.of(found, PointValues(KERNEL, X))
        assert_allclose(observed.mean, f, rtol=1e-9)
        assert_allclose(observed.spread, 0.0, atol=1e-12)


def test_draws_have_the_predicted_mean_and_covariance():
    found = IntegralPosterior.of(ExactGP(KERNEL, X, F, NONE), PointValues(KERNEL, NEW), joint=True)
    draws = found.draws(40_000, np.random.default_rng(5))
    assert draws.shape == (40_000, 4, 2)
    for c in range(2):
        scale = np.sqrt(np.diag(found.spread[c]))
        assert_allclose(np.mean(draws[..., c], axis=0), found.mean[:, c], atol=0.03 * np.max(scale))
        assert_allclose(np.cov(draws[..., c].T), found.spread[c], atol=0.03 * np.max(scale) ** 2)
