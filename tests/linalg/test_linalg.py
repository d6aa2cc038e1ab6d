from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info

import cbq
from cbq.kernels import RBF, Matern
from cbq.linalg import (
    Factor,
    Jitter,
    NotPositiveDefinite,
    at_most,
    engine,
    factor,
    lapack,
    threads,
)
from cbq.linalg.cholesky import reflect
from cbq.linalg.engines import NumpyEngine
from cbq.linalg.gram import chunks, factor_gram, fill_lower, sqdist

EPS = np.finfo(float).eps
BATCHES = [(), (1,), (4,), (2, 3), (0,)]


def spd(rng, batch, n):
    """Well conditioned symmetric positive definite matrices, read-only."""
    a = rng.normal(size=(*batch, n, n))
    K = a @ a.swapaxes(-1, -2) / n + np.eye(n)
    K.setflags(write=False)
    return K


def blas_threads():
    return [(lib["filepath"], lib["num_threads"]) for lib in threadpool_info() if lib["user_api"] == "blas"]


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("n", [1, 2, 7, 65, 130])
def test_factor_and_solves_agree_with_numpy(rng, batch, n):
    K, b = spd(rng, batch, n), rng.normal(size=(*batch, n, 3))
    F = factor(K)
    assert F.batch_shape == batch
    assert F.n == n
    jittered = K + F.jitter[..., None, None] * np.eye(n)
    np.testing.assert_allclose(F.lower, np.linalg.cholesky(jittered), atol=1e-13 * n)
    np.testing.assert_allclose(F.lower @ F.solve_lower(b), b, atol=1e-13 * n)
    np.testing.assert_allclose(jittered @ F.solve(b), b, atol=1e-12 * n)
    np.testing.assert_allclose(F.inverse() @ jittered, np.broadcast_to(np.eye(n), K.shape), atol=1e-12 * n)
    np.testing.assert_allclose(F.logdet, np.linalg.slogdet(jittered)[1], atol=1e-13 * n)
    diagonal = np.diagonal(F.inverse(), axis1=-2, axis2=-1)
    np.testing.assert_allclose(F.inverse_diagonal(), diagonal, rtol=1e-13 * n)
    np.testing.assert_array_equal(F.inverse(), F.inverse().swapaxes(-1, -2))
    assert np.all(np.triu(F.lower, 1) == 0)


@pytest.mark.parametrize("n", [500, 1100])
def test_one_large_matrix(rng, n):
    K = spd(rng, (), n)
    F = factor(K)
    np.testing.assert_allclose(F.lower, scipy.linalg.cholesky(K, lower=True), atol=1e-10)
    np.testing.assert_allclose(F.solve(K), np.eye(n), atol=1e-10)


def test_right_hand_sides_broadcast_both_ways_and_stay_as_they_are(rng):
    K = spd(rng, (4,), 6)
    shared = rng.normal(size=(6, 2))
    shared.setflags(write=False)
    expected = np.linalg.solve(K, shared)
    np.testing.assert_allclose(factor(K).solve(shared), expected, atol=1e-10)
    many = rng.normal(size=(5, 6, 2))
    np.testing.assert_allclose(factor(K[0]).solve(many), np.linalg.solve(K[0], many), atol=1e-10)
    transposed = np.asfortranarray(shared)
    np.testing.assert_array_equal(factor(K).solve(transposed), factor(K).solve(shared))
    assert factor(K).solve(np.empty((6, 0))).shape == (4, 6, 0)


@pytest.mark.parametrize("factors", [(), (1,), (4,), (3, 1), (3, 4), (1, 4), (2, 1, 4), (1, 1, 1)])
@pytest.mark.parametrize("sides", [(), (1,), (4,), (3, 1), (3, 4), (2, 3, 4), (2, 1, 1), (0, 1, 1)])
def test_any_leading_axes_that_broadcast(rng, factors, sides):
    if sides[:1] == (0,) and len(factors) == 3:
        factors = (0, *factors[1:])
    batch = np.broadcast_shapes(factors, sides)
    K, b = spd(rng, factors, 5), rng.normal(size=(*sides, 5, 2))
    F = factor(K)
    expected = np.linalg.solve(np.broadcast_to(K, (*batch, 5, 5)), np.broadcast_to(b, (*batch, 5, 2)))
    np.testing.assert_allclose(F.solve(b), expected, atol=1e-10)
    np.testing.assert_allclose(F.lower @ F.solve_lower(b), np.broadcast_to(b, (*batch, 5, 2)), atol=1e-13)


def test_a_vector_is_a_matrix_with_one_column(rng):
    F, b = factor(spd(rng, (4,), 6)), rng.normal(size=(4, 6))
    assert F.solve(b[..., None]).shape == (4, 6, 1)
    with pytest.raises(ValueError, match=r"\(4, 6\).*b\[\.\.\., None\]"):
        F.solve(b)
    with pytest.raises(ValueError, match="do not fit together"):
        F.solve(np.ones((3, 6, 1)))


@pytest.mark.parametrize("view", ["plain", "fortran", "strided", "integers", "swapped"])
def test_input_of_any_layout_is_left_as_it_is(rng, view):
    K = np.rint(10 * spd(rng, (3,), 5))
    K = (K + K.swapaxes(-1, -2)) + 100 * np.eye(5)
    given = {
        "plain": K.copy(),
        "fortran": np.asfortranarray(K),
        "strided": np.repeat(K, 2, axis=-1)[..., ::2],
        "integers": K.astype(int),
        "swapped": K.astype(">f8"),
    }[view]
    given.setflags(write=False)
    F = factor(given, overwrite=True)
    np.testing.assert_array_equal(given, K)
    np.testing.assert_allclose(F.lower @ F.lower.swapaxes(-1, -2), K, rtol=1e-11, atol=1e-12)


def test_overwrite_takes_the_place_of_K(rng):
    K = spd(rng, (3,), 5).copy()
    kept = K.copy()
    F = factor(K, overwrite=True)
    assert np.shares_memory(F.storage, K)
    np.testing.assert_array_equal(F.lower, factor(kept).lower)
    with pytest.raises(ValueError, match="read-only"):
        F.storage[0] = 0.0


def test_jitter_is_the_smallest_of_the_ladder_and_is_recorded():
    # eigenvalues 2 - delta and -delta: the jitter must exceed delta, on a mean diagonal of 1 - delta
    K = np.array([[[1.0, 1.0], [1.0, 1.0]] - delta * np.eye(2) for delta in [0.0, 3e-12, 3e-9, 3e-6]])
    F = factor(K)
    np.testing.assert_allclose(F.relative_jitter, [1e-12, 1e-11, 1e-8, 1e-5], rtol=1e-12)
    np.testing.assert_allclose(F.jitter, F.relative_jitter, rtol=1e-5)
    np.testing.assert_allclose(F.lower @ F.lower.swapaxes(-1, -2), K + F.jitter[:, None, None] * np.eye(2), rtol=1e-13)


def test_jitter_scales_with_the_diagonal_and_not_with_the_nugget(rng):
    K = 1e6 * spd(rng, (), 4)
    np.testing.assert_allclose(factor(K).jitter, 1e-12 * np.trace(K) / 4, rtol=1e-14)
    nugget = np.array([0.0, 0.0, 0.0, 1e20])
    assert factor(K, nugget=nugget).jitter == factor(K).jitter


def test_the_ladder_starts_grows_tenfold_and_stops_at_the_ceiling():
    np.testing.assert_allclose(list(Jitter().ladder()), 10.0 ** np.arange(-12, -3), rtol=1e-14)
    np.testing.assert_allclose(list(Jitter(0.0, 1e-14).ladder()), [0.0, 1e-15, 1e-14], rtol=1e-14)
    assert list(Jitter(1e-10, 1e-10).ladder()) == [1e-10]
    assert factor(np.eye(3), jitter=Jitter(0.0)).jitter == 0.0
    with pytest.raises(ValueError, match="start <= ceiling"):
        Jitter(1e-3)


@pytest.mark.parametrize("n", [3, 70, 200])
def test_restored_matrices_give_the_same_factor_as_fresh_ones(rng, n):
    # rank one: fails at every rung below the first that works, after part of the triangle is overwritten
    v = rng.normal(size=(n, 1))
    K = v @ v.T - 1e-7 * np.eye(n)
    F = factor(K)
    assert F.relative_jitter > 1e-9
    fresh = factor(K, jitter=Jitter(float(F.relative_jitter)))
    np.testing.assert_array_equal(F.lower, fresh.lower)


def test_duplicated_points_are_factored(rng):
    x = rng.normal(size=(3, 40, 2))
    x[:, 20:] = x[:, :20]
    for F in (factor_gram(RBF(1.0), x), factor(RBF(1.0).gram(x))):
        assert np.all(F.relative_jitter <= 1e-11)
        assert np.all(np.isfinite(F.logdet))


def test_refused_matrices_are_named(rng):
    K = spd(rng, (2, 3), 4).copy()
    K[1, 0] -= 3.0 * np.max(np.linalg.eigvalsh(K[1, 0])) * np.eye(4)
    K[1, 0] += np.diag([1e3, 0, 0, 0])
    with pytest.raises(
        NotPositiveDefinite, match=r"\[1, 0\].*N = 4.*1e-04.*duplicated.*asymmetric.*lengthscale"
    ) as info:
        factor(K)
    assert info.value.index == (1, 0)
    assert info.value.relative_jitter == pytest.approx(1e-4)
    assert isinstance(info.value, np.linalg.LinAlgError)
    assert isinstance(info.value, ValueError)
    with pytest.raises(NotPositiveDefinite, match="the matrix"):
        factor(-np.eye(3))
    with pytest.raises(NotPositiveDefinite):
        factor(np.zeros((3, 3)))


def test_of_several_refused_matrices_the_first_is_named(rng):
    K = spd(rng, (30,), 4).copy()  # few and small enough to be factored together
    K[12], K[20] = -K[12], np.nan
    with pytest.raises(NotPositiveDefinite) as info:
        factor(K)
    assert info.value.index == (12,)
    K[7, 0, 3] = np.inf
    with pytest.raises(ValueError, match=r"matrix \[7\] .* NaN or inf"):
        factor(K)


@pytest.mark.parametrize("start", [0.0, 1e-12])
def test_opposite_infinities_are_refused_without_a_warning(start):
    K = np.array([[np.inf, 0.0], [0.0, -np.inf]])
    with pytest.raises(ValueError, match="NaN or inf"):
        factor(K, jitter=Jitter(start))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (7, 2), (2, 7), (9, 9)])
def test_nan_and_inf_are_refused(rng, bad, place):
    K = spd(rng, (3,), 10).copy()
    K[(1, *place)] = bad
    with pytest.raises(ValueError, match=r"matrix \[1\] .* NaN or inf") as info:
        factor(K)
    assert not isinstance(info.value, np.linalg.LinAlgError)


def test_a_kernel_that_gives_nan_is_refused(rng):
    class Broken(Matern):
        def fill(self, fx, fy, out):
            super().fill(fx, fy, out)
            out[-1, 0] = np.nan

    with pytest.raises(ValueError, match="NaN or inf"):
        factor_gram(Broken(1.5, 1.0), rng.normal(size=(2, 20, 3)))


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (np.ones((2, 3)), r"\(2, 3\).*\(\.\.\., N, N\)"),
        (np.ones(4), r"\(4,\)"),
        (np.ones((2, 0, 0)), "N = 0"),
    ],
)
def test_wrong_shapes_are_refused(K, message):
    with pytest.raises(ValueError, match=message):
        factor(K)


def test_nugget_forms(rng):
    K = spd(rng, (3,), 4)
    point = rng.uniform(size=(3, 4))
    for nugget, diagonal in [
        (0.5, np.full((3, 4), 0.5)),
        (point[:, 0], np.repeat(point[:, :1], 4, axis=1)),
        (point, point),
        (point[:1], np.repeat(point[:1], 3, axis=0)),
        (None, np.zeros((3, 4))),
    ]:
        F = factor(K, nugget=nugget, jitter=Jitter(0.0))
        expected = K + diagonal[..., None] * np.eye(4)
        np.testing.assert_allclose(F.lower, np.linalg.cholesky(expected), rtol=1e-12, atol=1e-14)
    one = factor(K[0], nugget=point[0], jitter=Jitter(0.0))
    np.testing.assert_allclose(one.lower, np.linalg.cholesky(K[0] + np.diag(point[0])), atol=1e-14)
    assert factor(np.zeros((2, 2)), nugget=1.0).jitter == 0.0


@pytest.mark.parametrize(
    ("nugget", "message"),
    [
        (-1.0, "negative"),
        (np.nan, "finite"),
        (np.ones(4), r"\(4,\).*\(3,\).*\(3, 4\)"),
        (np.ones((1, 3, 4)), "nugget"),
    ],
)
def test_wrong_nuggets_are_refused(rng, nugget, message):
    with pytest.raises(ValueError, match=message):
        factor(spd(rng, (3,), 4), nugget=nugget)


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize("n", [1, 50, 300])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_factor_gram_agrees_with_factor(rng, batch, n, d):
    kernel, x = Matern(1.5, 0.7) + RBF(0.1) * Matern(2.5, 2.0), rng.normal(size=(*batch, n, d))
    x.setflags(write=False)
    nugget = rng.uniform(size=(*batch, n))
    F, G = factor_gram(kernel, x, nugget=nugget), factor(kernel.gram(x), nugget=nugget)
    np.testing.assert_allclose(F.lower, G.lower, atol=1e-13 * n)
    np.testing.assert_array_equal(F.relative_jitter, G.relative_jitter)


def test_factor_gram_takes_batched_lengthscales_and_one_dimension(rng):
    x = rng.normal(size=12)
    F = factor_gram(RBF(np.array([[0.1], [0.3]])), x)
    assert F.batch_shape == (2,)
    np.testing.assert_allclose(F.lower[1], factor(RBF(0.3).gram(x)).lower, atol=1e-9)


@pytest.mark.parametrize("d", [1, 2])
def test_many_small_matrices_are_the_same_as_one_by_one(rng, d):
    # 500 matrices take several spans, some of whose members need more jitter than the others
    kernel, x = RBF(1.0), rng.normal(size=(500, 9, d))
    x[::7] *= 1e-3
    nugget = rng.uniform(size=(500, 9)) * (np.arange(500) % 2)[:, None]
    together = factor_gram(kernel, x, nugget=nugget, jitter=Jitter(1e-16))
    assert 1 < len(np.unique(together.relative_jitter)) < 20
    same = factor(kernel.gram(x), nugget=nugget, jitter=Jitter(1e-16))
    np.testing.assert_array_equal(same.relative_jitter, together.relative_jitter)
    b = rng.normal(size=(500, 9, 2))
    for t in (0, 1, 7, 250, 497, 499):
        alone = factor_gram(kernel, x[t], nugget=nugget[t], jitter=Jitter(1e-16))
        np.testing.assert_array_equal(together.lower[t], alone.lower)
        np.testing.assert_array_equal(same.lower[t], alone.lower)
        np.testing.assert_array_equal(together.jitter[t], alone.jitter)
        np.testing.assert_array_equal(together.solve(b)[t], alone.solve(b[t]))
        np.testing.assert_array_equal(together.solve_lower(b)[t], alone.solve_lower(b[t]))
        np.testing.assert_array_equal(together.inverse()[t], alone.inverse())
        np.testing.assert_array_equal(together.inverse_diagonal()[t], alone.inverse_diagonal())
        np.testing.assert_array_equal(together.logdet[t], alone.logdet)


@pytest.mark.parametrize("d", [1, 3])
def test_a_grid_of_lengthscales_against_a_batch_of_points(rng, d):
    ell, x = rng.uniform(0.5, 2.0, size=(5, 1, d)), rng.normal(size=(7, 12, d))
    F = factor_gram(Matern(1.5, ell), x)
    assert F.batch_shape == (5, 7)
    for g, t in ((0, 0), (4, 2), (2, 6)):
        np.testing.assert_array_equal(F.lower[g, t], factor_gram(Matern(1.5, ell[g, 0]), x[t]).lower)


def test_factor_gram_restores_after_failure(rng):
    x = rng.uniform(size=(2, 150, 1))
    F = factor_gram(RBF(1000.0), x, jitter=Jitter(1e-17))
    assert np.all(F.relative_jitter > 1e-17)
    fresh = factor_gram(RBF(1000.0), x[0], jitter=Jitter(float(F.relative_jitter[0])))
    np.testing.assert_array_equal(F.lower[0], fresh.lower)


def test_factor_gram_of_one_large_matrix(rng):
    x = rng.normal(size=(1200, 3))
    F = factor_gram(Matern(1.5, 1.0), x)
    np.testing.assert_allclose(F.lower, scipy.linalg.cholesky(Matern(1.5, 1.0).gram(x), lower=True), atol=1e-9)


def test_the_gram_is_filled_by_blocks_of_rows(rng):
    x = rng.normal(size=(700, 2))
    kernel, a = Matern(0.5, 1.0), np.empty((1, 700, 700))
    fill_lower(kernel, kernel.features(x[None]), a)
    np.testing.assert_array_equal(np.tril(a[0]), np.tril(kernel.gram(x)))


def test_logdet_of_ill_conditioned_matrices(rng):
    # the determinant is far below the smallest double, the condition number 1e10
    n, logs = 200, np.linspace(-10.0, 0.0, 200)
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    F = factor((q * 10.0**logs) @ q.T, jitter=Jitter(0.0))
    exact = np.log(10.0) * logs.sum()
    assert exact < -2000
    # the relative error of each eigenvalue is at most n eps times the condition number
    np.testing.assert_allclose(F.logdet, exact, atol=n * 1e10 * EPS)


@pytest.mark.parametrize(
    ("T", "N", "arrays"), [(0, 5, 1), (1, 5, 1), (10, 100, 3), (1000, 7, 1), (97, 300, 2), (3, 5000, 1)]
)
@pytest.mark.parametrize("limit", [1, 10**6, 2**28])
def test_chunks_cover_the_batch_exactly_within_the_limit(T, N, arrays, limit):
    pieces = list(chunks(T, N, arrays=arrays, limit=limit))
    assert [t for piece in pieces for t in range(T)[piece]] == list(range(T))
    for piece in pieces:
        length = piece.stop - piece.start
        assert length == 1 or length * arrays * 8 * N * N <= limit
    assert len({piece.stop - piece.start for piece in pieces[:-1]}) <= 1


def test_chunks_refuse_nonsense():
    with pytest.raises(ValueError, match="N=0"):
        list(chunks(3, 0))


def test_memory_is_bounded_by_the_limit(rng):
    T, N, limit = 300, 100, 4 * 2**20
    x, b = rng.normal(size=(T, N, 2)), np.ones((N, 3))
    factor_gram(Matern(1.5, 1.0), x[:1]).solve(b)
    result = np.empty((T, N, 3))
    tracemalloc.start()
    for piece in chunks(T, N, limit=limit):
        F = factor_gram(Matern(1.5, 1.0), x[piece])
        result[piece] = F.solve_lower(b)
        del F
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert limit / 2 < peak < limit + 2**20
    assert 5 * limit < 8 * T * N * N


def test_the_diagonal_of_the_inverse_needs_no_second_batch(rng):
    F = factor(spd(rng, (40,), 100))
    F.inverse_diagonal()
    tracemalloc.start()
    F.inverse_diagonal()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < F.storage.nbytes / 2


def test_threads_give_the_same_bits_as_one_thread(rng):
    x, b = rng.normal(size=(40, 140, 3)), rng.normal(size=(140, 20))  # enough work for threads

    def everything() -> list[np.ndarray]:
        F = factor_gram(Matern(1.5, 0.5), x)
        G = factor(Matern(1.5, 0.5).gram(x))
        sums = Matern(1.5, [0.5, 0.6, 0.7]).contract(x, F.inverse())
        solved = [F.solve(b), F.solve_lower(b), F.inverse(), F.inverse_diagonal()]
        return [F.lower, F.logdet, *solved, G.lower, G.jitter, sums]

    many = everything()
    with at_most(1):
        assert threads.workers() == 1
        one = everything()
    for a, c in zip(many, one, strict=True):
        np.testing.assert_array_equal(a, c)


def test_work_is_spread_over_threads():
    seen, gate = set(), threading.Barrier(3)

    def task(t: int) -> None:
        if t in (0, 1, 2):
            gate.wait(timeout=60)
        seen.add(threading.get_ident())

    threads.run_in_pool(task, 9, 3)
    assert len(seen) == 3
    assert threading.get_ident() not in seen
    seen.clear()
    threads.for_each(lambda t: seen.add(threading.get_ident()), 9, 200, 1e8)
    assert (threading.get_ident() in seen) is (threads.workers() == 1)


def test_small_work_stays_in_this_thread():
    seen = set()
    threads.for_each(lambda t: seen.add(threading.get_ident()), 100, 10, 1e3)
    threads.for_each(lambda t: seen.add(threading.get_ident()), 1, 500, 1e9)
    assert seen == {threading.get_ident()}


def test_the_first_failure_of_the_batch_is_raised(rng):
    K = spd(rng, (20,), 130).copy()
    K[[5, 12, 19]] *= -1
    with pytest.raises(NotPositiveDefinite) as info:
        factor(K)
    assert info.value.index == (5,)


def test_blas_threads_are_one_inside_and_restored_outside(rng):
    before = blas_threads()
    inside = []
    threads.for_each(lambda t: inside.extend(n for _, n in blas_threads()), 4, 200, 1e8)
    assert set(inside) == {1}
    assert blas_threads() == before
    with pytest.raises(NotPositiveDefinite):
        factor(-spd(rng, (9,), 30))
    assert blas_threads() == before
    with threads.one_blas_thread():
        factor(spd(rng, (9,), 30))
        assert {n for _, n in blas_threads()} == {1}
    assert blas_threads() == before


def test_the_blas_limit_holds_in_any_thread_and_ends_with_the_last_of_them():
    before, inside = blas_threads(), []
    with threads.one_blas_thread():  # by this thread first
        pass
    entered, left = threading.Event(), threading.Event()

    def first() -> None:
        with threads.one_blas_thread():
            entered.set()
            left.wait(10)

    def last() -> None:
        with threads.one_blas_thread():
            left.set()
            one.join()  # leaves before this one
            inside.extend(n for _, n in blas_threads())

    one, two = threading.Thread(target=first), threading.Thread(target=last)
    one.start()
    assert entered.wait(10)
    two.start()
    two.join()
    assert set(inside) == {1}
    assert blas_threads() == before


def test_concurrent_users_share_the_blas_limit(rng):
    before, same = blas_threads(), []
    K = spd(rng, (20,), 130)
    expected = factor(K).lower

    def user() -> None:
        same.extend(np.array_equal(factor(K).lower, expected) for _ in range(20))

    users = [threading.Thread(target=user) for _ in range(4)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join()
    assert same == 80 * [True]
    assert blas_threads() == before


def test_at_most_refuses_zero():
    with pytest.raises(ValueError, match="at least 1"), at_most(0):
        pass


def test_a_changed_signature_fails_at_import():
    with pytest.raises(ImportError, match="C signature"):
        lapack.routine(lapack.cython_lapack, "dpotrf", "char long double long long")


def test_lapack_refuses_other_layouts():
    with pytest.raises(ValueError, match="C-ordered"):
        lapack.potrf(np.array([[[2.0, 1.0], [1.0, 3.0]]]).swapaxes(-1, -2))


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_reflect(rng, n):
    a = rng.normal(size=(3, n, n))
    lower, upper = a.copy(), a.copy()
    reflect(lower)
    reflect(upper.swapaxes(-1, -2))
    np.testing.assert_array_equal(lower, np.tril(a) + np.tril(a, -1).swapaxes(-1, -2))
    np.testing.assert_array_equal(upper, np.triu(a) + np.triu(a, 1).swapaxes(-1, -2))


@pytest.mark.parametrize("d", [1, 2, 3, 17])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_sqdist(rng, d, batch):
    x, y = rng.normal(size=(*batch, 40, d)), rng.normal(size=(*batch, 300, d))
    x[..., 0, :] = y[..., 0, :] = 1e8
    y[..., 0, :] += 1e-5  # |x|^2 + |y|^2 - 2 x.y would have nothing left
    out = np.empty((*batch, 40, 300))
    sqdist(x, y, out)
    np.testing.assert_allclose(out, np.sum((x[..., :, None, :] - y[..., None, :, :]) ** 2, axis=-1), rtol=1e-14)


def test_import_is_light():
    # an empty package in the place of cbq, so that this is about cbq.linalg alone
    code = """
import importlib.util, sys, types
package = types.ModuleType("cbq")
package.__path__ = importlib.util.find_spec("cbq").submodule_search_locations
sys.modules["cbq"] = package
import cbq.linalg
assert not {"scipy.stats", "scipy.spatial", "cbq.kernels"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_factor_is_a_plain_immutable_result(rng):
    F = factor(spd(rng, (2,), 3))
    assert isinstance(F, Factor)
    with pytest.raises(AttributeError):
        F.jitter = np.zeros(2)


def test_the_error_survives_a_pickle():
    with pytest.raises(NotPositiveDefinite) as caught:
        factor(-np.eye(3))
    error, copy = caught.value, pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(error)
    assert (copy.index, copy.n, copy.relative_jitter) == (error.index, error.n, error.relative_jitter)


# Engines ---------------------------------------------------------------------------------------------------------


class Counting(NumpyEngine):
    """An engine that counts what it is asked for, and leaves the work to LAPACK."""

    def __init__(self):
        self.calls = []

    def factor(self, K, **options):
        self.calls.append("factor")
        return super().factor(K, **options)

    def factor_gram(self, kernel, x, **options):
        self.calls.append("factor_gram")
        return super().factor_gram(kernel, x, **options)

    def chunks(self, T, N, *, arrays=1):
        self.calls.append("chunks")
        return super().chunks(T, N, arrays=arrays)


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
@pytest.mark.parametrize("estimator", [cbq.CBQ(), cbq.MOBQ(), cbq.KLSMC(), cbq.CBQ.paper()], ids=repr)
def test_every_factorisation_of_a_fit_goes_through_the_engine(estimator):
    samples = cbq.problems.get("butterfly").collect(5, 6, rng=0)
    expected, counting = estimator.fit(samples).predict([90.0, 110.0]), Counting()
    with engine(counting):
        fit = estimator.fit(samples)
        np.testing.assert_array_equal(fit.predict([90.0, 110.0]), expected)
    assert {"factor", "factor_gram"} & set(counting.calls)
    with pytest.raises(RuntimeError, match="no factorisation here"), engine(Refusing()):
        estimator.fit(samples)


class Refusing(Counting):
    """An engine that does nothing."""

    def factor(self, *args, **options):
        raise RuntimeError("no factorisation here")

    factor_gram = factor


def test_engines_have_names():
    with engine("numpy"):
        assert factor(np.eye(3)).logdet == pytest.approx(0.0, abs=1e-11)
    with (
        pytest.raises(ValueError, match="engine must be one of numpy, torch, cuda, but it is 'opencl'"),
        engine("opencl"),
    ):
        pass


def test_rows_in_blocks_have_the_triangle_of_all_with_its_small_singular_values():
    rng = np.random.default_rng(0)
    sizes = 10.0 ** -np.arange(0.0, 12.0, 2.0)
    a = np.linalg.qr(rng.normal(size=(50, 6)))[0] * sizes @ np.linalg.qr(rng.normal(size=(6, 6)))[0]
    R, before = np.zeros((6, 6)), a.copy()
    for rows in (slice(0, 20), slice(20, 23), slice(23, 50)):
        R = lapack.append_rows(R, a[rows])
    np.testing.assert_array_equal(a, before)
    np.testing.assert_array_equal(R, np.triu(R))
    np.testing.assert_allclose(R.T @ R, a.T @ a, atol=1e-14)
    np.testing.assert_allclose(np.linalg.svd(R, compute_uv=False), sizes, rtol=1e-4)
    normal = np.sqrt(np.abs(np.linalg.eigvalsh(a.T @ a)))[::-1]  # the square has lost the smallest
    assert abs(normal[-1] / sizes[-1] - 1) > 1
