"""Rows that are copies of others: draws that are counted more than once make an estimate look surer than it is."""

from __future__ import annotations

import numpy as np

from cbq._arrays import Array


def copies(rows: Array) -> int:
    """How many of the rows (n, k) repeat another one, the first of equal rows not counted."""
    ordered = rows[np.lexsort(rows.T)]
    return int(np.sum(np.all(ordered[1:] == ordered[:-1], axis=1)))


def remark(rows: Array) -> str:
    """What is to be said about copies among rows (n, k) of the outputs and the columns of a set; "" without any."""
    found = copies(rows)
    if not found:
        return ""
    are = "row is a copy of another" if found == 1 else "rows are copies of others"
    return f"{found} of {len(rows)} {are} and count as independent draws: where they are not, se is too small"
