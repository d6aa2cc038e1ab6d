"""What a measure is: a measure P on R^d, batched over leading axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from cbq._arrays import Array, broadcast_batch, count, generator, points, take_rows
from cbq._immutable import Immutable

Base = Literal["uniform", "normal"]


class Measure(Immutable, ABC):
    """A probability measure P on R^d, or a batch of them.

    Points have shape (..., n, d) and their leading axes broadcast against `batch_shape`; in one dimension a
    scalar or an array (n,) will do. Measures are immutable.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension d of the points."""

    @property
    @abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of measures; () for a single one."""

    @abstractmethod
    def parameters(self) -> dict[str, Array]:
        """The arguments of the constructor, each an array with the batch axes in front."""

    def __getitem__(self, index: Any) -> Self:
        """The measures at `index` of the batch, with NumPy's indexing: `m[3]`, `m[2:5]`, `m[:, None]`."""
        return self._rebuild({n: take_rows(a, self.batch_shape, index) for n, a in self.parameters().items()})

    def _rebuild(self, parameters: dict[str, Array]) -> Self:
        """A measure of the same family with other `parameters`."""
        return type(self)(**parameters)

    def equals(self, other: Measure) -> bool:
        """Whether the two are the same measures: one type with the same parameters."""
        if self is other:
            return True
        mine, theirs = self.parameters(), other.parameters()
        same_kind = type(self) is type(other) and mine.keys() == theirs.keys()
        return same_kind and all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim}, batch_shape={self.batch_shape})"

    def logpdf(self, x: npt.ArrayLike) -> Array:
        """Log density at x (..., n, d): shape (..., n); -inf outside the support."""
        return self._logpdf(self._points(x))

    def score(self, x: npt.ArrayLike) -> Array:
        """Gradient of the log density at x (..., n, d): shape (..., n, d)."""
        return self._score(self._points(x))

    def sample(self, n: int, rng: np.random.Generator | int) -> Array:
        """`n` independent points of each measure: shape (*batch_shape, n, d)."""
        normal = generator(rng).standard_normal((*self.batch_shape, count(n), self.dim))
        return self._from_normal(normal)

    def transport(self, u: npt.ArrayLike, base: Base = "uniform") -> Array:
        """Map points u (..., n, d) of the unit cube to points of the measure, so that uniform u give x ~ P.

        With `base="normal"` the points u are those of a standard normal instead.
        """
        u = self._points(u, "u")
        if base == "normal":
            return self._from_normal(u)
        if base != "uniform":
            raise ValueError(f"base must be 'uniform' or 'normal', but it is {base!r}.")
        if np.any((u < 0) | (u > 1)):
            raise ValueError(
                f"u must lie in the unit cube, but its values range over [{u.min():g}, {u.max():g}]: "
                f"pass base='normal' if they are standard normal."
            )
        return self._from_uniform(u)

    def inverse_transport(self, x: npt.ArrayLike, base: Base = "uniform") -> Array:
        """The inverse of `transport`: x (..., n, d) to the unit cube, or to the standard normal."""
        x = self._points(x)
        if base == "normal":
            return self._to_normal(x)
        if base != "uniform":
            raise ValueError(f"base must be 'uniform' or 'normal', but it is {base!r}.")
        return self._to_uniform(x)

    @abstractmethod
    def moments(self) -> tuple[Array, Array]:
        """Mean (*batch_shape, d) and covariance (*batch_shape, d, d)."""

    @property
    def support(self) -> tuple[Array, Array]:
        """Lower and upper ends of the support along each coordinate, each (*batch_shape, d)."""
        shape = (*self.batch_shape, self.dim)
        return np.full(shape, -np.inf), np.full(shape, np.inf)

    @property
    def has_smooth_density(self) -> bool:
        """Whether the density is analytic inside the support, as far as is known; panel rules rely on it."""
        return True

    def translated(self, shift: Array) -> Measure | None:
        """The measure of X + shift, shift (*batch_shape, d), for a family closed under translation; else None."""
        return None

    def factors(self) -> tuple[Measure, ...]:
        """Independent blocks of consecutive coordinates whose product is this measure; at least (self,)."""
        return (self,)

    def marginal(self, j: int) -> Measure:
        """Measure of coordinate j alone: a 1-D measure."""
        blocks = self.factors()
        if len(blocks) == 1:
            if self.dim == 1:
                return self
            raise NotImplementedError(f"{type(self).__name__} does not know its marginal distributions.")
        starts = np.cumsum([0, *(block.dim for block in blocks)])
        i = int(np.searchsorted(starts, j, side="right")) - 1
        return blocks[i].marginal(j - int(starts[i]))

    def conditional(self, head: Array) -> Measure:
        """Measure of coordinate j given the first j, head (..., n, j): a 1-D measure, batch (..., n)."""
        raise NotImplementedError(
            f"{type(self).__name__} in {self.dim} dimensions does not know its conditional distributions, "
            f"which a mixture needs for its transport."
        )

    @abstractmethod
    def _logpdf(self, x: Array) -> Array: ...

    @abstractmethod
    def _score(self, x: Array) -> Array: ...

    @abstractmethod
    def _from_normal(self, v: Array) -> Array: ...

    @abstractmethod
    def _to_normal(self, x: Array) -> Array: ...

    def _from_uniform(self, u: Array) -> Array:
        return self._from_normal(ndtri(u))

    def _to_uniform(self, x: Array) -> Array:
        return np.asarray(ndtr(self._to_normal(x)))

    def _points(self, x: npt.ArrayLike, name: str = "x") -> Array:
        x = points(x, self.dim, name)
        broadcast_batch({name: x.shape[:-2], "measure": self.batch_shape}, f"{type(self).__name__}, points")
        return x


def stack(measures: Sequence[Measure]) -> Measure | None:
    """One measure with batch shape (T,) from T measures; None if their types or the shapes of parameters differ.

    If all T are the same object, that object is returned, without a batch axis.
    """
    from cbq.measures.product import Product

    first = measures[0]
    if all(measure is first for measure in measures):
        return first
    if any(type(measure) is not type(first) for measure in measures):
        return None
    if isinstance(first, Product):
        tuples = [measure.blocks for measure in measures if isinstance(measure, Product)]
        if any(len(blocks) != len(first.blocks) for blocks in tuples):
            return None
        stacked = [stack(blocks) for blocks in zip(*tuples, strict=True)]
        return None if any(block is None for block in stacked) else Product(stacked)
    kind = type(first)
    if kind.__getitem__ is not Measure.__getitem__ or kind._rebuild is not Measure._rebuild:
        return None  # `parameters` are the arguments of the constructor only where indexing rebuilds from them
    parameters = [measure.parameters() for measure in measures]
    if any(p.keys() != q.keys() or any(p[k].shape != q[k].shape for k in p) for p, q in pairwise(parameters)):
        return None
    return kind(**{name: np.stack([p[name] for p in parameters]) for name in parameters[0]})
