"""Many Gaussian processes with an unknown constant mean, conditioned at once: evidence, leave-one-out, quadrature.

For one process and one kernel: K = L L' is the Gram matrix, mu the mean embedding at the points, z the initial error,
k1 = K^-1 1, S = 1'k1, P = K^-1 - k1 k1' / (S + tau), a = P f, q = f'a. The mean of f has the prior N(0, A / tau):
tau = 0 is the flat constant mean, tau = inf the zero mean, and between them lies the Stein kernel k_p + c with
c = A / tau. The amplitude A has the closed form q / dof and is never searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np

from cbq._arrays import Array
from cbq.embeddings import embed
from cbq.embeddings.many import in_threads
from cbq.kernels import Kernel
from cbq.linalg import Factor, Jitter, chunks, factor_gram
from cbq.linalg.gram import contract_gram, gram_features
from cbq.linalg.resident import moved, namespace, on_host
from cbq.linalg.threads import LARGE, spans
from cbq.measures import Measure

FLAT, ZERO = 0.0, np.inf  # tau of an unknown constant mean, and of a mean that is zero
GRADIENT_JITTER = Jitter(start=1e-10)  # larger than that of quadrature: gradients need the digits of the inverse
_STACKS = 3  # stacks of Gram matrices in memory at a time: the factor, and what the solves need
LEAST_VARIATION = 1e-5  # of the values of a process, in units near 1: below, they say nothing about the kernel
_HALF_DIGITS = float(np.sqrt(np.finfo(float).eps))  # a difference so much smaller than its terms has lost half of them
_ROUNDING = 1e-3  # a variance more negative than this share of its terms is no rounding error


@dataclass(frozen=True, eq=False)
class GPData:
    """Values of B independent processes, C outputs each, at N points.

    x: (B, N, d). f: (B, N, C). measure: of x, with batch shape (B,) or (), where kernels are bound to it or integrated
    under it.
    """

    x: Array
    f: Array
    measure: Measure | None = None

    @property
    def n(self) -> int:
        """The number of points of each process."""
        return int(self.x.shape[1])

    def bound(self, kernel: Kernel) -> Kernel:
        """The kernel with what it takes from the measure."""
        return kernel if self.measure is None else kernel.bind(self.measure)

    def __getitem__(self, index: Any) -> Self:
        """Some of the processes: a slice or an array of their numbers."""
        parts = {field.name: self._part(getattr(self, field.name), index) for field in fields(self)}
        return type(self)(**parts)

    @staticmethod
    def _part(value: Any, index: Any) -> Any:
        if isinstance(value, Measure):
            return value[index] if value.batch_shape else value
        return None if value is None else value[index]


@dataclass(frozen=True, eq=False)
class KernelEvidence:
    """How well each of K kernels explains f, for B processes.

    varies: (K, B, C), see `variation`, equal for all kernels. energy: (K, B, C), q. evidence: (K, B, C), the
    (restricted) log-likelihood at the amplitude q / dof, up to a constant; zero where f does not vary. residuals:
    (K, B, N, C), the leave-one-out residuals e_i = a_i / P_ii. precision: (K, B, N), P_ii, the inverses of their
    variances at unit amplitude. evidence_without: (K, B, N, C), the evidence of all other points, up to a constant.
    jitter: (K, B), relative to the mean diagonal.
    """

    varies: Array
    energy: Array
    evidence: Array
    residuals: Array
    precision: Array
    evidence_without: Array
    jitter: Array


@dataclass(frozen=True, eq=False)
class BayesianQuadrature(KernelEvidence):
    """Integrals under the measures of B processes, with each of K kernels.

    mean: (K, B, C). error2: (K, B), squared worst-case errors: the variances at unit amplitude. weights: (K, B, N),
    with mean = weights . f.
    """

    mean: Array
    error2: Array
    weights: Array


Result = TypeVar("Result", bound=KernelEvidence)


def degrees_of_freedom(n: int, tau: float) -> int:
    """The number of values that estimate the amplitude: a flat mean takes one of them."""
    return n - 1 if tau == FLAT else n


def centre(f: Array, tau: float) -> Array:
    """What to subtract from f (B, N, C) before all else, (B, 1, C): its average where the mean is flat, otherwise zero.

    P 1 = 0, but only up to rounding errors that K^-1 amplifies: what is left of a constant may exceed what varies.
    """
    average = np.mean(f, axis=-2, keepdims=True)
    return average if tau == FLAT else np.zeros_like(average)


def variation(f: Array) -> Array:
    """Whether centred values f (B, N, C), in units near 1, vary: (B, C), 0 for a constant, exactly 1 from 6e-5 on.

    The energy of a constant is that of rounding errors, which K^-1 amplifies: it says nothing about the kernel, and its
    evidence must not count. The weight rises smoothly, so that all results are continuous in f.
    """
    return np.asarray(-np.expm1(-np.mean((f / LEAST_VARIATION) ** 2, axis=-2)))


class Conditioned:
    """Processes conditioned on f (B, N, C), from factors of their Gram matrices with the batch shape (K, B) or (B,).

    Right-hand sides V are f, then mu (..., B, N) if it is given, then 1. Products V_i'K^-1 V_j come from L^-1 V, which
    keeps twice the digits of K^-1 V.
    """

    def __init__(self, factor: Factor, f: Array, tau: float = FLAT, mu: Array | None = None) -> None:
        shape = (*(1,) * (2 - len(factor.batch_shape)), *factor.batch_shape, factor.n)
        columns = np.empty((*shape, f.shape[-1] + (1 if mu is None else 2)))
        columns[..., : f.shape[-1]] = f
        columns[..., -1] = 1.0
        if mu is not None:
            columns[..., -2] = mu
        self.factor, self.f, self.tau, self._columns = factor, f, tau, columns
        self.half = factor.solve_lower(columns)  # L^-1 V: (K, B, N, M)

    @cached_property
    def whole(self) -> Array:
        """K^-1 V: (K, B, N, M)."""
        return self.factor.solve(self._columns)

    def dot(self, i: int, j: int) -> Array:
        """V_i'K^-1 V_j: (K, B)."""
        return np.asarray(np.einsum("ktn,ktn->kt", self.half[..., i], self.half[..., j]))

    @cached_property
    def S(self) -> Array:
        """1'K^-1 1 + tau: (K, B, 1)."""
        return (self.dot(-1, -1) + self.tau)[..., None]

    @cached_property
    def b(self) -> Array:
        """1'K^-1 f: (K, B, C)."""
        C = self.f.shape[-1]
        return np.asarray(np.einsum("ktn,ktnc->ktc", self.half[..., -1], self.half[..., :C]))

    @cached_property
    def total(self) -> Array:
        """f'K^-1 f: (K, B, C)."""
        return np.asarray(np.sum(self.half[..., : self.f.shape[-1]] ** 2, axis=-2))

    @cached_property
    def logdet(self) -> Array:
        """log |K| with that of the mean's prior: (K, B, 1)."""
        logdet = self.factor.logdet.reshape(*self.half.shape[:2], 1)
        if np.isinf(self.tau):
            return logdet
        return np.asarray(logdet + np.log(self.S if self.tau == FLAT else self.S / self.tau))

    @property
    def least_energy(self) -> float:
        """The energy of rounding errors, for f in units near 1."""
        return float(self.f.shape[-2] * np.finfo(float).eps ** 2)

    @cached_property
    def energy(self) -> Array:
        """q = f'P f: (K, B, C)."""
        return np.maximum(self.total - self.b**2 / self.S, self.least_energy)

    @cached_property
    def varies(self) -> Array:
        """Whether f varies: (B, C), from 0 to 1."""
        return variation(self.f)

    @cached_property
    def evidence(self) -> Array:
        """The (restricted) log-likelihood at the amplitude q / dof, up to a constant: (K, B, C)."""
        return np.asarray(-0.5 * self.varies * (self.dof * np.log(self.energy) + self.logdet))

    @property
    def dof(self) -> int:
        """The degrees of freedom of the amplitude."""
        return degrees_of_freedom(self.f.shape[-2], self.tau)

    def leave_one_out(self) -> dict[str, Array]:
        """The fields of `KernelEvidence`."""
        C, n = self.f.shape[-1], self.f.shape[-2]
        k1, shape = self.whole[..., -1], self.half.shape[:2]
        a = self.whole[..., :C] - k1[..., None] * (self.b / self.S)[..., None, :]
        inverse = self.factor.inverse_diagonal().reshape(*shape, n)
        diagonal = np.maximum(inverse - k1**2 / self.S, np.finfo(float).eps * inverse)[..., None]  # one point: P = 0
        energy = self.energy[..., None, :]
        without = np.maximum(energy - a**2 / diagonal, _HALF_DIGITS * energy)  # one point may have all of the energy
        evidence_without = (self.dof - 1) * np.log(without) + self.logdet[..., None] + np.log(diagonal)
        return {
            "varies": np.broadcast_to(self.varies, self.energy.shape),
            "energy": self.energy,
            "evidence": self.evidence,
            "residuals": a / diagonal,
            "precision": diagonal[..., 0],
            "evidence_without": -0.5 * self.varies[:, None] * evidence_without,
            "jitter": self.factor.relative_jitter.reshape(shape),
        }

    def quadrature(self, z: Array) -> dict[str, Array]:
        """The fields that `BayesianQuadrature` adds, for initial errors z that broadcast against (K, B)."""
        missed = 1.0 - self.dot(-1, -2)  # 1 - 1'K^-1 mu
        share = missed / self.S[..., 0]
        weights = self.whole[..., -2] + self.whole[..., -1] * share[..., None]
        terms = np.broadcast_to(z, share.shape), self.dot(-2, -2), missed * share
        return {
            "mean": np.einsum("ktn,tnc->ktc", weights, self.f),
            "error2": _not_negative(terms[0] - terms[1] + terms[2], terms[0] + terms[1] + terms[2]),
            "weights": weights,
        }


def explain(
    kernel: Kernel, data: GPData, tau: float, jitter: Jitter, noise: Sequence[float] | None = None
) -> KernelEvidence:
    """How well kernels explain f; it takes no embedding.

    kernel: K of them, as lengthscales with the leading axes (K, 1), or a single one.
    noise: (K,), the noise variance of the values with each kernel, in units of the amplitude; None for none.
    """

    def evaluate(kernel: Kernel, part: GPData, nugget: Array | None) -> KernelEvidence:
        f = part.f - centre(part.f, tau)
        conditioned = Conditioned(factor_gram(part.bound(kernel), part.x, nugget=nugget, jitter=jitter), f, tau)
        return KernelEvidence(**conditioned.leave_one_out())

    return _in_chunks(evaluate, kernel, data, noise)


def explain_likeliest(kernel: Kernel, data: GPData, tau: float, jitter: Jitter) -> tuple[int, KernelEvidence]:
    """Which of K kernels has the largest evidence, summed over processes and outputs, and how it explains f.

    The others need no leave-one-out residuals. All Gram matrices are in memory at a time: the points must be few.
    """
    f = data.f - centre(data.f, tau)
    factor = factor_gram(data.bound(kernel), data.x, jitter=jitter)
    best = int(np.argmax(np.sum(Conditioned(factor, f, tau).evidence, axis=(1, 2))))
    return best, KernelEvidence(**Conditioned(factor[best : best + 1], f, tau).leave_one_out())


def integrate(
    kernel: Kernel, data: GPData, tau: float, jitter: Jitter, noise: Sequence[float] | None = None
) -> BayesianQuadrature:
    """Bayesian quadrature under the measures of the data, with kernels and noise as for `explain`."""

    def evaluate(kernel: Kernel, part: GPData, nugget: Array | None) -> BayesianQuadrature:
        embedding = embed(kernel, part.measure)
        mu, level = embedding_means(kernel, part), centre(part.f, tau)
        factor = factor_gram(embedding.kernel, part.x, nugget=nugget, jitter=jitter)
        conditioned = Conditioned(factor, part.f - level, tau, mu)
        found = conditioned.quadrature(embedding.variance)
        found["mean"] += level[:, 0]
        return BayesianQuadrature(**conditioned.leave_one_out(), **found)

    return _in_chunks(evaluate, kernel, data, noise)


def embedding_means(kernel: Kernel, data: GPData) -> Array:
    """E k(X, x) under the measures of the data at their points: (..., B, N), in threads where they are many."""

    def embedded(piece: slice) -> Array:
        part = data[piece]
        return embed(kernel, part.measure).mean(part.x)

    return in_threads(embedded, spans(len(data.x), data.n), axis=-2)


def evidence_and_gradient(kernel: Kernel, data: GPData, tau: float, noise: float | None = None) -> tuple[float, Array]:
    """The evidence summed over processes and outputs, and its gradient in the log-lengthscales (P,).

    dE/dK = -1/2 [K^-1 - k1 k1' / (S + tau) - a a' / A], A = q / dof. With a noise variance, in units of the amplitude,
    the derivative in its logarithm is appended: (P + 1,).
    """
    bound, f = data.bound(kernel), data.f - centre(data.f, tau)
    n = f.shape[1]
    factor = factor_gram(bound, data.x, nugget=noise, jitter=GRADIENT_JITTER)
    inverse, logdet = factor.resident_inverse(), factor.logdet
    a = on_host(inverse @ moved(f, inverse))
    if not np.isinf(tau):
        k1 = on_host(inverse.sum(-1))
        S = np.sum(k1, axis=-1) + tau
        a = a - k1[..., None] * (np.einsum("tn,tnc->tc", k1, f) / S[:, None])[:, None, :]
        inverse -= moved(k1[:, :, None], inverse) * moved((k1 / S[:, None])[:, None, :], inverse)
        logdet = logdet + np.log(S)
    dof = degrees_of_freedom(n, tau)
    varies = variation(f)
    amplitude = np.maximum(np.einsum("tnc,tnc->tc", f, a), n * np.finfo(float).eps ** 2) / max(dof, 1)
    slope = moved(np.sum(varies, axis=1)[:, None, None], inverse) * inverse
    slope -= moved(a, inverse) @ moved((a * (varies / amplitude)[:, None, :]).swapaxes(-1, -2), inverse)
    value = -0.5 * np.sum(varies * (dof * np.log(amplitude) + logdet[:, None]))
    features, _, _ = gram_features(bound, data.x)
    gradient = np.sum(contract_gram(bound, features, slope, bound.n_lengthscales), axis=0)
    if noise is not None:
        gradient = np.append(gradient, noise * float(namespace(slope).einsum("tnn->", slope)))
    return float(value), -0.5 * gradient


def _not_negative(error2: Array, size: Array) -> Array:
    """Variances, at least zero: rounding may make one negative relative to the size of its terms; more is an error."""
    if np.any(error2 < -_ROUNDING * size):
        worst = np.unravel_index(np.argmin(error2 / np.maximum(size, np.finfo(float).tiny)), error2.shape)
        raise ArithmeticError(
            f"the variance of a quadrature is {error2[worst]:.3g}, from terms of size {size[worst]:.3g}: the Gram "
            f"matrix and the embedding of this kernel do not belong together (check an embedding rule of your own), or "
            f"the points are so close together for their size that subtracting a constant from x would help."
        )
    return np.maximum(error2, 0.0)


def _in_chunks(
    evaluate: Callable[[Kernel, GPData, Array | None], Result],
    kernel: Kernel,
    data: GPData,
    noise: Sequence[float] | None,
) -> Result:
    """`evaluate` of all kernels and processes, in chunks of bounded memory; large matrices go kernel by kernel."""
    ells = kernel.log_lengthscales
    kernels = int(np.prod(ells.shape[:-1]))
    if kernels > 1 and data.n >= LARGE:
        each = [(kernel.with_log_lengthscales(ells[k : k + 1]), slice(k, k + 1)) for k in range(kernels)]
        return _joined([_in_chunks(evaluate, one, data, noise and noise[k]) for one, k in each], axis=0)

    def nugget(part: GPData) -> Array | None:
        return None if noise is None else np.repeat(np.array(noise)[:, None], len(part.x), axis=1)  # (K, B)

    parts = [data[piece] for piece in chunks(len(data.x), data.n, arrays=_STACKS * kernels)]
    return _joined([evaluate(kernel, part, nugget(part)) for part in parts], axis=1)


def _joined(parts: list[Result], axis: int) -> Result:
    if len(parts) == 1:
        return parts[0]
    joined = {f.name: np.concatenate([getattr(p, f.name) for p in parts], axis=axis) for f in fields(parts[0])}
    return type(parts[0])(**joined)
