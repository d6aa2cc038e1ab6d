"""The output of a fit: a table at a grid of thetas, a figure, a report, and the error against the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import typer

from cbq.cli.tables import show, write_columns, write_figure
from cbq.common import Array, digits_apart, evenly, finite
from cbq.comparison import KnownTruth, score_against_truth
from cbq.estimators import REFUSALS, reason
from cbq.fit import FRESH, TAIL, Fit, FitReport, warn_of
from cbq.problems.problem import Problem
from cbq.runs import AdaptiveAnswer, answer_page
from cbq.samples import Names, Samples, by_theta, measures_at

MAX_PRINTED = 11  # thetas in a printed table
LINE_POINTS = 61  # thetas of a grid for p = 1
PRIOR_DRAWS, PRIOR_SEED = 100, 20240617  # thetas drawn from the prior for a table, for p > 1
TEST_DRAWS, TEST_SEED = 200, 20240618  # thetas drawn from the prior for the error against the truth


@dataclass(frozen=True, eq=False)
class Estimate:
    """A table of estimates at thetas (M, p): named columns, each (M, C).

    C : the number of outputs, or None if f has no axis of outputs.
    names : of theta and f.
    note : the reason for missing columns.
    """

    theta: Array
    columns: dict[str, Array]
    C: int | None
    names: Names
    note: str = ""

    def show(self, *, all_rows: bool = False) -> None:
        """Print the table, with a row for each theta and output, for at most `MAX_PRINTED` thetas unless `all_rows`."""
        M, several = len(self.theta), self.C is not None
        columns = list(by_theta(self.theta, self.columns, self.names))
        quantities = list(self.columns) if several else columns[self.theta.shape[1] :]
        outputs = self.names.f if self.names.are_given("f") else [str(c) for c in range(self.C or 1)]
        digits = [digits_apart(column) for column in self.theta.T] if M else []
        rows = [
            [
                *(f"{value:.{n}g}" for value, n in zip(self.theta[i], digits, strict=True)),
                *[output] * several,
                *(f"{q[i, c]:.6g}" for q in self.columns.values()),
            ]
            for i in (range(M) if all_rows else evenly(M, MAX_PRINTED))
            for c, output in enumerate(outputs)
        ]
        show([*self.names.theta, *["output"] * several, *quantities], rows)

    def write(self, path: Path) -> None:
        """Write the table, with a row for each theta and columns for each output."""
        write_columns(path, by_theta(self.theta, self.columns, self.names))


@dataclass(frozen=True, eq=False)
class Report:
    """The output of the fit to samples of a problem.

    at : the thetas (M, p) of the table (default: a grid).
    own_thetas : whether the user chose the observed thetas.
    """

    problem: Problem
    samples: Samples
    fit: Fit
    level: float
    at: Array | None = None
    own_thetas: bool = False

    @cached_property
    def table(self) -> Estimate:
        """The estimate at the given thetas, or on a grid, or at the observed thetas if the fit predicts only these."""
        grid = table_grid(self.problem, self.fit, own_thetas=self.own_thetas) if self.at is None else self.at
        try:
            return estimate(self.fit, grid, self.level, self.problem)
        except REFUSALS:
            if self.at is not None:
                raise
            return estimate(self.fit, observed(self.fit), self.level, self.problem)

    def show(self) -> None:
        """Print the table, and below it its note and the error against the truth."""
        self.table.show(all_rows=self.at is not None)
        known = self.problem.has_exact
        error = error_against_truth(self.problem, self.samples, self.fit, self.level) if known else ""
        typer.echo("\n".join(["", *filter(None, [self.table.note, error])]).rstrip("\n"))

    def write(self, folder: Path, draw: Callable[..., Any] | None = None) -> list[str]:
        """Write the table and the figure, drawn by `draw` (default: fit.plot), and return the paths."""
        self.table.write(folder / "estimate.csv")
        drawn = write_figure(folder / "figure.png", lambda: self._figure(draw or self.fit._quiet.plot))
        return [str(folder / "estimate.csv"), drawn]

    def _figure(self, draw: Callable[..., Any]) -> Any:
        """A figure over theta, with the truth if it is known."""
        shown: dict[str, Any] = {"level": self.level, "truth": self._truth}
        try:
            return draw(prior=None if self.own_thetas else self.problem.prior, **shown)
        except REFUSALS:  # raised by fits that predict at the observed thetas only
            return draw(theta=observed(self.fit), **shown)

    @property
    def _truth(self) -> Callable[[Array], Array] | None:
        return self.problem.exact if self.problem.has_exact else None

    def write_report(
        self, path: Path, command: str, record: Mapping[str, str], answer: AdaptiveAnswer | None = None
    ) -> str:
        """Write the report, and return its path or the reason for its absence.

        command : repeats the run. answer : of an adaptive run.
        """
        known: dict[str, Any] = {"repeat": command, "name": self.problem.name, "record": record}
        try:
            if answer is not None:
                page = answer_page(answer, self._truth, **known)
            else:
                page = FitReport(self.fit, self.samples, self.problem.prior, self._truth, self.level, **known).page
        except REFUSALS as error:  # a run does not fail because of its report
            return f"no {path.name}: {reason(error)}"
        page.write(str(path))
        return str(path)


def estimate(fit: Fit, theta: Array, level: float, problem: Problem | None = None) -> Estimate:
    """The mean, standard deviation and interval of I at theta (M, p), and the truth if the problem has it."""
    quiet = fit._quiet  # the fit has raised its warnings already
    try:
        mean, std = quiet.predict(theta, return_std=True)
        low, high = quiet.interval(theta, level)
        columns, note = {"mean": mean, "std": std, "lower": low, "upper": high}, ""
    except REFUSALS as error:  # raised by fits without standard errors
        columns, note = {"mean": np.asarray(quiet.predict(theta))}, f"There are no intervals: {reason(error)}."
    warn_of(fit._beyond_findings(theta, tolerated=FRESH))  # other findings are columns of marks
    if problem is not None and problem.has_exact:
        columns["truth"] = problem.exact(theta)
    columns |= {name: np.repeat(values.astype(np.float64), fit.C or 1) for name, values in fit._marks(theta).items()}
    shaped = {name: np.reshape(values, (len(theta), -1)) for name, values in columns.items()}
    return Estimate(theta, shaped, fit.C, fit.names, note)


def error_against_truth(problem: Problem, samples: Samples, fit: Fit, level: float) -> str:
    """One line on the error of a fit and the coverage of its intervals at thetas drawn from the prior."""
    truth = KnownTruth(problem, problem.prior.sample(TEST_DRAWS, TEST_SEED), [samples])
    # The table marks thetas beyond the observed ones.
    scores = score_against_truth(truth.references(samples), samples.C or 1, (level,), fit._quiet)
    if np.any(np.isnan(scores.error)):
        return f"There is no RMSE against the truth: {scores.note}."
    thetas = "the observed thetas" if scores.observed_only else f"{TEST_DRAWS} thetas drawn from the prior"
    errors = ", ".join(f"{error:.3g}" for error in scores.error)
    shares = ", ".join(f"{share:.0%}" for share in scores.coverage[0])
    known = not np.any(np.isnan(scores.coverage))
    coverage = f"; {shares} of {100 * level:.4g}% intervals contain the truth" if known else ""
    return f"RMSE against the truth at {thetas}: {errors}{coverage}."


def table_grid(problem: Problem, fit: Fit, *, own_thetas: bool) -> Array:
    """The thetas (M, p) of a table: a regular grid for p = 1, draws from the prior otherwise.

    own_thetas : whether the user chose the observed thetas; the grid then covers their range rather than the prior.
    """
    if fit.p > 1:
        return problem.prior.sample(PRIOR_DRAWS, PRIOR_SEED)
    low, high = (fit.theta.min(), fit.theta.max()) if own_thetas else _prior_range(problem, fit)
    return np.linspace(low, high, LINE_POINTS if low < high else 1)[:, None]


def observed(fit: Fit) -> Array:
    """The observed thetas in order, (T, p), at which every fit predicts."""
    return fit.theta[np.lexsort(fit.theta.T[::-1])]


def _prior_range(problem: Problem, fit: Fit) -> list[float]:
    """The ends of a grid for p = 1: of the prior if x has a measure there, otherwise quantiles of the prior."""
    try:
        quantiles = problem.prior.transport([[TAIL], [1 - TAIL]]).ravel()
    except (NotImplementedError, TypeError, ValueError):
        return [float(fit.theta.min()), float(fit.theta.max())]
    ends = np.ravel(problem.prior.support)
    return [float(b if _has_measure(problem, b) else a) for a, b in zip(quantiles, ends, strict=True)]


def _has_measure(problem: Problem, theta: float) -> bool:
    """Whether theta is finite and the family has a measure there."""
    try:
        with np.errstate(all="ignore"):
            measures_at(problem.family, finite([[theta]], "theta"))
    except ValueError:
        return False
    return True
