"""Numbers, names and settings from the words of a command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cbq._arrays import Array
from cbq.comparison.methods import Method
from cbq.methods import CBQ, KLSMC, LSMC, MOBQ, Auto, ImportanceSampling, MonteCarlo

METHODS: dict[str, Callable[[], Method]] = {
    "auto": Auto,
    "cbq": CBQ,
    "mobq": MOBQ,
    "lsmc": LSMC,
    "klsmc": KLSMC,
    "importance-sampling": ImportanceSampling,
    "monte-carlo": MonteCarlo,
    "paper": CBQ.paper,
}


def method(name: str) -> Method:
    """The method of that name, with its defaults."""
    if name not in METHODS:
        raise ValueError(f"there is no method {name!r}: the methods are {', '.join(METHODS)}.")
    return METHODS[name]()


def methods(names: Sequence[str] | None) -> dict[str, Method] | None:
    """Methods by name, each of `names` being one or several with commas between them; None for none."""
    chosen = [name.strip() for several in names or () for name in several.split(",")]
    return {name: method(name) for name in chosen} or None


def thetas(words: Sequence[str] | None, p: int) -> Array | None:
    """Thetas (M, p), each of the words being p numbers with commas between them; None for none."""
    rows = [_numbers(word) for word in words or ()]
    for word, row in zip(words or (), rows, strict=True):
        if len(row) != p:
            way = "write --theta once for each theta" if p == 1 else f"write it as {','.join(['1.5'] * p)}"
            raise ValueError(f"theta {word} has {len(row)} coordinates, but here a theta has {p}: {way}.")
    return np.array(rows) if rows else None


def options(words: Sequence[str] | None) -> dict[str, Any]:
    """From key=value: a value that is JSON (a number, true, a list) is taken as such, any other as a string."""
    found: dict[str, Any] = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        if not equals or not key.strip().isidentifier():
            raise ValueError(f"an option must be key=value, as in --option dim=3, but it is {word!r}.")
        try:
            found[key.strip()] = json.loads(value)
        except ValueError:
            found[key.strip()] = value
    return found


def _numbers(word: str) -> list[float]:
    try:
        row = [float(number) for number in word.split(",")]
    except ValueError as error:
        raise ValueError(f"theta must be a number, or several with commas between them, but it is {word!r}.") from error
    if not np.all(np.isfinite(row)):
        raise ValueError(f"theta must be finite, but it is {word!r}.")
    return row
