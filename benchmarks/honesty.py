"""Whether intervals hold where users live, and whether a fit says so where they do not.

Run: .venv/bin/python benchmarks/honesty.py [--seeds 20] [--rows tails rare] [--methods Auto CBQ] [--out PATH.json]
     .venv/bin/python benchmarks/honesty.py --before OLD.json --after NEW.json

Rows are small budgets, many thetas with few points, heavy tails, rare events, random simulators, thetas beyond those
observed, few thetas, and the problems of the paper. For each row and method the table has the coverage of 95% and 50%
intervals over thetas and seeds, the median and the worst RMSE over seeds in units of the spread of I over the test
thetas, the share of fits whose coverage at 95% is under 0.75, and the share of fits that warn (`cbq.FitWarning`: of the
samples or the fit, or of most test thetas as being beyond the observed ones). The targets: a row covers 0.88 or more,
or 95% of its fits warn.
`--before` and `--after` put two saved runs side by side, such as those of two commits.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

import cbq
from _common import TEST_SEED, OneThreadPool, met, positive_integer, print_record, share_inside, with_progress
from cbq.measures import Gaussian, LogNormal, StudentT, Uniform
from choice import CASES as CHOICE_CASES
from choice import LEVELS, line, of_x

M = 200  # test thetas
LEAST_COVERAGE, ENOUGH_WARNINGS = 0.88, 0.95
FAILED = 0.75  # the coverage of a fit, below which it has failed
METHODS: dict[str, Callable[[], Any]] = {"Auto": cbq.Auto, "CBQ": cbq.CBQ, "MOBQ": cbq.MOBQ}
Truth = Callable[[np.ndarray], np.ndarray]
SMALL = ("linear", "sir", "butterfly", "health", "abs", "sin", "root", "exp, d = 2", "call, d = 3", "turns")


@dataclass(frozen=True)
class Row:
    """A problem and its size, (T, N), with iid or Sobol points.

    truth: a function of theta (M, p), None for that of the problem. theta: where intervals are tested, None for draws
    from the prior.
    """

    problem: Callable[[], cbq.Problem]
    T: int
    N: int
    design: str = "iid"
    truth: Truth | None = None
    theta: np.ndarray | None = None


def rows() -> dict[str, dict[str, Row]]:
    """All rows, by group and name."""
    return {
        "small": {
            f"{name} ({T}, {N}) {design}": _named(name, T, N, design)
            for name in SMALL
            for T, N in ((8, 5), (10, 10), (16, 10))
            for design in ("iid", "sobol")
        },
        "paper": {
            f"{name} ({n}, {n}) {design}": _named(name, n, n, design)
            for name in ("linear", "sir", "butterfly", "health")
            for n in (10, 20, 50)
            for design in ("iid", "sobol")
        },
        "worst": {
            f"{name} ({T}, {N}) iid": _named(name, T, N, "iid")
            for name, T, N in (("linear", 50, 50), ("sir", 15, 40), ("butterfly", 20, 50))
        },
        "thetas": {
            f"butterfly ({T}, {N}) iid": _named("butterfly", T, N, "iid")
            for T, N in ((100, 10), (300, 8), (600, 8), (20, 50))
        },
        "tails": {
            "Student-t, df 2.5, x^2": _row(_students(2.5), 20, 30, lambda t: 5.0 + t[:, 0] ** 2),
            "Student-t, df 5, x^2": _row(_students(5.0), 20, 30, lambda t: 5.0 / 3.0 + t[:, 0] ** 2),
            "LogNormal(theta, std=1), x": _row(_lognormal(1.0), 20, 30, lambda t: np.exp(t[:, 0] + 0.5)),
            "LogNormal(theta, std=2), x": _row(_lognormal(4.0), 20, 30, lambda t: np.exp(t[:, 0] + 2.0)),
            "N(theta, 1), exp(2 x)": _row(_of_x(_exp2), 20, 30, lambda t: np.exp(2 * t[:, 0] + 2.0)),
        },
        "rare": {
            "1e4 1{x > 6}": _row(_of_x(_far), 20, 30, lambda t: 1e4 * norm.cdf(t[:, 0] - 6.0)),
            "P(X > 2.5) (20, 20)": _row(_of_x(_above), 20, 20, lambda t: norm.cdf(t[:, 0] - 2.5)),
            "P(X > 2.5) (10, 10)": _row(_of_x(_above), 10, 10, lambda t: norm.cdf(t[:, 0] - 2.5)),
            "P(X > 7), none seen": _row(_of_x(_never), 20, 20, lambda t: norm.cdf(t[:, 0] - 7.0)),
        },
        "random": {f"sin(x) + N(0, 1) (20, {N})": _row(_random_sine, 20, N, _sine_truth) for N in (32, 128, 1024)}
        | {f"sir, noise 30% (20, {N})": Row(_random_sir, 20, N) for N in (30, 128, 1024)},
        "beyond": {
            "100 theta": _row(_of_x(np.sin), 20, 20, _sine_truth, np.linspace(10.0, 300.0, M)[:, None]),
            "3.2 to 6 after 0 to 3": _row(_of_x(np.sin), 20, 20, _sine_truth, np.linspace(3.2, 6.0, M)[:, None]),
        },
        "few": {
            "p = 6, T = 15": _row(_six, 15, 20, lambda t: 1.0 + np.sum(t**2, axis=1)),
            "T = 2": _named("sin", 2, 20, "iid"),
            "T = 3": _named("sin", 3, 20, "iid"),
            "T = 3, turns": _named("turns", 3, 20, "iid"),
        },
    }


def _row(problem: Callable[[], cbq.Problem], T: int, N: int, truth: Truth, theta: np.ndarray | None = None) -> Row:
    return Row(problem, T, N, truth=truth, theta=theta)


def _named(name: str, T: int, N: int, design: str) -> Row:
    """A problem of the package, or one of those that `choice.py` has."""
    if name not in CHOICE_CASES:
        return Row(lambda: cbq.problems.get(name), T, N, design)
    case = CHOICE_CASES[name]
    return Row(lambda: case.problem, T, N, design, case.truth)


def _of_x(f: Callable[[np.ndarray], np.ndarray]) -> Callable[[], cbq.Problem]:
    """f of X ~ N(theta, 1), theta in (0, 3)."""
    return lambda: of_x(lambda x: f(x[:, 0]))


def _exp2(x: np.ndarray) -> np.ndarray:
    return np.exp(2 * x)


def _far(x: np.ndarray) -> np.ndarray:
    return 1e4 * (x > 6.0)


def _above(x: np.ndarray) -> np.ndarray:
    return 1.0 * (x > 2.5)


def _never(x: np.ndarray) -> np.ndarray:
    return 1.0 * (x > 7.0)


def _sine_truth(theta: np.ndarray) -> np.ndarray:
    return np.exp(-0.5) * np.sin(theta[:, 0])


def _students(df: float) -> Callable[[], cbq.Problem]:
    return lambda: of_x(lambda x: x[:, 0] ** 2, lambda t: StudentT(df, t[0], 1.0))


def _lognormal(variance: float) -> Callable[[], cbq.Problem]:
    return lambda: of_x(lambda x: x[:, 0], lambda t: LogNormal(t[0], cov=variance), Uniform(0.0, 1.0))


def _six() -> cbq.Problem:
    """(theta + X)^2 summed over six coordinates, X ~ N(0, I / 6)."""
    return cbq.Problem(
        lambda x, t: np.sum((t + x) ** 2, axis=1),
        lambda t: Gaussian(np.zeros(6), cov=np.full(6, 1 / 6)),
        Uniform([0] * 6, [1] * 6),
    )


def _random(f: Callable[..., np.ndarray], family: Any, prior: Any) -> cbq.Problem:
    """A random simulator, declared as such."""
    return cbq.Problem(f, family, prior, depends_on_theta=False, stochastic=True)


def _random_sine() -> cbq.Problem:
    return _random(lambda x, theta, rng: np.sin(x[:, 0]) + rng.standard_normal(len(x)), line, Uniform(0.0, 3.0))


def _random_sir() -> cbq.Problem:
    """The epidemic with noise of 30% of the spread of f."""
    return cbq.problems.get("sir", noise=0.3)


def score(group: str, name: str, seed: int, methods: Sequence[str]) -> dict[str, dict[str, Any] | str]:
    """The coverage at both levels, the relative RMSE and whether it warns, for each method; or why there is none."""
    row = rows()[group][name]
    problem = row.problem()
    theta = problem.prior.sample(M, TEST_SEED) if row.theta is None else row.theta
    truth = _truth(row, problem, theta)
    samples = problem.collect(row.T, row.N, rng=seed, design=row.design)
    spread = np.maximum(np.std(truth, axis=0), np.finfo(float).tiny)
    found: dict[str, dict[str, Any] | str] = {}
    for method in methods:
        try:
            fit = METHODS[method]().fit(samples)
            wide, narrow = fit.interval(theta, 0.95), fit.interval(theta, 0.5)
        except (ValueError, ArithmeticError) as error:
            found[method] = f"{type(error).__name__}: {error}"
            continue
        error = (fit.predict(theta) - truth) / spread
        found[method] = {
            "95": share_inside(wide[0], truth, wide[1]),
            "50": share_inside(narrow[0], truth, narrow[1]),
            "rmse": float(np.sqrt(np.mean(error**2))),
            "width": float(np.mean((wide[1] - wide[0]) / spread)),
            "warns": bool(fit.serious_findings) or bool(np.mean(fit.beyond(theta)) > 0.5),
        }
    return found


def _truth(row: Row, problem: cbq.Problem, theta: np.ndarray) -> np.ndarray:
    if row.truth is not None:
        return row.truth(theta)
    if problem.has_exact:
        return problem.exact(theta)
    measures = [problem.family(each) for each in theta]
    return np.array([np.mean(problem.integrand(measure.transport(LEVELS), None)) for measure in measures])


def summary(scores: Sequence[dict[str, Any]]) -> dict[str, float]:
    """What the table shows of the scores of all seeds."""
    column = {name: np.array([float(each[name]) for each in scores]) for name in scores[0]}
    return {
        "95": float(np.mean(column["95"])),
        "50": float(np.mean(column["50"])),
        "rmse": float(np.median(column["rmse"])),
        "worst": float(np.max(column["rmse"])),
        "failed": float(np.mean(column["95"] < FAILED)),
        "warns": float(np.mean(column["warns"])),
    }


def cells(found: dict[str, float] | None) -> str:
    """The numbers of one method in the table."""
    if found is None:
        return f"{'-':>39}"
    return (
        f" {found['95']:5.3f} {found['50']:5.3f} {found['rmse']:8.2g} {found['worst']:8.2g}"
        f" {found['failed']:4.0%} {found['warns']:4.0%}"
    )


HEAD = f" {'95%':>5} {'50%':>5} {'RMSE':>8} {'worst':>8} {'<.75':>4} {'warn':>4}"


def honest(found: dict[str, float]) -> bool:
    """Whether a row covers enough, or its fits warn."""
    return found["95"] >= LEAST_COVERAGE or found["warns"] >= ENOUGH_WARNINGS


def run(groups: Sequence[str], methods: Sequence[str], seeds: int, first: int, workers: int) -> dict[str, Any]:
    """The scores of all seeds, by group, row and method; the table is printed on the way."""
    everything: dict[str, Any] = {}
    with OneThreadPool(workers) as pool:
        for group in groups:
            names = list(rows()[group])
            some = max(1, seeds // 4) if group == "small" else seeds  # 60 rows of 5 seeds: 300 fits
            jobs = [(group, name, seed, tuple(methods)) for name in names for seed in range(first, first + some)]
            found = dict(with_progress(pool.run(score, jobs), len(jobs), group))
            everything[group] = {
                name: {m: [found[job][m] for job in jobs if job[1] == name] for m in methods} for name in names
            }
            print_group(group, everything[group])
    return everything


def print_group(group: str, found: dict[str, dict[str, list[Any]]]) -> None:
    """The table of one group."""
    print(f"\n{group:32} {'method':6}{HEAD}   honest")
    pooled: dict[str, list[Any]] = {}
    for name, by_method in found.items():
        for method, each in by_method.items():
            good = [scores for scores in each if not isinstance(scores, str)]
            pooled.setdefault(method, []).extend(good)
            if not good:
                print(f"{name:32} {method:6} refuses: {each[0][:70]}")
                continue
            found_here = summary(good)
            print(f"{name:32} {method:6}{cells(found_here)}   {met(honest(found_here))}", flush=True)
    for method, scores in pooled.items():
        if scores:
            print(f"{'all rows':32} {method:6}{cells(summary(scores))}", flush=True)


def compare(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Two runs side by side."""
    print(f"{'':39}{'before':^{len(HEAD)}}  {'after':^{len(HEAD)}}")
    for group, names in after.items():
        print(f"\n{group:32} {'method':6}{HEAD}  {HEAD}   honest")
        for name, by_method in names.items():
            for method in by_method:
                sides = [_good(each, group, name, method) for each in (before, after)]
                told = [summary(side) if side else None for side in sides]
                verdict = "" if told[1] is None else met(honest(told[1]))
                print(f"{name:32} {method:6}{cells(told[0])}  {cells(told[1])}   {verdict}")


def _good(results: dict[str, Any], group: str, name: str, method: str) -> list[Any]:
    found = results.get(group, {}).get(name, {}).get(method, [])
    return [scores for scores in found if not isinstance(scores, str)]


def main() -> None:
    """Print the run record and the table, or two saved runs side by side."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=positive_integer, default=20, help="number of seeds (default 20)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default 0)")
    parser.add_argument("--rows", nargs="+", choices=rows(), default=list(rows()), metavar="GROUP")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--out", type=Path, help="a file for the scores of all seeds")
    parser.add_argument("--before", type=Path, help="a file of an earlier run")
    parser.add_argument("--after", type=Path, help="a file of a later run")
    parser.add_argument(
        "--workers", type=positive_integer, default=2, help="processes with one thread each (default 2)"
    )
    options = parser.parse_args()
    if options.before and options.after:
        compare(*(json.loads(path.read_text())["scores"] for path in (options.before, options.after)))
        return
    record = print_record()
    found = run(options.rows, options.methods, options.seeds, options.first, options.workers)
    if options.out:
        options.out.write_text(json.dumps({"record": record, "scores": found}))
    if options.before:
        compare(json.loads(options.before.read_text())["scores"], found)


if __name__ == "__main__":
    main()
