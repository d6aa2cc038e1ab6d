"""The kernels of a process on a grid, and the amplitudes of its integrals.

Without jitter, the integral at an observed theta is nearly the quadrature of its own values, whatever the kernel of
theta (it has one constant mean for all thetas, not one for each); and integrals at other thetas are interpolated from
these, whatever the kernel of v. So each axis has its own choice. The kernel of v explains f at single thetas; the
kernel of theta, with a noise for what quadrature leaves, explains quadratures.

Leaving out a theta moves the integrals as interpolation errs, and leaving out a point v at all thetas as quadrature
does: a dense process on a part of the grid has both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq._arrays import ROUNDING, Array
from cbq.gp.calibration import LocalAmplitude
from cbq.gp.families import KernelFamily, fit_lengthscales
from cbq.gp.kronecker import GridPoints, quadratures
from cbq.gp.pooled import ExactGP
from cbq.gp.process import FLAT
from cbq.gp.selection import KernelChoice, KernelMember, PooledPoints, Selection, choose_kernel, keep
from cbq.kernels import Kernel, XThetaKernel
from cbq.linalg import Jitter
from cbq.linalg.threads import one_blas_thread


def choose_grid_kernel(
    on_x: Sequence[Kernel],
    on_theta: Sequence[Kernel],
    points: GridPoints,
    jitter: Jitter,
    *,
    ard: bool = True,
    options: Selection,
) -> KernelChoice:
    """The best products of a kernel of v and a kernel of theta, given from rough to smooth, with their lengthscales."""
    with one_blas_thread():
        of_x = _choose_on_x(on_x, points, jitter, ard, options)
        of_theta = _choose_on_theta(on_theta, of_x.kernel, points, jitter, ard, options)
    pairs = [
        KernelMember(
            XThetaKernel(a.kernel, b.kernel, points.v.shape[1]),
            float(np.hypot(a.error, b.error)),
            float(np.hypot(a.residual, b.residual)),
            b.noise,
        )
        for a in of_x.members
        for b in of_theta.members
    ]
    return keep(pairs, of_x.tried * of_theta.tried, options)


def _choose_on_x(
    kernels: Sequence[Kernel],
    points: GridPoints,
    jitter: Jitter,
    ard: bool,
    options: Selection,
    *,
    thetas: int = 20,
    shaped: int = 200,
) -> KernelChoice:
    """The kernels of v that explain f at single thetas best: each theta is an output with an amplitude of its own.

    thetas, shaped: the largest numbers of thetas and of points to which lengthscales are fitted. Thetas share them, so
    that a few are enough.
    """
    few = points.thinned(thetas, shaped)

    def refined(kernel: Kernel) -> KernelMember:
        family = KernelFamily.of(kernel, few.v, ard and few.v.shape[1] > 1)
        found = fit_lengthscales(family.kernel, family.free, [few.columns], FLAT) if family.has_free else family.kernel
        error = float(np.sqrt(np.mean(left_out_points(found, points, jitter) ** 2)))
        return KernelMember(found, error, error)

    return keep([refined(kernel) for kernel in kernels], len(kernels), options)


def _choose_on_theta(
    kernels: Sequence[Kernel],
    kernel_x: Kernel,
    points: GridPoints,
    jitter: Jitter,
    ard: bool,
    options: Selection,
    *,
    thetas: int = 500,
) -> KernelChoice:
    """The best kernels of theta for the quadratures at the thetas; one without free lengthscales as it is.

    thetas: the largest number that kernels are compared at.
    """
    first = KernelFamily.of(kernels[0], points.theta, ard)
    some = points.thinned(thetas, len(points.v))
    estimates = quadratures(kernel_x, some, jitter)
    shift, scale = np.mean(estimates, axis=0), np.std(estimates, axis=0)
    if np.all(scale <= ROUNDING) or (len(kernels) == 1 and not first.has_free):
        return KernelChoice((KernelMember(first.kernel, 0.0, 0.0),), 1)
    of_thetas = PooledPoints(some.theta, (estimates - shift) / scale, some.spread[..., 0].T / scale, shift, scale)
    return choose_kernel(kernels, of_thetas, jitter, ard=ard, noisy=True, options=options)


def left_out_points(kernel: Kernel, points: GridPoints, jitter: Jitter, *, thetas: int = 20, most: int = 500) -> Array:
    """The leave-one-out residuals (n, C) of f as a function of v, in units of the spread of f at the theta.

    thetas, most: the largest numbers of thetas and of points, as of n^3 operations.
    """
    some = points.thinned(thetas, most)
    with one_blas_thread():
        found = ExactGP(kernel.on_x, some.v, some.columns.f[0], jitter).process.residuals
    return (found.T.reshape(some.f.shape) / some.spread).reshape(len(some.f), -1).T


def grid_amplitude(
    choice: KernelChoice, points: GridPoints, jitter: Jitter, n: int, *, thetas: int = 30
) -> LocalAmplitude:
    """The amplitudes of integrals, by a dense process on up to n points of the grid.

    thetas: the largest number that are left out, one by one; moves of more would tell little more about their size.
    """
    T = min(len(points.theta), thetas)
    some = points.thinned(T, max(n // T, 1))
    T, N = some.f.shape[1:]
    dense = ExactGP(choice.kernel, some.u, some.f.reshape(len(some.f), -1).T, jitter)
    return LocalAmplitude(dense, np.repeat(np.arange(T), N), np.tile(np.arange(N), T))
