"""What an estimator needs to fit lengthscales: a first guess, and the chain rule through the Gram matrix."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from cbq.kernels import RBF, Additive, Matern, ProductKernel, Stein, SumKernel, TensorProduct, Warped
from cbq.measures import Gaussian
from test_kernels import CASES, CONFIGURATIONS, DIMS, T, bound, points

# the first guess


def cloud(scales, shape=(3, 40)):
    """Points (*shape, d) whose coordinates, over all of them, have exactly these standard deviations."""
    x = np.random.default_rng(0).normal(size=(*shape, len(scales)))
    x = x * scales / np.std(x, axis=tuple(range(len(shape))))
    x.setflags(write=False)
    return x


def bent(x):
    return np.concatenate([x, 2 * x], axis=-1)


X = cloud([0.5, 2.0])
MEASURE = Gaussian([1.0, 2.0], cov=[4.0, 9.0])

GUESSES = {  # kernel, lengthscales with ard, without it, which of them are free
    "rbf": (RBF(), [0.5, 2.0], [1.0], [True]),
    "matern": (Matern(0.5), [0.5, 2.0], [1.0], [True]),
    "given": (RBF(0.3), None, None, [False]),
    "given per coordinate": (Matern(1.5, [0.3, 0.4]), None, None, [False, False]),
    "tensor": (TensorProduct(RBF()), [0.5, 2.0], [1.0], [True]),
    "stein": (Stein(Matern()), [0.5, 2.0], [1.0], [True]),
    "scaled": (3.0 * RBF(), [0.5, 2.0], [1.0], [True]),
    "whitened": (Warped(RBF(), "whiten").bind(MEASURE), [0.25, 2 / 3], [np.sqrt(1 / 6)], [True]),
    "unbound base": (Warped(Stein(RBF()), lambda x: 3 * x), [1.5, 6.0], [3.0], [True]),
}


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("name", GUESSES)
def test_the_first_guess_is_the_spread_of_the_points(name, ard):
    kernel, each, one, free = GUESSES[name]
    guess, which = kernel.to_fit(X, ard)
    expected = each if ard else one
    assert type(guess) is type(kernel)
    if expected is None:
        assert guess is kernel
        assert not which.any()
        return
    np.testing.assert_allclose(np.exp(guess.log_lengthscales), np.sqrt(2) * np.array(expected), rtol=1e-13)
    np.testing.assert_array_equal(which, np.repeat(free, len(expected)))


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("kind", [SumKernel, ProductKernel])
def test_given_lengthscales_stay_fixed_and_in_order(kind, ard):
    kernel = kind([RBF(0.3), 2.0 * Matern(), Matern(2.5, [0.7, 0.8]), Warped(RBF(), bent)])
    guess, free = kernel.to_fit(X, ard)
    assert type(guess) is kind
    P = (2, 4) if ard else (1, 1)
    np.testing.assert_array_equal(free, [False, *[True] * P[0], False, False, *[True] * P[1]])
    np.testing.assert_allclose(np.exp(guess.log_lengthscales[~free]), [0.3, 0.7, 0.8], rtol=1e-15)
    assert guess.n_lengthscales == len(free)
    again, none = guess.to_fit(X, ard)
    assert again is guess
    assert not none.any()


@pytest.mark.parametrize("kind", [TensorProduct, Additive])
def test_kernels_of_single_coordinates_are_guessed_from_their_own(kind):
    guess, free = kind([RBF(), Matern(0.5, 7.0)]).to_fit(X, ard=True)
    np.testing.assert_allclose(np.exp(guess.log_lengthscales), [0.5, 7.0], rtol=1e-13)
    np.testing.assert_array_equal(free, [True, False])


def test_a_constant_coordinate_does_not_affect_the_first_guess():
    x = np.concatenate([X, np.full((3, 40, 1), 0.1)], axis=-1)
    each, one = (np.exp(RBF().to_fit(x, ard)[0].log_lengthscales) for ard in (True, False))
    np.testing.assert_allclose(each, np.sqrt(3) * np.array([0.5, 2.0, 1.0]), rtol=1e-13)
    np.testing.assert_allclose(one, np.sqrt(3), rtol=1e-13)
    assert RBF().to_fit(x[..., 2:], ard=True)[0].lengthscale == 1.0
    assert RBF().to_fit([5.0], ard=False)[0].lengthscale == 1.0


@pytest.mark.parametrize("warp", ["whiten", "gaussianise"])
def test_an_unbound_warp_counts_as_having_unit_spread(warp):
    guess, free = (RBF(0.3) + Warped(RBF(), warp)).to_fit(X + 7.0, ard=True)
    assert guess.needs_measure
    np.testing.assert_allclose(np.exp(guess.log_lengthscales), [0.3, np.sqrt(2), np.sqrt(2)], rtol=1e-13)
    np.testing.assert_array_equal(free, [False, True, True])


def test_a_batch_of_lengthscales_is_counted_once():
    guess, free = (RBF(np.ones((3, 1))) + Matern()).to_fit(X, ard=True)
    assert guess.log_lengthscales.shape == (3, 3)
    np.testing.assert_array_equal(free, [False, True, True])
    assert guess(X).shape == (3, 40, 40)


def test_to_fit_refuses_bad_input():
    with pytest.raises(ValueError, match=r"needs points, but x has shape \(0, 2\)"):
        RBF().to_fit(np.empty((0, 2)), ard=True)
    with pytest.raises(ValueError, match="x must be finite"):
        RBF().to_fit([1.0, np.nan], ard=True)
    with pytest.raises(ValueError, match="has kernels for 3 coordinates, but the points have 2"):
        TensorProduct([RBF(), RBF(), RBF()]).to_fit(X, ard=True)


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("case", CASES)
def test_every_kernel_counts_its_free_lengthscales(case, d):
    kernel = bound(case, d)
    guess, free = kernel.to_fit(points(case, 6, d), ard=True)
    assert guess is kernel
    np.testing.assert_array_equal(free, np.zeros(kernel.n_lengthscales, dtype=bool))


# the chain rule


def symmetric(shape):
    g = np.random.default_rng(1).normal(size=shape)
    return g + np.swapaxes(g, -1, -2)


def by_derivatives(kernel, x, G):
    """The sums from all derivatives, and the size of the terms in each."""
    terms = kernel.derivatives(x) * G[..., None, :, :]
    return np.sum(terms, axis=(-2, -1)), np.sum(np.abs(terms), axis=(-2, -1))


def assert_contracts(kernel, x, G):
    sums, size = by_derivatives(kernel, x, G)
    result = kernel.contract(x, G)
    assert result.shape == sums.shape
    assert np.all(np.abs(result - sums) <= 1e-13 * size)


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("case", CASES)
def test_contract_is_the_sum_over_derivatives(case, configuration, d):
    assert_contracts(bound(case, d), CONFIGURATIONS[configuration](case, 7, d), symmetric((T, 7, 7)))


PLAIN = [
    RBF([0.8, 1.5]),
    Matern(0.5, 0.7),
    Matern(0.5, [0.7, 1.1]),
    TensorProduct(Matern(1.5, [0.9, 2.0])),
    RBF(0.8) + 2.0 * Matern(2.5, [1.0, 3.0]) * Additive(RBF(0.5)),
]


@pytest.mark.parametrize("kernel", PLAIN, ids=repr)
@pytest.mark.parametrize("N", [0, 1, 60, 500])
def test_contract_by_blocks(kernel, N):
    x = np.random.default_rng(0).normal(size=(3, N, 2))
    assert_contracts(kernel, x, symmetric((3, N, N)))


@pytest.mark.parametrize("kernel", PLAIN, ids=repr)
def test_contract_far_from_the_origin_and_of_close_points(kernel):
    x = np.random.default_rng(0).normal(size=(20, 2))
    x[10:] = x[:10] + 1e-7
    G = symmetric((20, 20))
    G[:10, 10:] *= 1e12  # as the inverse of the Gram matrix of such points is
    G[10:, :10] *= 1e12
    assert_contracts(kernel, x, G)
    assert_contracts(kernel, x + 1e6, G)


def test_contract_broadcasts():
    kernel, x, G = RBF(np.ones((5, 1, 2))), np.ones((3, 4, 2)) * np.arange(4.0)[:, None], symmetric((4, 4))
    assert kernel.contract(x, G).shape == (5, 3, 2)
    np.testing.assert_array_equal(RBF(1.0).contract(x[0], symmetric((6, 4, 4))).shape, (6, 1))
    np.testing.assert_allclose(kernel.contract(x, G)[4, 1], RBF(np.ones(2)).contract(x[0], G), rtol=1e-13)


def test_contract_of_one_large_matrix():
    x, G = np.random.default_rng(0).normal(size=(1100, 2)), symmetric((1100, 1100))
    assert_contracts(Matern(1.5, [0.5, 0.8]), x, G)


def test_contract_takes_little_memory():
    kernel, x, G = Matern(1.5, np.ones(10)), np.random.default_rng(0).normal(size=(600, 10)), symmetric((600, 600))
    kernel.contract(x, G)
    tracemalloc.start()
    kernel.contract(x, G)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < G.nbytes


def test_contract_refuses_bad_input():
    with pytest.raises(ValueError, match=r"G has shape \(3, 4\), but 4 points need weights \(\.\.\., 4, 4\)"):
        RBF(1.0).contract(np.ones((4, 2)), np.ones((3, 4)))
    with pytest.raises(ValueError, match=r"contract: the batch shapes x \(3,\), G \(2,\) do not fit together"):
        RBF(1.0).contract(np.ones((3, 4, 2)), np.ones((2, 4, 4)))
    with pytest.raises(TypeError, match="G must hold real numbers"):
        RBF(1.0).contract(np.ones((1, 2)), [["a"]])
    with pytest.raises(ValueError, match="has no lengthscale yet"):
        RBF().contract(np.ones((4, 2)), np.ones((4, 4)))
