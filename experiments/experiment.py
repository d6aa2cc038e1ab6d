"""An experiment as data: its claim, the cells of its grid, and how each cell is run and shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cbq.estimators.multioutput.estimator import exact_points
from experiments.analysis import ResultTable, Row, medians_text
from experiments.common import Options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_ALONE = ("CBQ.paper", "LSMC", "KLSMC", "IS")  # the methods of the paper
PER_THETA = ("CBQ.paper", "LSMC", "KLSMC", "IS", "IS balance", "CBQ")  # methods that are cheap
POOLED = ("MOBQ", "Auto")  # methods on the points of all thetas together
FEW_SEEDS = 5
FEW_SEEDS_ABOVE = {"linear": 2000, "sir": 900, "butterfly": 900, "health": 500}  # points of a pooled cell
FEW_MARKERS = " White markers: {few} seeds."  # left out of captions where all cells have equally many
BANDS = (
    "Lines are medians over {seeds} seeds, and bands are one standard error of the median either side, by the "
    f"bootstrap.{FEW_MARKERS}"
)
LARGE_LINES = "Dotted lines: baselines with N = T = 1000, {few} seeds."
GREY_LINE = "Grey: at each point, the best of the baselines."
LARGE, QUICK_LARGE = 1000, 30  # T and N of the baselines that are drawn as dotted lines; no other cell has them
TEST_THETAS = {"linear": 200, "sir": 300, "butterfly": 500, "health": 200, "health, own theta": 200}
LARGE_TEST_THETAS, QUICK_TEST_THETAS = 100, 20
# Expected seconds of a fit and its predictions on one core: constant, for 1000 points, for (1000 points)^2.
SECONDS: dict[str, tuple[float, float, float]] = {
    "CBQ.paper": (0.05, 0.02, 0.0),
    "CBQ.paper, Stein": (0.05, 0.02, 0.0),
    "CBQ.paper, Stein of log x": (0.05, 0.02, 0.0),
    "CBQ.paper, lambda = 0": (0.05, 0.02, 0.0),
    "CBQ.paper, additive": (0.05, 0.02, 0.0),
    "CBQ": (0.10, 0.04, 0.0),
    "LSMC": (0.01, 0.0, 0.0),
    "KLSMC": (0.02, 0.0, 0.0),
    "IS": (0.12, 0.02, 0.0),
    "IS balance": (0.12, 0.03, 0.0),
    "MOBQ": (0.15, 0.1, 0.25),
    "Auto": (0.25, 0.15, 0.25),
    "MOBQ, Nystrom": (0.6, 0.1, 0.0),
    "MOBQ, paper's kernel": (0.1, 0.0, 0.2),
    "MOBQ, paper": (0.2, 0.0, 0.5),
}
AUTO_WITH_LANDMARKS = (2.5, 0.1, 0.0)  # with more points than Auto gives to an exact MOBQ
SECONDS_FACTOR = {"linear": 1.0, "sir": 1.8, "butterfly": 2.5, "health": 5.0, "health, own theta": 3.0}
SIMULATION_SECONDS = 0.06  # of the epidemics of one theta, which are solved together
LARGE_SECONDS = 14.0


@dataclass(frozen=True)
class Cell:
    """A problem at one size, and the methods that are fitted to the same samples of it.

    options : of the problem, or of the experiment if its cells are not scores of methods.
    seeds : maximum number of seeds, for cells that are expensive (default: as many as are asked for).
    seconds : expected time of one seed on one core.
    thetas : number of test thetas.
    """

    problem: str
    T: int
    N: int
    methods: tuple[str, ...] = ()
    options: Options = ()
    design: str = "iid"
    seeds: int | None = None
    seconds: float = 0.1
    thetas: int = 300

    @property
    def settings(self) -> Row:
        """What distinguishes the cell from others, as columns of a table; each option is a column."""
        return {"problem": self.problem, **dict(self.options), "design": self.design, "T": self.T, "N": self.N}

    @property
    def key(self) -> str:
        """Settings, methods and test thetas as text: cells with the same key have the same results."""
        return json.dumps({**self.settings, "methods": self.methods, "thetas": self.thetas}, sort_keys=True)

    def n_seeds(self, requested: int) -> int:
        """The number of seeds that are run if `requested` are asked for."""
        return requested if self.seeds is None else min(requested, self.seeds)


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper. Its functions are importable, so that other processes find them.

    claim : of the paper, in one line.
    cells : returns the grid; with True the quick one, of tiny sizes that show that everything works.
    run : returns the rows of a cell and a seed; equal arguments give equal numbers, except for seconds.
    draw : returns the figure of saved results.
    verdict : returns a few lines with numbers on whether the claim holds.
    version : increases when `run` changes, so that older results are recognised.
    labels : columns, besides the method, that say what a row is about and are not averaged.
    caption : of the figure, as Markdown; {seeds} and {few} stand for the numbers of seeds.
    """

    name: str
    title: str
    claim: str
    cells: Callable[[bool], Sequence[Cell]]
    run: Callable[[Cell, int], list[Row]]
    draw: Callable[[ResultTable], Figure]
    verdict: Callable[[ResultTable], str]
    version: int = 1
    labels: tuple[str, ...] = ()
    caption: str = ""


def as_options(values: Mapping[str, Any]) -> Options:
    """Named values as the options of a cell."""
    return tuple(sorted(values.items()))


def method_cell(problem: str, T: int, N: int, methods: Iterable[str], *, seeds: int | None = None, **more: Any) -> Cell:
    """A cell with its expected seconds; `more` are the design, the number of test thetas and options of the problem."""
    methods, design, n = tuple(methods), more.pop("design", "iid"), T * N / 1000
    thetas = more.pop("thetas", None) or TEST_THETAS[problem]
    known = {**SECONDS, "Auto": AUTO_WITH_LANDMARKS} if exact_points() < T * N else SECONDS
    parts = [known.get(name, known["CBQ"]) for name in methods]
    fits = SECONDS_FACTOR[problem] * sum(a + b * n + c * n * n for a, b, c in parts)
    simulated = SIMULATION_SECONDS * T if problem == "sir" else 0.0
    fits *= (2 + more.get("dim", 2)) / 4  # measures and kernels take longer in many dimensions
    seconds = round(0.02 + fits + simulated, 3)
    return Cell(problem, T, N, methods, as_options(more), design, seeds, seconds, thetas)


def pooled_cell(problem: str, T: int, N: int, methods: Iterable[str] = POOLED, **more: Any) -> Cell:
    """A cell of methods on all points together, with few seeds if there are many points."""
    return method_cell(problem, T, N, methods, seeds=FEW_SEEDS if FEW_SEEDS_ABOVE[problem] < T * N else None, **more)


def method_cells(problem: str, sizes: Iterable[tuple[int, int]], methods: Sequence[str], **more: Any) -> list[Cell]:
    """A cell of these methods for each (T, N)."""
    return [method_cell(problem, T, N, methods, **more) for T, N in sizes]


def paired_cells(problem: str, sizes: Iterable[tuple[int, int]], methods: Sequence[str], **more: Any) -> list[Cell]:
    """Two cells for each (T, N): one of these methods, and one of those on all points together."""
    pairs = ((method_cell(problem, T, N, methods, **more), pooled_cell(problem, T, N, **more)) for T, N in sizes)
    return [cell for pair in pairs for cell in pair]


def large_cell(problem: str, methods: Sequence[str], *, quick: bool, **more: Any) -> Cell:
    """The cell of the baselines at N = T = 1000, or a smaller one if quick."""
    size, thetas = (QUICK_LARGE, QUICK_TEST_THETAS) if quick else (LARGE, LARGE_TEST_THETAS)
    found = method_cell(problem, size, size, methods, seeds=FEW_SEEDS, thetas=thetas, **more)
    return found if quick else replace(found, seconds=LARGE_SECONDS)


def split_large(table: ResultTable) -> tuple[ResultTable, ResultTable]:
    """The rows of curves, and those of the large cells."""
    rows = [(row, row["T"] == row["N"] and row["T"] in (LARGE, QUICK_LARGE)) for row in table]
    return ResultTable(tuple(row for row, large in rows if not large)), ResultTable(
        tuple(row for row, large in rows if large)
    )


def large_errors_text(large: ResultTable, y: str = "rmse", **settings: Any) -> str:
    """The errors of the large cells, in words."""
    found = large.where(**settings)
    errors = medians_text(found, found.distinct("method"), y, digits=3)
    return f"baselines at {found.rows[0]['T']} x {found.rows[0]['N']}: {errors}" if len(found) else "no large baselines"


def quick_thetas(quick: bool) -> int | None:
    """The number of test thetas of a quick cell; None, for the default of the problem, if not quick."""
    return QUICK_TEST_THETAS if quick else None
