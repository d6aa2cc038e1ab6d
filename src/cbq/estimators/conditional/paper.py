"""Conditional Bayesian quadrature as the paper does it, corrected where its formulas are wrong, for reproduction.

Each stage has a small grid of hyperparameters, of which the likeliest are taken. Both processes have a zero mean and
see standardised values: f over all points of all thetas in stage 1, the estimates of stage 1 in stage 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from cbq.common import LARGEST, Array, Executor, finite, flag, is_number, shown
from cbq.embeddings import embed
from cbq.estimators.base import Estimator, estimator, require_several_values, settings
from cbq.estimators.conditional.candidates import refuse_unembedded
from cbq.estimators.conditional.fit import CBQFit
from cbq.estimators.conditional.stage_one import require_memory_for_stage_one
from cbq.estimators.conditional.stage_one_data import BlockedSamples, KernelShare, StageOne
from cbq.estimators.conditional.stage_two import require_memory_for_stage_two
from cbq.gp import ZERO, GPData, GPPrior, KernelFamily, Process, ThetaCoordinates, integrate
from cbq.kernels import RBF, Kernel, Matern, Stein, Warped
from cbq.kernels.warped import Columns, Log
from cbq.linalg import Jitter, factor, factor_gram
from cbq.linalg.jitter import SMALL_JITTER
from cbq.linalg.threads import blas_threads
from cbq.measures import Gamma, Gaussian, LogNormal, Unnormalised
from cbq.samples import Samples, check_magnitude

LENGTHSCALES, AMPLITUDES = (0.1, 0.3, 1.0, 3.0, 10.0), (1.0, 10.0, 100.0, 1000.0)  # the grids of the paper


def _whitened(columns: Sequence[int]) -> Kernel:
    return Warped(Warped(Matern(1.5), "whiten"), Columns(columns))


STEIN_OF_LOG = Warped(Stein(Matern(1.5)), "log")
PRESETS: dict[str, Kernel | tuple[Kernel, ...]] = {
    "linear": RBF(),
    "sir": STEIN_OF_LOG,
    "butterfly": Warped(RBF(), "log"),
    "butterfly-stein": STEIN_OF_LOG,
    "health": (_whitened(range(9)), _whitened([3, *range(9, 17)])),  # the nine inputs of each treatment
}


@estimator(
    "paper",
    title="CBQ with the choices of the paper",
    order=80,
    presets={name: {"kernel_x": kernel} for name, kernel in PRESETS.items()},
)
@dataclass(frozen=True)
class PaperCBQ(Estimator[CBQFit]):
    """Conditional Bayesian quadrature with the choices of the paper; `cbq.CBQ.paper` is this class.

    Stage 1 sees f standardised over all points of all thetas. Its lengthscale, one for all coordinates, is the
    likeliest of 0.1, 0.3, 1, 3 and 10 and its amplitude of 1, 10, 100 and 1000 at the first theta; all thetas have the
    same. Stage 2 sees the estimates of stage 1, standardised by their own mean and standard deviation, at standardised
    theta; its lengthscale and amplitude come from the same numbers, and lambda from `lambdas`. Both means are zero.

    A Stein kernel has a constant c besides. The paper finds c, amplitude and lengthscale by stochastic gradients; here
    the first two have their closed form, and the lengthscale comes from the grid in units of the spread of the points.
    c is estimated from all thetas: the first theta alone often says that it is zero, and then all estimates are.

    Parameters
    ----------
    kernel_x : lengthscales that are None are chosen from the grid. A sequence has one kernel for each output of f.
        None: RBF under Gaussian measures, RBF of log x under lognormal ones, a Stein kernel of log x under Gamma
        measures, a Stein kernel where the measure is known up to a constant, Matern 3/2 otherwise; refused where one
        lengthscale of the grid cannot suit all coordinates of x, as on health: see `for_problem`.
    kernel_theta : None means Matern 3/2. A kernel whose lengthscales are given acts on theta that is not standardised.
    lambdas : variances that stage 2 may add to all estimates, in units of the variance of the estimates.
    nugget : what stage 1 adds to the diagonal of its Gram matrix of unit amplitude. The paper's text has none: with 0
        it is the smallest with which the matrix can be factored. 1e-6 is in its authors' code for linear.
    literal : whether to use the formulas as they are printed, in order to see what they cost:

        ====================  ==============================================  =========================================
        quantity              corrected                                       literal=True
        ====================  ==============================================  =========================================
        stage-2 likelihood    the determinant contains the noise              log |A k| alone: lambda is the largest
        RBF, Gaussian, d > 1  initial error l^d |l^2 + 2 Sigma|^-1/2          l |l^2 + 2 Sigma|^-1/2
        RBF of log x          initial error in closed form                    average of the mean embedding over points
        standard deviations   in units of f                                   in those of the standardised estimates
        ====================  ==============================================  =========================================

        The last is in circulating code, all others are printed. Printed initial errors are known for a kernel
        with one lengthscale; they may be too small for the rest of a variance, which is zero then.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> fit = cbq.CBQ.paper.for_problem("butterfly").fit(samples)
    >>> fit.predict([100.0]).shape
    (1,)
    """

    kernel_x: Kernel | Sequence[Kernel] | None = None
    kernel_theta: Kernel | None = None
    _: KW_ONLY
    lambdas: Sequence[float] = (0.01, 0.1, 1.0)
    nugget: float = 1e-6
    literal: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.kernel_x, list | tuple):
            object.__setattr__(self, "kernel_x", tuple(self.kernel_x))
        for name, kernel in (*(("kernel_x", each) for each in self._kernels_x), ("kernel_theta", self.kernel_theta)):
            if kernel is not None and not isinstance(kernel, Kernel):
                raise TypeError(
                    f"{name} must be a kernel such as cbq.kernels.RBF(), or None, but it is {shown(kernel)}."
                )
        given = finite(self.lambdas, "lambdas")
        if given.ndim != 1 or not len(given) or np.any(given < 0):
            raise ValueError(
                f"lambdas must be some numbers, zero or more, such as (0.01, 0.1), but it is {shown(self.lambdas)}."
            )
        if not isinstance(self.lambdas, tuple):  # a tuple stays the object that it is, as `sklearn.base.clone` demands
            object.__setattr__(self, "lambdas", tuple(given.tolist()))
        if not is_number(self.nugget, 0, LARGEST):
            raise ValueError(f"nugget must be a number, zero or more, but it is {shown(self.nugget)}.")
        flag(self.literal, "literal")

    @classmethod
    def for_problem(cls, name: str, **options: Any) -> PaperCBQ:
        """The estimator with the kernels that the paper has for one of its problems; options: all but `kernel_x`.

        name : "linear" (RBF), "sir" (Stein), "butterfly" (RBF of log x), "butterfly-stein", or "health" (Matern 3/2 of
            the whitened inputs of each treatment). Stein kernels act on log x, as their density must vanish at zero.
        """
        if "kernel_x" in options:
            raise ValueError("for_problem chooses kernel_x: leave it out, or call CBQ.paper(kernel_x=...).")
        if not isinstance(name, str) or name not in PRESETS:
            raise ValueError(f"name must be one of {', '.join(PRESETS)}, but it is {shown(name)}.")
        return cls(PRESETS[name], **options)

    @property
    def _kernels_x(self) -> tuple[Any, ...]:
        return self.kernel_x if isinstance(self.kernel_x, tuple) else (self.kernel_x,)

    def _fit(self, samples: Samples, pool: Executor | None) -> CBQFit:
        require_several_values(samples)
        require_memory_for_stage_one(samples)
        require_memory_for_stage_two(samples.T, samples.C or 1)
        kernel_theta = Matern(1.5) if self.kernel_theta is None else self.kernel_theta
        if kernel_theta.needs_measure or kernel_theta.to_fit(samples.theta, ard=False)[0].log_lengthscales.ndim > 1:
            raise ValueError(
                f"kernel_theta = {kernel_theta!r} cannot act on theta: it needs a measure, or is a batch of kernels. "
                f"Pass a single kernel such as cbq.kernels.Matern(1.5)."
            )
        parts = [
            fit_paper_stage_one(output, kernel, self.nugget, literal=self.literal)
            for output, kernel in zip(samples.outputs, self._kernel_of_each_output(samples), strict=True)
        ]
        processes = [
            fit_paper_stage_two(samples.theta, part, kernel_theta, self.lambdas, literal=self.literal) for part in parts
        ]
        return CBQFit(
            samples.theta,
            self._stage_one(samples, parts, processes),
            [[process.prior] for process in processes],
            design=samples.design,
            calibration=None,
            settings={"recipe": "the paper's", **settings(self)},
        )

    def _kernel_of_each_output(self, samples: Samples) -> list[Kernel]:
        C = samples.C or 1
        given = [_default(samples) if kernel is None else kernel for kernel in self._kernels_x]
        if len(given) not in (1, C):
            raise ValueError(
                f"kernel_x has {len(given)} kernels, but f has {C} {'output' if C == 1 else 'outputs'}: pass one "
                f"kernel for each, or a single kernel."
            )
        for kernel in given:
            refuse_unembedded(kernel.to_fit(samples.all_points, ard=False)[0], samples)
        return given * C if len(given) == 1 else given

    def _stage_one(
        self, samples: Samples, parts: Sequence[PaperStageOne], processes: Sequence[PaperStageTwo]
    ) -> StageOne:
        """Stage 1 of all outputs; the variances are in the units of stage 2."""
        units = [process.scale if self.literal else 1.0 for process in processes]
        mean = np.stack([part.mean for part in parts], axis=1)
        none = np.zeros_like(mean)
        return StageOne(
            mean=mean,
            variance=np.stack([part.variance / unit**2 for part, unit in zip(parts, units, strict=True)], axis=1),
            bias=none,
            spread2=none,
            amplitude=none + [part.amplitude / unit**2 for part, unit in zip(parts, units, strict=True)],
            point_weights=np.stack([part.weights for part in parts], axis=1),
            counts=samples.counts,
            hyperparameters=[[KernelShare("raw", repr(part.kernel), 1.0)] for part in parts],
            findings=(),
            single=samples.C is None,
            centred=True,
        )


def _default(samples: Samples) -> Kernel:
    """The kernel for samples of an unknown problem, unless its lengthscales are of another size than x."""
    kernel = _default_for(samples)
    suited, free = kernel.to_fit(samples.all_points, ard=True)
    if is_stein(kernel) or not np.any(free):  # the lengthscales of a Stein kernel are in units of x
        return kernel
    apart = np.abs(np.log(LENGTHSCALES)[:, None] - suited.log_lengthscales)
    # Beyond ten times the lengthscale that suits a coordinate, or as many times less, another kernel is needed.
    if np.min(np.max(apart, axis=1)) <= np.log(10.0):
        return kernel
    low, high = (f"{end:.2g}" for end in np.exp([np.min(suited.log_lengthscales), np.max(suited.log_lengthscales)]))
    raise ValueError(
        f"the paper has one lengthscale between {LENGTHSCALES[0]:g} and {LENGTHSCALES[-1]:g} for all coordinates of x, "
        f"but lengthscales from {low} to {high} suit them: pass kernel_x, such as cbq.kernels.Warped("
        f"cbq.kernels.Matern(1.5), 'whiten'), or call CBQ.paper.for_problem('health') for the problem of that name."
    )


def _default_for(samples: Samples) -> Kernel:
    """The kernel that the paper has for such measures."""
    measures = {type(measure) for measure in samples.measures}
    by_measure: dict[type, Kernel] = {Gaussian: RBF(), LogNormal: Warped(RBF(), "log"), Gamma: STEIN_OF_LOG}
    if len(measures) == 1 and (kind := next(iter(measures))) in by_measure:
        return by_measure[kind]
    return Stein(Matern(1.5)) if Unnormalised in measures else Matern(1.5)


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
    if is_rounding(scale, samples.table):
        scale = 1.0  # f is constant
    scaled = samples.rescaled(centre, scale)
    whole, first = BlockedSamples(scaled), BlockedSamples(scaled.select(0)).blocks("raw")[0]
    chosen, amplitude = likeliest_at_first(kernel, first, nugget)
    tau = stein_precision(chosen, whole, amplitude, nugget) if is_stein(chosen) else ZERO
    fixed = KernelFamily(chosen, np.zeros(chosen.n_lengthscales, dtype=bool), (1.0,), (nugget,))
    rule = partial(integrate, fixed.batched(), tau=tau, jitter=Jitter(start=0.0), noise=(nugget,))
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


def is_rounding(spread: float, values: Array) -> bool:
    """Whether values differ by rounding alone, from their standard deviation and their sizes."""
    return spread <= 1e-13 * float(np.max(np.abs(values)))


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
    gram = factor_gram(data.bound(kernel), data.x, nugget=nugget, jitter=Jitter(start=0.0))
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
    smallest = 0.01 * amplitude * float(np.mean(1 / S))  # in units of the squared error of an estimate
    return amplitude / max(c, smallest)


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

    Lengthscales of the grid are for standardised theta; a kernel whose lengthscales are given acts on theta.
    """
    centre, scale = float(np.mean(stage1.mean)), float(np.std(stage1.mean))
    if is_rounding(scale, stage1.mean):
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
    noiseless = float(factor(k, jitter=Jitter(start=0.0)).logdet) if literal else 0.0
    for A, noise in product(AMPLITUDES, lambdas):
        gram = factor(A * k, nugget=v + noise, jitter=SMALL_JITTER, overwrite=True)
        logdet = T * np.log(A) + noiseless if literal else float(gram.logdet)
        whitened = gram.solve_lower(y[:, None])
        yield -0.5 * (float(np.sum(whitened**2)) + logdet + T * np.log(2 * np.pi)), A, noise
