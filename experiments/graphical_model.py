"""The graphical model of conditional Bayesian quadrature, drawn with circles, arrows and plates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RADIUS = 0.5
NODES = {  # name: position and text
    "theta": ((2.6, 6.6), r"$\theta_t$"),
    "x": ((0.9, 4.75), r"$x_i^t$"),
    "f": ((2.6, 4.75), r"$f_i^t$"),
    "bq": ((2.6, 2.55), r"$I_{BQ}^t$"),
    "new": ((0.9, 0.45), r"$\theta^*$"),
    "cbq": ((2.6, 0.45), r"$I_{CBQ}$"),
}
EDGES = (("theta", "x"), ("theta", "f"), ("x", "f"), ("f", "bq"), ("bq", "cbq"), ("new", "cbq"))
CURVED = (("theta", "cbq"),)
OBSERVED = ("theta", "x", "f", "new")  # filled with grey
PLATES = (((0.2, 3.8, 3.1, 1.65), "$i = 1, \\dots, N$"), ((0.0, 1.85, 3.5, 5.45), "$t = 1, \\dots, T$"))


def draw_graphical_model(ax: Axes) -> None:
    """Draw the model: observed values are grey, what is inferred is white, and rectangles are replications."""
    from matplotlib.patches import Circle, FancyBboxPatch

    for (x, y, width, height), text in PLATES:
        shape = FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=0.18", fc="none", ec="0.4")
        ax.add_patch(shape)
        ax.text(x + 0.12, y + 0.08, text, ha="left", va="bottom", fontsize=7.5, color="0.25")
    for start, end in (*EDGES, *CURVED):
        bend = "arc3,rad=0" if (start, end) in EDGES else "arc3,rad=-0.6"
        _draw_arrow(ax, start, end, bend)
    for name, (centre, text) in NODES.items():
        ax.add_patch(Circle(centre, RADIUS, fc="0.88" if name in OBSERVED else "white", ec="black", lw=1.0, zorder=3))
        ax.text(*centre, text, ha="center", va="center", fontsize=9.5, zorder=4)
    ax.set(xlim=(-0.1, 4.6), ylim=(-0.2, 7.5), aspect="equal")
    ax.axis("off")


def _draw_arrow(ax: Axes, start: str, end: str, bend: str) -> None:
    """An arrow between the edges of two circles."""
    from matplotlib.patches import Circle, FancyArrowPatch

    circles = [Circle(NODES[name][0], RADIUS, transform=ax.transData) for name in (start, end)]
    style: dict[str, Any] = {
        "arrowstyle": "-|>",
        "mutation_scale": 9,
        "lw": 0.9,
        "color": "0.2",
        "shrinkA": 1,
        "shrinkB": 1,
    }
    for circle in circles:
        ax.add_patch(circle)
        circle.set_visible(False)
    ax.add_patch(
        FancyArrowPatch(
            NODES[start][0],
            NODES[end][0],
            patchA=circles[0],
            patchB=circles[1],
            connectionstyle=bend,
            zorder=2,
            **style,
        )
    )
