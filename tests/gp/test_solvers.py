"""The solvers that processes stand on, each against its own matrix, inverted; a new one is tested by adding it here."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cbq.gp.process import Process
from cbq.gp.solvers import Kronecker, Spectral
from cbq.kernels import Matern, XThetaKernel
from cbq.linalg import Jitter, engine, factor, factor_gram
from cbq.linalg.gram import on_host

NONE = Jitter(start=0.0)
KERNEL, ON_THETA = Matern(1.5, 0.6), Matern(2.5, 0.9)
X, THETA = np.linspace(-1.0, 2.0, 6)[:, None], np.array([[0.1], [0.9], [1.4]])
GRID = np.column_stack([np.tile(X, (3, 1)), np.repeat(THETA, 6, axis=0)])
GRAM = XThetaKernel(KERNEL, ON_THETA, 1)(GRID)
NOISES = np.array([1e-3, 0.2, 7.0])
VARIANCES = np.linspace(0.01, 0.3, 18)


def in_torch():
    pytest.importorskip("torch")
    with engine("torch"):
        return factor(GRAM, nugget=0.1, jitter=NONE), GRAM + 0.1 * np.eye(18)


def kronecker(noise=0.0):
    outer = factor_gram(ON_THETA, THETA, nugget=noise, jitter=NONE)
    found = Kronecker(outer, factor_gram(KERNEL, X, jitter=NONE))
    return found, np.kron(ON_THETA(THETA) + noise * np.eye(3), KERNEL(X))


SOLVERS = {  # each with its matrices
    "dense": lambda: (factor(GRAM, jitter=NONE), GRAM),
    "given noise": lambda: (factor(GRAM, nugget=VARIANCES, jitter=NONE), GRAM + np.diag(VARIANCES)),
    "batched": lambda: (
        factor(np.stack([GRAM] * 3), nugget=NOISES, jitter=NONE),
        GRAM + NOISES[:, None, None] * np.eye(18),
    ),
    "spectral": lambda: (Spectral.of(GRAM, NOISES), GRAM + NOISES[:, None, None] * np.eye(18)),
    "some noises": lambda: (Spectral.of(GRAM, NOISES)[1:2], (GRAM + NOISES[1] * np.eye(18))[None]),
    "kronecker": kronecker,
    "kronecker with noise": lambda: kronecker(0.4),
    "torch": in_torch,
}


@pytest.fixture(params=SOLVERS.values(), ids=SOLVERS.keys())
def case(request):
    return request.param()


def columns(M, seed=0):
    return np.random.default_rng(seed).normal(size=(18, M))


def test_products_of_halves_are_products_with_the_inverse(case):
    solver, K = case
    V, W = columns(4), columns(2, seed=1)
    found = solver.solve_lower(V).swapaxes(-1, -2) @ solver.solve_lower(W)
    assert_allclose(found, V.T @ np.linalg.inv(K) @ W, rtol=1e-9, atol=1e-10)


def test_solving_is_multiplying_with_the_inverse(case):
    solver, K = case
    V = columns(4)
    assert_allclose(K @ solver.solve(V), np.broadcast_to(V, (*K.shape[:-1], 4)), atol=1e-11)
    assert_allclose(on_host(solver.resident_inverse()), np.linalg.inv(K), rtol=1e-7, atol=1e-9)
    assert_allclose(solver.inverse_diagonal(), np.diagonal(np.linalg.inv(K), axis1=-2, axis2=-1), rtol=1e-9)


def test_the_determinant(case):
    solver, K = case
    assert_allclose(solver.logdet, np.linalg.slogdet(K)[1], rtol=1e-10)


@pytest.mark.parametrize("tau", [0.0, 0.3, np.inf])
def test_a_process_is_the_same_through_all_solvers(case, tau):
    solver, K = case
    f, mu = columns(2), GRAM[::5]
    mine, dense = (Process(each, f, tau=tau) for each in (solver, factor(K, jitter=NONE)))
    for name in ("beta", "energy", "evidence", "a", "precision", "residuals"):
        assert_allclose(getattr(mine, name), getattr(dense, name), rtol=1e-8, atol=1e-9, err_msg=name)
    one, other = mine.functionals(mu), dense.functionals(mu)
    assert_allclose(one.mean, other.mean, rtol=1e-8, atol=1e-9)
    assert_allclose(one.weights, other.weights, atol=1e-9)
    assert_allclose(one.covariance(GRAM[::5, ::5]), other.covariance(GRAM[::5, ::5]), atol=1e-10)
    for left, reference in zip(*(each.leave_groups_out(np.repeat(range(6), 3)) for each in (mine, dense)), strict=True):
        assert_allclose(left.residuals, reference.residuals, rtol=1e-7, atol=1e-9)
        assert_allclose(left.covariance, reference.covariance, rtol=1e-7, atol=1e-9)
