"""An SQLite file that one process owns, and what its errors mean to a user."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.collect.errors import CheckpointError

if TYPE_CHECKING:
    import sqlite3

PATIENCE = 0.2  # seconds to wait for a process that is just closing the file
KEPT = "It was left as it is: restore it from a copy, or pass another name to start afresh."


def connect(path: str, *, write: bool) -> sqlite3.Connection:
    """A connection; to write, it is the only one, and makes the file if there is none.

    The lock is one of the operating system on the file itself, so that it goes with the process, however that ends.
    """
    import sqlite3  # slow to import

    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"there can be no checkpoint {path}: there is no folder {folder}. Make it first.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise CheckpointError(f"{path} is a folder or a device: pass the name of a file.")
    if not write and not os.path.exists(path):
        raise FileNotFoundError(f"there is no checkpoint {path}.")
    uri = f"{Path(path).absolute().as_uri()}?mode={'rwc' if write else 'rw'}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=PATIENCE)
    if write:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def make_durable(connection: sqlite3.Connection) -> None:
    """Take the lock for good, and have every transaction on the disk before it counts as done."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    with transaction(connection, "EXCLUSIVE"):
        pass  # in exclusive mode the lock of a transaction outlives it


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """All that is written within, or nothing of it."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn errors of SQLite, and of what was read, into one that says what to do."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "locked" in text:
            raise CheckpointError(
                f"{path} is in use by another run: wait until that one has ended, or pass another name."
            ) from error
        if "not a database" in text:
            raise CheckpointError(f"{path} is not a checkpoint of cbq ({text}). {KEPT}") from error
        if isinstance(error, sqlite3.OperationalError) and "malformed" not in text:
            raise CheckpointError(
                f"{path} cannot be read or written ({text}). What was finished before is kept in it: put that right, "
                f"and do the same again."
            ) from error
        raise CheckpointError(f"{path} is damaged ({text}). {KEPT}") from error


def damaged(path: str, why: str) -> CheckpointError:
    """The error for a file of which a part is not what was written."""
    return CheckpointError(f"{path} is damaged: {why}. {KEPT}")


def checksum(*parts: Any) -> int:
    """A number that changes when one of these integers, texts or bytes does."""
    total = 0
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        total = zlib.crc32(data, zlib.crc32(b"%d;" % len(data), total))
    return total


def to_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """Floats as little-endian bytes, in C order."""
    return np.ascontiguousarray(array, dtype="<f8").tobytes()


def from_bytes(data: bytes, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The array of that shape, which may hold one -1; a ValueError where the bytes are too few or too many."""
    return np.frombuffer(data, dtype="<f8").astype(np.float64).reshape(shape)
