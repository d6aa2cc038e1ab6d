"""Fields of saved objects: each checks a value, writes it as JSON and arrays, and reads it back.

Values obey the same rules when they are written and when they are read, so that a file that was written can be read.
Lengths have names: `Numbers("T p")` is a matrix, and T and p stand for the same lengths wherever they occur in an
object and in the objects inside it. Names that first occur in an item of a list are known in that item only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
STORED = {float: np.float64, int: np.int64, bool: np.bool_}  # types of arrays in files
IN_MEMORY = {float: np.float64, int: np.intp, bool: np.bool_}


class IncompatibleFile(ValueError):
    """A file that this reader cannot use although it may be intact; the message completes "<file> ..."."""


class ArrayStore(Protocol):
    """Storage for arrays, beside the JSON."""

    def put(self, path: str, values: Values) -> Any:
        """Keep an array, and return the JSON value that stands for it."""

    def take(self, path: str, reference: Any, dtype: npt.DTypeLike) -> Values:
        """The array that `put` kept under this path."""


@dataclass(frozen=True)
class Location:
    """The location of a value in a file.

    path: the fields that lead to it. store: its arrays. sizes: known lengths by name. context: passed by the caller of
    `load_file`, for objects that a file cannot hold completely.
    """

    path: str
    store: ArrayStore
    sizes: ChainMap[str, int] = field(default_factory=ChainMap)
    context: Any = None

    def inside(self, name: str) -> Location:
        return replace(self, path=f"{self.path}/{name}" if self.path else name)

    def item(self, i: int) -> Location:
        return replace(self.inside(str(i)), sizes=self.sizes.new_child())

    def agrees(self, name: str, length: int) -> bool:
        """Whether the length of this name is `length`; an unknown one is set to it. "_" is any length."""
        return name == "_" or self.sizes.setdefault(name, length) == length

    def known(self, name: str) -> str:
        """The name of a length, and its value if that is known."""
        return f"{name} = {self.sizes[name]}" if name in self.sizes else name

    def refusal(self, rule: str, value: Any) -> ValueError:
        text = repr(value)
        return ValueError(f"{self.path} must be {rule}, but it is {text if len(text) <= 60 else text[:57] + '...'}.")


class Field(ABC):
    """The rules for a value, and its form in a file."""

    @abstractmethod
    def encode(self, value: Any, at: Location) -> Any:
        """The JSON value of `value`, whose arrays go to the store; a ValueError if it breaks a rule."""

    def decode(self, raw: Any, at: Location) -> Any:
        """The value that was encoded as `raw`; by default `raw` itself, checked by the same rules."""
        return self.encode(raw, at)


@dataclass(frozen=True)
class Number(Field):
    """A finite number, at least `least`; or `null`, such as -math.inf, stored as JSON null."""

    least: float = -math.inf
    null: float | None = None

    def encode(self, value: Any, at: Location) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            raise at.refusal("a number", value)
        if self.null is not None and value == self.null:
            return None
        if not math.isfinite(value) or value < self.least:
            limit = f" of at least {self.least:g}" if math.isfinite(self.least) else ""
            raise at.refusal(f"a finite number{limit}", value)
        return float(value)

    def decode(self, raw: Any, at: Location) -> float | None:
        return self.null if raw is None and self.null is not None else self.encode(raw, at)


@dataclass(frozen=True)
class Integer(Field):
    """An integer that is at least `least`."""

    least: float = -math.inf

    def encode(self, value: Any, at: Location) -> int:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise at.refusal("an integer", value)
        if value < self.least:
            raise at.refusal(f"{self.least} or more", value)
        return int(value)


@dataclass(frozen=True)
class Boolean(Field):
    """True or false. only_if: the name and the value of a length; for any other value it must be false."""

    only_if: tuple[str, int] | None = None

    def encode(self, value: Any, at: Location) -> bool:
        if not isinstance(value, bool | np.bool_):
            raise at.refusal("true or false", value)
        if value and self.only_if is not None and not at.agrees(*self.only_if):
            raise at.refusal(f"false, since {at.known(self.only_if[0])}", value)
        return bool(value)


@dataclass(frozen=True)
class Text(Field):
    """A text; one of `options`, if there are any."""

    options: tuple[str, ...] = ()

    def encode(self, value: Any, at: Location) -> str:
        if not isinstance(value, str):
            raise at.refusal("a text", value)
        if self.options and value not in self.options:
            raise at.refusal(f"one of {', '.join(self.options)}", value)
        return value


@dataclass(frozen=True)
class Texts(Field):
    """A mapping from names to texts."""

    def encode(self, value: Any, at: Location) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise at.refusal("an object", value)
        return {Text().encode(name, at): Text().encode(text, at.inside(name)) for name, text in value.items()}


@dataclass(frozen=True)
class Numbers(Field):
    """An array.

    shape: the names of its lengths, such as "T p"; None for any shape. kind: float, int or bool. least: its smallest
    value. infinite: whether inf and NaN are allowed. total: the name of a length that is the sum of its values. inline:
    whether it is a list in the JSON instead of an array in the store.
    """

    shape: str | None = None
    kind: type = float
    least: float = -math.inf
    infinite: bool = False
    total: str | None = None
    inline: bool = False

    def encode(self, value: Any, at: Location) -> Any:
        values, dtype = np.asarray(value), STORED[self.kind]
        if not np.can_cast(values.dtype, dtype, "same_kind"):
            raise ValueError(f"{at.path} must hold values of type {self.kind.__name__}, but it holds {values.dtype}.")
        values = self.check(values, at).astype(dtype, copy=False)
        return values.tolist() if self.inline else at.store.put(at.path, values)

    def decode(self, raw: Any, at: Location) -> Values:
        values = self._listed(raw, at) if self.inline else at.store.take(at.path, raw, STORED[self.kind])
        return self.check(values, at).astype(IN_MEMORY[self.kind], copy=False)

    def check(self, values: Values, at: Location) -> Values:
        """Return `values` if their shape and their range are right."""
        names = None if self.shape is None else self.shape.split()
        if names is not None:
            right = len(names) == values.ndim and 0 not in values.shape
            if not right or not all(at.agrees(*pair) for pair in zip(names, values.shape, strict=True)):
                wanted = ", ".join(map(at.known, names)) + "," * (len(names) == 1)
                raise ValueError(f"{at.path} must have the shape ({wanted}), but it has {values.shape}.")
        if not self.infinite and not np.all(np.isfinite(values)):
            bad = np.count_nonzero(~np.isfinite(values))
            raise ValueError(f"{at.path} must be finite, but {bad} values are NaN or inf.")
        if np.any(values < self.least):
            smallest = f"{np.min(values):g}"
            raise ValueError(f"{at.path} must be at least {self.least:g}, but its smallest value is {smallest}.")
        if self.total is not None and not at.agrees(self.total, total := sum(values.tolist())):
            raise ValueError(f"{at.path} must have the sum {at.known(self.total)}, but it is {total}.")
        return values

    def _listed(self, raw: Any, at: Location) -> Values:
        entry = {float: Number(), int: Integer(), bool: Boolean()}[self.kind]
        for value in _leaves(raw):
            entry.encode(value, at)
        try:
            return np.array(raw, dtype=STORED[self.kind])
        except ValueError as error:
            raise ValueError(f"{at.path} must be a rectangular list of numbers ({error}).") from error


def _leaves(raw: Any) -> Iterator[Any]:
    """The values in nested lists."""
    if isinstance(raw, list):
        for item in raw:
            yield from _leaves(item)
    else:
        yield raw


@dataclass(frozen=True)
class Correlation(Numbers):
    """A correlation matrix: symmetric, with ones on its diagonal and values between -1 and 1."""

    least: float = -1.0

    def check(self, values: Values, at: Location) -> Values:
        super().check(values, at)
        if np.any(values > 1) or np.any(np.diagonal(values) != 1) or np.any(values != values.T):
            raise ValueError(f"{at.path} must be symmetric, with ones on its diagonal and no value above 1.")
        return values


@dataclass(frozen=True)
class Bounds(Numbers):
    """The least and the largest value of C numbers: (2, C), which may be infinite."""

    shape: str | None = "ends C"
    infinite: bool = True

    def check(self, values: Values, at: Location) -> Values:
        super().check(values, at)
        if len(values) != 2 or not np.all(values[0] <= values[1]):
            raise ValueError(f"{at.path} must hold the lower bounds, and then upper bounds that are not below them.")
        return values


@dataclass(frozen=True)
class Many(Field):
    """A tuple of values of one kind. length: the name of its length. least: the smallest length."""

    each: Field
    length: str = "_"
    least: int = 0

    def encode(self, value: Any, at: Location) -> list[Any]:
        return [self.each.encode(item, at.item(i)) for i, item in enumerate(self._checked(value, at))]

    def decode(self, raw: Any, at: Location) -> tuple[Any, ...]:
        return tuple(self.each.decode(item, at.item(i)) for i, item in enumerate(self._checked(raw, at)))

    def _checked(self, value: Any, at: Location) -> list[Any] | tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise at.refusal("a list", value)
        if len(value) < self.least:
            raise ValueError(f"{at.path} must hold {self.least} or more, but it holds {len(value)}.")
        if not at.agrees(self.length, len(value)):
            raise ValueError(f"{at.path} must hold {at.known(self.length)}, but it holds {len(value)}.")
        return value


@dataclass(frozen=True)
class OneOrMany(Field):
    """A value, or a tuple of values of its kind."""

    each: Field

    def encode(self, value: Any, at: Location) -> Any:
        return (Many(self.each) if isinstance(value, list | tuple) else self.each).encode(value, at)

    def decode(self, raw: Any, at: Location) -> Any:
        return (Many(self.each) if isinstance(raw, list) else self.each).decode(raw, at)


@dataclass(frozen=True)
class Optional(Field):
    """A value, or None."""

    value: Field

    def encode(self, value: Any, at: Location) -> Any:
        return None if value is None else self.value.encode(value, at)

    def decode(self, raw: Any, at: Location) -> Any:
        return None if raw is None else self.value.decode(raw, at)


@dataclass(frozen=True)
class Record(Field):
    """A mapping with these fields, all of them and no others."""

    fields: Mapping[str, Field]

    def encode(self, value: Any, at: Location) -> dict[str, Any]:
        return {name: each.encode(value[name], at.inside(name)) for name, each in self.fields.items()}

    def decode(self, raw: Any, at: Location) -> dict[str, Any]:
        if not isinstance(raw, dict):
            raise at.refusal("an object", raw)
        if missing := [name for name in self.fields if name not in raw]:
            raise ValueError(f"{at.inside(missing[0]).path} is missing.")
        if unknown := [name for name in raw if name not in self.fields]:
            raise ValueError(f"{at.inside(unknown[0]).path} is unknown: the fields are {', '.join(self.fields)}.")
        return {name: each.decode(raw[name], at.inside(name)) for name, each in self.fields.items()}
