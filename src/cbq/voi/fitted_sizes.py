"""The sizes of a study for which a regression is fitted, and values of the sizes between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cbq.common.arrays import Array
from cbq.voi.analysis import SetValue

MAX_FITS = 10  # sizes whose summaries are regressed on
INTERPOLATED = ("evppi", "plug_in", "regression", "sampling", "unseen", "r2", "noise_ratio", "effective_n")


def fitted_sizes(sizes: Sequence[int]) -> list[int]:
    """All of the sizes, in increasing order, if they are few; otherwise some, with about equal ratios."""
    if len(sizes) <= MAX_FITS:
        return list(sizes)
    logs, found = np.log(sizes), [0, len(sizes) - 1]
    while len(found) < MAX_FITS:  # the one that is farthest from those chosen
        gaps = np.min(np.abs(logs[:, None] - logs[found]), axis=1)
        found.append(int(np.argmax(gaps)))
    return [sizes[i] for i in sorted(found)]


def between_sizes(fitted: Sequence[int], values: Sequence[SetValue], sizes: Sequence[int]) -> list[SetValue]:
    """The values of all sizes, from those of the fitted ones: monotone cubic interpolation over log size.

    A size that was fitted keeps its value.
    """
    if len(fitted) == len(sizes):
        return list(values)
    from scipy.interpolate import PchipInterpolator  # slow to import

    x, at = np.log(fitted), np.log(sizes)
    fields = {
        name: PchipInterpolator(x, np.stack([getattr(each, name) for each in values]))(at) for name in INTERPOLATED
    }
    found = []
    for i, size in enumerate(sizes):
        j = int(np.clip(np.searchsorted(fitted, size) - 1, 0, len(fitted) - 2))
        share = float((at[i] - x[j]) / (x[j + 1] - x[j]))
        nearer = values[j + round(share)]
        here: dict[str, Any] = {name: np.asarray(column[i]) for name, column in fields.items()}
        found.append(replace(nearer, **here, effects=_mixed(values[j], values[j + 1], share)))
    return found


def _mixed(left: SetValue, right: SetValue, share: float) -> Array | None:
    """The effects of rows (R, K) at this share of the way from one size to the next."""
    if left.effects is None or right.effects is None:
        return left.effects if right.effects is None else right.effects
    return np.asarray((1.0 - share) * left.effects + share * right.effects)
