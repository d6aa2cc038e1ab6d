"""A run in a file: resuming it, unless the file belongs to another run, and reading its finished evaluations."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from cbq.checkpoint import tables
from cbq.checkpoint.database import CheckpointError, OwnedFile, connect, damaged, reading
from cbq.checkpoint.evaluations import BatchResult, Evaluations, Outputs, require_outputs
from cbq.checkpoint.tables import PackedMeasure, from_bytes, to_bytes
from cbq.common import Array, Booleans, Integers, file_name, rows_not_finite, shown_seed
from cbq.io import pack_measure, unpack_measure
from cbq.measures import Measure

ROUNDING = 1e-9  # of the largest number: differences between machines that compute the same
SETTINGS = {  # and their names in messages
    "problem": "the name of the problem",
    "seed": "the seed",
    "p": "the dimension p of theta",
    "d": "the dimension d of x",
    "depends_on_theta": "depends_on_theta",
    "design": "the design",
    "scramble": "the scramble",
    "stochastic": "stochastic",
    "proposal": "whether points are drawn from a proposal",
    "prior": "the prior",
    "start": "the samples to start from",
    "level": "the level of the intervals",
}


class Checkpoint:
    """The open file of a run, which no other process may open. Batches are on the disk when `write` returns.

    A run has settings, thetas (T, p), and at each of them a measure of x, and a proposal if points are drawn from one.
    T may grow, the rest is fixed.

    sources: fingerprints of the user's functions and the version of the problem; after `restore`, the sources in the
    file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: dict[str, Any],
        thetas: Array,
        measures: Sequence[Measure],
        proposals: Sequence[Measure] | None,
        sources: dict[str, str | None],
    ) -> None:
        self.path, self._settings, self._thetas = file_name(path, "checkpoint"), settings, thetas
        self._measures = pack_measures(measures)
        self._proposals = None if proposals is None else pack_measures(proposals)
        self.sources = sources
        self._T = 0  # thetas in the file
        self._file = OwnedFile(self.path, tables.is_empty)

    def restore(self, evaluations: Evaluations) -> None:
        """Fill in the finished evaluations, or raise a CheckpointError if the file belongs to another run.

        Points are taken from the file, too, since f was evaluated there.
        """
        if self._file.is_empty:
            return
        connection = self._file.connection
        with reading(self.path):
            settings, outputs, self.sources = tables.read_header(self.path, connection)
            require_settings(self.path, settings, self._settings)
            p, has_proposals = self._thetas.shape[1], settings["proposal"]
            thetas, measures, proposals = tables.read_thetas(self.path, connection, p, proposals=has_proposals)
            if not len(thetas):
                raise damaged(self.path, "it has no thetas")
            self._T = len(thetas)
            self._require_thetas(thetas)
            require_measures(self.path, "measure of x", measures, self._measures)
            require_measures(self.path, "proposal", proposals or (), self._proposals or ())
            assert outputs is not None  # only an adaptive run has none before its first value
            evaluations.allocate(outputs)
            drawn = [points.copy() for points in evaluations.x]
            shapes = (self._T, drawn[0].shape[1], outputs, len(self._thetas))
            for x, result in tables.read_batches(self.path, connection, *shapes):
                evaluations.add(result, x)
            self._require_points(evaluations.x, drawn)

    def begin(self, outputs: Outputs) -> None:
        """Write the header of a new file, and add the thetas that are not in the file yet."""
        first, T = self._T, len(self._thetas)
        if first >= T:
            return
        with self._file.writing() as connection:
            if self._file.is_empty:
                tables.write_header(connection, self._settings, outputs, self.sources)
            proposals = None if self._proposals is None else self._proposals[first:]
            tables.write_thetas(connection, first, self._thetas[first:], self._measures[first:], proposals)
        self._T = T

    def write_sources(self, sources: dict[str, str | None]) -> None:
        """Replace the sources of the run, in the header, too, if there is one yet."""
        self.sources = sources
        if not self._file.is_empty:
            with self._file.writing() as connection:
                tables.write_sources(connection, sources)

    def write(self, results: Sequence[BatchResult], x: Sequence[Array]) -> None:
        """Write all of these batches or none; x has the points of all thetas, T arrays (N_t, d)."""
        with self._file.writing() as connection:
            for result in results:
                t, start, stop = result.batch
                tables.write_batch(connection, x[t][start:stop], result)

    def hold(self) -> None:
        """Let nothing that is written from now on reach the file before `keep`."""
        self._file.hold()

    def keep(self) -> None:
        """Write to the disk what was held."""
        self._file.keep()

    def close(self) -> None:
        """Release the file; one that is still empty is removed."""
        self._file.close()

    def _require_thetas(self, thetas: Array) -> None:
        n = min(len(thetas), len(self._thetas))
        for t in _different_rows(thetas[:n], self._thetas[:n]):
            raise another_run(
                self.path,
                f"theta index t = {t} is {thetas[t]} in the file, and {self._thetas[t]} was asked for (another prior "
                f"or theta)",
            )

    def _require_points(self, stored: Sequence[Array], drawn: Sequence[Array]) -> None:
        for t, (a, b) in enumerate(zip(stored, drawn, strict=True)):
            for i in _different_rows(b, a):
                difference = f"is {a[i]} in the file, and {b[i]} would be drawn now"
                raise another_run(self.path, f"point i = {i} of theta index t = {t} {difference}")


def require_settings(path: str, stored: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raise unless the run in a file has the settings that are asked for."""
    differences = []
    for name, label in SETTINGS.items():
        one, other = stored.get(name), asked.get(name)
        if one != other:  # the seed is shown as it was passed, not as the numbers that it gives
            a, b = (shown_seed(each) if name == "seed" and each is not None else repr(each) for each in (one, other))
            differences.append(f"{label} is {a} in the file, and {b} was asked for")
    if differences:
        raise another_run(path, "; ".join(differences))


def require_measures(path: str, name: str, stored: Sequence[PackedMeasure], asked: Sequence[PackedMeasure]) -> None:
    """Raise unless the measures in a file equal the measures that are asked for, at all thetas that have both."""
    for t, (one, other) in enumerate(zip(stored, asked, strict=False)):
        if not _same_measure(one, other):
            difference = f"is {describe_measure(one)} in the file, and {describe_measure(other)} was asked for"
            raise another_run(path, f"the {name} at theta index t = {t} {difference}")


def another_run(path: str, difference: str) -> CheckpointError:
    """The error for a file of another run."""
    return CheckpointError(
        f"{path} is the checkpoint of another run: {difference}. Ask for the run of the file to resume it, or pass "
        f"another name to start a new run."
    )


@dataclass(frozen=True, eq=False)
class StoredRun:
    """The finished evaluations of a run: theta (T, p), points, T arrays (N_t, d), and values, T arrays (N_t, *outputs).

    Points without a value are left out, and so are thetas without any. proposals: the measures that points were drawn
    from, if not from the measures of x. failed: all thetas of the file, and for each of them the points at which f
    failed, and the points with a value.
    """

    settings: dict[str, Any]
    theta: Array
    x: list[Array]
    f: list[Array]
    measures: StoredMeasures
    proposals: StoredMeasures | None
    failed: tuple[Array, list[Array], list[Array]]


@dataclass(frozen=True, eq=False)
class StoredMeasures:
    """The measures in a checkpoint, one for each theta (T, p). name: the argument of `Samples` for them."""

    path: str
    name: str
    theta: Array
    packed: list[PackedMeasure]

    def read(self) -> list[Measure]:
        """The measure at each theta, equal ones as one object."""
        distinct = {id(packed): packed for packed in self.packed}
        unpacked = {key: self._unpacked(packed) for key, packed in distinct.items()}
        return [unpacked[id(packed)] for packed in self.packed]

    def require(self, measures: Sequence[Measure]) -> None:
        """Raise unless these are the measures of the file, one for each theta."""
        for theta, stored, given in zip(self.theta, self.packed, pack_measures(measures), strict=True):
            if not _same_measure(stored, given):
                raise CheckpointError(
                    f"{self.path} does not go with this {self.name}: at theta = {theta} the file has "
                    f"{describe_measure(stored)}, and {self.name}= gives {describe_measure(given)}. Pass the "
                    f"{self.name} of the run."
                )

    def _unpacked(self, packed: PackedMeasure) -> Measure:
        text, numbers = packed
        if not numbers:
            raise CheckpointError(
                f"{self.path} does not hold the {self.name} {describe_measure(packed)}, because that is code: pass "
                f"{self.name}=, the function from theta of the run."
            )
        with reading(self.path):
            return unpack_measure(text, from_bytes(numbers, (-1,)), Measure)


def read_run(path: str | os.PathLike[str]) -> StoredRun:
    """The finished evaluations in the checkpoint at this path."""
    name = file_name(path, "path")
    with reading(name), closing(connect(name, write=False)) as connection:
        if tables.is_empty(name, connection):
            raise CheckpointError(f"{name} is empty: call collect again to resume the run.")
        settings, outputs, _ = tables.read_header(name, connection)
        if outputs is None:
            raise CheckpointError(f"{name} has no run with a value yet: make the runs that it asks for.")
        has_proposals, d = settings["proposal"], settings["d"]
        theta, measures, proposals = tables.read_thetas(name, connection, settings["p"], proposals=has_proposals)
        batches = list(tables.read_batches(name, connection, len(theta), d, outputs))
        require_outputs(prod(outputs), sum(len(x) for x, _ in batches))
    if not batches:
        raise _without_values(name)
    x, f = np.concatenate([x for x, _ in batches]), np.concatenate([result.f for _, result in batches])
    t = np.concatenate([np.full(len(x), result.batch.t) for x, result in batches])
    i = np.concatenate([np.arange(*result.batch[1:]) for _, result in batches])
    if settings["design"] == "adaptive":  # each run has a theta of its own: join equal thetas
        group, first = _equal_thetas(theta)
        t, i, theta, measures = group[t], t, theta[first], [measures[k] for k in first]
    parts, failed = _points_by_theta(t, i, len(theta)), rows_not_finite(f)
    good = [part[~failed[part]] for part in parts]
    known = [k for k, part in enumerate(good) if len(part)]
    if not known:
        raise _without_values(name)
    return StoredRun(
        settings,
        theta[known],
        [x[good[k]] for k in known],
        [f[good[k]] for k in known],
        StoredMeasures(name, "measure", theta[known], [measures[k] for k in known]),
        None if proposals is None else StoredMeasures(name, "proposal", theta[known], [proposals[k] for k in known]),
        (theta, [x[part[failed[part]]] for part in parts], [x[part] for part in good]),
    )


def _equal_thetas(theta: Array) -> tuple[Integers, Integers]:
    """The number of the distinct theta of each row of theta (n, p), and the first row of each distinct theta."""
    places: dict[tuple[float, ...], int] = {}
    group = np.array([places.setdefault(tuple(row), len(places)) for row in theta.tolist()])
    return group, np.unique(group, return_index=True)[1]


def _points_by_theta(t: Integers, i: Integers, T: int) -> list[Integers]:
    """The rows of the points i of each of T thetas, sorted, where row k is point i[k] of theta t[k].

    Of equal points, the later row counts.
    """
    order = np.lexsort([i, t])
    last = np.append((np.diff(t[order]) != 0) | (np.diff(i[order]) != 0), True)
    rows = order[last]
    return np.split(rows, np.searchsorted(t[rows], np.arange(1, T)))


def _without_values(path: str) -> CheckpointError:
    return CheckpointError(f"{path} has no finished batch with a value yet: call collect again to resume the run.")


def pack_measures(measures: Sequence[Measure]) -> list[PackedMeasure]:
    """The measures as they are stored; only the description of a measure that contains code."""
    packed: dict[int, PackedMeasure] = {}
    for key, measure in {id(measure): measure for measure in measures}.items():
        try:
            text, numbers = pack_measure(measure)
            packed[key] = (text, to_bytes(numbers))
        except ValueError:
            what = f"{type(measure).__name__}(dim={measure.dim}, batch_shape={measure.batch_shape})"
            packed[key] = (json.dumps({"unknown": what}), b"")
    return [packed[id(measure)] for measure in measures]


def describe_measure(measure: PackedMeasure) -> str:
    """The type of a measure and its first numbers, for messages."""
    record, numbers = json.loads(measure[0]), from_bytes(measure[1], (-1,))
    if "unknown" in record:
        return str(record["unknown"])
    shown = ", ".join(f"{number:.6g}" for number in numbers[:6])
    return f"{record.get('type')}({shown}{', ...' * (len(numbers) > 6)})"


def _same_measure(one: PackedMeasure, other: PackedMeasure) -> bool:
    """Whether two measures are equal up to rounding."""
    if one == other:
        return True
    a, b = (from_bytes(measure[1], (-1,)) for measure in (one, other))
    noise = 1e-15 * np.max(np.abs(b[np.isfinite(b)]), initial=0.0)  # parameters may have very different sizes
    return one[0] == other[0] and len(a) == len(b) and np.allclose(a, b, rtol=ROUNDING, atol=noise, equal_nan=True)


def _different_rows(a: Array, b: Array) -> Integers:
    return np.flatnonzero(np.any(_differ(a, b), axis=1))


def _differ(a: Array, b: Array) -> Booleans:
    """Where two arrays (n, ...) differ by more than rounding of the largest number in b along the first axis."""
    scale = np.max(np.where(np.isfinite(b), np.abs(b), 0.0), axis=0, initial=0.0)
    with np.errstate(invalid="ignore"):  # infinite bounds of a measure
        return np.asarray((a != b) & ~(np.abs(a - b) <= ROUNDING * scale))
