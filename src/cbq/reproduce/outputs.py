"""What is written of an experiment, from saved results alone: tables, the record and the figure."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cbq.reproduce.cells import Cell, Row
from cbq.reproduce.experiment import Experiment
from cbq.reproduce.store import Result, Store
from cbq.reproduce.table import Point, Table, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 130


def write_outputs(experiment: Experiment, store: Store, cells: Sequence[Cell]) -> str:
    """Write results.csv, summary.csv, record.json, NAME.png and NAME.svg beside the results; return the verdict."""
    folder, results = store.path.parent, store.results(cells)
    table = tabulated(results)
    if not len(table):
        raise ValueError(
            f"{store.path} holds none of the cells that are shown: run the experiment without --plot-only first."
        )
    columns = table.columns()
    _write_csv(folder / "results.csv", columns, table)
    names = {*(name for cell in cells for name in cell.settings), "method", *experiment.labels}
    settings = [name for name in columns if name in names]
    good = tabulated([result for result in results if not result.failed])
    lines = summary(good, settings, [name for name in columns if name not in (*names, "seed", "note")])
    short = [{name: float(f"{v:.6g}") if isinstance(v, float) else v for name, v in line.items()} for line in lines]
    _write_csv(folder / "summary.csv", [*settings, "quantity", *(field.name for field in fields(Point))], short)
    verdict = experiment.verdict(good) if len(good) else "nothing is finished"
    text = json.dumps(_record(experiment, store, results, verdict), indent=1) + "\n"
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


def tabulated(results: Iterable[Result]) -> Table:
    """A row for each row of results, with what tells their cell from others."""
    rows = ({**each.cell.settings, "seed": each.seed, **row} for each in results for row in each.rows)
    return Table(tuple(rows))


def _record(experiment: Experiment, store: Store, results: Sequence[Result], verdict: str) -> Row:
    rows = [row for each in results for row in each.rows]
    notes = sorted({f"{row.get('method', '')}: {row['note']}" for row in rows if row.get("note")})
    counts = Counter(Counter(each.cell.key for each in results).values())
    return {
        **store.identity,
        "title": experiment.title,
        "claim": experiment.claim,
        "verdict": verdict,
        "seeds": sorted({each.seed for each in results}),
        "cells_by_seeds": {str(seeds): cells for seeds, cells in sorted(counts.items())},
        "results": len(results),
        "failed": sum(each.failed for each in results),
        "seconds": round(sum(each.seconds for each in results), 3),
        "code": dict(Counter(each.code for each in results)),
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
