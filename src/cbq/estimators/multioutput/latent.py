"""Events and counts: a Gaussian process behind values that are 0 or 1, or whole numbers, and their means over theta."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Executor, check_fields, evenly, flag, is_whole, one_of, shown
from cbq.estimators.base import Estimator, is_auto, settings
from cbq.estimators.multioutput.base import under_other_family, unreached
from cbq.fit import CountOutcome, DrawnMeans, Finding, Fit, PredictiveDistribution, heading, on_one_line, per_output
from cbq.gp import Reach
from cbq.gp.latent import LatentDraws, LatentPosterior, LatentPrior, Link, plausible_priors
from cbq.io import Instance, Integer, Many, Texts, saved
from cbq.kernels import RBF, Kernel
from cbq.linalg import Jitter
from cbq.measures import Empirical
from cbq.measures.points import sobol
from cbq.samples import Samples


@dataclass(frozen=True)
class LatentBQ(Estimator["LatentBQFit"]):
    """Bayesian quadrature for an f that is 0 or 1, or a count. A configuration: `fit` returns a fit.

    It refuses other values, so it is no choice of `Auto` and of comparisons.

    A Gaussian process g of x, and of theta where f depends on it, lies behind f: an event has the probability Phi(g),
    and a count is Poisson with the mean exp(g). Means and intervals of I, an average of such means, are within [0, 1],
    or not negative, without being cut off there. Where f is an exact function of x, an event happens where g > 0, as
    far as the runs tell.

    Parameters
    ----------
    kernel : of x, or of x and theta: an `RBF` by default. Its lengthscales are fitted.
    link : "probit" for events, "log" for counts. "auto" is "probit" where all values are 0 or 1, and "log" where they
        are whole numbers, zero or more.
    ard : a lengthscale for every coordinate rather than one for all.
    priors : amplitudes and lengthscales that explain the values about equally well: draws of their posterior.
    draws : of g, an equal share by each of these, whose averages are the predictive distribution: ends of 95% intervals
        have six of 256 beyond them.
    nodes : points without a run, drawn from the measures, at which g is drawn too: draws must differ where no run is.
    size : number of points of each measure; intervals do not contain their error.
    fitted : runs by which lengthscales are fitted, at most: each step takes their third power.
    most : runs, at most: a step towards the posterior takes their third power.
    seed : of the draws.

    Examples
    --------
    >>> problem = cbq.Problem(
    ...     lambda x, theta: np.where(x[:, 0] > 1.0, 1.0, 0.0),
    ...     lambda theta: cbq.measures.Gaussian(theta, 1.0),
    ...     cbq.measures.Uniform(-1.0, 1.0),
    ...     depends_on_theta=False,
    ... )
    >>> fit = cbq.LatentBQ().fit(problem.collect(8, 8, rng=0, design="sobol"))
    >>> low, high = fit.interval([-1.0, 0.0])
    >>> bool(np.all((0 <= low) & (high <= 1)))
    True
    """

    kernel: Kernel | Literal["auto"] = "auto"
    link: Link | Literal["auto"] = "auto"
    ard: bool = True
    priors: int = 8
    draws: int = 256
    nodes: int = 128
    size: int = 1024
    fitted: int = 200
    most: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if not is_auto(self.kernel) and not isinstance(self.kernel, Kernel):
            raise TypeError(
                f"kernel must be 'auto' or a kernel such as cbq.kernels.RBF(), but it is {shown(self.kernel)}."
            )
        flag(self.ard, "ard")
        one_of(self.link, Literal["auto", "probit", "log"], "link")
        check_fields(self, ("draws",), "a whole number, 100 or more", lambda value: is_whole(value, 100))
        check_fields(self, ("priors",), "a whole number, 1 or more", lambda value: is_whole(value, 1))
        check_fields(
            self, ("nodes", "size", "fitted", "most"), "a whole number, 8 or more", lambda value: is_whole(value, 8)
        )
        check_fields(self, ("seed",), "a whole number, zero or more", is_whole)

    def _fit(self, samples: Samples, pool: Executor | None) -> LatentBQFit:
        u, rng = inputs_of(samples), np.random.default_rng(self.seed)
        if len(u) > self.most:
            raise ValueError(
                f"there are {len(u)} runs, but LatentBQ takes most = {self.most}: pass some of the samples, a larger "
                f"most=, or fit cbq.MOBQ()."
            )
        priors: list[LatentPrior] = []
        some = evenly(len(u), self.fitted)
        base = RBF() if is_auto(self.kernel) else self.kernel
        assert isinstance(base, Kernel)
        kernel = base.to_fit(u, ard=self.ard)[0]
        for values in samples.table.T:
            link = link_of(values, self.link)
            priors += plausible_priors(
                kernel, u[some], values[some], link, rng, ard=self.ard, noisy=samples.stochastic, count=self.priors
            )
        return LatentBQFit(
            samples,
            priors,
            draws=self.draws,
            nodes=self.nodes,
            size=self.size,
            seed=self.seed,
            settings=settings(self),
        )


def inputs_of(samples: Samples) -> Array:
    """The inputs (n, D) of all runs."""
    x = samples.all_points
    return np.column_stack([x, samples.theta[samples.owners]]) if samples.depends_on_theta else x


def link_of(values: Array, asked: str) -> Link:
    """The link of values (n,) of one output."""
    events, counts = np.all((values == 0) | (values == 1)), np.all((values >= 0) & (values == np.round(values)))
    if (asked != "log" and events) or (asked != "probit" and counts):
        return "probit" if asked != "log" and events else "log"
    what = "0 or 1" if asked == "probit" else "whole numbers, zero or more"
    wrong = (
        values[~((values == 0) | (values == 1))] if asked == "probit" else values[values != np.abs(np.round(values))]
    )
    raise ValueError(f"LatentBQ is for values of f that are {what}, but one is {wrong[0]:.6g}: fit cbq.MOBQ().")


def check_fit(samples: Samples, priors: Sequence[LatentPrior], **_: Any) -> None:
    """Raise unless every output has the same number of priors, with kernels of its inputs."""
    if len(priors) % (samples.C or 1):
        raise ValueError(f"priors must be as many for each of {samples.C} outputs, but there are {len(priors)}.")
    for prior in priors:
        prior.kernel.check_dim(inputs_of(samples).shape[1])
    each = len(priors) // (samples.C or 1)
    for c, values in enumerate(samples.table.T):
        for prior in priors[c * each : (c + 1) * each]:
            link_of(values, prior.link)


@saved(
    "LatentBQ",
    check=check_fit,
    samples=Instance(Samples),
    priors=Many(Instance(LatentPrior), least=1),
    draws=Integer(100),
    nodes=Integer(8),
    size=Integer(8),
    seed=Integer(0),
    settings=Texts(),
)
class LatentBQFit(Fit):
    """I over theta of an f that is 0 or 1, or a count; see `Fit` for what it answers.

    The predictive distribution is that of draws of the process behind f: each gives I at all thetas.

    priors : of the processes, as many for each output.

    Examples
    --------
    >>> f = lambda x, theta, rng: 1.0 * rng.poisson(np.exp(0.5 * x[:, 0]))
    >>> family = lambda theta: cbq.measures.Gaussian(theta, 1.0)
    >>> problem = cbq.Problem(f, family, cbq.measures.Uniform(0.0, 1.0), depends_on_theta=False, stochastic=True)
    >>> fit = cbq.LatentBQ().fit(problem.collect(8, 8, rng=0, design="sobol"))
    >>> fit.priors[0].link
    'log'
    """

    def __init__(
        self,
        samples: Samples,
        priors: Sequence[LatentPrior],
        *,
        draws: int,
        nodes: int,
        size: int,
        seed: int,
        settings: dict[str, str],
    ) -> None:
        self.samples, self.priors, self.settings = samples, tuple(priors), dict(settings)
        self.draws, self.nodes, self.size, self.seed = draws, nodes, size, seed
        self.theta, self.C = samples.theta, samples.C

    @cached_property
    def _drawn_processes(self) -> tuple[LatentDraws, ...]:
        rng, u = np.random.default_rng(self.seed), inputs_of(self.samples)
        extra = self._nodes(rng)
        columns = np.repeat(self.samples.table.T, self._each, axis=0)
        return tuple(
            LatentPosterior.of(prior, u, values).draws(extra, -(-self.draws // self._each), rng)
            for prior, values in zip(self.priors, columns, strict=True)
        )

    def _under(self, family: Any) -> Self:
        return under_other_family(self._replaced(samples=self.samples._under(family)), self)

    def _unreached(self, theta: Array) -> Array:
        return unreached(self.samples, self._reaches, theta)

    @cached_property
    def _reaches(self) -> list[Reach]:
        """How far the runs reach, by the first process of each output; a value weighs as an error of unit variance."""
        u = inputs_of(self.samples)
        return [Reach.of(prior.kernel, u, Jitter(), 1.0 / prior.amplitude) for prior in self.priors[:: self._each]]

    @property
    def _each(self) -> int:
        """The number of priors of an output."""
        return len(self.priors) // (self.C or 1)

    def _nodes(self, rng: np.random.Generator) -> Array:
        """Inputs (m, D) from the measures of some of the thetas."""
        rows = evenly(self.samples.T, min(32, self.nodes))
        each = -(-self.nodes // len(rows))
        found = [self._with_theta(self.samples.measure(int(t)).sample(each, rng), self.theta[t]) for t in rows]
        return np.unique(np.concatenate(found), axis=0)

    def _with_theta(self, x: Array, theta: Array) -> Array:
        return np.column_stack([x, np.tile(theta, (len(x), 1))]) if self.samples.depends_on_theta else x

    def _with_samples(self, samples: Samples) -> Self:
        ends = [(0.0, 1.0 if prior.link == "probit" else np.inf) for prior in self.priors[:: self._each]]
        return super()._with_samples(samples)._replaced(bounds=np.array(ends).T, unseen=None)

    def _findings_about(self, samples: Samples) -> tuple[Finding, ...]:
        """Equal values at some of the thetas are what a process behind events expects; those at all are not."""
        varies = bool(np.all(np.ptp(samples.table, axis=0) > 0))
        return tuple(each for each in super()._findings_about(samples) if not (varies and each.kind == "equal values"))

    def _points_of(self, theta: Array) -> Iterator[tuple[Array, Array]]:
        """The inputs (n, D) at points of the measure of each of thetas (M, p), and weights (n,)."""
        u = sobol(self.size, self.samples.d, np.random.default_rng(self.seed))
        for at, measure in zip(theta, self.samples.conditional(theta), strict=True):
            if isinstance(measure, Empirical):
                x, weights = measure.points, measure.weights / np.sum(measure.weights)
            else:
                x, weights = measure.transport(u), np.full(self.size, 1 / self.size)
            yield self._with_theta(x, at), weights

    def _predictives(self, theta: Array, *, joint: bool) -> list[PredictiveDistribution]:
        C, k, M = self.C or 1, self._each, len(theta)
        locations = np.empty((C, k, -(-self.draws // k), M))
        for m, (inputs, weights) in enumerate(self._points_of(theta)):
            for i, process in enumerate(self._drawn_processes):
                locations[i // k, i % k, :, m] = weights @ process.means(inputs)
        found = locations.reshape(C, -1, M)
        scales2 = np.broadcast_to(0.0, (found.shape[1], M, M) if joint else found.shape[1:])
        return [PredictiveDistribution(each, scales2, np.inf) for each in found]

    def outcome(self, theta: npt.ArrayLike) -> CountOutcome:  # type: ignore[override]
        """The distribution of f(X, theta), X ~ P_theta, at thetas (M, p): probabilities, quantiles, spread, shortfall.

        Examples
        --------
        >>> problem = cbq.Problem(
        ...     lambda x, theta: np.where(x[:, 0] > 1.0, 1.0, 0.0),
        ...     lambda theta: cbq.measures.Gaussian(theta, 1.0),
        ...     cbq.measures.Uniform(-1.0, 1.0),
        ...     depends_on_theta=False,
        ... )
        >>> outcome = cbq.LatentBQ().fit(problem.collect(8, 8, rng=0, design="sobol")).outcome([0.0])
        >>> bool(abs(outcome.sf(0.5)[0] - 0.16) < 0.02), outcome.ppf(0.95)
        (True, array([1.]))
        """
        thetas = self._thetas(theta)
        self.samples.conditional(thetas[:1] if self.samples.conditional.everywhere else thetas)
        return CountOutcome(thetas, partial(self._drawn_means, thetas), self.names, self.C)

    def _drawn_means(self, thetas: Array, m: int) -> list[DrawnMeans]:
        """The draws of each output at theta m. What the nodes leave open is drawn for each point by itself."""
        ((inputs, weights),) = self._points_of(thetas[m : m + 1])
        k, rng, found = self._each, np.random.default_rng(self.seed), []
        for c in range(self.C or 1):
            some = self._drawn_processes[c * k : (c + 1) * k]
            means = np.hstack([each.means(inputs, rng) for each in some])
            found.append(DrawnMeans(weights, means, some[0].prior.link == "probit"))
        return found

    def _drawn(
        self, predictives: Sequence[PredictiveDistribution], size: int, rng: np.random.Generator, *, antithetic: bool
    ) -> Array:
        n = len(predictives[0].locations)
        which = rng.permutation(n)[np.arange(size) % n] if antithetic else rng.integers(n, size=size)
        return self._bounded(self._shaped([each.locations[which] for each in predictives]))

    @property
    def emulator(self) -> Any:
        raise ValueError(
            "f is an event or a count, so it has no emulator: fit.predict(theta) is the probability of the event, or "
            "the mean of the count, and fit.outcome(theta) the distribution."
        )

    def _description(self) -> list[str]:
        what = {"probit": "0 or 1, with probability Phi(g)", "log": "counts, with the mean exp(g)"}
        each = [
            [
                f"Values of f are {what[prior.link]}; g is a Gaussian process: {on_one_line(repr(prior.kernel))}, with "
                f"a variance of {prior.amplitude:.3g}, and {self._each - 1} more."
            ]
            for prior in self.priors[:: self._each]
        ]
        lines = heading(self, "Latent-process Bayesian quadrature", self.samples.counts, self.samples.design)
        return [*lines, *per_output(each, self), f"Predictive distribution: {self.draws} draws of g."]
