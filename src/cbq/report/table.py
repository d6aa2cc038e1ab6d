"""The table of a result: its columns are stated once, and text, notebooks, data frames, files and reports follow.

A `Table` states its columns in `_columns`, and an `ArrayTable`, whose text is one line, in `to_columns`. A `RowTable`
states them in the class of its rows: a field with `metadata=in_text(...)` is in the text, and any other field only in
data frames and files.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from math import isnan
from os import PathLike
from typing import Any, ClassVar

from cbq.common import BLANK, aligned, data_frame, evenly, file_name, short, text
from cbq.plotting import Drawn
from cbq.report import html
from cbq.report.charts import figure_html
from cbq.report.page import Fragment, Page, Section, code, folded, html_table, joined, paragraph

Format = Callable[[Any], str]
NOTE = "note"  # the field of rows with remarks, which are numbered in the table and listed below it
NO_COLUMN = {"column": False}  # the metadata of a field that is no column


@dataclass(frozen=True)
class Column:
    """A column of a table.

    name : in data frames and files. values : one for each row.
    text : writes a value in texts; None leaves the column out there. label : in texts (default: the name).
    """

    name: str
    values: Any
    text: Format | None = None
    label: str = ""

    def cell(self, row: int) -> str:
        """The text of a value."""
        value = self.values[row]
        assert self.text is not None
        return BLANK if is_unknown(value) else self.text(value)


def in_text(text: Format | int = str, label: str = "") -> dict[str, Any]:
    """The metadata of a field that is in texts: how its values are written, or the number of digits."""
    return {"text": digits(text) if isinstance(text, int) else text, "label": label}


def digits(number: int) -> Format:
    """Writes numbers with so many significant digits."""
    return partial(short, digits=number)


class Table(ABC):
    """A result that is a table. It prints aligned, displays in notebooks, and turns into data frames and files."""

    _title: ClassVar[str] = ""  # of its page, and of its section in other pages (default: the name of the class)
    _left: ClassVar[int] = 1  # columns that align left
    _most: ClassVar[int] = 10**9  # rows in a text, evenly spread over all of them

    @abstractmethod
    def _columns(self) -> Iterable[Column]:
        """The columns, in the order of data frames."""

    def _in_text(self) -> Iterable[Column]:
        """The columns of texts, some of which may have no format and are left out."""
        return self._columns()

    def _below(self) -> Sequence[str]:
        """Sentences below the table in texts."""
        return ()

    def to_columns(self) -> dict[str, Any]:
        """The columns by name, each with a value for every row."""
        return {column.name: column.values for column in self._columns()}

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each row of the table."""
        return data_frame(self.to_columns())

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write comma-separated values, with numbers in full precision; unknown values are empty."""
        columns = self.to_columns()
        with open(file_name(path, "path"), "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            for row in zip(*columns.values(), strict=True):
                writer.writerow(["" if is_unknown(value) else value for value in row])

    def report(self, path: str | PathLike[str], *, title: str | None = None, repeat: str | None = None) -> None:
        """Write a self-contained report: HTML, or Word or PDF if the path ends in .docx or .pdf.

        title : of the report. repeat : code or a command that makes this result, to be shown in it.
        """
        write_page(lambda: self._page(title, repeat), path, title=title, repeat=repeat)

    def __str__(self) -> str:
        """Aligned columns, with sentences below."""
        return self._text(self._in_text(), self._below())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html.table(*self._cells(self._in_text(), self._below()), left=self._left)

    def _text(self, columns: Iterable[Column], below: Sequence[str]) -> str:
        cells, notes = self._cells(columns, below)
        return aligned(cells, left=self._left, notes=notes)

    def _page(self, title: str | None, repeat: str | None) -> Page:
        how = [] if repeat is None else [Section("How to repeat it", code(repeat, "how to repeat it"))]
        return Page(title or self._section.title, "", Fragment(), [replace(self._section, title="The table"), *how])

    @property
    def _section(self) -> Section:
        """The figure, the table and the sentences below it, in a page."""
        name = self._title or type(self).__name__
        drawn = [figure_html(self._figure().panels, name)] if isinstance(self, Drawn) else []
        return Section(name, joined([*drawn, part_of(self, name), *map(paragraph, self._below())]))

    def _cells(self, columns: Iterable[Column], below: Sequence[str]) -> tuple[list[list[str]], list[str]]:
        """The lines of a table in texts, the first of which is the header, and the sentences below it.

        A column that has no value in any row is left out.
        """
        stated = [each for each in columns if each.text is not None]
        n = len(stated[0].values)
        written = [each for each in stated if n == 0 or not all(map(is_unknown, each.values))]
        rows = evenly(n, self._most).tolist()
        header = [each.label or each.name.replace("_", " ") for each in written]
        rest = [f"{n - len(rows)} more rows are not shown."] if n > len(rows) else []
        return [header, *([each.cell(i) for each in written] for i in rows)], [*below, *rest]


class ArrayTable(Table):
    """A table of arrays (n,). It prints on one line, and notebooks show its first and last rows."""

    @abstractmethod
    def to_columns(self) -> dict[str, Any]:
        """The columns by name, (n,) each."""

    @abstractmethod
    def __repr__(self) -> str: ...

    def __str__(self) -> str:
        return repr(self)

    def _columns(self) -> Iterator[Column]:
        return (Column(name, values, html.cell, name) for name, values in self.to_columns().items())

    def _repr_html_(self) -> str:
        return html.column_table(self.to_columns(), type(self).__name__)


class RowTable(Table):
    """A table with a row for each of `rows`, all of one dataclass, whose fields are its columns."""

    rows: tuple[Any, ...]
    notes: tuple[str, ...] = ()  # remarks on all rows, without full stops

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "notes", tuple(self.notes))
        if not self.rows:
            raise ValueError(f"{type(self).__name__} needs at least one row, but rows is empty.")

    @property
    def columns(self) -> list[str]:
        """The names of the columns: the fields of the rows, note last."""
        return list(self.to_columns())

    def _legend(self) -> str:
        """The sentences right below the table."""
        return ""

    def _remarks(self) -> Sequence[str]:
        """Remarks on the table, without full stops, which follow the notes of rows."""
        return self.notes

    def _notes(self) -> list[str]:
        """The notes of the rows in the order of their numbers, each once."""
        return list(dict.fromkeys(row.note for row in self.rows if row.note))

    def _columns(self) -> Iterator[Column]:
        for field in sorted(fields(self.rows[0]), key=lambda each: each.name == NOTE):
            if field.metadata.get("column", True):
                values = [getattr(row, field.name) for row in self.rows]
                yield Column(field.name, values, field.metadata.get("text"), field.metadata.get("label", ""))

    def _cells(self, columns: Iterable[Column], below: Sequence[str]) -> tuple[list[list[str]], list[str]]:
        (header, *lines), below = super()._cells(columns, below)
        notes = self._notes()
        if notes:
            marks = [f"[{notes.index(row.note) + 1}]" if row.note else "" for row in self.rows]
            header, lines = [*header, NOTE], [[*line, mark] for line, mark in zip(lines, marks, strict=True)]
        return [header, *lines], below

    def _below(self) -> list[str]:
        return [*filter(None, [self._legend()]), *self._numbered_notes(), *sentences(self._remarks())]

    def _numbered_notes(self) -> list[str]:
        return [f"[{i}] {note}." for i, note in enumerate(self._notes(), start=1)]


def part_of(table: Table, caption: str, most: int = 40) -> Fragment:
    """A table in a page, with its rows beyond `most` folded, and the notes of its rows below."""
    (header, *rows), _ = table._cells(table._in_text(), ())
    parts = [html_table(header, rows[:most], caption, left=table._left)]
    if len(rows) > most:
        rest = html_table(header, rows[most:], caption, left=table._left)
        parts.append(folded(f"{len(rows) - most} more rows", rest))
    if isinstance(table, RowTable):
        parts += map(paragraph, table._numbered_notes())
    return joined(parts)


def sentences(remarks: Iterable[str]) -> list[str]:
    """Remarks as sentences, with full stops."""
    return [f"{remark}." for remark in remarks]


def write_page(page: Callable[[], Page], path: str | PathLike[str], **texts: str | None) -> None:
    """Write the page of a result, once the path and these texts are checked."""
    name = file_name(path, "path")
    for argument, value in texts.items():
        if value is not None:
            text(value, argument)
    page().write(name)


def is_unknown(value: object) -> bool:
    """Whether a cell holds nothing: None, NaN, or an empty text."""
    return value is None or (isinstance(value, str) and not value) or (isinstance(value, float) and isnan(value))
