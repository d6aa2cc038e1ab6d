"""Coverage of the default estimator's intervals, over problems and sizes, beside that of the plain posterior.

Run: .venv/bin/python benchmarks/calibration.py [--design iid|sobol] [--seeds 30] [--out PATH.json] [--figure PATH.png]

A cell is one problem at one (T, N). Its coverage is the share of (seed, theta, output) whose truth is in the interval;
test thetas are drawn from the prior and are the same for all seeds. Each finished cell is saved at once with its run
record, and cells that are in the file are not evaluated again: a run that was stopped continues. Delete the file to
start again. Table and figure are made from the file; `--draw-only` evaluates nothing.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import numpy as np

import cbq
from _common import (
    PROBLEMS,
    OneThreadPool,
    positive_integer,
    print_record,
    problem_with_truth,
    progress,
    rmse,
    share_inside,
    with_progress,
)

SIZES = ((10, 10), (20, 20), (50, 50), (100, 100))
M = 200  # test thetas
LEVELS = tuple(round(0.05 * k, 2) for k in range(1, 20))
TARGETS = {0.5: (0.40, 0.65), 0.95: (0.90, 0.99)}  # ranges of the coverage at two levels
RESULTS = Path(__file__).parent / "results"
SavedCell = dict[str, Any]  # settings, record, and scores of both fits


def scores(fit: cbq.Fit, theta: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """The coverage at all levels, the RMSE, and the mean width of the intervals of the last level, 95%."""
    coverage = []
    for level in LEVELS:
        low, high = fit.interval(theta, level)
        coverage.append(share_inside(low, truth, high))
    return {"coverage": coverage, "rmse": rmse(fit.predict(theta), truth), "width": float(np.mean(high - low))}


def run_seed(name: str, T: int, N: int, design: str, seed: int) -> dict[str, dict[str, Any]]:
    """The scores of the calibrated and of the plain fit to the samples of one seed."""
    problem, theta, truth = problem_with_truth(name, M)
    samples = problem.collect(T, N, rng=seed, design=design)
    fits = {"calibrated": cbq.CBQ().fit(samples), "plain": cbq.CBQ(calibrate=False).fit(samples)}
    return {kind: scores(fit, theta, truth) for kind, fit in fits.items()}


def identity(cell: SavedCell) -> tuple[Any, ...]:
    """What distinguishes a cell from others in the file."""
    return tuple(cell[key] for key in ("problem", "T", "N", "design", "seeds"))


def run(options: Namespace, record: dict[str, Any]) -> None:
    """Evaluate the cells that are not in the file, and save each."""
    cells = load(options.out)
    known = {identity(cell) for cell in cells}
    with OneThreadPool(options.workers) as pool:
        for name in options.problems:
            for T, N in options.sizes:
                cell: SavedCell = {"problem": name, "T": T, "N": N, "design": options.design, "seeds": options.seeds}
                if identity(cell) in known:
                    progress(f"{name} {T} x {N} is already in {options.out}")
                    continue
                jobs = [(name, T, N, options.design, seed) for seed in range(options.seeds)]
                found = dict(with_progress(pool.run(run_seed, jobs), len(jobs), f"{name} {T} x {N}"))
                for kind in ("calibrated", "plain"):  # a list over seeds for each quantity
                    each = [found[job][kind] for job in jobs]
                    cell[kind] = {quantity: [e[quantity] for e in each] for quantity in each[0]}
                cells.append({**cell, "record": record})
                save(options.out, cells)


def load(path: Path) -> list[SavedCell]:
    """The cells of the file; none if there is no file."""
    return json.loads(path.read_text())["cells"] if path.exists() else []


def save(path: Path, cells: list[SavedCell]) -> None:
    """Write all cells; the old file stays complete until the new one replaces it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps({"levels": LEVELS, "thetas": M, "cells": cells}))
    draft.replace(path)


def coverages(cell: SavedCell, level: float, kind: str = "calibrated") -> np.ndarray:
    """The coverage at a level, for each seed."""
    return np.array(cell[kind]["coverage"])[:, LEVELS.index(level)]


def missed(cell: SavedCell) -> list[float]:
    """The levels at which the coverage is outside of its range."""
    return [level for level, (low, high) in TARGETS.items() if not low <= np.mean(coverages(cell, level)) <= high]


def row(cell: SavedCell) -> str:
    """One row of the table."""
    out = missed(cell)
    at95, calibrated = coverages(cell, 0.95), cell["calibrated"]
    error = np.std(at95, ddof=1) / np.sqrt(len(at95)) if len(at95) > 1 else np.nan
    return (
        f"{cell['problem']:9} {cell['T']:4} {cell['N']:4} {np.mean(at95):8.3f} {error:6.3f} {np.min(at95):6.3f} "
        f"{np.mean(coverages(cell, 0.5)):8.3f} {np.mean(coverages(cell, 0.95, 'plain')):9.3f} "
        f"{np.mean(coverages(cell, 0.5, 'plain')):8.3f} {np.median(calibrated['rmse']):10.2e} "
        f"{np.mean(calibrated['width']):10.2e} {np.median(cell['plain']['rmse']):10.2e}"
        f"  {'OUT at ' + ' and '.join(f'{level:.0%}' for level in out) if out else 'in range'}"
    )


def table(cells: list[SavedCell]) -> str:
    """All cells, and how many are in range."""
    rows, inside = [row(cell) for cell in cells], sum(not missed(cell) for cell in cells)
    head = (
        f"{'':18} {'calibrated':^31} {'plain':^18} {'calibrated':^21} {'plain':>10}\n"
        f"{'problem':9} {'T':>4} {'N':>4} {'at 95%':>8} {'+-':>6} {'lowest':>6} {'at 50%':>8} "
        f"{'at 95%':>9} {'at 50%':>8} {'RMSE':>10} {'width':>10} {'RMSE':>10}"
    )
    return "\n".join([head, *rows, f"\n{inside} of {len(rows)} cells in range"])


def warning(cells: list[SavedCell], code: str, path: Path) -> str:
    """A warning if cells were evaluated with other code of the package than that of this run; else empty."""
    old = sum(cell["record"].get("code") != code for cell in cells)
    if not old:
        return ""
    return (
        f"WARNING: {old} of {len(cells)} cells were evaluated with other code: delete {path} to evaluate them again\n"
    )


def draw(cells: list[SavedCell], path: Path, title: str) -> None:
    """Draw achieved over nominal coverage: a panel for each problem, a curve for each size."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    names = [name for name in PROBLEMS if any(cell["problem"] == name for cell in cells)]
    sizes = sorted({(cell["T"], cell["N"]) for cell in cells})
    colours = dict(zip(sizes, colormaps["viridis_r"](np.linspace(0.15, 1.0, len(sizes))), strict=True))
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    inches = (4.2 * columns, 4.2 * rows + 0.8)
    figure = Figure(figsize=inches, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    for ax, name in zip(axes.flat, names, strict=False):
        draw_panel(ax, [cell for cell in cells if cell["problem"] == name], colours)
        ax.set_title(name, loc="left", fontweight="bold")
    legend = {label: handle for ax in axes.flat for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def draw_panel(ax: Any, cells: list[SavedCell], colours: dict[tuple[int, int], Any]) -> None:
    """Draw the curves of one problem."""
    ax.plot([0, 1], [0, 1], color="0.4", lw=1, ls=(0, (4, 3)), label="achieved = nominal", zorder=1)
    for level, (low, high) in TARGETS.items():
        wide = {"color": "tab:orange", "alpha": 0.35, "lw": 9, "solid_capstyle": "butt", "zorder": 0}
        ax.plot([level, level], [low, high], label="target range", **wide)
    for cell in cells:
        achieved, key = np.mean(cell["calibrated"]["coverage"], axis=0), (cell["T"], cell["N"])
        style = {"color": colours[key], "lw": 1.8, "marker": "o", "markersize": 3, "clip_on": False, "zorder": 3}
        ax.plot(LEVELS, achieved, label="T = {}, N = {}".format(*key), **style)
    ticks = np.linspace(0, 1, 6)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=ticks, yticks=ticks)
    ax.set(xlabel="nominal level of the interval", ylabel="share of truths inside")
    ax.grid(color="0.92", lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def size(text: str) -> tuple[int, int]:
    """(T, N) from the command line."""
    T, N = text.lower().split("x")
    return positive_integer(T), positive_integer(N)


def main() -> None:
    """Evaluate what is missing, then print the table and draw the figure from the file."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--design", choices=("iid", "sobol"), default="iid", help="design of the samples (default iid)")
    parser.add_argument("--seeds", type=positive_integer, default=30, help="number of seeds, from 0 on (default 30)")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--sizes", nargs="+", type=size, default=SIZES, metavar="TxN", help="such as 10x10 50x50")
    parser.add_argument(
        "--workers", type=positive_integer, default=2, help="processes with one thread each (default 2)"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "calibration.json", help="file of results")
    parser.add_argument("--figure", type=Path, help="default: calibration-DESIGN.png beside the results")
    parser.add_argument("--draw-only", action="store_true", help="evaluate nothing")
    options = parser.parse_args()
    record = print_record()
    if not options.draw_only:
        run(options, record)
    asked = {(n, T, N, options.design, options.seeds) for n in options.problems for T, N in options.sizes}
    cells = [cell for cell in load(options.out) if identity(cell) in asked]
    if not cells:
        parser.error(f"{options.out} has no cells of {options.seeds} {options.design} seeds: run without --draw-only")
    cells.sort(key=lambda cell: (PROBLEMS.index(cell["problem"]), cell["T"], cell["N"]))
    targets = ", ".join(f"{low} to {high} at {level:.0%}" for level, (low, high) in TARGETS.items())
    print(
        f"coverage at {M} thetas over seeds 0 to {options.seeds - 1}, {options.design} points, +- its standard error; "
        f"targets: {targets}\nRMSE: median over seeds; width: mean, of 95% intervals\n\n{table(cells)}"
    )
    figure = options.figure or options.out.with_name(f"calibration-{options.design}.png")
    draw(cells, figure, f"Coverage of cbq.CBQ() intervals: {options.seeds} seeds, {options.design} points")
    print(f"{warning(cells, record['code'], options.out)}results: {options.out}\nfigure: {figure}")


if __name__ == "__main__":
    main()
