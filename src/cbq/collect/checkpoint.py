"""A run in a file: what it is, what of it is finished, and whether the run that is asked for is the same."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq._arrays import Array, Booleans
from cbq.collect import tables
from cbq.collect.batches import Board, Finished
from cbq.collect.database import connect, damaged, explained, from_bytes, make_durable, to_bytes, transaction
from cbq.collect.errors import CheckpointError
from cbq.collect.integrand import Outputs
from cbq.io import pack_measure
from cbq.measures import Measure

if TYPE_CHECKING:
    import sqlite3

CLOSE = 1e-9  # of the largest: numbers that two machines compute alike
NAMES = {
    "problem": "the name of the problem",
    "seed": "the seed (the first words that rng gives)",
    "p": "the dimension p of theta",
    "d": "the dimension d of x",
    "depends_on_theta": "depends_on_theta",
    "design": "the design",
    "scramble": "the scramble",
}


class Checkpoint:
    """An open file that no other process may open. Values are in it, for good, when `write` returns."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection
        self.is_new = tables.is_new(path, connection)
        make_durable(connection)
        self._meta = None if self.is_new else tables.read_meta(path, connection)
        self._T = 0  # thetas in the file

    @property
    def outputs(self) -> Outputs | None:
        """What f has at a point, where that is known."""
        return None if self._meta is None else self._meta.outputs

    def restore(
        self, identity: dict[str, Any], thetas: Array, measures: Sequence[tables.PackedMeasure], board: Board
    ) -> None:
        """Put what is finished on the board, after a check that the file is of the run with this identity.

        Points are taken from the file, too: they are those at which f was evaluated.
        """
        if self._meta is None:
            return
        with explained(self.path), sound(self.path):
            self._refuse(_differences(self._meta.identity, identity))
            known, stored = tables.read_thetas(self.path, self._connection, thetas.shape[1])
            self._T = len(known)
            self._refuse(_other_thetas(known, thetas) or _other_measures(stored, measures))
            board.expect(self._meta.outputs)
            asked = [points.copy() for points in board.x]
            size = (self._T, board.x[0].shape[1], self._meta.outputs, len(thetas))
            for x, finished in tables.read_batches(self.path, self._connection, *size):
                t, start, _ = finished.batch
                if start < len(board.x[t]):
                    board.put(*finished)
                    board.x[t][start : start + len(x)] = x[: len(board.x[t]) - start]
            self._refuse(_other_points(asked, board.x))

    def begin(
        self, identity: dict[str, Any], outputs: Outputs, thetas: Array, measures: Sequence[tables.PackedMeasure]
    ) -> None:
        """Say what the run is, in a new file, and add the thetas that are not in it yet."""
        if len(thetas) <= self._T:
            return
        with explained(self.path), transaction(self._connection):
            if self._meta is None:
                self._meta = tables.Meta(identity, outputs)
                tables.write_meta(self._connection, self._meta)
            tables.write_thetas(self._connection, self._T, thetas[self._T :], list(measures[self._T :]))
        self._T, self.is_new = len(thetas), False

    def write(self, finished: Sequence[Finished], x: Sequence[Array]) -> None:
        """Make finished batches durable, all of them or none; x are the points of all thetas, T arrays (N_t, d)."""
        with explained(self.path), transaction(self._connection):
            for each in finished:
                t, start, stop = each.batch
                tables.write_batch(self._connection, x[t][start:stop], each)

    def close(self) -> None:
        """Let others have the file; one that nothing came into is removed again."""
        with explained(self.path):
            self._connection.close()
        if self.is_new:
            os.unlink(self.path)

    def _refuse(self, differences: Sequence[str]) -> None:
        if differences:
            raise CheckpointError(
                f"{self.path} is the checkpoint of another run: {'; '.join(differences)}. Ask for the run of the file "
                f"to go on with it, or pass another name to start afresh."
            )


@contextmanager
def sound(path: str) -> Iterator[None]:
    """Rows that pass their checksums and still make no sense are damage, too."""
    try:
        yield
    except (CheckpointError, OSError):
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise damaged(path, str(error)) from error


@contextmanager
def opened(path: str | os.PathLike[str] | None) -> Iterator[Checkpoint | None]:
    """The checkpoint at this path, to write to."""
    if path is None:
        yield None
        return
    store = _open(os.fsdecode(path))
    try:
        yield store
    finally:
        store.close()


def _open(path: str) -> Checkpoint:
    with explained(path):
        connection = connect(path, write=True)
        try:
            return Checkpoint(path, connection)
        except BaseException:
            connection.close()
            raise


def pack_measures(measures: Sequence[Measure]) -> list[tables.PackedMeasure]:
    """Measures as they are stored; of one that cannot be, its description."""
    packed: dict[int, tables.PackedMeasure] = {}
    for measure in measures:
        if id(measure) in packed:
            continue
        try:
            text, numbers = pack_measure(measure)
            packed[id(measure)] = (text, to_bytes(numbers))
        except ValueError:
            packed[id(measure)] = (json.dumps({"unknown": repr(measure)}), b"")
    return [packed[id(measure)] for measure in measures]


def same_measure(one: tables.PackedMeasure, other: tables.PackedMeasure) -> bool:
    """Whether two measures are alike, up to rounding."""
    if one == other:
        return True
    a, b = (from_bytes(measure[1], (-1,)) for measure in (one, other))
    return one[0] == other[0] and len(a) == len(b) and not np.any(_far(a, b))


def _far(a: Array, b: Array) -> Booleans:
    """Where two arrays (n, ...) differ by more than the rounding of their largest number, along the first axis."""
    scale = np.max(np.where(np.isfinite(b), np.abs(b), 0.0), axis=0, initial=0.0)
    with np.errstate(invalid="ignore"):  # infinite bounds of a measure
        return np.asarray((a != b) & ~(np.abs(a - b) <= CLOSE * scale))


def _differences(stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    found = [name for name in NAMES if stored.get(name) != asked.get(name)]
    return [
        f"{NAMES[name]} is {stored.get(name)!r} in the file, and {asked.get(name)!r} was asked for" for name in found
    ]


def _other_thetas(stored: Array, asked: Array) -> list[str]:
    n = min(len(stored), len(asked))
    bad = np.any(_far(stored[:n], asked[:n]), axis=1)
    if not np.any(bad):
        return []
    t = int(np.argmax(bad))
    return [f"theta index t = {t} is {stored[t]} in the file, and {asked[t]} was asked for (another prior or theta)"]


def _other_measures(stored: Sequence[tables.PackedMeasure], asked: Sequence[tables.PackedMeasure]) -> list[str]:
    pairs = enumerate(zip(stored, asked, strict=False))
    found = next(((t, a, b) for t, (a, b) in pairs if a is not b and not same_measure(a, b)), None)
    if found is None:
        return []
    t, a, b = found
    return [
        f"the measure of x at theta index t = {t} is {measure_text(a)} in the file, and {measure_text(b)} was asked for"
    ]


def _other_points(asked: Sequence[Array], stored: Sequence[Array]) -> list[str]:
    for t, (a, b) in enumerate(zip(asked, stored, strict=True)):
        far = np.any(_far(a, b), axis=1)
        if np.any(far):
            i = int(np.argmax(far))
            return [f"point i = {i} of theta index t = {t} is {b[i]} in the file, and {a[i]} would be drawn now"]
    return []


def measure_text(measure: tables.PackedMeasure) -> str:
    """A measure for messages: its kind and its first numbers."""
    record, numbers = json.loads(measure[0]), from_bytes(measure[1], (-1,))
    if "unknown" in record:
        return str(record["unknown"])
    shown = ", ".join(f"{number:.6g}" for number in numbers[:6])
    return f"{record['type']}({shown}{', ...' * (len(numbers) > 6)})"
