"""The draws of a decision model in one table or several, with their columns of outputs and inputs.

Columns are named in lists, in sets, and in named sets. A name may contain commas, as rr[1,2]: known columns are
recognised as a whole, and brackets and quotes protect commas.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cbq.cli.cells import MISSING, Convention, is_number, typed_number
from cbq.cli.messages import in_options
from cbq.cli.sheets import Sheet, read_sheet
from cbq.common import listed
from cbq.nested import positions
from cbq.samples import find_summary
from cbq.voi.roles import (
    guess_effects_and_costs,
    guess_net_benefits,
    left_out_note,
    numbers_rows,
    output_name,
    select_inputs,
)

Columns = dict[str, list[float] | list[str]]
PARS = {"pars": "--pars "}
EXAMPLE_PRICES = "20000,30000"
MIN_NUMBERED = 10  # least number of numbered rows in a column that numbers the rows


@dataclass(frozen=True)
class DrawnOutputs:
    """The arguments of `cbq.evppi` for the outputs, the columns of outputs, and remarks."""

    arguments: dict[str, Any]
    used: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class DrawTables:
    """The tables on the command line: of all columns, of effects, of costs and of inputs."""

    command: str  # such as "cbq evppi"
    table: Sheet | None
    effects: Sheet | None
    costs: Sheet | None
    inputs: Sheet | None

    @classmethod
    def read(
        cls,
        command: str,
        files: Sequence[Path | None],
        sheets: Sequence[str] | None = None,
        header_rows: Sequence[int] | None = None,
        *,
        valued: bool = True,
    ) -> DrawTables:
        """Read the files of a table, effects, costs and inputs; raise if a necessary one is missing.

        sheets, header_rows : as in `read_sheet`, one for all files, or one for each given file.
        valued : whether inputs are necessary.
        """
        table, effects, costs, inputs = files
        if (effects is None) != (costs is None):
            given, missing = ("--effects-file", "--costs-file") if costs is None else ("--costs-file", "--effects-file")
            raise ValueError(f"{given} came without {missing}: pass both.")
        if table is None and (effects is None or (valued and inputs is None)):
            options = "--effects-file, --costs-file and --inputs-file" if valued else "--effects-file and --costs-file"
            raise ValueError(f"there is no table to read: name one, as in {command} psa.csv, or pass {options}.")
        there = [i for i, path in enumerate(files) if path is not None]
        names, rows = _for_each(sheets, there, "--sheet"), _for_each(header_rows, there, "--header-row")
        read = [None if path is None else read_sheet(path, names.get(i), rows.get(i)) for i, path in enumerate(files)]
        for sheet in filter(None, read):
            for part in sheet.parts or (sheet,):
                _require_no_labels(part)
        return cls(command, *read)

    @property
    def read_sheets(self) -> list[Sheet]:
        """The tables on the command line, in order."""
        return [sheet for sheet in (self.table, self.effects, self.costs, self.inputs) if sheet is not None]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on reading the files."""
        read = self.read_sheets
        unnamed = [f"{sheet} has a column without a name, which was left out" for sheet in read if sheet.unnamed]
        return (*unnamed, *(remark for sheet in read for remark in sheet.remarks))

    @property
    def convention(self) -> Convention:
        """The convention of numbers on the command line of these files."""
        kinds = {sheet.typed_convention for sheet in self.read_sheets} - {Convention.UNKNOWN}
        return kinds.pop() if len(kinds) == 1 else Convention.UNKNOWN

    def number(self, text: str | None, option: str) -> float | None:
        """The number after an option; None if it is not set."""
        value = None if text is None else typed_number(text, self.convention, option)
        if text is not None and value is None:
            raise ValueError(f"{option} must be a number, but it is {text!r}.")
        return value

    def describe(self, outputs: str | None, effects: str | None, costs: str | None, prices: Any) -> DrawnOutputs:
        """The outputs, from options, or else from the names of columns."""
        if self.effects is not None and self.costs is not None:
            return self._pair(effects, costs, outputs, prices)
        sheet = self._main
        known = list(sheet.columns)
        names = {"--outputs": outputs, "--effects": effects, "--costs": costs}
        chosen = {option: column_names(text, known) for option, text in names.items()}
        for option, wanted in chosen.items():
            positions(wanted, known, option)
        if chosen["--outputs"] and (chosen["--effects"] or chosen["--costs"] or prices is not None):
            raise ValueError(
                "pass --outputs, which are net benefits, or --effects, --costs and --willingness-to-pay, but not both."
            )
        if not any(chosen.values()):
            return self._guessed(sheet, prices)
        if chosen["--outputs"]:
            return _described(sheet, prices, chosen["--outputs"], "")
        return _described(sheet, prices, chosen["--effects"], "", chosen["--costs"])

    def sets(self, pars: str | None, used: Sequence[str]) -> tuple[Any, Columns, tuple[str, ...]]:
        """The sets of inputs, the inputs with their columns, and notes on columns that are left out."""
        sheet = self.of_inputs
        known = list(sheet.columns)
        if pars is not None and (pars in known or pars.strip() not in ("all", "pairs")):
            sets = column_sets(pars, known)
            groups = sets if isinstance(sets, dict) else dict(enumerate(sets, start=1))
            for label, names in groups.items():
                positions(names, known, f"set {label} of --pars")
            named = dict.fromkeys(name for names in groups.values() for name in names)
            return sets, {name: sheet.values(name) for name in named}, ()
        names, left = self._inputs(sheet, used)
        if not names:
            why = in_options(left_out_note(left), PARS) if left else "No column is left"
            raise ValueError(f"{sheet} has no inputs beside the outputs. {why}.")
        pairs = pars is not None and pars.strip() == "pairs"
        stated = "" if pairs else f"--pars {shlex.quote('; '.join(names))}"
        notes = (in_options(left_out_note(left, stated), PARS),) if left else ()
        several = "pairs" if pairs else [[name] for name in names]
        return several, {name: sheet.values(name) for name in names}, notes

    def studied(self, pars: str, further: Sequence[str]) -> tuple[list[str], Columns]:
        """The inputs of a study, a single set, and the columns of these and further inputs."""
        sheet = self.of_inputs
        known = list(sheet.columns)
        sets = column_sets(pars, known) if pars.strip() else []
        if isinstance(sets, dict) or len(sets) != 1:
            raise ValueError(
                f"--pars must name the inputs of one study, as in --pars p1 or --pars 'p1, p2', but it is {pars!r}."
            )
        for option, names in (("--pars", sets[0]), ("--sd", further)):
            positions(names, known, option)
        return list(sets[0]), {name: sheet.values(name) for name in dict.fromkeys([*sets[0], *further])}

    def _inputs(self, sheet: Sheet, used: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """The columns that may be inputs, and the reasons for leaving out others."""
        empty = [name for name, texts in sheet.columns.items() if all(text.lower() in MISSING for text in texts)]
        names = [name for name in sheet.columns if name not in empty and name not in used]
        chosen, left = select_inputs(names, sheet.values, used)
        words = [name for name in chosen if _labels(sheet.columns[name], sheet.values(name))]
        left |= dict.fromkeys(words, "labels the rows") | dict.fromkeys(empty, "empty")
        return [name for name in chosen if name not in words], left

    @property
    def of_inputs(self) -> Sheet:
        """The table of inputs: a file of their own, or the table that is an argument."""
        return self.inputs or self._main

    @property
    def _main(self) -> Sheet:
        """The table that is an argument, not an option."""
        if self.table is None:
            raise ValueError(f"there is no table of outputs: name one, as in {self.command} psa.csv.")
        return self.table

    def _pair(self, effects: str | None, costs: str | None, outputs: str | None, prices: Any) -> DrawnOutputs:
        """Effects and costs from separate files, without columns that number the rows."""
        assert self.effects is not None
        assert self.costs is not None
        if outputs is not None:
            raise ValueError("--outputs is for net benefits, not for effects and costs: leave it out.")
        if prices is None:
            raise ValueError(f"effects and costs need a willingness to pay: add --wtp {EXAMPLE_PRICES}, for example.")
        tables, used = [], []
        for sheet, text, option in ((self.effects, effects, "--effects"), (self.costs, costs, "--costs")):
            known = list(sheet.columns)
            wanted = column_names(text, known) or [n for n in known if not numbers_rows(n, _read(sheet, n))]
            positions(wanted, known, option)
            tables.append(_numbers(sheet, wanted))
            used += wanted
        if len(tables[0]) == 1 or self.inputs is not None:
            used = []  # inputs in another file may have any names
        by_name = set(tables[0]) == set(tables[1])
        note = f"Decisions: effects {listed(tables[0])}, costs {listed(tables[0] if by_name else tables[1])}"
        return DrawnOutputs({"outputs": tuple(tables), "willingness_to_pay": prices}, tuple(used), (note,))

    def _guessed(self, sheet: Sheet, prices: Any) -> DrawnOutputs:
        """The outputs by the names of columns; raise, with the options to pass, if these are unclear."""
        known = [name for name in sheet.columns if not numbers_rows(name, _read(sheet, name))]
        benefits, (effects, costs) = guess_net_benefits(known), guess_effects_and_costs(known)
        if prices is None and benefits:
            same = f"--outputs {shlex.quote(','.join(benefits))}"
            how = f" (known by their names; --outputs sets others): the same as {same}"
            return _described(sheet, prices, benefits, how)
        if effects and prices is not None:
            same = f"--effects {shlex.quote(','.join(effects))} --costs {shlex.quote(','.join(costs))}"
            how = f" (known by their names; --effects and --costs set others): the same as {same}"
            return _described(sheet, prices, effects, how, costs)
        command = f"{self.command} {shlex.quote(str(sheet.path))}"
        if effects:
            raise ValueError(
                f"effects and costs ({listed([*effects, *costs])}) need a willingness to pay: {command} --wtp "
                f"{EXAMPLE_PRICES}, for example."
            )
        if self.inputs is not None and prices is None and not any(map(output_name, known)):
            return _described(sheet, prices, known, " (all columns)")
        numeric = [name for name in known if isinstance(_read(sheet, name)[-1], float)]
        raise ValueError(
            f"it is not clear which columns of {sheet} are outputs; they are {listed(known, 60)}. Name the net "
            f"benefits of the decisions, {command} --outputs {shlex.quote(','.join(numeric[-2:]))}, or effects and "
            f"costs, {command} --effects NAMES --costs NAMES --wtp {EXAMPLE_PRICES}."
        )


def _described(sheet: Sheet, prices: Any, first: list[str], how: str, costs: list[str] | None = None) -> DrawnOutputs:
    """Net benefits, or effects with costs, in one table."""
    used = [*first, *(costs or ())]
    kinds = f"net benefits {listed(first)}" if costs is None else f"effects {listed(first)}, costs {listed(costs)}"
    arguments = {"outputs": _numbers(sheet, used), "effects": None if costs is None else first, "costs": costs}
    return DrawnOutputs({**arguments, "willingness_to_pay": prices}, tuple(used), (f"Decisions: {kinds}{how}",))


def _numbers(sheet: Sheet, names: Sequence[str]) -> dict[str, list[float]]:
    """Columns of outputs as numbers; raise if a row summarises the rows above, with its line."""
    columns = {name: sheet.numbers(name) for name in names}
    values = np.array(list(columns.values())).T
    summary = find_summary(values) if np.all(np.isfinite(values)) else None
    if summary is not None:
        sheet = sheet.owner(names[0])
        raise ValueError(
            f"line {sheet.lines[summary.row]} of {sheet} holds {summary.holds} of the lines above in {listed(names)}, "
            f"which is no draw: remove {_lines(sheet, summary.draws)}."
        )
    return columns


def _lines(sheet: Sheet, first: int, last: int = -1) -> str:
    """The lines of the rows between two positions."""
    lines = sheet.lines[first], sheet.lines[last]
    return f"line {lines[0]}" if lines[0] == lines[1] else f"lines {lines[0]} to {lines[1]}"


def _require_no_labels(sheet: Sheet) -> None:
    """Raise if a column that numbers the rows holds words or nothing in the first or the last rows."""
    columns = [*sheet.columns.items(), *(("", list(column)) for column in sheet.unnamed)]
    for name, texts in columns:
        if is_number(texts[0]) and is_number(texts[-1]):
            continue  # as in most columns
        numbered = [i for i, text in enumerate(texts) if is_number(text)]
        if len(numbered) < MIN_NUMBERED or numbered[-1] - numbered[0] + 1 > len(numbered):
            continue
        if numbers_rows(name, [float(sheet.number(texts[i]) or 0.0) for i in numbered]):
            above, below = numbered[0], len(texts) - 1 - numbered[-1]
            odd = 0 if above else numbered[-1] + 1
            parts = [_lines(sheet, 0, above - 1)] * bool(above) + [_lines(sheet, -below)] * bool(below)
            raise ValueError(
                f"line {sheet.lines[odd]} of {sheet} holds {texts[odd]!r} in the column {name!r}, which numbers the "
                f"rows: a summary of draws, or a unit, is no draw. Remove {' and '.join(parts)}."
            )


def _for_each(values: Sequence[Any] | None, there: Sequence[int], option: str) -> dict[int, Any]:
    """The values of an option by the positions of files: one for all of them, or one for each."""
    given = list(values or ())
    if len(given) not in (0, 1, len(there)):
        raise ValueError(f"{option} came {len(given)} times for {len(there)} files: pass one for all, or one for each.")
    return dict(zip(there, given * len(there) if len(given) == 1 else given, strict=False))


def _read(sheet: Sheet, name: str) -> Any:
    """The values of a column; its text if they are invalid."""
    try:
        return sheet.values(name)
    except ValueError:
        return [*sheet.columns[name], None]  # of no kind


def _labels(texts: Sequence[str], values: Sequence[Any]) -> bool:
    """Whether a column holds words that hardly repeat."""
    return isinstance(values[0], str) and len(set(texts)) > max(12, len(texts) // 2)


# Names of columns


def column_names(text: str | None, known: Sequence[str]) -> list[str]:
    """The names in a comma-separated list."""
    return [name for name, _ in _pieces(text or "", known, ",") if name]


def column_sets(text: str, known: Sequence[str]) -> list[list[str]] | dict[str, list[str]]:
    """The sets in "p1; p2; p1, p2", or the named sets in "costs: c1, c2; effects: e1"."""
    sets: list[tuple[str, list[str]]] = [("", [])]
    for name, mark in _pieces(text, known, ",;:"):
        label, names = sets[-1]
        if mark == ":":
            if label or names:
                raise ValueError(f'--pars {text!r} has a colon out of place: write "costs: c1, c2; effects: e1, e2".')
            sets[-1] = (name, [])
            continue
        names += [name] * bool(name)
        if mark == ";":
            sets.append(("", []))
    filled = [(label, names) for label, names in sets if label or names]
    if not any(label for label, _ in filled):
        return [names for _, names in filled]
    labelled = {label or ", ".join(names): names for label, names in filled}
    if len(labelled) < len(filled):
        raise ValueError(f"--pars {text!r} gives two sets the same name: rename one of them.")
    return labelled


def _pieces(text: str, known: Sequence[str], marks: str) -> list[tuple[str, str]]:
    """Names, each with the mark that follows it: known names, quoted names, or text in which brackets protect marks."""
    names = "|".join(map(re.escape, sorted(filter(None, known), key=len, reverse=True))) or "(?!)"
    other = rf"(?:\([^)]*\)?|\[[^]]*\]?|\{{[^}}]*\}}?|[^{marks}])*?"
    pieces = re.finditer(rf"\s*(?:({names})|\"([^\"]*)\"|'([^']*)'|({other}))\s*(?:([{marks}])|\Z)", text)
    return [(next(filter(None, found[:-1]), "").strip(), found[-1] or "") for found in (m.groups() for m in pieces)]
