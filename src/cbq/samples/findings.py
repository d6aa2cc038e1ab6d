"""Facts about samples that their arrays do not show: findings of how they were made, and points at which f failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq.common import Array, Integers, points, real, shown
from cbq.io import Numbers, Optional, Text, saved
from cbq.samples.conditional import find_thetas
from cbq.samples.names import Names

KINDS = ("convergence", "ratio")  # the kinds of findings of fits that these become
NARROW = 0.5  # a coordinate describes the failures if they fill a smaller part of its range
SHOWN_COORDINATES = 2
BLOCK = 2**20  # distances between thetas in memory at a time


@saved("SamplesFinding", kind=Text(KINDS), text=Text(), theta=Optional(Numbers("p")))
@dataclass(frozen=True, eq=False)
class SamplesFinding:
    """A finding about samples: its kind, a text in whole sentences, and the theta (p,) if it concerns a single one.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(4, 200)) + [[0.0], [0.0], [0.0], [3.0]]  # one chain is elsewhere
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     samples = cbq.Samples.from_arviz({1.0: {"x": x}}, value="x")
    >>> [finding.kind for finding in samples.findings]
    ['convergence']
    """

    kind: str
    text: str
    theta: Array | None = None

    def __post_init__(self) -> None:
        if self.theta is not None:
            self.theta.setflags(write=False)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, SamplesFinding) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, str, bytes | None]:
        return self.kind, self.text, None if self.theta is None else (self.theta + 0.0).tobytes()


def about(findings: Sequence[SamplesFinding], theta: Array) -> tuple[SamplesFinding, ...]:
    """The findings about thetas among (T, p), or about the samples as a whole; each once."""
    kept = (finding for finding in findings if finding.theta is None or find_thetas(finding.theta[None], theta)[0] >= 0)
    return tuple(dict.fromkeys(kept))


def in_brief(findings: Sequence[SamplesFinding], kind: str, T: int) -> str:
    """The text of the first finding of a kind, and the number of thetas, of T, with findings of this kind."""
    of_kind = [finding for finding in findings if finding.kind == kind]
    alike = sum(finding.theta is not None for finding in of_kind)
    return f"{of_kind[0].text}{f' {alike} of {T} thetas have this problem.' * (alike > 1)}"


def _check(counts: Integers, drawn: Integers, **_: object) -> None:
    if np.any(counts > drawn) or not np.any(counts):
        raise ValueError("counts must be at most drawn, and positive at some theta.")


@saved(
    "Failures",
    check=_check,
    theta=Numbers("sampled p"),
    position=Numbers("sampled", int, least=-1),
    counts=Numbers("sampled", int, least=0, total="failed"),
    drawn=Numbers("sampled", int, least=1),
    x=Numbers("failed d"),
    lowest=Numbers("d"),
    highest=Numbers("d"),
)
@dataclass(frozen=True, eq=False)
class Failures:
    """The points at which f failed.

    theta : (S, p), all thetas with points, including thetas without any value of f.
    position : (S,), their indices in the samples; -1 for thetas without any value, which samples leave out.
    counts, drawn : (S,), the numbers of points at which f failed, and of all points.
    x : (sum counts, d), the points at which f failed, by theta.
    lowest, highest : (d,), the range of all points.

    Examples
    --------
    >>> x, values = [[0.1, 0.4], [0.9, 1.2]], [[1.0, 2.0], [3.0, 4.0]]
    >>> measure = cbq.measures.Gaussian(0.0, cov=1.0)
    >>> samples = cbq.Samples([0.0, 1.0], x, values, measure, failed=[[2.5], []])
    >>> samples.failures.counts.tolist(), round(samples.failures.share, 2)
    ([1, 0], 0.2)
    """

    theta: Array
    position: Integers
    counts: Integers
    drawn: Integers
    x: Array
    lowest: Array
    highest: Array

    def __post_init__(self) -> None:
        for array in vars(self).values():
            array.setflags(write=False)

    @classmethod
    def of(cls, theta: Array, failed: Sequence[Array], x: Sequence[Array]) -> Failures | None:
        """From S thetas (S, p), points at which f failed, and points with a value; None if it never failed."""
        counts, values = (np.array([len(points) for points in parts]) for parts in (failed, x))
        if not np.any(counts):
            return None
        position = np.where(values > 0, np.cumsum(values > 0) - 1, -1)
        together = np.concatenate([*failed, *x])
        ends = together.min(axis=0), together.max(axis=0)
        kept = counts + values > 0
        return cls(theta[kept], position[kept], counts[kept], (counts + values)[kept], np.concatenate(failed), *ends)

    def select(self, chosen: Integers, T: int) -> Failures | None:
        """The failures at chosen thetas, of T, and at thetas without any value; None if there are none."""
        place = np.full(T + 1, -2)
        place[chosen[::-1]] = np.arange(len(chosen))[::-1]  # the first of equal ones
        place[-1] = -1
        position = place[self.position]
        kept = position > -2
        counts, x = self.counts[kept], self.x[np.repeat(kept, self.counts)]
        if not np.any(counts):
            return None
        return Failures(self.theta[kept], position[kept], counts, self.drawn[kept], x, self.lowest, self.highest)

    @property
    def n_drawn(self) -> int:
        """The number of all points."""
        return int(np.sum(self.drawn))

    @property
    def share(self) -> float:
        """The share of all points at which f failed."""
        return len(self.x) / self.n_drawn

    @property
    def shares(self) -> Array:
        """The share of the points of each theta: (S,)."""
        return np.asarray(self.counts / self.drawn)

    def share_near(self, theta: Array) -> Array:
        """The share of failures at the nearest theta with points, for each theta (M, p): (M,)."""
        nodes, shares = self.theta, self.shares
        unit = np.where(np.ptp(nodes, axis=0) > 0, np.ptp(nodes, axis=0), 1.0)
        step = max(1, BLOCK // nodes.size)
        blocks = (theta[i : i + step, None, :] for i in range(0, len(theta), step))
        return np.concatenate([shares[np.argmin(np.sum(((b - nodes) / unit) ** 2, axis=2), axis=1)] for b in blocks])

    def __str__(self) -> str:
        return self.described(Names())

    def described(self, names: Names) -> str:
        """The failures in words; names: of the coordinates of x."""
        worst = int(np.argmax(self.shares))
        of_one = f"up to {self.shares[worst]:.1%} of the points of a theta, at theta = {self.theta[worst]}"
        return f"f failed at {len(self.x)} of {self.n_drawn} points ({self.share:.1%}; {of_one}), {self._where(names)}"

    def _where(self, names: Names) -> str:
        """The coordinates of x in which the failures are closest together, and their range."""
        low, high = self.x.min(axis=0), self.x.max(axis=0)
        part = (high - low) / np.where(self.highest > self.lowest, self.highest - self.lowest, 1.0)
        narrow = [int(j) for j in np.argsort(part, kind="stable")[:SHOWN_COORDINATES] if part[j] < NARROW]
        if not narrow:
            return "all over the range of x"
        called = names.with_x(len(low)).x
        return "where " + " and ".join(
            f"{called[j]} is from {low[j]:.4g} to {high[j]:.4g} (of {self.lowest[j]:.4g} to {self.highest[j]:.4g})"
            for j in sorted(narrow)
        )


def failed_points(failed: Any, T: int, d: int, names: Names) -> list[Array]:
    """The argument `failed` as T arrays (F_t, d)."""
    if not isinstance(failed, list | tuple | np.ndarray) or getattr(failed, "ndim", 1) == 0 or len(failed) != T:
        raise ValueError(f"failed must be a list of T = {T} arrays, one for each theta, not {shown(failed)}.")
    arrays = [real(names.ordered("x", part, f"failed[{t}]"), f"failed[{t}]") for t, part in enumerate(failed)]
    return [points(part, d, f"failed[{t}]") if part.size else np.empty((0, d)) for t, part in enumerate(arrays)]
