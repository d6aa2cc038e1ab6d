"""Estimators, thetas, names and numbers from the text of command-line options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from cbq._arrays import Array
from cbq.methods.registry import Estimator, create


def estimators(texts: Sequence[str] | None) -> dict[str, Estimator] | None:
    """Estimators by name, each text being one name or several separated by commas; None if there is none."""
    names = [name.strip() for text in texts or () for name in text.split(",")]
    return {name: create(name) for name in names} or None


def thetas(texts: Sequence[str] | None, p: int) -> Array | None:
    """Thetas (M, p), each text being p numbers separated by commas; None if there is none."""
    rows = [_coordinates(text) for text in texts or ()]
    for text, row in zip(texts or (), rows, strict=True):
        if len(row) != p:
            remedy = "repeat the option for each theta" if p == 1 else f"write it as {','.join(['1.5'] * p)}"
            raise ValueError(f"theta {text} has {len(row)} coordinates, but p = {p}: {remedy}.")
    return np.array(rows) if rows else None


def options(texts: Sequence[str] | None) -> dict[str, Any]:
    """Options from key=value, where a value that is not JSON (a number, true, a list) is a string."""
    found: dict[str, Any] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip().isidentifier():
            raise ValueError(f"--option must be key=value, as in --option dim=3, but it is {text!r}.")
        try:
            found[key.strip()] = json.loads(value)
        except ValueError:
            found[key.strip()] = value
    return found


def names(text: str | None, separator: str = ",") -> list[str]:
    """The non-empty names between separators."""
    return [part.strip() for part in (text or "").split(separator) if part.strip()]


def name_sets(text: str) -> list[list[str]]:
    """Sets of names: names are separated by commas, sets by semicolons."""
    return [names(part) for part in names(text, ";")]


def prices(text: str | None) -> float | list[float] | None:
    """The willingness to pay: one number, or a list of several that are separated by commas."""
    if text is None:
        return None
    try:
        found = [float(part) for part in names(text)]
    except ValueError as error:
        raise ValueError(f"--willingness-to-pay must be numbers separated by commas, but it is {text!r}.") from error
    return found[0] if len(found) == 1 else found


def _coordinates(text: str) -> list[float]:
    try:
        row = [float(number) for number in text.split(",")]
    except ValueError as error:
        raise ValueError(f"theta must be a number, or several separated by commas, but it is {text!r}.") from error
    if not np.all(np.isfinite(row)):
        raise ValueError(f"theta must be finite, but it is {text!r}.")
    return row
