"""Lengthscales shared by all thetas, by maximising the evidence of some of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.kernels import Kernel
from cbq.linalg import Jitter, NotPositiveDefinite, factor_gram
from cbq.linalg.threads import one_blas_thread
from cbq.stage1.blocks import SampleBlock
from cbq.stage1.quadrature import degrees_of_freedom

SHORTEST, LONGEST = 1e-2, 1e4  # of the first guess; an input with no influence ends at the longest
_STEPS = (-2.0, -1.0, 0.0, 1.0)  # of all log-lengthscales, to begin at the best: from far off, a kink leads astray
_TOLERANCE = 1e-5  # the relative change of the evidence to stop at
_JITTER = Jitter(start=1e-10)  # larger than for the quadrature: the gradient needs digits of the inverse


def fit_shape(kernel: Kernel, free: Booleans, blocks: Sequence[SampleBlock], tau: float) -> Kernel:
    """The kernel with the free ones of its lengthscales fitted to all thetas and outputs of the blocks."""
    from scipy.optimize import minimize  # slow to import

    start = kernel.log_lengthscales
    bounds = [(v + np.log(SHORTEST), v + np.log(LONGEST)) for v in start[free]]

    def at(values: Array) -> Kernel:
        lengthscales = start.copy()
        lengthscales[free] = values
        return kernel.with_log_lengthscales(lengthscales)

    def objective(values: Array) -> tuple[float, Array]:
        try:
            terms = [evidence(at(values), block, tau) for block in blocks]
        except NotPositiveDefinite:
            return np.inf, np.zeros(len(values))
        return -sum(value for value, _ in terms), -np.sum([gradient for _, gradient in terms], axis=0)[free]

    with one_blas_thread():  # the matrices are small, and those of the optimiser tiny
        first = min((start[free] + step for step in _STEPS), key=lambda values: objective(values)[0])
        best = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, tol=_TOLERANCE)
    return at(best.x)


def evidence(kernel: Kernel, block: SampleBlock, tau: float) -> tuple[float, Array]:
    """The evidence of a block, summed over thetas and outputs, and its gradient in the log-lengthscales (P,).

    dE/dK = -1/2 [K^-1 - k1 k1' / (S + tau) - a a' / A], A = q / dof, with the notation of `quadrature`.
    """
    bound, f = kernel.bind(block.measure), block.f
    n, C = f.shape[1:]
    factor = factor_gram(bound, block.x, jitter=_JITTER)
    inverse, logdet = factor.inverse(), factor.logdet
    a = inverse @ f
    if not np.isinf(tau):
        k1 = np.sum(inverse, axis=-1)
        S = np.sum(k1, axis=-1) + tau
        a = a - k1[..., None] * (np.einsum("tn,tnc->tc", k1, f) / S[:, None])[:, None, :]
        inverse -= k1[:, :, None] * (k1 / S[:, None])[:, None, :]
        logdet = logdet + np.log(S)
    dof = degrees_of_freedom(n, tau)
    amplitude = np.maximum(np.einsum("tnc,tnc->tc", f, a), np.finfo(float).tiny) / max(dof, 1)
    slope = C * inverse
    slope -= a @ (a / amplitude[:, None, :]).swapaxes(-1, -2)
    value = -0.5 * (dof * np.sum(np.log(amplitude)) + C * np.sum(logdet))
    return float(value), -0.5 * np.sum(bound.contract(block.x, slope), axis=0)
