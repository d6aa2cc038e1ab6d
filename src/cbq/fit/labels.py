"""Titles and labels that a user gives to a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cbq._checks import text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def with_labels(figure: Figure, ax: Any = None, title: Any = None, xlabel: Any = None, ylabel: Any = None) -> Figure:
    """The figure with these texts in place of its own; those that are None stay."""
    given = {"title": title, "xlabel": xlabel, "ylabel": ylabel}
    given = {name: None if value is None else text(value, name) for name, value in given.items()}
    if all(value is None for value in given.values()):
        return figure
    from cbq._figure import labelled

    return labelled(figure, ax, **given)
