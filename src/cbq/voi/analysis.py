"""The EVPPI of a set of columns, from the joint posterior of the regressions on it.

At a row, the differences between the net benefits of D decisions and of the first one are offset + Z B given the data,
with independent Gaussian canonical outputs Z (r,) and B (r, D). EVPPI is the mean over rows of max_d less max_d of the
means over rows. The estimate is the posterior expectation of the first term; the means over rows are taken as observed.

The results y of a study of one input theta depend on the net benefits through theta alone, so that E[NB | y] is the
average of g(theta) = E[NB | theta] over p(theta | y). With probabilities p(y | theta) of finitely many results, and the
rows as draws of theta, this is a sum; it is linear in g, so that the posterior of the regression is carried over to it.
No result is simulated, and all sizes of the study share the regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cbq.common import Array, Integers
from cbq.common import blocks as row_blocks
from cbq.gp.regression import Regressions, SiteBlock, WhiteOutputs, regressions, site_blocks, site_means
from cbq.linalg.threads import one_blas_thread
from cbq.nested.decisions import Decisions
from cbq.voi.uncertainty import (
    FunctionDraws,
    NetBenefits,
    Slopes,
    central_moments,
    expected_max,
    influences,
    regression_moments,
    sandwich,
    slopes,
)

ROW_DRAWS = 32  # for each site, for E max of more than two decisions
MIN_RELATIVE_UNSEEN = 1e-4  # of the posterior variance: less is not told apart
MIN_PROBABILITY = 1e-13  # of a result of a study: less likely ones are left out


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Net benefits less the first decision's, as linear functions of few outputs that are regressed once.

    outputs : y (n, q). maps : (K, q, D); y @ maps[k] are the net benefits less the first decision's.
    perfect : (n, K), the gain of each draw from knowing all inputs, less its mean over draws.
    """

    outputs: WhiteOutputs
    maps: Array
    perfect: Array

    @classmethod
    def of(cls, outputs: Array, decisions: Decisions) -> Contrasts:
        """The contrasts of outputs (n, C): differences of net benefits, or of effects and of costs.

        Net benefits are linear in the willingness to pay. Effects, of weights at least 0, and costs, of weights below
        0, are regressed even for a single value of it, so that its result is the one that it has among several.
        """
        K, D, _ = decisions.weights.shape
        if decisions.willingness_to_pay is None:
            ends = [(decisions.weights[0], np.ones(K))]
        else:
            thresholds = np.ravel(decisions.willingness_to_pay)
            most = int(np.argmax(thresholds))
            share = thresholds / max(float(thresholds[most]), np.finfo(float).tiny)
            ends = [
                (np.maximum(decisions.weights[most], 0.0), share),
                (np.minimum(decisions.weights[0], 0.0), np.ones(K)),
            ]
        y = np.concatenate([outputs @ (weights[1:] - weights[:1]).T for weights, _ in ends], axis=1)
        maps = np.concatenate([share[:, None, None] * np.eye(D)[1:] for _, share in ends], axis=1)
        perfect = np.empty((len(y), K))
        for each, into in zip(maps, perfect.T, strict=True):
            benefits = y @ each
            into[:] = np.max(benefits, axis=1) - benefits[:, np.argmax(np.mean(benefits, axis=0))]
        return cls(WhiteOutputs.of(y), maps, perfect - np.mean(perfect, axis=0))


@dataclass(frozen=True, eq=False)
class SetValue:
    """The EVPPI of a set for K values of the willingness to pay, (K,) each.

    evppi : the posterior expectation. plug_in : EVPPI at the posterior means.
    regression, sampling : the variances due to the regression and to the rows being a sample.
    curvature : the third central moment over posterior draws of the regression, in which EVPPI is convex.
    skewness : the third central moment that is due to the first-order effects of the rows.
    unseen : the part of evppi that is due to variance not represented by the landmarks.
    r2 : the share of the variance of differences between decisions that the regression explains.
    noise_ratio : the standard error that residuals tell, in units of that with equal noise in all rows.
    effective_n : the number of independent rows that the rows are worth.
    landmarks : the largest number of landmarks of a regression.
    misfit : the structure left in residuals, in standard deviations of its chance value; see `leftover`.
    uninformative : the probability that the set is independent of the net benefits.
    linear, with_evpi : of the first-order effects of the rows on evppi, the variance, and the covariance with their
        effects on EVPI, which has the same rows.
    effects : (R, K), by how much R of the rows move evppi, to first order and n-fold; None unless asked for.
    """

    evppi: Array
    plug_in: Array
    regression: Array
    sampling: Array
    curvature: Array
    skewness: Array
    unseen: Array
    r2: Array
    noise_ratio: Array
    effective_n: Array
    linear: Array
    with_evpi: Array
    landmarks: int = 0
    misfit: float = 0.0
    uninformative: float = 1.0
    effects: Array | None = None

    @classmethod
    def nothing(cls, K: int, n: int) -> SetValue:
        """The value of a set if net benefits differ by constants."""
        zeros, ones = np.zeros(K), np.ones(K)
        return cls(zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, ones, n * ones, zeros, zeros)

    @property
    def se(self) -> Array:
        return np.asarray(np.sqrt(self.regression + self.sampling))

    def mixed_with_zero(self, probability: float) -> SetValue:
        """The value of a set that is independent of the net benefits, so that EVPPI is 0, with this probability."""
        between = probability * (1.0 - probability) * self.evppi**2
        names = ("evppi", "plug_in", "regression", "sampling", "curvature", "skewness", "unseen", "with_evpi")
        less = {name: (1.0 - probability) * getattr(self, name) for name in names}
        less["linear"] = (1.0 - probability) ** 2 * self.linear
        return replace(self, **less | {"regression": less["regression"] + between}, uninformative=probability)


@dataclass(frozen=True, eq=False)
class BenefitRegressions(Regressions):
    """Regressions with the net benefits as functions of their canonical outputs. perfect : see `Contrasts`."""

    benefits: NetBenefits
    perfect: Array


def regress(contrasts: Contrasts, columns: Array, rng: np.random.Generator) -> BenefitRegressions | None:
    """The regressions on columns (n, p), none of them constant; None if net benefits differ by constants."""
    found = regressions(contrasts.outputs, columns, rng)
    if found is None:
        return None
    benefits = NetBenefits(found.mean @ contrasts.maps, found.back @ contrasts.maps)
    return BenefitRegressions(**vars(found), benefits=benefits, perfect=contrasts.perfect)


def analyse(
    contrasts: Contrasts,
    columns: Array,
    rng: np.random.Generator,
    effects_of: Integers | None = None,
    uninformative: float | None = None,
) -> SetValue:
    """The EVPPI of learning columns (n, p), none of them constant: E max_d E[NB_d | columns] - max_d E NB_d.

    The columns may be anything that is known before the decision: inputs, or the summary of a study.

    effects_of : rows (R,) whose effects on the estimate are wanted.
    uninformative : the probability that the columns are independent of the net benefits, where something else than the
        regression on them tells it.
    """
    with one_blas_thread():
        found = regress(contrasts, columns, rng)
        if found is None:
            return SetValue.nothing(len(contrasts.maps), len(columns))
        return value_of_learning(found, rng, effects_of, uninformative)


def value_of_learning(
    found: BenefitRegressions,
    rng: np.random.Generator,
    effects_of: Integers | None = None,
    uninformative: float | None = None,
) -> SetValue:
    """The EVPPI of learning the columns of regressions, from the posteriors of the canonical outputs; see `analyse`.

    The standard error treats the default decision as fixed. Where another one is as good, EVPPI is not a smooth
    function of the means, and this gives the larger error.
    """
    posteriors, outputs, benefits = found.posteriors, found.outputs, found.benefits
    n, K = outputs.n, len(benefits.offset)
    totals, gains = np.zeros((3, K)), np.empty((len(outputs.counts), K))
    for blocks in site_blocks(posteriors):
        sites = blocks[0].sites
        of_block, gains[sites], _ = _totals(blocks, outputs.counts[sites], benefits, rng)
        totals += of_block
    everywhere = slopes(posteriors, outputs.counts, benefits)
    regression = regression_moments(posteriors, outputs, benefits, everywhere, rng)
    value = assembled(found, totals / n, gains, everywhere, regression, effects_of)
    probability = found.all_zero if uninformative is None else uninformative
    return replace(value, misfit=found.misfit()).mixed_with_zero(probability)


def assembled(
    found: BenefitRegressions,
    means: Array,
    gains: Array,
    everywhere: Slopes,
    regression: tuple[Array, Array],
    effects_of: Integers | None,
) -> SetValue:
    """A value with its standard error.

    means : (3, K), of E max_d over rows, without and with unseen variance, and of max_d of the posterior means.
    gains : (s, K), by which rows at the sites exceed the default decision. everywhere : the slopes of the plug-in.
    regression : (K,) each, the variance and the third central moment of the value over posterior draws.
    """
    outputs, benefits, dependence = found.outputs, found.benefits, found.dependence
    n, K = outputs.n, len(benefits.offset)
    seen, expected, plug_in = means  # (K,) each
    gain, times = outputs.counts @ gains / n, dependence.of_gains(gains)
    base = np.max(benefits.offset, axis=-1)
    residual, assumed, known, r2 = sandwich(found.posteriors, outputs, benefits, everywhere)
    slowest = float(np.max(dependence.times))
    linear, skewness, with_evpi, effects = _effects_of_rows(found, gains - gain, everywhere, effects_of)
    return SetValue(
        evppi=np.maximum(expected - base, 0.0),  # negative only by rounding
        plug_in=np.maximum(plug_in - base, 0.0),
        regression=regression[0] + slowest * np.maximum(residual - known, 0.0),
        curvature=regression[1],
        skewness=skewness,
        sampling=times * (outputs.counts @ (gains - gain) ** 2 / n) / max(n - 1.0, 1.0),
        unseen=expected - seen,
        r2=r2,
        noise_ratio=np.sqrt(np.divide(residual, assumed, out=np.ones(K), where=assumed > 0)),
        effective_n=n / np.maximum(times, slowest),
        linear=np.maximum(times, slowest) * linear,
        with_evpi=np.maximum(times, slowest) * with_evpi,
        landmarks=max(s.m for s in found.posteriors),
        effects=effects,
    )


def _effects_of_rows(
    found: BenefitRegressions, gains: Array, everywhere: Slopes, kept: Integers | None
) -> tuple[Array, Array, Array, Array | None]:
    """The second and third moment of the first-order effects of rows, their covariance with EVPI, and some of them.

    The effect of a row is n-fold: as a draw, by its gain, and by its residual.

    gains : (s, K), less their mean over rows. kept : (R,), the rows whose effects (R, K) are returned.
    """
    n, place, K = found.sites.n, found.sites.place, gains.shape[1]
    variance, third, covariance = np.zeros((3, K))
    every = np.empty((0 if kept is None else n, K))
    for blocks, own, others in influences(found.posteriors, found.outputs.counts, everywhere):
        first, mean, influence = blocks[0].sites.start or 0, site_means(blocks), own + others
        inside = np.flatnonzero((place >= first) & (place < first + len(mean)))
        for part in row_blocks(len(inside)):
            rows = inside[part]
            here = place[rows] - first
            residuals = found.values[rows] - mean[here]  # (b, r)
            effects = gains[place[rows]] + n * (influence[here] @ residuals[:, :, None])[:, :, 0]
            variance += np.sum(effects**2, axis=0) / (n * (n - 1))
            third += np.sum(effects**3, axis=0) / n**3
            covariance += np.sum(effects * found.perfect[rows], axis=0) / (n * (n - 1))
            if kept is not None:
                every[rows] = effects
    return variance, third, covariance, None if kept is None else every[kept]


def _totals(
    blocks: Sequence[SiteBlock], counts: Array, benefits: NetBenefits, rng: np.random.Generator
) -> tuple[Array, Array, Integers]:
    """Sums (3, K) of E max_d without and with unseen variance and of max_d of means, over places with counts (b,).

    Also the gains (b, K) over the default decision, and the best decisions (b, K) by the posterior means.
    """
    mean, unseen = site_means(blocks), np.stack([b.unseen for b in blocks], axis=-1)  # (b, r) each
    variance = np.stack([np.sum(b.spread**2, axis=1) for b in blocks], axis=-1)
    normals = rng.standard_normal((len(mean), ROW_DRAWS // 2, len(blocks))) if benefits.D > 2 else None
    matters = float(np.sum(unseen)) > MIN_RELATIVE_UNSEEN * float(np.sum(variance))
    sums, gains, best = [], [], []
    for offset, B, default in benefits:
        g = offset + mean @ B
        expected = expected_max(g, B, variance + unseen, normals)
        seen = expected_max(g, B, variance, normals) if matters else expected
        sums.append([counts @ each for each in (seen, expected, np.max(g, axis=-1))])
        gains.append(expected - g[:, default])
        best.append(np.argmax(g, axis=-1))
    return np.array(sums).T, np.array(gains).T, np.array(best).T


def value_of_results(
    found: BenefitRegressions, probabilities: Array, rng: np.random.Generator, effects_of: Integers | None = None
) -> SetValue:
    """The value of learning the result of a study before deciding, for probabilities (s, Y) of results at the sites.

    For any function g this is at most the value of learning theta itself, and it grows with the size of the study.
    """
    blocks, benefits = [each.everywhere() for each in found.posteriors], found.benefits
    share = found.outputs.counts / found.outputs.n
    total = share @ probabilities
    likely = np.flatnonzero(total > MIN_PROBABILITY)
    total, probabilities = total[likely], probabilities[:, likely]
    given = (share[:, None] * probabilities / total).T  # p(theta | y), (Y, s)
    there = [SiteBlock(slice(0, len(likely)), given @ b.mean, given @ b.spread, given @ b.unseen) for b in blocks]
    means, _, best = _totals(there, total, benefits, rng)
    mean, K = site_means(blocks), len(benefits.offset)
    gains, by_sites = np.empty((len(mean), K)), Slopes.zeros(found.posteriors, K)
    for k, (offset, B, default) in enumerate(benefits):  # of rows whose decisions follow the results
        moves = probabilities @ (B.T[best[:, k]] - B[:, default])  # (s, r)
        gains[:, k] = probabilities @ (offset[best[:, k]] - offset[default]) + np.sum(moves * mean, axis=1)
        by_sites.add_moves(k, blocks, share[:, None] * moves)
    regression = central_moments(FunctionDraws.of(found.posteriors, rng).gains(there, total, benefits))
    return assembled(found, means, gains, by_sites, regression, effects_of).mixed_with_zero(found.all_zero)
