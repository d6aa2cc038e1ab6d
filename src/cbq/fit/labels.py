"""Titles and labels that a user gives to a figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cbq.common.checks import text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MAX_LABEL = 1000  # characters


@dataclass(frozen=True)
class Labels:
    """Labels of the user's own, in place of names; None where there is none."""

    xlabel: str | None
    ylabel: str | None
    title: str | None

    @classmethod
    def of(cls, **given: Any) -> Labels:
        """From arguments, checked."""
        for name, value in given.items():
            if value is not None and len(text(value, name)) > MAX_LABEL:
                raise ValueError(f"{name} must have {MAX_LABEL} characters at the most, but it has {len(value)}.")
        return cls(**given)


def with_labels(figure: Figure, ax: Any = None, title: Any = None, xlabel: Any = None, ylabel: Any = None) -> Figure:
    """The figure with these texts in place of its own; those that are None stay."""
    given = {"title": title, "xlabel": xlabel, "ylabel": ylabel}
    given = {name: None if value is None else text(value, name) for name, value in given.items()}
    if all(value is None for value in given.values()):
        return figure
    from cbq.plotting.figure import labelled

    return labelled(figure, ax, **given)
