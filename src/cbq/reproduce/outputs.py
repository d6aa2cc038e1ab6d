"""What is written of an experiment, from saved results alone: tables, the record and the figure."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cbq.reproduce.cells import Cell, Row
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.store import Store
from cbq.reproduce.table import Table, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 130


def write_outputs(experiment: Experiment, store: Store, cells: Sequence[Cell]) -> str:
    """Write results.csv, summary.csv, record.json, NAME.png and NAME.svg beside the results; return the verdict."""
    folder, table = store.path.parent, store.table(cells)
    if not len(table):
        raise ValueError(
            f"{store.path} holds none of the cells that are shown: run the experiment without --plot-only first."
        )
    columns = table.columns()
    _write_csv(folder / "results.csv", columns, table)
    names = {*(name for cell in cells for name in cell.settings), "method", *experiment.labels}
    settings = [name for name in columns if name in names]
    lines = summary(table, settings, [name for name in columns if name not in (*names, "seed", "note")])
    _write_csv(folder / "summary.csv", list(lines[0]), lines)
    good = Table(tuple(row for row in table if row["method"]))  # a cell that failed as a whole has a note instead
    verdict = experiment.verdict(good) if len(good) else "all cells failed: results.csv says how"
    text = json.dumps(_record(experiment, store, table, verdict), indent=1) + "\n"
    (folder / "record.json").write_text(text, encoding="utf-8")
    if len(good):
        save(experiment.draw(good), folder / experiment.name)
    return verdict


def save(figure: Figure, path: Path) -> None:
    """A figure as PNG and as SVG; the same figure gives the same files."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": path.name, "svg.fonttype": "path"}):
        figure.savefig(path.with_name(f"{path.name}.png"), dpi=DPI, metadata={"Software": None})
        figure.set_layout_engine("none")  # everything has its place by now, and finding it takes a while
        figure.savefig(path.with_name(f"{path.name}.svg"), metadata={"Date": None})


def _record(experiment: Experiment, store: Store, table: Table, verdict: str) -> Row:
    seeds = sorted({row["seed"] for row in table})
    notes = sorted({f"{row.get('method', '')}: {row['note']}" for row in table if row.get("note")})
    return {
        **store.identity,
        "title": experiment.title,
        "claim": experiment.claim,
        "verdict": verdict,
        "seeds": seeds,
        "cells": sum(store.codes().values()),
        "seconds": round(store.seconds(), 3),
        "code": store.codes(),
        "runs": store.runs(),
        "notes": notes,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """A table with these columns; what a row does not have is left empty, and floats are written in full."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="raise", restval="")
        writer.writeheader()
        writer.writerows({k: "" if v is None or v != v else v for k, v in row.items()} for row in rows)
