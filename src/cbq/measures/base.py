"""The interface of a measure: a probability measure P on R^d, or a batch of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from inspect import signature
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from cbq.common import (
    LARGEST,
    Array,
    Booleans,
    Immutable,
    RNGLike,
    broadcast_batch,
    count,
    finite,
    generator,
    indexed,
    not_nan,
    one_of,
    points,
    position,
    positive,
    require_memory,
    shown,
    squarable,
    take_rows,
)
from cbq.report import html

Base = Literal["uniform", "normal"]
REMEMBERED = "_remembered"  # the attribute of a measure that keeps what was computed of it
T = TypeVar("T")
MAX_SHOWN = 16  # numbers of a parameter in the repr of a measure


class Measure(Immutable, ABC):
    """A probability measure P on R^d, or a batch of them. Immutable.

    Points have shape (..., n, d), and their leading axes broadcast against `batch_shape`. In one dimension, a scalar
    or an array (n,) also stands for points.

    To write a subclass, store each argument of the constructor under its own name, as an array whose leading axes are
    the batch axes. The last axis of the first one has length d. Arguments that only spell another one differently, such
    as `scale` for `rate`, are listed in `_spellings` and not stored. Then implement the abstract methods. Methods with
    an underscore receive checked points (..., n, d).

    Examples
    --------
    >>> measure = cbq.measures.Gamma(shape=[2.0, 5.0], rate=1.0)  # two measures at once
    >>> measure.batch_shape, measure.sample(3, rng=0).shape
    ((2,), (2, 3, 1))
    >>> measure.moments()[0].ravel()
    array([2., 5.])
    """

    _spellings: ClassVar[tuple[str, ...]] = ()  # constructor arguments that spell others differently

    _ends: ClassVar[tuple[float, float]] = (-np.inf, np.inf)  # of the support, if all measures of the family share it
    _parts: tuple[Measure, ...] = ()  # the measures that this one is built from

    @property
    def dim(self) -> int:
        """Dimension d of the points."""
        return int(next(iter(self.parameters().values())).shape[-1])

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of measures; () for a single measure."""
        return next(iter(self.parameters().values())).shape[:-1]

    def parameters(self) -> dict[str, Array]:
        """The arguments of the constructor, as arrays whose leading axes are the batch axes.

        Examples
        --------
        >>> {name: float(value[0]) for name, value in cbq.measures.Gamma(2.0, 3.0).parameters().items()}
        {'shape': 2.0, 'rate': 3.0}
        """
        return {name: getattr(self, name) for name in _argument_names(type(self))}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != REMEMBERED}  # copies compute it again

    def __getitem__(self, index: Any) -> Self:
        """The measures at `index` of the batch, with NumPy's indexing: `m[3]`, `m[2:5]`, `m[:, None]`."""
        return self._rebuild({n: take_rows(a, self.batch_shape, index) for n, a in self.parameters().items()})

    def _rebuild(self, parameters: dict[str, Array]) -> Self:
        """A measure of the same family with other `parameters`."""
        return type(self)(**parameters)

    def equals(self, other: Measure) -> bool:
        """Whether both are of the same type, with the same parameters.

        Examples
        --------
        >>> cbq.measures.Gamma(2.0, 3.0).equals(cbq.measures.Gamma(2.0, 3.0))
        True
        """
        if self is other or type(self) is not type(other):
            return self is other
        mine, theirs = self.parameters(), other.parameters()
        if mine.keys() != theirs.keys() or len(self._parts) != len(other._parts):
            return False
        same_arrays = all(np.array_equal(mine[name], theirs[name]) for name in mine)
        return same_arrays and all(a.equals(b) for a, b in zip(self._parts, other._parts, strict=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._arguments_in_brief()})"

    def _repr_html_(self) -> str:
        batch = f"{self.batch_shape}" if self.batch_shape else ""
        parameters = {name: in_brief(a, len(self.batch_shape)) for name, a in self.parameters().items()}
        return html.box(type(self).__name__, {**parameters, "dimension": self.dim, "batch": batch})

    def _arguments_in_brief(self) -> str:
        batch = self.batch_shape
        texts = [f"{name}={in_brief(a, len(batch))}" for name, a in self.parameters().items()]
        return ", ".join([*texts, f"batch_shape={batch}"] if batch else texts)

    def logpdf(self, x: npt.ArrayLike) -> Array:
        """Log density at x (..., n, d): shape (..., n); -inf outside the support.

        Examples
        --------
        >>> np.exp(cbq.measures.Uniform(0.0, 4.0).logpdf([1.0, 5.0])).round(2)
        array([0.25, 0.  ])
        """
        return self._logpdf(self._points(x))

    def score(self, x: npt.ArrayLike) -> Array:
        """Gradient of the log density at x (..., n, d): shape (..., n, d).

        Examples
        --------
        >>> cbq.measures.Gaussian(1.0, cov=4.0).score([3.0])
        array([[-0.5]])
        """
        return self._score(self._points(x))

    def sample(self, n: int, rng: RNGLike) -> Array:
        """Draw `n` independent points from each measure: shape (*batch_shape, n, d).

        Examples
        --------
        >>> cbq.measures.Gaussian([0.0, 1.0], cov=[1.0, 4.0]).sample(5, rng=0).shape
        (5, 2)
        """
        return self._from_normal(generator(rng).standard_normal(self._shape_of_draws(n)))

    def _shape_of_draws(self, n: int) -> tuple[int, ...]:
        """The shape of n draws from each measure; raise if they exceed the memory."""
        shape = (*self.batch_shape, count(n), self.dim)
        require_memory(math.prod(shape), f"n = {n} draws from {type(self).__name__}", "draw fewer at a time")
        return shape

    def transport(self, u: npt.ArrayLike, base: Base = "uniform") -> Array:
        """Map u (..., n, d) to points x ~ P; `base` is the distribution of u: uniform on the unit cube, or normal.

        Examples
        --------
        >>> cbq.measures.Uniform(0.0, 4.0).transport([0.25, 0.5]).ravel()
        array([1., 2.])
        """
        u = self._points(u, "u")
        if _is_normal(base):
            return self._from_normal(u)
        if np.any((u < 0) | (u > 1)):
            ends = f"[{u.min():g}, {u.max():g}]"
            raise ValueError(f"u must lie in the unit cube, but it is in {ends}: pass base='normal' if u is normal.")
        return self._from_uniform(u)

    def inverse_transport(self, x: npt.ArrayLike, base: Base = "uniform") -> Array:
        """Map points x (..., n, d) of the measure to the unit cube, or to standard normal: inverts `transport`.

        Examples
        --------
        >>> cbq.measures.Uniform(0.0, 4.0).inverse_transport([1.0, 2.0]).ravel()
        array([0.25, 0.5 ])
        """
        x = self._points(x)
        return self._to_normal(x) if _is_normal(base) else self._to_uniform(x)

    @abstractmethod
    def moments(self) -> tuple[Array, Array]:
        """Mean (*batch_shape, d) and covariance (*batch_shape, d, d).

        Examples
        --------
        >>> mean, covariance = cbq.measures.Uniform(0.0, 6.0).moments()
        >>> float(mean[0]), float(covariance[0, 0])
        (3.0, 3.0)
        """

    @property
    def support(self) -> tuple[Array, Array]:
        """Lower and upper ends of the support along each coordinate, each (*batch_shape, d)."""
        shape = (*self.batch_shape, self.dim)
        return np.full(shape, self._ends[0]), np.full(shape, self._ends[1])

    @property
    def has_smooth_density(self) -> bool:
        """Whether the density is known to be analytic inside the support; otherwise panel rules look for kinks."""
        return True

    @property
    def has_atoms(self) -> bool:
        """Whether single points have positive probability."""
        return any(part.has_atoms for part in self._parts)

    @property
    def has_heavy_tails(self) -> bool:
        """Whether the density falls like a power of x, so that kernels on x itself do not reach far into its tails."""
        return any(part.has_heavy_tails for part in self._parts)

    @property
    def has_slow_transport(self) -> bool:
        """Whether `transport` and its inverse take so long that checks use only some of the points."""
        return any(part.has_slow_transport for part in self._parts)

    def translated(self, shift: Array) -> Measure | None:
        """The measure of X + shift, for shift (*batch_shape, d); None if the family is not closed under translation.

        Examples
        --------
        >>> cbq.measures.Gaussian(1.0, cov=4.0).translated(np.array([2.0])).mean
        array([3.])
        """
        return None

    def factors(self) -> tuple[Measure, ...]:
        """Measures of independent blocks of coordinates, in order, whose product is this measure; at least (self,).

        Examples
        --------
        >>> len(cbq.measures.Gaussian([0.0, 5.0], cov=[1.0, 4.0]).factors())  # independent coordinates
        2
        """
        return (self,)

    def marginal(self, j: int) -> Measure:
        """The one-dimensional measure of coordinate j.

        Examples
        --------
        >>> cbq.measures.Gaussian([0.0, 5.0], cov=[1.0, 4.0]).marginal(1).mean
        array([5.])
        """
        j = position(j, self.dim, "j")
        return self if self.dim == 1 else self._marginal(j)

    def _marginal(self, j: int) -> Measure:
        """`marginal` for one of several coordinates, 0 <= j < d."""
        for block in self.factors():
            if block is not self and j < block.dim:
                return block.marginal(j)
            j -= block.dim
        raise NotImplementedError(f"{type(self).__name__} does not implement its marginal distributions.")

    def conditional(self, head: Array) -> Measure:
        """The one-dimensional measure of coordinate j given the first j, head (..., n, j): batch shape (..., n).

        Examples
        --------
        >>> measure = cbq.measures.Gaussian([0.0, 0.0], cov=[[1.0, 0.5], [0.5, 1.0]])
        >>> measure.conditional(np.array([[2.0]])).mean  # of the second coordinate, if the first is 2
        array([[1.]])
        """
        j, factors = head.shape[-1], self.factors()
        if len(factors) < self.dim:
            kind = f"{type(self).__name__} in {self.dim} dimensions"
            raise NotImplementedError(f"{kind} does not implement the conditional distributions that a Mixture needs.")
        batch = np.broadcast_shapes((*self.batch_shape, 1), head.shape[:-1])
        # The coordinates are independent, so the first j do not matter.
        return factors[j][..., None]._broadcast_getitem(batch, ...)

    def marginals(self, kept: Sequence[int]) -> Measure:
        """The joint measure of some coordinates, in their order.

        Examples
        --------
        >>> measure = cbq.measures.Gaussian([0.0, 5.0, 2.0], cov=[1.0, 4.0, 9.0])
        >>> measure.marginals([0, 2]).moments()[0]
        array([0., 2.])
        """
        which = self._coordinates(kept, least=1)
        return self if len(which) == self.dim else self._marginals(which)

    def given(self, kept: Sequence[int], x: npt.ArrayLike) -> Measure:
        """The measure of all other coordinates, in their order, given values x (..., k) of those that are `kept`.

        Its batch shape broadcasts to the leading axes (...); it has none where the others do not depend on x.

        Examples
        --------
        >>> measure = cbq.measures.Gaussian([0.0, 0.0], cov=[[1.0, 0.5], [0.5, 1.0]])
        >>> measure.given([1], [[2.0], [-2.0]]).mean  # of the first coordinate, if the second is 2, or -2
        array([[ 1.],
               [-1.]])
        """
        which = self._coordinates(kept, most=self.dim - 1)
        values = finite(x, "x")
        if values.ndim == 0 or values.shape[-1] != len(which):
            raise ValueError(
                f"x must hold values (..., {len(which)}) of the coordinates kept, {which}, but its shape is "
                f"{values.shape}."
            )
        return self._given(which, values) if which else self

    def _coordinates(self, kept: Sequence[int], least: int = 0, most: int | None = None) -> list[int]:
        """Positions of coordinates, in order and each once."""
        if not isinstance(kept, list | tuple | range) and not (isinstance(kept, np.ndarray) and kept.ndim == 1):
            raise TypeError(f"kept must be a list of coordinates, but it is {shown(kept)}.")
        which = sorted({position(j, self.dim, "kept") for j in kept})
        if not least <= len(which) <= (self.dim if most is None else most):
            raise ValueError(f"kept must leave some of the {self.dim} coordinates, but it is {shown(kept)}.")
        return which

    def _marginals(self, which: list[int]) -> Measure:
        """`marginals` at sorted positions, some but not all of them."""
        return self._of_factors(lambda block, mine, _: block.marginals(mine) if mine else None, which)

    def _given(self, which: list[int], x: Array) -> Measure:
        """`given` at sorted positions, some but not all of them."""

        def others(block: Measure, mine: list[int], columns: list[int]) -> Measure | None:
            return None if len(mine) == block.dim else block._given(mine, x[..., columns]) if mine else block

        return self._of_factors(others, which)

    def _of_factors(self, part: Callable[[Measure, list[int], list[int]], Measure | None], which: list[int]) -> Measure:
        """The product of a part of each factor, given its coordinates among `which` and their places in it."""
        from cbq.measures.composite import Product

        factors, start, found = self.factors(), 0, []
        if len(factors) == 1:
            raise NotImplementedError(
                f"{type(self).__name__} in {self.dim} dimensions does not implement the distributions of some "
                f"coordinates given others: use independent coordinates, a Gaussian, a LogNormal, or a Mixture of them."
            )
        for block in factors:
            columns = [i for i, j in enumerate(which) if start <= j < start + block.dim]
            found.append(part(block, [which[i] - start for i in columns], columns))
            start += block.dim
        known = [each for each in found if each is not None]
        return known[0] if len(known) == 1 else Product(known)

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

    def _require_density(self, positive: Booleans) -> None:
        """Raise unless the density is positive and finite at all points (..., n): elsewhere there is no score."""
        if bad := np.count_nonzero(~positive):
            rule = "outside the support or where the density is zero or infinite: keep x strictly inside the support"
            raise ValueError(f"score of {type(self).__name__}: {bad} of {np.size(positive)} points lie {rule}.")

    def _require_interior(self, v: Array) -> None:
        """Raise if normal coordinates are infinite: in several dimensions the faces of the cube have no image."""
        if not np.all(np.isfinite(v)):
            raise ValueError(
                f"u for a {type(self).__name__} in several dimensions must lie strictly between 0 and 1, but some "
                f"values are 0 or 1. Scramble or shift the points (unscrambled Sobol points begin at 0)."
            )

    def _broadcast_getitem(self, batch: tuple[int, ...], index: Any) -> Measure:
        """The measures at `index` of the batch, after broadcasting to the batch shape `batch`."""
        own = self.batch_shape
        order = indexed(np.broadcast_to(np.arange(math.prod(own)).reshape(own), batch), index)
        if own:
            return self[np.unravel_index(order, own)]
        # A single measure broadcasts by axes of length 1.
        return self[(None,) * np.ndim(order)]

    @classmethod
    def _stack(cls, measures: Sequence[Self]) -> Measure | None:
        """One measure with batch shape (T,) from T measures of this type; None if their arrays do not match."""
        if cls.__getitem__ is not Measure.__getitem__ or cls._rebuild is not Measure._rebuild:
            # The parameters may differ from the arguments of the constructor.
            return None
        parameters = [measure.parameters() for measure in measures]
        if any(p.keys() != q.keys() or any(p[k].shape != q[k].shape for k in p) for p, q in pairwise(parameters)):
            return None
        return cls(**{name: np.stack([p[name] for p in parameters]) for name in parameters[0]})


class SingleMeasure(Measure):
    """A measure that is no batch, given by code and not by arrays: it equals itself alone."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return ()

    def parameters(self) -> dict[str, Array]:
        return {}

    def equals(self, other: Measure) -> bool:
        return self is other

    def __getitem__(self, index: Any) -> Self:
        if indexed(np.empty(()), index).size != 1:
            raise IndexError(f"{self!r} is a single measure and has no index {shown(index)}.")
        return self


def stack(measures: Sequence[Measure]) -> Measure | None:
    """One measure with batch shape (T,) from T measures, or () from equal ones.

    None if their types or the shapes of parameters differ.
    """
    first = measures[0]
    if all(measure.equals(first) for measure in measures):
        return first
    if any(type(measure) is not type(first) for measure in measures):
        return None
    return type(first)._stack(measures)


def remembered(measure: Measure, function: Callable[[Any], T]) -> T:
    """The result of a costly function of a measure, which never changes and keeps it."""
    kept = vars(measure).setdefault(REMEMBERED, {})
    if function not in kept:
        kept[function] = function(measure)
    return cast(T, kept[function])


_CONVERTERS: list[Callable[[Any], Measure | None]] = []


def converter(function: Callable[[Any], Measure | None]) -> Callable[[Any], Measure | None]:
    """Register a function for `as_measure`: it returns the measure of an object, or None for other objects."""
    _CONVERTERS.append(function)
    return function


def as_measure(obj: Any) -> Measure:
    """Return `obj` if it is a measure, or the measure of a frozen scipy.stats distribution.

    Examples
    --------
    >>> from scipy import stats
    >>> type(cbq.measures.as_measure(stats.norm(1.0, 2.0))).__name__
    'Gaussian'
    """
    return measure_argument(obj, "obj")


def in_brief(a: Array, batch_axes: int) -> str:
    """A parameter as text: the values that all measures of a batch share, or their range."""
    if not a.size:
        return "[]"
    first, least, largest = a[(0,) * batch_axes], f"{np.min(a):.6g}", f"{np.max(a):.6g}"
    if first.size > MAX_SHOWN:
        return f"array {first.shape} of {least}" + f" to {largest}" * (least != largest)
    if not np.array_equal(a, np.broadcast_to(first, a.shape)):
        return f"{least} to {largest}"
    if first.size == 1:
        return least
    return " ".join(np.array2string(first, separator=", ", formatter={"all": lambda v: f"{v:.6g}"}).split())


def measure_argument(obj: Any, name: str) -> Measure:
    """`as_measure` of an argument; an error names it."""
    if isinstance(obj, Measure):
        return obj
    for convert in _CONVERTERS:
        if (measure := convert(obj)) is not None:
            return measure
    wanted = "a measure of cbq.measures or a scipy.stats distribution with its parameters"
    raise TypeError(f"{wanted} is needed, but a {type(obj).__name__} arrived as {name}.")


def measure_list(measures: Sequence[Any], owner: str, name: str) -> tuple[Measure, ...]:
    """The argument `name` of the constructor of `owner`: one or more measures or frozen scipy.stats distributions."""
    if not isinstance(measures, list | tuple):
        given = f"it was given {shown(measures)} as {name}"
        raise TypeError(f"{owner} takes a list of measures, but {given}: pass [measure].")
    if not measures:
        raise ValueError(f"{owner} needs at least one measure, but the list is empty: pass {name}.")
    return tuple(measure_argument(obj, f"{name}[{k}]") for k, obj in enumerate(measures))


def parameter(value: npt.ArrayLike, name: str, *, infinite: bool = False) -> Array:
    """A parameter of a measure, small enough to be squared; infinite only with `infinite`."""
    return squarable(not_nan(value, name) if infinite else finite(value, name), name)


def positive_parameter(value: npt.ArrayLike, name: str) -> Array:
    """A positive parameter of a measure, neither too large nor too small to be squared."""
    array = squarable(positive(value, name), name)
    if array.size and np.min(array) < 1 / LARGEST:
        raise ValueError(f"{name} must be at least {1 / LARGEST:g}, but it is {np.min(array):g}: rescale x.")
    return array


def require_coordinates(array: Array, name: str) -> None:
    """Raise if the last axis of an array (..., d), which gives the dimension d, is empty."""
    if array.shape[-1] == 0:
        raise ValueError(f"{name} has shape {array.shape}, but a measure has at least one dimension: pass numbers.")


@cache
def _argument_names(kind: type[Measure]) -> tuple[str, ...]:
    return tuple(name for name in signature(kind).parameters if name not in kind._spellings)


def _is_normal(base: Base) -> bool:
    return bool(one_of(base, Base, "base") == "normal")
