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


@dataclass(frozen=True)
class Wording:
    """The words of a program for what the library calls otherwise.

    names : other names of arguments. between : what stands between such a name and its value.
    value : how a value is written. again : how to resume what a function did.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    between: str = "="
    value: Callable[[Any], str] = repr
    again: str = "call {function} again with the same arguments to resume"


_WORDING: ContextVar[Wording] = ContextVar("wording", default=Wording())  # noqa: B039, it is immutable


def arg(name: str, value: Any = UNSET) -> str:
    """An argument as the user knows it, with the value that a message speaks of, if any."""
    wording = _WORDING.get()
    known = wording.names.get(name)
    if value is UNSET:
        return name if known is None else known
    return f"{name}={value!r}" if known is None else f"{known}{wording.between}{wording.value(value)}"


def again(function: str) -> str:
    """How to resume what this function did, as a clause."""
    return _WORDING.get().again.format(function=function)


@contextmanager
def in_words_of(wording: Wording) -> Iterator[None]:
    """Use this wording in the messages that are made inside."""
    before = _WORDING.set(wording)
    try:
        yield
    finally:
        _WORDING.reset(before)
