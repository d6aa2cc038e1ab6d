"""Outer thetas: weighted thetas that represent the prior of theta, and the posterior mean of I there.

Each theta costs a measure of x and its embeddings, but I is smooth in theta. For p = 1 a spline interpolates the mean
from few thetas, more where it bends, if its error at other thetas is far below the posterior standard deviation.
Otherwise, and for p > 1, all means are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeGuard

import numpy as np
import numpy.typing as npt

from cbq.common import (
    Array,
    Integers,
    Progress,
    RNGLike,
    evenly,
    generator,
    is_whole,
    one_of,
    reporting,
    require_memory,
    shown,
)
from cbq.fit import Fit
from cbq.measures import Empirical, Measure, Unnormalised
from cbq.measures.base import measure_argument
from cbq.measures.points import iid, sobol
from cbq.samples import Names, named_columns, thetas_in

Design = Literal["sobol", "iid"]
PriorLike = Measure | npt.ArrayLike  # a distribution of theta, or a table of its draws
NODES = 2**14  # default number of thetas
SCRAMBLES = 8  # independent Sobol designs, whose differences give the standard error
MAX_PARTS, MIN_TABLE_PARTS = 32, 4  # parts into which draws are divided for the same purpose
SUBSET = 512  # thetas at which I is drawn as a function
MIN_THETAS = 8192  # below, interpolation gains little
FIRST_NODES, MAX_NODES = 65, 513
ROUNDING = 1e-8  # of the range of I, up to which means are rounded
NEGLIGIBLE = 1e-2  # an error, in units of the posterior standard deviation of I


@dataclass(frozen=True, eq=False)
class Outer:
    """Thetas (n, p) with weights (n,) that sum to one.

    parts : slices of the thetas that are independent designs of their own; empty if the thetas are all of the prior.
    subset : rows (m,) of a smaller set of thetas that represents the prior, with subset_weights (m,).
    """

    theta: Array
    weights: Array
    parts: tuple[slice, ...]
    subset: Integers
    subset_weights: Array

    @property
    def df(self) -> float:
        """The degrees of freedom of a standard error from the parts."""
        return max(len(self.parts) - 1.0, 1.0)

    def of_parts(self, functional: Callable[[Array, Array], Array], values: Array) -> list[Array]:
        """A functional of values (n, ...) and weights (n,), for each part by itself."""
        shares = (self.weights[part] / np.sum(self.weights[part]) for part in self.parts)
        return [functional(values[part], share) for part, share in zip(self.parts, shares, strict=True)]


def standard_error(of_parts: Sequence[Array]) -> Array:
    """The standard error of the average over independent parts; 0 if there are none."""
    return np.std(of_parts, axis=0, ddof=1) / np.sqrt(len(of_parts)) if len(of_parts) else np.zeros(())


def outer(prior: PriorLike, n: int, design: Design, rng: RNGLike, names: Names, min_part: int = 1) -> Outer:
    """The n thetas of a prior over theta; all thetas of a table of draws or of an `Empirical` measure.

    names : of the p coordinates of theta. min_part : the smallest number of thetas in a part.
    """
    one_of(design, Design, "design")
    if is_table(prior):
        return _table(thetas_in(prior, names, "the fit", "prior"), min_part)
    p = len(names.theta)
    measure = as_prior(prior, p)
    if isinstance(measure, Empirical):
        weights = np.asarray(measure.weights)
        return Outer(np.asarray(measure.points), weights, (), *_systematic(weights))  # a finite sum has no error
    fewest = SCRAMBLES * max(min_part, 2)
    if not is_whole(n, fewest):
        raise ValueError(f"n must be a number of thetas, here {fewest} or more, but it is {shown(n)}.")
    require_memory(2 * p * n, f"n = {n} thetas", "pass a smaller n")
    if design == "sobol":
        return _sobol(measure, int(n), generator(rng))
    return _equally_weighted(iid(measure, int(n), generator(rng)), min(MAX_PARTS, n // min_part))


def is_table(prior: PriorLike) -> TypeGuard[npt.ArrayLike]:
    """Whether the prior is a table of draws: an array, or columns with names."""
    return isinstance(prior, list | tuple | np.ndarray) or named_columns(prior) is not None


def as_prior(prior: PriorLike, p: int) -> Measure:
    """The prior as a single measure over p coordinates that can be drawn from; raise if that fails."""
    measure = measure_argument(prior, "prior")
    if measure.batch_shape:
        raise ValueError(f"prior must be one distribution of theta, but {measure!r} is a batch: pass prior[0].")
    if isinstance(measure, Unnormalised):
        raise ValueError(
            "prior is an unnormalised measure, which cannot be drawn from: pass draws of theta as an array (n, p)."
        )
    if measure.dim != p:
        raise ValueError(f"prior has {measure.dim} coordinates, but theta has p = {p} in this fit: pass all {p}.")
    return measure


def _sobol(measure: Measure, n: int, rng: np.random.Generator) -> Outer:
    size = 2 ** (-(-n // SCRAMBLES) - 1).bit_length()  # of each design: Sobol points are balanced at powers of two
    theta = np.concatenate([measure.transport(sobol(size, measure.dim, stream)) for stream in rng.spawn(SCRAMBLES)])
    return _equally_weighted(theta, SCRAMBLES)


def _equally_weighted(theta: Array, parts: int) -> Outer:
    n, m = len(theta), min(len(theta), SUBSET)
    return Outer(theta, np.full(n, 1 / n), _slices(n, parts), np.arange(m), np.full(m, 1 / m))


def _table(theta: Array, min_part: int) -> Outer:
    """A table of draws; parts are long runs of rows, because the rows of a Markov chain are autocorrelated."""
    n, fewest = len(theta), MIN_TABLE_PARTS * min_part
    if n < fewest:
        raise ValueError(
            f"prior is a table of {n} draw{'s' * (n > 1)} of theta, but this needs {fewest} or more: draw more, or "
            f"pass a distribution."
        )
    weights = np.full(n, 1 / n)
    return Outer(theta, weights, _slices(n, min(MAX_PARTS, n // min_part)), *_systematic(weights))


def _systematic(weights: Array) -> tuple[Integers, Array]:
    """Rows of the subset and their weights: all rows, or a systematic sample by weight if there are many."""
    if len(weights) <= SUBSET:
        return np.arange(len(weights)), weights
    levels = (np.arange(SUBSET) + 0.5) / SUBSET
    rows = np.minimum(np.searchsorted(np.cumsum(weights), levels), len(weights) - 1)
    return rows, np.full(SUBSET, 1 / SUBSET)


def _slices(n: int, parts: int) -> tuple[slice, ...]:
    ends = np.linspace(0, n, parts + 1).round().astype(int)
    return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))


def posterior_means(fit: Fit, nodes: Outer, paths: Array, progress: Progress) -> Array:
    """The posterior means (n,) or (n, C) of I at the outer thetas; on their subset they are never interpolated.

    paths : (S, m) or (S, m, C), draws of I at the subset.
    """
    theta, subset = nodes.theta, nodes.subset
    if fit.p > 1 or len(theta) < MIN_THETAS:
        return np.asarray(fit.predict(theta, progress=progress))
    at_subset = np.asarray(fit.predict(theta[subset]))
    known = np.median(np.std(paths, axis=0), axis=0)
    tolerance = np.maximum(NEGLIGIBLE * known, ROUNDING * np.ptp(at_subset, axis=0))
    means = interpolated(lambda t: np.asarray(fit.predict(t[:, None])), theta[:, 0], tolerance)
    if means is None or np.any(np.abs(means[subset] - at_subset) > tolerance):
        return np.asarray(fit.predict(theta, progress=progress))
    means[subset] = at_subset
    with reporting(progress, "predict", 0, len(theta)) as report:
        report(len(theta), len(theta))
    return fit._bounded(means)


def interpolated(function: Callable[[Array], Array], t: Array, tolerance: Array) -> Array | None:
    """Values (n,) or (n, C) of a function at numbers t (n,), most of them interpolated; None if it bends too much.

    Gaps between nodes are halved until values in their middles are predicted within the tolerance, () or (C,).
    """
    from scipy.interpolate import CubicSpline  # slow to import, and rarely needed

    points, place = np.unique(t, return_inverse=True)
    if len(points) < 4 * FIRST_NODES:
        return None
    known = evenly(len(points), FIRST_NODES)
    values = function(points[known])
    left, right = known[:-1], known[1:]  # of the gaps that are left
    while len(left):
        if len(known) + len(left) > min(MAX_NODES, len(points) // 4):
            return None
        middle = np.searchsorted(points, 0.5 * (points[left] + points[right]))
        middle = np.clip(middle, left + 1, right - 1)
        new = function(points[middle])
        apart = np.abs(CubicSpline(points[known], values)(points[middle]) - new)
        wrong = np.any((apart > tolerance).reshape(len(new), -1), axis=1)
        known = np.concatenate([known, middle])
        order = np.argsort(known)
        known, values = known[order], np.concatenate([values, new])[order]
        left, right = np.hstack([[left, middle], [middle, right]])[:, np.concatenate([wrong, wrong])]
        wide = right - left > 1
        left, right = left[wide], right[wide]
    return np.asarray(CubicSpline(points[known], values)(points)[place])
