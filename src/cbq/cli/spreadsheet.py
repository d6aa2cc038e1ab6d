"""Tables from spreadsheets: files of values with separators between them, as different countries write them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SEPARATORS = ",;\t"
DECIMAL_COMMA = ";"  # the separator that leaves the comma free for decimals


@dataclass(frozen=True)
class Sheet:
    """Columns of texts by name, and the line of the file that each row is in."""

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]
    separator: str

    def numbers(self, which: Iterable[str]) -> dict[str, list[float] | list[str]]:
        """The columns, those that are asked for as numbers."""
        wanted = set(which)
        return {name: self._floats(name) if name in wanted else texts for name, texts in self.columns.items()}

    def of_numbers(self) -> list[str]:
        """The names of columns that hold some number."""
        return [name for name, texts in self.columns.items() if any(self._number(text) is not None for text in texts)]

    def _floats(self, name: str) -> list[float]:
        found = []
        for line, text in zip(self.lines, self.columns[name], strict=True):
            value = self._number(text)
            if value is None:
                raise ValueError(f"column {name!r} of {self.path} holds {text!r} in line {line}, which is no number.")
            found.append(value)
        return found

    def _number(self, text: str) -> float | None:
        written = text.replace(",", ".") if self.separator == DECIMAL_COMMA else text
        try:
            return None if "_" in text else float(written)
        except ValueError:
            return None


def read_sheet(path: Path) -> Sheet:
    """The columns of a file, by the names in its first line."""
    try:
        texts = path.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: save it as CSV UTF-8.") from error
    skipped = 1 if texts and texts[0].lower().startswith("sep=") else 0
    separator = max(SEPARATORS, key=lambda each: len(next(csv.reader(texts[skipped:], delimiter=each), [])))
    reader = csv.reader(texts[skipped:], delimiter=separator)
    rows = [(reader.line_num + skipped, row) for row in reader if row]
    if len(rows) < 2:
        raise ValueError(f"{path} must have a line of names and lines of values, but only {len(rows)} hold anything.")
    header = [name.strip() for name in rows[0][1]]
    repeated = [name for name in dict.fromkeys(header) if name and header.count(name) > 1]
    if repeated:
        raise ValueError(f"{path} has several columns called {', '.join(map(repr, repeated))}: rename them.")
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise ValueError(f"{path} has {len(header)} columns, but {len(row)} values in line {line}.")
    columns = zip(*(row for _, row in rows[1:]), strict=True)
    named = {name: list(column) for name, column in zip(header, columns, strict=True) if name}
    return Sheet(path, named, [line for line, _ in rows[1:]], separator)
