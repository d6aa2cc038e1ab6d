"""Points that were drawn from their measures, and at which f failed: an estimate must not hide them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbq._arrays import Array, Integers
from cbq.io import Integer, Numbers, saved

NARROW = 0.5  # failures in a smaller part of the range of a coordinate are described by it
SHOWN_COORDINATES = 2


def _check(counts: Integers, drawn: Integers, n_drawn: int, **_: object) -> None:
    if np.any(counts > drawn) or np.sum(drawn) > n_drawn:
        raise ValueError("more points failed than were drawn.")


@saved(
    "Failures",
    check=_check,
    theta=Numbers("failed_thetas p"),
    counts=Numbers("failed_thetas", int, least=1, total="failed_points"),
    drawn=Numbers("failed_thetas", int, least=1),
    n_drawn=Integer(1),
    x=Numbers("failed_points d"),
    lowest=Numbers("d"),
    highest=Numbers("d"),
)
@dataclass(frozen=True, eq=False)
class Failures:
    """Where f failed.

    theta : (K, p), the thetas at which f failed at some of the points.
    counts, drawn : (K,), the number of points at which it failed, and of all points that were drawn there.
    n_drawn : the number of points that were drawn at all thetas.
    x : (sum counts, d), the points at which f failed.
    lowest, highest : (d,), the range of all points.
    """

    theta: Array
    counts: Integers
    drawn: Integers
    n_drawn: int
    x: Array
    lowest: Array
    highest: Array

    def __post_init__(self) -> None:
        for array in (self.theta, self.counts, self.drawn, self.x, self.lowest, self.highest):
            array.setflags(write=False)

    @classmethod
    def of(cls, theta: Array, failed: Sequence[Array], x: Sequence[Array]) -> Failures | None:
        """From T arrays of points at which f failed and T arrays of points with a value; None if it never failed."""
        counts = np.array([len(points) for points in failed])
        rows, every = np.flatnonzero(counts), np.concatenate([*failed, *x])
        if not len(rows):
            return None
        drawn = counts + [len(points) for points in x]
        points = np.concatenate(failed)
        return cls(theta[rows], counts[rows], drawn[rows], len(every), points, every.min(axis=0), every.max(axis=0))

    def of_thetas(self, theta: Array, n_values: int) -> Failures | None:
        """Those of some thetas (T, p), which have this many points with a value; None if there are none."""
        kept = np.array([bool(np.any(np.all(row == theta, axis=1))) for row in self.theta])
        if not np.any(kept):
            return None
        counts, drawn = self.counts[kept], self.drawn[kept]
        x = self.x[np.repeat(kept, self.counts)]
        total = n_values + int(np.sum(counts))
        return Failures(self.theta[kept], counts, drawn, total, x, self.lowest, self.highest)

    @property
    def share(self) -> float:
        """The share of all points."""
        return float(np.sum(self.counts)) / self.n_drawn

    @property
    def shares(self) -> Array:
        """The share of the points of each theta: (K,)."""
        return np.asarray(self.counts / self.drawn)

    def share_near(self, theta: Array, observed: Array) -> Array:
        """The share at the nearest theta that was sampled, for each theta (M, p): (M,). observed: (T, p)."""
        nodes = np.concatenate([self.theta, observed])
        shares = np.concatenate([self.shares, np.zeros(len(observed))])
        unit = np.where(np.ptp(nodes, axis=0) > 0, np.ptp(nodes, axis=0), 1.0)
        nearest = [int(np.argmin(np.sum(((nodes - row) / unit) ** 2, axis=1))) for row in theta]  # theta comes first
        return np.asarray(shares[nearest])

    def __str__(self) -> str:
        worst, n_failed = int(np.argmax(self.shares)), len(self.x)
        of_one = f"up to {self.shares[worst]:.1%} of those of one theta, at theta = {self.theta[worst]}"
        return f"f failed at {n_failed} of {self.n_drawn} points ({self.share:.1%}; {of_one}), {self._where()}"

    def _where(self) -> str:
        """The coordinates of x in which the failures are closest together, and their range."""
        low, high = self.x.min(axis=0), self.x.max(axis=0)
        part = (high - low) / np.where(self.highest > self.lowest, self.highest - self.lowest, 1.0)
        narrow = [int(j) for j in np.argsort(part, kind="stable")[:SHOWN_COORDINATES] if part[j] < NARROW]
        if not narrow:
            return "all over the range of x"
        names = {j: "x" if len(low) == 1 else f"x_{j}" for j in narrow}
        return "where " + " and ".join(
            f"{names[j]} is from {low[j]:.4g} to {high[j]:.4g} (of {self.lowest[j]:.4g} to {self.highest[j]:.4g})"
            for j in sorted(narrow)
        )
