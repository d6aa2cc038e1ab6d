"""The two stages of the paper: for each a small grid of hyperparameters, of which the likeliest are taken.

Both processes have a zero mean and see standardised values: f over all points of all thetas in stage 1, the estimates
of stage 1 in stage 2. `literal` is described in `PaperCBQ`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from cbq._arrays import Array
from cbq.embeddings import embed
from cbq.gp.families import KernelFamily
from cbq.gp.heteroscedastic import JITTER, GPPrior, ThetaCoordinates
from cbq.gp.process import ZERO, Process
from cbq.gp.quadrature import GPData, integrate
from cbq.kernels import RBF, Kernel, Stein, Warped
from cbq.kernels.warped import Log
from cbq.linalg import Jitter, factor, factor_gram
from cbq.linalg.threads import blas_threads
from cbq.methods.conditional.blocks import BlockedSamples
from cbq.samples import Samples
from cbq.samples.arrays import check_magnitude

LENGTHSCALES = (0.1, 0.3, 1.0, 3.0, 10.0)
AMPLITUDES = (1.0, 10.0, 100.0, 1000.0)
LAMBDAS = (0.01, 0.1, 1.0)
NUGGET = 1e-6
SMALLEST_CONSTANT = 0.01  # c of a Stein kernel, in units of the squared error of an estimate
LEAST_SPREAD = 1e-13  # of values or estimates relative to their size: below it they differ by rounding
AS_SMALL_AS_POSSIBLE = Jitter(start=0.0)


@dataclass(frozen=True, eq=False)
class PaperStageOne:
    """Stage 1 of one output: mean and variance (T,) and weights (n,) of the estimates, the kernel, its amplitude.

    All are in units of f, whose standard deviation is `scale`.
    """

    mean: Array
    variance: Array
    weights: Array
    kernel: Kernel
    amplitude: float
    scale: float


def fit_paper_stage_one(samples: Samples, kernel: Kernel, nugget: float, *, literal: bool) -> PaperStageOne:
    """Stage 1 of a single output, with the hyperparameters of the first theta at all thetas."""
    check_magnitude(samples.table)
    centre, scale = float(np.mean(samples.table)), float(np.std(samples.table))
    if scale <= LEAST_SPREAD * np.max(np.abs(samples.table)):
        scale = 1.0  # f is constant
    scaled = samples.rescaled(centre, scale)
    whole, first = BlockedSamples(scaled), BlockedSamples(scaled.select(0)).blocks("raw")[0]
    chosen, amplitude = likeliest_at_first(kernel, first, nugget)
    tau = stein_precision(chosen, whole, amplitude, nugget) if is_stein(chosen) else ZERO
    fixed = KernelFamily(chosen, np.zeros(chosen.n_lengthscales, dtype=bool), (1.0,), (nugget,))
    rule = partial(integrate, fixed.batched(), tau=tau, jitter=AS_SMALL_AS_POSSIBLE, noise=(nugget,))
    result = whole.evaluate("raw", rule)
    error2 = result.error2[0]
    if literal:
        for block in whole.blocks("raw"):
            error2[block.rows] = np.maximum(error2[block.rows] + printed_excess(chosen, block), 0.0)
    return PaperStageOne(
        mean=centre + scale * result.mean[0, :, 0],
        variance=scale**2 * amplitude * error2,
        weights=result.weights[0],
        kernel=chosen,
        amplitude=scale**2 * amplitude,
        scale=scale,
    )


def is_stein(kernel: Kernel) -> bool:
    """Whether it is a Stein kernel, of x or of transformed x."""
    return is_stein(kernel.base) if isinstance(kernel, Warped) else isinstance(kernel, Stein)


def likeliest_at_first(kernel: Kernel, data: GPData, nugget: float) -> tuple[Kernel, float]:
    """The likeliest kernel of the grid and its amplitude A for the values (1, N, 1) at one theta."""
    tried = [(*likeliest_amplitude(each, data, nugget), each) for each in kernels_on_grid(kernel, data.x)]
    _, amplitude, best = max(tried, key=lambda t: t[0])
    return best, amplitude


def kernels_on_grid(kernel: Kernel, points: Array) -> Iterator[Kernel]:
    """The kernel with each lengthscale of the grid, one for all coordinates, in place of those that are None.

    Those of a Stein kernel, for which the paper has no grid, are in units of the spread of the points.
    """
    guess, free = kernel.to_fit(points, ard=False)
    if not np.any(free):
        yield kernel
        return
    start = guess.log_lengthscales
    for ell in np.log(LENGTHSCALES):
        yield guess.with_log_lengthscales(np.where(free, start + ell if is_stein(kernel) else ell, start))


def likeliest_amplitude(kernel: Kernel, data: GPData, nugget: float) -> tuple[float, float]:
    """The log-likelihood of f (N,) at one theta, up to a constant, at the likeliest A; and that A."""
    n = data.n
    rest, beta, S, logdet = (float(part[0]) for part in quadratic_forms(kernel, data, nugget))
    if is_stein(kernel):
        A, c = likeliest_stein(rest, beta, S, n)
        energy = rest + S * beta**2 * A / (A + c * S)
        return -0.5 * (n * np.log(A) + logdet + np.log1p(c * S / A) + energy / A), A
    q = rest + S * beta**2
    likelihoods = [-0.5 * (q / A + n * np.log(A) + logdet) for A in AMPLITUDES]
    best = int(np.argmax(likelihoods))
    return likelihoods[best], AMPLITUDES[best]


def quadratic_forms(kernel: Kernel, data: GPData, nugget: float) -> tuple[Array, Array, Array, Array]:
    """f'P f, beta, 1'K^-1 1 and log |K| of each process, for one output: (B,) each. K contains the nugget."""
    gram = factor_gram(data.bound(kernel), data.x, nugget=nugget, jitter=AS_SMALL_AS_POSSIBLE)
    process = Process(gram, data.f)
    return process.energy[:, 0], process.beta[:, 0, 0], process.R[:, 0, 0] ** 2, gram.logdet


def likeliest_stein(rest: float, beta: float, S: float, n: int) -> tuple[float, float]:
    """The A and c that maximise the likelihood of the kernel A k_p + c at one theta, in closed form.

    rest: f'P f. beta: the flat mean of f, with the variance A / S.
    """
    rest = max(rest, n * np.finfo(float).eps ** 2)
    signal = (n - 1) * S * beta**2 / rest
    if signal <= 1:
        return (rest + S * beta**2) / n, 0.0
    A = rest / (n - 1)
    return A, A * (signal - 1) / S


def stein_precision(kernel: Kernel, whole: BlockedSamples, amplitude: float, nugget: float) -> float:
    """tau = A / c for all thetas, with c from all of them: where f is centred, one theta alone may say that c is zero.

    Given A, beta at a theta is N(0, c + A / S), whose variance the mean square over thetas estimates.
    """
    parts = [quadratic_forms(kernel, block, nugget) for block in whole.blocks("raw")]
    beta, S = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    c = float(np.mean(beta**2 - amplitude / S))
    return amplitude / max(c, SMALLEST_CONSTANT * amplitude * float(np.mean(1 / S)))


def printed_excess(kernel: Kernel, data: GPData) -> Array:
    """The initial error as the paper prints it, less the right one: (B,).

    The Gaussian kernel has l |l^2 + 2 Sigma|^-1/2 in place of l^d |l^2 + 2 Sigma|^-1/2. That of log x has the average
    of its mean embedding over the points, although it has a closed form.
    """
    embedding = embed(kernel, data.measure)
    z = np.broadcast_to(embedding.variance, len(data.x))
    if isinstance(kernel, RBF) and kernel.n_lengthscales == 1:
        d = data.x.shape[-1]
        return np.asarray(z * np.expm1((1 - d) * kernel.log_lengthscales[0]))
    if isinstance(kernel, Warped) and isinstance(kernel.warp, Log) and isinstance(kernel.base, RBF):
        return np.asarray(np.mean(embedding.mean(data.x), axis=-1) - z)
    return np.zeros(len(data.x))


@dataclass(frozen=True, eq=False)
class PaperStageTwo:
    """The process over theta; `scale` is the standard deviation of the estimates, the unit of its hyperparameters."""

    prior: GPPrior
    scale: float


def fit_paper_stage_two(
    theta: Array, stage1: PaperStageOne, kernel: Kernel, lambdas: Sequence[float], *, literal: bool
) -> PaperStageTwo:
    """The likeliest process of the grid for the estimates of stage 1 at theta (T, p).

    Lengthscales of the grid are those of standardised theta; a kernel whose lengthscales are given acts on theta.
    """
    centre, scale = float(np.mean(stage1.mean)), float(np.std(stage1.mean))
    if scale <= LEAST_SPREAD * np.max(np.abs(stage1.mean)):
        scale = stage1.scale  # one theta, or estimates that are all equal
    y, v = (stage1.mean - centre) / scale, stage1.variance / scale**2
    raw = ThetaCoordinates.identity(theta.shape[1])
    is_free = bool(np.any(kernel.to_fit(theta, ard=False)[1]))
    coordinates = ThetaCoordinates.standard(theta, raw.logs) if is_free else raw
    z = coordinates(theta)
    with blas_threads(len(y)):
        tried = [
            (value, A, noise, each)
            for each in kernels_on_grid(kernel, z)
            for value, A, noise in likelihoods(each(z), y, v, lambdas, literal=literal)
        ]
    value, A, noise, best = max(tried, key=lambda t: t[0])
    unit2 = 1.0 if literal else scale**2
    n_fitted = 1 + (len(lambdas) > 1) + is_free
    prior = GPPrior(coordinates, best, A * unit2, noise * unit2, None, value, n_fitted, centre)
    return PaperStageTwo(prior, scale)


def likelihoods(
    k: Array, y: Array, v: Array, lambdas: Sequence[float], *, literal: bool
) -> Iterator[tuple[float, float, float]]:
    """The log-likelihoods of y (T,) with noise variances v (T,) for the Gram matrix k (T, T), each with A and lambda.

    The determinant contains the noise unless it is to be `literal`.
    """
    T = len(y)
    noiseless = float(factor(k, jitter=AS_SMALL_AS_POSSIBLE).logdet) if literal else 0.0
    for A, noise in product(AMPLITUDES, lambdas):
        gram = factor(A * k, nugget=v + noise, jitter=JITTER, overwrite=True)
        logdet = T * np.log(A) + noiseless if literal else float(gram.logdet)
        whitened = gram.solve_lower(y[:, None])
        yield -0.5 * (float(np.sum(whitened**2)) + logdet + T * np.log(2 * np.pi)), A, noise
