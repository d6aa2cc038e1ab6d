"""Results that print as a table, in text and in notebooks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from os import PathLike
from typing import Any

import numpy as np

from cbq.common.checks import file_name, is_number, shown, text
from cbq.common.tables import aligned, data_frame
from cbq.report import html
from cbq.report.document import Page

MOST_ROWS = 12  # of a long result that its text shows
PRICE = "willingness_to_pay"
NOT_COLUMNS = ("note", "inputs")  # fields of rows that are the last column, or none


class ShownAsTable:
    """A result whose text is a table with notes below."""

    @abstractmethod
    def _cells(self) -> tuple[list[list[str]], list[str]]:
        """The rows of the table, the first of which is the header, and the lines below it."""

    def __str__(self) -> str:
        """Aligned columns, the first to the left and numbers to the right, with notes below."""
        lines, notes = self._cells()
        return aligned(lines, left=1, notes=notes)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html.table(*self._cells())


class TableOfRows(ShownAsTable):
    """A result with a row for each estimate, all of one class; those with a note have the field `note`."""

    rows: tuple[Any, ...]
    notes: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "notes", tuple(self.notes))
        if not self.rows:
            raise ValueError(f"{type(self).__name__} needs at least one row, but rows is empty.")

    @property
    def columns(self) -> list[str]:
        """The fields of the rows, note last, without willingness_to_pay if the outputs are net benefits."""
        names = [field.name for field in fields(self.rows[0]) if field.name not in NOT_COLUMNS]
        return [name for name in (*names, "note") if name != PRICE or self.rows[0].willingness_to_pay is not None]

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for each of `rows` and the columns `columns`."""
        return data_frame([asdict(row) for row in self.rows], self.columns)


class PricedTable(TableOfRows):
    """A table of rows at several values of the willingness to pay."""

    @property
    def prices(self) -> list[float | None]:
        """The values of the willingness to pay, as they were given; [None] if the outputs are net benefits."""
        return list(dict.fromkeys(row.willingness_to_pay for row in self.rows))

    def at(self, willingness_to_pay: float | None = None) -> list[Any]:
        """The rows at one of `prices`, which may be left out if there is one alone."""
        price = one_price(willingness_to_pay, self.prices)
        return [row for row in self.rows if row.willingness_to_pay == price]


def one_price(willingness_to_pay: Any, prices: Sequence[float | None]) -> float | None:
    """Return the willingness to pay if it is one of the prices, or the only one in place of None."""
    price = prices[0] if willingness_to_pay is None and len(prices) == 1 else willingness_to_pay
    if not (price is None or is_number(price)) or price not in prices:
        raise ValueError(
            f"willingness_to_pay must be one of {', '.join(map(str, prices))}, but it is {shown(willingness_to_pay)}."
        )
    return price


def table_cells(
    rows: Sequence[Any], cells: dict[str, Callable[[Any], str]], legend: str, remarks: Sequence[str]
) -> tuple[list[list[str]], list[str]]:
    """The lines of a table, the first of which is the header, without empty columns, and the lines below it."""
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    numbered = cells | {"note": lambda row: f"[{notes.index(row.note) + 1}]" if row.note else ""}
    filled = {name: [cell(row) for row in rows] for name, cell in numbered.items()}
    used = {name: column for name, column in filled.items() if any(column)}
    lines = [list(used), *map(list, zip(*used.values(), strict=True))]
    below = [legend, *(f"[{i}] {note}." for i, note in enumerate(notes, start=1)), *(f"{each}." for each in remarks)]
    return lines, below


def hand_on(
    page: Callable[[str | None, str | None], Page], path: str | PathLike[str], title: str | None, repeat: str | None
) -> None:
    """Write the page of a result, given its title and how to repeat it, once these are checked."""
    name = file_name(path, "path")
    for value, argument in ((title, "title"), (repeat, "repeat")):
        if value is not None:
            text(value, argument)
    page(title, repeat).write(name)


def sentences(notes: tuple[str, ...]) -> list[str]:
    """Remarks as sentences."""
    return [f"{note}." for note in notes]


def some_rows(n: int) -> tuple[list[int], list[str]]:
    """The rows that the text of a result with n rows shows, evenly spread, and a line on the others, if any."""
    chosen: list[int] = np.unique(np.linspace(0, n - 1, min(n, MOST_ROWS)).round().astype(int)).tolist()
    return chosen, [f"{n - len(chosen)} more rows are not shown."] if n > len(chosen) else []
