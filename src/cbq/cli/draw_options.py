"""Options of the commands that read draws of a decision model, and writing their results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cbq.cli import options
from cbq.cli.numerals import Convention, typed_number
from cbq.cli.tables import check_writable, write_figure, write_table
from cbq.report.document import Page

MAX_PRICES = 10_000

Table = Annotated[
    Path | None,
    typer.Argument(
        metavar="TABLE",
        show_default=False,
        dir_okay=False,
        help="Name a table with a row for each draw: CSV with any separator, Excel, .ods or Parquet.",
    ),
]
OutputColumns = Annotated[
    str | None,
    options.unset(
        "--outputs",
        metavar="NAMES",
        help="Take these columns as net benefits, one for each decision: nb1,nb2. One column alone is a difference "
        "from a decision with net benefit 0.",
    ),
]
Effects = Annotated[
    str | None,
    options.unset(metavar="NAMES", help="Take these columns as effects, one for each decision, instead of --outputs."),
]
Costs = Annotated[
    str | None,
    options.unset(metavar="NAMES", help="Take these columns as costs, in the same order as --effects."),
]
Willingness = Annotated[
    str | None,
    options.unset(
        "--willingness-to-pay",
        "--wtp",
        metavar="NUMBERS",
        help="Pay this much for a unit of effect: a number (20000), several (20000,30000), or a range "
        "(0:50000:1000, from 0 to 50000 in steps of 1000).",
    ),
]
Pars = Annotated[
    str | None,
    typer.Option(
        metavar="SETS",
        show_default="all",
        help='Value these sets of inputs: "p1; p2; p1, p2", or with names, "costs: c1, c2; effects: e1, e2"; "all" '
        'values each input alone, and "pairs" all pairs.',
    ),
]
EffectsFile = Annotated[
    Path | None,
    options.unset(metavar="FILE", dir_okay=False, help="Read the effects from this table, a column for each decision."),
]
CostsFile = Annotated[
    Path | None,
    options.unset(metavar="FILE", dir_okay=False, help="Read the costs from this table, a column for each decision."),
]
InputsFile = Annotated[
    Path | None,
    options.unset(metavar="FILE", dir_okay=False, help="Read the inputs from this table, with the same rows."),
]
SheetName = Annotated[
    list[str] | None,
    options.unset(
        "--sheet",
        metavar="NAME",
        help="Read this sheet of a workbook, by its name or its number. Repeat it if several files need several.",
    ),
]
HeaderRow = Annotated[
    list[int] | None,
    options.unset(
        "--header-row",
        metavar="INTEGER",
        min=1,
        help="Find the names of the columns in this line, below titles. Repeat it if several files need several.",
    ),
]
Out = Annotated[
    Path | None,
    options.unset(
        metavar="FILE",
        dir_okay=False,
        help="Write the table to this file, .csv, .xlsx, .ods or .parquet, and beside it a chart and a report.",
    ),
]


def write_beside(out: Path, columns: Mapping[str, Sequence[Any]], draw: Callable[[], Any], page: Page) -> None:
    """Write a table, and beside it its chart and the page of a report, and say so."""
    write_table(out, list(columns), zip(*columns.values(), strict=True))
    chart, report = write_figure(out.with_suffix(".png"), draw), out.with_suffix(".html")
    page.write(str(report))
    typer.echo(f"Written: {out}, {chart}, {report}.")


def columns_of(result: Any) -> dict[str, list[Any]]:
    """The columns of a table of rows."""
    return {name: [getattr(row, name) for row in result.rows] for name in result.columns}


def read_prices(text: str | None, kind: Convention = Convention.POINT) -> float | list[float] | None:
    """The willingness to pay: one number, or a list of numbers, from a text with commas or a range.

    kind : the convention of numbers in the files on the same command line.
    """
    if text is None:
        return None
    what = "--willingness-to-pay"
    if re.search(r"(?<![\d.])\d{1,3}(,\d{3})+(?![\d.])", text):
        plain = text.replace(",", "")
        raise ValueError(
            f"{what} {text} could be one number or several: write {plain} if it is one, and put semicolons between "
            f'several, as in "20000; 30000".'
        )
    prices = [price for part in _pieces(text, kind, what) if part.strip() for price in _range(part, text, kind, what)]
    if not 0 < len(prices) <= MAX_PRICES:
        raise ValueError(f"{what} must have 1 to {MAX_PRICES} values, but {text!r} has {len(prices)}.")
    return prices[0] if len(prices) == 1 else prices


def _pieces(text: str, kind: Convention, what: str) -> list[str]:
    """The parts of a list of numbers. With decimal commas in the files, digits after a comma may be decimals."""
    if kind is not Convention.COMMA:
        return re.split("[,;]", text)
    if ";" not in text and re.search(r"\d,\d{1,2}(?!\d)", text):
        raise ValueError(
            f"{what} {text} could be one number or several, as the files have decimal commas: write "
            f'{text.replace(",", ".")} if it is one, and "{text.replace(",", "; ")}" if they are several.'
        )
    return text.split(";" if ";" in text else ",")


def _range(part: str, text: str, kind: Convention, what: str) -> list[float]:
    """A number, or the numbers of a range first:last:step."""
    numbers = [typed_number(piece, kind, what) for piece in part.split(":")]
    first, last, step = numbers if len(numbers) == 3 else (*numbers[:1], *numbers[:1], 1.0)
    if len(numbers) not in (1, 3) or first is None or last is None or step is None or not 0 < step < inf:
        first, last, step = 1.0, 0.0, 1.0  # an empty range, which is refused
    if not (last >= first and (last - first) / step < MAX_PRICES):
        raise ValueError(
            f"{what} must be numbers separated by commas, or a range such as 0:50000:1000, but it is {text!r}."
        )
    steps = int(np.floor((last - first) / step + 1e-9))
    return [first + step * i for i in range(steps + 1)]


def check_out(out: Path, files: list[Path]) -> None:
    """Raise if results would overwrite the draws or each other, or could not be written."""
    chart, report = out.with_suffix(".png"), out.with_suffix(".html")
    for file in files:
        if file.resolve() in (out.resolve(), chart.resolve(), report.resolve()):
            raise ValueError(f"--out {out} would overwrite {file}: name another file.")
    if out in (chart, report):
        beside = "the chart is a .png" if out == chart else "the report is an .html"
        raise ValueError(f"--out {out} names the table, and {beside} beside it: name a .csv file.")
    check_writable(out)
