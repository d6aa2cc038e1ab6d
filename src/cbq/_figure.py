"""Figures that no window shows, and that notebooks do; imported where one is drawn, since it needs matplotlib."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure

COLORBAR = "<colorbar>"  # the label of axes that matplotlib makes for a scale of colours


class ShownFigure(Figure):
    """A figure that shows itself as an image in every notebook, whatever the settings of matplotlib there."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", bbox_inches="tight")
        return buffer.getvalue()


def labelled(figure: Figure, ax: Any, title: str | None, xlabel: str | None, ylabel: str | None) -> Figure:
    """The figure with other labels, of the axes that have some; ax: the only axes to label, unless it is None."""
    axes = [each for each in figure.axes if each.get_label() != COLORBAR] if ax is None else [ax]
    for each in axes:
        if xlabel is not None and (each.get_xlabel() or ax is not None):
            each.set_xlabel(xlabel)
        if ylabel is not None and (each.get_ylabel() or ax is not None):
            each.set_ylabel(ylabel)
    if title is not None and ax is None:
        figure.suptitle(title)
    elif title is not None:
        ax.set_title(title)
    return figure
