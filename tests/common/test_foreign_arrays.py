"""Arrays of libraries other than NumPy: torch, and by DLPack any other, on the host or on a device."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import cbq
from cbq.common import as_array, real

THETA = np.linspace(0.0, 1.0, 12)
X = THETA[:, None] + np.random.default_rng(0).standard_normal((12, 8))
F = np.sin(X) * (1 + THETA[:, None])


class OnlyDlpack:
    """An array of the array API, without `__array__`."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class OnDevice(OnlyDlpack):
    """An array in memory that NumPy cannot read, with a method that copies it to the host."""

    def __init__(self, values, method):
        super().__init__(values)
        setattr(self, method, lambda: values.copy())

    def __dlpack_device__(self):
        return 2, 0  # CUDA

    def __array__(self, *args, **options):
        raise TypeError("implicit conversion to NumPy is not allowed")


def tensor(values, **options):
    return pytest.importorskip("torch").tensor(values, **options)


LIBRARIES = {
    "torch": tensor,
    "torch with gradients": lambda values: tensor(values, requires_grad=True),
    "torch on the way": lambda values: tensor(values, requires_grad=True) * 1.0,
    "DLPack": OnlyDlpack,
    "cpu()": lambda values: OnDevice(values, "cpu"),
    "get()": lambda values: OnDevice(values, "get"),
}
libraries = pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)


def family(theta):
    return cbq.measures.Gaussian(theta, cov=1.0)


@libraries
def test_arrays_of_other_libraries_are_read_as_their_numbers(make):
    assert_array_equal(real(make(X), "x"), X)
    assert_array_equal(real([make(THETA), make(THETA)], "theta"), [THETA, THETA])
    assert not real(make(X), "x").flags.writeable


def test_memory_of_the_host_is_read_in_place():
    values = X.copy()
    for foreign in (OnlyDlpack(values), pytest.importorskip("torch").from_numpy(values)):
        assert np.shares_memory(as_array(foreign, "x"), values)


@libraries
def test_samples_fits_and_integrands_take_them(make):
    expected = cbq.LSMC().fit(cbq.Samples(THETA, X, F, family))
    for x, f in ((make(X), make(F)), ([make(row) for row in X], [make(row) for row in F])):
        fit = cbq.LSMC().fit(cbq.Samples(make(THETA), x, f, lambda theta: cbq.measures.Gaussian(make(theta), cov=1.0)))
        assert_array_equal(fit.predict(make(THETA)), expected.predict(THETA))
    problem, plain = (
        cbq.Problem(lambda x, theta, of=of: of(x[:, 0] * theta[0]), family, cbq.measures.Uniform(0.0, 1.0))
        for of in (make, np.asarray)
    )
    assert_array_equal(problem.collect(3, 4, rng=0).f, plain.collect(3, 4, rng=0).f)


def test_what_is_no_array_of_real_numbers_is_refused_by_name():
    with pytest.raises(TypeError, match="theta must hold real numbers, but its type is complex"):
        real(tensor([1j]), "theta")
    with pytest.raises(ValueError, match=r"theta must be a rectangular array of numbers .*Sparse"):
        real(tensor([[1.0, 0.0]]).to_sparse(), "theta")
    with pytest.raises(ValueError, match="theta must be a rectangular array of numbers"):
        real(pytest.importorskip("torch").empty(3, device="meta"), "theta")
