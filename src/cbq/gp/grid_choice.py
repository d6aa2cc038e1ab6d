"""The kernels of a process on a grid, and how far the process can be trusted.

Without jitter, the integral at an observed theta is nearly the quadrature of its own values, whatever the kernel of
theta (it has one constant mean for all thetas, not one for each); and integrals at other thetas are interpolated from
these, whatever the kernel of v. So each axis has its own choice. The
kernel of v explains f at single thetas; that of theta, with a noise for what quadrature leaves, explains quadratures.

Halves of the points v calibrate the errors of quadrature, leave-one-out residuals of thetas those of interpolation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cbq._arrays import Array, evenly
from cbq.embeddings.many import Integrals
from cbq.gp.choice import MAX_MEMBERS, NEGLIGIBLE, KernelChoice, KernelMember, PooledPoints, promised, weighed
from cbq.gp.families import KernelFamily, fit_lengthscales
from cbq.gp.halves import SplitHalfCalibration, calibrated
from cbq.gp.kronecker import GridPoints, KroneckerGP, quadratures, two_amplitudes
from cbq.gp.noisy import choose_noisy_kernel
from cbq.gp.pooled import ExactGP, IntegralPosterior
from cbq.gp.process import FLAT
from cbq.gp.quadrature import explain
from cbq.kernels import Kernel, XThetaKernel
from cbq.linalg import Jitter
from cbq.linalg.threads import one_blas_thread

LENGTHSCALE_POINTS, CHOICE_POINTS, CHOICE_THETAS = 200, 500, 20  # for the choice of a kernel of v
MAX_THETAS = 500  # for that of theta
LEAST_SCALE = 1e-13  # of integrals of f in units near 1: less is rounding
CALIBRATION_THETAS = 20
SEED = 0  # of the splits
SPLITS = 4  # of the points into halves


def choose_grid_kernel(
    on_x: Sequence[Kernel], on_theta: Sequence[Kernel], points: GridPoints, jitter: Jitter, *, ard: bool = True
) -> KernelChoice:
    """The best products of a kernel of v and a kernel of theta, given from rough to smooth, with their lengthscales."""
    with one_blas_thread():
        of_x = _choose_on_x(on_x, points, jitter, ard)
        of_theta = _choose_on_theta(on_theta, of_x.kernel, points, jitter, ard)
    d = points.v.shape[1]
    pairs = [
        KernelMember(
            XThetaKernel(a.kernel, b.kernel, d), a.weight * b.weight, float(np.hypot(a.error, b.error)), b.noise
        )
        for a in of_x.members
        for b in of_theta.members
    ]
    kept = sorted(pairs, key=lambda each: -each.weight)[:MAX_MEMBERS]
    kept = [each for each in kept if each.weight >= NEGLIGIBLE]
    total = sum(each.weight for each in kept)
    return KernelChoice(tuple(replace(each, weight=each.weight / total) for each in kept), of_x.tried * of_theta.tried)


def _choose_on_x(kernels: Sequence[Kernel], points: GridPoints, jitter: Jitter, ard: bool) -> KernelChoice:
    """The kernels of v that explain f at single thetas best: each theta is an output with an amplitude of its own."""
    few, some = (points.thinned(CHOICE_THETAS, N) for N in (LENGTHSCALE_POINTS, CHOICE_POINTS))
    spread = np.broadcast_to(some.spread, some.f.shape).reshape(-1, len(some.v)).T

    def error(kernel: Kernel) -> float:
        residuals = explain(kernel, some.columns, FLAT, jitter).residuals[0, 0]
        return float(np.sqrt(np.mean((residuals / spread) ** 2)))

    def promise(kernel: Kernel) -> float:
        process = ExactGP(kernel, some.v, some.columns.f[0], jitter)
        return promised(process, Integrals(kernel, [some.measure], some.theta[:1]))

    def refined(kernel: Kernel) -> tuple[Kernel, float]:
        family = KernelFamily.of(kernel, few.v, ard and few.v.shape[1] > 1)
        found = fit_lengthscales(family.kernel, family.free, [few.columns], FLAT) if family.has_free else family.kernel
        return found, error(found)

    return KernelChoice(weighed([refined(kernel) for kernel in kernels], promise), len(kernels))


def _choose_on_theta(
    kernels: Sequence[Kernel], kernel_x: Kernel, points: GridPoints, jitter: Jitter, ard: bool
) -> KernelChoice:
    """The likeliest kernels of theta for the quadratures at the thetas; one without free lengthscales as it is."""
    first = KernelFamily.of(kernels[0], points.theta, ard)
    some = points.thinned(MAX_THETAS, len(points.v))
    estimates, _ = quadratures(kernel_x, some, jitter)
    shift, scale = np.mean(estimates, axis=0), np.std(estimates, axis=0)
    if np.all(scale <= LEAST_SCALE) or (len(kernels) == 1 and not first.has_free):
        return KernelChoice.of(first.kernel)
    of_thetas = PooledPoints(some.theta, (estimates - shift) / scale, some.spread[..., 0].T / scale, shift, scale)
    return choose_noisy_kernel(kernels, of_thetas, ard=ard)


def left_out_points(choice: KernelChoice, points: GridPoints, jitter: Jitter) -> Array:
    """The leave-one-out residuals (n, C) of f as a function of v, at some thetas, in units of the spread of f there."""
    some = points.thinned(CHOICE_THETAS, CHOICE_POINTS)
    with one_blas_thread():
        found = [explain(m.kernel.on_x, some.columns, FLAT, jitter).residuals[0, 0] for m in choice.members]
    return (np.tensordot(choice.weights, found, 1).T.reshape(some.f.shape) / some.spread).reshape(len(some.f), -1).T


def grid_calibration(choice: KernelChoice, points: GridPoints, jitter: Jitter) -> tuple[SplitHalfCalibration, Array]:
    """Compare the integrals given halves of the points v with those given all, as `split_half_calibration` does.

    Returns the calibration, and the factor (C,) of the variances of quadrature alone, which halves of v speak about.
    """
    theta, N = points.theta[evenly(len(points.theta), CALIBRATION_THETAS)], len(points.v)
    rng = np.random.default_rng(SEED)
    orders = [rng.permutation(N) for _ in range(SPLITS)]
    halves = [half for order in orders for half in (order[: N // 2], order[N // 2 :])]
    whole: list[IntegralPosterior] = []
    parts: list[list[IntegralPosterior]] = [[] for _ in halves]
    for member in choice.members:
        amplitudes = two_amplitudes(member.kernel, points, jitter, member.noise)
        process = KroneckerGP(member.kernel, points, jitter, member.noise, amplitudes)
        integrals = process.integrals(theta)
        mu, z = integrals.mean(process.nodes), integrals.variance()
        whole.append(IntegralPosterior.at(process, mu, z))
        for half, found in zip(halves, parts, strict=True):
            part = KroneckerGP(member.kernel, points.take(slice(None), half), jitter, member.noise, amplitudes)
            found.append(IntegralPosterior.at(part, mu, z))
    of_halves = calibrated(choice, whole, parts)
    return replace(of_halves, inflation=np.ones(len(points.f))), of_halves.inflation
