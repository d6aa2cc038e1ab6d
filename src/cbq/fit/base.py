"""What every estimator returns: the predictive distribution of I over theta, and its answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
import numpy.typing as npt

from cbq.common import (
    Array,
    Booleans,
    Immutable,
    Progress,
    RNGLike,
    as_progress,
    between_0_and_1,
    count,
    data_frame,
    file_name,
    finite,
    flag,
    generator,
    is_whole,
    reporting,
    require_memory,
    shown,
    squarable,
    text,
)
from cbq.fit.answers import in_kind, r_squared, warning_beyond
from cbq.fit.emulator import Emulator
from cbq.fit.findings import (
    Finding,
    carried,
    chains,
    contradicted_bounds,
    contradicted_measures,
    equal_values,
    missed_variance,
    unseen_points,
    warn_of,
)
from cbq.fit.heavy_tails import infinite_variance
from cbq.fit.outcome import OPTIONS, Of, Outcome, OutcomeOptions
from cbq.fit.predictive import PredictiveDistribution, sample_jointly
from cbq.fit.summary import Summary, fit_html
from cbq.fit.thetas import Suggestion, beyond, beyond_findings
from cbq.io import Bounds, Field, Instance, Integer, Many, Numbers, Optional, Text, load_file, save_file, saved_classes
from cbq.report import Table
from cbq.samples import Failures, Family, FamilyNeeded, Names, Samples, by_theta, dataset_at, thetas_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cbq.fit.best import BestTheta, Constraints
    from cbq.fit.diagnostics import Diagnostic
    from cbq.fit.varied import Varied

FEW, PART = 0.02, 0.1  # the shares of failures, overall and at one theta, above which the summary begins with them
MAX_BLOCK = 4096  # thetas: predictive distributions are made for so many at a time, which bounds the memory
MAX_NUMBERS = 2**23  # in a matrix between a block of thetas and the observed ones
BAND_DRAWS = 2000  # of functions: the coverage of a band of 95% is then known to half a per cent
LEAST_DRAWS = 100
BAND_ROUNDING = 1e-6  # of the widest interval
MAX_SUGGESTED = 10_000  # runs


class Fit(Immutable, ABC):
    """I(theta) as a random function of theta. Immutable.

    All answers come from one predictive distribution: `predict` gives its mean, standard deviation or covariance,
    `interval` its quantiles, `sample` draws functions from it. Thetas are (M, p), or (M,) for p = 1. Where f has no
    axis of outputs, results are (M,); with C outputs they are (M, C), and in draws their errors have the `correlation`
    of the residuals. Means, ends of intervals and draws stay within the bounds of f, if the samples have some; standard
    deviations are those without bounds.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
    >>> mean, std = fit.predict([90.0, 100.0], return_std=True)
    >>> low, high = fit.interval([90.0, 100.0], level=0.9)
    >>> bool(np.all((low < mean) & (mean < high)))
    True
    """

    theta: Array  # (T, p), the observed ones
    C: int | None
    choice: str | None = None  # why this estimator was chosen, where several were tried
    failures: Failures | None = None  # where f failed, so that the samples lack points
    bounds: Array | None = None  # (2, C), with C = 1 for a single output: the bounds of f, and so of I
    unseen: int | None = None  # the points that have seen one value of f, where no other was seen: there may be others
    about_samples: tuple[Finding, ...] = ()  # from the samples, for this estimator
    calibration: Array | None = None  # (C,): factors of the standard deviations, which an adaptive run has shown
    _names: Names | None = None  # of the samples
    _has_other_family: bool = False  # than its samples: made by `under`
    _is_quiet: bool = False  # whether answers at thetas beyond the observed ones raise no warning
    conditional_on = "success"  # what I is then conditional on, by this estimator

    def with_choice(self, choice: str) -> Self:
        """The same fit with a sentence, for its summary, on why its estimator was chosen.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> fit.with_choice("Chosen by hand.").choice
        'Chosen by hand.'
        """
        return self._replaced(choice=text(choice, "choice"))

    def calibrated(self, factors: npt.ArrayLike) -> Self:
        """The same fit with its standard deviations multiplied by a factor for each output, (C,), or one for all.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> wider = fit.calibrated(2.0)
        >>> bool(np.allclose(wider.predict([100.0], return_std=True)[1], 2 * fit.predict([100.0], return_std=True)[1]))
        True
        """
        given = finite(factors, "factors")
        if given.shape not in ((), (1,), (self.C or 1,)) or not np.all(given > 0):
            raise ValueError(f"factors must be positive, one for each output, but they are {shown(factors)}.")
        earlier = 1.0 if self.calibration is None else self.calibration
        return self._replaced(calibration=np.broadcast_to(earlier * given, (self.C or 1,)).copy())

    @property
    def _quiet(self) -> Self:
        """The same fit, without warnings of thetas beyond the observed ones: for callers that report these."""
        return self if self._is_quiet else self._quiet_copy

    @cached_property
    def _quiet_copy(self) -> Self:
        copied = object.__new__(type(self))
        copied.__setstate__({**self.__dict__, "_is_quiet": True})  # with all that is computed already
        return copied

    def _with_samples(self, samples: Samples) -> Self:
        """The same fit with the failures, the bounds, the unseen values and the names of the samples."""
        return self._replaced(
            failures=samples.failures,
            bounds=samples.known_bounds,
            unseen=unseen_points(samples),
            _names=samples.names,
        )

    def _with_findings_about(self, samples: Samples) -> Self:
        """The same fit with findings about the samples."""
        return self._replaced(about_samples=self._findings_about(samples))

    @property
    def names(self) -> Names:
        """The names of the coordinates of theta and x and of the outputs of f, as in the samples."""
        return (self._names or Names()).with_theta(self.p).with_f(self.C)

    def _findings_about(self, samples: Samples) -> tuple[Finding, ...]:
        """Findings about the samples, for this estimator."""
        about = (contradicted_measures, contradicted_bounds, equal_values, chains, carried, infinite_variance)
        return tuple(each for find in about for each in find(samples))

    def _bounded(self, values: Array) -> Array:
        """Values of I (..., M) or (..., M, C), moved into its bounds."""
        return values if self.bounds is None else np.clip(values, *self.bounds)

    def _calibrated_predictives(self, theta: Array, *, joint: bool) -> Sequence[PredictiveDistribution]:
        return self._calibrated(self._predictives(theta, joint=joint))

    def _calibrated(self, found: Sequence[PredictiveDistribution]) -> Sequence[PredictiveDistribution]:
        """The predictive distributions, widened for unseen values of f and by the calibration of an adaptive run.

        If all values of f are equal and it has no bounds, the distributions are flat.
        """
        if self.unseen is not None:
            ends = np.array([[-np.inf], [np.inf]]) if self.bounds is None else self.bounds
            ends = np.broadcast_to(ends, (2, len(found)))
            found = [each.widened(self._missed(each.mean, *ends[:, c])) for c, each in enumerate(found)]
        if self.calibration is None:
            return found
        return [each.stretched(float(factor)) for each, factor in zip(found, self.calibration, strict=True)]

    def _missed(self, mean: Array, low: float, high: float) -> float:
        """The variance of an event that no point has met, which may move I, of mean (M,), towards one of its bounds."""
        assert self.unseen is not None
        return float(missed_variance(max(high - float(np.min(mean)), float(np.max(mean)) - low), self.unseen))

    def _predictives(self, theta: Array, *, joint: bool) -> Sequence[PredictiveDistribution]:
        """The predictive distribution of each output at theta (M, p); with covariances between thetas if `joint`."""
        return [self._predictive(theta, c, joint=joint) for c in self._outputs]

    def _predictive(self, theta: Array, c: int, *, joint: bool) -> PredictiveDistribution:
        """The predictive distribution of output c, unless `_predictives` makes all outputs at once."""
        raise NotImplementedError(f"{type(self).__name__} must define _predictive or _predictives.")

    def summary(self) -> Summary:
        """How the fit was made, the choices, and every warning: a string with structured attributes.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> print(fit.summary().partition(":")[0])
        Least-squares Monte Carlo
        >>> fit.summary().warnings
        ()
        """
        return Summary.of(self)

    @abstractmethod
    def _description(self) -> list[str]:
        """Lines of the summary on how the fit was made and on its choices."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The texts of all findings."""
        return tuple(map(str, self.findings))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a user should know; first, where f failed."""
        return (
            *(Finding("failures", each) for each in self.failure_warnings),
            *self.about_samples,
            *self._findings(),
            *self._remarks(),
        )

    @property
    def serious_findings(self) -> tuple[Finding, ...]:
        """Findings that say that intervals may not hold: each is raised as a `cbq.FitWarning` when the fit is made."""
        failures = (Finding("failures", each) for each in self.failure_warnings if self.has_many_failures)
        return (*failures, *self._doubts)

    @property
    def _doubts(self) -> tuple[Finding, ...]:
        """The serious findings other than failures of f."""
        return tuple(each for each in (*self.about_samples, *self._findings()) if not each.is_remark)

    @property
    def failure_warnings(self) -> tuple[str, ...]:
        """What a user should know if f failed at some points: none or one."""
        condition = f"I is conditional on {self.conditional_on}, and no interval includes the error of that"
        return () if self.failures is None else (f"{self.failures.described(self.names)}. {condition}.",)

    def _findings(self) -> tuple[Finding, ...]:
        """The findings of the estimator."""
        return ()

    def _remarks(self) -> tuple[Finding, ...]:
        """Findings that are remarks and take time: nobody looks for them when a fit is made."""
        return ()

    @property
    def has_many_failures(self) -> bool:
        """Whether f failed at more than a few per cent of the points, or at many points of one theta."""
        return self.failures is not None and (self.failures.share > FEW or bool(np.max(self.failures.shares) > PART))

    @property
    def p(self) -> int:
        """The dimension of theta."""
        return int(self.theta.shape[1])

    @property
    def correlation(self) -> Array:
        """The correlation of the errors of outputs: (C, C), or (1, 1) where f has no axis of outputs."""
        return np.eye(self.C or 1)

    @warning_beyond
    @in_kind
    def predict(
        self,
        theta: npt.ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        progress: Progress = False,
    ) -> Array | tuple[Array, Array]:
        """The mean of I at theta: (M,) or (M, C). Thetas are taken in blocks: a million of them need little memory.

        return_std: also its standard deviation, of the same shape.
        return_cov: also its covariance between the thetas, (M, M) or (M, M, C); of all of them at once.
        progress: True for a bar, or a function that is called with the numbers of finished and of all thetas.

        Thetas in a table with named columns, as of pandas, polars or pyarrow, or a mapping, are found by their names.
        Results at thetas in a data frame, or in a series for p = 1, are a series or a data frame of the same library,
        and of pandas with the same index, here and in `interval`, `band` and `to_frame`. The rows of a relation of
        DuckDB, or of a lazy frame, are gathered first, and results are in memory: in Arrow for DuckDB.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> mean, std = fit.predict([90.0, 100.0, 110.0], return_std=True)
        >>> mean.shape, std.shape
        ((3,), (3,))
        """
        progress = as_progress(progress)
        if flag(return_std, "return_std") & flag(return_cov, "return_cov"):
            raise ValueError("predict returns the standard deviation or the covariance, not both: ask for one of them.")
        thetas = self._thetas(theta)
        if return_cov:
            require_memory(
                self._joint_matrices(drawn=False) * len(thetas) ** 2,
                f"the covariance of I at theta, {len(thetas)} of them",
                "pass return_std=True, which takes thetas in blocks, or fewer thetas at a time",
            )
            predictives = self._calibrated_predictives(thetas, joint=True)
            mean = self._bounded(self._shaped([each.mean for each in predictives]))
            return mean, self._shaped([each.cov for each in predictives])
        if not return_std:
            return self._bounded(self._in_blocks(thetas, self._means, progress))
        mean, variance = self._read(thetas, lambda each: (each.mean, each.variance), progress)
        return self._bounded(mean), np.sqrt(variance)

    @warning_beyond
    @in_kind
    def interval(self, theta: npt.ArrayLike, level: float = 0.95) -> tuple[Array, Array]:
        """The ends of the central interval that holds I with probability `level`, each (M,) or (M, C).

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> low, high = fit.interval([90.0, 100.0, 110.0], level=0.95)
        >>> bool(np.all(low < high))
        True
        """
        level = between_0_and_1(level, "level")
        tails = 0.5 * (1 - level), 0.5 * (1 + level)
        low, high = self._bounded(self._read(self._thetas(theta), lambda each: [each.quantile(tail) for tail in tails]))
        return low, high

    @warning_beyond
    @in_kind
    def band(
        self, theta: npt.ArrayLike, level: float = 0.95, *, size: int = BAND_DRAWS, rng: RNGLike = 0
    ) -> tuple[Array, Array]:
        """The ends of a band that holds I at all thetas at once with probability `level`, each (M,) or (M, C).

        It is the pointwise interval, stretched from the median by one factor for all thetas: the `level`-quantile over
        joint draws of how far, in units of the interval, a draw leaves it. With C outputs each has a band of its own.

        size, rng : the number of draws, and a generator or a seed.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> theta = np.linspace(90.0, 110.0, 20)
        >>> low, high = fit.band(theta)
        >>> bool(np.all(high - low >= np.subtract(*fit.interval(theta)[::-1])))  # wider than the interval at each theta
        True
        """
        level, thetas = between_0_and_1(level, "level"), self._thetas(theta)
        if not is_whole(size, LEAST_DRAWS):
            raise ValueError(f"size must be a whole number of draws, {LEAST_DRAWS} or more, but it is {shown(size)}.")
        tails = 0.5 * (1 - level), 0.5, 0.5 * (1 + level)
        low, middle, high = self._read(thetas, lambda each: [each.quantile(tail) for tail in tails])
        if np.any(np.isinf(low)):
            return self._bounded(low), self._bounded(high)
        draws = self.sample(thetas, size, rng)
        # Where an interval is far narrower than others, rounding moves draws by more than its width.
        least = BAND_ROUNDING * np.max(high - low, axis=0)
        up, down = np.maximum(high - middle, least), np.maximum(middle - low, least)
        draws -= middle
        draws /= np.where(least > 0, np.where(draws > 0, up, -down), np.inf)
        away = np.max(draws, axis=1)  # (size,) or (size, C)
        factor = np.maximum(np.quantile(away, level, axis=0, method="higher"), 1.0)
        return self._bounded(middle - factor * (middle - low)), self._bounded(middle + factor * (high - middle))

    @warning_beyond
    def gradient(
        self,
        theta: npt.ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        level: float | None = None,
    ) -> Array | tuple[Array, ...]:
        """The mean of the slopes dI/dtheta at thetas (M, p): (M, p), or (M, p, C) with C outputs.

        return_std : also their standard deviation, of the same shape.
        return_cov : also the covariance between the slopes at each theta, (M, p, p) or (M, p, p, C).
        level : also the ends of intervals that hold each slope with this probability, of the same shape.

        Slopes are derivatives of the posterior of I, through the measure P_theta and through f. Where it has none, as
        with a Matern 1/2 kernel over theta, they are slopes over about 0.1 gaps between the observed thetas.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0))
        >>> delta, low, high = fit.gradient([90.0, 110.0], level=0.95)
        >>> delta.shape, bool(np.all((low < delta) & (delta < high)))
        ((2, 1), True)
        """
        from cbq.fit.slopes import covariances, mean_slopes, read_slopes

        thetas = self._thetas(theta)
        if flag(return_std, "return_std") + flag(return_cov, "return_cov") + (level is not None) > 1:
            raise ValueError("gradient takes one of return_std, return_cov and level: ask for one of them.")
        if level is not None:
            tails = 0.5 * (1 - between_0_and_1(level, "level")), 0.5 * (1 + level)
            return tuple(read_slopes(self, thetas, lambda each: [each.mean, *map(each.quantile, tails)]))
        if return_std:
            mean, variance = read_slopes(self, thetas, lambda each: [each.mean, each.variance])
            return mean, np.sqrt(variance)
        mean = mean_slopes(self, thetas)
        return (mean, np.moveaxis(read_slopes(self, thetas, covariances(self.p)), 0, 2)) if return_cov else mean

    @warning_beyond
    def noise(self, theta: npt.ArrayLike) -> Array:
        """The standard deviation of a single run at thetas (M, p), given x: (M,), or (M, C) with C outputs.

        Zero if f is not random. Few runs near a theta count less than the average of all.

        Examples
        --------
        >>> def f(x, theta, rng):
        ...     return np.sin(x[:, 0]) + theta[0] * rng.standard_normal(len(x))
        >>> problem = cbq.Problem(
        ...     f, lambda theta: cbq.measures.Gaussian(theta, 1.0), cbq.measures.Uniform(0.1, 1.0), stochastic=True
        ... )
        >>> low, high = cbq.MOBQ().fit(problem.collect(T=20, N=20, rng=0)).noise([0.2, 0.9])
        >>> bool(low < high)
        True
        """
        found = self._noise(self._thetas(theta))
        return found[:, 0] if self.C is None else found

    def _noise(self, theta: Array) -> Array:
        """The standard deviation (M, C) of a single run at thetas (M, p)."""
        raise TypeError(
            f"{type(self).__name__} has no estimate of the noise of f: fit cbq.MOBQ() or cbq.CBQ(), which tell it from "
            f"the spread of f over x."
        )

    @overload
    def sample(
        self,
        theta: npt.ArrayLike,
        size: int,
        rng: RNGLike,
        *,
        antithetic: bool = ...,
        gradient: Literal[False] = ...,
    ) -> Array: ...

    @overload
    def sample(
        self,
        theta: npt.ArrayLike,
        size: int,
        rng: RNGLike,
        *,
        antithetic: bool = ...,
        gradient: Literal[True],
    ) -> tuple[Array, Array]: ...

    @warning_beyond
    def sample(
        self,
        theta: npt.ArrayLike,
        size: int,
        rng: RNGLike,
        *,
        antithetic: bool = False,
        gradient: bool = False,
    ) -> Array | tuple[Array, Array]:
        """Draws of I as a function, at all thetas jointly: (size, M) or (size, M, C).

        antithetic : draws come in mirrored pairs, so that averages over them vary less.
        gradient : also the slopes of each draw, (size, M, p) or (size, M, p, C).

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> fit.sample([90.0, 100.0], size=5, rng=0).shape
        (5, 2)
        """
        thetas, rng, size = self._thetas(theta), generator(rng), count(size, "size")
        antithetic = flag(antithetic, "antithetic")
        outputs = len(self._outputs)
        M = len(thetas) * (1 + 7 * self.p if flag(gradient, "gradient") else 1)
        require_memory(
            max(self._joint_matrices(drawn=True) * M**2, 2 * size * M * outputs),
            f"sampling size = {size} functions at theta, {M} of them{f' for {outputs} outputs' * (outputs > 1)}",
            "pass fewer thetas, whose covariances grow with their square, or make fewer draws at a time",
        )
        if not gradient:
            return self._drawn(self._calibrated_predictives(thetas, joint=True), size, rng, antithetic=antithetic)
        from cbq.fit.slopes import with_slopes

        draws = sample_jointly(with_slopes(self, thetas), self.correlation, size, rng, antithetic=antithetic)
        draws = draws[..., 0] if self.C is None else draws
        values, slopes = np.split(draws, [len(thetas)], axis=1)
        return self._bounded(values), slopes.reshape(size, *thetas.shape, *slopes.shape[2:])

    def _drawn(
        self, predictives: Sequence[PredictiveDistribution], size: int, rng: np.random.Generator, *, antithetic: bool
    ) -> Array:
        """Draws (size, M) or (size, M, C) from the joint distributions of each output."""
        draws = sample_jointly(predictives, self.correlation, size, rng, antithetic=antithetic)
        return self._bounded(draws[..., 0] if self.C is None else draws)

    @warning_beyond
    def to_frame(self, theta: npt.ArrayLike | None = None, level: float = 0.95, *, gradient: bool = False) -> Any:
        """A data frame with a row per theta: the theta, mean, std and the ends of the interval.

        theta : a table of thetas is answered in its own library, and an array in pandas.
        gradient : also the slopes along each coordinate, such as `d value / d spot`, with the ends of their intervals.

        Where f failed, a column `failed` has the share of failures at the nearest theta; where some thetas are beyond
        the observed ones, a column `beyond` marks them.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> list(fit.to_frame([90.0, 100.0]).columns[:4])
        ['theta', 'mean', 'std', 'lower']
        """
        thetas = self.theta if theta is None else self._thetas(theta)
        mean, std = self.predict(thetas, return_std=True)
        low, high = self.interval(thetas, level)
        table = by_theta(thetas, {"mean": mean, "std": std, "lower": low, "upper": high}, self.names)
        if flag(gradient, "gradient"):
            from cbq.fit.slopes import slope_columns

            table |= slope_columns(self, thetas, level)
        return data_frame(table | self._marks(thetas), like=theta)

    @warning_beyond
    def to_dataset(self, theta: npt.ArrayLike | None = None, level: float = 0.95) -> Any:
        """An xarray Dataset of mean, std, lower and upper, with theta, and the outputs if f has any, as coordinates.

        theta : (M, p), by default the observed thetas. For p = 1, it is the axis that the results can be selected by.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> found = fit.to_dataset([90.0, 100.0])
        >>> list(found), found["mean"].sel(theta=100.0).shape
        (['mean', 'std', 'lower', 'upper'], ())
        """
        thetas = self.theta if theta is None else self._thetas(theta)
        mean, std = self.predict(thetas, return_std=True)
        low, high = self.interval(thetas, level)
        quantities = {"mean": mean, "std": std, "lower": low, "upper": high}
        return dataset_at(thetas, quantities, self.names, level=float(level), estimator=type(self).__name__)

    def score(self, theta: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        """R^2, the share of the variance of I over these thetas that the mean of the fit explains: 1 at the best.

        It is 1 - sum (truth - mean)^2 / sum (truth - average truth)^2, averaged over outputs, as in scikit-learn.
        truth: the true I at theta, or unbiased estimates of it, (M,) or (M, C).

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.CBQ().fit(problem.collect(T=12, N=20, rng=0))
        >>> theta = np.linspace(80.0, 120.0, 9)
        >>> fit.score(theta, problem.exact(theta)) > 0.9
        True
        """
        return r_squared(
            np.asarray(self.predict(self._thetas(theta))),
            squarable(finite(self.names.ordered("f", truth, "truth"), "truth"), "truth"),
        )

    def beyond(self, theta: npt.ArrayLike) -> Booleans:
        """Whether each theta is beyond the observed ones, (M,): predictions there rest on a prior alone.

        Such a theta is outside of their range in some coordinate, and further from all of them than twice the widest
        gap between neighbours among them.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> fit.beyond([100.0, 1000.0])
        array([False,  True])
        """
        return beyond(self._thetas(theta), self.theta)

    def _beyond_findings(self, theta: Array, *, tolerated: float = 0.0) -> tuple[Finding, ...]:
        """A finding where more than a tolerated share of thetas (M, p) are beyond the observed ones."""
        return beyond_findings(theta, self.theta, self.names, tolerated)

    def _marks(self, theta: Array) -> dict[str, npt.NDArray[Any]]:
        """Columns for tables at thetas (M, p), (M,) each, where they have something to say.

        failed: the share of failures at the sampled theta nearest to each. beyond: whether it is beyond all of them.
        """
        marks: dict[str, npt.NDArray[Any]] = {}
        if self.failures is not None:
            marks["failed"] = self.failures.share_near(theta)
        if np.any(found := self.beyond(theta)):
            marks["beyond"] = found
        return marks

    def suggest(self, n: int, prior: Any = None, *, rng: RNGLike = 0) -> Suggestion:
        """Where n further runs of f would help most, chosen jointly, so that I is known better over theta.

        n : at most 1000 for `MOBQ`, whose cost grows with its third power; of more, make some first and fit again.
        prior : the distribution Q of theta, over which it counts how well I is known; by default, the region of the
            observed thetas.
        rng : a generator or a seed, for the candidates among which the runs are chosen.

        Examples
        --------
        >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
        >>> cbq.CBQ().fit(samples).suggest(2).theta.shape
        (2, 1)
        """
        if not 1 <= count(n, "n") <= MAX_SUGGESTED:
            raise ValueError(f"n must be a number of runs, from 1 to {MAX_SUGGESTED}, but it is {shown(n)}.")
        return self._suggest(int(n), prior, generator(rng))

    def _suggest(self, n: int, prior: Any, rng: np.random.Generator) -> Suggestion:
        raise ValueError(
            f"{type(self).__name__} does not know where f should be run next: fit cbq.MOBQ() or cbq.CBQ() to these "
            f"samples."
        )

    def best(
        self,
        prior_or_bounds: Any = None,
        *,
        among: npt.ArrayLike | None = None,
        maximize: bool = True,
        subject_to: Constraints | None = None,
        output: int | str | None = None,
        epsilon: float | None = None,
        level: float = 0.95,
        size: int = 2000,
        rng: RNGLike = 0,
    ) -> BestTheta:
        """The theta at which I is largest, with the probability that it is, and the thetas that may be best instead.

        prior_or_bounds : where to look: in the central 99% of a measure of theta, at all points of a discrete one, or
            in the ends (p, 2) of a box; by default in the region of the observed thetas.
        among : thetas (M, p) to choose from instead.
        maximize : False for the smallest I.
        subject_to : limits of outputs, as {"cost": (None, 100.0)}, or of probabilities, quantiles and standard
            deviations of f, as {cbq.Probability(above=beds): (None, 0.05)}, which theta keeps with probability `level`;
            or a function of thetas (M, p) that returns which are allowed.
        output : the output to choose by, its index or its name, where f has several.
        epsilon : how far from the best is good enough (default: 1% of the range of I).
        level : of the interval of I, of the set of thetas that may be best, and of the constraints.
        size, rng : the number of joint draws of I on which probabilities rest, and a generator or a seed.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0))
        >>> best = fit.best([(60.0, 160.0)])
        >>> best.interval[0] <= problem.exact([best.theta])[0] <= best.interval[1]
        np.True_
        """
        from cbq.fit.best import find_best

        return find_best(
            self,
            prior_or_bounds,
            epsilon,
            among=among,
            maximize=maximize,
            subject_to=subject_to,
            output=output,
            level=level,
            size=size,
            rng=rng,
        )

    @property
    def emulator(self) -> Emulator:
        """The values of f itself at any x and theta; for fits of one process on all runs.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0))
        >>> mean, std = fit.emulator.predict([90.0, 110.0], return_std=True)  # here f does not depend on theta
        >>> mean.shape
        (2,)
        """
        raise ValueError(
            f"{type(self).__name__} has estimates of I(theta), and no model of f itself, so it has no emulator and no "
            f"outcome: fit cbq.MOBQ() to these samples."
        )

    def outcome(
        self,
        theta: npt.ArrayLike,
        *,
        size: int | None = None,
        of: Of = "run",
        rng: RNGLike = 0,
        options: OutcomeOptions = OPTIONS,
        progress: Progress = False,
    ) -> Outcome:
        """The distribution of f(X, theta), X ~ P_theta, at thetas (M, p): probabilities, quantiles, spread, shortfall.

        size : number of points of each measure, from a Sobol sequence; of a discrete measure, all atoms count. By
            default 2**15, and fewer, down to 2**12, at more than 8 thetas. For a probability of 1e-4, take 2**18.
        of : "run", the outcome of one run, noise included, or "mean", the mean of f at x; the same unless f is random.
        rng : a generator or a seed, of the points and of the draws of f from which intervals follow.
        options : how points, draws and thetas are chosen.
        progress : True for a bar, or a function that is called with the numbers of finished and of all thetas.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0))
        >>> outcome = fit.outcome([90.0, 110.0])
        >>> probability, low, high = outcome.sf(5.0, level=0.95)  # that the butterfly pays more than 5
        >>> bool(np.all((low <= probability) & (probability <= high)))
        True
        """
        return Outcome.of_fit(self, theta, size=size, of=of, rng=rng, options=options, progress=progress)

    def under(self, family: Any) -> Self:
        """The same runs under other measures of x: what if the input distribution were another one?

        family : a function from theta (p,) to the measure of x, or one measure for all thetas, as for `cbq.Samples`.

        The model of f stays as it is, and I is its integral under the new measures, in all answers of the new fit, such
        as `best`, `outcome` and `cbq.sensitivity`. Intervals grow where the runs do not reach, and a warning of the
        kind *reach* has the share of the new mass there. Only `MOBQ` and `LatentBQ` have such a model. The new fit
        cannot be saved: save this one, and call `under` on the loaded one.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0))
        >>> calm = fit.under(lambda theta: cbq.measures.LogNormal(np.log(theta), std=0.1))
        >>> calm.predict([100.0]).shape
        (1,)
        """
        found = self._under(family)
        warn_of(each for each in found.findings if each.kind == "reach")
        return found

    def _under(self, family: Any) -> Self:
        """The fit under another family, without a warning."""
        raise ValueError(
            f"{type(self).__name__} has no model of f that could be integrated under another family: fit cbq.MOBQ() to "
            f"these samples."
        )

    def vary(
        self,
        family: Callable[..., Any],
        values: npt.ArrayLike,
        theta: npt.ArrayLike | None = None,
        *,
        parameter: str | None = None,
        level: float = 0.95,
    ) -> Varied:
        """I under a family with a further parameter, at several values of it: a table, a figure, sliders in a report.

        family : a function of theta (p,) and of the parameter that returns the measure of x.
        values : of the parameter, (V,).
        theta : (M, p), by default thetas over the observed ones.
        parameter : its name; by default the name of the second argument of the family.
        level : of the intervals.

        `fit.report(path, more=[result])` has the sliders. A column `unreached` has the share of the mass where the runs
        do not reach, see `under`.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.MOBQ().fit(problem.collect(T=12, N=20, rng=0))
        >>> def family(theta, volatility):
        ...     return cbq.measures.LogNormal(np.log(theta), std=volatility)
        >>> varied = fit.vary(family, [0.1, 0.2], theta=[90.0, 100.0])
        >>> list(varied.to_frame().columns)
        ['volatility', 'theta', 'mean', 'lower', 'upper', 'unreached']
        """
        from cbq.fit.varied import Varied

        return Varied.of_fit(self, family, values, theta, parameter=parameter, level=level)

    def _unreached(self, theta: Array) -> Array:
        """The share (M,) of the mass of the measures at thetas (M, p) where the runs do not reach."""
        raise NotImplementedError

    @warning_beyond
    def plot(self, theta: npt.ArrayLike | None = None, **options: Any) -> Figure:
        """A figure of I over theta, with intervals; `cbq.fit.figures.plot_fit` describes the options at length.

        theta : where to draw; by default over the observed thetas and, with `prior=`, over the range of the prior.
        options : prior, output, level, truth (to compare with), half_width (a panel for thin bands), at (for slices),
            ax, points, band, upcoming (thetas of the next runs), xlabel, ylabel, title.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> figure = fit.plot(truth=problem.exact)
        >>> len(figure.axes) > 0
        True
        """
        from cbq.fit.figures import plot_fit

        return plot_fit(self, theta, **options)

    def report(
        self,
        path: str | PathLike[str],
        samples: Samples | None = None,
        *,
        prior: Any = None,
        truth: Callable[[Array], npt.ArrayLike] | None = None,
        level: float = 0.95,
        title: str | None = None,
        repeat: str | None = None,
        more: Sequence[Table] = (),
    ) -> None:
        """Write a self-contained HTML report: the question, the answer with sliders that read I, the choices and their
        reasons, checks, warnings, and how to repeat it.

        samples : the samples of the fit: the report then describes how f was evaluated, and checks the estimate by
            averages.
        prior : the distribution of theta: the report covers its central range, of 99%.
        truth : the true I, a function of theta (M, p), to compare with.
        level : of the intervals. title : of the page. repeat : code or a command that makes this fit.
        more : further results, such as of `cbq.sensitivity`, each with its figure and table in a section of its own.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> samples = problem.collect(T=12, N=20, rng=0)
        >>> fit = cbq.LSMC().fit(samples)
        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.report(f"{folder}/report.html", samples, prior=problem.prior)
        ...     pathlib.Path(folder, "report.html").read_text()[:15]
        '<!DOCTYPE html>'
        """
        from cbq.fit.report import FitReport, checked_tables

        name = file_name(path, "path")
        sections = [each._section for each in checked_tables(more)]
        FitReport.asked(self, samples, prior, truth, level, title, repeat, more=sections).page.write(name)

    def _diagnostics(self) -> tuple[Diagnostic, ...]:
        """Checks of the fit by leaving out parts of the data."""
        return ()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fit to a file that `cbq.load` reads: arrays and JSON, no code.

        If the fit needs the measure of x at new thetas, `cbq.load` must be given the family again; `summary` notes it.

        Examples
        --------
        >>> problem = cbq.problems.get("butterfly")
        >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.save(f"{folder}/fit.cbq")
        ...     again = cbq.load(f"{folder}/fit.cbq")
        >>> bool(again.predict([100.0]) == fit.predict([100.0]))
        True
        """
        if type(self) not in (known := saved_classes(Fit)).values():
            names = ", ".join(cls.__name__ for cls in known.values())
            raise TypeError(f"a {type(self).__name__} cannot be saved: only fits of the classes {names} can.")
        if self._has_other_family:
            raise ValueError(
                "a fit under another family cannot be saved: save the fit that it was made from, and call "
                "under(family) on the loaded one."
            )
        values = {name: getattr(self, name) for name in SAVED_FIELDS if name != "fit"}
        save_file(file_name(path, "path"), SAVED_FIELDS, {**values, "fit": self})

    def __repr__(self) -> str:
        ranges = self.names.ranges("theta", self.theta)
        return f"{type(self).__name__}(T={len(self.theta)}, p={self.p}, C={self.C}, {ranges})"

    def _repr_html_(self) -> str:
        return fit_html(self)

    @property
    def _outputs(self) -> range:
        return range(self.C or 1)

    def _joint_matrices(self, *, drawn: bool) -> int:
        """The matrices (M, M) that the joint distribution at M thetas takes, at the least: of all outputs.

        One for each component of its mixture, and two for a covariance; where it is `drawn` from, four for a root.
        """
        return len(self._outputs) + 4 if drawn else 3 * len(self._outputs)

    @property
    def _block_size(self) -> int:
        """The number of thetas whose predictive distributions are in memory at a time."""
        return max(1, min(MAX_BLOCK, MAX_NUMBERS // self._width))

    @property
    def _width(self) -> int:
        """The numbers that a prediction takes for each theta, besides its result."""
        return len(self.theta)

    def _in_blocks(
        self, thetas: Array, answers: Callable[[Array], Sequence[npt.ArrayLike]], progress: Progress = False
    ) -> Array:
        """Answers at all thetas, (..., M) or (..., M, C), from those (..., m) of each output at a block of m thetas."""
        step, found = self._block_size, []
        with reporting(progress, "predict", 0, len(thetas)) as report:
            for i in range(0, len(thetas), step):
                found.append(np.stack(answers(thetas[i : i + step]), axis=-1))
                report(min(i + step, len(thetas)), len(thetas))
        whole = np.concatenate(found, axis=-2)
        return whole[..., 0] if self.C is None else whole

    def _read(
        self, thetas: Array, ask: Callable[[PredictiveDistribution], Sequence[Array]], progress: Progress = False
    ) -> Array:
        """Evaluate `ask` at every theta, in blocks: (k, M) or (k, M, C), for k answers (M,) each."""
        every = self._calibrated_predictives
        return self._in_blocks(thetas, lambda block: [ask(each) for each in every(block, joint=False)], progress)

    def _means(self, theta: Array) -> list[Array]:
        """The means of each output at theta (M, p), (M,) each; an estimator may know cheaper ways to them."""
        return [each.mean for each in self._predictives(theta, joint=False)]

    def _shaped(self, columns: list[Array]) -> Array:
        """Results of all outputs, with their axis last, or without it where f has none."""
        return columns[0] if self.C is None else np.stack(columns, axis=-1)

    def _thetas(self, theta: npt.ArrayLike, name: str = "theta") -> Array:
        return squarable(thetas_in(theta, self.names, "this fit", name), name)


SAVED_FIELDS: dict[str, Field] = {  # of a file
    "choice": Optional(Text()),
    "failures": Optional(Instance(Failures)),
    "bounds": Optional(Bounds()),
    "unseen": Optional(Integer(1)),
    "about_samples": Many(Instance(Finding)),
    "calibration": Optional(Numbers("C", least=0.0, inline=True)),
    "fit": Instance(Fit),
    "names": Instance(Names),
}


def load(path: str | PathLike[str], family: Family | None = None) -> Fit:
    """The fit that `fit.save(path)` wrote. It gives the answers of the original, to the last bit.

    family: the function from theta (p,) to the measure of x with which the samples were made, such as `problem.family`.
        A file holds no code, so fits that need the measure at new thetas (importance sampling, multi-output Bayesian
        quadrature) cannot be loaded without it, unless their samples had measures of `cbq.measures` in place of a
        family; a family that gives the points other densities is refused. Other fits ignore it.

    Nothing in the file is executed, and everything is checked, first of all the checksum of the whole file: a file that
    is damaged, of another kind or of another version of the format is refused with a ValueError.

    Examples
    --------
    >>> problem = cbq.problems.get("butterfly")
    >>> fit = cbq.LSMC().fit(problem.collect(T=12, N=20, rng=0))
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit.save(f"{folder}/fit.cbq")
    ...     cbq.load(f"{folder}/fit.cbq").p
    1
    """
    if family is not None and not callable(family):
        raise TypeError(
            f"family must be a function from theta to the measure of x, such as lambda theta: Gaussian(theta, std=1.0)"
            f", but it is a {type(family).__name__}."
        )
    name = file_name(path, "path")
    try:
        found = load_file(name, SAVED_FIELDS, context=family)
    except FamilyNeeded as error:
        call = f"cbq.load({name!r}, family=problem.family)"
        raise FamilyNeeded(f"{error} Pass the function from theta to its measure again: {call}.") from error
    fit: Fit = found.pop("fit")
    return fit._replaced(_names=found.pop("names"), **found)
