"""Conditional Bayesian quadrature as the paper does it, corrected where its formulas are wrong, for reproduction.

Each stage has a small grid of hyperparameters, of which the likeliest are taken. Both processes have a zero mean and
see standardised values: f over all points of all thetas in stage 1, the estimates of stage 1 in stage 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np

from cbq.common import LARGEST, Array, Executor, finite, flag, is_number, one_of, shown
from cbq.embeddings import embed
from cbq.estimators.base import Estimator, estimator, require_several_values, settings
from cbq.estimators.conditional.candidates import refuse_unembedded
from cbq.estimators.conditional.fit import CBQFit
from cbq.estimators.conditional.stage_one import require_memory_for_stage_one
from cbq.estimators.conditional.stage_one_data import BlockedSamples, KernelShare, StageOne
from cbq.estimators.conditional.stage_two import require_memory_for_stage_two
from cbq.fit import Finding
from cbq.gp import ZERO, GPData, GPPrior, KernelFamily, Process, ThetaCoordinates, integrate
from cbq.kernels import RBF, Kernel, Matern, Radial, Stein, Warped
from cbq.kernels.warped import Columns, Log
from cbq.linalg import Jitter, factor, factor_gram
from cbq.linalg.jitter import SMALL_JITTER
from cbq.linalg.threads import blas_threads
from cbq.measures import Gamma, Gaussian, LogNormal, Unnormalised
from cbq.samples import Samples, check_magnitude

LENGTHSCALES, AMPLITUDES = (0.1, 0.3, 1.0, 3.0, 10.0), (1.0, 10.0, 100.0, 1000.0)  # the grids of the paper
UNSUITED = 10.0  # times the lengthscale that suits a coordinate, or as many times less: another kernel is needed
ChosenAt = Literal["first", "each"]


def _whitened(columns: Sequence[int]) -> Kernel:
    return Warped(Warped(Matern(1.5), "whiten"), Columns(columns))


STEIN, STEIN_OF_LOG = Stein(Matern(1.5)), Warped(Stein(Matern(1.5)), "log")
PRESETS: dict[str, Kernel | tuple[Kernel, ...]] = {
    "linear": RBF(),
    "sir": STEIN,
    "sir-log": STEIN_OF_LOG,
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
    c is estimated from all thetas: by the first theta alone it is often zero, and then all estimates are.

    Parameters
    ----------
    kernel_x : lengthscales that are None are chosen from the grid. A sequence has one kernel for each output of f.
        None: RBF under Gaussian measures, RBF of log x under lognormal ones, a Stein kernel under Gamma measures (of
        log x where a density does not vanish at zero) and where the measure is known up to a constant, Matern 3/2
        otherwise. Where no lengthscale of the grid suits all coordinates of x, as on health, None is refused and a
        given kernel raises a warning: see `for_problem`.
    kernel_theta : None means Matern 3/2. A kernel whose lengthscales are given acts on theta that is not standardised.
    lengthscales, amplitudes : the grids of both stages. One amplitude is a given one. Stein kernels ignore the
        amplitudes.
    lambdas : variances that stage 2 may add to all estimates, in units of the variance of the estimates.
    hyperparameters : where stage 1 chooses its lengthscale and amplitude: at the "first" theta for all thetas, or at
        "each" theta for itself, which the paper names as an improvement.
    standardise : False leaves f and the estimates of stage 1 as they are: amplitudes and lambdas are then in units of
        f^2 and I^2, and both prior means are zero. With given kernels, one amplitude, one lambda and `nugget=0`, this
        is the setting of the paper's theorem.
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
    lengthscales: Sequence[float] = LENGTHSCALES
    amplitudes: Sequence[float] = AMPLITUDES
    lambdas: Sequence[float] = (0.01, 0.1, 1.0)
    hyperparameters: ChosenAt = "first"
    standardise: bool = True
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
        for name, example in {"lengthscales": (0.1, 1.0), "amplitudes": (1.0, 10.0), "lambdas": (0.01, 0.1)}.items():
            object.__setattr__(self, name, _grid(getattr(self, name), name, example))
        one_of(self.hyperparameters, ChosenAt, "hyperparameters")
        flag(self.standardise, "standardise")
        if not is_number(self.nugget, 0, LARGEST):
            raise ValueError(f"nugget must be a number, zero or more, but it is {shown(self.nugget)}.")
        flag(self.literal, "literal")

    @classmethod
    def for_problem(cls, name: str, **options: Any) -> PaperCBQ:
        """The estimator with the kernels that the paper has for one of its problems; options: all but `kernel_x`.

        name : "linear" (RBF), "sir" (Stein), "sir-log" (Stein of log x, which is more accurate), "butterfly" (RBF of
            log x), "butterfly-stein" (Stein of log x), or "health" (Matern 3/2 of the whitened inputs of each
            treatment).
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
        kernels = self._kernel_of_each_output(samples)
        parts = [
            fit_paper_stage_one(output, kernel, self) for output, kernel in zip(samples.outputs, kernels, strict=True)
        ]
        processes = [fit_paper_stage_two(samples.theta, part, kernel_theta, self) for part in parts]
        return CBQFit(
            samples.theta,
            self._stage_one(samples, parts, processes),
            [[process.prior] for process in processes],
            design=samples.design,
            calibration=None,
            settings={"recipe": "the paper's", **settings(self)},
            findings=self._unsuited(kernels, samples),
        )

    def _kernel_of_each_output(self, samples: Samples) -> list[Kernel]:
        C = samples.C or 1
        given = [_default(samples, self.lengthscales) if kernel is None else kernel for kernel in self._kernels_x]
        if len(given) not in (1, C):
            raise ValueError(
                f"kernel_x has {len(given)} kernels, but f has {C} {'output' if C == 1 else 'outputs'}: pass one "
                f"kernel for each, or a single kernel."
            )
        for kernel in given:
            refuse_unembedded(kernel.to_fit(samples.all_points, ard=False)[0], samples)
        return given * C if len(given) == 1 else given

    def _unsuited(self, kernels: Sequence[Kernel], samples: Samples) -> list[Finding]:
        """A finding for the first kernel of x that suits the coordinates of x with none of its lengthscales."""
        for kernel in dict.fromkeys(kernels):
            if (sizes := unsuited(kernel, samples, self.lengthscales)) is not None:
                text = (
                    f"{kernel!r} has one lengthscale for all coordinates of x, but lengthscales from {sizes[0]:.2g} to "
                    f"{sizes[1]:.2g} suit them: the estimates of stage 1 may be far off, and their intervals too short."
                )
                return [Finding("kernel", text)]
        return []

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
            amplitude=np.stack([part.amplitude / unit**2 for part, unit in zip(parts, units, strict=True)], axis=1),
            point_weights=np.stack([part.weights for part in parts], axis=1),
            counts=samples.counts,
            hyperparameters=[_shares(part.kernels) for part in parts],
            findings=(),
            single=samples.C is None,
            centred=bool(self.standardise),
        )


def _grid(values: Any, name: str, example: tuple[float, ...]) -> Sequence[float]:
    """The values as a tuple of numbers: positive ones, or for lambdas zero or more."""
    given, least = finite(values, name), "zero or more" if name == "lambdas" else "positive"
    if given.ndim != 1 or not len(given) or np.any(given < 0 if name == "lambdas" else given <= 0):
        raise ValueError(f"{name} must be some numbers, {least}, such as {example}, but it is {shown(values)}.")
    # A tuple stays the object that it is, as `sklearn.base.clone` demands.
    return values if isinstance(values, tuple) else tuple(given.tolist())


def _shares(kernels: Sequence[Kernel]) -> list[KernelShare]:
    """The kernels of all thetas, each with the share of the thetas that have it, the most frequent first."""
    counts = Counter(repr(kernel) for kernel in kernels)
    return [KernelShare("raw", name, count / len(kernels)) for name, count in counts.most_common()]


def _default(samples: Samples, lengthscales: Sequence[float]) -> Kernel:
    """The kernel for samples of an unknown problem, unless its lengthscales are of another size than x."""
    kernel = _default_for(samples)
    if (sizes := unsuited(kernel, samples, lengthscales)) is None:
        return kernel
    raise ValueError(
        f"the paper has one lengthscale between {min(lengthscales):g} and {max(lengthscales):g} for all coordinates of "
        f"x, but lengthscales from {sizes[0]:.2g} to {sizes[1]:.2g} suit them: pass kernel_x, such as "
        f"cbq.kernels.Warped(cbq.kernels.Matern(1.5), 'whiten'), or call CBQ.paper.for_problem('health') for the "
        f"problem of that name."
    )


def _default_for(samples: Samples) -> Kernel:
    """The kernel that the paper has for such measures."""
    kinds = {type(measure) for measure in samples.measures}
    if kinds == {Gamma}:
        vanish = all(np.all(measure.shape > 1.0) for measure in samples.measures if isinstance(measure, Gamma))
        return STEIN if vanish else STEIN_OF_LOG  # densities vanish at zero, as Stein's identity demands
    if kinds <= {Gaussian}:
        return RBF()
    if kinds <= {LogNormal}:
        return Warped(RBF(), "log")
    return STEIN if Unnormalised in kinds else Matern(1.5)


def unsuited(kernel: Kernel, samples: Samples, lengthscales: Sequence[float]) -> tuple[float, float] | None:
    """The least and largest lengthscale that suit x, if none of the grid, or of the kernel's, suits all coordinates.

    Lengthscales of Stein kernels are in units of the spread of x, and given ones are taken as meant on the line.
    """
    if isinstance(kernel, Radial) and kernel.lengthscale is not None and kernel.n_lengthscales == 1 < samples.d:
        lengthscales, kernel = np.atleast_1d(kernel.lengthscale).ravel().tolist(), kernel.with_lengthscale(None)
    suited, free = kernel.to_fit(samples.all_points, ard=True)
    if is_stein(kernel) or not np.any(free):
        return None
    logs = suited.log_lengthscales[free]
    if np.min(np.max(np.abs(np.log(lengthscales)[:, None] - logs), axis=1)) <= np.log(UNSUITED):
        return None
    return float(np.exp(np.min(logs))), float(np.exp(np.max(logs)))


@dataclass(frozen=True, eq=False)
class PaperStageOne:
    """Stage 1 of one output: mean, variance and amplitude (T,), weights (n,), and the kernels of all thetas, or of some
    thetas that share one.

    All are in units of f; those of the hyperparameters are `scale`.
    """

    mean: Array
    variance: Array
    weights: Array
    amplitude: Array
    kernels: tuple[Kernel, ...]
    scale: float = 1.0

    def rescaled(self, centre: float, scale: float) -> PaperStageOne:
        """The same for centre + scale f."""
        mean, by = centre + scale * self.mean, scale**2
        return PaperStageOne(mean, by * self.variance, self.weights, by * self.amplitude, self.kernels, scale)


def fit_paper_stage_one(samples: Samples, kernel: Kernel, options: PaperCBQ) -> PaperStageOne:
    """Stage 1 of a single output."""
    check_magnitude(samples.table)
    centre, scale = (float(np.mean(samples.table)), float(np.std(samples.table))) if options.standardise else (0.0, 1.0)
    if is_rounding(scale, samples.table):
        scale = 1.0  # f is constant
    scaled = samples.rescaled(centre, scale)
    sharing = [scaled.select(t) for t in range(samples.T)] if options.hyperparameters == "each" else [scaled]
    parts = [_with_hyperparameters_of_first(part, kernel, options) for part in sharing]
    mean, variance, weights, amplitude = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("mean", "variance", "weights", "amplitude")
    )
    kernels = tuple(part.kernels[0] for part in parts)
    return PaperStageOne(mean, variance, weights, amplitude, kernels).rescaled(centre, scale)


def _with_hyperparameters_of_first(samples: Samples, kernel: Kernel, options: PaperCBQ) -> PaperStageOne:
    """Stage 1 of some thetas, of which the first chooses the hyperparameters of all."""
    whole, first = BlockedSamples(samples), BlockedSamples(samples.select(0)).blocks("raw")[0]
    nugget = options.nugget
    chosen, amplitude = likeliest_at_first(kernel, first, options)
    tau = stein_precision(chosen, whole, amplitude, nugget) if is_stein(chosen) else ZERO
    fixed = KernelFamily(chosen, np.zeros(chosen.n_lengthscales, dtype=bool), (1.0,), (nugget,))
    rule = partial(integrate, fixed.batched(), tau=tau, jitter=Jitter(start=0.0), noise=(nugget,))
    result = whole.evaluate("raw", rule)
    error2 = result.error2[0]
    if options.literal:
        for block in whole.blocks("raw"):
            error2[block.rows] = np.maximum(error2[block.rows] + printed_excess(chosen, block), 0.0)
    mean, variance = result.mean[0, :, 0], amplitude * error2
    return PaperStageOne(mean, variance, result.weights[0], np.full(samples.T, amplitude), (chosen,))


def is_rounding(spread: float, values: Array) -> bool:
    """Whether values differ by rounding alone, from their standard deviation and their sizes."""
    return spread <= 1e-13 * float(np.max(np.abs(values)))


def is_stein(kernel: Kernel) -> bool:
    """Whether it is a Stein kernel, of x or of transformed x."""
    return is_stein(kernel.base) if isinstance(kernel, Warped) else isinstance(kernel, Stein)


def likeliest_at_first(kernel: Kernel, data: GPData, options: PaperCBQ) -> tuple[Kernel, float]:
    """The likeliest kernel of the grid and its amplitude A for the values (1, N, 1) at one theta."""
    kernels = kernels_on_grid(kernel, data.x, options.lengthscales)
    tried = [(*likeliest_amplitude(each, data, options.nugget, options.amplitudes), each) for each in kernels]
    _, amplitude, best = max(tried, key=lambda t: t[0])
    return best, amplitude


def kernels_on_grid(kernel: Kernel, points: Array, lengthscales: Sequence[float]) -> Iterator[Kernel]:
    """The kernel with each lengthscale of the grid, one for all coordinates, in place of those that are None.

    Those of a Stein kernel, for which the paper has no grid, are in units of the spread of the points.
    """
    guess, free = kernel.to_fit(points, ard=False)
    if not np.any(free):
        yield kernel
        return
    start = guess.log_lengthscales
    for ell in np.log(lengthscales):
        yield guess.with_log_lengthscales(np.where(free, start + ell if is_stein(kernel) else ell, start))


def likeliest_amplitude(
    kernel: Kernel, data: GPData, nugget: float, amplitudes: Sequence[float] = AMPLITUDES
) -> tuple[float, float]:
    """The log-likelihood of f (N,) at one theta, up to a constant, at the likeliest A; and that A."""
    n = data.n
    rest, beta, S, logdet = (float(part[0]) for part in quadratic_forms(kernel, data, nugget))
    if is_stein(kernel):
        A, c = likeliest_stein(rest, beta, S, n)
        energy = rest + S * beta**2 * A / (A + c * S)
        return -0.5 * (n * np.log(A) + logdet + np.log1p(c * S / A) + energy / A), A
    q = rest + S * beta**2
    likelihoods = [-0.5 * (q / A + n * np.log(A) + logdet) for A in amplitudes]
    best = int(np.argmax(likelihoods))
    return likelihoods[best], amplitudes[best]


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


def fit_paper_stage_two(theta: Array, stage1: PaperStageOne, kernel: Kernel, options: PaperCBQ) -> PaperStageTwo:
    """The likeliest process of the grid for the estimates of stage 1 at theta (T, p).

    Lengthscales of the grid are for standardised theta; a kernel whose lengthscales are given acts on theta.
    """
    centre, scale = (float(np.mean(stage1.mean)), float(np.std(stage1.mean))) if options.standardise else (0.0, 1.0)
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
            for each in kernels_on_grid(kernel, z, options.lengthscales)
            for value, A, noise in likelihoods(each(z), y, v, options)
        ]
    value, A, noise, best = max(tried, key=lambda t: t[0])
    unit2 = 1.0 if options.literal else scale**2
    n_fitted = (len(options.amplitudes) > 1) + (len(options.lambdas) > 1) + is_free
    prior = GPPrior(coordinates, best, A * unit2, noise * unit2, None, value, n_fitted, centre)
    return PaperStageTwo(prior, scale)


def likelihoods(k: Array, y: Array, v: Array, options: PaperCBQ) -> Iterator[tuple[float, float, float]]:
    """The log-likelihoods of y (T,) with noise variances v (T,) for the Gram matrix k (T, T), each with A and lambda.

    The determinant contains the noise unless it is to be `literal`.
    """
    T, literal = len(y), options.literal
    noiseless = float(factor(k, jitter=Jitter(start=0.0)).logdet) if literal else 0.0
    for A, noise in product(options.amplitudes, options.lambdas):
        gram = factor(A * k, nugget=v + noise, jitter=SMALL_JITTER, overwrite=True)
        logdet = T * np.log(A) + noiseless if literal else float(gram.logdet)
        whitened = gram.solve_lower(y[:, None])
        yield -0.5 * (float(np.sum(whitened**2)) + logdet + T * np.log(2 * np.pi)), A, noise
