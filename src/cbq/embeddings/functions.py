"""An embedding from functions of one measure and one kernel at a time, for kernels of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cbq.common import Array, called, finite, shown
from cbq.embeddings.embedding import Embedding
from cbq.embeddings.quadrature import mean_under
from cbq.kernels import Kernel
from cbq.kernels.base import as_kernel
from cbq.kernels.custom import as_argument
from cbq.measures import Measure
from cbq.measures.base import measure_argument

Mean = Callable[[Array, Measure, Any], Any]
Variance = Callable[[Measure, Any], Any]


class FunctionEmbedding(Embedding):
    """An embedding from the formula of its mean, and of its variance if it is known; see `register`.

    The functions see one measure and the lengthscale of one kernel at a time, so that they need no axes for batches.
    All other integrals follow by adaptive quadrature, in up to three dimensions.

    Parameters
    ----------
    kernel, measure : as the rule received them.
    mean : E k(X, x), from points x (n, d), the measure of X and the lengthscale to (n,).
    variance : E k(X, X'), from the measure and the lengthscale to a number; None for the integral of `mean`.

    The lengthscale is a number, or an array (P,) unless the kernel has one; it is exp(kernel.log_lengthscales).

    Examples
    --------
    >>> class Brownian(cbq.kernels.CustomKernel):
    ...     number = 0
    ...
    ...     def evaluate(self, x, y, lengthscale):
    ...         return np.minimum(x, y.T)
    >>> unit = cbq.measures.Uniform(0.0, 1.0)
    >>> e = cbq.embeddings.FunctionEmbedding(Brownian(), unit, lambda x, measure, _: x[:, 0] - x[:, 0] ** 2 / 2)
    >>> e.mean([0.5]), round(float(e.variance), 6)
    (array([0.375]), 0.333333)
    """

    rule = "formula of the user"
    is_fast = False

    def __init__(self, kernel: Kernel, measure: Measure, mean: Mean, variance: Variance | None = None) -> None:
        for name, given in {"mean": mean, "variance": variance}.items():
            if not callable(given) and not (given is None and name == "variance"):
                raise TypeError(f"{name} must be a function, but it is {shown(given)}.")
        super().__init__(as_kernel(kernel, "kernel"), measure_argument(measure, "measure"))
        self._mean_of, self._variance_of = mean, variance
        self._one_by_one: Any = _members(self.measure)

    def _mean(self, x: Array) -> Array:
        return self._for_each(lambda points, measure, ell: self._at(points, measure, ell), x, (x.shape[-2],))

    def _variance(self) -> Array:
        if self._variance_of is None:
            return self._for_each(lambda _, m, ell: self._mean_under(m, m, ell), np.zeros((1, 1)), ())
        function = self._variance_of
        return self._for_each(
            lambda _, m, ell: finite(called(function, "variance", m, ell), "the result of variance"),
            np.zeros((1, 1)),
            (),
        )

    def _cross(self, other: Measure) -> Array:
        batch = np.broadcast_shapes(self.measure.batch_shape, other.batch_shape, self._lengthscales.shape[:-1])
        mine: Any = np.broadcast_to(self._one_by_one, batch)
        theirs: Any = np.broadcast_to(_members(other), batch)
        ell = np.broadcast_to(self._lengthscales, (*batch, self._lengthscales.shape[-1]))
        out = np.empty(batch)
        for t in np.ndindex(batch):
            out[t] = self._mean_under(mine[t], theirs[t], as_argument(ell[t]))
        return out

    @property
    def _lengthscales(self) -> Array:
        return np.exp(self.kernel.log_lengthscales)

    def _at(self, x: Array, measure: Measure, ell: Any) -> Array:
        found = finite(called(self._mean_of, "mean", x, measure, ell), "the result of mean")
        if found.shape != (len(x),):
            raise ValueError(f"mean returned shape {found.shape} for {len(x)} points: it must return ({len(x)},).")
        return found

    def _mean_under(self, measure: Measure, other: Measure, ell: Any) -> float:
        return float(mean_under(lambda y: self._at(y, measure, ell)[:, None], other)[0])

    def _for_each(self, function: Callable[[Array, Measure, Any], Any], x: Array, shape: tuple[int, ...]) -> Array:
        """The function of the points, measure and lengthscale of each member of the batch: (..., *shape)."""
        ell = self._lengthscales
        batch = np.broadcast_shapes(x.shape[:-2], self.measure.batch_shape, ell.shape[:-1])
        points, ell = np.broadcast_to(x, (*batch, *x.shape[-2:])), np.broadcast_to(ell, (*batch, ell.shape[-1]))
        measures: Any = np.broadcast_to(self._one_by_one, batch)
        out = np.empty((*batch, *shape))
        for t in np.ndindex(batch):
            out[t] = function(points[t], measures[t], as_argument(ell[t]))
        return out


def _members(measure: Measure) -> Any:
    """The measures of a batch, one by one, as an array of objects."""
    members = np.empty(measure.batch_shape, dtype=object)
    for t in np.ndindex(measure.batch_shape):
        members[t] = measure[t] if t else measure
    return members
