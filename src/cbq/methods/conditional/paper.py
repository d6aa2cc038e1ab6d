"""The choices of the paper, corrected where its formulas are wrong, for reproduction and comparison.

Values of f are standardised over all thetas; stage 1 has a zero mean, and at all thetas the lengthscale and the
amplitude of a grid that make the first theta likeliest; stage 2 has a zero mean, a Matern 3/2 kernel and lambda from
{0.01, 0.1, 1}, if none are given. A Stein kernel gets the constant c of the paper, which has a closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cbq._arrays import Array, finite
from cbq._checks import shown
from cbq.gp.constant_mean import ZERO, Conditioned, GPData, integrate
from cbq.gp.families import KernelFamily
from cbq.kernels import RBF, Kernel, Matern, Stein, Warped
from cbq.linalg import Jitter, factor_gram
from cbq.measures import Gaussian, LogNormal, Unnormalised
from cbq.methods.conditional.blocks import BlockedSamples
from cbq.methods.conditional.candidates import refuse_unembedded
from cbq.methods.conditional.fit import CBQFit
from cbq.methods.conditional.stage_one import KernelShare, StageOne, require_memory_for_stage_one
from cbq.methods.conditional.stage_two import StageTwoOptions, fit_stage_two, require_memory_for_stage_two
from cbq.methods.options import require_several_values
from cbq.methods.registry import estimator
from cbq.samples import Samples

LENGTHSCALES = (0.1, 0.3, 1.0, 3.0, 10.0)  # in units of the spread of each coordinate
AMPLITUDES = tuple(10.0 ** np.arange(-2.0, 8.5, 0.5))  # in units of the variance of f
PAPER_LAMBDAS = (0.01, 0.1, 1.0)  # in units of the variance of f
SMALLEST_CONSTANT = 0.01  # c of a Stein kernel, in units of the squared error of an estimate


@estimator("paper", title="CBQ with the choices of the paper", order=80)
@dataclass(frozen=True)
class PaperCBQ:
    """Conditional Bayesian quadrature with the choices of the paper.

    kernel_x : lengthscales that are None are chosen from a grid. None: RBF under Gaussian measures, RBF of log x under
        lognormal ones, a Stein kernel where the measure is known up to a constant, Matern 3/2 otherwise.
    kernel_theta : None means Matern 3/2 with one lengthscale for each coordinate.
    lambdas : of stage 2, in units of the variance of f; the likeliest is taken.
    """

    kernel_x: Kernel | None = None
    kernel_theta: Kernel | None = None
    lambdas: Sequence[float] = PAPER_LAMBDAS

    def __post_init__(self) -> None:
        for name in ("kernel_x", "kernel_theta"):
            kernel = getattr(self, name)
            if kernel is not None and not isinstance(kernel, Kernel):
                raise TypeError(
                    f"{name} must be a kernel such as cbq.kernels.RBF(), or None, but it is {shown(kernel)}."
                )
        given = finite(self.lambdas, "lambdas")
        if given.ndim != 1 or not len(given) or np.any(given < 0):
            raise ValueError(
                f"lambdas must be some numbers, zero or more, such as (0.01, 0.1), but it is {shown(self.lambdas)}."
            )
        object.__setattr__(self, "lambdas", tuple(given.tolist()))

    def fit(self, samples: Samples) -> CBQFit:
        """Estimate I over theta from samples."""
        require_several_values(samples)
        require_memory_for_stage_one(samples)
        require_memory_for_stage_two(samples.T, samples.C or 1)
        kernel_x = _default(samples) if self.kernel_x is None else self.kernel_x
        kernel_theta = Matern(1.5) if self.kernel_theta is None else self.kernel_theta
        refuse_unembedded(kernel_x.to_fit(samples.all_points, True)[0], samples)
        parts = [_stage_one(output, kernel_x) for output in samples.outputs]
        columns = {name: np.stack([part.columns[name] for part in parts], axis=1) for name in parts[0].columns}
        stage1 = StageOne(
            **columns,
            point_weights=np.stack([part.point_weights for part in parts], axis=1),
            counts=samples.counts,
            hyperparameters=[[part.kernel] for part in parts],
            findings=(),
            single=samples.C is None,
        )
        priors = []
        for c, part in enumerate(parts):
            options = StageTwoOptions(kernel_theta, None, [n * part.unit2 for n in self.lambdas])
            mean, variance = columns["mean"][:, c] - part.centre, columns["variance"][:, c]
            fitted = fit_stage_two(samples.theta, mean, variance, part.unit2, options)
            priors.append([replace(prior, offset=part.centre) for prior in fitted])
        return CBQFit(
            samples.theta,
            stage1,
            priors,
            design=samples.design,
            calibrate=False,
            settings={
                "recipe": "the paper's",
                "kernel_x": repr(kernel_x),
                "kernel_theta": repr(kernel_theta),
                "lambdas": repr(self.lambdas),
            },
        )


@dataclass(frozen=True, eq=False)
class _Output:
    """Stage 1 of one output: columns of arrays (T,), weights (n,), the kernel, and the mean and variance of f."""

    columns: dict[str, Array]
    point_weights: Array
    kernel: KernelShare
    centre: float
    unit2: float


def _default(samples: Samples) -> Kernel:
    measures = {type(measure) for measure in samples.measures}
    if measures == {Gaussian}:
        return RBF()
    if measures == {LogNormal}:
        return Warped(RBF(), "log")
    return Stein(Matern(1.5)) if Unnormalised in measures else Matern(1.5)


def _stage_one(samples: Samples, kernel: Kernel) -> _Output:
    """Stage 1 of a single output, with the hyperparameters of the first theta at all."""
    centre, unit2 = float(np.mean(samples.table)), float(np.var(samples.table)) or 1.0
    unit = np.sqrt(unit2)
    whole = BlockedSamples(samples.rescaled(centre, unit))
    first = BlockedSamples(samples.rescaled(centre, unit).select(0)).blocks("raw")[0]
    chosen, amplitude = _hyperparameters(kernel, first)
    tau = _stein_constant(chosen, whole, amplitude) if isinstance(chosen, Stein) else ZERO
    result = whole.evaluate("raw", lambda block: integrate(chosen, block, tau, Jitter()))
    mean = result.mean[0, :, 0]
    none = np.zeros_like(mean)
    columns = {
        "mean": centre + unit * mean,
        "variance": unit2 * amplitude * result.error2[0],
        "bias": none,
        "spread2": none,
        "amplitude": np.full_like(mean, unit2 * amplitude),
    }
    return _Output(columns, result.weights[0], KernelShare("raw", repr(chosen), 1.0), centre, unit2)


def _hyperparameters(kernel: Kernel, data: GPData) -> tuple[Kernel, float]:
    """The likeliest kernel and amplitude A for the values at one theta."""
    guess, free = kernel.to_fit(data.x, ard=True)
    tried = [(*_amplitude(kernel, data), kernel) for kernel in KernelFamily(guess, free, LENGTHSCALES).members()]
    _, amplitude, best = max(tried, key=lambda t: t[0])
    return best, amplitude


def _amplitude(kernel: Kernel, data: GPData) -> tuple[float, float]:
    """The log-likelihood of f (N,) at one theta, up to a constant, at the likeliest A; and that A."""
    n = data.n
    q, b, S, logdet = (float(part[0]) for part in _products(kernel, data))
    if isinstance(kernel, Stein):
        A, c = _stein(q, b, S, n)
        return -0.5 * (n * np.log(A) + logdet + np.log1p(c * S / A) + (q - c * b**2 / (A + c * S)) / A), A
    likelihoods = [-0.5 * (q / A + n * np.log(A) + logdet) for A in AMPLITUDES]
    best = int(np.argmax(likelihoods))
    return likelihoods[best], AMPLITUDES[best]


def _products(kernel: Kernel, data: GPData) -> tuple[Array, Array, Array, Array]:
    """f'K^-1 f, 1'K^-1 f, 1'K^-1 1 and log |K| of each process, for one output: (B,) each."""
    factor = factor_gram(data.bound(kernel), data.x)
    conditioned = Conditioned(factor, data.f)
    total, b, S = (part[0, :, 0] for part in (conditioned.total, conditioned.b, conditioned.S))
    return total, b, S, factor.logdet


def _stein(q: float, b: float, S: float, n: int) -> tuple[float, float]:
    """The A and c that maximise the likelihood of the kernel A k_p + c at one theta, in closed form."""
    rest = max(q - b**2 / S, n * np.finfo(float).eps ** 2)
    signal = (n - 1) * b**2 / (S * rest)
    if signal <= 1:
        return max(q, n * np.finfo(float).eps ** 2) / n, 0.0
    A = rest / (n - 1)
    return A, A * (signal - 1) / S


def _stein_constant(kernel: Stein, whole: BlockedSamples, amplitude: float) -> float:
    """tau = A / c for all thetas, with c from all of them: where f is centred, one theta alone may say that c is zero.

    Given A, b / S at a theta is N(0, c + A / S), whose variance the mean square over thetas estimates.
    """
    parts = [_products(kernel, block) for block in whole.blocks("raw")]
    b, S = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    c = float(np.mean((b / S) ** 2 - amplitude / S))
    return amplitude / max(c, SMALLEST_CONSTANT * amplitude * float(np.mean(1 / S)))
