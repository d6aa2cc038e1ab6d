"""Thetas that stand for their measure Q in an expectation over it, and how far off they may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Integers, generator
from cbq.collect.draws import iid, sobol
from cbq.measures import Empirical, Measure, Unnormalised, as_measure
from cbq.samples.arrays import thetas_in

Design = Literal["sobol", "iid"]
Prior = Measure | npt.ArrayLike
NODES = 2**14  # thetas, where no number is asked for
SCRAMBLES = 8  # independent Sobol designs, from whose differences their error is known
BATCHES, FEWEST_PARTS = 32, 4  # parts of draws that are compared in the same way, and of a short table
FEW = 512  # thetas at which whole functions are drawn


@dataclass(frozen=True, eq=False)
class Outer:
    """Thetas (n, p) with weights (n,) that sum to one.

    parts: slices of them that are designs of their own, and independent; none where the thetas are all of Q.
    few: rows (m,) of thetas that stand for all at a lower price, with the weights few_weights (m,).
    """

    theta: Array
    weights: Array
    parts: tuple[slice, ...]
    few: Integers
    few_weights: Array

    @property
    def df(self) -> float:
        """The degrees of freedom of a standard error from the parts."""
        return max(len(self.parts) - 1.0, 1.0)

    def of_parts(self, functional: Callable[[Array, Array], Array], values: Array) -> list[Array]:
        """A functional of values (n, ...) and weights, for the thetas of each part alone."""
        return [functional(values[part], _normalised(self.weights[part])) for part in self.parts]


def standard_error(of_parts: Sequence[Array]) -> Array:
    """That of the average over parts, from how they differ; none where there are no parts."""
    return np.std(of_parts, axis=0, ddof=1) / np.sqrt(len(of_parts)) if len(of_parts) else np.zeros(())


def outer(prior: Prior, n: int, design: Design, rng: np.random.Generator | int, p: int, least: int = 1) -> Outer:
    """n thetas of a prior over p coordinates, or the thetas of a table of draws, whose number is their own.

    least: how many thetas a part of them must have for a functional of them to mean something.
    """
    check_design(design)
    if isinstance(prior, list | tuple | np.ndarray):
        return _table(thetas_in(prior, p, "the fit"), least)
    measure = as_prior(prior, p)
    if isinstance(measure, Empirical):
        return _atoms(measure)
    fewest = SCRAMBLES * max(least, 2)
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < fewest:
        raise ValueError(f"n must be a number of thetas, here {fewest} or more, but it is {n!r}.")
    if design == "sobol":
        return _sobol(measure, int(n), generator(rng))
    return _equal(iid(measure, int(n), generator(rng)), min(BATCHES, n // least))


def check_design(design: str) -> None:
    """Raise unless thetas can be drawn in this way."""
    if design not in get_args(Design):
        raise ValueError(f"design must be one of {', '.join(map(repr, get_args(Design)))}, but it is {design!r}.")


def as_prior(prior: Prior, p: int) -> Measure:
    """The distribution of theta, of p coordinates, or an error."""
    measure = as_measure(prior)
    if measure.batch_shape:
        raise ValueError(
            f"prior must be one distribution of theta, but {measure!r} is a batch: prior[0] is the first of them."
        )
    if isinstance(measure, Unnormalised):
        raise ValueError(
            "prior is a measure that cannot be drawn from: pass draws of theta instead, as an array (n, p)."
        )
    if measure.dim != p:
        raise ValueError(f"prior is a measure of {measure.dim} coordinates, but theta has p = {p} in this fit.")
    return measure


def _sobol(measure: Measure, n: int, rng: np.random.Generator) -> Outer:
    size = 2 ** (-(-n // SCRAMBLES) - 1).bit_length()  # of each design: powers of two are balanced best
    theta = np.concatenate([measure.transport(sobol(size, measure.dim, each)) for each in rng.spawn(SCRAMBLES)])
    return _equal(theta, SCRAMBLES)


def _equal(theta: Array, parts: int) -> Outer:
    n, few = len(theta), min(len(theta), FEW)
    return Outer(theta, np.full(n, 1 / n), _slices(n, parts), np.arange(few), np.full(few, 1 / few))


def _table(theta: Array, least: int) -> Outer:
    """Draws of theta as they are: neighbours may be alike, as in a Markov chain, so parts are long runs of them."""
    n, fewest = len(theta), FEWEST_PARTS * least
    if n < fewest:
        raise ValueError(f"prior is a table of {n} draw{'s' * (n > 1)} of theta, but here it takes {fewest} or more.")
    few, few_weights = _systematic(np.full(n, 1 / n))
    return Outer(theta, np.full(n, 1 / n), _slices(n, min(BATCHES, n // least)), few, few_weights)


def _atoms(measure: Empirical) -> Outer:
    """All thetas of a measure that has finitely many: the expectation is their sum, without an error."""
    weights = np.asarray(measure.weights)
    return Outer(np.asarray(measure.points), weights, (), *_systematic(weights))


def _systematic(weights: Array) -> tuple[Integers, Array]:
    """Rows that stand for all, and their weights: all of them, or every so many by their weights."""
    if len(weights) <= FEW:
        return np.arange(len(weights)), weights
    places = (np.arange(FEW) + 0.5) / FEW
    rows = np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)
    return rows, np.full(FEW, 1 / FEW)


def _slices(n: int, parts: int) -> tuple[slice, ...]:
    ends = np.linspace(0, n, parts + 1).round().astype(int)
    return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))


def _normalised(weights: Array) -> Array:
    return np.asarray(weights / np.sum(weights))
