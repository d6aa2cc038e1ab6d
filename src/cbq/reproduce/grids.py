"""What grids of several experiments have in common: their cells, what these cost, and rows of panels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cbq.methods.auto import MOST_POOLED
from cbq.reproduce.cells import Cell, Row, options
from cbq.reproduce.draw import Panel, by_method
from cbq.reproduce.table import Table

CHEAP = ("CBQ.paper", "LSMC", "KLSMC", "IS", "IS balance", "CBQ")
POOLED = ("MOBQ", "Auto")
OF_PAPER = ("CBQ.paper", "CBQ.paper, lambda = 0", "CBQ.paper, Stein", "LSMC", "KLSMC", "IS", "IS balance")
OURS = ("CBQ.paper", "CBQ", "MOBQ", "MOBQ, Nystrom", "Auto")
MANY = {"linear": 2500, "sir": 2500, "butterfly": 2500, "health": 500}  # points: one process has few seeds beyond
FEW_SEEDS = 5
LARGE, QUICK_LARGE = 1000, 30  # T and N of the baselines that are drawn as dotted lines: no other cell has them
# seconds of a fit and its answers on one core of 2.x GHz: constant, for 1000 points, for (1000 points)^2
SECONDS: dict[str, tuple[float, float, float]] = {
    "CBQ.paper": (0.05, 0.02, 0.0),
    "CBQ": (0.10, 0.04, 0.0),
    "LSMC": (0.01, 0.0, 0.0),
    "KLSMC": (0.02, 0.0, 0.0),
    "IS": (0.12, 0.02, 0.0),
    "IS balance": (0.12, 0.03, 0.0),
    "MOBQ": (0.15, 0.1, 0.25),
    "Auto": (0.25, 0.15, 0.25),
    "MOBQ, Nystrom": (0.6, 0.1, 0.0),
    "MOBQ, kernel given": (0.1, 0.0, 0.2),
}
WITHOUT_POOLING = (0.5, 0.4, 0.0)  # of Auto with more points than it gives to one process
FACTORS = {"linear": 1.0, "sir": 1.2, "butterfly": 1.2, "health": 5.0}
JUDGES = {"linear": 200, "sir": 300, "butterfly": 500, "health": 200}  # thetas of the prior that errors are taken at
FEW_JUDGES, QUICK_JUDGES = 100, 20  # where there are very many points, and where it is to be quick
SIMULATION = 0.045  # seconds of the epidemics of one theta, which are solved together


def cell(problem: str, T: int, N: int, methods: Iterable[str], *, seeds: int | None = None, **more: Any) -> Cell:
    """A cell with what it is expected to cost; `more` are the design, the thetas and the options of the problem."""
    methods, design, n = tuple(methods), more.pop("design", "iid"), T * N / 1000
    thetas = more.pop("thetas", None) or JUDGES[problem]
    known = {**SECONDS, "Auto": WITHOUT_POOLING} if T * N > MOST_POOLED else SECONDS
    parts = [known.get(name, known["CBQ"]) for name in methods]
    fits = FACTORS[problem] * sum(a + b * n + c * n * n for a, b, c in parts)
    simulated = SIMULATION * T if problem == "sir" else 0.0
    fits *= (2 + more.get("dim", 2)) / 4  # measures and kernels in many dimensions
    seconds = round(0.02 + fits + simulated, 3)
    return Cell(problem, T, N, methods, options(more), design, seeds, seconds, thetas)


def pooled(problem: str, T: int, N: int, methods: Iterable[str] = POOLED, **more: Any) -> Cell:
    """A cell of methods on all points together, with few seeds where these are many."""
    return cell(problem, T, N, methods, seeds=FEW_SEEDS if MANY[problem] < T * N else None, **more)


def crossed(problem: str, sizes: Iterable[tuple[int, int]], cheap: Sequence[str], **more: Any) -> list[Cell]:
    """Two cells for each (T, N): cheap methods, and those on all points together."""
    return [one for T, N in sizes for one in (cell(problem, T, N, cheap, **more), pooled(problem, T, N, **more))]


def large(problem: str, methods: Sequence[str], *, quick: bool, **more: Any) -> Cell:
    """The cell of the baselines at N = T = 1000 (smaller where it is to be quick)."""
    size, thetas = (QUICK_LARGE, QUICK_JUDGES) if quick else (LARGE, FEW_JUDGES)
    found = cell(problem, size, size, methods, seeds=FEW_SEEDS, thetas=thetas, **more)
    return found if quick else replace(found, seconds=9.0)


def split(table: Table) -> tuple[Table, Table]:
    """The rows of curves, and those of the dotted lines."""
    top = [row["T"] == row["N"] and row["T"] in (LARGE, QUICK_LARGE) for row in table]
    rows = list(zip(table, top, strict=True))
    return Table(tuple(row for row, yes in rows if not yes)), Table(tuple(row for row, yes in rows if yes))


def two_rows(swept: Table, top: Table, x: str, panels: Mapping[str, Row]) -> list[list[Panel]]:
    """Curves over x of the paper's methods, and below of ours: panels by title, each with its settings."""
    return [
        [
            Panel(title, by_method(swept.where(**settings), methods), x, levels=by_method(top, methods))
            for title, settings in panels.items()
        ]
        for methods in (OF_PAPER, OURS)
    ]


def of_dotted(top: Table) -> str:
    """What the title of a figure says of dotted lines."""
    return f"; dotted: baselines at $N = T = {top.rows[0]['T']}$" if len(top) else ""


def judges(quick: bool) -> int | None:
    """At how many thetas errors are taken; None for as many as the problem has."""
    return QUICK_JUDGES if quick else None
