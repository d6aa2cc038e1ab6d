"""Classes whose objects can be saved: each declares its fields, and the registry knows it by its name in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from cbq.io.archive import IncompatibleFile
from cbq.io.fields import Field, Location, Record

Class = TypeVar("Class", bound=type)
Read = Callable[[Any], Mapping[str, Any]]
TYPE = "type"  # the key of the name of a class in JSON


@dataclass(frozen=True)
class SavedClass:
    """A class whose objects can be saved; see `saved`."""

    name: str
    cls: type
    record: Record
    read: Read | None
    build: Callable[..., Any] | None
    check: Callable[..., None] | None

    def encode(self, value: Any, at: Location) -> dict[str, Any]:
        """The object as JSON, with its arrays in the store."""
        found = {} if self.read is None else self._explained(at, self.read, value)
        values = {name: found[name] if name in found else getattr(value, name) for name in self.record.fields}
        raw = {TYPE: self.name} | self.record.encode(values, at)
        if self.check is not None:
            self._explained(at, self.check, **values)
        return raw

    def decode(self, raw: Mapping[str, Any], at: Location) -> Any:
        """The object that was encoded."""
        values = self.record.decode({name: value for name, value in raw.items() if name != TYPE}, at)
        if self.check is not None:
            self._explained(at, self.check, **values)
        if self.build is None:
            return self._explained(at, self.cls, **values)
        return self._explained(at, self.build, self.cls, at.context, **values)

    def _explained(self, at: Location, function: Callable[..., Any], /, *arguments: Any, **values: Any) -> Any:
        """What the function returns; its errors say where in the file the object is."""
        try:
            return function(*arguments, **values)
        except IncompatibleFile:
            raise
        except (ValueError, TypeError) as error:
            raise ValueError(f"{at.path}: {error}") from error


REGISTRY: dict[str, SavedClass] = {}


def saved(
    name: str,
    /,
    *,
    read: Read | None = None,
    build: Callable[..., Any] | None = None,
    check: Callable[..., None] | None = None,
    **fields: Field,
) -> Callable[[Class], Class]:
    """Declare that the objects of a class can be saved, and what they are made of.

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
    return {name: each.cls for name, each in REGISTRY.items() if issubclass(each.cls, base)}


@dataclass(frozen=True)
class Instance(Field):
    """An object of a saved class that is `base` or derives from it."""

    base: type

    def encode(self, value: Any, at: Location) -> dict[str, Any]:
        known = saved_classes(self.base)
        for name, cls in known.items():
            if type(value) is cls:
                return REGISTRY[name].encode(value, at)
        raise ValueError(
            f"{at.path} is {' '.join(repr(value).split())} of type {type(value).__name__}, which is code of your own "
            f"or holds a function or a measure, and a file holds no code. Use {', '.join(known)}, or keep the samples "
            f"and fit again when needed."
        )

    def decode(self, raw: Any, at: Location) -> Any:
        if not isinstance(raw, dict) or not isinstance(name := raw.get(TYPE), str):
            raise at.refusal(f"an object with a {TYPE}", raw)
        known = saved_classes(self.base)
        if name not in known:
            raise IncompatibleFile(
                f"holds {at.path} of type {name!r}, but this cbq knows only {', '.join(known)}. Upgrade it with python "
                f"-m pip install --upgrade cbq, or import the module that declares {name!r}."
            )
        return REGISTRY[name].decode(raw, at)
