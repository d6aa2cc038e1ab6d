"""Whether the run of a checkpoint is the run that is asked for: the same settings, thetas, measures and points."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array, Booleans, Integers
from cbq.checkpoint.database import from_bytes, to_bytes
from cbq.checkpoint.tables import PackedMeasure
from cbq.measures import Measure

ROUNDING = 1e-9  # of the largest number: differences between machines that compute the same
SETTINGS = {  # and their names in messages
    "problem": "the name of the problem",
    "seed": "the seed (the first words that rng gives)",
    "p": "the dimension p of theta",
    "d": "the dimension d of x",
    "depends_on_theta": "depends_on_theta",
    "design": "the design",
    "scramble": "the scramble",
}


@dataclass(frozen=True, eq=False)
class RunIdentity:
    """What a run is: its settings, thetas (T, p) and the T measures of x there. T may grow, the rest is fixed."""

    settings: dict[str, Any]
    thetas: Array
    measures: Sequence[PackedMeasure]


def pack_measures(measures: Sequence[Measure]) -> list[PackedMeasure]:
    """The measures as they are stored; only the description of a measure that contains code."""
    from cbq.io.measures import pack_measure

    packed: dict[int, PackedMeasure] = {}
    for measure in measures:
        if id(measure) in packed:
            continue
        try:
            text, numbers = pack_measure(measure)
            packed[id(measure)] = (text, to_bytes(numbers))
        except ValueError:
            packed[id(measure)] = (json.dumps({"unknown": repr(measure)}), b"")
    return [packed[id(measure)] for measure in measures]


def describe_measure(measure: PackedMeasure) -> str:
    """The type of a measure and its first numbers, for messages."""
    record, numbers = json.loads(measure[0]), from_bytes(measure[1], (-1,))
    if "unknown" in record:
        return str(record["unknown"])
    shown = ", ".join(f"{number:.6g}" for number in numbers[:6])
    return f"{record['type']}({shown}{', ...' * (len(numbers) > 6)})"


def same_measure(one: PackedMeasure, other: PackedMeasure) -> bool:
    """Whether two measures are equal up to rounding."""
    if one == other:
        return True
    a, b = (from_bytes(measure[1], (-1,)) for measure in (one, other))
    return one[0] == other[0] and len(a) == len(b) and not np.any(_differ(a, b))


def different_settings(stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """A sentence for each setting that differs."""
    return [
        f"{label} is {stored.get(name)!r} in the file, and {asked.get(name)!r} was asked for"
        for name, label in SETTINGS.items()
        if stored.get(name) != asked.get(name)
    ]


def different_thetas(stored: Array, asked: Array) -> list[str]:
    """A sentence on the first theta that differs; (T, p) and (T', p) are compared as far as both go."""
    n = min(len(stored), len(asked))
    different = _different_rows(stored[:n], asked[:n])
    return [
        f"theta index t = {t} is {stored[t]} in the file, and {asked[t]} was asked for (another prior or theta)"
        for t in different[:1]
    ]


def different_measures(stored: Sequence[PackedMeasure], asked: Sequence[PackedMeasure]) -> list[str]:
    """A sentence on the first measure that differs."""
    for t, (a, b) in enumerate(zip(stored, asked, strict=False)):
        if not same_measure(a, b):
            return [
                f"the measure of x at theta index t = {t} is {describe_measure(a)} in the file, and "
                f"{describe_measure(b)} was asked for"
            ]
    return []


def different_points(stored: Sequence[Array], drawn: Sequence[Array]) -> list[str]:
    """A sentence on the first point that differs between two lists of T arrays (N_t, d)."""
    for t, (a, b) in enumerate(zip(stored, drawn, strict=True)):
        different = _different_rows(b, a)
        if len(different):
            i = different[0]
            return [f"point i = {i} of theta index t = {t} is {a[i]} in the file, and {b[i]} would be drawn now"]
    return []


def _different_rows(a: Array, b: Array) -> Integers:
    return np.flatnonzero(np.any(_differ(a, b), axis=1))


def _differ(a: Array, b: Array) -> Booleans:
    """Where two arrays (n, ...) differ by more than rounding of the largest number in b along the first axis."""
    scale = np.max(np.where(np.isfinite(b), np.abs(b), 0.0), axis=0, initial=0.0)
    with np.errstate(invalid="ignore"):  # infinite bounds of a measure
        return np.asarray((a != b) & ~(np.abs(a - b) <= ROUNDING * scale))
