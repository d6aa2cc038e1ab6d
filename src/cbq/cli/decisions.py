"""`cbq evppi`, `evsi`, `ceac`, `evpi` and `psa`: decisions under uncertainty, from tables of draws."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any, TypeVar

import typer

from cbq.cli import options
from cbq.cli.cells import is_number, read_prices, read_sizes
from cbq.cli.draws import DrawnOutputs, DrawTables
from cbq.cli.source import ProblemSource
from cbq.cli.tables import check_writable, command_line, write_columns, write_figure, write_report
from cbq.common import NOTE_WIDTH, listed
from cbq.linalg import engine as use_engine
from cbq.report import Page
from cbq.voi import Appendix, EnbsTable, EvppiTable, EvsiTable, appendix, enbs, population, studies
from cbq.voi import evppi as value_of_inputs
from cbq.voi import evsi as value_of_study
from cbq.voi.pages import appendix_page, study_page, table_page

RATIOS = {"binomial": ("odds", "risk"), "poisson": ("rate",), "survival": ("hazard",)}  # of two arms
STUDIES = ("binomial", "poisson", "normal", "survival")
REPORT = "report"
PARTS = ("icers", "plane", "net_benefits", "ceac", "evpi", "evppi", "tornado")  # the names of the files in a folder


CHARTS, REPORTS = ("png", "svg", "pdf"), ("html", "docx", "pdf")
AnyResult = TypeVar("AnyResult", Appendix, EvppiTable, EvsiTable)


def _kinds(text: str, option: str, known: Sequence[str]) -> list[str]:
    """The suffixes in a list such as png,svg."""
    kinds = [kind.strip().lower().lstrip(".") for kind in text.split(",") if kind.strip()]
    if not kinds or not set(kinds) <= set(known):
        raise ValueError(f"{option} must be one or several of {', '.join(known)}, but it is {text!r}.")
    return [f".{kind}" for kind in dict.fromkeys(kinds)]


def _file(help: str) -> Any:
    """A field that is the option of a file."""
    return options.setting(help, metavar="FILE", dir_okay=False)


@dataclass(frozen=True)
class Tables:
    """The tables of draws, and their columns of outputs."""

    table: Path | None = options.argument(
        "Name a table with a row for each draw: CSV with any separator, Excel, .ods or Parquet.",
        default=None,
        metavar="TABLE",
        dir_okay=False,
    )
    outputs: str | None = options.setting(
        "Take these columns as net benefits, one for each decision: nb1,nb2. One column alone is a difference from a "
        "decision with net benefit 0.",
        metavar="NAMES",
    )
    effects: str | None = options.setting(
        "Take these columns as effects, one for each decision, instead of --outputs.", metavar="NAMES"
    )
    costs: str | None = options.setting("Take these columns as costs, in the same order as --effects.", metavar="NAMES")
    willingness_to_pay: str | None = options.setting(
        "Pay this much for a unit of effect: a number (20000), several (20000,30000), or a range (0:50000:1000, from 0 "
        "to 50000 in steps of 1000).",
        "--willingness-to-pay",
        "--wtp",
        metavar="NUMBERS",
    )
    effects_file: Path | None = _file("Read the effects from this table, a column for each decision.")
    costs_file: Path | None = _file("Read the costs from this table, a column for each decision.")
    sheet: list[str] | None = options.setting(
        "Read this sheet of a workbook, by its name or its number. Repeat it if several files need several.",
        "--sheet",
        metavar="NAME",
    )
    header_row: list[int] | None = options.whole(
        "Find the names of the columns in this line, below titles. Repeat it if several files need several.",
        "--header-row",
    )
    level: float = options.setting(options.LEVEL, default=0.95, metavar="NUMBER")
    currency: str | None = options.setting("Name the currency on tables, charts and reports: EUR.", metavar="NAME")
    title: str | None = options.setting("Give charts and reports this title.", metavar="TEXT")
    charts: str = options.setting(
        "Write charts as png, svg or pdf, or as several: png,svg.", default="png", metavar="KINDS"
    )
    reports: str = options.setting(
        "Write the report as html, docx (Word) or pdf, or as several: html,docx.", default="html", metavar="KINDS"
    )

    @property
    def places(self) -> tuple[Path | None, ...]:
        """The files of the table, effects, costs and inputs; None if it is not named."""
        return self.table, self.effects_file, self.costs_file, None

    @property
    def files(self) -> list[Path]:
        """The files that are named."""
        return [path for path in self.places if path is not None]

    @property
    def record(self) -> dict[str, str]:
        """The entries of a report on how to repeat it."""
        return {"tables": ", ".join(map(str, self.files))}

    def check(self, out: Path | None, engine: str = "numpy") -> None:
        """Raise if options are bad or results would overwrite the draws, before the files are read."""
        options.check(self.level, None if out is None else out.absolute().parent, engine)
        _ = self.suffixes
        if out is not None:
            _check_out(out, self)

    @property
    def suffixes(self) -> tuple[list[str], list[str]]:
        """The suffixes of charts and of reports; raise if they are unknown."""
        return _kinds(self.charts, "--charts", CHARTS), _kinds(self.reports, "--reports", REPORTS)

    def in_currency(self, result: AnyResult) -> AnyResult:
        """The result in the currency that is named."""
        return result if self.currency is None else result.in_currency(self.currency)

    def read(self, command: str, *, valued: bool = True) -> tuple[DrawTables, DrawnOutputs]:
        """Read the files, and find the outputs. valued : whether inputs are necessary."""
        draws = DrawTables.read(command, self.places, self.sheet, self.header_row, valued=valued)
        prices = read_prices(self.willingness_to_pay, draws.convention)
        return draws, draws.describe(self.outputs, self.effects, self.costs, prices)


@dataclass(frozen=True)
class TablesWithInputs(Tables):
    """The tables of draws, with inputs whose value is asked for."""

    inputs_file: Path | None = _file("Read the inputs from this table, with the same rows.")
    engine: str = options.setting(options.ENGINE, default="numpy", metavar="NAME")
    seed: int = options.setting(options.SEED, default=0, metavar="INTEGER", min=0)

    @property
    def places(self) -> tuple[Path | None, ...]:
        return self.table, self.effects_file, self.costs_file, self.inputs_file

    @property
    def record(self) -> dict[str, str]:
        return {**super().record, "seed": str(self.seed), "engine": self.engine}


@dataclass(frozen=True)
class Beside:
    """The table of results."""

    out: Path | None = _file(
        "Write the table to this file, .csv, .xlsx, .ods or .parquet, and beside it a chart and a report."
    )


@dataclass(frozen=True)
class Inputs:
    """The sets of inputs."""

    pars: str | None = options.setting(
        'Value these sets of inputs: "p1; p2; p1, p2", or with names, "costs: c1, c2; effects: e1, e2"; "all" values '
        'each input alone, and "pairs" all pairs.',
        metavar="SETS",
        shown="all",
    )
    population: str | None = options.setting(
        "Print values for this many people, for each year with --horizon, instead of one decision.", metavar="NUMBER"
    )
    horizon: str | None = options.setting("Count the people of this many years.", metavar="YEARS")
    discount: str = options.setting(
        "Discount people in later years at this annual rate: 0.035.", default="0", metavar="RATE"
    )

    def people(self, draws: DrawTables) -> float | None:
        """The number of people whose decisions are counted; None for one decision."""
        number, years, rate = (
            draws.number(getattr(self, name), f"--{name}") for name in ("population", "horizon", "discount")
        )
        if number is None and (years is not None or rate):
            raise ValueError("--horizon and --discount came without --population, the number of people for each year.")
        if years is None and rate:
            raise ValueError("--discount came without --horizon, the years in which people come.")
        return number if number is None or years is None else population(number, years, rate or 0.0)


@dataclass(frozen=True)
class DecisionNames:
    """The names of decisions."""

    decisions: str | None = options.setting(
        'Name the decisions, in order: "usual care, new drug".', "--decisions", metavar="NAMES"
    )

    @property
    def names(self) -> list[str] | None:
        """The names, separated by commas or semicolons."""
        if self.decisions is None:
            return None
        return [name.strip() for name in re.split("[,;]", self.decisions) if name.strip()]


@dataclass(frozen=True)
class Submission(Inputs, DecisionNames):
    """The options of the plane, and the folder of the appendix."""

    reference: str | None = options.setting(
        "Compare with this decision in the plane, instead of the cheapest one.", metavar="NAME"
    )
    line: str | None = options.setting(
        "Draw the line in the plane at this willingness to pay.", metavar="NUMBER", shown="the middle"
    )
    out: Path | None = options.setting(
        "Write all tables, all charts and one report to this folder.", metavar="FOLDER", file_okay=False
    )


@dataclass(frozen=True)
class Studied(Beside):
    """A study of inputs, and its costs."""

    pars: str = options.setting(
        "Study these inputs, each in another group of participants: p1, p2.", default="", metavar="NAMES", shown=False
    )
    study: str = options.setting(
        "Observe events out of n (binomial; the input is a probability), events in n units of exposure (poisson; a "
        "rate), the mean of n (normal; a mean), times to events (survival; a rate of events), or what a function "
        "simulates (path/to/file.py:function).",
        "--study",
        default="",
        metavar="NAME",
        shown=False,
    )
    sizes: str = options.setting(
        "Try these sizes: 20,50,100, or a range, 50:500:50 (from 50 to 500 by 50).",
        default="10,20,50,100,200,500,1000",
        metavar="NUMBERS",
    )
    sd: str | None = options.setting(
        "In a normal study, let observations have this standard deviation, a number or the name of an input.",
        metavar="NUMBER",
    )
    follow_up: str | None = options.setting("In a survival study, censor participants after this time.", metavar="TIME")
    dropout: str = options.setting("In a survival study, lose participants at this rate.", default="0", metavar="RATE")
    ratio: str | None = options.setting(
        "Run a trial of two arms of n, about a baseline and this ratio between them, the two inputs of --pars: odds "
        "or risk (binomial), rate (poisson), or hazard (survival).",
        metavar="NAME",
    )
    arms: int | None = options.whole("In your own study, count the participants of this many groups of n.", shown="1")
    lost: str = options.setting("Lose this share of all participants, who cost as much.", default="0", metavar="SHARE")
    cost: str | None = options.setting("Pay this much for each participant.", metavar="NUMBER")
    fixed_cost: str = options.setting("Pay this much for the study beside participants.", default="0", metavar="NUMBER")
    population: str | None = options.setting(
        "Let the study serve this many people, for each year with --horizon.", metavar="NUMBER"
    )
    horizon: str | None = options.setting("Make the decision for this many years.", metavar="YEARS")
    discount: str = options.setting(
        "Discount people in later years at this annual rate: 0.035.", default="0", metavar="RATE"
    )
    delay: str = options.setting("Wait this long for the results of the study.", default="0", metavar="YEARS")
    uptake: str = options.setting(
        "Let the share of decisions that follow the results grow from 0 to 1 over this time.",
        default="0",
        metavar="YEARS",
    )

    def check(self) -> None:
        """Raise unless the study has exactly its own options."""
        needed = {"normal": ("--sd", self.sd), "survival": ("--follow-up", self.follow_up)}
        if self.study not in STUDIES and self.source is None:
            own = "a function, path/to/file.py:function"
            raise ValueError(f"--study must be one of {listed(STUDIES)}, or {own}, but it is {self.study!r}.")
        if self.arms is not None and self.source is None:
            raise ValueError("--arms is for a study of your own, a function.")
        if self.ratio is not None and self.ratio not in RATIOS.get(self.study, ()):
            kinds = "; ".join(f"{' or '.join(ratios)} of --study {study}" for study, ratios in RATIOS.items())
            raise ValueError(f"--ratio must be {kinds}, but it is {self.ratio!r} of --study {self.study}.")
        for owner, (option, value) in needed.items():
            if (owner == self.study) != (value is not None):
                raise ValueError(
                    f"--study {owner} needs {option}." if owner == self.study else f"{option} is for --study {owner}."
                )
        if (self.cost is None) != (self.population is None):
            given, missing = ("--population", "--cost") if self.cost is None else ("--cost", "--population")
            raise ValueError(f"{given} came without {missing}: the net benefit of sampling needs both.")

    @property
    def source(self) -> ProblemSource | None:
        """The file and the name of a study of the user's own, or of a function that simulates it."""
        return ProblemSource.parse(self.study, None) if ".py" in self.study else None

    def read(self, draws: DrawTables) -> studies.Study:
        """The study, with its options."""
        share, one = draws.number(self.lost, "--lost"), self._of_one_group(draws)
        ratio = "odds" if self.ratio == "odds" else "risk"
        study = one if self.ratio is None else studies.TwoArm(one, ratio)
        return studies.LossToFollowUp(study, share) if share else study

    def _of_one_group(self, draws: DrawTables) -> studies.Study:
        if self.source is not None:
            own = self.source.attribute("study")
            return studies.as_study(own if self.arms is None else studies.Custom(own, arms=self.arms), "--study")
        lost, until = draws.number(self.dropout, "--dropout"), draws.number(self.follow_up, "--follow-up")
        if lost and self.study != "survival":
            raise ValueError("--dropout is for --study survival.")
        if self.sd is not None:
            is_name = self.sd in draws.of_inputs.columns or not is_number(self.sd)
            return studies.Normal(self.sd if is_name else draws.number(self.sd, "--sd") or 0.0)
        if until is not None:
            return studies.Survival(until, lost or 0.0)
        return studies.BinomialCount() if self.study == "binomial" else studies.PoissonCount()

    def terms(self, draws: DrawTables) -> dict[str, Any]:
        """The numbers of `enbs`, by its arguments; None where they are not set."""
        names = ("cost", "population", "horizon", "discount", "fixed_cost", "delay", "uptake")
        return {name: draws.number(getattr(self, name), f"--{name.replace('_', '-')}") for name in names}


def evppi(context: typer.Context, tables: TablesWithInputs, sets: Inputs, beside: Beside) -> None:
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
      cbq evppi psa.csv --wtp 20000 --population 5000 --horizon 10 --discount 0.035
      cbq evppi model.xlsx --sheet PSA --header-row 3
      cbq evppi psa.csv --outputs nb1,nb2 --pars "p1; p2; p1, p2"
      cbq evppi psa.csv --outputs nb1,nb2 --pars "costs: c1, c2; all: c1, c2, p"
      cbq evppi inputs.csv --effects-file e.csv --costs-file c.csv --wtp 20000
    """
    tables.check(beside.out, tables.engine)
    draws, outputs = tables.read(context.command_path)
    pars, inputs, notes = draws.sets(sets.pars, outputs.used)
    asked: dict[str, Any] = {"inputs": inputs, "pars": pars, "level": tables.level, "rng": tables.seed}
    with use_engine(tables.engine):
        result = value_of_inputs(**outputs.arguments, **asked)
    people = sets.people(draws)
    result = result if people is None else result.for_population(people)
    result = replace(result, notes=(*outputs.notes, *result.notes, *notes, *draws.notes))
    result = tables.in_currency(result)
    typer.echo(str(result))
    _write_beside(beside.out, result.to_columns(), result.plot, partial(table_page, result), context, tables)


def evsi(context: typer.Context, studied: Studied, tables: TablesWithInputs) -> None:
    """Estimate the value of a study, and its best size.

    Reads the same tables as `cbq evppi`. Prints the expected value of sample information (EVSI) of a study of some
    inputs for each size, with its standard error and interval. With --cost and --population, also the expected net
    benefit of sampling (ENBS) and the best size with its probability. With --out, writes the table, and beside it a
    chart (.png) and a self-contained report (.html).

    \b
    Examples:
      cbq evsi psa.csv --pars p_response --study binomial --sizes 20,50,100
      cbq evsi psa.csv --pars utility --study normal --sd 0.2 --wtp 20000
      cbq evsi psa.csv --pars "p_old, p_new" --study binomial --sizes 50:500:50
      cbq evsi psa.csv --pars "p_old, odds_ratio" --study binomial --ratio odds --lost 0.1
      cbq evsi psa.csv --pars "p, utility" --study my_trial.py:simulate --arms 2
      cbq evsi psa.csv --pars p --study binomial --cost 900 --population 5000 --horizon 10 --discount 0.035
    """
    out = studied.out
    tables.check(out, tables.engine)
    sizes = read_sizes(studied.sizes)
    studied.check()
    draws, outputs = tables.read(context.command_path)
    study, terms = studied.read(draws), studied.terms(draws)
    names, inputs = draws.studied(studied.pars, study.further_inputs)
    asked: dict[str, Any] = {"inputs": inputs, "pars": names, "study": study, "sizes": sizes, "level": tables.level}
    with use_engine(tables.engine):
        result = value_of_study(**outputs.arguments, **asked, rng=tables.seed)
    result = tables.in_currency(replace(result, notes=(*outputs.notes, *result.notes, *draws.notes)))
    typer.echo(str(result))
    benefit = None
    if studied.cost is not None:
        benefit = replace(enbs(result, **terms, rng=tables.seed), notes=())
        typer.echo(f"\n{benefit}")
    shown: EvsiTable | EnbsTable = result if benefit is None else benefit
    _write_beside(out, shown.to_columns(), shown.plot, partial(study_page, result, benefit), context, tables)


def ceac(context: typer.Context, tables: Tables, decisions: DecisionNames, beside: Beside) -> None:
    """Compare decisions: ICERs, and how often each is best.

    Each row of the table is a draw of a probabilistic sensitivity analysis, with the effects and costs of the decisions
    or their net benefits. Prints the incremental cost-effectiveness ratios with dominated decisions marked, and the
    cost-effectiveness acceptability curve (CEAC). With --out, writes the curve to a table, and beside it a chart (.png)
    and a self-contained report (.html).

    \b
    Examples:
      cbq ceac psa.csv --wtp 0:50000:1000
      cbq ceac psa.xlsx --wtp 0:50000:1000 --out ceac.xlsx
      cbq ceac --effects-file e.csv --costs-file c.csv --wtp 20000,30000
    """
    result, notes = _appendix(context, tables, decisions, beside.out)
    _echo_with_notes("\n\n".join(str(part) for part in (result.icers, result.ceac) if part is not None), notes, result)
    curve = result.ceac
    _write_beside(beside.out, curve.to_columns(), curve.plot, partial(appendix_page, result), context, tables)


def evpi(context: typer.Context, tables: Tables, decisions: DecisionNames, beside: Beside) -> None:
    """Estimate the value of knowing all inputs before deciding.

    Reads the same tables as `cbq ceac`. Prints the expected value of perfect information (EVPI) with its standard error
    and interval, at each willingness to pay. With --out, writes the table, and beside it a chart (.png) and a
    self-contained report (.html).

    \b
    Examples:
      cbq evpi psa.csv
      cbq evpi psa.csv --wtp 0:50000:1000 --out evpi.csv
    """
    result, notes = _appendix(context, tables, decisions, beside.out)
    level, draw = tables.level, partial(result.evpi.plot, level=tables.level)
    _echo_with_notes(result.evpi.to_text(level), notes, result)
    _write_beside(beside.out, result.evpi.to_columns(level), draw, partial(appendix_page, result), context, tables)


def psa(context: typer.Context, tables: TablesWithInputs, submission: Submission) -> None:
    """Make the appendix of a submission, with tables and charts.

    Reads the same tables as `cbq evppi` and takes the same options. Prints ICERs, net benefits, acceptability, EVPI and
    EVPPI. With --out, writes them to a folder, with their charts and one self-contained report (report.html).

    \b
    Examples:
      cbq psa psa.csv --wtp 0:50000:1000 --out appendix/
      cbq psa psa.xlsx --wtp 0:50000:1000 --line 20000 --decisions "usual care, new drug" --out appendix/
    """
    out = submission.out
    options.check(tables.level, None if out is None else out.absolute().parent, tables.engine)
    _ = tables.suffixes
    for file in tables.files:
        if out is not None and file.resolve().parent == out.resolve() and file.stem in PARTS:
            raise ValueError(f"--out {out} would overwrite {file}: name another folder.")
    draws, outputs = tables.read(context.command_path)
    pars, inputs, notes = draws.sets(submission.pars, outputs.used)
    asked: dict[str, Any] = {"inputs": inputs, "pars": pars, "level": tables.level, "rng": tables.seed}
    plane: dict[str, Any] = {"reference": submission.reference, "line": draws.number(submission.line, "--line")}
    with use_engine(tables.engine):
        result = appendix(**outputs.arguments, decisions=submission.names, **asked, **plane)
    people = submission.people(draws)
    result = tables.in_currency(result if people is None else result.for_population(people))
    _echo_with_notes(str(result), (*outputs.notes, *draws.notes, *notes), result)
    if out is not None:
        written = _write_folder(result, out, command_line(context), tables)
        typer.echo(f"Written to {out}: {', '.join(written)}.")


def _appendix(
    context: typer.Context, tables: Tables, decisions: DecisionNames, out: Path | None
) -> tuple[Appendix, Sequence[str]]:
    """The parts of an appendix that need no inputs, and notes."""
    tables.check(out)
    draws, outputs = tables.read(context.command_path, valued=False)
    result = tables.in_currency(appendix(**outputs.arguments, decisions=decisions.names, level=tables.level))
    return result, (*outputs.notes, *draws.notes)


def _echo_with_notes(text: str, notes: Sequence[str], result: Appendix) -> None:
    """Print a text, and below it the notes that are not printed already."""
    new = [note for note in dict.fromkeys(notes) if note not in result.ceac.notes]
    typer.echo("\n".join([text, *(fill(f"{note}.", NOTE_WIDTH, subsequent_indent="    ") for note in new)]))


def _write_beside(
    out: Path | None,
    columns: Mapping[str, Sequence[Any]],
    draw: Callable[..., Any],
    make_page: Callable[..., Page],
    context: typer.Context,
    tables: Tables,
) -> None:
    """Write a table, beside it its chart and a report, and print their names; nothing without a file."""
    if out is None:
        return
    write_columns(out, columns)
    charts, reports = tables.suffixes
    page = make_page(title=tables.title, repeat=command_line(context), record=tables.record)
    written = [write_figure(out.with_suffix(kind), partial(draw, title=tables.title)) for kind in charts]
    written += [write_report(out.with_suffix(kind), page) for kind in reports]
    typer.echo(f"Written: {', '.join([str(out), *written])}.")


def _write_folder(result: Appendix, folder: Path, command: str, tables: Tables) -> list[str]:
    """Write all tables, charts and reports, and return the names of the files."""
    folder.mkdir(exist_ok=True)
    charts, reports = tables.suffixes
    written = []
    for name, columns, draw in _parts(result):
        write_columns(folder / f"{name}.csv", columns)
        written.append(f"{name}.csv")
        if draw is not None:
            titled = partial(draw, title=tables.title)
            written += [write_figure(folder / f"{name}{kind}", titled) for kind in charts]
    page = appendix_page(result, tables.title, repeat=command, record=tables.record)
    written += [write_report(folder / f"{REPORT}{kind}", page) for kind in reports]
    return [each.removeprefix(f"{folder}{os.sep}") for each in written]


def _parts(result: Appendix) -> Iterator[tuple[str, Mapping[str, Any], Callable[..., Any] | None]]:
    """The parts of an appendix: a name, the columns of a table, and a function that draws the chart."""
    for name, part in result.parts.items():
        if name == "evpi":
            level, curve = result.ceac.level, result.evpi.willingness_to_pay is not None
            yield name, part.to_columns(level), partial(part.plot, level=level) if curve else None
        else:
            yield name, part.to_columns(), part.plot


def _check_out(out: Path, tables: Tables) -> None:
    """Raise if results would overwrite the draws or each other, or could not be written."""
    charts, reports = tables.suffixes
    beside = [out.with_suffix(kind) for kind in (*charts, *reports)]
    for file in tables.files:
        if file.resolve() in [path.resolve() for path in (out, *beside)]:
            raise ValueError(f"--out {out} would overwrite {file}: name another file.")
    if out in beside:
        what = "the chart" if out.suffix in charts else "the report"
        raise ValueError(f"--out {out} names the table, and {what} beside it has this name: name a .csv file.")
    if set(charts) & set(reports):
        raise ValueError("--charts and --reports would both write a .pdf of one name: choose another kind for one.")
    check_writable(out)
