"""Bayesian quadrature with one kernel at many thetas: estimates, errors, evidence, and what each point adds.

Of one theta: K = L L' the Gram matrix, mu the mean embedding at the points, z the initial error, k1 = K^-1 1,
S = 1'k1, P = K^-1 - k1 k1' / (S + tau), a = P f, q = f'a. The mean of f has the prior N(0, A / tau): tau = 0 is the
flat constant mean, tau = inf the zero mean, and between them lies the Stein kernel k_p + c with c = A / tau.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from cbq._arrays import Array
from cbq.embeddings import embed
from cbq.kernels import Kernel
from cbq.linalg import Factor, Jitter, chunks, factor_gram
from cbq.stage1.blocks import Block

_ARRAYS = 3  # stacks of Gram matrices in memory at a time: the factor, and what the solves need
_ROUNDING = 1e-6  # of z: a variance more negative than this is no rounding error


@dataclass(frozen=True, eq=False)
class Explained:
    """How well a kernel explains f at B thetas.

    energy: (B, C), q. evidence: (B, C), the (restricted) log-likelihood at the amplitude q / dof, up to a constant.
    residuals: (B, N, C), e_i = a_i / P_ii, each value less its prediction from the other points. evidence_without:
    (B, N, C), the evidence of the other points, up to a constant. jitter: (B,), relative to the diagonal of K.
    """

    energy: Array
    evidence: Array
    residuals: Array
    evidence_without: Array
    jitter: Array


@dataclass(frozen=True, eq=False)
class Integrated(Explained):
    """Bayesian quadrature at B thetas.

    mean: (B, C), the estimates. error2: (B,), the squared worst-case errors, which are the variances at unit amplitude.
    weights: (B, N), with mean = weights . f.
    """

    mean: Array
    error2: Array
    weights: Array


Result = TypeVar("Result", bound=Explained)


def degrees_of_freedom(n: int, tau: float) -> int:
    """How many values are left for the amplitude: a flat mean takes one."""
    return n - 1 if tau == 0 else n


def explain(kernel: Kernel, block: Block, tau: float, jitter: Jitter) -> Explained:
    """How well a kernel explains f at the thetas of a block; it takes no embedding."""
    parts = []
    for part in _parts(block):
        solved = _Solved(factor_gram(kernel.bind(part.law), part.x, jitter=jitter), _columns(part.f))
        parts.append(Explained(**_explained(solved, part.f, tau)))
    return _joined(parts)


def integrate(kernel: Kernel, block: Block, tau: float, jitter: Jitter) -> Integrated:
    """Bayesian quadrature at the thetas of a block."""
    parts = []
    for part in _parts(block):
        embedding = embed(kernel, part.law)
        mu, z = embedding.mean(part.x), embedding.variance
        solved = _Solved(factor_gram(embedding.kernel, part.x, jitter=jitter), _columns(part.f, mu))
        share = (1.0 - solved.dot(-1, -2)) / (solved.dot(-1, -1) + tau)
        weights = solved.whole[..., -2] + solved.whole[..., -1] * share[:, None]
        # of these weights under the kernel alone: the jitter made them, but f has no noise
        error2 = z - solved.dot(-2, -2) + (1.0 - solved.dot(-1, -2)) * share
        error2 -= solved.factor.jitter * np.sum(weights**2, axis=-1)
        parts.append(
            Integrated(
                **_explained(solved, part.f, tau),
                mean=np.einsum("tn,tnc->tc", weights, part.f),
                error2=_not_negative(error2, np.broadcast_to(z, error2.shape)),
                weights=weights,
            )
        )
    return _joined(parts)


class _Solved:
    """L^-1 B and K^-1 B for right-hand sides B (B, N, M), of which the last is 1 and the first C are f.

    Products come from L^-1 B, which keeps twice the digits of K^-1 B.
    """

    def __init__(self, factor: Factor, columns: Array) -> None:
        self.factor = factor
        self.half, self.whole = factor.solve_lower(columns), factor.solve(columns)

    def dot(self, i: int, j: int) -> Array:
        """B_i'K^-1 B_j: (B,)."""
        return np.asarray(np.einsum("tn,tn->t", self.half[..., i], self.half[..., j]))


def _explained(solved: _Solved, f: Array, tau: float) -> dict[str, Array]:
    """The fields of `Explained`."""
    C, n, dof = f.shape[-1], f.shape[-2], degrees_of_freedom(f.shape[-2], tau)
    k1 = solved.whole[..., -1]
    S = solved.dot(-1, -1) + tau
    b = np.einsum("tn,tnc->tc", solved.half[..., -1], solved.half[..., :C])
    a = solved.whole[..., :C] - k1[..., None] * (b / S[:, None])[:, None, :]
    inverse = solved.factor.inverse_diagonal()
    diagonal = np.maximum(inverse - k1**2 / S[:, None], np.finfo(float).eps * inverse)[..., None]  # one point has P = 0
    logdet = solved.factor.logdet + (0.0 if np.isinf(tau) else np.log(S if tau == 0 else S / tau))
    least = n * np.finfo(float).eps ** 2  # the energy of rounding errors, f being in units near 1
    energy = np.maximum(np.sum(solved.half[..., :C] ** 2, axis=1) - b**2 / S[:, None], least)
    without = np.maximum(energy[:, None, :] - a**2 / diagonal, least)
    return {
        "energy": energy,
        "evidence": -0.5 * (dof * np.log(energy) + logdet[:, None]),
        "residuals": a / diagonal,
        "evidence_without": -0.5 * ((dof - 1) * np.log(without) + logdet[:, None, None] + np.log(diagonal)),
        "jitter": solved.factor.relative_jitter,
    }


def _columns(f: Array, mu: Array | None = None) -> Array:
    """The right-hand sides f, mu and 1 side by side: (B, N, C + 2), or without mu (B, N, C + 1)."""
    ones = np.ones((*f.shape[:-1], 1))
    return np.concatenate([f, ones] if mu is None else [f, mu[..., None], ones], axis=-1)


def _not_negative(error2: Array, z: Array) -> Array:
    """Variances (B,), at least zero: what rounding made negative is clipped, anything else is an error."""
    if np.any(error2 < -_ROUNDING * z):
        t = int(np.argmin(error2 / z))
        raise ArithmeticError(
            f"the variance of a quadrature came out as {error2[t]:.3g}, though the initial error is {z[t]:.3g}: the "
            f"Gram matrix and the embedding of this kernel do not belong together (a user's embedding rule?)."
        )
    return np.maximum(error2, 0.0)


def _parts(block: Block) -> list[Block]:
    """The block in chunks of bounded memory."""
    return [block[piece] for piece in chunks(len(block.rows), block.n, arrays=_ARRAYS)]


def _joined(parts: list[Result]) -> Result:
    if len(parts) == 1:
        return parts[0]
    return type(parts[0])(**{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(parts[0])})
