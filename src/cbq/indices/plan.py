"""Sensitivity indices as linear functions of the shares v(S) of the variance that sets S of inputs explain alone.

v(S) = Var E[f | x_S] / Var f. With ~i for all inputs but i, and v of all inputs beside it, which is 1 unless f has
noise,

    first_i = v(i),   total_i = v(all) - v(~i),   second_ij = v(i, j) - v(i) - v(j),

and the Shapley effect of i is the average of v(S and i) - v(S) over all orders of the inputs, where S comes before i
(Owen 2014). Over few orders in place of all, an order and its reverse go together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial

import numpy as np

from cbq.common import Array

Subset = frozenset[int]


@dataclass(frozen=True, eq=False)
class Plan:
    """The sets of J inputs whose shares are needed, K of them, and the indices as linear functions of these shares.

    subsets : K sets, the one of all inputs first. first, total : (J, K). pairs : of inputs; second : (pairs, K).
    orders : (P, J, K), the Shapley effects for each of P pairs of orders; one of all orders together; or none, P = 0.
    """

    subsets: tuple[Subset, ...]
    first: Array
    total: Array
    pairs: tuple[tuple[int, int], ...]
    second: Array
    orders: Array

    @classmethod
    def of(
        cls, J: int, *, second: bool, shapley: bool, exact: int, permutations: int, rng: np.random.Generator
    ) -> Plan:
        """For J inputs. Shapley effects are over all orders of up to `exact` inputs, otherwise over `permutations`."""
        every = frozenset(range(J))
        pairs = tuple(combinations(range(J), 2)) if second else ()
        orders: list[list[tuple[int, Subset, float]]] = []
        if shapley and exact >= J:
            orders = [_all_orders(J)]
        elif shapley:
            orders = [_two_orders(rng.permutation(J).tolist()) for _ in range(-(-permutations // 2))]
        wanted = [every, *(frozenset([i]) for i in range(J)), *(every - {i} for i in range(J)), *map(frozenset, pairs)]
        wanted += [each for order in orders for i, before, _ in order for each in (before, before | {i})]
        subsets = tuple(each for each in dict.fromkeys(wanted) if each)
        column = {each: k for k, each in enumerate(subsets)}

        def row(*terms: tuple[Subset, float]) -> Array:
            out = np.zeros(len(subsets))
            for subset, weight in terms:
                if subset:  # v of no inputs is zero
                    out[column[subset]] += weight
            return out

        def effects(order: Iterable[tuple[int, Subset, float]]) -> Array:
            out = np.zeros((J, len(subsets)))
            for i, before, weight in order:
                out[i] += row((before | {i}, weight), (before, -weight))
            return out

        both = [row((frozenset(pair), 1.0), *((frozenset([i]), -1.0) for i in pair)) for pair in pairs]
        return cls(
            subsets,
            np.stack([row((frozenset([i]), 1.0)) for i in range(J)]),
            np.stack([row((every, 1.0), (every - {i}, -1.0)) for i in range(J)]),
            pairs,
            np.reshape(both, (len(pairs), len(subsets))),
            np.reshape([effects(order) for order in orders], (len(orders), J, len(subsets))),
        )

    @property
    def indices(self) -> dict[str, Array]:
        """The matrices (rows, K) of all indices: first, total, shapley, second."""
        shapley = np.mean(self.orders, axis=0) if len(self.orders) else self.first[:0]
        return {"first": self.first, "total": self.total, "shapley": shapley, "second": self.second}

    def error_of_orders(self, shares: Array) -> Array:
        """The standard errors (J,) of Shapley effects that are due to the choice of orders, for shares (K,)."""
        P = len(self.orders)
        return np.std(self.orders @ shares, axis=0, ddof=1) / np.sqrt(P) if P > 1 else np.zeros(len(self.first))


def _all_orders(J: int) -> list[tuple[int, Subset, float]]:
    """Each input, each set that may come before it, and the share of the orders in which it does."""
    return [
        (i, frozenset(before), factorial(size) * factorial(J - size - 1) / factorial(J))
        for i in range(J)
        for size in range(J)
        for before in combinations([j for j in range(J) if j != i], size)
    ]


def _two_orders(order: Sequence[int]) -> list[tuple[int, Subset, float]]:
    """Each input with the sets before it in an order, and in its reverse."""
    return [(i, frozenset(each[:k]), 0.5) for each in (list(order), list(reversed(order))) for k, i in enumerate(each)]
