"""Whether a file is intact and can be read in bounded time and memory, whoever wrote it.

SQLite itself reads damaged and hostile files safely, but a file of a few kilobytes can describe rows without an end:
as a view, or as pages that contain each other. A file is therefore read in this order: what it defines, under limits
(`bounded`), which must be tables of a checkpoint and nothing else; then its structure (`require_intact`). After that,
every page belongs to one table, and whatever is read is smaller than the file.

https://www.sqlite.org/security.html#untrusted_sqlite_database_files
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

from cbq.checkpoint.database import damaged, log_of

if TYPE_CHECKING:
    import sqlite3

STEPS_PER_CHECK = 10_000  # of the virtual machine of SQLite
STEPS_PER_BYTE = 10  # of a file; reading a checkpoint, and checking its structure, takes about one
FREE_BYTES = 2**20  # that any file may be taken to have, for both limits


class SchemaEntry(NamedTuple):
    """A table, view, index or trigger that a file defines."""

    type: str
    name: str
    sql: str | None

    @property
    def is_automatic_index(self) -> bool:
        """Whether it is an index that SQLite makes for a table, which has no statement of its own."""
        return self.type == "index" and self.sql is None


def schema(connection: sqlite3.Connection) -> list[SchemaEntry]:
    """All that a file defines."""
    return [SchemaEntry(*row) for row in connection.execute("SELECT type, name, sql FROM sqlite_master")]


@contextmanager
def bounded(path: str, connection: sqlite3.Connection) -> Iterator[None]:
    """Let statements in the block take time and memory in proportion to the size of the file; beyond, they fail."""
    import sqlite3

    size = FREE_BYTES + os.path.getsize(path) + _log_size(path)
    checks = STEPS_PER_BYTE * size // STEPS_PER_CHECK
    longest = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(size, 2**31 - 1))
    # A compiled function: in one of Python, SQLite would take Ctrl-C for the end of the steps.
    connection.set_progress_handler(chain(repeat(0, checks), repeat(1)).__next__, STEPS_PER_CHECK)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)


def require_intact(path: str, connection: sqlite3.Connection, *, empty: bool) -> None:
    """Raise unless the file has all its pages, and each of them in its place. empty: whether it defines nothing."""
    pages, page_size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    size = os.path.getsize(path)
    if empty and size > page_size:  # a new file has one page at most
        raise damaged(path, "its list of tables is lost")
    if size != pages * page_size and not _log_size(path):  # a log may have the rest, after a kill
        raise damaged(path, f"it has {size} bytes, but {pages * page_size} were written")
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise damaged(path, " ".join(str(found).split()))


def _log_size(path: str) -> int:
    """The bytes of the write-ahead log."""
    with suppress(FileNotFoundError):
        return os.path.getsize(log_of(path))
    return 0
