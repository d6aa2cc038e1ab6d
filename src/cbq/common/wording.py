"""Names of arguments in messages: those of Python, or of the program around the library.

`arg("on_error", "skip")` reads on_error='skip' in Python and --on-error skip on the command line.
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
    """A program's words for the arguments of the library.

    names : the program's names of arguments. between : separates such a name from its value.
    value : formats a value. again : how to resume a function.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    between: str = "="
    value: Callable[[Any], str] = repr
    again: str = "call {function} again with the same arguments to resume"


_WORDING: ContextVar[Wording] = ContextVar("wording", default=Wording())  # noqa: B039, it is immutable


def arg(name: str, value: Any = UNSET) -> str:
    """The user's name of an argument, with its value if one is given."""
    wording = _WORDING.get()
    known = wording.names.get(name)
    if value is UNSET:
        return name if known is None else known
    return f"{name}={value!r}" if known is None else f"{known}{wording.between}{wording.value(value)}"


def again(function: str) -> str:
    """A clause that explains how to resume this function."""
    return _WORDING.get().again.format(function=function)


@contextmanager
def in_words_of(wording: Wording) -> Iterator[None]:
    """Use this wording in messages made inside the `with` block."""
    before = _WORDING.set(wording)
    try:
        yield
    finally:
        _WORDING.reset(before)
