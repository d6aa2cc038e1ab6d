"""Indices as linear functions of the shares of sets: against the definition by all orders."""

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cbq.indices.plan import Plan


def plan(J, **options):
    chosen = {"second": True, "shapley": True, "exact": 8, "permutations": 6, "rng": np.random.default_rng(0)}
    return Plan.of(J, **{**chosen, **options})


def shares_of(made, value):
    return np.array([value(subset) for subset in made.subsets])


def random_game(J, seed=0):
    """A monotone game: the square of a sum of positive numbers."""
    weights = np.random.default_rng(seed).random(J)
    return lambda subset: float(sum(weights[i] for i in subset)) ** 2 / float(np.sum(weights)) ** 2


@pytest.mark.parametrize("J", [1, 2, 4, 5])
def test_shapley_effects_average_over_all_orders(J):
    value, effects = random_game(J), np.zeros(J)
    orders = list(permutations(range(J)))
    for order in orders:
        for k, i in enumerate(order):
            effects[i] += (value(order[: k + 1]) - value(order[:k])) / len(orders)
    made = plan(J)
    assert_allclose(made.indices["shapley"] @ shares_of(made, value), effects, rtol=1e-12)
    assert np.all(made.error_of_orders(shares_of(made, value)) == 0)


def test_first_total_and_second_order():
    value, made = random_game(4), plan(4, shapley=False)
    v, everything = shares_of(made, value), set(range(4))
    assert_allclose(made.first @ v, [value({i}) for i in range(4)])
    assert_allclose(made.total @ v, [1 - value(everything - {i}) for i in range(4)])
    second = [value({i, j}) - value({i}) - value({j}) for i, j in made.pairs]
    assert_allclose(made.second @ v, second, atol=1e-15)
    assert len(made.indices["shapley"]) == 0


def test_some_orders_estimate_the_average_over_all():
    J, value = 9, random_game(9)
    exact, some = plan(J, exact=9, second=False), plan(J, permutations=60, second=False)
    effects = exact.indices["shapley"] @ shares_of(exact, value)
    v = shares_of(some, value)
    error = some.error_of_orders(v)
    assert np.all(np.abs(some.indices["shapley"] @ v - effects) <= 4 * error + 1e-12)
    assert_allclose(np.sum(some.indices["shapley"] @ v), 1.0)  # effects of every order add up


def test_the_set_of_all_inputs_comes_first():
    assert plan(3).subsets[0] == frozenset({0, 1, 2})
    assert all(plan(3).subsets)
