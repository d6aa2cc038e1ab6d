"""What the published tables share: rows in a CSV file, so that a finished row is not run again, and their arguments."""

from __future__ import annotations

import csv
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1]))

import cbq
from _common import one_thread, positive_integer, print_record, progress

COMMITTED = Path(__file__).parents[2] / "docs" / "figures" / "benchmarks"
Score = tuple[float, float | None]


@dataclass(frozen=True)
class Row:
    """An error of a method on a problem.

    runs : number of evaluations of f. seed : None for a number that is published, not measured here.
    error : absolute error, or an RMSE over thetas. inside : the share of truths inside 95% intervals, if there are any.
    seconds : CPU time on one core. source : of a published number; of others the version of the package.
    """

    problem: str
    method: str
    runs: int
    seed: int | None
    error: float
    inside: float | None
    seconds: float | None
    source: str

    @property
    def key(self) -> tuple[str, str, int, int | None]:
        return self.problem, self.method, self.runs, self.seed


def published(problem: str, method: str, runs: int, error: float, source: str) -> Row:
    """A number of someone else."""
    return Row(problem, method, runs, None, error, None, None, source)


class Table:
    """A table in a folder, one CSV file that grows by a row whenever one is finished."""

    def __init__(self, name: str, folder: Path) -> None:
        self.path = folder / f"{name}.csv"
        self.rows = list(read(self.path)) if self.path.exists() else []
        self.keys = {row.key for row in self.rows}

    def add(self, row: Row) -> None:
        """Append a row, if it is new."""
        if row.key in self.keys:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(field.name for field in fields(Row))
            writer.writerow("" if v is None else f"{v:.6g}" if isinstance(v, float) else v for v in astuple(row))
        self.rows.append(row)
        self.keys.add(row.key)

    def measure(
        self, problem: str, method: str, runs: int, seed: int, call: Callable[[], Score], source: str = ""
    ) -> None:
        """Append the error and coverage that `call` returns, unless the row is there; a failure is shown."""
        if (problem, method, runs, seed) in self.keys:
            return
        progress(f"{self.path.stem}: {problem}, {method}, {runs} runs, seed {seed}")
        start = process_time()
        try:
            error, inside = call()
        except Exception as failure:  # the other rows go on, and the same command tries this one again
            print(f"{problem}, {method}: {type(failure).__name__}: {' '.join(str(failure).split())[:200]}", flush=True)
            return
        seconds = process_time() - start
        self.add(Row(problem, method, runs, seed, float(error), inside, seconds, source or f"cbq {cbq.__version__}"))


def read(path: Path) -> Iterator[Row]:
    """The rows of a file."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield Row(
                row["problem"],
                row["method"],
                int(row["runs"]),
                int(row["seed"]) if row["seed"] else None,
                float(row["error"]),
                float(row["inside"]) if row["inside"] else None,
                float(row["seconds"]) if row["seconds"] else None,
                row["source"],
            )


def run(doc: str, fill: Callable[[Table, Namespace], None], name: str, seeds: int) -> None:
    """Fill a table from the command line: `fill` is given the table, and the arguments `seeds` and `out`."""
    parser = ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--seeds", type=positive_integer, default=seeds, help=f"number of seeds (default {seeds})")
    parser.add_argument("--out", type=Path, default=Path("published"), help="folder of results (default published/)")
    options = parser.parse_args()
    print_record()
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = Table(name, options.out)
        fill(table, options)
    progress("")
    print(f"{len(table.rows)} rows: {table.path}")
