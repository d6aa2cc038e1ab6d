"""Collecting samples of a problem as a command line asks for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import typer

from cbq.cli.source import Source
from cbq.cli.words import thetas
from cbq.collect.draws import CollectDesign
from cbq.problem import Problem
from cbq.samples import Samples

DEFAULT_T = 15


@dataclass(frozen=True)
class Sampling:
    """What `Problem.collect` is asked for; None leaves it as it comes."""

    T: int | None
    N: int
    seed: int
    design: str
    theta: list[str] | None = None
    workers: int | None = None
    checkpoint: Path | None = None
    batch: int | None = None
    on_error: str | None = None

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "checkpoint": None if self.checkpoint is None else str(self.checkpoint)}

    def collect(self, problem: Problem, source: Source) -> Samples:
        """The samples. Errors in the user's file are reported with its lines."""
        theta = thetas(self.theta, problem.p)
        T = DEFAULT_T if self.T is None and theta is None else self.T
        asked = {
            "theta": theta,
            "executor": self.workers,
            "checkpoint": self.checkpoint,
            "batch": self.batch,
            "on_error": self.on_error,
        }
        given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        try:
            with source.blamed():
                return problem.collect(T, self.N, rng=self.seed, design=cast(CollectDesign, self.design), **given)
        except KeyboardInterrupt:
            if self.checkpoint is not None:
                typer.echo(f"stopped: the same command goes on from {self.checkpoint}.", err=True)
            raise
