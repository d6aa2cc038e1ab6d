"""Results that print as a table, in text and in notebooks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from os import PathLike

import numpy as np

from cbq import _html
from cbq._checks import file_name, text
from cbq._tables import aligned
from cbq.page.document import Page

MOST_ROWS = 12  # of a long result that its text shows


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
        return _html.table(*self._cells())


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
