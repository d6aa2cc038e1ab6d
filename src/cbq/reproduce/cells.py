"""Cells: what one evaluation of an experiment is, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]  # of results: a method, named numbers, and a note where something is missing


@dataclass(frozen=True)
class Cell:
    """A problem at one size, and the methods that are measured on the same samples of it.

    thetas : of the prior that errors are taken at.
    options : of the problem, or of the experiment where it measures something else than methods.
    seeds : the largest number of seeds, for cells that are expensive; None for all that are asked for.
    seconds : that one seed is expected to take on one core.
    """

    problem: str
    T: int
    N: int
    methods: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    design: str = "iid"
    seeds: int | None = None
    seconds: float = 0.1
    thetas: int = 300

    @property
    def settings(self) -> Row:
        """What tells the cell from others, in columns of a table; options are columns of their own."""
        return {"problem": self.problem, **dict(self.options), "design": self.design, "T": self.T, "N": self.N}

    @property
    def key(self) -> str:
        """The same as a text, with the methods: cells of the same key give the same results."""
        return json.dumps({**self.settings, "methods": self.methods, "thetas": self.thetas}, sort_keys=True)

    def count(self, seeds: int) -> int:
        """How many seeds are evaluated where so many are asked for."""
        return seeds if self.seeds is None else min(seeds, self.seeds)


def options(given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Options as a cell holds them."""
    return tuple(sorted(given.items()))
