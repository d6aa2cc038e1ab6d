"""Equal arrays are equal data: how they lie in memory must not move a single bit of an answer."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import cbq
from cbq.kernels import RBF, Matern
from cbq.measures import Empirical, Gaussian, Mixture, Unnormalised

rng = np.random.default_rng(0)
THETA = rng.uniform(0.5, 1.5, (20, 3))
X = THETA[:, None, :] + rng.standard_normal((20, 8, 3))
F = np.stack([np.sin(X).sum(axis=-1), np.maximum(X[..., 0] - 1.0, 0.0)], axis=-1)
NEW = rng.uniform(0.5, 1.5, (5, 3))


def sliced(a):
    """Every second number of a larger array, along all axes."""
    larger = np.full([2 * n + 1 for n in a.shape], np.nan)
    part = larger[tuple(slice(1, None, 2) for _ in a.shape)]
    part[...] = a
    return part


def backwards(a):
    """A view with negative strides."""
    flipped = tuple(slice(None, None, -1) for _ in a.shape)
    return a[flipped].copy()[flipped]


def unaligned(a):
    """An array that begins at an odd address."""
    buffer = bytearray(1 + a.nbytes)
    buffer[1:] = np.ascontiguousarray(a).tobytes()
    return np.frombuffer(buffer, dtype=a.dtype, offset=1).reshape(a.shape)


def read_only(a):
    a = np.asfortranarray(a).copy(order="F")
    a.setflags(write=False)
    return a


LAYOUTS = {
    "F-ordered": np.asfortranarray,
    "axes swapped": lambda a: np.moveaxis(np.moveaxis(a, 0, -1).copy(), -1, 0),
    "backwards": backwards,
    "sliced": sliced,
    "big-endian": lambda a: a.astype(">f8", order="F"),
    "unaligned": unaligned,
    "read-only": read_only,
}
METHODS = {
    "CBQ": cbq.CBQ(),
    "CBQ, shared outputs": cbq.CBQ(outputs="shared"),
    "MOBQ": cbq.MOBQ(outputs="shared", ard=False),
    "LSMC": cbq.LSMC(),
    "KLSMC": cbq.KLSMC(),
    "ImportanceSampling": cbq.ImportanceSampling(),
}
layouts = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def family(theta):
    return Gaussian(theta, np.ones(3))


def answers(method, layout):
    """What a method says, given arrays in a layout."""
    samples = cbq.Samples(layout(THETA), layout(X), layout(F), family, depends_on_theta=False)
    return np.stack(method.fit(samples).predict(layout(NEW), return_std=True))


@pytest.fixture(scope="module")
def expected():
    """The answers to C-ordered arrays, by method."""
    return {name: answers(method, np.ascontiguousarray) for name, method in METHODS.items()}


@layouts
@pytest.mark.parametrize("name", METHODS)
def test_answers_do_not_depend_on_the_memory_layout(name, layout, expected):
    assert_array_equal(answers(METHODS[name], layout), expected[name])


@layouts
def test_nor_do_those_to_lists_of_arrays_with_batched_measures(layout):
    def fit(given):
        x, f = [given(each) for each in X], [given(each) for each in F]
        samples = cbq.Samples(given(THETA), x, f, Gaussian(given(THETA), cov=given(np.ones((20, 3)))))
        return np.stack(cbq.CBQ(outputs="shared").fit(samples).predict(THETA[:2], return_std=True))

    assert_array_equal(fit(layout), fit(np.ascontiguousarray))


@layouts
def test_nor_do_samples_of_an_integrand_that_returns_any_layout(layout):
    def samples(given):
        problem = cbq.Problem(
            lambda x, theta: given(np.column_stack([np.sin(x).sum(axis=1), x[:, 0] * theta[0]])),
            lambda theta: Gaussian(given(theta), cov=given(np.eye(3) + 0.1)),
            Gaussian(given(np.ones(3)), cov=given(0.1 * np.eye(3) + 0.01)),
        )
        assert_array_equal(problem.evaluate(given(THETA[0]), given(X[0])), problem.evaluate(THETA[0], X[0]))
        return problem.collect(4, 6, rng=0)

    one, other = samples(layout), samples(np.ascontiguousarray)
    for name in ("theta", "x", "f"):
        a, b = getattr(one, name), getattr(other, name)
        assert_array_equal(a, b)
        assert a.strides == b.strides


@layouts
def test_nor_do_measures_kernels_and_embeddings(layout):
    def numbers(given):
        x, cov = given(X[0]), given(np.array([[1.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 0.8]]))
        gaussian = Gaussian(given(THETA[0]), cov=cov)
        mixture = Mixture(given(np.array([0.3, 0.7])), [gaussian, Gaussian(np.zeros(3), np.ones(3))])
        known_by_score = Unnormalised(score=lambda x: given(-x), dim=3)
        kernel = RBF(given(np.array([0.5, 1.0, 2.0])))
        return [
            *(measure.logpdf(x) for measure in (gaussian, mixture)),
            known_by_score.score(x) @ np.ones(3),
            gaussian.inverse_transport(x),
            kernel(x, given(X[1])),
            Matern(1.5, 0.7)(x),
            *(cbq.embed(kernel, measure).mean(x) for measure in (gaussian, mixture, Empirical(given(X[2])))),
        ]

    for one, other in zip(numbers(layout), numbers(np.ascontiguousarray), strict=True):
        assert_array_equal(one, other)
