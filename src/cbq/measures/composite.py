"""Measures built from others: products of independent blocks of coordinates, and mixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from cbq.common import Array, RNGLike, broadcast_batch, finite, generator, take_rows
from cbq.io import Instance, Many, Numbers, saved
from cbq.measures.base import Measure, in_brief, measure_list, stack
from cbq.measures.discrete import Discrete, Empirical, checked_weights
from cbq.measures.unnormalised import Unnormalised

MAX_BISECTIONS = 1100  # enough to separate any two float64


@saved("Product", read=lambda product: {"measures": product.blocks}, measures=Many(Instance(Measure)))
class Product(Measure):
    """The joint measure of independent blocks of coordinates, with one measure per block.

    Parameters
    ----------
    measures : measures (or frozen scipy.stats distributions) of any dimensions, whose batch shapes broadcast.
        A Product among them is replaced by its blocks.

    Examples
    --------
    >>> measure = cbq.measures.Product([cbq.measures.Gamma(2.0, 1.0), cbq.measures.Gaussian(0.0, cov=1.0)])
    >>> measure.dim, measure.moments()[0]
    (2, array([2., 0.]))
    """

    blocks: tuple[Measure, ...]  # in the order of the coordinates

    def __init__(self, measures: Sequence[Any]) -> None:
        given = measure_list(measures, "Product", "measures")
        self.blocks = tuple(block for m in given for block in (m.blocks if isinstance(m, Product) else (m,)))
        self._parts = self.blocks
        shapes = {f"{i}: {type(m).__name__}": m.batch_shape for i, m in enumerate(self.blocks)}
        self._batch = broadcast_batch(shapes, "Product")
        stops = accumulate(block.dim for block in self.blocks)
        self._slices = [(m, slice(stop - m.dim, stop)) for m, stop in zip(self.blocks, stops, strict=True)]

    @property
    def dim(self) -> int:
        return self._slices[-1][1].stop

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self._batch

    def parameters(self) -> dict[str, Array]:
        """The parameters of every block, under names like "0.mean", with its batch axes."""
        return {f"{i}.{name}": a for i, m in enumerate(self.blocks) for name, a in m.parameters().items()}

    def __getitem__(self, index: Any) -> Product:
        return Product([block._broadcast_getitem(self._batch, index) for block in self.blocks])

    @classmethod
    def _stack(cls, measures: Sequence[Self]) -> Measure | None:
        if len({len(measure.blocks) for measure in measures}) > 1:
            return None
        stacked = [stack(blocks) for blocks in zip(*(measure.blocks for measure in measures), strict=True)]
        return None if any(block is None for block in stacked) else Product(stacked)

    def __repr__(self) -> str:
        return f"Product([{', '.join(map(repr, self.blocks))}])"

    def moments(self) -> tuple[Array, Array]:
        mean, cov = np.zeros((*self._batch, self.dim)), np.zeros((*self._batch, self.dim, self.dim))
        for block, part in self._slices:
            mean[..., part], cov[..., part, part] = block.moments()
        return mean, cov

    @property
    def support(self) -> tuple[Array, Array]:
        ends = np.empty((2, *self._batch, self.dim))
        for block, part in self._slices:
            ends[0, ..., part], ends[1, ..., part] = block.support
        return ends[0], ends[1]

    @property
    def has_smooth_density(self) -> bool:
        return all(block.has_smooth_density for block in self.blocks)

    def factors(self) -> tuple[Measure, ...]:
        factors = (factor for block in self.blocks for factor in block.factors())
        parts = tuple(factor._broadcast_getitem(self._batch, ...) for factor in factors)
        return parts if len(parts) > 1 else (self,)

    def _marginal(self, j: int) -> Measure:
        block, start = self._block_of(j)
        return block.marginal(j - start)._broadcast_getitem(self._batch, ...)

    def conditional(self, head: Array) -> Measure:
        block, start = self._block_of(head.shape[-1])
        return block.conditional(head[..., start:])

    def _block_of(self, j: int) -> tuple[Measure, int]:
        """The block that contains coordinate j, and its first coordinate."""
        return next((block, part.start) for block, part in self._slices if part.start <= j < part.stop)

    def _logpdf(self, x: Array) -> Array:
        terms = [m._logpdf(x[..., part]) for m, part in self._slices]
        return np.asarray(np.sum(np.stack(np.broadcast_arrays(*terms)), axis=0))

    def _score(self, x: Array) -> Array:
        return self._blockwise(lambda m, part: m._score(part), x)

    def _from_normal(self, v: Array) -> Array:
        return self._blockwise(lambda m, part: m._from_normal(part), v)

    def _to_normal(self, x: Array) -> Array:
        return self._blockwise(lambda m, part: m._to_normal(part), x)

    def _from_uniform(self, u: Array) -> Array:
        return self._blockwise(lambda m, part: m._from_uniform(part), u)

    def _to_uniform(self, x: Array) -> Array:
        return self._blockwise(lambda m, part: m._to_uniform(part), x)

    def _blockwise(self, function: Callable[[Measure, Array], Array], x: Array) -> Array:
        """Apply function(block, coordinates of the block) to every block of x (..., n, d), and join the results."""
        parts = [function(m, x[..., part]) for m, part in self._slices]
        lead = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        return np.concatenate([np.broadcast_to(part, (*lead, part.shape[-1])) for part in parts], axis=-1)


@saved("Mixture", weights=Numbers(), components=Many(Instance(Measure)))
class Mixture(Measure):
    """The measure sum_k weights_k P_k of components P_1, ..., P_K.

    On the line, discrete and continuous components may be mixed: `logpdf` is then the log probability at an atom, and
    the log density elsewhere.

    Parameters
    ----------
    weights : (..., K), non-negative with sum one.
    components : K measures (or frozen scipy.stats distributions) of the same dimension, with batch shapes that
        broadcast against each other and against the leading axes of the weights.

    Examples
    --------
    >>> two = [cbq.measures.Gaussian(-2.0, cov=1.0), cbq.measures.Gaussian(2.0, cov=1.0)]
    >>> cbq.measures.Mixture([0.25, 0.75], two).moments()[0]
    array([1.])
    """

    weights: Array  # (*batch_shape, K)
    components: tuple[Measure, ...]  # K measures

    def __init__(self, weights: npt.ArrayLike, components: Sequence[Any]) -> None:
        self._parts = self.components = _checked_components(components)
        w = checked_weights(finite(weights, "weights"), len(self.components), "component")
        shapes = {f"component {k}": c.batch_shape for k, c in enumerate(self.components)}
        batch = broadcast_batch({"weights": w.shape[:-1], **shapes}, "Mixture")
        self.weights = np.broadcast_to(w, (*batch, w.shape[-1]))

    @property
    def dim(self) -> int:
        return self.components[0].dim

    def parameters(self) -> dict[str, Array]:
        """The weights, and the parameters of every component under names like "0.mean", with its batch axes."""
        parts = {f"{k}.{n}": a for k, c in enumerate(self.components) for n, a in c.parameters().items()}
        return {"weights": self.weights, **parts}

    def __getitem__(self, index: Any) -> Mixture:
        weights = take_rows(self.weights, self.batch_shape, index)
        return Mixture(weights, [c._broadcast_getitem(self.batch_shape, index) for c in self.components])

    def __repr__(self) -> str:
        return f"Mixture({in_brief(self.weights, len(self.batch_shape))}, [{', '.join(map(repr, self.components))}])"

    def moments(self) -> tuple[Array, Array]:
        moments = [(self.weights[..., k, None], *c.moments()) for k, c in enumerate(self.components)]
        mean = sum((w * m for w, m, _ in moments), np.zeros(self.dim))
        cov = np.zeros((self.dim, self.dim))
        for w, m, c in moments:
            shift = m - mean
            cov = cov + w[..., None] * (c + shift[..., :, None] * shift[..., None, :])
        return mean, cov

    @property
    def support(self) -> tuple[Array, Array]:
        used = self.weights[..., None, :] > 0
        lower, upper = (_stacked(ends) for ends in zip(*(c.support for c in self.components), strict=True))
        return np.min(np.where(used, lower, np.inf), axis=-1), np.max(np.where(used, upper, -np.inf), axis=-1)

    @property
    def has_smooth_density(self) -> bool:
        ends = [np.all(a == b) for c in self.components for a, b in zip(c.support, self.support, strict=True)]
        # The density has a jump or a kink where the support of a component ends inside.
        return all(ends) and all(c.has_smooth_density for c in self.components)

    def sample(self, n: int, rng: RNGLike) -> Array:
        # Each component, and the choice between them, has its own generator, so that a larger n extends the draws.
        shape = self._shape_of_draws(n)
        n = shape[-2]
        seeds = generator(rng).integers(2**63, size=len(self.components) + 1)
        first, *streams = (np.random.default_rng(seed) for seed in seeds)
        edges = np.cumsum(self.weights, axis=-1)[..., None, :-1]
        which = np.sum(first.random((*self.batch_shape, n, 1)) >= edges, axis=-1)
        pairs = zip(self.components, streams, strict=True)
        draws = np.stack([np.broadcast_to(c.sample(n, stream), shape) for c, stream in pairs])
        return np.asarray(np.take_along_axis(draws, which[None, ..., None], axis=0)[0])

    def _marginal(self, j: int) -> Measure:
        return Mixture(self.weights, [c.marginal(j) for c in self.components])

    def conditional(self, head: Array) -> Measure:
        return next(islice(self._conditionals(head), head.shape[-1], None))

    def _marginals(self, which: list[int]) -> Measure:
        return Mixture(self.weights, [c._marginals(which) for c in self.components])

    def _given(self, which: list[int], x: Array) -> Measure:
        # A component counts by its weight times its density of x.
        densities = _stacked(c._marginals(which)._logpdf(x[..., None, :])[..., 0] for c in self.components)
        log_w = self._log_weights()[..., 0, :]
        return Mixture(_normalised(log_w + densities, log_w), [c._given(which, x) for c in self.components])

    def _conditionals(self, x: Array) -> Iterator[Mixture]:
        """The measures of coordinate j given x_<j, for j = 0, 1, ...; x_j may be filled in before the next step."""
        log_w = self._log_weights()
        for j in range(self.dim):
            parts = [c.conditional(x[..., :j]) for c in self.components]
            yield Mixture(_normalised(log_w, self._log_weights()), parts)
            log_w = log_w + _stacked(part.logpdf(x[..., j, None, None])[..., 0] for part in parts)

    def _logpdf(self, x: Array) -> Array:
        return np.asarray(np.logaddexp.reduce(self._terms(x), axis=-1))

    def _score(self, x: Array) -> Array:
        terms = self._terms(x)
        log_p = np.logaddexp.reduce(terms, axis=-1)
        self._require_density(np.isfinite(log_p))
        score = np.zeros((*log_p.shape, self.dim))
        for k, c in enumerate(self.components):
            # A component has no score outside its own support, where it contributes nothing.
            present = np.isfinite(terms[..., k, None])
            inside = np.where(present, x, c._from_normal(np.zeros((1, self.dim))))
            share = np.exp(terms[..., k] - log_p)[..., None]
            score += np.where(present, share * c._score(inside), 0.0)
        return score

    def _terms(self, x: Array) -> Array:
        """log w_k + log p_k(x): shape (..., n, K)."""
        log_p = _stacked(c._logpdf(x) for c in self.components)
        log_w = self._log_weights()
        terms = np.where(log_w == -np.inf, -np.inf, log_p + log_w)
        discrete = np.array([c.has_atoms for c in self.components])
        if np.all(discrete) or not np.any(discrete):
            return terms
        # An atom outweighs any density.
        at_atom = np.any(discrete & (terms > -np.inf), axis=-1, keepdims=True)
        return np.where(at_atom & ~discrete, -np.inf, terms)

    def _log_weights(self) -> Array:
        """log w_k, with an axis for the points: shape (*batch_shape, 1, K)."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights)[..., None, :]

    def _from_normal(self, v: Array) -> Array:
        lead = np.broadcast_shapes(v.shape[:-1], (*self.batch_shape, 1))
        if self.dim == 1 and self.has_atoms:
            return self._quantile_with_atoms(np.broadcast_to(ndtr(v), (*lead, 1)))
        if self.dim == 1:
            return self._quantile(np.broadcast_to(v, (*lead, 1)))
        self._require_interior(v)
        x = np.zeros((*lead, self.dim))
        for j, measure in enumerate(self._conditionals(x)):
            x[..., j] = measure._from_normal(v[..., j, None, None])[..., 0, 0]
        return x

    def _to_normal(self, x: Array) -> Array:
        if self.dim == 1 and self.has_atoms:
            parts = _stacked(c._to_uniform(x)[..., 0] for c in self.components)
            return np.asarray(ndtri(np.sum(parts * self.weights[..., None, :], axis=-1)))[..., None]
        if self.dim == 1:
            below, above = self._log_tails(x[..., 0])
            return np.where(below <= above, ndtri_exp(below), -ndtri_exp(above))[..., None]
        x = np.broadcast_to(x, np.broadcast_shapes(x.shape, (*self.batch_shape, 1, self.dim)))
        v = [measure._to_normal(x[..., j, None, None])[..., 0, 0] for j, measure in enumerate(self._conditionals(x))]
        return np.stack(v, axis=-1)

    def _log_tails(self, y: Array) -> tuple[Array, Array]:
        """Logarithms of P(X <= y) and P(X > y), for y (..., n)."""
        v = _stacked(c._to_normal(y[..., None])[..., 0] for c in self.components)
        log_w = self._log_weights()
        below, above = (np.logaddexp.reduce(log_ndtr(side) + log_w, axis=-1) for side in (v, -v))
        return np.minimum(below, 0.0), np.minimum(above, 0.0)

    def _quantile_with_atoms(self, u: Array) -> Array:
        """The smallest x with P(X <= x) >= u, for u (..., n, 1), by bisection between quantiles of the components."""
        weights = self.weights[..., None, :]
        parts = _stacked(c._from_uniform(u)[..., 0] for c in self.components)
        low = np.nextafter(np.min(np.where(weights > 0, parts, np.inf), axis=-1), -np.inf)
        high = np.max(np.where(weights > 0, parts, -np.inf), axis=-1)
        for _ in range(MAX_BISECTIONS):
            middle = 0.5 * low + 0.5 * high
            if not np.any((low < middle) & (middle < high)):
                break
            reached = np.sum(weights * _stacked(_cdf(c, middle) for c in self.components), axis=-1) >= u[..., 0]
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return np.asarray(high)[..., None]

    def _quantile(self, v: Array) -> Array:
        """The x with normal coordinate v (..., n, 1), which lies between the quantiles of the components."""
        parts, weights = _stacked(c._from_normal(v)[..., 0] for c in self.components), self.weights[..., None, :]
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

        # At the ends of unbounded components, 0 inf and inf - inf occur.
        with np.errstate(invalid="ignore"):
            start = np.sum(np.where(weights > 0, weights * parts, 0.0), axis=-1)
        return _increasing_root(excess, low, high, start, noise)[..., None]


def _checked_components(components: Sequence[Any]) -> tuple[Measure, ...]:
    measures = measure_list(components, "Mixture", "components")
    dims = [c.dim for c in measures]
    if len(set(dims)) > 1:
        raise ValueError(f"the components of a Mixture must have the same dimension, but they have dimensions {dims}.")
    for c in measures:
        if isinstance(c, Empirical | Unnormalised) and not isinstance(c, Discrete):
            raise TypeError(f"the components of a Mixture need normalised densities, but {type(c).__name__} has none.")
    if dims[0] > 1 and len({c.has_atoms for c in measures}) > 1:
        raise TypeError("a Mixture in several dimensions has components that are all discrete, or all continuous.")
    return measures


def _cdf(component: Measure, y: Array) -> Array:
    """P(X <= y) at y (..., n)."""
    if isinstance(component, Discrete):
        return component._cdf(y)
    if isinstance(component, Mixture) and component.has_atoms:
        return np.asarray(
            np.sum(component.weights[..., None, :] * _stacked(_cdf(c, y) for c in component.components), -1)
        )
    return component._to_uniform(y[..., None])[..., 0]


def _stacked(arrays: Iterable[Array]) -> Array:
    """Arrays whose shapes broadcast, one for each component, along a new last axis."""
    return np.stack(np.broadcast_arrays(*arrays), axis=-1)


def _normalised(log_w: Array, fallback: Array) -> Array:
    """Weights (..., K) from unnormalised log weights; from `fallback` where all of log_w are -inf."""
    log_w = np.where(np.max(log_w, axis=-1, keepdims=True) == -np.inf, fallback, log_w)
    weights = np.exp(log_w - np.max(log_w, axis=-1, keepdims=True))
    return np.asarray(weights / np.sum(weights, axis=-1, keepdims=True))


def _increasing_root(
    function: Callable[[Array], tuple[Array, Array]], low: Array, high: Array, start: Array, noise: Array
) -> Array:
    """The root x in [low, high] of `function(x) = (value, slope)`, to the last digits of a float64.

    All arrays have the same shape. Newton's steps are taken while they shrink. Otherwise, bisection of the
    *floating-point numbers* in [low, high] takes at most 64 steps, even over many orders of magnitude. Values up to
    `noise` in size count as zero. Where low = high, possibly infinite, that is the root.
    """
    # scipy.optimize.elementwise.find_root evaluates only the points that have not converged, but `function` takes all.
    known, answer = ~(low < high), low
    low, high = np.where(known, 0.0, low), np.where(known, 0.0, high)
    x, done, step_before, step_last = np.clip(start, low, high), known, high - low, high - low
    for _ in range(200):
        if np.all(done):
            break
        # Far from the root, values and slopes may be infinite or zero.
        with np.errstate(all="ignore"):
            value, slope = function(x)
            low, high = np.where(value <= 0, x, low), np.where(value >= 0, x, high)
            newton = x - value / slope
            step = np.abs(newton - x)
            good = (newton >= low) & (newton <= high) & (step <= 0.5 * step_before)
            target = np.where(good, newton, _middle(low, high))
        arrived = good & ((step <= 2 * np.spacing(np.abs(x))) | (np.abs(value) <= noise))
        step_before, step_last = step_last, np.where(done, step_last, np.abs(target - x))
        x = np.where(done, x, target)
        done = done | arrived | (_ordinal(high) - _ordinal(low) <= 1)
    return np.where(known, answer, x)


def _middle(low: Array, high: Array) -> Array:
    """The float64 halfway between two others in the order of all float64."""
    a, b = _ordinal(low), _ordinal(high)
    middle = (a >> 1) + (b >> 1) + (a & b & 1)
    bits = np.where(middle < 0, np.iinfo(np.int64).min - middle, middle)
    return np.asarray(bits.view(np.float64))


def _ordinal(x: Array) -> npt.NDArray[np.int64]:
    """The position of each x in the order of all float64: neighbours differ by one."""
    bits = np.ascontiguousarray(x).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits).reshape(np.shape(x))
