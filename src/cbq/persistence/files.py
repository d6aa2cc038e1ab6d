"""Saving a fit of any kind to a file, and loading it again."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy.typing as npt

from cbq.fit import Fit
from cbq.methods.cbq_fit import CBQFit
from cbq.persistence import cbq_fit, checks
from cbq.persistence.archive import Archive, Foreign, write

FORMAT = "cbq-fit"
VERSION = 1  # of the format: raised when older readers would misread a file
DAMAGE = (ValueError, TypeError, ArithmeticError, RecursionError)


class Kind(NamedTuple):
    """How fits of one class become JSON and arrays, and back."""

    fit: type[Fit]
    pack: Callable[[Any], tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]]
    unpack: Callable[[dict[str, Any], Archive], Fit]


KINDS = {"CBQ": Kind(CBQFit, cbq_fit.pack, cbq_fit.unpack)}


def save(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write a fit to a file that `load` reads, replacing what was there once the new file is complete.

    The file is a zip archive with `fit.json` and one `.npy` per array; its name is taken as it is.
    """
    from cbq import __version__

    names = [name for name, kind in KINDS.items() if type(fit) is kind.fit]
    if not names:
        known = ", ".join(kind.fit.__name__ for kind in KINDS.values())
        raise TypeError(f"a {type(fit).__name__} cannot be saved: there is a format for {known} only.")
    try:
        record, arrays = KINDS[names[0]].pack(fit)
    except ValueError as error:
        raise ValueError(f"this fit cannot be saved: {error}") from error
    header = {"format": FORMAT, "version": VERSION, "cbq": __version__, "kind": names[0], "fit": record}
    write(os.fsdecode(path), header, arrays)


def load(path: str | os.PathLike[str]) -> Fit:
    """The fit that `fit.save(path)` wrote. Its answers are those of the original, to the last bit.

    Nothing in the file is executed, and all of it is checked: a file that is damaged, of another kind or of a newer
    format is refused with a ValueError.
    """
    name = os.fsdecode(path)
    with open(name, "rb") as file:
        try:
            return _unpack(Archive(file))
        except Foreign as error:
            raise ValueError(f"{name} {error}") from error
        except DAMAGE as error:
            raise ValueError(f"{name} is damaged: {error} Restore it from a copy, or fit and save again.") from error


def _unpack(archive: Archive) -> Fit:
    header = archive.header()
    if header.get("format") != FORMAT:
        why = f"its format is {header.get('format')!r}, not {FORMAT!r}"
        raise Foreign(f"is not a fit of cbq: {why}. Pass a file that fit.save wrote.")
    version = checks.field(header, "version", int)
    if version > VERSION:
        raise Foreign(_too_new(header, f"has version {version} of its format, and this cbq reads up to {VERSION}"))
    if version < 1:
        raise ValueError(f"'version' must be 1 or more, but it is {version}.")
    kind = checks.field(header, "kind", str)
    if kind not in KINDS:
        raise Foreign(_too_new(header, f"holds a fit of kind {kind!r}, and this cbq knows {', '.join(KINDS)}"))
    return KINDS[kind].unpack(checks.field(header, "fit", dict), archive)


def _too_new(header: dict[str, Any], why: str) -> str:
    return f"{why}: cbq {header.get('cbq')} wrote it. Upgrade this one with python -m pip install --upgrade cbq."
