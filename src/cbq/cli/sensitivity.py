"""`cbq sensitivity`: which inputs matter, from a saved fit or from a table of draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from cbq.cli import options
from cbq.cli.draws import DrawTables, column_names
from cbq.cli.source import ProblemSource, recorded_source
from cbq.cli.tables import check_writable, command_line, write_columns, write_figure
from cbq.fit import load
from cbq.indices import Sensitivity
from cbq.indices import sensitivity as sensitivity_indices
from cbq.linalg import engine as use_engine

FIT = ".cbq"  # the end of the name of a saved fit; other files are tables


@dataclass(frozen=True)
class Explained(options.Computing):
    """The fit or the table, and its inputs."""

    source: Path = options.argument(
        "Name a file that `cbq run` or fit.save wrote (.cbq), or a table of draws (.csv, .xlsx, .ods or .parquet).",
        metavar="FILE",
    )
    theta: list[str] | None = options.setting(
        "For a fit, take x alone as random, at this theta. Repeat it for others.",
        "--theta",
        metavar="THETA",
        shown="theta and x together",
    )
    problem: str | None = options.setting(
        "For a fit, name its problem, or path/to/file.py:attribute.",
        "--problem",
        metavar="PROBLEM",
        shown="from run.json beside FILE",
    )
    option: list[str] | None = options.setting(options.PROBLEM_OPTION, "--option", metavar="KEY=VALUE")
    outputs: str | None = options.setting("For a table, name the columns of outputs: y1, y2.", metavar="NAMES")
    group: list[str] | None = options.setting(
        'Take inputs together, "costs: c1, c2". Repeat it for other groups.', "--group", metavar="GROUP"
    )
    second_order: bool = options.setting("Print second-order indices, too.", "--second-order", default=False)
    shapley: bool = options.setting("Estimate Shapley effects, too.", "--shapley", default=False)
    seed: int = options.setting(options.SEED, default=0, metavar="INTEGER", min=0)
    out: Path | None = options.setting(
        "Write the table to this file, .csv, .xlsx, .ods or .parquet, and beside it a chart and a report.",
        metavar="FILE",
        dir_okay=False,
    )

    def check(self) -> None:
        """Raise if options do not go together, or results would overwrite the source."""
        options.check(self.level, None if self.out is None else self.out.absolute().parent, self.engine)
        others = {"--theta": self.theta, "--problem": self.problem, "--option": self.option}
        wrong = ["--outputs"] * bool(self.outputs) if self.is_fit else [name for name, value in others.items() if value]
        if wrong:
            raise ValueError(f"{wrong[0]} is for a {'table' if self.is_fit else 'fit'}, but {self.source} is none.")
        if not self.is_fit and not self.outputs:
            raise ValueError("a table needs the names of its outputs: pass --outputs y1,y2.")
        if self.out is not None:
            if self.source.resolve() in {each.resolve() for each in self._written}:
                raise ValueError(f"--out {self.out} would overwrite {self.source}: name another file.")
            if self.out in self._written[1:]:
                raise ValueError(f"--out {self.out} names the table; the chart is a .png, and the report an .html.")
            check_writable(self.out)

    @property
    def is_fit(self) -> bool:
        """Whether the file is a saved fit."""
        return self.source.suffix == FIT

    @property
    def _written(self) -> list[Path]:
        assert self.out is not None
        return [self.out, self.out.with_suffix(".png"), self.out.with_suffix(".html")]

    def estimate(self, command: str) -> Sensitivity:
        """The indices."""
        with use_engine(self.engine):
            return self._of_fit() if self.is_fit else self._of_table(command)

    def _of_fit(self) -> Sensitivity:
        source = ProblemSource.optional(self.problem, self.option) or recorded_source(self.source)
        if source is None:
            raise ValueError(
                f"{self.source} does not hold the distribution of the inputs, and there is no run.json beside it: pass "
                f"--problem NAME or --problem path/to/file.py:attribute."
            )
        problem = source.load()
        with source.locating_errors():
            fit = load(self.source, family=problem.family)
            thetas = options.thetas(self.theta, fit.p)
            where: dict[str, Any] = {"prior": problem.prior} if thetas is None else {"theta": thetas}
            names = (*fit.names.theta, *fit.names.x)
            return sensitivity_indices(fit, **where, **self._asked(names))

    def _of_table(self, command: str) -> Sensitivity:
        draws = DrawTables.read(command, (self.source, None, None, None))
        described = draws.describe(self.outputs, None, None, None)
        _, inputs, notes = draws.sets(None, described.used)
        found = sensitivity_indices(described.arguments["outputs"], inputs=inputs, **self._asked(tuple(inputs)))
        return replace(found, notes=(*found.notes, *notes, *draws.notes))

    def _asked(self, names: tuple[str, ...]) -> dict[str, Any]:
        """The arguments that fits and tables share."""
        groups = {}
        for text in self.group or ():
            label, colon, members = text.partition(":")
            if not colon or not label.strip():
                raise ValueError(f'--group must be a name and inputs, "costs: c1, c2", but it is {text!r}.')
            groups[label.strip()] = column_names(members, list(names))
        same = {"second_order": self.second_order, "shapley": self.shapley, "level": self.level, "rng": self.seed}
        return {"groups": groups or None, **same}


def sensitivity(context: typer.Context, explained: Explained) -> None:
    """Estimate which inputs matter: shares of the variance of f.

    From a saved fit of `mobq`, without further runs, or from a table of draws of inputs and outputs. Prints the
    first-order and the total index of each input with intervals: the share of the variance that the input explains
    alone, and the share that is lost without it. With --out, writes the table, and beside it a chart (.png) and a
    self-contained report (.html).

    \b
    Examples:
      cbq sensitivity out/fit.cbq
      cbq sensitivity out/fit.cbq --theta 3.5 --shapley
      cbq sensitivity draws.csv --outputs cost --group "prices: p1, p2" --out indices.csv
    """
    explained.check()
    found, out = explained.estimate(context.command_path), explained.out
    typer.echo(str(found))
    if found.second_order is not None:
        typer.echo(f"\n{found.second_order}")
    if out is not None:
        write_columns(out, found.to_columns())
        chart, report = write_figure(out.with_suffix(".png"), found.plot), out.with_suffix(".html")
        found.report(report, repeat=command_line(context))
        typer.echo(f"Written: {out}, {chart}, {report}.")
