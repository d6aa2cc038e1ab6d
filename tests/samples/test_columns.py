"""Rows that summarise a table are no draws."""

import numpy as np
import pytest

import cbq
from cbq.samples.columns import find_summary

N = 200
RNG = np.random.default_rng(3)
A, E = RNG.normal(size=(2, N))
QALY, COST = 6.5 + A[:, None] * [0.5, 0.7], 4000 + 900 * E[:, None] * [1.0, 1.3] + 50 * RNG.normal(size=(N, 2))
VALUES = np.column_stack([QALY, COST])
MADE = {
    "means": lambda v: [np.mean(v, axis=0)],
    "means and deviations": lambda v: [np.mean(v, axis=0), np.std(v, axis=0, ddof=1)],
    "total": lambda v: [np.sum(v, axis=0)],
    "extremes first": lambda v: [np.min(v, axis=0), np.max(v, axis=0), np.mean(v, axis=0)],
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("decimals", [None, 6, 3])
def test_summaries_below_draws_are_found(made, decimals):
    rows = np.array(MADE[made](VALUES))
    found = find_summary(np.vstack([VALUES, rows if decimals is None else np.round(rows, decimals)]))
    assert found.draws == N


def draws_of(kind, rng, n, C):
    z = rng.normal(size=(n, C))
    return {
        "normal": z,
        "rounded": np.round(z, 2),
        "money": np.round(5000 + 900 * z),
        "binary": (z > 0).astype(float),
        "counts": rng.poisson(3, (n, C)).astype(float),
        "determined": np.round(1000 + 300 * z[:, :1] * np.arange(1, C + 1)),
        "repeated": z[rng.integers(0, n // 4 + 1, n)],
        "heavy tails": rng.standard_t(1.2, (n, C)),
        "sorted": np.sort(z, axis=0),
        "mostly zero": np.where(rng.random((n, C)) < 0.9, 0.0, np.round(100 * np.abs(z))),
        "huge": 1.7e308 * np.tanh(z),
    }[kind]


KINDS = ["normal", "rounded", "money", "binary", "counts", "determined", "repeated", "heavy tails", "sorted", "huge"]


@pytest.mark.parametrize("kind", [*KINDS, "mostly zero"])
def test_draws_are_not_taken_for_summaries(kind):
    rng = np.random.default_rng(4)
    for n in (1, 2, 11, 12, 30, 60, 200):
        for C in (1, 2, 4):
            assert all(find_summary(draws_of(kind, rng, n, C)) is None for _ in range(4))


def test_summaries_are_refused_by_all_analyses():
    table = {"old": np.append(QALY[:, 0], QALY[:, 0].mean()), "new": np.append(QALY[:, 1], QALY[:, 1].mean())}
    inputs = {"a": np.append(A, A.mean())}
    for analysis in (
        lambda: cbq.evppi(table, inputs, "all"),
        lambda: cbq.evpi(table),
        lambda: cbq.voi.ceac(table),
    ):
        with pytest.raises(
            ValueError, match=r"row 200 of outputs holds the means of the rows above.*leave row 200 out"
        ):
            analysis()
