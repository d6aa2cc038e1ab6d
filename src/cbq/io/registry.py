"""The registry of classes whose objects can be saved: each declares its fields and its name in files.

Objects are fields of a fit (`Instance`), or packed as text and numbers into the rows of another file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cbq.common import Array
from cbq.io.fields import Field, IncompatibleFile, Location, Record, Values

Class = TypeVar("Class", bound=type)
Base = TypeVar("Base")
TYPE = "type"  # the key of the name of a class in JSON
LAST_ROOM = "cbq.estimators"  # the highest room with saved classes: importing it declares all classes of cbq


@dataclass(frozen=True)
class SavedClass:
    """A class whose objects can be saved; see `saved`."""

    name: str
    cls: type
    record: Record
    read: Callable[[Any], Mapping[str, Any]]
    build: Callable[..., Any]
    check: Callable[..., None]

    def encode(self, value: Any, at: Location) -> dict[str, Any]:
        with _errors_located(at):
            known = self.read(value)
        values = {name: known[name] if name in known else getattr(value, name) for name in self.record.fields}
        raw = {TYPE: self.name} | self.record.encode(values, at)
        with _errors_located(at):
            self.check(**values)
        return raw

    def decode(self, raw: Mapping[str, Any], at: Location) -> Any:
        values = self.record.decode({name: value for name, value in raw.items() if name != TYPE}, at)
        with _errors_located(at):
            self.check(**values)
            return self.build(self.cls, at.context, **values)


@contextmanager
def _errors_located(at: Location) -> Iterator[None]:
    """Prefix errors with the location of the object in the file."""
    try:
        yield
    except IncompatibleFile:
        raise
    except (ValueError, TypeError) as error:
        raise ValueError(f"{at.path}: {error}") from error


REGISTRY: dict[str, SavedClass] = {}


def saved(
    name: str,
    /,
    *,
    read: Callable[[Any], Mapping[str, Any]] = lambda _: {},
    build: Callable[..., Any] = lambda cls, _, **fields: cls(**fields),
    check: Callable[..., None] = lambda **_: None,
    **fields: Field,
) -> Callable[[Class], Class]:
    """Register a class whose objects can be saved, with its fields.

    name: the name of the class in files, which no other class may have. fields: the arguments of the constructor, which
    are also attributes; they are checked in this order, by the rules of `cbq.io.fields`.

    read(object): the values of fields that are not attributes, by name.
    build(cls, context, **fields): makes the object, where the constructor takes other arguments than the fields or
        needs the context of `load_file`.
    check(**fields): raises a ValueError unless the fields belong together.

    A subclass must be declared itself: it may be code of a user.
    """

    def declare(cls: Class) -> Class:
        if name in REGISTRY:
            raise ValueError(f"the name {name!r} of {cls!r} in files belongs to {REGISTRY[name].cls!r}: take another.")
        REGISTRY[name] = SavedClass(name, cls, Record(fields), read, build, check)
        return cls

    return declare


def saved_classes(base: type = object) -> dict[str, type]:
    """The saved classes that are `base` or derive from it, by their names in files."""
    import_module(LAST_ROOM)
    return {name: entry.cls for name, entry in REGISTRY.items() if issubclass(entry.cls, base)}


@dataclass(frozen=True)
class Instance(Field):
    """An object of a saved class that is `base` or derives from it."""

    base: type

    def encode(self, value: Any, at: Location) -> dict[str, Any]:
        for entry in REGISTRY.values():
            if type(value) is entry.cls and issubclass(entry.cls, self.base):
                return entry.encode(value, at)
        known = saved_classes(self.base)
        raise ValueError(
            f"{at.path} is {' '.join(repr(value).split())} of type {type(value).__name__}, which is code of your own "
            f"or holds a function or a measure, and a file holds no code. Use {', '.join(known)}, or keep the samples "
            f"and fit again when needed."
        )

    def decode(self, raw: Any, at: Location) -> Any:
        if not isinstance(raw, dict) or not isinstance(name := raw.get(TYPE), str):
            raise at.refusal(f"an object with a {TYPE}", raw)
        if name not in REGISTRY:
            import_module(LAST_ROOM)
        entry = REGISTRY.get(name)
        if entry is None or not issubclass(entry.cls, self.base):
            known = saved_classes(self.base)
            raise IncompatibleFile(
                f"holds {at.path} of type {name!r}, but this cbq knows only {', '.join(known)}. Upgrade it with python "
                f"-m pip install --upgrade cbq, or import the module that declares {name!r}."
            )
        return entry.decode(raw, at)


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
    """A measure, or any saved object, as a JSON text and one row of numbers; raise ValueError if it cannot be saved."""
    row = _Row()
    record = Instance(object).encode(measure, Location("measure", row))
    return json.dumps(record, separators=(",", ":")), np.concatenate([np.empty(0), *row.parts])


def unpack_measure(text: str, numbers: Array, base: type[Base]) -> Base:
    """The measure that `pack_measure` packed, an object of `base`; raise ValueError if it is damaged."""
    row = _Row(numbers)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"measure is not JSON ({error}).") from error
    measure: Base = Instance(base).decode(record, Location("measure", row))
    if len(row.left):
        raise ValueError(f"measure leaves {len(row.left)} numbers unused.")
    return measure
