"""SQLite files: opening and owning one, writing to it in whole, and errors with a remedy.

One process owns a file from opening to closing it, whatever happens to the file or to the process.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from cbq.common import described

if TYPE_CHECKING:
    import sqlite3

LOCK_TIMEOUT = 0.2  # seconds to wait for a process that is just closing the file
LEFT_UNCHANGED = "The file is unchanged: restore it from a copy, or pass another name to start a new run."
NONSENSE = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)  # by rows of a file
Identity = tuple[tuple[int, int] | None, ...]  # device and number of the file and of its log, None if there is none


class CheckpointError(ValueError):
    """A checkpoint belongs to another run, is damaged, is in use, or cannot be written.

    Examples
    --------
    >>> try:
    ...     cbq.Samples.from_checkpoint("no such file.sqlite")
    ... except (cbq.CheckpointError, FileNotFoundError):
    ...     print("there is no such run")
    there is no such run
    """


def connect(path: str, *, write: bool, wait: float = LOCK_TIMEOUT) -> sqlite3.Connection:
    """Return a connection. One that writes excludes all others and creates the file if it does not exist.

    The lock is held by the operating system on the file itself, so that it ends with the process, however that ends.
    wait: the seconds to wait for another process to close the file.
    """
    import sqlite3  # slow to import

    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot create the checkpoint {path}: there is no folder {folder}. Create it first.")
    if (exists := os.path.exists(path)) and not os.path.isfile(path):
        raise CheckpointError(f"{path} is a folder or a device: pass the name of a file.")
    if not write and not exists:
        raise FileNotFoundError(f"there is no checkpoint {path}.")
    mode = "rwc" if write else "rw"
    if not os.access(folder, os.W_OK) or (exists and not os.access(path, os.W_OK)):
        _refuse_read_only(path, write=write)
        mode = "ro&immutable=1"  # SQLite would need to write beside the file otherwise, even to read it
    uri = f"{Path(path).absolute().as_uri()}?mode={mode}"
    # Threads may share a connection: a session is told results by whichever thread has them, one at a time.
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=wait, check_same_thread=False)
    connection.execute("PRAGMA trusted_schema = OFF")  # a file may come from anywhere
    connection.execute("PRAGMA cell_size_check = ON")
    if write:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def log_of(path: str) -> str:
    """The name of the write-ahead log of a file, which has the newest transactions while a run is going on."""
    return f"{os.path.realpath(path)}-wal"


def _refuse_read_only(path: str, *, write: bool) -> None:
    """Raise unless a file that is read-only, or in a read-only folder, can be read as it is."""
    if write:
        raise CheckpointError(
            f"{path} is read-only, or in a read-only folder, so no run can be kept in it: pass a name in a folder that "
            f"you can write to. cbq.Samples.from_checkpoint reads a file that is there."
        )
    log = log_of(path)
    if os.path.exists(log) and os.path.getsize(log):
        raise CheckpointError(
            f"{path} is read-only, or in a read-only folder, and its run was interrupted: a part of it is in {log}. "
            f"Copy both files to a folder that you can write to, and read the copy."
        )


def make_durable(connection: sqlite3.Connection) -> None:
    """Hold the lock until the connection closes, and write each transaction to the disk before it counts as done."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    with transaction(connection, "EXCLUSIVE"):
        pass  # in exclusive mode the lock of a transaction outlives it


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Write everything inside the block, or nothing of it."""
    if connection.in_transaction:  # the one before was interrupted between its beginning and its block
        connection.execute("ROLLBACK")
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    """The same inside a transaction."""
    connection.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK TO part")
        raise
    finally:
        connection.execute("RELEASE part")


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn errors of SQLite into a CheckpointError with a remedy."""
    import sqlite3

    try:
        yield
    except UnicodeDecodeError as error:  # of a name in the schema, by SQLite or by its message
        raise damaged(path, str(error)) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the primary code of an extended one
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            message = f"{path} is in use by another run: wait until that run has ended, or pass another name."
        elif code == sqlite3.SQLITE_NOTADB:
            message = f"{path} is not a checkpoint of cbq ({error}). {LEFT_UNCHANGED}"
        elif code == sqlite3.SQLITE_TOOBIG:
            message = f"{path} cannot hold a batch of this size ({error}): pass a smaller batch, or let f return less."
        elif isinstance(error, sqlite3.OperationalError) and code not in (
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_INTERRUPT,  # by `bounded`
        ):
            message = (
                f"{path} cannot be read or written ({error}). It keeps what was finished before: remove the cause, and "
                f"repeat the call."
            )
        else:
            message = f"{path} is damaged ({error}). {LEFT_UNCHANGED}"
        raise CheckpointError(message) from error


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Like `explained`; rows that pass their checksums but make no sense are reported as damage, too."""
    try:
        with explained(path):
            yield
    except (CheckpointError, OSError):
        raise
    except MemoryError as error:
        raise CheckpointError(f"{path} holds more than fits into memory. {LEFT_UNCHANGED}") from error
    except NONSENSE as error:
        raise damaged(path, described(error)) from error


def damaged(path: str, reason: str) -> CheckpointError:
    """The error for a file that was changed after it was written."""
    return CheckpointError(f"{path} is damaged: {reason}. {LEFT_UNCHANGED}")


def checksum(*parts: Any) -> int:
    """A number that changes when one of these integers, strings or bytes does."""
    total = 0
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        total = zlib.crc32(data, zlib.crc32(b"%d;" % len(data), total))
    return total


class OwnedFile:
    """An open SQLite file, which no other process may open. It is closed once, by the process that opened it.

    is_empty: whether the file holds nothing yet. check: returns that, or raises if the file is none to be opened.
    wait: the seconds to wait for a process that has the file open.

    A forked process has a copy of this object, and must leave the file alone: its copy of SQLite's locks is out of
    date, and closing the connection would remove the log that the other process goes on writing to.
    """

    def __init__(self, path: str, check: Callable[[str, sqlite3.Connection], bool], wait: float = LOCK_TIMEOUT) -> None:
        self.path, self._process = path, os.getpid()
        self._ended: str | None = None  # why nothing can be written any more
        self._is_held = False
        is_new = not os.path.exists(path)
        with explained(path):
            self.connection = connect(path, write=True, wait=wait)
            try:
                self.is_empty = check(path, self.connection)
                make_durable(self.connection)
            except BaseException:
                self.connection.close()
                if is_new:  # a full disk
                    os.unlink(path)
                raise
        self._identity = self._found()
        _open_files.add(self)

    @property
    def is_open(self) -> bool:
        """Whether this process may write to the file."""
        return self._ended is None and self._process == os.getpid()

    def hold(self) -> None:
        """Let nothing that is written from now on reach the file before `keep`."""
        with explained(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
        self._is_held = True

    def keep(self) -> None:
        """Write to the disk what was held, if anything was."""
        if self._is_held:
            with explained(self.path):
                self.connection.execute("COMMIT")
            self._is_held = False

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Write everything inside the block, or nothing of it; then it is on the disk, unless it is held."""
        if self._process != os.getpid():
            raise CheckpointError(
                f"{self.path} was opened by process {self._process}, and this is a fork of it: write in that process "
                f"alone, and pass results on to it."
            )
        if self._ended is not None:
            raise CheckpointError(self._ended)
        with explained(self.path), (savepoint if self._is_held else transaction)(self.connection):
            yield self.connection
        self.is_empty = False
        if self._found() != self._identity:
            raise self._lost()

    def close(self) -> None:
        """Release the file; one that is still empty is removed. A second call, or one in a fork, does nothing."""
        if not self.is_open:
            return
        found = self._found()
        if found != self._identity and not self.is_empty:
            raise self._lost()
        self._release(f"{self.path} is closed, and others may have it open: open the session again to go on.")
        if self.is_empty and found[0] == self._identity[0]:
            os.unlink(os.path.realpath(self.path))

    def _drop(self) -> None:
        """Forget what is held."""
        if self._is_held:
            self.connection.execute("ROLLBACK")
            self._is_held = False

    def _release(self, why: str) -> None:
        self._ended = why
        with explained(self.path):
            self.connection.close()

    def _found(self) -> Identity:
        """The file and the log that have the names of this one."""
        found: list[tuple[int, int] | None] = []
        for name in (self.path, log_of(self.path)):
            try:
                status = os.stat(name)
                found.append((status.st_dev, status.st_ino))
            except FileNotFoundError:
                found.append(None)
        return tuple(found)

    def _lost(self) -> CheckpointError:
        """The error for a file that was taken away. This process still has its contents, and writes them to another."""
        what = f"{self.path} was deleted, moved or replaced while this run was writing to it."
        self._drop()
        try:
            what = f"{what} All that it held is in {self._copied()}: resume the run from there."
        except (OSError, CheckpointError) as error:
            self._release(f"{what} What it held could not be copied ({described(error)}): begin the run again.")
            return CheckpointError(self._ended)
        log_is_left = self._found()[1] == self._identity[1] is not None
        self._release(what)
        if log_is_left:  # beside another file, SQLite would take it for a part of that
            with suppress(OSError):
                os.unlink(log_of(self.path))
        return CheckpointError(what)

    def _copied(self) -> str:
        """The name of a new file with the contents of this one, in the same folder if that is still there."""
        name = Path(self.path).absolute()
        folder = name.parent if os.access(name.parent, os.W_OK) else None  # None: the one for temporary files
        handle, copy = tempfile.mkstemp(name.suffix, f"{name.stem}-rescued-", folder)
        os.close(handle)
        try:
            with explained(copy):
                self.connection.execute("VACUUM INTO ?", (copy,))
        except BaseException:
            os.unlink(copy)
            raise
        return copy


_open_files: WeakSet[OwnedFile] = WeakSet()


def _leave_to_parent() -> None:
    """Keep connections of the parent from being closed, even when this process, a fork of it, ends."""
    for file in _open_files:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(file.connection))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave_to_parent)
