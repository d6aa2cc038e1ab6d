"""The errors of kernels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cbq.kernels import RBF, Additive, Matern, ProductKernel, ScaledKernel, Stein, SumKernel, TensorProduct, Warped
from cbq.measures import Exponential, Gamma, Gaussian, StudentT, Unnormalised
from refusals import refusals

K = RBF(1.0)
X = np.random.default_rng(0).normal(size=(4, 2))
LINE = np.random.default_rng(0).normal(size=(4, 1))
NORMAL = Gaussian(0, 1)
NORMAL_2 = Gaussian([0, 0], 1)


def flat(x):
    return x[..., 0]


def reordered(x):
    return np.swapaxes(x, -1, -2)


def not_a_number(x):
    return x * np.nan


def words(x):
    return "warp"


BAD_VALUES = {
    # lengthscales
    "zero": (lambda: RBF(0.0), "lengthscale must be positive, but its smallest value is 0"),
    "negative": (lambda: Matern(1.5, [1.0, -2.0]), "lengthscale must be positive, but its smallest value is -2"),
    "nan": (lambda: RBF([1.0, np.nan]), "lengthscale must be finite, but 1 of its 2 values are NaN or inf"),
    "inf": (lambda: Matern(0.5, np.inf), "lengthscale must be finite, but 1 of its 1 values"),
    "ragged": (lambda: RBF([[1.0], [1.0, 2.0]]), "lengthscale must be a rectangular array of numbers"),
    "too many": (
        lambda: RBF([1.0, 2.0, 3.0]).gram(X),
        "has 3 lengthscales, but the points have 2 coordinates: pass one number, or one lengthscale per coordinate",
    ),
    "too few": (lambda: Matern(1.5, [1.0, 2.0]).gram(np.ones((4, 5))), "2 lengthscales, but the points have 5"),
    "too many, one dimension": (lambda: RBF([1.0, 2.0]).gram([0.0, 1.0]), "2 lengthscales, but the points have 1"),
    "too many, stein": (lambda: Stein(RBF(np.ones(3))).bind(NORMAL_2).gram(X), "has 3 lengthscales"),
    "too many, product": (lambda: TensorProduct(RBF(np.ones(3))).gram(X), "has 3 lengthscales"),
    "too many, sum": (lambda: Additive(RBF(np.ones(3))).diag(X), "has 3 lengthscales"),
    "none": (
        lambda: RBF().gram(X),
        r"RBF\(lengthscale=None\) has no lengthscale yet: pass one, as in RBF\(lengthscale=0.5\)",
    ),
    "none, matern": (lambda: Matern(2.5)(X), r"Matern\(2.5, lengthscale=None\) has no lengthscale yet: pass one"),
    "none, derivatives": (lambda: RBF().derivatives(X), "has no lengthscale yet: pass one"),
    "none, product": (lambda: TensorProduct(Matern()).gram(X), "has no lengthscale yet"),
    "none, sum": (lambda: (K + Matern()).gram(X), "has no lengthscale yet"),
    "none, log": (lambda: Matern().log_lengthscales, "or give the kernel to an estimator that fits it"),
    "log number": (lambda: RBF(1.0).with_log_lengthscales([0.0, 0.0]), r"has shape \(2,\), but 1 values are expected"),
    "log scalar": (lambda: RBF(1.0).with_log_lengthscales(0.0), r"has shape \(\), but 1 values are expected"),
    "log number, sum": (lambda: (K + K).with_log_lengthscales([0.0]), r"has shape \(1,\), but 2 values are expected"),
    "log nan": (lambda: K.with_log_lengthscales([np.nan]), "log_lengthscales must be finite"),
    # families and factors
    "nu": (
        lambda: Matern(21),
        "nu must be a number from 0.1 to 20, .* but it is 21; for the limit of large nu use RBF",
    ),
    "nu text": (lambda: Matern("1.5", 1.0), "nu must be a number from 0.1 to 20, .* but it is '1.5'"),
    "negative factor": (lambda: -2.0 * K, "factor of a kernel must be positive, but its smallest value is -2"),
    "zero factor": (lambda: K * 0, "factor of a kernel must be positive, but its smallest value is 0"),
    "nan factor": (lambda: ScaledKernel(np.nan, K), "factor of a kernel must be finite"),
    # points
    "x nan": (lambda: K.gram([0.0, np.nan, np.inf]), "x must be finite, but 2 of its 3 values are NaN or inf: remove"),
    "y nan": (lambda: K.gram([0.0], [np.nan]), "y must be finite, but 1 of its 1 values"),
    "x ragged": (lambda: K.gram([[1.0], [1.0, 2.0]]), "x must be a rectangular array of numbers"),
    "diag nan": (lambda: K.diag([np.nan]), "x must be finite"),
    "derivatives nan": (lambda: K.derivatives([np.nan]), "x must be finite"),
    "batches": (
        lambda: K.gram(np.ones((3, 4, 2)), np.ones((5, 4, 2))),
        r"Gram matrix: the batch shapes x \(3,\), y \(5,\) do not fit together",
    ),
    "list length": (
        lambda: TensorProduct([K, K, K]).gram(X),
        "TensorProduct has kernels for 3 coordinates, but the points have 2",
    ),
    "list length, additive": (
        lambda: Additive([K]).gram(X),
        "Additive has kernels for 1 coordinates, but the points have 2",
    ),
    "stein points": (
        lambda: Stein(K).bind(Gaussian([0, 0, 0], 1)).gram(X),
        r"x has shape \(4, 2\), but points in 3 dimensions must have shape \(\.\.\., n, 3\)",
    ),
    "stein batch": (
        lambda: Stein(K).bind(Gaussian(np.zeros((3, 2)), 1.0)).gram(np.ones((5, 4, 2))),
        r"x \(5,\), measure \(3,\) do not fit together",
    ),
    # measures
    "stein unbound": (lambda: Stein(K).gram(X), r"needs the score of a measure: call kernel.bind\(measure\) first"),
    "stein unbound, diag": (lambda: (2 * Stein(K)).diag(X), "needs the score of a measure"),
    "stein unbound, derivatives": (lambda: Stein(K).derivatives(X), "or pass the kernel to cbq.embed"),
    "whiten unbound": (
        lambda: Warped(K, "whiten").gram(X),
        r"warped by 'whiten' depends on the measure of x: call kernel.bind\(measure\) first",
    ),
    "gaussianise unbound": (lambda: Warped(K, "gaussianise").diag(X), "warped by 'gaussianise' depends on the measure"),
    "whiten without moments": (
        lambda: Warped(K, "whiten").bind(StudentT(2, 0, 1)).gram([1.0]),
        "has no covariance: it needs df > 2",
    ),
    "gaussianise outside": (
        lambda: Warped(K, "gaussianise").bind(Exponential(1)).gram([1.0, -1.0]),
        "needs points inside the support of their measure, but 1 coordinates lie on its boundary or outside",
    ),
    "stein outside": (
        lambda: Stein(K).bind(Gamma(3, 2)).gram([1.0, -1.0]),
        "1 of 2 points lie outside the support",
    ),
    # warps
    "log": (lambda: Warped(K, "log").gram([2.0, -3.0]), "kernel on log x needs positive x, but the smallest is -3"),
    "log zero": (lambda: Warped(K, "log").diag([2.0, 0.0]), "needs positive x, but the smallest is 0"),
    "warp name": (
        lambda: Warped(K, "sqrt"),
        r"warp must be one of \['gaussianise', 'log', 'uniform', 'whiten'\] or a function, but it is 'sqrt'",
    ),
    "warp number": (lambda: Warped(K, 3.0), "or a function, but it is 3.0"),
    "warp axes": (
        lambda: Warped(K, flat).gram(X),
        r"the warp flat mapped points of shape \(4, 2\) to \(4,\): it must map \(\.\.\., N, d\)",
    ),
    "warp shape": (lambda: Warped(K, reordered).gram(X), r"reordered mapped points of shape \(4, 2\) to \(2, 4\)"),
    "warp nan": (lambda: Warped(K, not_a_number).gram(X), "output of the warp not_a_number must be finite, but 8 of"),
}

BAD_TYPES = {
    "lengthscale text": (lambda: RBF("long"), "lengthscale must hold real numbers, but its type is <U4"),
    "lengthscale complex": (lambda: RBF(1j), "lengthscale must hold real numbers, but its type is complex128"),
    "factor complex": (lambda: ScaledKernel(1j, K), "factor of a kernel must hold real numbers"),
    "x complex": (lambda: K.gram([1j]), "x must hold real numbers, but its type is complex128"),
    "x text": (lambda: K.gram(["a"]), "x must hold real numbers, but its type is <U1"),
    "x none": (lambda: K.gram(None), "x must hold real numbers, but its type is NoneType"),
    "y text": (lambda: K.gram([1.0], "b"), "y must hold real numbers"),
    "sum with a number": (lambda: K + 1.0, "unsupported operand"),
    "number plus kernel": (lambda: 1.0 + K, "unsupported operand"),
    "times none": (lambda: K * None, "unsupported operand"),
    "sum": (
        lambda: SumKernel([K, 1.0]),
        r"SumKernel takes a list of one or more kernels, but it was given \[RBF\(lengthscale=1.\), 1.0\]",
    ),
    "sum of none": (lambda: SumKernel([]), r"SumKernel takes a list of one or more kernels, but it was given \[\]"),
    "product": (
        lambda: ProductKernel(["rbf"]),
        r"ProductKernel takes a list of one or more kernels, but it was given \['rbf'\]",
    ),
    "tensor product": (lambda: TensorProduct([K, "rbf"]), "TensorProduct takes a list of one or more kernels, but"),
    "tensor product of none": (
        lambda: TensorProduct([]),
        r"takes a list of one or more kernels, but it was given \[\]",
    ),
    "additive": (lambda: Additive([None]), "Additive takes a list of one or more kernels"),
    "tensor product of a sum": (
        lambda: TensorProduct(K + K),
        "takes one radial kernel, such as RBF, for all coordinates, or a list .* one-dimensional kernel for each, but",
    ),
    "additive of a stein": (lambda: Additive(Stein(K)), r"but it was given Stein\(RBF"),
    "warped": (lambda: Warped("rbf", "log"), "Warped takes a kernel first, but it was given 'rbf'"),
    "warp text": (lambda: Warped(K, words).gram(X), "the output of the warp words must hold real numbers"),
    "stein of rough": (
        lambda: Stein(Matern(0.5, 1.0)),
        r"mixed second derivatives: RBF, or Matern of an order above 1, but it was given Matern\(0.5",
    ),
    "stein of a sum": (lambda: Stein(K + K), "Stein takes a base kernel with mixed second derivatives"),
    "stein of a word": (lambda: Stein("rbf"), "but it was given 'rbf'"),
    "stein on a warp": (
        lambda: Warped(Stein(K), flat).bind(NORMAL),
        "the measure of x warped by flat is known for Empirical measures only, not Gaussian",
    ),
    "stein on whitened": (
        lambda: Warped(Stein(K), "whiten").bind(Gamma(3, 2)),
        "the measure of whitened x is known for Gaussian, Mixture and Empirical measures, not Gamma",
    ),
    "stein without score": (
        lambda: Warped(K, "gaussianise").bind(Unnormalised(np.sum, dim=2)).gram(X),
        "no inverse_transport",
    ),
}

test_bad_values_are_refused_with_the_reason = refusals(BAD_VALUES, ValueError)
test_bad_types_are_refused_with_the_reason = refusals(BAD_TYPES, TypeError)


def test_the_original_exception_is_kept():
    with pytest.raises(ValueError, match="do not fit together") as caught:
        K.gram(np.ones((3, 4, 2)), np.ones((5, 4, 2)))
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("k", [K, TensorProduct(K), Additive(K), Warped(K, np.sin), 2 * K + K], ids=repr)
@pytest.mark.parametrize(("dx", "dy"), [(2, 3), (3, 2), (1, 3), (3, 1)])
def test_x_and_y_must_have_one_dimension(k, dx, dy):
    with pytest.raises(ValueError, match=f"{dx}.*{dy}"):
        k.gram(np.ones((dy, dx)), np.ones((dx, dy)))


@pytest.mark.parametrize(
    "k",
    [RBF(1.0) + Stein(K), RBF(1.0) * Stein(K), Additive([RBF(1.0), Stein(K)]), TensorProduct([K, Stein(K)])],
    ids=repr,
)
def test_diag_broadcasts(k):
    d = 2 if isinstance(k, (Additive, TensorProduct)) else 1
    k = k.bind(Gaussian(np.zeros((3, d)), 1.0))
    x = np.random.default_rng(0).normal(size=(4, d))
    np.testing.assert_allclose(k.diag(x), np.diagonal(k(x), axis1=-2, axis2=-1), rtol=1e-13)


def test_diag_has_the_batch_of_the_lengthscales():
    k = RBF(np.ones((3, 1)))
    assert k.diag(LINE).shape == k(LINE).shape[:-1]


@pytest.mark.parametrize(
    "k",
    [Stein(K), Warped(K, "whiten"), Warped(K, "gaussianise"), Additive([Stein(K)]), K + Stein(K), 2 * Stein(K)],
    ids=repr,
)
def test_bind_takes_scipy(k):
    np.testing.assert_allclose(k.bind(stats.norm(1, 2)).gram(LINE), k.bind(Gaussian(1, cov=4)).gram(LINE), rtol=1e-13)
    with pytest.raises(TypeError, match="a str arrived"):
        k.bind("normal")


def test_stein_takes_scipy():
    np.testing.assert_allclose(Stein(K, stats.norm(1, 2))(LINE), Stein(K, Gaussian(1, cov=4))(LINE), rtol=1e-13)
    with pytest.raises(TypeError, match="a str arrived"):
        Stein(K, "normal")


@pytest.mark.parametrize("kind", [TensorProduct, Additive])
@pytest.mark.parametrize("n", [1, 3])
def test_bind_checks_the_number_of_coordinates(kind, n):
    with pytest.raises(ValueError, match=f"has kernels for {n} coordinates, but the points have 2"):
        kind([Stein(K)] * n).bind(Gaussian([0, 0], 1))


def test_scaled_takes_a_kernel():
    with pytest.raises(TypeError, match="kernel"):
        ScaledKernel(2.0, "rbf")


def test_scaled_takes_one_number():
    with pytest.raises((TypeError, ValueError), match="factor of a kernel"):
        ScaledKernel([1.0, 2.0], K)


@pytest.mark.parametrize("nu", [[1.5], np.array(1.5), None])
def test_nu_must_be_one_number(nu):
    if isinstance(nu, np.ndarray):
        assert Matern(nu, 1.0).nu == 1.5
        return
    with pytest.raises(ValueError, match=r"nu must be a number from 0.1 to 20"):
        Matern(nu, 1.0)


@pytest.mark.parametrize("kind", [TensorProduct, Additive])
@pytest.mark.parametrize("base", [3, None])
def test_coordinatewise_refuses_other_bases(kind, base):
    with pytest.raises(TypeError, match=f"{kind.__name__} takes"):
        kind(base)


def test_an_empty_lengthscale_is_refused():
    with pytest.raises(ValueError, match="lengthscale"):
        RBF([])


def test_batches_of_lengthscales_and_points_must_broadcast():
    with pytest.raises(ValueError, match="do not fit together"):
        RBF(np.ones((3, 1))).gram(np.ones((5, 4, 2)))


def test_no_points_give_an_empty_gram_matrix():
    assert Stein(K).bind(Gaussian([0, 0], 1)).gram(np.empty((0, 2))).shape == (0, 0)


@pytest.mark.parametrize("k", [RBF(1e-160), Matern(1.5, 1e-160), Stein(RBF(1e-100), NORMAL)], ids=repr)
def test_overflowing_distances_are_refused(k):
    with pytest.raises(ValueError, match=r"too many lengthscales .* rescale x, or pass a longer lengthscale"):
        k([0.0, 1.0])
