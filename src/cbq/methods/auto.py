"""The choice of an estimator that suits the samples: by cost, by what f depends on, and by predicted errors."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, evenly
from cbq.embeddings import NoEmbedding
from cbq.fit.base import Fit
from cbq.fit.findings import Finding
from cbq.measures import Unnormalised
from cbq.methods.conditional import CBQ, CBQFit
from cbq.methods.conditional.estimator import BORROWED_POINTS
from cbq.methods.multioutput import MOBQ, PooledFit
from cbq.methods.multioutput.estimator import exact_points
from cbq.methods.options import require_samples
from cbq.methods.parameters import Parameters
from cbq.methods.registry import estimator
from cbq.samples import Samples
from cbq.workers import opened

ACCURATE = 0.02  # leave-one-out error of f, in units of its spread: below, borrowing gains nothing
# The ratio of MOBQ's predicted error to that of CBQ, up to which MOBQ is chosen.
RATIO_IF_ACCURATE = 30.0  # CBQ does not foresee its errors between and beyond the thetas, and MOBQ does not interpolate
RATIO_OTHERWISE = 1.0
RATIO_WITH_THETA = 0.25  # a product kernel on x and theta fits poorly where f changes direction with theta
COMPARED_THETAS = 100  # at most
MIN_POINTS = 4  # of a theta, for an unbiased estimate whose error is known
GAIN_PER_POINT = 2.0  # how many times as accurate as CBQ MOBQ may be, for each point
TAILS = "Chose CBQ. The tails of the measures carry the answer, and its intervals know it."
UNSEEN = "Chose CBQ. All values of f are equal, and no process on the points of all thetas can be judged by them."
CONTRADICTED = 2.5  # standard deviations between MOBQ and unbiased estimates that are worth a warning


@estimator("auto", title="chosen for the samples", order=10)
@dataclass(frozen=True)
class Auto(Parameters):
    """The estimator that suits the samples. A configuration: `fit` changes nothing.

    Where there is a family and embeddings in shared coordinates, `cbq.MOBQ(nystrom="auto")` is fitted and compared with
    `cbq.CBQ` by the errors that both predict at the observed thetas and between them. If f does not depend on
    theta, and leave-one-out errors show that MOBQ predicts it accurately, MOBQ is chosen unless its predicted error is
    far larger; if not, the smallest predicted error of three decides, `cbq.CBQ(borrow=200)` being the third. If f
    depends on theta, MOBQ must predict a quarter of CBQ's error or less, unless there are more than 5000 points, with
    which accuracy decides as above. See docs/theory/estimators.md for how well this chooses.

    Neither is believed without the other: the variances of MOBQ grow where the unbiased estimates of CBQ, from leaving
    out one point at a time, contradict it at the observed thetas; with n points, MOBQ is not believed to be more than
    2 n times as accurate; and where the tails of the measures carry the answer, CBQ is chosen, whose intervals know it,
    unless there are more than 5000 points and MOBQ predicts f accurately: then its intervals are stretched as much.
    Where points were chosen by a rule and are few at each theta, CBQ would be biased, and MOBQ is chosen.

    `fit` returns the fit of the chosen estimator, whose `summary()` begins with the choice and its reason.

    Examples
    --------
    >>> samples = cbq.problems.get("butterfly").collect(T=12, N=20, rng=0)
    >>> fit = cbq.Auto().fit(samples)
    >>> type(fit).__name__
    'MOBQFit'
    """

    def fit(self, samples: Samples, *, executor: Executor | int | None = None) -> CBQFit | PooledFit:
        """Estimate I over theta from samples, by the estimator that suits them; executor: as for `cbq.CBQ`."""
        require_samples(samples)
        with opened(executor) as pool:
            plain = CBQ().fit(samples, executor=pool)
            return _with_noise_of(plain, self._chosen(samples, plain, pool))

    def _chosen(self, samples: Samples, plain: CBQFit, executor: Executor | None) -> CBQFit | PooledFit:
        """The fit of the estimator that suits the samples; plain: that of CBQ."""
        tails = any(finding.kind == "tails" for finding in plain.stage1.findings)
        if plain.unseen is not None:
            return plain.with_choice(UNSEEN)
        many = samples.n_evaluations > exact_points()
        if tails and not many:
            return plain.with_choice(TAILS)
        pooled, why_not = _pooled(samples, plain)
        is_biased = any(finding.kind == "chosen points" for finding in plain.about_samples)
        if pooled is not None and is_biased:
            return pooled.with_choice("Chose MOBQ. Points were chosen by a rule, and CBQ has too few at each theta.")
        accurate = pooled is not None and (many or not samples.depends_on_theta) and _error(pooled) <= ACCURATE
        if tails and not accurate:
            return plain.with_choice(TAILS)
        if tails and pooled is not None:
            pooled = pooled._widened(plain.stage1.stretch**2, np.zeros(samples.C or 1))
        theta = _compared_thetas(samples)
        best, name, error = plain, "CBQ", _predicted_error(plain, theta)
        if _can_borrow(samples) and not accurate:
            borrowing = CBQ(borrow=BORROWED_POINTS).fit(samples, executor=executor)
            borrowing_error = _predicted_error(borrowing, theta)
            if is_biased or _ratio(borrowing_error, error) < 1:
                best, name, error = borrowing, "CBQ with borrowed points", borrowing_error
        if pooled is None:
            return best.with_choice(f"Chose {name}. {why_not}.")
        ratio = _ratio(_predicted_error(pooled, theta), error)
        limit, where = RATIO_OTHERWISE, ""
        if accurate:
            limit, where = RATIO_IF_ACCURATE, "where MOBQ predicts f accurately, "
        elif samples.depends_on_theta:
            limit, where = RATIO_WITH_THETA, "where f depends on theta, "
        compared = f"predicted error is {ratio:.2g} times that of {name}; {where}Auto switches at {limit:g} or below."
        if ratio <= limit:
            return pooled.with_choice(f"Chose MOBQ. Its {compared}")
        return best.with_choice(f"Chose {name}. MOBQ's {compared}")


def _with_noise_of(plain: CBQFit, chosen: CBQFit | PooledFit) -> CBQFit | PooledFit:
    """The chosen fit with the noise that the fit of CBQ finds in the samples, whichever estimator was chosen."""
    noise = [each for each in plain._findings() if each.kind == "noise"]
    return chosen._with_findings([each for each in noise if each not in chosen._findings()])


def _pooled(samples: Samples, plain: CBQFit) -> tuple[PooledFit | None, str]:
    """The fit of MOBQ, with what the fit of CBQ contradicts in its variances; or None and the reason."""
    if not samples.conditional.everywhere:
        return None, "MOBQ needs a family, and these samples have none"
    try:
        fit = _pooled_fit(samples)
    except (NoEmbedding, ValueError, MemoryError) as error:
        return None, f"MOBQ could not be fitted: {str(error).rstrip('.')}"
    if all(group.is_learnt for group in fit.groups):
        return _doubted(samples, fit, plain), ""
    return None, "MOBQ has not learnt f: its leave-one-out residuals are about as large as f varies"


def _pooled_fit(samples: Samples) -> PooledFit:
    """The fit of MOBQ: through landmarks if points are many, unless an exact one to fewer points predicts less error.

    It can where f is so rough that landmarks do not represent it.
    """
    fit = MOBQ(nystrom="auto").fit(samples)
    if samples.n_evaluations <= exact_points() or samples.stochastic or _error(fit) <= ACCURATE:
        return fit
    some = samples.select(evenly(samples.T, exact_points() // MIN_POINTS))
    fewer = MOBQ().fit(some.thinned(exact_points() // some.T))
    theta = _compared_thetas(samples)
    return fewer if _ratio(_predicted_error(fewer, theta), _predicted_error(fit, theta)) < 1 else fit


def _error(pooled: PooledFit) -> float:
    """The leave-one-out error of f, in units of its spread, of the output with the largest."""
    return max(group.chosen.error for group in pooled.groups)


def _doubted(samples: Samples, pooled: PooledFit, plain: CBQFit) -> PooledFit:
    """The fit of MOBQ with variances in which the fit of CBQ leaves room for doubt, which says so if it is large.

    With n points, no process is believed to be more than 2 n times as accurate as CBQ.
    """
    contradiction = _contradiction(samples, pooled, plain)
    least = (_predicted_error(plain, _compared_thetas(samples)) / (GAIN_PER_POINT * samples.n_evaluations)) ** 2
    found, worst = pooled._widened(contradiction, least), float(np.sqrt(np.max(contradiction)))
    if worst <= CONTRADICTED:
        return found
    text = (
        f"unbiased estimates at the observed thetas differ from this fit {worst:.2g} times as much as expected; "
        f"intervals are widened by that factor."
    )
    return found._with_findings([Finding("disagreement", text)])


def _contradiction(samples: Samples, pooled: PooledFit, plain: CBQFit) -> Array:
    """The squared differences (C,) of MOBQ from unbiased estimates at observed thetas, in units of their variances.

    They are 1 where nothing is known: estimates are unbiased where points are independent draws of their measures.
    Those of Sobol points are used on purpose, although each point that is left out lies in the gap that it leaves: they
    do nothing but widen intervals, and were not found to do so more often than those of independent points.
    """
    several = np.flatnonzero(plain.counts >= MIN_POINTS)
    are_draws = plain.drawn and samples.failures is None
    if not len(several) or not are_draws:
        return np.ones(len(plain.priors))
    some = several[evenly(len(several), COMPARED_THETAS)]
    mean, std = (each.reshape(len(some), -1) for each in pooled.predict(plain.theta[some], return_std=True))
    unbiased, variance = (each[some] for each in plain.stage1.unbiased())
    expected = np.mean(std**2 + variance, axis=0)
    return np.asarray(np.mean((mean - unbiased) ** 2, axis=0) / np.maximum(expected, np.finfo(float).tiny))


def _can_borrow(samples: Samples) -> bool:
    """Whether thetas may use points of others, and have room for them."""
    unknown_bulk = any(measure.has_atoms or isinstance(measure, Unnormalised) for measure in samples.measures)
    return (
        not samples.depends_on_theta
        and samples.T > 1
        and bool(np.any(samples.counts < BORROWED_POINTS))
        and not unknown_bulk
    )


def _compared_thetas(samples: Samples) -> Array:
    """Some of the thetas, and the midpoints to their nearest neighbours where the measure of x is known there."""
    theta = samples.theta[evenly(samples.T, COMPARED_THETAS)]
    units = np.maximum(np.std(theta, axis=0), np.finfo(float).tiny)
    apart = np.sum(((theta[:, None] - theta) / units) ** 2, axis=-1)
    apart[apart == 0] = np.inf
    both = np.concatenate([theta, 0.5 * (theta + theta[np.argmin(apart, axis=1)])])
    try:
        samples.conditional(both)
    except ValueError:  # a family for some thetas only, or none
        return theta
    return both


def _predicted_error(fit: Fit, theta: Array) -> Array:
    """The root-mean-square error (C,) that a fit predicts at thetas (M, p)."""
    _, std = fit.predict(theta, return_std=True)
    size = np.sqrt(np.mean(std.reshape(len(std), -1) ** 2, axis=0))
    return np.asarray(np.maximum(size, np.finfo(float).tiny))


def _ratio(errors: Array, others: Array) -> float:
    """The ratio of errors (C,), averaged over outputs in logarithms."""
    return float(np.exp(np.mean(np.log(errors) - np.log(others))))
