"""Whether the run of a checkpoint is the run that is asked for: the same settings, thetas, measures and points."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbq._arrays import Array, Booleans, Integers
from cbq.checkpoint.database import CheckpointError, damaged, from_bytes, to_bytes
from cbq.checkpoint.tables import PackedMeasure
from cbq.io import pack_measure, unpack_measure
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

    def different_settings(self, stored: dict[str, Any]) -> list[str]:
        """A sentence for each setting that differs from the stored one."""
        return [
            f"{label} is {stored.get(name)!r} in the file, and {self.settings.get(name)!r} was asked for"
            for name, label in SETTINGS.items()
            if stored.get(name) != self.settings.get(name)
        ]

    def different_thetas(self, thetas: Array, measures: Sequence[PackedMeasure]) -> list[str]:
        """A sentence on the first theta, or else the first measure, that differs from the stored ones."""
        n = min(len(thetas), len(self.thetas))
        for t in _different_rows(thetas[:n], self.thetas[:n]):
            return [
                f"theta index t = {t} is {thetas[t]} in the file, and {self.thetas[t]} was asked for (another prior or "
                f"theta)"
            ]
        for t, (stored, asked) in enumerate(zip(measures, self.measures, strict=False)):
            if not same_measure(stored, asked):
                return [
                    f"the measure of x at theta index t = {t} is {describe_measure(stored)} in the file, and "
                    f"{describe_measure(asked)} was asked for"
                ]
        return []


def different_points(stored: Sequence[Array], drawn: Sequence[Array]) -> list[str]:
    """A sentence on the first point that differs between two lists of T arrays (N_t, d)."""
    for t, (a, b) in enumerate(zip(stored, drawn, strict=True)):
        for i in _different_rows(b, a):
            return [f"point i = {i} of theta index t = {t} is {a[i]} in the file, and {b[i]} would be drawn now"]
    return []


def pack_measures(measures: Sequence[Measure]) -> list[PackedMeasure]:
    """The measures as they are stored; only the description of a measure that contains code."""
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


def unpack_measures(path: str, measures: Sequence[PackedMeasure]) -> list[Measure]:
    """The measures that were stored in the file `path`, equal ones as one object."""
    unpacked: dict[int, Measure] = {}
    for packed in measures:
        text, numbers = packed
        if id(packed) in unpacked:
            continue
        if not numbers:
            raise CheckpointError(
                f"{path} does not hold the measure {describe_measure(packed)}, because that is code: pass measure=, "
                f"the family that the points were drawn from."
            )
        try:
            unpacked[id(packed)] = unpack_measure(text, from_bytes(numbers, (-1,)), Measure)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise damaged(path, str(error)) from error
    return [unpacked[id(packed)] for packed in measures]


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


def _different_rows(a: Array, b: Array) -> Integers:
    return np.flatnonzero(np.any(_differ(a, b), axis=1))


def _differ(a: Array, b: Array) -> Booleans:
    """Where two arrays (n, ...) differ by more than rounding of the largest number in b along the first axis."""
    scale = np.max(np.where(np.isfinite(b), np.abs(b), 0.0), axis=0, initial=0.0)
    with np.errstate(invalid="ignore"):  # infinite bounds of a measure
        return np.asarray((a != b) & ~(np.abs(a - b) <= ROUNDING * scale))
