"""Points that a theta borrows from others, where f does not depend on theta: evenly spread over the bulk of its law."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array, Booleans, Integers
from cbq.measures import Empirical, Measure, Unnormalised
from cbq.samples import Samples

BULK = 1e-4  # the share of a law that is not its bulk
CROWD = 10  # candidates for each point that is wanted: with more, every so many are looked at


def borrowed(samples: Samples, most: int) -> tuple[Samples, Integers]:
    """The samples with points of other thetas added, up to `most` at each theta; and the row that each came from.

    A theta keeps its own points. Those that it borrows lie in the bulk of its law, and each is as far as can be from
    those before, in coordinates in which the law is standard normal. The law of a theta is no longer that of its
    points, which Bayesian quadrature does not ask for.
    """
    x, own = samples.all_points, samples.owners
    rows = [
        np.concatenate([np.flatnonzero(own == t), _lent(samples.law(t), x, own == t, most - int(samples.counts[t]))])
        for t in range(samples.T)
    ]
    return samples.regrouped(rows), np.concatenate(rows)


def _lent(law: Measure, x: Array, own: Booleans, wanted: int) -> Integers:
    """Which of the points x (n, d) a theta with this law and its own points among them borrows: up to `wanted`."""
    from scipy.special import gammaincinv

    if wanted <= 0:
        return np.empty(0, dtype=np.intp)
    if isinstance(law, Empirical | Unnormalised):
        raise ValueError(f"borrowing takes points in the bulk of a law, which {law!r} cannot tell: take borrow=0.")
    u = law.inverse_transport(x, base="normal")
    radius2 = 2.0 * gammaincinv(0.5 * law.dim, 1.0 - BULK)  # that of a chi-square law
    candidates = np.flatnonzero(~own & (np.sum(u * u, axis=1) <= radius2))
    stride = max(1, len(candidates) // (CROWD * wanted))
    candidates = candidates[::stride]
    if len(candidates) <= wanted:
        return candidates
    return candidates[_spread(u[candidates], u[own], wanted)]


def _spread(u: Array, taken: Array, wanted: int) -> Integers:
    """`wanted` of the points u (n, d), each the farthest from those before and from those that are taken (m, d)."""
    nearest2 = np.full(len(u), np.inf)
    for point in taken:
        np.minimum(nearest2, np.sum((u - point) ** 2, axis=1), out=nearest2)
    chosen = np.empty(wanted, dtype=np.intp)
    for k in range(wanted):
        chosen[k] = np.argmax(nearest2)
        np.minimum(nearest2, np.sum((u - u[chosen[k]]) ** 2, axis=1), out=nearest2)
    return chosen
