"""One Gaussian process with an unknown constant mean on a grid: the same N points v at each of T thetas.

With a kernel k_X(v, v') k_Theta(theta, theta'), the Gram matrix of all T N points is K = K_Theta (x) K_X, the Kronecker
product of the matrices of thetas and of points (see `solvers.Kronecker`). Conditioning takes T^3 + N^3 + T N (T + N)
operations and a few arrays (T, N). Each of the two matrices has its own jitter.

All integrals are under one measure of v, with the embedding mu (N,) and the initial error z of k_X. The embedding of
the integral at theta is the product mu(v_n) k(theta_t), with k = k_Theta(., theta). Its variance at unit amplitude,

    z [k_Theta(theta, theta) - k'K_Theta^-1 k]
    + [z - mu'K_X^-1 mu] k'K_Theta^-1 k + gap^2,

is the error of interpolation between known integrals at the observed thetas, plus the error of quadrature at these. As
a `PooledGP`, the process has T nodes: the thetas.

Each axis has its own choice of kernels, for two reasons. Without jitter, the integral at an observed theta is nearly
the quadrature of its own values, whatever the kernel of theta; the constant mean alone couples the thetas. And
integrals at other thetas are interpolated from these, whatever the kernel of v. So kernels of v are compared on f at
single thetas, and kernels of theta on the quadratures, with a noise for the error of quadrature.

For calibration, leaving out a theta shows the errors of interpolation, and leaving out a point v at all thetas the
errors of quadrature. A dense process on a part of the grid shows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cbq.common import ROUNDING, Array, Integers
from cbq.embeddings import embed
from cbq.gp.calibration import LocalAmplitude
from cbq.gp.families import KernelFamily, fit_lengthscales
from cbq.gp.pooled import ROUNDING as LEAST_VARIANCE
from cbq.gp.pooled import ExactGP
from cbq.gp.process import FLAT, Process
from cbq.gp.quadrature import GPData
from cbq.gp.selection import KernelChoice, KernelMember, PooledPoints, Selection, choose_kernel, keep
from cbq.gp.solvers import Kronecker
from cbq.kernels import Kernel, XThetaKernel
from cbq.linalg import Jitter, factor_gram
from cbq.linalg.threads import one_blas_thread
from cbq.measures import Measure


@dataclass(frozen=True, eq=False)
class GridPoints:
    """C outputs at the same N points for each of T thetas.

    theta: (T, p). v: (N, d). measure: the measure of v, which all thetas share.
    f: (C, T, N), in units near 1; the user's f is shift + scale f, with shift and scale (C,).
    spread: (C, T, 1), the standard deviation of f at each theta, at least a small positive number.
    """

    theta: Array
    v: Array
    measure: Measure
    f: Array
    spread: Array
    shift: Array
    scale: Array

    @property
    def n(self) -> int:
        """The number of points of the grid."""
        return len(self.theta) * len(self.v)

    @property
    def variance(self) -> Array:
        """The variances (C,) of the values."""
        return np.asarray(np.var(self.f, axis=(1, 2)))

    @property
    def u(self) -> Array:
        """The points (T N, d + p) of the grid, one theta after the other."""
        T, N = len(self.theta), len(self.v)
        return np.column_stack([np.tile(self.v, (T, 1)), np.repeat(self.theta, N, axis=0)])

    @property
    def columns(self) -> GPData:
        """The values at v, each theta an output of its own."""
        return GPData(self.v[None], self.f.reshape(-1, len(self.v)).T[None])

    def take(self, thetas: Integers | slice, points: Integers | slice) -> GridPoints:
        """Some of the thetas and some of the points."""
        f = self.f[:, thetas][:, :, points]
        return replace(self, theta=self.theta[thetas], v=self.v[points], f=f, spread=self.spread[:, thetas])

    def thinned(self, T: int, N: int, seed: int = 0) -> GridPoints:
        """At most T thetas and N points, chosen at random."""
        # Not every second one: every second point of a Sobol sequence lies in the same half space.
        rng = np.random.default_rng(seed)
        return self.take(rng.permutation(len(self.theta))[:T], rng.permutation(len(self.v))[:N])

    def outputs(self, which: Sequence[int]) -> GridPoints:
        """Some of the outputs."""
        c = list(which)
        return replace(self, f=self.f[c], spread=self.spread[c], shift=self.shift[c], scale=self.scale[c])


class GridIntegrals:
    """Integrals at M thetas (M, p), without the factor of v that they share.

    The methods are the ones of `embeddings.many.Integrals`.

    z: the initial error of the kernel of v.
    """

    def __init__(self, kernel_theta: Kernel, theta: Array, z: float) -> None:
        self.kernel_theta, self.theta, self.z = kernel_theta, theta, z

    def mean(self, nodes: Array) -> Array:
        """The kernel (M, T) between these thetas and the thetas of the grid."""
        return self.kernel_theta(self.theta, nodes)

    def variance(self) -> Array:
        """The initial errors (M,)."""
        return np.asarray(self.z * self.kernel_theta.diag(self.theta))

    def cross(self) -> Array:
        """The cross terms (M, M) of all pairs."""
        return np.asarray(self.z * self.kernel_theta(self.theta))


class KroneckerGP:
    """A `PooledGP` given values on a grid: its integrals are under the measure of v, at any theta.

    noise: the variance of a part of f with the kernel k_X that is independent across thetas, in units of the amplitude.
    """

    def __init__(self, kernel: Kernel, points: GridPoints, jitter: Jitter, noise: float = 0.0) -> None:
        assert kernel.on_theta is not None
        C, T, N = points.f.shape
        self.kernel, self.kernel_theta, self.nodes = kernel, kernel.on_theta, points.theta
        self.factor = factor_gram(self.kernel_theta, points.theta, nugget=noise, jitter=jitter)
        on_x, embedding = factor_gram(kernel.on_x, points.v, jitter=jitter), embed(kernel.on_x, points.measure)
        self.process = Process(Kronecker(self.factor, on_x), points.f.reshape(C, -1).T)
        mu, self.z = embedding.mean(points.v), float(embedding.variance)
        half_mu = on_x.solve_lower(mu[:, None])[:, 0]
        self.explained = float(half_mu @ half_mu)  # mu'K_X^-1 mu
        # (T,): G'(L^-1 k (x) L^-1 mu) is linear in L^-1 k (T,), with these coefficients
        self.products = self.process.G.reshape(T, N) @ half_mu
        self.amplitude = self.process.amplitude
        weights = on_x.solve(mu[:, None])[:, 0]
        integrated = np.einsum("tnc,n->tc", self.process.detrended.reshape(T, N, C), weights)
        self.alpha = self.factor.solve(integrated)  # (T, C)
        self.noise = np.full(C, noise)
        self.rounding = np.finfo(float).eps * np.sum(np.abs(self.alpha), axis=0)

    def integrals(self, theta: Array) -> GridIntegrals:
        """The integrals at thetas (M, p)."""
        return GridIntegrals(self.kernel_theta, theta, self.z)

    def mean(self, mu: Array) -> Array:
        return np.asarray(self.process.beta + mu @ self.alpha)

    def variance(self, mu: Array, z: Array) -> Array:
        # The errors of interpolation and of quadrature, by the formula at the top of this file.
        half = self.factor.solve_lower(mu.T)  # (T, M)
        known, gap = np.sum(half * half, axis=0), self._gap(half)  # k'K_Theta^-1 k
        between = np.maximum(z - self.z * known, LEAST_VARIANCE * z)
        within = np.maximum((self.z - self.explained) * known + gap**2, LEAST_VARIANCE * z)
        return np.repeat((between + within)[:, None], len(self.amplitude), axis=1)

    def covariance(self, mu: Array, cross: Array) -> Array:
        half = self.factor.solve_lower(mu.T)
        known, gap = half.T @ half, self._gap(half)
        between = cross - self.z * known
        within = (self.z - self.explained) * known + np.outer(gap, gap)
        return np.broadcast_to(between + within, (len(self.amplitude), *between.shape))

    def _gap(self, half: Array) -> Array:
        """The standard deviation (M,) that the unknown mean adds, from L^-1 k (T, M)."""
        return np.asarray(self.process.gap((self.products @ half)[None], np.ones((half.shape[1], 1)))[0])


def quadratures(kernel_x: Kernel, points: GridPoints, jitter: Jitter) -> Array:
    """The integral (T, C) at each theta, from the values at that theta alone."""
    process = ExactGP(kernel_x, points.v, points.columns.f[0], jitter)
    mean = process.mean(embed(kernel_x, points.measure).mean(points.v)[None])[0]
    C, T, _ = points.f.shape
    return np.asarray(mean.reshape(C, T).T)


def choose_grid_kernel(
    on_x: Sequence[Kernel],
    on_theta: Sequence[Kernel],
    points: GridPoints,
    jitter: Jitter,
    *,
    ard: bool = True,
    options: Selection,
) -> KernelChoice:
    """The best products of a kernel of v and a kernel of theta, with fitted lengthscales.

    on_x, on_theta: the kernels to choose from, from rough to smooth.
    """
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
    """The kernels of v that explain f best at single thetas: each theta is an output with its own amplitude.

    thetas, shaped: the largest numbers of thetas and of points in the fit of lengthscales. A few thetas are enough,
        since all share the lengthscales.
    """
    few = points.thinned(thetas, shaped)

    def refined(kernel: Kernel) -> KernelMember:
        family = KernelFamily.of(kernel, few.v, ard and few.v.shape[1] > 1)
        fitted = fit_lengthscales(family.kernel, family.free, [few.columns], FLAT) if family.has_free else family.kernel
        error = float(np.sqrt(np.mean(left_out_points(fitted, points, jitter) ** 2)))
        return KernelMember(fitted, error, error)

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
    """The best kernels of theta for the quadratures; a single kernel without free lengthscales is not compared.

    thetas: the largest number of thetas in the comparison.
    """
    first = KernelFamily.of(kernels[0], points.theta, ard)
    subset = points.thinned(thetas, len(points.v))
    estimates = quadratures(kernel_x, subset, jitter)
    shift, scale = np.mean(estimates, axis=0), np.std(estimates, axis=0)
    if np.all(scale <= ROUNDING) or (len(kernels) == 1 and not first.has_free):
        return KernelChoice((KernelMember(first.kernel, 0.0, 0.0),), 1)
    of_thetas = PooledPoints(subset.theta, (estimates - shift) / scale, subset.spread[..., 0].T / scale, shift, scale)
    return choose_kernel(kernels, of_thetas, jitter, ard=ard, noisy=True, options=options)


def left_out_points(kernel: Kernel, points: GridPoints, jitter: Jitter, *, thetas: int = 20, most: int = 500) -> Array:
    """The leave-one-out residuals (n, C) of f as a function of v, in units of the spread of f at the theta.

    thetas, most: the largest numbers of thetas and of points, since the cost grows with the cube of the points.
    """
    subset = points.thinned(thetas, most)
    with one_blas_thread():
        residuals = ExactGP(kernel.on_x, subset.v, subset.columns.f[0], jitter).process.residuals
    return (residuals.T.reshape(subset.f.shape) / subset.spread).reshape(len(subset.f), -1).T


def grid_amplitude(
    choice: KernelChoice, points: GridPoints, jitter: Jitter, n: int, *, thetas: int = 30
) -> LocalAmplitude:
    """The amplitudes of integrals, by a dense process on up to n points of the grid.

    thetas: the largest number of thetas to leave out, one by one: thirty moves show their size.
    """
    T = min(len(points.theta), thetas)
    subset = points.thinned(T, max(n // T, 1))
    T, N = subset.f.shape[1:]
    dense = ExactGP(choice.kernel, subset.u, subset.f.reshape(len(subset.f), -1).T, jitter)
    return LocalAmplitude(dense, np.repeat(np.arange(T), N), np.tile(np.arange(N), T))
