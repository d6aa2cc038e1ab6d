"""`cbq ceac`, `cbq evpi` and `cbq psa`: the appendix of a submission, from a table of draws."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

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
from cbq.cli.draws import Described, Draws
from cbq.cli.tables import command_line, write_figure, write_table
from cbq.common.tables import NOTE_WIDTH
from cbq.linalg import engine as use_engine
from cbq.voi import Appendix, appendix
from cbq.voi.pages import appendix_page

DecisionNames = Annotated[
    str | None,
    options.unset("--decisions", metavar="NAMES", help='Name the decisions, in order: "usual care, new drug".'),
]
Reference = Annotated[
    str | None,
    options.unset(metavar="NAME", help="Compare with this decision in the plane, instead of the cheapest one."),
]
Line = Annotated[
    str | None,
    options.unset(
        metavar="NUMBER", help="Draw the line in the plane at this willingness to pay (default: the middle)."
    ),
]
Folder = Annotated[
    Path | None,
    options.unset(
        metavar="FOLDER", file_okay=False, help="Write all tables, all charts and one report to this folder."
    ),
]
REPORT = "report.html"
PARTS = ("icers", "plane", "ceac", "evpi", "evppi")  # the names of the files in a folder


@dataclass(frozen=True)
class _Question:
    """The command line: the draws with their outputs, and their files."""

    draws: Draws
    described: Described
    prices: Any
    names: list[str] | None
    files: Sequence[Path]

    @classmethod
    def read(
        cls,
        files: tuple[Path | None, Path | None, Path | None, Path | None],
        sheets: tuple[list[str] | None, list[int] | None],
        columns: tuple[str | None, str | None, str | None],
        prices: str | None,
        names: str | None,
        *,
        valued: bool,
    ) -> _Question:
        """From the files of a table, effects, costs and inputs, and the options --outputs, --effects and --costs.

        sheets : the options --sheet and --header-row.
        """
        draws = Draws.read(files, *sheets, valued=valued)
        pay = read_prices(prices, draws.convention)
        called = None if names is None else [name.strip() for name in re.split("[,;]", names) if name.strip()]
        named = [path for path in files if path is not None]
        return cls(draws, draws.describe(*columns, pay), pay, called, named)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `cbq.voi.appendix` for the outputs."""
        described = self.described
        return {
            "outputs": described.outputs,
            "effects": described.effects,
            "costs": described.costs,
            "willingness_to_pay": self.prices,
            "decisions": self.names,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.described.notes, *self.draws.notes)

    @property
    def record(self) -> dict[str, str]:
        return {"tables": ", ".join(map(str, self.files))}


def ceac(
    table: Table = None,
    outputs: OutputColumns = None,
    effects: Effects = None,
    costs: Costs = None,
    willingness_to_pay: Willingness = None,
    decisions: DecisionNames = None,
    effects_file: EffectsFile = None,
    costs_file: CostsFile = None,
    sheet: SheetName = None,
    header_row: HeaderRow = None,
    level: options.Level = 0.95,
    out: Out = None,
    debug: options.Debug = False,
) -> None:
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
    options.check(level, None if out is None else out.absolute().parent)
    files = (table, effects_file, costs_file, None)
    if out is not None:
        check_out(out, [path for path in files if path is not None])
    question = _Question.read(
        files, (sheet, header_row), (outputs, effects, costs), willingness_to_pay, decisions, valued=False
    )
    result = appendix(**question.arguments, level=level)
    tables = [str(part) for part in (result.icers, result.ceac) if part is not None]
    typer.echo("\n".join(["\n\n".join(tables), *_sentences(question.notes, result.ceac.notes)]))
    if out is not None:
        page = appendix_page(result, repeat=command_line(), record=question.record)
        write_beside(out, result.ceac.columns(), result.ceac.plot, page)


def evpi(
    table: Table = None,
    outputs: OutputColumns = None,
    effects: Effects = None,
    costs: Costs = None,
    willingness_to_pay: Willingness = None,
    decisions: DecisionNames = None,
    effects_file: EffectsFile = None,
    costs_file: CostsFile = None,
    sheet: SheetName = None,
    header_row: HeaderRow = None,
    level: options.Level = 0.95,
    out: Out = None,
    debug: options.Debug = False,
) -> None:
    """Estimate the value of knowing all inputs before deciding.

    Reads the same tables as `cbq ceac`. Prints the expected value of perfect information (EVPI) with its standard error
    and interval, at each willingness to pay. With --out, writes the table, and beside it a chart (.png) and a
    self-contained report (.html).

    \b
    Examples:
      cbq evpi psa.csv
      cbq evpi psa.csv --wtp 0:50000:1000 --out evpi.csv
    """
    options.check(level, None if out is None else out.absolute().parent)
    files = (table, effects_file, costs_file, None)
    if out is not None:
        check_out(out, [path for path in files if path is not None])
    question = _Question.read(
        files, (sheet, header_row), (outputs, effects, costs), willingness_to_pay, decisions, valued=False
    )
    result = appendix(**question.arguments, level=level)
    typer.echo("\n".join([result.evpi.to_text(level), *_sentences(question.notes, result.ceac.notes)]))
    if out is not None:
        page = appendix_page(result, repeat=command_line(), record=question.record)
        write_beside(out, result.evpi.columns(level), partial(result.evpi.plot, level=level), page)


def psa(
    table: Table = None,
    outputs: OutputColumns = None,
    effects: Effects = None,
    costs: Costs = None,
    willingness_to_pay: Willingness = None,
    pars: Pars = None,
    decisions: DecisionNames = None,
    reference: Reference = None,
    line: Line = None,
    effects_file: EffectsFile = None,
    costs_file: CostsFile = None,
    inputs_file: InputsFile = None,
    sheet: SheetName = None,
    header_row: HeaderRow = None,
    engine: options.Engine = "numpy",
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    out: Folder = None,
    debug: options.Debug = False,
) -> None:
    """Make the whole appendix of a submission: ICERs, plane, CEAC, EVPI and EVPPI.

    Reads the same tables as `cbq evppi` and takes the same options. Prints all tables. With --out, writes them to a
    folder, with their charts and one self-contained report (report.html).

    \b
    Examples:
      cbq psa psa.csv --wtp 0:50000:1000 --out appendix/
      cbq psa psa.xlsx --wtp 0:50000:1000 --line 20000 --decisions "usual care, new drug" --out appendix/
    """
    options.check(level, None if out is None else out.absolute().parent, engine)
    files = (table, effects_file, costs_file, inputs_file)
    for file in files:
        if out is not None and file is not None and file.resolve().parent == out.resolve() and file.stem in PARTS:
            raise ValueError(f"--out {out} would overwrite {file}: name another folder.")
    question = _Question.read(
        files, (sheet, header_row), (outputs, effects, costs), willingness_to_pay, decisions, valued=True
    )
    sets, inputs, notes = question.draws.sets(pars, question.described.used)
    with use_engine(engine):
        result = appendix(
            **question.arguments,
            inputs=inputs,
            pars=sets,
            reference=reference,
            line=question.draws.number(line, "--line"),
            level=level,
            rng=seed,
        )
    typer.echo("\n".join([str(result), *_sentences((*question.notes, *notes), result.ceac.notes)]))
    if out is not None:
        record = {**question.record, "seed": str(seed), "engine": engine}
        typer.echo(f"Written to {out}: {', '.join(_write_folder(result, out, record))}.")


def _sentences(notes: tuple[str, ...], said: tuple[str, ...]) -> list[str]:
    """Remarks as sentences, without remarks that were printed already."""
    new = [note for note in dict.fromkeys(notes) if note not in said]
    return [fill(f"{note}.", NOTE_WIDTH, subsequent_indent="    ") for note in new]


def _write_folder(result: Appendix, folder: Path, record: Mapping[str, str]) -> list[str]:
    """Write all tables, charts and the report, and return the names of the files."""
    folder.mkdir(exist_ok=True)
    written = []
    for name, columns, draw in _parts(result):
        write_table(folder / f"{name}.csv", list(columns), zip(*columns.values(), strict=True))
        written.append(f"{name}.csv")
        if draw is not None:
            write_figure(folder / f"{name}.png", draw)
            written.append(f"{name}.png")
    appendix_page(result, repeat=command_line(), record=record).write(str(folder / REPORT))
    return [*written, REPORT]


def _parts(result: Appendix) -> Iterator[tuple[str, Mapping[str, Any], Callable[[], Any] | None]]:
    """The parts of an appendix: a name, the columns of a table, and a function that draws the chart."""
    if result.icers is not None and result.plane is not None:
        yield "icers", columns_of(result.icers), result.icers.plot
        yield "plane", result.plane.columns(), result.plane.plot
    yield "ceac", result.ceac.columns(), result.ceac.plot
    level = result.ceac.level
    curve = result.evpi.willingness_to_pay is not None
    yield "evpi", result.evpi.columns(level), partial(result.evpi.plot, level=level) if curve else None
    if result.evppi is not None:
        yield "evppi", columns_of(result.evppi), result.evppi.plot
