"""Conditional Bayesian quadrature as the paper does it, corrected where its formulas are wrong, for reproduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from cbq._arrays import finite
from cbq._checks import LARGEST, flag, is_number, shown
from cbq.kernels import RBF, Kernel, Matern, Stein, Warped
from cbq.kernels.warped import Columns
from cbq.measures import Gamma, Gaussian, LogNormal, Unnormalised
from cbq.methods.conditional.candidates import refuse_unembedded
from cbq.methods.conditional.fit import CBQFit
from cbq.methods.conditional.integrals import KernelShare, StageOne
from cbq.methods.conditional.paper_stages import (
    LAMBDAS,
    LENGTHSCALES,
    NUGGET,
    PaperStageOne,
    PaperStageTwo,
    fit_paper_stage_one,
    fit_paper_stage_two,
    is_stein,
)
from cbq.methods.conditional.stage_one import require_memory_for_stage_one
from cbq.methods.conditional.stage_two import require_memory_for_stage_two
from cbq.methods.options import require_several_values, settings
from cbq.methods.parameters import Parameters
from cbq.methods.registry import estimator
from cbq.samples import Samples


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


TOO_FAR = 10.0  # times the lengthscale that suits a coordinate of x, or as many times less: another kernel is needed


@estimator(
    "paper",
    title="CBQ with the choices of the paper",
    order=80,
    presets={name: {"kernel_x": kernel} for name, kernel in PRESETS.items()},
)
@dataclass(frozen=True)
class PaperCBQ(Parameters):
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
    lambdas : variances that stage 2 may add to those of all estimates, in units of the variance of the estimates.
    nugget : what stage 1 adds to the diagonal of its Gram matrix of unit amplitude. The paper's text has none: with 0
        it is the smallest with which the matrix can be factored. 1e-6 is that of its authors' code for linear.
    literal : whether to use the formulas as they are printed, in order to see what they cost:

        ====================  ==============================================  =========================================
        quantity              corrected                                       literal=True
        ====================  ==============================================  =========================================
        stage-2 likelihood    the determinant contains the noise              log |A k| alone: lambda is the largest
        RBF, Gaussian, d > 1  initial error l^d |l^2 + 2 Sigma|^-1/2          l |l^2 + 2 Sigma|^-1/2
        RBF of log x          initial error in closed form                    average of the mean embedding over points
        standard deviations   in units of f                                   in those of the standardised estimates
        ====================  ==============================================  =========================================

        The last is that of circulating code, all others are printed. Printed initial errors are known for a kernel
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
    lambdas: Sequence[float] = LAMBDAS
    nugget: float = NUGGET
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

    def fit(self, samples: Samples) -> CBQFit:
        """Estimate I over theta from samples."""
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
            calibrate=False,
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
        """Stage 1 of all outputs; the variances are in the units that those of stage 2 have."""
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
    if np.min(np.max(apart, axis=1)) <= np.log(TOO_FAR):
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
