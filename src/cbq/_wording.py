"""How messages name arguments: as Python has them, or as the program around the library does.

A message that tells a user what to pass says `arg("on_error", "skip")`. In Python this is on_error='skip', and for a
user of the command line, who never sees a Python argument, --on-error skip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

UNSET = object()


def _python_value(value: Any) -> str:
    return repr(value)


@dataclass(frozen=True)
class Wording:
    """Other names of arguments, and what stands between a name and its value, and how a value is written."""

    names: Mapping[str, str] = field(default_factory=dict)
    between: str = "="
    value: Callable[[Any], str] = _python_value


_WORDING: ContextVar[Wording] = ContextVar("wording", default=Wording())  # noqa: B039, it is immutable


def arg(name: str, value: Any = UNSET) -> str:
    """An argument as the user knows it, with the value that a message speaks of, if any."""
    wording = _WORDING.get()
    known = wording.names.get(name)
    if value is UNSET:
        return name if known is None else known
    return f"{name}={value!r}" if known is None else f"{known}{wording.between}{wording.value(value)}"


@contextmanager
def in_words_of(wording: Wording) -> Iterator[None]:
    """Use this wording in the messages that are made inside."""
    before = _WORDING.set(wording)
    try:
        yield
    finally:
        _WORDING.reset(before)
