"""`cbq evppi`: the expected value of partial perfect information (EVPPI), from a table of draws."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cbq.cli import options
from cbq.cli.tables import command_line, read_sheet, write_csv, write_figure
from cbq.linalg import engine as use_engine
from cbq.nested.decisions import positions
from cbq.psa import values_of_information
from cbq.psa.report import table_page

Draws = Annotated[
    Path, typer.Argument(metavar="TABLE", show_default=False, help="A CSV file with a row for each draw.")
]
Outputs = Annotated[
    str | None, options.unset(metavar="NAMES", help="The columns of net benefits, one for each decision.")
]
Effects = Annotated[
    str | None,
    options.unset(metavar="NAMES", help="Instead of --outputs: the columns of effects, one for each decision."),
]
Costs = Annotated[
    str | None, options.unset(metavar="NAMES", help="With --effects: the columns of costs, in the same order.")
]
Willingness = Annotated[
    str | None,
    options.unset(
        "--willingness-to-pay",
        "--wtp",
        metavar="NUMBERS",
        help="With --effects: the value of a unit of effect, one number or several separated by commas.",
    ),
]
Pars = Annotated[
    str | None,
    typer.Option(
        metavar="SETS",
        show_default="every other column of numbers",
        help='The sets of inputs to be learnt, separated by semicolons: "p1;p2;p1,p2".',
    ),
]
Out = Annotated[
    Path | None,
    options.unset(
        metavar="FILE",
        dir_okay=False,
        help="A CSV file for the table; chart and report are beside it, .png and .html.",
    ),
]


def evppi(
    table: Draws,
    outputs: Outputs = None,
    effects: Effects = None,
    costs: Costs = None,
    willingness_to_pay: Willingness = None,
    pars: Pars = None,
    engine: options.Engine = "numpy",
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    out: Out = None,
    debug: options.Debug = False,
) -> None:
    """Estimate the value of learning inputs before deciding, from a probabilistic sensitivity analysis.

    Each row of the table is a draw of all uncertain inputs, with the net benefits of the decisions, or with their
    effects and costs. Prints the expected value of partial perfect information (EVPPI) of each set of inputs, with its
    standard error and interval. With --out, writes the table, and beside it a
    chart and a report to hand on, one HTML file.

    \b
    Examples:
      cbq evppi psa.csv --outputs nb1,nb2 --pars "p1;p2;p1,p2" --out evppi.csv
      cbq evppi psa.csv --effects qaly1,qaly2 --costs cost1,cost2 --wtp 20000,30000
    """
    options.check(level, None if out is None else out.absolute().parent, engine)
    if out is not None:
        _check_overwriting(out, table)
    sheet = read_sheet(table)
    columns = {"--outputs": _names(outputs), "--effects": _names(effects), "--costs": _names(costs)}
    if bool(columns["--outputs"]) == bool(columns["--effects"] or columns["--costs"] or willingness_to_pay):
        raise ValueError("pass --outputs, which are net benefits, or --effects, --costs and --willingness-to-pay.")
    for name, chosen in columns.items():
        positions(chosen, list(sheet.columns), name)
    decisive = [name for chosen in columns.values() for name in chosen]
    prices = _prices(willingness_to_pay)
    if pars is None:
        sets = [[name] for name in sheet.numeric_columns() if name not in decisive]
    else:
        sets = [_names(each) for each in _names(pars, ";")]
    draws = sheet.with_numbers([*decisive, *(name for each in sets for name in each)])
    with use_engine(engine):
        found = values_of_information(
            {name: draws[name] for name in decisive},
            draws,
            sets,
            effects=columns["--effects"] or None,
            costs=columns["--costs"] or None,
            willingness_to_pay=prices,
            level=level,
            rng=seed,
        )
    typer.echo(str(found))
    if out is not None:
        write_csv(out, found.columns, [[getattr(row, name) for name in found.columns] for row in found.rows])
        record = {"table": str(table), "seed": str(seed), "engine": engine}
        table_page(found, repeat=command_line(), record=record).write(str(out.with_suffix(".html")))
        drawn = write_figure(out.with_suffix(".png"), found.plot)
        typer.echo(f"Written: {out}, {drawn}, {out.with_suffix('.html')}.")


def _names(text: str | None, separator: str = ",") -> list[str]:
    """The non-empty names between separators."""
    return [part.strip() for part in (text or "").split(separator) if part.strip()]


def _prices(text: str | None) -> float | list[float] | None:
    """The willingness to pay: one number, or a list of several that are separated by commas."""
    if text is None:
        return None
    try:
        found = [float(part) for part in _names(text)]
    except ValueError as error:
        raise ValueError(f"--willingness-to-pay must be numbers separated by commas, but it is {text!r}.") from error
    return found[0] if len(found) == 1 else found


def _check_overwriting(out: Path, table: Path) -> None:
    """Raise if the results would overwrite the draws, or the chart the results."""
    chart, report = out.with_suffix(".png"), out.with_suffix(".html")
    if table.resolve() in (out.resolve(), chart.resolve(), report.resolve()):
        raise ValueError(f"--out {out} would overwrite {table}: name another file.")
    if out in (chart, report):
        beside = "the chart is a .png" if out == chart else "the report is an .html"
        raise ValueError(f"--out {out} is for the table, and {beside} beside it: name a .csv file.")
