"""Several outputs at once: how their errors go together, and draws of all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtri

from cbq._arrays import Array
from cbq.fit.predictive import PredictiveDistribution, root


def correlation(errors: Array) -> Array:
    """The correlation (C, C) of errors (n, C) around zero; those of an output without errors go with no other."""
    unit = np.max(np.abs(errors), axis=0, initial=0.0)
    scaled = np.divide(errors, unit, out=np.zeros(errors.shape), where=unit > 0)
    products = scaled.T @ scaled
    size = np.sqrt(np.diagonal(products))
    found = np.divide(products, np.outer(size, size), out=np.eye(len(size)), where=np.outer(size, size) > 0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(np.clip(found, -1.0, 1.0))


def sample(
    predictives: Sequence[PredictiveDistribution],
    together: Array,
    size: int,
    rng: np.random.Generator,
    *,
    antithetic: bool = False,
) -> Array:
    """Draws (size, M, C) of the joint distributions of C outputs at M thetas, whose errors have the correlation `together`.

    All outputs are drawn from the same component of their mixtures, and where one falls far from its location for the
    size of its scale being unknown, so do the others. With `antithetic` the draws come in pairs, one mirrored in the
    location of the other, and from all components equally often: their mean is that of the measure.
    """
    for predictive in predictives:
        predictive.require_scales()
    pairs = -(-size // 2) if antithetic else size
    components, M = len(predictives[0].locations), predictives[0].locations.shape[1]
    which = np.arange(pairs) % components if antithetic else rng.integers(components, size=pairs)
    normal = rng.standard_normal((pairs, M, len(predictives))) @ root(together)
    surprise = rng.random((pairs, M if np.ndim(predictives[0].df) else 1))
    out = np.empty((size, M, len(predictives)))
    for c, predictive in enumerate(predictives):
        standard = normal[..., c] * _stretch(predictive.df, surprise)
        out[:pairs, :, c] = predictive.placed(which, standard)
        if antithetic:
            out[pairs:, :, c] = predictive.placed(which, -standard)[: size - pairs]
    return out


def _stretch(df: float | Array, surprise: Array) -> Array:
    """What makes normal draws Student-t: (size, 1) or (size, M), from numbers uniform between 0 and 1."""
    degrees = np.broadcast_to(np.asarray(df, dtype=np.float64), surprise.shape)
    stretch = np.ones(surprise.shape)
    finite = np.isfinite(degrees)
    stretch[finite] = np.sqrt(degrees[finite] / chdtri(degrees[finite], surprise[finite]))
    return stretch
