"""What a fit says at some thetas, and how far it is from the truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cbq._arrays import Array
from cbq.cli.tables import show, write_csv
from cbq.comparison.methods import REFUSALS, reason
from cbq.comparison.scores import against_truth
from cbq.comparison.truth import Judge
from cbq.fit.base import Fit
from cbq.problem import Problem
from cbq.samples import Samples

SHOWN = 11  # rows of a printed table, at most
JUDGED, SEED = 200, 20240618  # thetas of the prior that a fit is compared with the truth at


@dataclass(frozen=True, eq=False)
class Estimate:
    """Named columns of numbers for each output, (M, C), at thetas (M, p)."""

    theta: Array
    columns: dict[str, Array]
    outputs: int | None  # their number C, None where f has no axis of outputs
    note: str = ""

    def show(self, *, everything: bool = False) -> None:
        """Print the table; not all of its rows when there are many, unless everything is asked for."""
        M = len(self.theta)
        rows = np.linspace(0, M - 1, M if everything else min(M, SHOWN)).round().astype(int)
        several = self.outputs is not None
        header = [*self._names(), *["output"] * several, *self.columns]
        cells = [
            [*map(_short, self.theta[i]), *[str(c)] * several, *(_short(v[i, c]) for v in self.columns.values())]
            for i in rows
            for c in range(self.outputs or 1)
        ]
        show(header, cells)

    def write(self, path: Path) -> None:
        """A file with a row for each theta."""
        suffixes = [""] if self.outputs is None else [f"_{c}" for c in range(self.outputs)]
        header = [*self._names(), *(f"{name}{suffix}" for name in self.columns for suffix in suffixes)]
        write_csv(path, header, np.hstack([self.theta, *self.columns.values()]).tolist())

    def _names(self) -> list[str]:
        p = self.theta.shape[1]
        return ["theta"] if p == 1 else [f"theta_{j}" for j in range(p)]


def estimate(fit: Fit, theta: Array, level: float, problem: Problem | None = None) -> Estimate:
    """The mean, standard deviation and interval of a fit at theta (M, p), and the truth where the problem knows it."""
    try:
        mean, std = fit.predict(theta, return_std=True)
        low, high = fit.interval(theta, level)
        columns, note = {"mean": mean, "std": std, "lower": low, "upper": high}, ""
    except REFUSALS as error:  # methods that know no uncertainty say so
        columns, note = {"mean": np.asarray(fit.predict(theta))}, f"There are no intervals: {reason(error)}."
    if problem is not None and problem.has_exact:
        columns["truth"] = problem.exact(theta)
    shaped = {name: np.reshape(values, (len(theta), -1)) for name, values in columns.items()}
    return Estimate(theta, shaped, fit.C, note)


def against(problem: Problem, samples: Samples, fit: Fit, level: float) -> str:
    """A line on how far the fit is from the truth at thetas of the prior."""
    judge = Judge(problem, problem.prior.sample(JUDGED, SEED), [samples])
    scores = against_truth(fit, judge.targets(samples), samples.C or 1, level)
    errors = ", ".join(f"{error:.3g}" for error in scores.error)
    held = "" if np.any(np.isnan(scores.coverage)) else _held(scores.coverage, level)
    place = f"{JUDGED} thetas of the prior" if not scores.note.startswith("judged") else "the observed thetas"
    return f"RMSE against the truth at {place}: {errors}{held}."


def _held(coverage: Array, level: float) -> str:
    shares = ", ".join(f"{share:.0%}" for share in coverage)
    return f"; {shares} of truths in {100 * level:.4g}% intervals"


def _short(value: float) -> str:
    return f"{value:.6g}"
