"""The figures and tables of docs/benchmarks.md from saved rows.

Run: .venv/bin/python benchmarks/published/page.py [--rows docs/figures/benchmarks]

Rows are the CSV files that the other programs of this folder write. Figures are written beside them as NAME.png, and
the medians over seeds are printed as tables in Markdown.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from _tables import COMMITTED, Row, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from experiments.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED

COLOURS = {
    "CBQ": (BLUE, "s"),
    "Auto": (GREEN, "^"),
    "CBQ, additive": (BLACK, "D"),
    "solve": (GREEN, "^"),
    "cbq.evppi": (GREEN, "^"),
    "cbq.LSMC": (BLUE, "v"),
    "nested kernel quadrature": (RED, "o"),
    "nested kernel quadrature, Sobol theta": (ORANGE, "X"),
    "nested Monte Carlo": (GREY, "v"),
    "nested Monte Carlo, here": (GREY, "v"),
    "least-squares Monte Carlo": (RED, "o"),
    "multilevel Monte Carlo": (ORANGE, "X"),
    "ProbNum": (RED, "o"),
    "ProbNum, our points": (ORANGE, "X"),
    "Sobol average": (GREY, "v"),
    "scikit-learn": (RED, "o"),
    "SMT": (ORANGE, "X"),
    "BoTorch": (PURPLE, "P"),
}
YLABELS = {
    "nested_quadrature": r"error of E $I(\theta)^2$",
    "capital": "error of the value at risk",
    "evppi": "error of EVPI - EVPPI",
    "zoo": "RMSE / root mean square of $I$",
    "surrogates": "RMSE of $I$",
}
OVER_RUNS = ("nested_quadrature", "capital", "evppi")  # curves over the runs; the others have a column for each problem


def median(rows: Iterable[Row]) -> float:
    """The median error."""
    return float(np.median([row.error for row in rows]))


def distinct(values: Iterable) -> list:
    """The values, each once, in the order in which they come."""
    return list(dict.fromkeys(values))


def curves(name: str, rows: Sequence[Row], path: Path) -> None:
    """A panel for each problem, with a curve of medians over the runs for each method."""
    problems = distinct(row.problem for row in rows)
    figure, axes = _figure(1, len(problems), 3.4 * len(problems), 3.1)
    for ax, problem in zip(axes, problems, strict=True):
        for method in distinct(row.method for row in rows):
            own = [row for row in rows if (row.problem, row.method) == (problem, method)]
            if own:
                runs = sorted({row.runs for row in own})
                errors = [median(row for row in own if row.runs == n) for n in runs]
                is_published = all(row.seed is None for row in own)
                colour, mark = COLOURS[method]
                label = f"{method}, published" if is_published else method
                ax.loglog(
                    runs, errors, color=colour, marker=mark, ms=5, lw=1.4, ls="--" if is_published else "-", label=label
                )
        ax.set(title=problem, xlabel="runs")
    _save(figure, axes, YLABELS[name], path)


def columns(name: str, rows: Sequence[Row], path: Path) -> None:
    """A panel for each number of runs, with a row of marks for each problem."""
    problems, sizes = distinct(row.problem for row in rows), sorted({row.runs for row in rows})
    figure, axes = _figure(1, len(sizes), 4.4 * len(sizes), 0.28 * len(problems) + 1.6, sharey=True)
    for ax, runs in zip(axes, sizes, strict=True):
        for method in distinct(row.method for row in rows):
            own = [[r for r in rows if (r.problem, r.method, r.runs) == (p, method, runs)] for p in problems]
            errors = [median(each) if each else np.nan for each in own]
            colour, mark = COLOURS[method]
            ax.semilogx(errors, range(len(problems)), ls="none", color=colour, marker=mark, ms=6, label=method)
        ax.set(title=f"{runs} runs", xlabel=YLABELS[name], yticks=range(len(problems)), yticklabels=problems)
        ax.grid(axis="y", lw=0.4, color="#dddddd")
    axes[0].invert_yaxis()
    _save(figure, axes, "", path)


def _figure(rows: int, columns: int, width: float, height: float, **more: bool) -> tuple:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        rows, columns, figsize=(max(width, 6.0), height), layout="constrained", squeeze=False, **more
    )
    return figure, list(axes.ravel())


def _save(figure, axes: Sequence[Axes], ylabel: str, path: Path) -> None:
    if ylabel:
        axes[0].set_ylabel(ylabel)
    labels = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.legend(
        labels.values(),
        labels.keys(),
        loc="outside lower center",
        ncols=int(figure.get_figwidth() // 2.8),
        frameon=False,
    )
    figure.savefig(path, dpi=130, metadata={"Software": None})


def table(rows: Sequence[Row]) -> str:
    """The medians of methods at each problem and number of runs, and the share of truths inside intervals of ours."""
    methods = distinct(row.method for row in rows)
    lines = ["| problem | runs | " + " | ".join(methods) + " |", "|---|---|" + "---|" * len(methods)]
    for problem, runs in sorted(
        {(row.problem, row.runs) for row in rows}, key=lambda each: ([r.problem for r in rows].index(each[0]), each[1])
    ):
        cells = []
        for method in methods:
            own = [row for row in rows if (row.problem, row.runs, row.method) == (problem, runs, method)]
            inside = [row.inside for row in own if row.inside is not None]
            cells.append((f"{median(own):.2g}" + (f" ({np.mean(inside):.0%})" if inside else "")) if own else "")
        lines.append(f"| {problem} | {runs:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def against(rows: Sequence[Row], ours: str, others: Sequence[str]) -> str:
    """In how many of the settings ours has the smallest median, and the median ratio to each of the others."""
    settings = distinct((row.problem, row.runs) for row in rows)

    def at(setting: tuple[str, int], method: str) -> float:
        own = [row for row in rows if (row.problem, row.runs) == setting and row.method == method]
        return median(own) if own else np.nan

    parts = []
    for other in others:
        ratios = np.array([at(setting, other) / at(setting, ours) for setting in settings])
        ratios = ratios[np.isfinite(ratios)]
        if len(ratios):
            parts.append(
                f"{other}: ahead in {np.sum(ratios > 1)} of {len(ratios)}, median ratio {np.median(ratios):.2g}"
            )
    return f"{ours} against " + "; ".join(parts)


def main() -> None:
    """Draw and print what there is."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=Path, default=COMMITTED, help="folder of rows and figures")
    folder = parser.parse_args().rows
    for name in YLABELS:
        path = folder / f"{name}.csv"
        if not path.exists():
            print(f"{name}: no rows yet")
            continue
        rows = list(read(path))
        (curves if name in OVER_RUNS else columns)(name, rows, folder / f"{name}.png")
        print(f"\n{name}\n\n{table(rows)}\n")
        if name not in OVER_RUNS:
            others = [m for m in distinct(row.method for row in rows) if m not in ("Auto", "CBQ")]
            print(against(rows, "Auto", others))


if __name__ == "__main__":
    main()
