"""From a board to samples: points at which f failed are left out, and that is said."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np

from cbq.collect.batches import Board
from cbq.collect.errors import CollectWarning, IntegrandError
from cbq.samples import Samples

SHOWN = 3  # failures in a warning


def samples_of(points: Samples, board: Board) -> Samples:
    """The samples of all points at which f did not fail; `points` has them all, with other values."""
    if not board.failures:
        return points.with_values(board.f)
    good = [known.copy() for known in board.known]
    for t, i in board.failures:
        good[t][i] = False
    kept = [t for t, rows in enumerate(good) if np.any(rows)]
    if not kept:
        t, i = min(board.failures)
        why = board.failures[t, i]
        raise IntegrandError(
            f"the integrand failed at all {board.total} points; at point i = {i} of theta index t = {t} it {why}.",
            *(t, points.theta[t], i, board.x[t][i]),
        )
    # of a warning, the third frame from here is the one that called collect
    warnings.warn(_story(points, board, kept), CollectWarning, stacklevel=3)
    rows = [points.starts[t] + np.flatnonzero(good[t]) for t in range(points.T)]
    return (
        points.regrouped([row if len(row) else points.starts[t : t + 1] for t, row in enumerate(rows)])
        .select(kept)
        .with_values([board.f[t][good[t]] for t in kept])
    )


def _story(points: Samples, board: Board, kept: Sequence[int]) -> str:
    per_theta = Counter(t for t, _ in board.failures)
    lines = [
        f"at theta index t = {t} (theta = {points.theta[t]}), point i = {i} (x = {board.x[t][i]}), it {why}"
        for (t, i), why in sorted(board.failures.items())[:SHOWN]
    ]
    more = f"; and {len(board.failures) - SHOWN} more" * (len(board.failures) > SHOWN)
    gone = sorted(set(range(points.T)) - set(kept))
    dropped = f" No point is left at theta index t = {', '.join(map(str, gone))}: dropped." * bool(gone)
    return (
        f"the integrand failed at {len(board.failures)} of {board.total} points, at {len(per_theta)} of {points.T} "
        f"thetas, and they are left out: {'; '.join(lines)}{more}.{dropped} on_error='raise' evaluates them again."
    )
