"""Many processes with several kernels each, conditioned at once: evidence, leave-one-out, Bayesian quadrature.

`process` has the algebra and its letters: K is the Gram matrix of one kernel and one process, mu the mean
embedding at its points, z the initial error. The mean of f is an unknown constant (tau = 0), zero (tau = inf), or has a
prior between them: a Stein kernel k_p + c is k_p with tau = A / c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np

from cbq.common import Array
from cbq.embeddings import embed
from cbq.gp.process import Process
from cbq.kernels import Kernel
from cbq.linalg import Factor, Jitter, chunks, factor_gram
from cbq.linalg.gram import contract_gram, gram_features, namespace
from cbq.linalg.threads import LARGE, in_threads, spans
from cbq.measures import Measure

GRADIENT_JITTER = Jitter(start=1e-10)  # larger than for quadrature: gradients need the digits of the inverse
_STACKS = 3  # stacks of Gram matrices in memory at a time: the factor, and the arrays of the solves
LEAST_VARIATION = 1e-5  # of the values of a process, in units near 1: below, the evidence of a kernel is rounding
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
        """The kernel, completed by the measure."""
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
class Evidence:
    """How likely the values of f are with each of K kernels, for B processes.

    evidence: (K, B, C), the (restricted) log-likelihood at the amplitude q / dof, up to a constant; zero where f does
    not vary.
    """

    evidence: Array


@dataclass(frozen=True, eq=False)
class KernelEvidence(Evidence):
    """How well each of K kernels explains f, for B processes.

    varies: (K, B, C), see `variation`, equal for all kernels. energy: (K, B, C), q. residuals: (K, B, N, C), the
    leave-one-out residuals e_i = a_i / P_ii. precision: (K, B, N), P_ii, the inverses of their variances at unit
    amplitude. evidence_without: (K, B, N, C), the evidence of all other points, up to a constant. jitter: (K, B),
    relative to the mean diagonal.
    """

    varies: Array
    energy: Array
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


Result = TypeVar("Result", bound=Evidence)


def variation(f: Array) -> Array:
    """Whether centred values f (B, N, C), in units near 1, vary: (B, C), 0 for a constant, exactly 1 from 6e-5 on.

    The energy of a constant consists of rounding errors, which K^-1 amplifies: it is no evidence about the kernel and
    must not count. The weight rises smoothly, so that all results are continuous in f.
    """
    return np.asarray(-np.expm1(-np.mean((f / LEAST_VARIATION) ** 2, axis=-2)))


def _explained(process: Process, factor: Factor) -> dict[str, Array]:
    """The fields of `KernelEvidence`, for a process with the leading axes (K, B)."""
    energy, varies = process.least(process.energy), variation(process.f[0])
    precision, residuals = process.precision, process.residuals
    # one point may have all of the energy
    without = np.maximum(energy[..., None, :] - residuals * process.a, _HALF_DIGITS * energy[..., None, :])
    determinant = process.logdet[..., None] + np.log(precision)[..., None]
    return {
        "varies": np.broadcast_to(varies, energy.shape),
        "energy": energy,
        "evidence": varies * process.evidence,
        "residuals": residuals,
        "precision": precision,
        "evidence_without": -0.5 * varies[:, None] * ((process.dof - 1) * np.log(without) + determinant),
        "jitter": np.broadcast_to(factor.relative_jitter, energy.shape[:-1]),
    }


def explain(
    kernel: Kernel, data: GPData, tau: float, jitter: Jitter, noise: Sequence[float] | None = None
) -> KernelEvidence:
    """How well kernels explain f; it takes no embedding.

    kernel: K of them, as lengthscales with the leading axes (K, 1), or a single one.
    noise: (K,), the noise variance of the values with each kernel, in units of the amplitude; None for none.
    """

    def evaluate(kernel: Kernel, part: GPData, nugget: Array | None) -> KernelEvidence:
        factor = factor_gram(part.bound(kernel), part.x, nugget=nugget, jitter=jitter)
        return KernelEvidence(**_explained(_process(factor, part.f, tau), factor))

    return _in_chunks(evaluate, kernel, data, noise)


def evidence_only(
    kernel: Kernel, data: GPData, tau: float, jitter: Jitter, noise: Sequence[float] | None = None
) -> Evidence:
    """The evidence alone, as of `explain`, in half of its operations."""

    def evaluate(kernel: Kernel, part: GPData, nugget: Array | None) -> Evidence:
        factor = factor_gram(part.bound(kernel), part.x, nugget=nugget, jitter=jitter)
        process = _process(factor, part.f, tau)
        return Evidence(variation(process.f[0]) * process.evidence)

    return _in_chunks(evaluate, kernel, data, noise)


def _process(factor: Factor, f: Array, tau: float, mu: Array | None = None) -> Process:
    """The processes of factors with the batch shape (K, B) or (B,), given f (B, N, C) and embeddings mu (..., B, N).

    The result has the leading axes (K, B), with K = 1 where there is one kernel.
    """
    return Process(factor, f[None], tau=tau, mu=None if mu is None else mu[..., None, :])


def integrate(
    kernel: Kernel, data: GPData, tau: float, jitter: Jitter, noise: Sequence[float] | None = None
) -> BayesianQuadrature:
    """Bayesian quadrature under the measures of the data, with kernels and noise as for `explain`."""

    def evaluate(kernel: Kernel, part: GPData, nugget: Array | None) -> BayesianQuadrature:
        embedding = embed(kernel, part.measure)
        factor = factor_gram(embedding.kernel, part.x, nugget=nugget, jitter=jitter)
        process = _process(factor, part.f, tau, embedding_means(kernel, part))
        integrals = process.given
        initial = np.asarray(embedding.variance)[..., None]
        z, known, unknown = (term[..., 0] for term in integrals.variance_terms(initial))
        weights = integrals.weights[..., 0, :]
        return BayesianQuadrature(
            **_explained(process, factor),
            mean=np.einsum("ktn,tnc->ktc", weights, process.f[0]) + process.centre[..., 0, :],
            error2=_not_negative(z - known + unknown, z + known + unknown),
            weights=weights,
        )

    return _in_chunks(evaluate, kernel, data, noise)


def embedding_means(kernel: Kernel, data: GPData) -> Array:
    """E k(X, x) under the measures of the data at their points: (..., B, N), in threads where they are many."""

    def embedded(piece: slice) -> Array:
        part = data[piece]
        return embed(kernel, part.measure).mean(part.x)

    return in_threads(embedded, spans(len(data.x), data.n), axis=-2)


def evidence_and_gradient(kernel: Kernel, data: GPData, tau: float, noise: float | None = None) -> tuple[float, Array]:
    """The evidence summed over processes and outputs, and its gradient in the log-lengthscales (P,).

    With a noise variance, in units of the amplitude, the derivative in its logarithm is appended: (P + 1,).
    """
    bound = data.bound(kernel)
    factor = factor_gram(bound, data.x, nugget=noise, jitter=GRADIENT_JITTER)
    process = Process(factor, data.f, tau=tau)
    varies, amplitude = variation(process.f), process.least(process.energy) / max(process.dof, 1)
    slope = process.slope(varies, amplitude)
    value = -0.5 * np.sum(varies * (process.dof * np.log(amplitude) + process.logdet))
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
