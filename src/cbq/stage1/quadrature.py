"""Bayesian quadrature at many thetas with several kernels: estimates, errors, evidence, and what each point adds.

Of one theta and one kernel: K = L L' the Gram matrix, mu the mean embedding at the points, z the initial error,
k1 = K^-1 1, S = 1'k1, P = K^-1 - k1 k1' / (S + tau), a = P f, q = f'a. The mean of f has the prior N(0, A / tau):
tau = 0 is the flat constant mean, tau = inf the zero mean, and between them lies the Stein kernel k_p + c with
c = A / tau.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from cbq._arrays import Array
from cbq.embeddings import embed
from cbq.kernels import Kernel
from cbq.linalg import Factor, Jitter, chunks, factor_gram
from cbq.stage1.blocks import SampleBlock

_ARRAYS = 3  # stacks of Gram matrices in memory at a time: the factor, and what the solves need
_ROUNDING = 1e-3  # of its terms: a variance more negative than this is no rounding error


@dataclass(frozen=True, eq=False)
class KernelEvidence:
    """How well each of K kernels explains f at B thetas.

    energy: (K, B, C), q. evidence: (K, B, C), the (restricted) log-likelihood at the amplitude q / dof, but for a
    constant. residuals: (K, B, N, C), e_i = a_i / P_ii, each value less its prediction from the other points.
    evidence_without: (K, B, N, C), the evidence of the others, but for a constant. jitter: (K, B), relative to the
    diagonal.
    """

    energy: Array
    evidence: Array
    residuals: Array
    evidence_without: Array
    jitter: Array


@dataclass(frozen=True, eq=False)
class BayesianQuadrature(KernelEvidence):
    """Bayesian quadrature with each of K kernels at B thetas.

    mean: (K, B, C), the estimates. error2: (K, B), the squared worst-case errors, which are the variances at unit
    amplitude. weights: (K, B, N), with mean = weights . f.
    """

    mean: Array
    error2: Array
    weights: Array


Result = TypeVar("Result", bound=KernelEvidence)


def degrees_of_freedom(n: int, tau: float) -> int:
    """How many values are left for the amplitude: a flat mean takes one."""
    return n - 1 if tau == 0 else n


def explain(kernel: Kernel, block: SampleBlock, tau: float, jitter: Jitter) -> KernelEvidence:
    """How well kernels explain f at the thetas of a block; it takes no embedding.

    kernel: K of them, as lengthscales with the leading axes (K, 1), or a single one.
    """
    parts = []
    for part in _parts(kernel, block):
        solved = _Solved(factor_gram(kernel.bind(part.measure), part.x, jitter=jitter), part.f)
        parts.append(KernelEvidence(**_explained(solved, part.f, tau)))
    return _joined(parts)


def integrate(kernel: Kernel, block: SampleBlock, tau: float, jitter: Jitter) -> BayesianQuadrature:
    """Bayesian quadrature at the thetas of a block, with kernels as for `explain`."""
    parts = []
    for part in _parts(kernel, block):
        embedding = embed(kernel, part.measure)
        mu, z = embedding.mean(part.x), embedding.variance
        solved = _Solved(factor_gram(embedding.kernel, part.x, jitter=jitter), part.f, mu)
        share = (1.0 - solved.dot(-1, -2)) / (solved.dot(-1, -1) + tau)
        weights = solved.whole[..., -2] + solved.whole[..., -1] * share[..., None]
        terms = np.broadcast_to(z, share.shape), solved.dot(-2, -2), (1.0 - solved.dot(-1, -2)) * share
        error2 = terms[0] - terms[1] + terms[2]
        parts.append(
            BayesianQuadrature(
                **_explained(solved, part.f, tau),
                mean=np.einsum("ktn,tnc->ktc", weights, part.f),
                error2=_not_negative(error2, terms[0] + terms[1] + terms[2]),
                weights=weights,
            )
        )
    return _joined(parts)


class _Solved:
    """L^-1 V and K^-1 V (K, B, N, M) for the right-hand sides V: f (B, N, C), then mu (..., B, N) if given, then 1.

    Products come from L^-1 V, which keeps twice the digits of K^-1 V.
    """

    def __init__(self, factor: Factor, f: Array, mu: Array | None = None) -> None:
        shape = (*factor.batch_shape, factor.n) if len(factor.batch_shape) == 2 else (1, *factor.batch_shape, factor.n)
        columns = np.empty((*shape, f.shape[-1] + (1 if mu is None else 2)))
        columns[..., : f.shape[-1]] = f
        columns[..., -1] = 1.0
        if mu is not None:
            columns[..., -2] = mu
        self.factor = factor
        self.half, self.whole = factor.solve_lower(columns), factor.solve(columns)

    def dot(self, i: int, j: int) -> Array:
        """V_i'K^-1 V_j: (K, B)."""
        return np.asarray(np.einsum("ktn,ktn->kt", self.half[..., i], self.half[..., j]))


def _explained(solved: _Solved, f: Array, tau: float) -> dict[str, Array]:
    """The fields of `Explained`."""
    C, n, dof = f.shape[-1], f.shape[-2], degrees_of_freedom(f.shape[-2], tau)
    k1, shape = solved.whole[..., -1], solved.whole.shape[:2]
    S = (solved.dot(-1, -1) + tau)[..., None]
    b = np.einsum("ktn,ktnc->ktc", solved.half[..., -1], solved.half[..., :C])
    a = solved.whole[..., :C] - k1[..., None] * (b / S)[..., None, :]
    inverse = solved.factor.inverse_diagonal().reshape(*shape, n)
    diagonal = np.maximum(inverse - k1**2 / S, np.finfo(float).eps * inverse)[..., None]  # one point has P = 0
    logdet = solved.factor.logdet.reshape(*shape, 1)
    if not np.isinf(tau):
        logdet = logdet + np.log(S if tau == 0 else S / tau)
    least = n * np.finfo(float).eps ** 2  # the energy of rounding errors, f being in units near 1
    energy = np.maximum(np.sum(solved.half[..., :C] ** 2, axis=-2) - b**2 / S, least)
    without = np.maximum(energy[..., None, :] - a**2 / diagonal, least)
    return {
        "energy": energy,
        "evidence": -0.5 * (dof * np.log(energy) + logdet),
        "residuals": a / diagonal,
        "evidence_without": -0.5 * ((dof - 1) * np.log(without) + logdet[..., None] + np.log(diagonal)),
        "jitter": solved.factor.relative_jitter.reshape(shape),
    }


def _not_negative(error2: Array, size: Array) -> Array:
    """Variances, at least zero: what rounding made negative, for terms of this size, is clipped; more is an error."""
    if np.any(error2 < -_ROUNDING * size):
        worst = np.unravel_index(np.argmin(error2 / np.maximum(size, np.finfo(float).tiny)), error2.shape)
        raise ArithmeticError(
            f"the variance of a quadrature came out as {error2[worst]:.3g}, from terms of size {size[worst]:.3g}: the "
            f"Gram matrix and the embedding of this kernel do not belong together (a user's embedding rule?), or the "
            f"points are so close together for their size that subtracting a constant from x would help."
        )
    return np.maximum(error2, 0.0)


def _parts(kernel: Kernel, block: SampleBlock) -> list[SampleBlock]:
    """The block in chunks of bounded memory."""
    kernels = int(np.prod(kernel.log_lengthscales.shape[:-1]))
    return [block[piece] for piece in chunks(len(block.rows), block.n, arrays=_ARRAYS * kernels)]


def _joined(parts: list[Result]) -> Result:
    if len(parts) == 1:
        return parts[0]
    joined = {f.name: np.concatenate([getattr(p, f.name) for p in parts], axis=1) for f in fields(parts[0])}
    return type(parts[0])(**joined)
