"""`cbq evppi`: the value of information, from a table of draws."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cbq.cli import options
from cbq.cli.figures import write_figure
from cbq.cli.spreadsheet import read_sheet
from cbq.cli.tables import write_csv
from cbq.nested.decisions import positions
from cbq.psa import EvppiTable, values_of_information

Draws = Annotated[
    Path, typer.Argument(metavar="TABLE", show_default=False, help="A file of comma-separated values, a row per draw.")
]
Outputs = Annotated[
    str | None,
    typer.Option(metavar="NAMES", show_default=False, help="The columns of net benefits, one for each decision."),
]
Effects = Annotated[
    str | None,
    typer.Option(metavar="NAMES", show_default=False, help="Instead, the columns of effects, one for each decision,"),
]
Costs = Annotated[
    str | None, typer.Option(metavar="NAMES", show_default=False, help="those of costs, in the same order,")
]
Willingness = Annotated[
    str | None,
    typer.Option(
        "--willingness-to-pay",
        "--wtp",
        metavar="NUMBERS",
        show_default=False,
        help="and what a unit of effect is worth: one number or several, with commas between them.",
    ),
]
Pars = Annotated[
    str | None,
    typer.Option(
        metavar="SETS",
        show_default="every other column of numbers",
        help='The sets of columns that might be learnt, with semicolons between sets: "p1;p2;p1,p2".',
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", dir_okay=False, show_default=False, help="A file for the table; the chart is a .png beside it."
    ),
]


def evppi(
    table: Draws,
    outputs: Outputs = None,
    effects: Effects = None,
    costs: Costs = None,
    willingness_to_pay: Willingness = None,
    pars: Pars = None,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    out: Out = None,
    debug: options.Debug = False,
) -> None:
    """The value of learning inputs before deciding, from a table of a probabilistic sensitivity analysis.

    Each row of the table is a draw of all uncertain inputs, with the net benefits of the decisions there, or with their
    effects and costs. Prints the expected value of partial perfect information of each set of inputs, with its standard
    error and interval. With --out, writes the table, and a bar chart beside it.

    \b
    Examples:
      cbq evppi psa.csv --outputs nb1,nb2 --pars "p1;p2;p1,p2" --out evppi.csv
      cbq evppi psa.csv --effects qaly1,qaly2 --costs cost1,cost2 --wtp 20000,30000
    """
    options.check(level, None if out is None else out.absolute().parent)
    if out is not None:
        _refuse_place(out, table)
    sheet = read_sheet(table)
    known = list(sheet.columns)
    benefits, gains, losses = _names(outputs), _names(effects), _names(costs)
    if bool(benefits) == bool(gains or losses or willingness_to_pay):
        raise ValueError("pass --outputs, which are net benefits, or --effects, --costs and --willingness-to-pay.")
    for option, names in {"--outputs": benefits, "--effects": gains, "--costs": losses}.items():
        positions(names, known, option)
    decisive, prices = [*benefits, *gains, *losses], _prices(willingness_to_pay)
    sets = [[name] for name in sheet.of_numbers() if name not in decisive] if pars is None else _sets(pars)
    read = sheet.numbers([*decisive, *(name for each in sets for name in each)])
    found = values_of_information(
        {name: read[name] for name in decisive},
        read,
        sets,
        effects=gains or None,
        costs=losses or None,
        willingness_to_pay=prices,
        level=level,
        rng=seed,
    )
    typer.echo(str(found))
    if out is not None:
        _keep(out, found)


def _keep(out: Path, found: EvppiTable) -> None:
    """Write the table and the figure."""
    write_csv(out, found.columns, [[getattr(row, name) for name in found.columns] for row in found.rows])
    typer.echo(f"Written: {out}, {write_figure(out.with_suffix('.png'), found.plot)}.")


def _refuse_place(out: Path, table: Path) -> None:
    """Raise where the results would take the place of the draws, or the figure that of the results."""
    figure = out.with_suffix(".png")
    if table.resolve() in (out.resolve(), figure.resolve()):
        raise ValueError(f"--out {out} would overwrite {table}: name another file.")
    if out == figure:
        raise ValueError(f"--out {out} is for the table, and the chart is a .png beside it: name a .csv file.")


def _names(text: str | None) -> list[str]:
    """The names in a text, with commas between them."""
    return _parts(text or "", ",")


def _sets(text: str) -> list[list[str]]:
    """The sets of names in a text, with semicolons between them."""
    return [_names(part) for part in _parts(text, ";")]


def _parts(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]


def _prices(text: str | None) -> float | list[float] | None:
    """The numbers in a text: one where there is one."""
    if text is None:
        return None
    try:
        found = [float(part) for part in _names(text)]
    except ValueError as error:
        raise ValueError(f"--willingness-to-pay must be numbers with commas between them, not {text!r}.") from error
    return found[0] if len(found) == 1 else found
