"""`cbq evppi`: the expected value of partial perfect information (EVPPI), from a table of draws."""

from __future__ import annotations

from dataclasses import replace

import typer

from cbq.cli import options
from cbq.cli.draw_options import (
    Costs,
    CostsFile,
    Effects,
    EffectsFile,
    HeaderRow,
    InputsFile,
    Out,
    OutputColumns,
    Pars,
    SheetName,
    Table,
    Willingness,
    check_out,
    columns_of,
    read_prices,
    write_beside,
)
from cbq.cli.draws import Draws
from cbq.cli.tables import command_line
from cbq.linalg import engine as use_engine
from cbq.voi import values_of_information
from cbq.voi.pages import table_page


def evppi(
    table: Table = None,
    outputs: OutputColumns = None,
    effects: Effects = None,
    costs: Costs = None,
    willingness_to_pay: Willingness = None,
    pars: Pars = None,
    effects_file: EffectsFile = None,
    costs_file: CostsFile = None,
    inputs_file: InputsFile = None,
    sheet: SheetName = None,
    header_row: HeaderRow = None,
    engine: options.Engine = "numpy",
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    out: Out = None,
    debug: options.Debug = False,
) -> None:
    """Estimate the value of learning inputs before deciding.

    Each row of the table is a draw of a probabilistic sensitivity analysis: all uncertain inputs, with the net benefits
    of the decisions, or with their effects and costs, in one table or in several. Prints the expected value of partial
    perfect information (EVPPI) of each set of inputs, with its standard error and interval. With --out, writes the
    table, and beside it a chart (.png) and a self-contained report (.html).

    Columns with telling names, such as nb1, nb2 or qaly_A, cost_A, need no option. Columns that number the rows, and
    other outputs, are not inputs; notes below the table list the columns that were used and left out.

    \b
    Examples:
      cbq evppi psa.csv
      cbq evppi psa.xlsx --wtp 0:50000:1000 --out evppi.xlsx
      cbq evppi model.xlsx --sheet PSA --header-row 3
      cbq evppi psa.csv --outputs nb1,nb2 --pars "p1; p2; p1, p2"
      cbq evppi psa.csv --outputs nb1,nb2 --pars "costs: c1, c2; all: c1, c2, p"
      cbq evppi inputs.csv --effects-file e.csv --costs-file c.csv --wtp 20000
    """
    options.check(level, None if out is None else out.absolute().parent, engine)
    files = [path for path in (table, effects_file, costs_file, inputs_file) if path is not None]
    if out is not None:
        check_out(out, files)
    draws = Draws.read((table, effects_file, costs_file, inputs_file), sheet, header_row)
    prices = read_prices(willingness_to_pay, draws.convention)
    described = draws.describe(outputs, effects, costs, prices)
    sets, inputs, notes = draws.sets(pars, described.used)
    with use_engine(engine):
        result = values_of_information(
            described.outputs,
            inputs,
            sets,
            effects=described.effects,
            costs=described.costs,
            willingness_to_pay=prices,
            level=level,
            rng=seed,
        )
    result = replace(result, notes=(*described.notes, *result.notes, *notes, *draws.notes))
    typer.echo(str(result))
    if out is not None:
        record = {"tables": ", ".join(map(str, files)), "seed": str(seed), "engine": engine}
        write_beside(out, columns_of(result), result.plot, table_page(result, repeat=command_line(), record=record))
