"""The table of results that `cbq tell` reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from cbq.checkpoint import Outputs
from cbq.cli.sheets import Sheet
from cbq.runs import RefusedResult, Session

MISSING = ("", "na", "nan")  # texts of missing values
NOT_FAILED = ("", "0", "false", "no")  # in the column `failed`


def tell_results(table: Sheet, session: Session) -> None:
    """Tell a session all results of a table; errors name the line."""
    read = _read(table, session)
    if read.values and session.outputs not in (None, read.outputs):
        raise ValueError(
            f"{table.path} has the columns {_columns(read.outputs)}, but earlier results had "
            f"{_columns(session.outputs or ())}."
        )
    try:
        values = [numbers if read.outputs else numbers[0] for numbers in read.values.values()]
        session.tell(list(read.values), values or None, failures=read.failures)
    except RefusedResult as error:
        raise ValueError(f"{table.path}, line {read.lines[error.id]}: {error}") from error


@dataclass(frozen=True)
class _Results:
    """Results by the ids of runs: values, C numbers each; failures; and the lines of the file they are in."""

    outputs: Outputs
    values: dict[int, list[float]]
    failures: dict[int, str]
    lines: dict[int, int]


def _read(sheet: Sheet, session: Session) -> _Results:
    names, outputs = _named_columns(sheet, session) or _value_columns(sheet, session.names.f)
    read = _Results(outputs, {}, {}, {})
    reasons = sheet.columns.get("failed", [""] * len(sheet.lines))
    for i, line in enumerate(sheet.lines):
        t = _id(sheet, i)
        if t in read.lines:
            raise ValueError(f"{sheet}, line {line}: run {t} is in line {read.lines[t]}, too: tell each run once.")
        read.lines[t] = line
        numbers = [_value(sheet, name, i) for name in names]
        if reasons[i].strip().lower() not in NOT_FAILED:
            read.failures[t] = reasons[i].strip()
        elif names and all(map(isfinite, numbers)):
            read.values[t] = numbers
        else:
            read.failures[t] = "no value"
    return read


def _named_columns(sheet: Sheet, session: Session) -> tuple[list[str], Outputs] | None:
    """The columns with the names of f, and the shape of a value; None if the file does not have them."""
    if "id" not in sheet.columns:
        raise ValueError(f"{sheet} must have a column id, but it has {', '.join(sheet.columns)}.")
    names = session.names
    if not names.are_given("f") or not set(names.f) <= set(sheet.columns):
        return None
    single = len(names.f) == 1 and session.outputs != (1,)
    return list(names.f), () if single else (len(names.f),)


def _value_columns(sheet: Sheet, named: Sequence[str]) -> tuple[list[str], Outputs]:
    """The names of the columns with values, in order, and the shape of a value; no names if all runs failed.

    named: the problem's names of the outputs of f.
    """
    several = [name for name in sheet.columns if re.fullmatch(r"f_\d+", name)]
    names = [f"f_{c}" for c in range(len(several))]
    if "f" in sheet.columns and not several:
        return ["f"], ()
    if (not several and "failed" not in sheet.columns) or set(names) != set(several) or "f" in sheet.columns:
        raise ValueError(f"{sheet} must have {_wanted(named)}, but it has {', '.join(sheet.columns)}.")
    return names, (len(names),)


def _wanted(named: Sequence[str]) -> str:
    """The columns that a file of results must have."""
    columns = "a column f, or f_0, f_1, ... for several outputs"
    several = f"columns {', '.join(named)}" if len(named) > 1 else f"a column {', '.join(named)}"
    return f"{several}, or {columns}" if named and named[0] not in ("f", "f_0") else columns


def _id(sheet: Sheet, i: int) -> int:
    """The id in row i."""
    text = sheet.columns["id"][i]
    number = sheet.number(text)
    if number is None or not number.is_integer():
        raise ValueError(f"{sheet}, line {sheet.lines[i]}: the id of a run is a whole number, not {text!r}.")
    return int(number)


def _value(sheet: Sheet, name: str, i: int) -> float:
    """The value of an output in row i, NaN if it is missing."""
    text = sheet.columns[name][i].strip()
    number = float("nan") if text.lower() in MISSING else sheet.number(text)
    if number is None:
        raise ValueError(
            f"{sheet}, line {sheet.lines[i]}: {name} must be a number, or empty where f failed, not {text!r}."
        )
    return number


def _columns(outputs: Outputs) -> str:
    """The names of the columns of a value."""
    return ", ".join(f"f_{c}" for c in range(outputs[0])) if outputs else "f"
