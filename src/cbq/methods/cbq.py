"""Conditional Bayesian quadrature: Bayesian quadrature at each theta, then a Gaussian process over theta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

import numpy as np

from cbq.kernels import Kernel, Stein
from cbq.linalg import Jitter
from cbq.measures import Unnormalised
from cbq.methods.cbq_fit import CBQFit, check_samples
from cbq.methods.options import check_choices, check_jitter, check_kernels
from cbq.methods.registry import Compared, estimator
from cbq.samples import Samples
from cbq.stage1 import StageOneOptions, fit_stage_one, quadratures
from cbq.stage1.fit import DEFAULT_JITTER
from cbq.stage2 import GPPrior, StageTwoOptions, fit_stage_two

if TYPE_CHECKING:
    from cbq.methods.paper import PaperCBQ

Automatic = Literal["auto"]
Mean = Literal["constant", "zero"]
Lengthscales = Literal["per-theta", "shared"]
Outputs = Literal["separate", "shared"]
OPTIONS = {"mean": Mean, "lengthscales": Lengthscales, "outputs": Outputs}


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
class CBQ:
    """Conditional Bayesian quadrature. A configuration: `fit` returns the result and changes nothing.

    Parameters
    ----------
    kernel_x : the kernel of stage 1, on x. "auto" tries Matern 3/2, 5/2 and RBF at several lengthscales on the
        coordinates that fit the measure (raw, log, gaussianised) and averages over those that explain f best. A kernel of
        the library is taken as it is; lengthscales of it that are None are fitted.
    kernel_theta : the kernel of stage 2, on theta. "auto" takes the likeliest of Matern 3/2, 5/2 and RBF, on theta or
        on its logarithm.
    mean : the mean of f at each theta: an unknown "constant", or "zero".
    trend : the degree of the polynomial trend of I over theta, with unknown coefficients; None for none at all.
    noise : lambda, variance in units of I^2 that is added to that of every node; None to fit it, down to zero.
    ard : a lengthscale for every coordinate of x rather than one for all (where there are values enough).
    lengthscales : "per-theta", each theta averages over lengthscales by its own evidence, or "shared" by all.
    outputs : "separate", each output of f has its own kernels, or "shared": one factorisation serves all.
    log_theta : whether positive coordinates of theta may enter by their logarithms: "auto" lets the likelihood choose.
    borrow : where f does not depend on theta, the number of points up to which each theta fills its own up with points
        of others that lie in the bulk of its measure, at the cost of borrow^3 operations for each theta: more accurate, and
        between each theta for itself (0) and `cbq.MOBQ`, all points for all.
    calibrate : intervals that hold what they promise (see docs/calibration.md); False is the plain posterior of
        the paper's equations.
    jitter : what may be added to the diagonal of Gram matrices of stage 1.
    """

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

    def __post_init__(self) -> None:
        check_kernels(self)
        check_choices(self, OPTIONS)
        whole = isinstance(self.trend, int | np.integer) and not isinstance(self.trend, bool) and self.trend >= 0
        if self.trend is not None and not whole:
            raise ValueError(f"trend must be the degree of a polynomial, 0 or more, or None, but it is {self.trend!r}.")
        number = isinstance(self.noise, int | float | np.number) and not isinstance(self.noise, bool)
        if self.noise is not None and not (number and 0 <= self.noise < np.inf):
            raise ValueError(f"noise must be a variance, zero or more, or None to fit it, but it is {self.noise!r}.")
        for name in ("ard", "calibrate", "log_theta"):
            value = getattr(self, name)
            if not isinstance(value, bool) and (name, value) != ("log_theta", "auto"):
                allowed = "'auto', True or False" if name == "log_theta" else "True or False"
                raise ValueError(f"{name} must be {allowed}, but it is {value!r}.")
        if not isinstance(self.borrow, int | np.integer) or isinstance(self.borrow, bool) or self.borrow < 0:
            raise ValueError(f"borrow must be a number of points, zero or more, but it is {self.borrow!r}.")
        if self.log_theta is True and self.kernel_theta != "auto":
            raise ValueError("log_theta=True goes with kernel_theta='auto': write Warped(kernel, 'log') otherwise.")
        check_jitter(self.jitter)

    @staticmethod
    def paper(
        kernel_x: Kernel | None = None, kernel_theta: Kernel | None = None, lambdas: Sequence[float] | None = None
    ) -> PaperCBQ:
        """The choices of the paper, to reproduce it and to compare with it.

        lambdas: in units of the variance of f; None for those of the paper, 0.01, 0.1 and 1.
        """
        from cbq.methods.paper import LAMBDAS, PaperCBQ

        return PaperCBQ(kernel_x, kernel_theta, LAMBDAS if lambdas is None else lambdas)

    def fit(self, samples: Samples) -> CBQFit:
        """The distribution of I over theta from samples."""
        check_samples(samples)
        if self.mean == "zero" and (isinstance(self.kernel_x, Stein) or isinstance(samples.measure(0), Unnormalised)):
            raise ValueError(
                "mean='zero' would say that I is zero: a Stein kernel integrates to zero, and all that is left of f is "
                "its constant mean. Take mean='constant'."
            )
        if self.log_theta is True and not np.any(np.all(samples.theta > 0, axis=0)):
            raise ValueError("log_theta=True needs a coordinate of theta that is positive at all thetas, but none is.")
        if self.borrow and samples.depends_on_theta:
            raise ValueError(
                f"borrow={self.borrow} takes values of f from other thetas, but these samples say that f depends on "
                f"theta: pass depends_on_theta=False to cbq.Samples or cbq.Problem if it does not, or take borrow=0."
            )
        stage1, rows = (
            quadratures(samples, int(self.borrow), self._stage_one())
            if self.borrow
            else (fit_stage_one(samples, self._stage_one()), None)
        )
        columns, spread2 = stage1.columns, np.var(samples.table, axis=0)
        priors = [
            fit_stage_two(samples.theta, mean, variance, float(typical), self._stage_two())
            for mean, variance, typical in zip(columns["mean"].T, columns["variance"].T, spread2, strict=True)
        ]
        return CBQFit(
            samples.theta,
            stage1,
            priors,
            design=samples.design,
            calibrate=self.calibrate,
            settings={field.name: repr(getattr(self, field.name)) for field in fields(self)},
            warnings=_warnings(samples, self.trend, priors),
            counts=samples.counts,
            rows=rows,
        )

    def _stage_one(self) -> StageOneOptions:
        return StageOneOptions(
            kernel=self.kernel_x,
            mean=self.mean,
            ard=self.ard,
            lengthscales=self.lengthscales,
            outputs=self.outputs,
            jitter=self.jitter,
            student=self.calibrate,
        )

    def _stage_two(self) -> StageTwoOptions:
        return StageTwoOptions(self.kernel_theta, self.trend, self.noise, self.log_theta)


def _warnings(samples: Samples, trend: int | None, priors: Sequence[Sequence[GPPrior]]) -> list[str]:
    """What a user should know about stage 2."""
    found = []
    if samples.T == 1:
        found.append(
            "there is one theta, which says nothing about I elsewhere: predictions at other thetas have the spread of "
            "f as their standard deviation."
        )
    used = [prior.degree for each in priors for prior in each if prior.degree is not None]
    if trend is not None and used and min(used) < trend:
        found.append(f"the thetas cannot tell a trend of degree {trend} apart: one of degree {min(used)} is used.")
    return found
