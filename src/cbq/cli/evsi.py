"""`cbq evsi`: the expected value of sample information (EVSI) of a study, and its best size, from a table of draws."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
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
    SheetName,
    Table,
    Willingness,
    check_out,
    columns_of,
    read_prices,
    write_beside,
)
from cbq.cli.draws import Draws
from cbq.cli.rows import is_number
from cbq.cli.tables import command_line
from cbq.common.checks import listed
from cbq.linalg import engine as use_engine
from cbq.voi import EnbsTable, EvsiTable, enbs, studies
from cbq.voi import evsi as value_of_study
from cbq.voi.pages import study_page

STUDIES = ("binomial", "poisson", "normal", "survival")
DEFAULT_SIZES = "10,20,50,100,200,500,1000"
MAX_SIZES = 1000

Pars = Annotated[
    str,
    typer.Option(metavar="NAMES", show_default=False, help="Study these inputs, each in a group of its own: p1, p2."),
]
StudyKind = Annotated[
    str,
    typer.Option(
        "--study",
        metavar="NAME",
        show_default=False,
        help="Observe events out of n (binomial; the input is a probability), events in n units of exposure (poisson; "
        "a rate), the mean of n (normal; a mean), or times to events (survival; a rate of events).",
    ),
]
Sizes = Annotated[
    str,
    typer.Option(metavar="NUMBERS", help="Try these sizes: 20,50,100, or a range, 50:500:50 (from 50 to 500 by 50)."),
]
Sd = Annotated[
    str | None,
    options.unset(metavar="NUMBER", help="normal: the standard deviation of an observation, or the name of an input."),
]
FollowUp = Annotated[str | None, options.unset(metavar="TIME", help="survival: censor participants after this time.")]
Dropout = Annotated[str, typer.Option(metavar="RATE", help="survival: lose participants at this rate.")]
Cost = Annotated[str | None, options.unset(metavar="NUMBER", help="Pay this much for each participant.")]
FixedCost = Annotated[str, typer.Option(metavar="NUMBER", help="Pay this much for the study beside participants.")]
Population = Annotated[
    str | None,
    options.unset(metavar="NUMBER", help="Let the study serve this many people, for each year with --horizon."),
]
Horizon = Annotated[str | None, options.unset(metavar="YEARS", help="Make the decision for this many years.")]
Discount = Annotated[
    str, typer.Option(metavar="RATE", help="Discount people in later years at this annual rate: 0.035.")
]
Delay = Annotated[str, typer.Option(metavar="YEARS", help="Wait this long for the results of the study.")]


def evsi(
    table: Table = None,
    pars: Pars = "",
    study: StudyKind = "",
    sizes: Sizes = DEFAULT_SIZES,
    sd: Sd = None,
    follow_up: FollowUp = None,
    dropout: Dropout = "0",
    cost: Cost = None,
    fixed_cost: FixedCost = "0",
    population: Population = None,
    horizon: Horizon = None,
    discount: Discount = "0",
    delay: Delay = "0",
    outputs: OutputColumns = None,
    effects: Effects = None,
    costs: Costs = None,
    willingness_to_pay: Willingness = None,
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
    """Estimate the value of a study before deciding, and its best size.

    Reads the same tables as `cbq evppi`. Prints the expected value of sample information (EVSI) of a study of some
    inputs for each size, with its standard error and interval. With --cost and --population, also the expected net
    benefit of sampling (ENBS) and the best size with its probability. With --out, writes the table, and beside it a
    chart (.png) and a self-contained report (.html).

    \b
    Examples:
      cbq evsi psa.csv --pars p_response --study binomial --sizes 20,50,100
      cbq evsi psa.csv --pars utility --study normal --sd 0.2 --wtp 20000
      cbq evsi psa.csv --pars "p_old, p_new" --study binomial --sizes 50:500:50
      cbq evsi psa.csv --pars p --study binomial --cost 900 --population 5000 --horizon 10 --discount 0.035
    """
    options.check(level, None if out is None else out.absolute().parent, engine)
    files = [path for path in (table, effects_file, costs_file, inputs_file) if path is not None]
    if out is not None:
        check_out(out, files)
    numbers = _numbers(sizes)
    _check_study(study, sd, follow_up)
    if (cost is None) != (population is None):
        given, missing = ("--population", "--cost") if cost is None else ("--cost", "--population")
        raise ValueError(f"{given} came without {missing}: the net benefit of sampling needs both.")
    draws = Draws.read((table, effects_file, costs_file, inputs_file), sheet, header_row)
    kind, prices = _study(study, sd, follow_up, dropout, draws), read_prices(willingness_to_pay, draws.convention)
    paid, served = draws.number(cost, "--cost"), draws.number(population, "--population")
    terms: dict[str, Any] = {
        "horizon": draws.number(horizon, "--horizon"),
        "discount": draws.number(discount, "--discount"),
        "fixed_cost": draws.number(fixed_cost, "--fixed-cost"),
        "delay": draws.number(delay, "--delay"),
    }
    described = draws.describe(outputs, effects, costs, prices)
    names, inputs = draws.studied(pars, kind.further_inputs)
    with use_engine(engine):
        result = value_of_study(
            described.outputs,
            inputs,
            names,
            kind,
            numbers,
            effects=described.effects,
            costs=described.costs,
            willingness_to_pay=prices,
            level=level,
            rng=seed,
        )
    result = replace(result, notes=(*described.notes, *result.notes, *draws.notes))
    typer.echo(str(result))
    benefit = None
    if paid is not None and served is not None:
        benefit = replace(enbs(result, paid, served, **terms, rng=seed), notes=())
        typer.echo(f"\n{benefit}")
    if out is not None:
        record = {"tables": ", ".join(map(str, files)), "seed": str(seed), "engine": engine}
        shown: EvsiTable | EnbsTable = result if benefit is None else benefit
        page = study_page(result, benefit, repeat=command_line(), record=record)
        write_beside(out, columns_of(shown), shown.plot, page)


def _check_study(name: str, sd: str | None, follow_up: str | None) -> None:
    """Raise unless the study of this name has exactly its own options."""
    needed = {"normal": ("--sd", sd), "survival": ("--follow-up", follow_up)}
    if name not in STUDIES:
        raise ValueError(f"--study must be one of {listed(STUDIES)}, but it is {name!r}.")
    for owner, (option, value) in needed.items():
        if (owner == name) != (value is not None):
            raise ValueError(
                f"--study {owner} needs {option}." if owner == name else f"{option} is for --study {owner}."
            )


def _study(name: str, sd: str | None, follow_up: str | None, dropout: str, draws: Draws) -> studies.Study:
    """The study of this name, with its options."""
    lost, until = draws.number(dropout, "--dropout"), draws.number(follow_up, "--follow-up")
    if lost and name != "survival":
        raise ValueError("--dropout is for --study survival.")
    if sd is not None:
        return studies.Normal(sd if draws.has_input(sd) or not is_number(sd) else draws.number(sd, "--sd") or 0.0)
    if until is not None:
        return studies.Survival(until, lost or 0.0)
    return studies.Binomial() if name == "binomial" else studies.Poisson()


def _numbers(text: str) -> list[int]:
    """Whole numbers, from a text with commas or ranges."""
    sizes: list[int] = []
    try:
        for part in filter(str.strip, re.split("[,;]", text)):
            first, *rest = (int(number) for number in part.split(":"))
            last, step = rest or (first, 1)
            if step < 1 or not 0 <= (last - first) // step < MAX_SIZES:
                raise ValueError
            sizes += np.arange(first, last + 1, step).tolist()
    except ValueError as error:
        raise ValueError(
            f"--sizes must be whole numbers separated by commas, or a range such as 50:500:50, but it is {text!r}."
        ) from error
    return sizes
