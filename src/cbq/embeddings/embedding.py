"""The interface of an embedding, the registry of rules, and `embed`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from cbq.common import Array, broadcast_batch, one_of, shown
from cbq.kernels import Kernel, Warped
from cbq.kernels.base import as_kernel
from cbq.measures import Empirical, Measure, Mixture, Unnormalised
from cbq.measures.base import measure_argument

Method = Literal["auto", "closed-form", "quadrature", "transport"]


class NoEmbedding(TypeError):
    """There is no closed form for a kernel and a measure; the message names alternatives.

    Examples
    --------
    >>> try:
    ...     cbq.embed(cbq.kernels.RBF(1.0), cbq.measures.Unnormalised(score=np.negative, dim=1))
    ... except cbq.embeddings.NoEmbedding:
    ...     print("no rule for this pair")
    no rule for this pair
    """


class Embedding(ABC):
    """The mean embedding of `measure` for `kernel`: mean mu(x) = E k(X, x), variance z = E k(X, X'), and cross.

    Attributes
    ----------
    kernel : the kernel that was embedded, bound to the measure if it depends on one. Build Gram matrices from this
        kernel: with `method="transport"` it is not the kernel that was passed in.
    measure : the measure of X, with batch shape (...).
    method : "closed-form", "quadrature" or "transport".
    rule : a short description of how the integrals are computed.
    uses_panels : whether they are computed by a panel rule on the line, rather than by a formula.
    is_fast : whether they cost about as much as a Gram matrix of the points; estimators try such kernels freely.

    Examples
    --------
    >>> embedding = cbq.embed(cbq.kernels.Matern(1.5, lengthscale=1.0), cbq.measures.Uniform(0.0, 1.0))
    >>> embedding.method, embedding.mean([0.2, 0.8]).shape
    ('closed-form', (2,))
    """

    method: str = "closed-form"
    rule: str = "formula"
    uses_panels: bool = False
    is_fast: bool = True

    def __init__(self, kernel: Kernel, measure: Measure) -> None:
        self.kernel = kernel
        self.measure = measure

    def __repr__(self) -> str:
        return f"Embedding({self.kernel!r}, {self.measure!r}, method={self.method!r}, rule={self.rule!r})"

    def mean(self, x: npt.ArrayLike) -> Array:
        """mu(x) = E k(X, x) at points x (..., N, d): shape (..., N)."""
        x = self.measure._points(x)
        batch = broadcast_batch({"x": x.shape[:-2], "measure": self.measure.batch_shape}, "mean embedding")
        return _filled(self._mean(x), (*batch, x.shape[-2]))

    @cached_property
    def variance(self) -> Array:
        """The initial error z = E k(X, X') for independent X and X': the measure's batch shape."""
        z = _filled(self._variance(), self.measure.batch_shape)
        z.setflags(write=False)
        return z

    def cross(self, other: Measure | Embedding) -> Array:
        """E k(X, Y) for an independent Y of another measure; batch shapes broadcast, as in `m[:, None]`."""
        measure = other.measure if isinstance(other, Embedding) else measure_argument(other, "other")
        if measure.dim != self.measure.dim:
            dims = f"{self.measure.dim} and {measure.dim} dimensions"
            raise ValueError(f"the measures have {dims}: they must agree, so pass an other of {self.measure.dim}.")
        batch = broadcast_batch({"self": self.measure.batch_shape, "other": measure.batch_shape}, "cross")
        try:
            return _filled(self._cross_any(measure), batch)
        # A kernel on log x raises it for a Y that may be negative, for example.
        except ValueError as error:
            raise ValueError(f"other = {shown(measure)} does not fit the kernel: {error}") from error

    def _cross_any(self, other: Measure) -> Array:
        """`_cross` with any measure; with the measure itself it is the variance."""
        return self._variance() if other.equals(self.measure) else self._cross_linear(other)

    def _cross_linear(self, other: Measure) -> Array:
        """`_cross`, component by component or atom by atom where the other measure has such parts."""
        if isinstance(other, Mixture):
            parts = [self._cross_any(component) for component in other.components]
            return np.asarray(sum(other.weights[..., k] * part for k, part in enumerate(parts)))
        if isinstance(other, Empirical):
            return np.asarray(np.sum(other.weights * self._mean(other.points), axis=-1))
        return self._cross(other)

    @abstractmethod
    def _mean(self, x: Array) -> Array:
        """mu at points x (..., N, d) that broadcast against the measure."""

    def _variance(self) -> Array:
        """z; by default the cross term of the measure with itself."""
        return self._cross_linear(self.measure)

    def _factors(self) -> tuple[Embedding, ...]:
        """Factors of this embedding over independent blocks of coordinates, in order; (self,) if there are none."""
        return (self,)

    def _cross(self, other: Measure) -> Array:
        """E mu(Y), Y ~ other; by default a panel rule in one dimension."""
        from cbq.embeddings.panels import Panels, expectation

        if self.measure.dim != 1:
            raise NoEmbedding(
                f"no closed form for cross of {self.kernel!r} between {self.measure!r} and {other!r}: "
                f"use a kernel that has one, such as RBF, or TensorProduct on coordinates that are independent under "
                f"both measures."
            )
        return expectation(self._mean, Panels.of(other), self.kernel, self.measure)


class Delegated(Embedding):
    """An embedding that delegates to another one, of an equal kernel under an equal measure."""

    def __init__(self, kernel: Kernel, measure: Measure, inner: Embedding, method: str | None = None) -> None:
        super().__init__(kernel, measure)
        self._inner = inner
        self.method = method or inner.method
        self.rule, self.uses_panels, self.is_fast = inner.rule, inner.uses_panels, inner.is_fast

    def _mean(self, x: Array) -> Array:
        return self._inner._mean(x)

    def _variance(self) -> Array:
        return self._inner._variance()

    def _cross(self, other: Measure) -> Array:
        return self._inner._cross(other)

    def _factors(self) -> tuple[Embedding, ...]:
        return self._inner._factors()


def _filled(value: Array, shape: tuple[int, ...]) -> Array:
    """A copy of `value` broadcast to this shape, or to more axes where lengthscales are batched."""
    return np.array(np.broadcast_to(value, np.broadcast_shapes(value.shape, shape)))


# The registry of rules

Rule = Callable[..., Embedding]
R = TypeVar("R", bound=Rule)

_RULES: dict[tuple[type[Kernel], type[Measure]], Rule] = {}


class Pair(NamedTuple):
    """A kernel type and a measure type with an embedding, and its rule in words.

    Examples
    --------
    >>> pair = cbq.available_pairs()[0]
    >>> issubclass(pair.kernel, cbq.kernels.Kernel), issubclass(pair.measure, cbq.measures.Measure)
    (True, True)
    """

    kernel: type[Kernel]
    measure: type[Measure]
    rule: str


def register(kernel: type[Kernel], *measures: type[Measure]) -> Callable[[R], R]:
    """Register a rule for a kernel type and one or more measure types, and for types derived from them.

    A rule is a function of (kernel, measure) that returns an embedding, such as a `FunctionEmbedding`, or raises
    `NoEmbedding` with the reason; or a subclass of `Embedding`. `available_pairs` shows the first line of its
    docstring.

        @cbq.embeddings.register(MyKernel, cbq.measures.Gaussian)
        def my_rule(kernel, measure):
            return cbq.embeddings.FunctionEmbedding(kernel, measure, mean=..., variance=...)

    Examples
    --------
    >>> callable(cbq.embeddings.register(cbq.kernels.RBF))
    True
    """
    for kind in (kernel, *measures):
        if not isinstance(kind, type):
            given = ", ".join(map(shown, (kernel, *measures)))
            raise TypeError(f"register takes types of kernel and measure, but it was given {given}.")

    def decorate(rule: R) -> R:
        for measure in measures:
            if (kernel, measure) in _RULES:
                raise ValueError(
                    f"({kernel.__name__}, {measure.__name__}) has an embedding already, "
                    f"{_RULES[kernel, measure].__name__}: derive a kernel type of your own and register that."
                )
        _RULES.update({(kernel, measure): rule for measure in measures})
        return rule

    return decorate


def available_pairs() -> list[Pair]:
    """All registered pairs. A pair with a base type, such as `Measure`, serves every measure that its parts allow.

    Examples
    --------
    >>> pairs = cbq.available_pairs()
    >>> ("RBF", "Gaussian") in {(pair.kernel.__name__, pair.measure.__name__) for pair in pairs}
    True
    """
    pairs = [
        Pair(kernel, measure, (rule.__doc__ or "").strip().partition("\n")[0])
        for (kernel, measure), rule in _RULES.items()
    ]
    return sorted(pairs, key=lambda pair: (pair.kernel.__name__, pair.measure.__name__))


def find(kernel: Kernel, measure: Measure) -> Embedding:
    """The embedding by the most specific rule for the two types; an error without a rule, or with several."""
    keys = [key for key in _RULES if isinstance(kernel, key[0]) and isinstance(measure, key[1])]
    best = [key for key in keys if all(issubclass(key[0], k) and issubclass(key[1], m) for k, m in keys)]
    names = f"{type(kernel).__name__} under {type(measure).__name__}"
    if not keys and isinstance(measure, Unnormalised):
        raise NoEmbedding(
            f"no closed form for {names}: only Stein kernels have one under a measure that is known up to a constant; "
            f"use Stein({kernel!r})."
        )
    if not keys:
        raise NoEmbedding(
            f"no closed form for {names}: pass method='transport' to put the kernel on the gaussianised "
            f"coordinate, where every measure with a quantile function has one, method='quadrature' to integrate "
            f"numerically, or register a rule of your own with cbq.embeddings.register."
        )
    if not best:
        listed = ", ".join(f"({k.__name__}, {m.__name__})" for k, m in keys)
        raise NoEmbedding(
            f"ambiguous embedding for {names}: the rules {listed} all apply and none is the most specific; "
            f"register one for ({type(kernel).__name__}, {type(measure).__name__})."
        )
    return _RULES[best[0]](kernel, measure)


def embed(kernel: Kernel, measure: Any, method: Method = "auto") -> Embedding:
    """The mean embedding of a measure for a kernel: E k(X, x), E k(X, X') and E k(X, Y).

    Parameters
    ----------
    kernel : a kernel with its lengthscales set.
    measure : a measure, or a frozen scipy.stats distribution; may be a batch.
    method : how the integrals are computed; the result records it as `.method`.
        "closed-form": by the rule registered for the two types (see `available_pairs`), or an error.
        "auto" is the same: it never falls back to another method.
        "quadrature": adaptive, for any kernel and any measure with a transport; z and cross on the line only.
        "transport": the kernel acts on coordinates in which the measure is standard normal, so that there is a closed
        form for every measure. This is another kernel, `Warped(kernel, "gaussianise")`: build Gram matrices from the
        `.kernel` of the result.

    Examples
    --------
    >>> embedding = cbq.embed(cbq.kernels.RBF(1.0), cbq.measures.Gaussian(0.0, cov=1.0))
    >>> embedding.mean([0.0]).round(4), round(float(embedding.variance), 4)  # 1 / sqrt(2) and 1 / sqrt(3)
    (array([0.7071]), 0.5774)
    """
    from cbq.embeddings.quadrature import Quadrature

    kernel, measure = as_kernel(kernel, "kernel"), measure_argument(measure, "measure")
    one_of(method, Method, "method")
    if method == "transport":
        kernel = Warped(kernel, "gaussianise")
    kernel.check_dim(measure.dim)
    broadcast_batch({"lengthscale": kernel.log_lengthscales.shape[:-1], "measure": measure.batch_shape}, "embed")
    bound = kernel.bind(measure)
    if method == "quadrature":
        return Quadrature(bound, measure)
    embedding = find(bound, measure)
    return Delegated(bound, measure, embedding, method) if method == "transport" else embedding
