"""Points that a theta borrows from others, where f does not depend on theta: evenly spread over its bulk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import gammaincinv

from cbq.common import Array, Executor, Integers
from cbq.estimators.conditional.stage_one import StageOneOptions, fit_stage_one
from cbq.estimators.conditional.stage_one_data import StageOne
from cbq.measures import Measure, Unnormalised
from cbq.samples import Samples


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
