"""The table of results that `cbq tell` reads."""

from __future__ import annotations

import re
from math import isfinite, nan

from cbq.checkpoint import Outputs
from cbq.cli.cells import MISSING
from cbq.cli.sheets import Sheet
from cbq.runs import RefusedResult, Session

NOT_FAILED = ("", "0", "false", "no")  # in the column `failed`


def tell_results(table: Sheet, session: Session) -> None:
    """Tell a session all results of a table; errors name the line."""
    names, outputs = _value_columns(table, session)
    values: dict[int, list[float]] = {}
    failures: dict[int, str] = {}
    lines: dict[int, int] = {}
    reasons = table.columns.get("failed", [""] * len(table.lines))
    for i, line in enumerate(table.lines):
        t = _id(table, i)
        if t in lines:
            raise ValueError(f"{table}, line {line}: run {t} is in line {lines[t]}, too: tell each run once.")
        lines[t] = line
        numbers = [_value(table, name, i) for name in names]
        if reasons[i].strip().lower() not in NOT_FAILED:
            failures[t] = reasons[i].strip()
        elif names and all(map(isfinite, numbers)):
            values[t] = numbers
        else:
            failures[t] = "no value"
    if values and session.outputs not in (None, outputs):
        found, earlier = _columns(outputs), _columns(session.outputs or ())
        raise ValueError(f"{table.path} has the columns {found}, but earlier results had {earlier}.")
    told = [numbers if outputs else numbers[0] for numbers in values.values()]
    try:
        session.tell(list(values), told or None, failures=failures)
    except RefusedResult as error:
        raise ValueError(f"{table.path}, line {lines[error.id]}: {error}") from error


def _value_columns(sheet: Sheet, session: Session) -> tuple[list[str], Outputs]:
    """The columns with values, in order, and the shape of a value; no columns if all runs failed."""
    columns, named = sheet.columns, session.names.f if session.names.are_given("f") else ()
    present = ", ".join(columns)
    if "id" not in columns:
        raise ValueError(f"{sheet} must have a column id, but it has {present}.")
    if named and set(named) <= set(columns):
        return list(named), () if len(named) == 1 and session.outputs != (1,) else (len(named),)
    several = [name for name in columns if re.fullmatch(r"f_\d+", name)]
    if "f" in columns and not several:
        return ["f"], ()
    names = [f"f_{c}" for c in range(len(several))]
    if "f" in columns or set(names) != set(several) or not (several or "failed" in columns):
        own = f"{'columns' if len(named) > 1 else 'a column'} {', '.join(named)}, or " if named else ""
        raise ValueError(
            f"{sheet} must have {own}a column f, or f_0, f_1, ... for several outputs, but it has {present}."
        )
    return names, (len(names),)


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
    number = nan if text.lower() in MISSING else sheet.number(text)
    if number is None:
        raise ValueError(
            f"{sheet}, line {sheet.lines[i]}: {name} must be a number, or empty where f failed, not {text!r}."
        )
    return number


def _columns(outputs: Outputs) -> str:
    """The names of the columns of a value."""
    return ", ".join(f"f_{c}" for c in range(outputs[0])) if outputs else "f"
