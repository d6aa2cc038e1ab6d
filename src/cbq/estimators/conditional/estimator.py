"""Conditional Bayesian quadrature: the estimator and its options.

With `borrow`, a theta takes points of others, where f does not depend on theta: evenly spread over its bulk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from scipy.special import gammaincinv

from cbq.common import LARGEST, Array, Executor, Integers, flag, is_number, is_whole, shown
from cbq.estimators.base import (
    Compared,
    Estimator,
    check_choices,
    check_kernels,
    estimator,
    is_auto,
    require_several_values,
    settings,
)
from cbq.estimators.conditional.candidates import StageOneSelection
from cbq.estimators.conditional.fit import CBQFit
from cbq.estimators.conditional.paper import PaperCBQ
from cbq.estimators.conditional.stage_one import StageOneOptions, fit_stage_one
from cbq.estimators.conditional.stage_one_data import StageOne
from cbq.estimators.conditional.stage_two import (
    StageTwoOptions,
    fit_stage_two,
    require_memory_for_stage_two,
)
from cbq.fit import Finding
from cbq.gp import Calibration, GPPrior
from cbq.kernels import Kernel, Stein
from cbq.linalg import Jitter
from cbq.linalg.jitter import DEFAULT_JITTER, check_jitter
from cbq.linalg.threads import blas_threads
from cbq.measures import Measure, Unnormalised
from cbq.samples import Samples

Automatic = Literal["auto"]
Mean = Literal["constant", "zero"]
Lengthscales = Literal["per-theta", "shared"]
Outputs = Literal["separate", "shared"]
CHOICES = {"mean": Mean, "lengthscales": Lengthscales, "outputs": Outputs}


@estimator(
    "cbq",
    title="conditional Bayesian quadrature",
    order=20,
    compared=[
        Compared("CBQ"),
        Compared("CBQ, borrowing", {"borrow": 200}, suits=lambda samples: not samples.depends_on_theta),
    ],
)
@dataclass(frozen=True)
class CBQ(Estimator[CBQFit]):
    """Conditional Bayesian quadrature. A configuration: `fit` returns a fit and changes nothing.

    Parameters
    ----------
    kernel_x : the kernel of stage 1, on x. "auto" tries Matern 3/2, 5/2 and RBF at several lengthscales on the
        coordinates that suit the measure (raw, log, gaussianised) and averages over those that explain f best. A kernel
        is used as it is; its lengthscales that are None are fitted.
    kernel_theta : the kernel of stage 2, on theta. "auto" takes the likeliest of Matern 3/2, 5/2 and RBF, on theta or
        on its logarithm.
    mean : the mean of f at each theta: an unknown "constant", or "zero".
    trend : the degree of the polynomial trend of I over theta, with unknown coefficients; None for no trend.
    noise : lambda, a variance in units of I^2 that is added to that of every node; None to fit it, down to zero.
    ard : a lengthscale for every coordinate of x rather than one for all (where there are enough values).
    lengthscales : "per-theta", each theta averages over lengthscales by its own evidence, or "shared" by all thetas.
    outputs : "separate", each output of f has its own kernels, or "shared": one factorisation serves all.
    log_theta : whether positive coordinates of theta may enter by their logarithms: "auto" lets the evidence choose.
    borrow : where f does not depend on theta, the number of points up to which each theta adds points of others that
        lie in the bulk of its measure, at the cost of borrow^3 operations for each theta. More accurate than each theta
        by itself (0), and cheaper than all points for all thetas (`cbq.MOBQ`).
    calibrate : calibrated intervals (docs/theory/calibration.md); False is the plain posterior of the paper.
    jitter : what may be added to the diagonal of the Gram matrices of stage 1.
    selection : how stage 1 chooses and weighs kernels, `StageOneSelection`.
    calibration : how variances follow from what leaving out thetas moves, as in `cbq.MOBQ`. The size of an error is
        known within a factor of 2.25, in place of 2.5, since stage 1 has variances of its own. Without effect where
        `calibrate` is False.

    `CBQ.paper` is the estimator with the choices of the paper, to reproduce it and to compare with it: see `PaperCBQ`.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.CBQ().fit(problem.collect(T=12, N=20, rng=0, design="sobol"))
    >>> low, high = fit.interval([100.0])
    >>> bool(low[0] < problem.exact([100.0])[0] < high[0])
    True
    """

    paper: ClassVar = PaperCBQ

    kernel_x: Kernel | Automatic = "auto"
    kernel_theta: Kernel | Automatic = "auto"
    mean: Mean = "constant"
    trend: int | None = 0
    noise: float | None = None
    ard: bool = True
    lengthscales: Lengthscales = "per-theta"
    outputs: Outputs = "separate"
    log_theta: bool | Automatic = "auto"
    borrow: int = 0
    calibrate: bool = True
    jitter: Jitter = DEFAULT_JITTER
    selection: StageOneSelection = field(default_factory=StageOneSelection)
    calibration: Calibration = field(default_factory=lambda: Calibration(factor=2.25))

    def __post_init__(self) -> None:
        check_kernels(self)
        check_choices(self, CHOICES)
        if self.trend is not None and not is_whole(self.trend):
            raise ValueError(
                f"trend must be the degree of a polynomial, 0 or more, or None, but it is {shown(self.trend)}."
            )
        if self.noise is not None and not is_number(self.noise, 0, LARGEST):
            raise ValueError(
                f"noise must be a variance, zero or more, or None to fit it, but it is {shown(self.noise)}."
            )
        flag(self.ard, "ard")
        flag(self.calibrate, "calibrate")
        if not isinstance(self.log_theta, bool | np.bool_) and not is_auto(self.log_theta):
            raise ValueError(f"log_theta must be 'auto', True or False, but it is {shown(self.log_theta)}.")
        if not is_whole(self.borrow):
            raise ValueError(f"borrow must be a number of points, zero or more, but it is {shown(self.borrow)}.")
        if self._needs_logs and not is_auto(self.kernel_theta):
            raise ValueError("log_theta=True goes with kernel_theta='auto': write Warped(kernel, 'log') otherwise.")
        check_jitter(self.jitter)
        for name, kind in {"selection": StageOneSelection, "calibration": Calibration}.items():
            if not isinstance(value := getattr(self, name), kind):
                raise TypeError(f"{name} must be a {kind.__name__}, but it is {shown(value)}.")

    def _fit(self, samples: Samples, pool: Executor | None) -> CBQFit:
        require_several_values(samples)
        self._refuse(samples)
        require_memory_for_stage_two(samples.T, samples.C or 1)
        with blas_threads(max(samples.T, int(np.max(samples.counts)))):  # once, rather than for each small matrix
            return self._fitted(samples, pool)

    def _fitted(self, samples: Samples, pool: Executor | None) -> CBQFit:
        stage1, rows = (
            fit_borrowing_stage_one(samples, int(self.borrow), self._stage_one(), pool)
            if self.borrow
            else (fit_stage_one(samples, self._stage_one(), pool), None)
        )
        if samples.shares_design and self.calibrate:
            stage1 = stage1.with_stretch(np.maximum(stage1.stretch, np.sqrt(2.0)))  # as large as the own error of each
        columns, spread2 = stage1.columns, np.var(samples.table, axis=0)
        options = StageTwoOptions(self.kernel_theta, self.trend, self.noise, self.log_theta)
        priors = [
            fit_stage_two(samples.theta, mean, variance, float(typical), options)
            for mean, variance, typical in zip(columns["mean"].T, columns["variance"].T, spread2, strict=True)
        ]
        return CBQFit(
            samples.theta,
            stage1,
            priors,
            design=samples.design,
            calibration=self.calibration if self.calibrate else None,
            settings=settings(self),
            findings=_findings(samples, self.trend, priors),
            counts=samples.counts,
            rows=rows,
            drawn=samples.drawn,
            shared=samples.shares_design,
        )

    @property
    def _needs_logs(self) -> bool:
        return not is_auto(self.log_theta) and bool(self.log_theta)

    def _refuse(self, samples: Samples) -> None:
        """Raise where the options do not suit the samples."""
        stein = isinstance(self.kernel_x, Stein)
        if self.mean == "zero" and (stein or any(isinstance(each, Unnormalised) for each in samples.measures)):
            raise ValueError(
                "mean='zero' would say that I is zero: a Stein kernel integrates to zero, and all that is left of f is "
                "its constant mean. Pass mean='constant'."
            )
        if self._needs_logs and not np.any(np.all(samples.theta > 0, axis=0)):
            raise ValueError("log_theta=True needs a coordinate of theta that is positive at all thetas, but none is.")
        if self.borrow and samples.depends_on_theta:
            raise ValueError(
                f"borrow={self.borrow} uses values of f at other thetas, but these samples say that f depends on "
                f"theta: pass depends_on_theta=False to cbq.Samples or cbq.Problem if it does not, or borrow=0."
            )

    def _stage_one(self) -> StageOneOptions:
        return StageOneOptions(
            kernel=self.kernel_x,
            mean=self.mean,
            ard=self.ard,
            lengthscales=self.lengthscales,
            outputs=self.outputs,
            jitter=self.jitter,
            selection=self.selection,
            calibrate=bool(self.calibrate),
        )


def _findings(samples: Samples, trend: int | None, priors: Sequence[Sequence[GPPrior]]) -> list[Finding]:
    """What a user should know about stage 2."""
    found = []
    used = [prior.degree for each in priors for prior in each if prior.degree is not None]
    if trend is not None and used and min(used) < trend:
        text = f"there are too few distinct thetas for a trend of degree {trend}: degree {min(used)} is used."
        found.append(Finding("few thetas", text))
    return found


def borrowed(samples: Samples, most: int, among: slice = slice(None)) -> tuple[Samples, Integers]:
    """The samples with points of other thetas added, up to `most` at each theta; and the row that each came from.

    A theta keeps its own points. Those that it borrows lie in the bulk of its measure, each as far as possible from
    those before, in coordinates in which the measure is standard normal. The points of a theta are then not draws of
    its measure, which Bayesian quadrature does not require. among: the rows that points are taken from; a theta that
    has none of its own there keeps its first.
    """
    x, own = samples.all_points, samples.owners
    allowed = np.zeros(len(x), dtype=bool)
    allowed[among] = True
    allowed[samples.starts[samples.averages(allowed.astype(np.float64)) == 0]] = True
    rows = []
    for t in range(samples.T):
        mine = np.flatnonzero(allowed & (own == t))
        others = np.flatnonzero(allowed & (own != t))
        chosen = _choose(samples.measure(t), x[others], x[mine], most - len(mine))
        rows.append(np.concatenate([mine, others[chosen]]))
    return samples.regrouped(rows), np.concatenate(rows)


def fit_borrowing_stage_one(
    samples: Samples, most: int, options: StageOneOptions, executor: Executor | None = None
) -> tuple[StageOne, Integers]:
    """Stage 1 with borrowed points, and the rows of the points that it used.

    Its variances come from the kernels, but are at least what fits to halves of the points show: with so many points a
    kernel that is smoother than f, or one that rounding limits, is overconfident.
    """
    options = replace(options, drawn=False)
    whole, rows = borrowed(samples, most)
    found = fit_stage_one(whole, options, executor)
    if samples.n_evaluations < 8:  # too few to halve
        return found, rows
    mean = found.columns["mean"]
    halves = [fit_stage_one(borrowed(samples, most, slice(k, None, 2))[0], options, executor) for k in (0, 1)]
    apart2 = np.mean([(half.columns["mean"] - mean) ** 2 for half in halves], axis=0)
    # Twice as many points are taken to halve the error.
    return found.with_variance(np.maximum(found.columns["variance"], 0.25 * apart2)), rows


def _choose(measure: Measure, x: Array, own: Array, wanted: int) -> Integers:
    """Which of the points x (n, d) of others a theta with this measure and its own points (m, d) borrows."""
    if wanted <= 0:
        return np.empty(0, dtype=np.intp)
    if measure.has_atoms or isinstance(measure, Unnormalised):
        raise ValueError(f"borrow needs measures whose bulk is known, but {measure!r} has none: pass borrow=0.")
    u = measure.inverse_transport(x, base="normal")
    radius2 = 2.0 * gammaincinv(0.5 * measure.dim, 1.0 - 1e-4)  # a chi-square quantile: the bulk holds 99.99%
    candidates = np.flatnonzero(np.sum(u * u, axis=1) <= radius2)
    stride = max(1, len(candidates) // (10 * wanted))  # ten for each point are enough to spread them evenly
    candidates = candidates[::stride]
    if len(candidates) <= wanted:
        return candidates
    return candidates[_spread_out(u[candidates], measure.inverse_transport(own, base="normal"), wanted)]


def _spread_out(u: Array, taken: Array, wanted: int) -> Integers:
    """`wanted` of the points u (n, d), each the farthest from those before and from those that are taken (m, d)."""
    nearest2 = np.full(len(u), np.inf)
    for point in taken:
        np.minimum(nearest2, np.sum((u - point) ** 2, axis=1), out=nearest2)
    chosen = np.empty(wanted, dtype=np.intp)
    for k in range(wanted):
        chosen[k] = np.argmax(nearest2)
        np.minimum(nearest2, np.sum((u - u[chosen[k]]) ** 2, axis=1), out=nearest2)
    return chosen
