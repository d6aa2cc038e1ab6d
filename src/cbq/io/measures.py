"""Measures as JSON and one row of numbers, and back. Those that hold a function are refused: a file holds no code."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from cbq._arrays import Array
from cbq.io import checks
from cbq.measures import (
    Beta,
    Empirical,
    Exponential,
    Gamma,
    Gaussian,
    LogMeasure,
    LogNormal,
    Measure,
    Mixture,
    Product,
    Quantile,
    StudentT,
    TruncatedGaussian,
    Uniform,
)
from cbq.measures.scipy_distributions import is_scipys_own

# Measures whose parameters are the arguments of their constructor.
PLAIN = (Beta, Empirical, Exponential, Gamma, Gaussian, LogNormal, StudentT, TruncatedGaussian, Uniform)
BY_NAME: dict[str, type[Measure]] = {kind.__name__: kind for kind in PLAIN}
SCIPY = "Quantile"


def pack_measure(measure: Measure) -> tuple[str, Array]:
    """The measure as a JSON text, and all its numbers in one row; a ValueError says why there is none."""
    rows: list[Array] = []
    record = _pack(measure, rows)
    return json.dumps(record, separators=(",", ":")), np.concatenate(rows)


def unpack_measure(text: str, numbers: Array) -> Measure:
    """The measure that `pack_measure` packed; its constructor checks the numbers."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a measure is not JSON ({error})") from error
    source = _Numbers(numbers)
    measure = _unpack(record, source)
    if source.left:
        raise ValueError(f"a measure has {source.left} numbers too many")
    return measure


class _Numbers:
    """A row of numbers that is read from its beginning to its end."""

    def __init__(self, row: Array) -> None:
        self._row, self._at = row, 0

    @property
    def left(self) -> int:
        return len(self._row) - self._at

    def take(self, shape: Any) -> Array:
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"the shape of an array in a measure must be a list of integers, but it is {shape!r}")
        size = math.prod(shape)
        if size > self.left:
            raise ValueError(f"a measure needs {size} numbers more, but {self.left} are left")
        self._at += size
        return self._row[self._at - size : self._at].reshape(shape)


def _pack(measure: Measure, rows: list[Array]) -> dict[str, Any]:
    kind = type(measure)  # not isinstance: a user's own subclass is code, too
    if kind in PLAIN:
        return {"type": kind.__name__, "shapes": _put(measure.parameters(), rows)}
    if kind is Mixture and isinstance(measure, Mixture):
        shapes = _put({"weights": measure.weights}, rows)
        return {"type": "Mixture", "shapes": shapes, "components": [_pack(part, rows) for part in measure.components]}
    if kind is Product and isinstance(measure, Product):
        return {"type": "Product", "blocks": [_pack(part, rows) for part in measure.blocks]}
    if kind is LogMeasure and isinstance(measure, LogMeasure):
        return {"type": "LogMeasure", "measure": _pack(measure.measure, rows)}
    if kind is Quantile and isinstance(measure, Quantile) and is_scipys_own(measure._dist):
        return {"type": SCIPY, "dist": measure._dist.name, "shapes": _put(measure.parameters(), rows)}
    raise ValueError(f"{measure!r} is code of your own, or holds a function, and a file holds no code")


def _put(arrays: dict[str, Array], rows: list[Array]) -> dict[str, list[int]]:
    rows.extend(np.asarray(array, dtype=np.float64).ravel() for array in arrays.values())
    return {name: list(array.shape) for name, array in arrays.items()}


def _unpack(record: Any, numbers: _Numbers) -> Measure:
    name = checks.field(record, "type", str)
    if name in BY_NAME:
        return BY_NAME[name](**_arrays(record, numbers))
    if name == "Mixture":
        weights = _arrays(record, numbers)["weights"]
        return Mixture(weights, [_unpack(part, numbers) for part in checks.field(record, "components", list)])
    if name == "Product":
        return Product([_unpack(part, numbers) for part in checks.field(record, "blocks", list)])
    if name == "LogMeasure":
        return LogMeasure(_unpack(checks.field(record, "measure", dict), numbers))
    if name == SCIPY:
        *shapes, loc, scale = _arrays(record, numbers).values()
        return Quantile(_scipys(checks.field(record, "dist", str)), *shapes, loc=loc, scale=scale)
    raise ValueError(f"there is no measure of type {name!r}")


def _arrays(record: Any, numbers: _Numbers) -> dict[str, Array]:
    shapes = checks.field(record, "shapes", dict)
    return {name: numbers.take(shape) for name, shape in shapes.items()}


def _scipys(name: str) -> Any:
    """The distribution of scipy.stats of that name."""
    from scipy import stats  # slow to import

    dist = getattr(stats, name, None)
    if not isinstance(dist, stats.rv_continuous) or not is_scipys_own(dist):
        raise ValueError(f"scipy.stats has no continuous distribution {name!r}")
    return dist
