"""The value of a study of one input, from the regression on that input: no result is simulated, and all sizes share it.

The results y of a study depend on the net benefits through the input theta alone, so that E[NB | y] is the average of
g(theta) = E[NB | theta] over p(theta | y). With probabilities p(y | theta) of finitely many results, and the rows as
draws of theta, this is a sum; it is linear in g, so that the posterior of the regression is carried over to it.
"""

from __future__ import annotations

import numpy as np

from cbq.common.arrays import Array, Integers
from cbq.voi.analysis import ROW_DRAWS, Regressions, SetValue, assembled
from cbq.voi.benefits import NetBenefits, expected_max
from cbq.voi.regression import SiteBlock
from cbq.voi.uncertainty import FUNCTION_DRAWS, Slopes, orthogonal_normals, site_blocks

MIN_PROBABILITY = 1e-13  # of a result: less likely ones are left out


def value_of_results(
    found: Regressions, probabilities: Array, rng: np.random.Generator, effects_of: Integers | None = None
) -> SetValue:
    """The value of learning the result of a study before deciding, for probabilities (s, Y) of results at the sites.

    For any function g this is at most the value of learning theta itself, and it grows with the size of the study.
    """
    blocks = _joined(list(site_blocks(found.posteriors)))
    share = found.outputs.counts / found.outputs.n
    total = share @ probabilities
    likely = np.flatnonzero(total > MIN_PROBABILITY)
    given = (share[:, None] * probabilities[:, likely] / total[likely]).T  # p(theta | y), (Y, s)
    there = [SiteBlock(slice(0, len(likely)), given @ b.mean, given @ b.spread, given @ b.unseen) for b in blocks]
    means, best = _totals(there, total[likely], found.benefits, rng)
    gains, slopes = _at_sites(blocks, share, probabilities[:, likely], best, found.benefits)
    regression = _variance_over_draws(found, there, total[likely], rng)
    return assembled(found, means, gains, slopes, regression, effects_of).mixed_with_zero(found.all_zero)


def _joined(parts: list[tuple[SiteBlock, ...]]) -> list[SiteBlock]:
    """The posterior of each output at all sites."""
    found = []
    for several in zip(*parts, strict=True):
        mean, spread, unseen = (
            np.concatenate([getattr(b, name) for b in several]) for name in ("mean", "spread", "unseen")
        )
        found.append(SiteBlock(slice(0, len(mean)), mean, spread, unseen))
    return found


def _totals(
    there: list[SiteBlock], total: Array, benefits: NetBenefits, rng: np.random.Generator
) -> tuple[Array, Integers]:
    """Sums over results (3, K) as `assembled` wants them, and the best decisions (K, Y)."""
    mean, unseen = (np.stack([getattr(b, name) for b in there], axis=-1) for name in ("mean", "unseen"))
    variance = np.stack([np.sum(b.spread**2, axis=1) for b in there], axis=-1)
    normals = rng.standard_normal((len(mean), ROW_DRAWS // 2, len(there))) if benefits.D > 2 else None
    found, best = [], []
    for offset, B in zip(benefits.offset, benefits.B, strict=True):
        g = offset + mean @ B
        each = [expected_max(g, B, var, normals) for var in (variance, variance + unseen)]
        found.append([total @ value for value in (*each, np.max(g, axis=-1))])
        best.append(np.argmax(g, axis=-1))
    return np.array(found).T, np.array(best)


def _at_sites(
    blocks: list[SiteBlock], share: Array, probabilities: Array, best: Integers, benefits: NetBenefits
) -> tuple[Array, Slopes]:
    """The gains (s, K) of rows over the default, if decisions follow the results, and the slopes of the plug-in."""
    mean = np.stack([b.mean for b in blocks], axis=-1)
    K, r = len(benefits.offset), len(blocks)
    gains = np.empty((len(mean), K))
    slopes = Slopes(np.zeros((K, r)), [np.zeros((b.spread.shape[1], K)) for b in blocks])
    for k, (offset, B, default) in enumerate(zip(benefits.offset, benefits.B, benefits.default, strict=True)):
        moves = probabilities @ (B.T[best[k]] - B[:, default])  # (s, r)
        gains[:, k] = probabilities @ (offset[best[k]] - offset[default]) + np.sum(moves * mean, axis=1)
        slopes.by_level[k] = share @ moves
        for slope, block, move in zip(slopes.by_weights, blocks, moves.T, strict=True):
            slope[:, k] = (share * move) @ block.spread
    return gains, slopes


def _variance_over_draws(found: Regressions, there: list[SiteBlock], total: Array, rng: np.random.Generator) -> Array:
    """The variance (K,) of the value over posterior draws of the regression functions."""
    stds = np.array([each.mean_std for each in found.posteriors])
    ends = np.cumsum([len(stds), *(b.spread.shape[1] for b in there)])
    standard, *xi = np.split(orthogonal_normals(int(ends[-1]), FUNCTION_DRAWS, rng), ends[:-1])
    parts = zip(there, xi, stds, standard, strict=True)
    draws = np.stack([b.mean[:, None] + b.spread @ each + std * level for b, each, std, level in parts])  # (r, Y, S)
    variances = []
    benefits = found.benefits
    for offset, B, default in zip(benefits.offset, benefits.B, benefits.default, strict=True):
        gain = np.max(np.tensordot((B - B[:, [default]]).T, draws, 1) + offset[:, None, None], axis=0)
        variances.append(np.var(total @ gain))
    return np.array(variances)
