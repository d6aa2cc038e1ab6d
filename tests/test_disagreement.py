"""Where a process and one that is a step rougher disagree about f, by kriging each from its own matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cbq.gp.acquisition import NUGGET, disagreement
from cbq.kernels import RBF, Matern, TensorProduct, Warped, XThetaKernel
from cbq.linalg import Jitter

NONE = Jitter(start=0.0)
STEPS = {
    "rbf": (RBF(0.8), Matern(2.5, 0.8)),
    "matern": (Matern(1.5, 0.5), Matern(0.5, 0.5)),
    "log": (Warped(Matern(2.5, 0.9), "log"), Warped(Matern(1.5, 0.9), "log")),
    "tensor product": (TensorProduct(Matern(2.5, [0.5, 0.9])), TensorProduct(Matern(1.5, [0.5, 0.9]))),
    "x and theta": (XThetaKernel(RBF(0.7), Matern(1.5, 1.1), 1), XThetaKernel(Matern(2.5, 0.7), Matern(0.5, 1.1), 1)),
}


def kriged(kernel, points, f, u, noise):
    """The means and variances (M, C) of f at u, and amplitudes (C,), with an unknown mean: n + 1 equations."""
    n = len(points)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = kernel(points) + noise * np.eye(n)
    system[n, n] = 0.0
    inverse = np.linalg.inv(system)
    right = np.vstack([kernel(points, u), np.ones(len(u))])
    amplitude = np.sum(f * (inverse[:n, :n] @ f), axis=0) / (n - 1)
    variance = kernel.diag(u) - np.sum(right * (inverse @ right), axis=0)
    return (inverse @ right)[:n].T @ f, variance[:, None] * amplitude, amplitude


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize(("kernel", "rougher"), STEPS.values(), ids=STEPS)
def test_the_disagreement_is_that_of_two_processes(kernel, rougher, noise):
    rng = np.random.default_rng(0)
    D = 2 if isinstance(kernel, TensorProduct | XThetaKernel) else 1
    points = rng.uniform(0.2, 3.0, (8, D))
    points[:, 0] = np.linspace(0.2, 3.0, 8)  # apart from one another, for the accuracy of an inverse
    u = 0.5 * (points[1:] + points[:-1])
    f = np.column_stack([np.sin(np.sum(points, axis=1)), np.abs(points[:, 0] - 1.3)])
    mean, _, _ = kriged(kernel, points, f, u, noise)
    other, variance, amplitude = kriged(rougher, points, f, u, noise)
    expected = (mean - other) ** 2 / (variance + NUGGET * amplitude)
    assert_allclose(disagreement(kernel, points, f, u, NONE, noise), expected, rtol=1e-6)


def test_it_is_largest_at_a_kink_and_small_where_f_is_smooth():
    points = np.linspace(0.0, 1.0, 21)[:, None]
    kink = 0.4321  # between two points
    u = np.linspace(0.0, 1.0, 1001)[:, None]
    found = disagreement(Matern(2.5, 1.0), points, np.abs(points - kink), u, Jitter())[:, 0]
    assert abs(u[np.argmax(found), 0] - kink) < 0.05
    between = (np.abs(u[:, 0] - kink) > 0.25) & (np.abs(u[:, 0] - 0.5) < 0.4)  # at the ends, less is known
    assert np.max(found[between]) < 0.02 * np.max(found)


@pytest.mark.parametrize("kernel", [Matern(0.5, 0.7), Warped(Matern(0.5, 0.7), "log")], ids=["x", "log x"])
def test_where_no_kernel_is_rougher_the_nearest_value_is(kernel):
    points = np.array([0.2, 0.5, 0.9, 1.6, 3.0])[:, None]
    f = np.column_stack([points[:, 0] > 1.0, np.sin(points[:, 0])]).astype(float)
    u = np.array([0.3, 1.1, 1.3, 2.9])[:, None]
    mean, variance, amplitude = kriged(kernel, points, f, u, 0.0)
    nearest = f[[0, 2, 3, 4]]  # on a logarithmic scale, too
    expected = (mean - nearest) ** 2 / (variance + NUGGET * amplitude)
    assert_allclose(disagreement(kernel, points, f, u, NONE), expected, rtol=1e-6)


def test_it_is_largest_in_the_gap_that_holds_a_jump():
    points = np.linspace(0.0, 1.0, 21)[:, None]
    u = np.linspace(0.0, 1.0, 1001)[:, None]
    found = disagreement(Matern(0.5, 1.0), points, np.where(points > 0.4321, 1.0, 0.0), u, Jitter())[:, 0]
    between = (u[:, 0] > 0.4) & (u[:, 0] < 0.45)
    assert between[np.argmax(found)]
    assert np.max(found[~between]) < 0.05 * np.max(found)


@pytest.mark.parametrize("kernel", [Matern(2.5, 1.0), Matern(0.5, 1.0)], ids=repr)
def test_a_constant_shows_nothing(kernel):
    points, u = np.linspace(0.0, 1.0, 9)[:, None], np.linspace(-1.0, 2.0, 31)[:, None]
    assert_array_equal(disagreement(kernel, points, np.zeros((9, 1)), u, Jitter()), 0.0)
