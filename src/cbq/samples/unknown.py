"""The measure of samples with unknown measures: averages and regressions of values need none."""

from __future__ import annotations

from typing import NoReturn, Self

from cbq.common import Array, whole
from cbq.io import Integer, saved
from cbq.measures import Measure

WHY = (
    "these samples have none: make them with measure=, such as a family, a function from theta to its measure, or "
    "draws of posteriors with score=. "
    "cbq.LSMC(), cbq.KLSMC() and cbq.MonteCarlo() need no measure."
)


@saved("UnknownMeasure", dim=Integer(1))
class UnknownMeasure(Measure):
    """An unknown measure in `dim` dimensions: every method that needs more than the dimension raises a TypeError."""

    def __init__(self, dim: int) -> None:
        self._dim = whole(dim, "dim", 1)

    @property
    def dim(self) -> int:
        """Dimension d of the points."""
        return self._dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """One measure for all thetas: ()."""
        return ()

    def parameters(self) -> dict[str, Array]:
        """There are none."""
        return {}

    def _rebuild(self, parameters: dict[str, Array]) -> Self:
        return self

    def equals(self, other: Measure) -> bool:
        """Whether the other is unknown, too."""
        return isinstance(other, UnknownMeasure) and other.dim == self.dim

    def __repr__(self) -> str:
        return f"UnknownMeasure(dim={self.dim})"

    def moments(self) -> tuple[Array, Array]:
        """Unknown: raises a TypeError."""
        _refuse()

    def _logpdf(self, x: Array) -> Array:
        _refuse()

    def _score(self, x: Array) -> Array:
        _refuse()

    def _from_normal(self, v: Array) -> Array:
        _refuse()

    def _to_normal(self, x: Array) -> Array:
        _refuse()


def _refuse() -> NoReturn:
    raise TypeError(f"the measure of x is not known: {WHY}")
