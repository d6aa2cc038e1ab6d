"""One set of columns: from its regression to the value of knowing it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array
from cbq.linalg.threads import one_blas_thread
from cbq.nested.decisions import Decisions
from cbq.psa.canonical import canonical
from cbq.psa.coordinates import coordinates
from cbq.psa.regression import fit_surface
from cbq.psa.value import NetBenefits, Value, value


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Net benefits as differences from the first decision, in terms of few outputs that are regressed once.

    y: (n, q). maps: (K, q, D), so that y @ maps[k] are the net benefits less that of the first decision.
    """

    y: Array
    maps: Array

    @classmethod
    def of(cls, outputs: Array, decisions: Decisions) -> Contrasts:
        """Of outputs (n, C).

        Net benefits are straight lines in willingness to pay: those at its two ends give all others.
        """
        apart = decisions.weights[:, 1:] - decisions.weights[:, :1]  # (K, D - 1, C)
        K, others = apart.shape[:2]
        prices = np.zeros(1) if decisions.willingness_to_pay is None else np.ravel(decisions.willingness_to_pay)
        low, high = int(np.argmin(prices)), int(np.argmax(prices))
        ends = [low] if prices[low] == prices[high] else [low, high]
        share = (prices - prices[low]) / (prices[high] - prices[low]) if len(ends) == 2 else np.zeros(K)
        maps = np.zeros((K, len(ends), others, others + 1))
        for e, part in enumerate([1.0 - share, share][: len(ends)]):
            maps[:, e, :, 1:] = part[:, None, None] * np.eye(others)
        y = np.concatenate([outputs @ apart[e].T for e in ends], axis=1)
        return cls(y, maps.reshape(K, -1, others + 1))


@dataclass(frozen=True, eq=False)
class Analysis:
    """The value of a set for K willingnesses to pay, and the landmarks of its regressions."""

    value: Value
    landmarks: int


def analyse(contrasts: Contrasts, columns: Array, rng: np.random.Generator) -> Analysis:
    """The value of knowing the columns (n, p) of a set."""
    with one_blas_thread():
        choices = coordinates(columns)
        outputs = canonical(contrasts.y, choices[-1], rng)
        if not outputs.values.shape[1]:  # the decisions differ by constants: there is nothing to learn
            return Analysis(Value(*(np.zeros(len(contrasts.maps)) for _ in range(5))), 0)
        surfaces = [fit_surface(choices, y, rng) for y in outputs.values.T]
        benefits = NetBenefits(outputs.mean @ contrasts.maps, outputs.back @ contrasts.maps)
        found = value(surfaces, outputs.values, benefits, rng)
    return Analysis(found, max(s.m for s in surfaces))
