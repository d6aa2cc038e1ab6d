"""The expected value of partial perfect information: what knowing theta before deciding is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, Integers
from cbq.fit.base import Fit
from cbq.nested.answer import Answer
from cbq.nested.decisions import Decisions, Name, make_decisions
from cbq.nested.functionals import assess, refuse_other
from cbq.nested.outer import NODES, Design, Outer, Prior, standard_error


@dataclass(frozen=True, eq=False, repr=False)
class Evppi(Answer):
    """The expected value of knowing theta, and which decision is best at each theta; see `Answer`.

    Where a vector of K willingnesses to pay was given, numbers are arrays (K,).
    """

    fit: Fit
    decisions: Decisions

    def best(self, theta: npt.ArrayLike) -> Integers:
        """The decision with the largest expected net benefit at theta: (M,), or (M, K)."""
        return np.asarray(np.argmax(self.net_benefits(theta), axis=-1))

    def net_benefits(self, theta: npt.ArrayLike) -> Array:
        """The expected net benefits of all decisions at theta: (M, D), or (M, K, D)."""
        found = np.einsum("mc,kdc->mkd", self.fit.predict(theta), self.decisions.weights)
        return np.asarray(found if self.decisions.several else found[:, 0])


def evppi(
    fit: Fit,
    prior: Prior,
    *,
    effects: Sequence[Name] | None = None,
    costs: Sequence[Name] | None = None,
    willingness_to_pay: npt.ArrayLike | None = None,
    n: int = NODES,
    design: Design = "sobol",
    rng: np.random.Generator | int = 0,
) -> Evppi:
    """The expected value of knowing theta before deciding: E max_d B_d(theta) - max_d E B_d(theta).

    The estimate is the posterior expectation over what the net benefits B_d may be, all decisions together. The plug-in
    of their means, which is given beside it, is too small where decisions are close: a mean that is wrong cannot choose
    well.

    Parameters
    ----------
    fit : what a method returned, for f with C outputs: the net benefits of C decisions, or their effects and costs.
    prior : the distribution of theta, all its coordinates together; or draws of it, (n, p), or (n,) for p = 1.
    effects, costs : which outputs are the effect and the cost of each decision, by their numbers.
    willingness_to_pay : for a unit of effect, a number or K of them. The net benefit is then the effect times this,
        less the cost.
    n, design, rng : how many thetas stand for their measure, scrambled Sobol points or iid, and the seed.
    """
    refuse_other(fit)
    decisions = make_decisions(fit.C or 1, effects=effects, costs=costs, willingness_to_pay=willingness_to_pay)

    def functional(values: Array, weights: Array) -> Array:
        found = [_gain(values @ each.T, weights) for each in decisions.weights]
        return np.stack(found, axis=-1) if decisions.several else found[0]

    def estimator(nodes: Outer, mean: Array) -> tuple[Array, Array]:
        found = [_gain_and_error(nodes, mean @ each.T) for each in decisions.weights]
        values, errors = (np.stack(each) for each in zip(*found, strict=True))
        return (values, errors) if decisions.several else (values[0], errors[0])

    found = assess(fit, functional, prior, n=n, design=design, rng=rng, least=0.0, estimator=estimator)
    return Evppi(**{each.name: getattr(found, each.name) for each in fields(found)}, fit=fit, decisions=decisions)


def _gain(benefits: Array, weights: Array, overall: Array | None = None) -> Array:
    """What choosing at each theta gains over the best single choice (...), for net benefits (..., m, D).

    overall: (..., D), the mean net benefits by which that choice is made, if not those of these thetas.
    """
    overall = np.einsum("...md,m->...d", benefits, weights) if overall is None else overall
    best = np.argmax(overall, axis=-1)[..., None, None]
    chosen = np.take_along_axis(benefits, best, axis=-1)[..., 0]
    return np.asarray((np.max(benefits, axis=-1) - chosen) @ weights)


def _gain_and_error(nodes: Outer, benefits: Array) -> tuple[Array, Array]:
    """The gain for net benefits (n, D) at all thetas, and its standard error.

    All parts of the thetas are compared with the same single choice: where two are nearly equal, parts that chose for
    themselves would agree on gains that are too small.
    """
    overall = nodes.weights @ benefits
    gains = nodes.of_parts(partial(_gain, overall=overall), benefits)
    return _gain(benefits, nodes.weights), standard_error(gains)
