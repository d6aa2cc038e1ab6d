"""Saved objects in files of their own, and in the rows of other files."""

from __future__ import annotations

import json
import math
import os
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cbq._arrays import Array
from cbq._version import __version__
from cbq.io.archive import Archive, IncompatibleFile, not_a_fit, write
from cbq.io.fields import Field, Integer, Location, Record, Values
from cbq.io.registry import Instance

FORMAT = "cbq-fit"
VERSION = 2  # of the format: raised when other versions of cbq would misread a file
DAMAGE = (ValueError, TypeError, ArithmeticError, LookupError, RecursionError)
Base = TypeVar("Base")


def save_file(path: str | os.PathLike[str], fields: dict[str, Field], values: dict[str, Any]) -> None:
    """Write values to a file that `load_file` reads, replacing what was there once the new file is complete.

    The file is a zip archive of `fit.json` and one .npy entry per array; its name is taken as it is.
    """
    store = _Entries()
    try:
        record = Record(fields).encode(values, Location("", store))
    except ValueError as error:
        raise ValueError(f"this fit cannot be saved: {error}") from error
    header = {"format": FORMAT, "version": VERSION, "cbq": __version__}
    write(os.fsdecode(path), header | record, store.arrays)


def load_file(path: str | os.PathLike[str], fields: dict[str, Field], context: Any = None) -> dict[str, Any]:
    """The values that `save_file` wrote. context: passed to objects that a file cannot hold completely.

    Nothing in the file is executed, and everything is checked. A ValueError that begins with the name of the file says
    what is wrong with it: an IncompatibleFile where it may be intact but was written by another version or program, or
    does not go with the context.
    """
    name = os.fsdecode(path)
    with open(name, "rb") as file:
        try:
            archive = Archive(file)
            found = Record(fields).decode(_body(archive.header()), Location("", _Entries(archive), context=context))
            archive.refuse_unread()
            return found
        except IncompatibleFile as error:
            raise type(error)(f"{name} {error}") from error
        except DAMAGE as error:
            raise ValueError(f"{name} is damaged: {error} Restore it from a copy, or fit and save again.") from error


def _body(header: dict[str, Any]) -> dict[str, Any]:
    """The header without the entries that identify the format, which must be of this version."""
    found = header.get("format")
    if found != FORMAT:
        raise not_a_fit(f"its format is {found!r}, not {FORMAT!r}")
    version = Integer(1).encode(header.get("version"), Location("version", _Entries()))
    if version != VERSION:
        other = f"has version {version} of its format, but this cbq reads version {VERSION}"
        newer = f"cbq {header.get('cbq')} wrote it. Upgrade this one with python -m pip install --upgrade cbq."
        older = "an older development version wrote it. Fit again, and save the new fit."
        raise IncompatibleFile(f"{other}: {newer if version > VERSION else older}")
    return {name: value for name, value in header.items() if name not in ("format", "version", "cbq")}


class _Entries:
    """Arrays as entries of an archive, which the JSON names."""

    def __init__(self, archive: Archive | None = None) -> None:
        self.arrays: dict[str, Values] = {}
        self._archive = archive

    def put(self, path: str, values: Values) -> str:
        self.arrays[f"{path}.npy"] = values
        return f"{path}.npy"

    def take(self, path: str, reference: Any, dtype: npt.DTypeLike) -> Values:
        if reference != f"{path}.npy" or self._archive is None:
            raise ValueError(f"{path} must be '{path}.npy', the name of an entry, but it is {reference!r}.")
        return self._archive.array(f"{path}.npy", dtype)


class _Row:
    """Arrays in one row of numbers, one after the other; the JSON holds their shapes."""

    def __init__(self, numbers: Array | None = None) -> None:
        self.parts: list[Array] = []
        self.left = np.empty(0) if numbers is None else numbers

    def put(self, path: str, values: Values) -> list[int]:
        self.parts.append(values.astype(np.float64).ravel())
        return list(values.shape)

    def take(self, path: str, reference: Any, dtype: npt.DTypeLike) -> Values:
        if not isinstance(reference, list) or not all(type(n) is int and n >= 0 for n in reference):
            raise ValueError(f"{path} must be a shape, a list of integers, but it is {reference!r}.")
        size = math.prod(reference)
        if size > len(self.left):
            raise ValueError(f"{path} needs {size} numbers, but {len(self.left)} are left.")
        values, self.left = self.left[:size], self.left[size:]
        return values.astype(dtype).reshape(reference)


def pack_measure(measure: object) -> tuple[str, Array]:
    """A measure, or any saved object, as a JSON text and one row of numbers; a ValueError says why it has none."""
    row = _Row()
    record = Instance(object).encode(measure, Location("measure", row))
    return json.dumps(record, separators=(",", ":")), np.concatenate([np.empty(0), *row.parts])


def unpack_measure(text: str, numbers: Array, base: type[Base]) -> Base:
    """The measure that `pack_measure` packed, an object of `base`; a ValueError says what is wrong."""
    row = _Row(numbers)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"measure is not JSON ({error}).") from error
    found: Base = Instance(base).decode(record, Location("measure", row))
    if len(row.left):
        raise ValueError(f"measure leaves {len(row.left)} numbers unused.")
    return found
