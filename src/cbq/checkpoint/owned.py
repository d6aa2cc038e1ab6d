"""An SQLite file that one process owns, from opening to closing it, whatever happens to the file or the process."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from cbq.checkpoint.database import LOCK_TIMEOUT, CheckpointError, connect, explained, log_of, make_durable, transaction
from cbq.common import described

if TYPE_CHECKING:
    import sqlite3

Identity = tuple[tuple[int, int] | None, ...]  # device and number of the file and of its log, None if there is none


class OwnedFile:
    """An open SQLite file, which no other process may open. It is closed once, by the process that opened it.

    is_empty: whether the file holds nothing yet. check: returns that, or raises if the file is none to be opened.
    wait: the seconds to wait for a process that has the file open.

    A forked process has a copy of this object, and must leave the file alone: what SQLite knows of its locks is no
    longer true there, and closing the connection would remove the log that the other process goes on writing to.
    """

    def __init__(self, path: str, check: Callable[[str, sqlite3.Connection], bool], wait: float = LOCK_TIMEOUT) -> None:
        self.path, self._process = path, os.getpid()
        self._ended: str | None = None  # why nothing can be written any more
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

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Write everything inside the block, or nothing of it; then it is on the disk."""
        if self._process != os.getpid():
            raise CheckpointError(
                f"{self.path} was opened by process {self._process}, and this is a fork of it: write in that process "
                f"alone, and pass results on to it."
            )
        if self._ended is not None:
            raise CheckpointError(self._ended)
        with explained(self.path), transaction(self.connection):
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
        """The error for a file that was taken away, whose contents this process still has: they go to another file."""
        what = f"{self.path} was deleted, moved or replaced while this run was writing to it."
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
        """The name of a new file that has what this one held, in the same folder if that is still there."""
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
