"""Figures that notebooks display and that open no window; imported on first use, since it needs matplotlib."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure

COLORBAR = "<colorbar>"  # the label of axes that matplotlib makes for a scale of colours


class ShownFigure(Figure):
    """A figure that displays as a PNG image in every notebook, whatever its matplotlib backend."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", bbox_inches="tight")
        return buffer.getvalue()


def labelled(figure: Figure, ax: Any, title: str | None, xlabel: str | None, ylabel: str | None) -> Figure:
    """The figure with new labels on its labelled axes; ax: the only axes to label, or None for all."""
    axes = [panel for panel in figure.axes if panel.get_label() != COLORBAR] if ax is None else [ax]
    for panel in axes:
        if xlabel is not None and (panel.get_xlabel() or ax is not None):
            panel.set_xlabel(xlabel)
        if ylabel is not None and (panel.get_ylabel() or ax is not None):
            panel.set_ylabel(ylabel)
    if title is not None and ax is None:
        figure.suptitle(title)
    elif title is not None:
        ax.set_title(title)
    return figure
