"""The names of the coordinates of theta and x and of the outputs of f, and the columns of tables that carry them.

Tables of any library have names: pandas, polars, pyarrow, xarray, structured arrays, mappings. They are recognised by
their attributes, so that none of these libraries is imported; narwhals gathers the rows of lazy frames and relations
(`common/tables.py`). Columns are matched by name where names are known; NumPy would take them by position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from cbq.common import Array, as_text, digits_apart, gathered, listed, real, shown
from cbq.io import Many, Text, saved

Part = Literal["theta", "x", "f"]
PARTS: tuple[Part, ...] = ("theta", "x", "f")
RESERVED = ("id", "failed", "beyond")  # names of other columns in our tables
MAX_LENGTH = 200  # characters of a name
SHOWN = 4  # coordinates in a line
COUNTED = {"theta": "coordinate", "x": "coordinate", "f": "output"}


@saved("Names", theta=Many(Text(), "p"), x=Many(Text(), "d"), f=Many(Text(), "C"))
@dataclass(frozen=True)
class Names:
    """Names of the coordinates of theta (p,) and x (d,) and of the outputs of f (C,). Immutable.

    Each part is a name, or a sequence of names. A part that is left out is empty, until samples or a fit fill it in
    with the default names: theta, or theta_0, theta_1, ...; x, or x_0, ...; f, or f_0, .... All names differ.

    Examples
    --------
    >>> cbq.Names(theta="stock", x=["demand"], f="profit")
    Names(theta=('stock',), x=('demand',), f=('profit',))
    """

    theta: tuple[str, ...] = ()
    x: tuple[str, ...] = ()
    f: tuple[str, ...] = ()

    def __init__(self, theta: str | Sequence[str] = (), x: str | Sequence[str] = (), f: str | Sequence[str] = ()):
        for part, given in zip(PARTS, (theta, x, f), strict=True):
            object.__setattr__(self, part, _checked(given, part))
        counts = Counter(name for part in PARTS for name in getattr(self, part))
        for part in PARTS:
            for name in getattr(self, part):
                if counts[name] > 1:
                    raise ValueError(f"names must differ, but {name!r} of {part} occurs twice: rename one of them.")

    @classmethod
    def of(cls, names: Any) -> Names:
        """The argument `names` of problems and samples: Names, a mapping from theta, x and f to names, or None."""
        if names is None or isinstance(names, Names):
            return names or cls()
        if not isinstance(names, Mapping):
            raise TypeError(
                f"names must be cbq.Names, or a mapping such as {{'theta': 'stock', 'x': ['demand'], 'f': 'profit'}}, "
                f"but it is {shown(names)}."
            )
        unknown = [key for key in names if not isinstance(key, str) or key not in PARTS]
        if unknown:
            raise ValueError(f"the keys of names must be 'theta', 'x' or 'f', but one is {shown(unknown[0])}.")
        return cls(**names)

    def filled(self, p: int, d: int, C: int | None) -> Names:
        """The names for p coordinates of theta, d of x and C outputs of f; missing parts get default names."""
        return self.with_theta(p).with_x(d).with_f(C)

    def with_theta(self, p: int) -> Names:
        """With the names of p coordinates of theta, by default `theta`, or `theta_0` and so on."""
        return self._filled("theta", p, single=p == 1)

    def with_x(self, d: int) -> Names:
        """With the names of d coordinates of x."""
        return self._filled("x", d, single=d == 1)

    def with_f(self, C: int | None) -> Names:
        """With the names of C outputs of f; None if f has no axis of outputs."""
        return self._filled("f", C or 1, single=C is None)

    def _filled(self, part: Part, n: int, *, single: bool) -> Names:
        given, what = getattr(self, part), COUNTED[part]
        if given and len(given) != n:
            listed = ", ".join(map(repr, given))
            raise ValueError(
                f"names of {part} are {listed}, but {part} has {n} {what}{'s' * (n > 1)}: pass one name for each."
            )
        if given:
            return self
        change: dict[str, Any] = {part: default_names(part, n, single=single)}
        return replace(self, **change)

    def for_output(self, c: int) -> Names:
        """The names of samples with output c alone."""
        return replace(self, f=(self.f[c],) if self.are_given("f") else ("f",))

    def are_given(self, part: Part) -> bool:
        """Whether a part has names other than the default ones."""
        given = getattr(self, part)
        return bool(given) and all(given != default_names(part, len(given), single=single) for single in (True, False))

    def adopted(self, part: Part, table: Any) -> Self:
        """With the names of the columns of a table, if they are strings and the part has no names."""
        columns = named_columns(table)
        if columns is None or getattr(self, part) or not all(isinstance(name, str) for name in columns.names):
            return self
        change: dict[str, Any] = {part: columns.labels}
        return replace(self, **change)

    def ordered(self, part: Part, table: Any, argument: str = "") -> Any:
        """The columns of a table with the names of a part, (n, k), in the order of these names.

        Columns with other names are ignored. Without given names, equally many columns with other names are taken in
        their order. An array or any other object without named columns is returned unchanged.
        argument : the name of the table in errors (default: the part).
        """
        columns = named_columns(table)
        if columns is None:
            return table
        names: tuple[str, ...] = getattr(self, part)
        missing = [name for name in names if name not in columns.labels]
        if not names or (not self.are_given(part) and len(missing) == len(names) == len(columns.labels)):
            names = columns.labels
        elif missing:
            raise ValueError(
                f"{argument or part} has no column {listed(missing)}: a table for it needs the columns "
                f"{listed(names)}, but it has {listed(columns.labels) or 'none'}."
            )
        return columns.numbers(names, argument or part)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffix of the columns of each output: "" for a single unnamed one, else its name or number."""
        if self.are_given("f"):
            return tuple(f"_{name}" for name in self.f)
        return ("",) if self.f == ("f",) else tuple(f"_{c}" for c in range(len(self.f)))

    def output(self, c: int) -> str:
        """The name of output c in a sentence."""
        return self.f[c] if self.are_given("f") else f"output {c}"

    def at(self, part: Part, values: Array) -> str:
        """Values (n,) of the coordinates of theta or x, in a sentence."""
        if not self.are_given(part):
            return f"{part} = {values}"
        return ", ".join(f"{name} = {value:.6g}" for name, value in zip(getattr(self, part), values, strict=True))

    def ranges(self, part: Part, values: Array) -> str:
        """The ranges of values (n, k) of the coordinates of theta or x: "stock = 0.1 to 0.9"."""
        texts = []
        for name, column in zip(getattr(self, part), values.T, strict=True):
            low, high, n = np.min(column), np.max(column), digits_apart(column)
            texts.append(f"{name} = {low:.{n}g}" + f" to {high:.{n}g}" * bool(low < high))
        return ", ".join(texts[:SHOWN] + ["..."] * (len(texts) > SHOWN))

    def joined(self, other: Names) -> Self:
        """The names of both; a part may be missing in one of them."""
        parts: dict[str, Any] = {}
        for part in PARTS:
            mine, theirs = getattr(self, part), getattr(other, part)
            if mine != theirs and self.are_given(part) and other.are_given(part):
                both = f"{', '.join(mine)} and {', '.join(theirs)}"
                raise ValueError(f"samples that are added must have the same names of {part}, but they have {both}.")
            parts[part] = mine if self.are_given(part) else theirs
        return replace(self, **parts)

    @property
    def record(self) -> dict[str, list[str]]:
        """The names as a JSON object, which `Names.of` reads."""
        return {part: list(getattr(self, part)) for part in PARTS}

    @property
    def listed(self) -> str:
        """The names that are not the default ones, in a line; empty if there are none."""
        return "; ".join(f"{part} = {', '.join(getattr(self, part))}" for part in PARTS if self.are_given(part))


def default_names(part: Part, n: int, *, single: bool) -> tuple[str, ...]:
    """Default names of n coordinates or outputs; a single one has no number."""
    return (part,) if single else tuple(f"{part}_{j}" for j in range(n))


def _checked(given: Any, part: Part) -> tuple[str, ...]:
    """The names of one part."""
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or isinstance(names, bytes):
        raise TypeError(f"names of {part} must be a string, or a list of strings, but they are {shown(given)}.")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"names of {part} must be strings, but one of them is {shown(name)}.")
        if not name or name != name.strip() or not name.isprintable() or len(name) > MAX_LENGTH:
            raise ValueError(
                f"names of {part} must be printable, without spaces around them, not empty and at most {MAX_LENGTH} "
                f"characters long, but one of them is {shown(name)}."
            )
        if name in RESERVED:
            raise ValueError(f"names of {part} must not be {name!r}, which is a column of tables already: rename it.")
    return tuple(names)


def by_theta(theta: Array, quantities: Mapping[str, Array], names: Names) -> dict[str, Array]:
    """Columns (M,) by name: the coordinates of theta (M, p), and quantities (M,) or (M, C) of each output."""
    table = dict(zip(names.theta, theta.T, strict=True))
    clash = any(f"{name}{suffix}" in table for name in quantities for suffix in names.suffixes)
    suffixes = tuple(f"_{name}" for name in names.f) if clash else names.suffixes
    for name, values in quantities.items():
        columns = values.reshape(len(theta), -1).T
        for suffix, column in zip(suffixes, columns, strict=True):
            if f"{name}{suffix}" in table:
                raise ValueError(f"a table cannot have two columns {name + suffix!r}: give theta or f another name.")
            table[f"{name}{suffix}"] = column
    return table


def by_run(theta: Array, x: Array, names: Names) -> dict[str, Array]:
    """Columns (n,) by name: the coordinates of theta (n, p) and of x (n, d)."""
    return dict(zip((*names.theta, *names.x), (*theta.T, *x.T), strict=True))


def by_point(theta: Array, x: Array, f: npt.NDArray[Any], names: Names) -> dict[str, Array]:
    """Columns (n,) by name: theta (n, p), x (n, d) and f (n, C)."""
    return by_run(theta, x, names) | dict(zip(names.f, f.T, strict=True))


@dataclass(frozen=True, eq=False)
class NamedColumns:
    """The original names of the columns of a table, and a function from a position to a column."""

    names: list[Any]
    take: Callable[[int], Any]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names as strings."""
        return tuple(map(as_text, self.names))

    def repeated(self) -> list[str]:
        """Names that several columns have."""
        return [name for name in dict.fromkeys(self.labels) if self.labels.count(name) > 1]

    def numbers(self, names: Sequence[str], table: str) -> Array:
        """The columns with these names, (n, k); n = 1 if they are single numbers. table : its name in errors."""
        if not names:
            raise ValueError(f"{table} is a table without columns: pass one with a column for each name.")
        if repeated := [name for name in self.repeated() if name in names]:
            raise ValueError(f"{table} has several columns {listed(repeated)}: rename them.")
        taken = [real(self.take(self.labels.index(name)), f"column {name!r} of {table}") for name in names]
        shapes = dict(zip(names, (column.shape for column in taken), strict=True))
        if any(column.ndim > 1 for column in taken) or len(set(shapes.values())) > 1:
            raise ValueError(f"the columns of {table} must be 1-D and of one length, but their shapes are {shapes}.")
        return np.stack([np.atleast_1d(column) for column in taken], axis=1)


def named_columns(table: Any) -> NamedColumns | None:
    """The columns of a table; None if it is anything else, such as an array or a single column."""
    if isinstance(table, np.ndarray):
        fields = table.dtype.names
        return None if fields is None else NamedColumns(list(fields), lambda i: table[fields[i]])
    if isinstance(table, Mapping):
        keys = list(table)
        return NamedColumns(keys, lambda i: table[keys[i]])
    if isinstance(table, str | bytes | Sequence):
        return None
    return _of_a_library(gathered(table))


def named_row(value: Any) -> Any:
    """A row of a table, a pandas Series whose labels are the names of columns, as a mapping; else `value` itself."""
    if not hasattr(value, "iloc") or hasattr(value, "columns"):
        return value
    return dict(value.items()) if all(isinstance(label, str) for label in value.index) else value


def _of_a_library(table: Any) -> NamedColumns | None:
    """The columns of a data frame."""
    if hasattr(table, "iloc"):  # pandas, and libraries that imitate it; a Series has no columns
        return NamedColumns(list(table.columns), lambda i: table.iloc[:, i]) if hasattr(table, "columns") else None
    if hasattr(table, "column_names") and hasattr(table, "column"):  # pyarrow, whose `columns` are arrays
        return NamedColumns(list(table.column_names), table.column)
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):  # polars
        names = list(table.columns)
        return NamedColumns(names, lambda i: table[names[i]])
    if hasattr(table, "dims") and hasattr(table, "coords") and len(table.dims) == 2:  # xarray
        last = table.dims[-1]
        labels = np.asarray(table.coords[last]) if last in table.coords else np.empty(0)
        return NamedColumns(labels.tolist(), lambda i: table[:, i]) if labels.dtype.kind in "OU" else None
    return None
