"""Whether f is still the function whose values a checkpoint holds: one check for every run that resumes.

Where f can be called, a few stored points are evaluated again, beside the first new ones. Where it cannot, or would
not repeat its values, its fingerprint decides. The version that the user declares decides everywhere. `collect`,
`solve` and sessions, in Python and on the command line, make this check.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

from cbq.checkpoint import CheckpointError
from cbq.common import shown
from cbq.runs.fingerprint import comparable, fingerprint
from cbq.runs.scheduling import CollectWarning

OnChange = Literal["raise", "reuse"]
INTEGRAND, FAMILY, COST = "the integrand", "the family", "the cost"
VERSION = "version"
WHY_REUSED = {  # functions that stored values do not depend on
    FAMILY: "Its measures at the stored thetas are the same",
    COST: "Stored values do not depend on it",
}
CHECKED_POINTS, CHECKED_IF_EDITED = 3, 12  # stored points that are evaluated again
SHOWN_PARTS = 5  # in a message

Record = dict[str, str | None]  # the digest of each part, None if it is unseen, and the version
Repeat = Callable[[int, str, Callable[[], None]], None]


class ResumedFile(Protocol):
    """A file of a run. sources: the record in it."""

    path: str
    sources: Record

    def write_sources(self, sources: Record) -> None:
        """Replace the record in the file."""

    def hold(self) -> None:
        """Let nothing that is written from now on reach the file before `keep`."""

    def keep(self) -> None:
        """Write to the disk what was held."""


@dataclass(frozen=True, eq=False)
class Sources:
    """The functions that a run depends on, by what messages call them, and the version that the user declares."""

    functions: dict[str, Any]
    version: str | None = None

    @cached_property
    def record(self) -> Record:
        """As a file keeps it; made at the first use."""
        return {
            f"{name}: {part}": digest for name, f in self.functions.items() for part, digest in fingerprint(f).items()
        } | {VERSION: self.version}

    def changes(self, stored: Record, name: str) -> list[str]:
        """The parts of a function that differ from a file, or else those that one of both lacks.

        None of them where there is nothing to compare: without a function, or in a file of an earlier version of cbq.
        """
        old, new = _parts(stored, name), _parts(self.record, name)
        if not old or not new:
            return []
        differ = [part for part in new if part in old and _differ(old[part], new[part])]
        return differ or [part for part in {**new, **old} if part not in old or (part not in new and old[part])]

    def is_hidden(self, stored: Record) -> bool:
        """Whether the code of the integrand cannot be compared: another version of Python or cbq made the file."""
        old, new = _parts(stored, INTEGRAND), _parts(self.record, INTEGRAND)
        pairs = [(old[part], new[part]) for part in old.keys() & new.keys()]
        return bool(new) and (not old or any(a and b and not comparable(a, b) for a, b in pairs))


def _parts(record: Record, name: str) -> Record:
    start = f"{name}: "
    return {key.removeprefix(start): digest for key, digest in record.items() if key.startswith(start)}


def _differ(one: str | None, other: str | None) -> bool:
    """Whether two digests show a change; None is unseen."""
    return one is not None and other is not None and one != other and comparable(one, other)


def ways_out() -> str:
    """What to do if f is not the function of a checkpoint."""
    return "Pass another name to start a new run, or on_change='reuse' to keep the stored values as they are."


def require_same_f(
    file: ResumedFile, sources: Sources, on_change: OnChange, repeat: Repeat | None, *, keep: bool = True
) -> None:
    """Raise a CheckpointError if f is not the function whose values a file holds; warn about smaller changes.

    repeat: lets this many stored points be evaluated again, with an error that has the given hint if f has other values
    there, and a function to call if it has the same; None if f cannot be called here, or would not repeat its values.
    keep: whether the file takes the present sources where its own are overruled, or cannot be compared.
    """
    stored, path = file.sources, file.path
    changes = {name: parts for name in sources.functions if (parts := sources.changes(stored, name))}
    edited, is_new = changes.pop(INTEGRAND, []), stored.get(VERSION) != sources.version
    n = CHECKED_IF_EDITED if edited else CHECKED_POINTS

    def accept() -> None:
        if edited and repeat is not None and on_change != "reuse":
            same = f"Up to {n} of its points were evaluated again and have the same values: all its values are reused."
            _warn(f"{_changed(path, INTEGRAND, edited)}. {same}")
        for name, parts in changes.items():
            _warn(f"{_changed(path, name, parts)}. {WHY_REUSED[name]}: all values are reused.")
        if keep and stored != sources.record and (on_change == "reuse" or sources.is_hidden(stored)):
            file.write_sources(sources.record)
        file.keep()

    if on_change == "reuse":
        if edited or is_new:
            of_file = f"the values in {path} are of another version: {_versions(stored, sources)}"
            how = of_file if is_new else _changed(path, INTEGRAND, edited)
            _warn(f"{how}. Nothing is evaluated again: stored values are reused, and missing ones come from the new f.")
    elif is_new:
        raise CheckpointError(f"{path} holds values of another f: {_versions(stored, sources)}. {ways_out()}")
    elif repeat is not None:
        repeat(n, _hint(edited), accept)
        return
    elif edited:
        raise CheckpointError(f"{path} holds values of another f: {_changed('it', INTEGRAND, edited)}. {ways_out()}")
    elif sources.is_hidden(stored):
        _warn(
            f"whether the integrand has changed since {path} was made cannot be seen, because another version of "
            f"Python or cbq made it. Its values are reused."
        )
    accept()


def forget_restless(file: ResumedFile, sources: Sources, *, by_f: bool = True) -> None:
    """Let a file count as unseen what has changed since it was opened, such as a counter of the calls of f.

    by_f: whether f was called meanwhile, so that it has done it; else somebody may have, and a warning names it.
    """
    now = Sources(sources.functions, sources.version).record
    changed = [part for part in {**sources.record, **now} if sources.record.get(part) != now.get(part)]
    restless = [part for part in changed if file.sources.get(part, "") is not None]
    if restless:
        file.write_sources({**file.sources, **dict.fromkeys(restless)})
    if restless and not by_f:
        parts = ", ".join(restless[:SHOWN_PARTS])
        _warn(f"while {file.path} was open, there were changes of {parts}. They are no longer compared.")


def _changed(path: str, name: str, parts: Sequence[str]) -> str:
    more = f" and {len(parts) - SHOWN_PARTS} more" * (len(parts) > SHOWN_PARTS)
    return f"{name} has changed since {path} was made ({', '.join(parts[:SHOWN_PARTS])}{more})"


def _versions(stored: Record, sources: Sources) -> str:
    old, new = (
        "no version" if each is None else f"version {shown(each)}" for each in (stored.get(VERSION), sources.version)
    )
    return f"they are of {old}, and the problem is of {new} now"


def _hint(edited: Sequence[str]) -> str:
    """What may have changed f, for the error where it has other values."""
    if edited:
        return f"The integrand was edited since ({', '.join(edited[:SHOWN_PARTS])})."
    return "The integrand was edited since, or something it reads or calls, or it is random: then pass stochastic=True."


def _warn(message: str) -> None:
    """Warn at the line that called cbq."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "cbq":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, CollectWarning, stacklevel=level)
