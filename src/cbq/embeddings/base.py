"""What an embedding is: the integrals of one kernel against one measure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array, broadcast_batch
from cbq.embeddings.errors import NoEmbedding
from cbq.embeddings.panels import Panels, expectation
from cbq.kernels import Kernel
from cbq.measures import Empirical, Measure, Mixture, as_measure


class Embedding(ABC):
    """Mean embedding of `measure` for `kernel`: mean mu(x) = E k(X, x), variance z = E k(X, X'), and cross.

    Attributes
    ----------
    kernel : the kernel that was embedded, with what it takes from the measure bound. Build Gram matrices from
        this one: with `method="transport"` it is not the kernel that was passed in.
    measure : the measure of X, with batch shape (...).
    method : "closed-form", "quadrature" or "transport": the way that was taken.
    rule : in a few words, how the numbers are made.
    """

    method: str = "closed-form"
    rule: str = "formula"

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
        """z = E k(X, X') for independent X and X' (the initial error): the measure's batch shape."""
        z = _filled(self._variance(), self.measure.batch_shape)
        z.setflags(write=False)
        return z

    def cross(self, other: Measure | Embedding) -> Array:
        """E k(X, Y) for Y of another measure, independent of X: the batch shapes broadcast, as in `m[:, None]`."""
        measure = other.measure if isinstance(other, Embedding) else as_measure(other)
        if measure.dim != self.measure.dim:
            raise ValueError(f"the measures have {self.measure.dim} and {measure.dim} dimensions: they must agree.")
        batch = broadcast_batch({"self": self.measure.batch_shape, "other": measure.batch_shape}, "cross")
        return _filled(self._cross_any(measure), batch)

    def _cross_any(self, other: Measure) -> Array:
        """`_cross` with any measure: with the measure itself it is the variance."""
        return self._variance() if other.equals(self.measure) else self._cross_linear(other)

    def _cross_linear(self, other: Measure) -> Array:
        """`_cross`, after taking apart what is linear in the other measure."""
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
        """z; unless there is something better, `_cross` of the measure with itself."""
        return self._cross(self.measure)

    def _cross(self, other: Measure) -> Array:
        """E mu(Y), Y ~ other; unless there is something better, a panel rule in one dimension."""
        if self.measure.dim != 1:
            raise NoEmbedding(
                f"no closed form for cross of {self.kernel!r} between {self.measure!r} and {other!r}: "
                f"use a kernel that has one, RBF, or TensorProduct on coordinates that are independent under both."
            )
        return expectation(self._mean, Panels.of(other), self.kernel, self.measure)


class Delegated(Embedding):
    """The embedding of an equal kernel under an equal measure, which have a rule."""

    def __init__(self, kernel: Kernel, measure: Measure, inner: Embedding, method: str | None = None) -> None:
        super().__init__(kernel, measure)
        self._inner = inner
        self.rule = inner.rule
        self.method = method or inner.method

    def _mean(self, x: Array) -> Array:
        return self._inner._mean(x)

    def _variance(self) -> Array:
        return self._inner._variance()

    def _cross(self, other: Measure) -> Array:
        return self._inner._cross(other)


def _filled(value: Array, shape: tuple[int, ...]) -> Array:
    """A copy of `value` with at least this shape; lengthscales may have added batch axes of their own."""
    return np.array(np.broadcast_to(value, np.broadcast_shapes(value.shape, shape)))
