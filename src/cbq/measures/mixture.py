from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtri_exp

from cbq._arrays import Array, broadcast_batch, count, finite, generator, take_rows
from cbq.io import Instance, Many, Numbers, saved
from cbq.measures.base import Measure
from cbq.measures.batches import all_equal, take
from cbq.measures.empirical import Empirical
from cbq.measures.from_scipy import as_measure
from cbq.measures.gaussian import refuse_infinite
from cbq.measures.inversion import increasing_root
from cbq.measures.univariate import refuse_score
from cbq.measures.unnormalised import Unnormalised
from cbq.measures.weights import checked_weights, from_logarithms


@saved("Mixture", weights=Numbers(), components=Many(Instance(Measure)))
class Mixture(Measure):
    """The measure that draws component k with probability weights_k and then a point of it.

    Parameters
    ----------
    weights : (..., K), non-negative, summing to one.
    components : K measures (or frozen scipy.stats distributions) of one dimension, with batch shapes that
        broadcast against each other and against the leading axes of the weights.
    """

    weights: Array  # (*batch_shape, K)
    components: tuple[Measure, ...]

    def __init__(self, weights: npt.ArrayLike, components: Sequence[Any]) -> None:
        self.components = _checked_components(components)
        w = checked_weights(finite(weights, "weights"), len(self.components), "component")
        shapes = {f"component {k}": c.batch_shape for k, c in enumerate(self.components)}
        batch = broadcast_batch({"weights": w.shape[:-1], **shapes}, "Mixture")
        self.weights = np.broadcast_to(w, (*batch, w.shape[-1]))

    @property
    def dim(self) -> int:
        return self.components[0].dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.weights.shape[:-1]

    def parameters(self) -> dict[str, Array]:
        """The weights, and every component's parameters under names like "0.mean" with its own batch axes."""
        parts = {f"{k}.{n}": a for k, c in enumerate(self.components) for n, a in c.parameters().items()}
        return {"weights": self.weights, **parts}

    def __getitem__(self, index: Any) -> Mixture:
        weights = take_rows(self.weights, self.batch_shape, index)
        return Mixture(weights, [take(c, self.batch_shape, index) for c in self.components])

    def __repr__(self) -> str:
        return f"Mixture of {len(self.components)}(dim={self.dim}, batch_shape={self.batch_shape})"

    def equals(self, other: Measure) -> bool:
        return (
            isinstance(other, Mixture)
            and np.array_equal(self.weights, other.weights)
            and all_equal(self.components, other.components)
        )

    def moments(self) -> tuple[Array, Array]:
        parts = [c.moments() for c in self.components]
        w = [self.weights[..., k, None] for k in range(len(parts))]
        mean = sum((wk * m for wk, (m, _) in zip(w, parts, strict=True)), np.zeros(self.dim))
        cov = np.zeros((self.dim, self.dim))
        for wk, (m, c) in zip(w, parts, strict=True):
            shift = m - mean
            cov = cov + wk[..., None] * (c + shift[..., :, None] * shift[..., None, :])
        return mean, cov

    @property
    def support(self) -> tuple[Array, Array]:
        used = np.moveaxis(self.weights > 0, -1, 0)[..., None]
        ends = [c.support for c in self.components]
        shape = (*self.batch_shape, self.dim)
        lower = np.stack([np.broadcast_to(low, shape) for low, _ in ends])
        upper = np.stack([np.broadcast_to(high, shape) for _, high in ends])
        return (
            np.min(np.where(used, lower, np.inf), axis=0),
            np.max(np.where(used, upper, -np.inf), axis=0),
        )

    def sample(self, n: int, rng: np.random.Generator | int) -> Array:
        # a stream for each component and one for the choices: more draws then begin with the same ones
        n, shape = count(n), (*self.batch_shape, count(n), self.dim)
        first, *streams = (
            np.random.default_rng(s) for s in generator(rng).integers(2**63, size=len(self.components) + 1)
        )
        edges = np.cumsum(self.weights, axis=-1)[..., None, :-1]
        which = np.sum(first.random((*self.batch_shape, n, 1)) >= edges, axis=-1)
        pairs = zip(self.components, streams, strict=True)
        draws = np.stack([np.broadcast_to(c.sample(n, stream), shape) for c, stream in pairs])
        return np.asarray(np.take_along_axis(draws, which[None, ..., None], axis=0)[0])

    def marginal(self, j: int) -> Measure:
        return Mixture(self.weights, [c.marginal(j) for c in self.components])

    def conditional(self, head: Array) -> Measure:
        j = head.shape[-1]
        walk = self._walk(head)
        for _ in range(j):
            next(walk)
        return next(walk)

    def _walk(self, x: Array) -> Iterator[Mixture]:
        """The measures of coordinate j given x_<j, for j = 0, 1, ...; x may be filled in between the steps."""
        log_w = self._log_weights()
        for j in range(self.dim):
            parts = [c.conditional(x[..., :j]) for c in self.components]
            yield Mixture(from_logarithms(log_w, self._log_weights()), parts)
            terms = [part.logpdf(x[..., j, None, None])[..., 0] for part in parts]
            log_w = log_w + np.stack(np.broadcast_arrays(*terms), axis=-1)

    def _logpdf(self, x: Array) -> Array:
        return np.asarray(np.logaddexp.reduce(self._terms(x), axis=-1))

    def _score(self, x: Array) -> Array:
        terms = self._terms(x)
        log_p = np.logaddexp.reduce(terms, axis=-1)
        refuse_score(self, np.isfinite(log_p))
        score = np.zeros((*log_p.shape, self.dim))
        for k, c in enumerate(self.components):
            # a component has no score outside its own support, nor any share of the mixture's
            present = np.isfinite(terms[..., k, None])
            inside = np.where(present, x, c._from_normal(np.zeros((1, self.dim))))
            share = np.exp(terms[..., k] - log_p)[..., None]
            score += np.where(present, share * c._score(inside), 0.0)
        return score

    def _terms(self, x: Array) -> Array:
        """log w_k + log p_k(x): shape (..., n, K)."""
        terms = [c._logpdf(x) for c in self.components]
        log_p = np.stack(np.broadcast_arrays(*terms), axis=-1)
        log_w = self._log_weights()
        return np.where(log_w == -np.inf, -np.inf, log_p + log_w)

    def _log_weights(self) -> Array:
        """log w_k, with an axis for the points: shape (*batch_shape, 1, K)."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights)[..., None, :]

    def _from_normal(self, v: Array) -> Array:
        lead = np.broadcast_shapes(v.shape[:-1], (*self.batch_shape, 1))
        if self.dim == 1:
            return self._quantile(np.broadcast_to(v, (*lead, 1)))
        refuse_infinite(v, "Mixture")
        x = np.zeros((*lead, self.dim))
        for j, measure in enumerate(self._walk(x)):
            x[..., j] = measure._from_normal(v[..., j, None, None])[..., 0, 0]
        return x

    def _to_normal(self, x: Array) -> Array:
        if self.dim == 1:
            below, above = self._log_tails(x[..., 0])
            return np.where(below <= above, ndtri_exp(below), -ndtri_exp(above))[..., None]
        x = np.broadcast_to(x, np.broadcast_shapes(x.shape, (*self.batch_shape, 1, self.dim)))
        v = [measure._to_normal(x[..., j, None, None])[..., 0, 0] for j, measure in enumerate(self._walk(x))]
        return np.stack(v, axis=-1)

    def _log_tails(self, y: Array) -> tuple[Array, Array]:
        """Logarithms of P(X <= y) and P(X > y), for y (..., n)."""
        v = np.stack(np.broadcast_arrays(*(c._to_normal(y[..., None]) for c in self.components)), axis=-1)
        log_w = self._log_weights()
        below = np.logaddexp.reduce(log_ndtr(v[..., 0, :]) + log_w, axis=-1)
        above = np.logaddexp.reduce(log_ndtr(-v[..., 0, :]) + log_w, axis=-1)
        return np.minimum(below, 0.0), np.minimum(above, 0.0)

    def _quantile(self, v: Array) -> Array:
        """x with normal coordinate v (..., n, 1): between the components' own quantiles."""
        found = [c._from_normal(v)[..., 0] for c in self.components]
        parts, weights = np.stack(np.broadcast_arrays(*found), axis=-1), self.weights[..., None, :]
        low = np.min(np.where(weights > 0, parts, np.inf), axis=-1)
        high = np.max(np.where(weights > 0, parts, -np.inf), axis=-1)
        v = np.broadcast_to(v[..., 0], low.shape)
        low, high = np.where(v == np.inf, high, low), np.where(v == -np.inf, low, high)
        wanted = log_ndtr(-np.abs(v))
        noise = np.finfo(float).eps * np.maximum(1, -wanted)

        def excess(x: Array) -> tuple[Array, Array]:
            below, above = self._log_tails(x)
            log_p = self._logpdf(x[..., None])
            value = np.where(v < 0, below - wanted, wanted - above)
            return value, np.exp(log_p - np.where(v < 0, below, above))

        with np.errstate(invalid="ignore"):  # 0 inf and inf - inf, at the ends of unbounded components
            start = np.sum(np.where(weights > 0, weights * parts, 0.0), axis=-1)
        return increasing_root(excess, low, high, start, noise)[..., None]


def _checked_components(components: Sequence[Any]) -> tuple[Measure, ...]:
    if isinstance(components, Measure):
        raise TypeError(f"Mixture takes a list of components, but one {components!r} arrived: write [measure].")
    measures = tuple(as_measure(c) for c in components)
    if not measures:
        raise ValueError("Mixture needs at least one component, but the list is empty.")
    dims = [c.dim for c in measures]
    if len(set(dims)) > 1:
        raise ValueError(f"the components of a Mixture must have one dimension, but they have {dims}.")
    for c in measures:
        if isinstance(c, Empirical | Unnormalised):
            raise TypeError(f"a Mixture needs normalised densities, which {type(c).__name__} does not have.")
    return measures
