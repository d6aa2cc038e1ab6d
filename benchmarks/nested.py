"""Nested expectations: errors and coverage on two problems, and how errors fall with the number of outer thetas.

Run: .venv/bin/python benchmarks/nested.py [--seeds 30] [--first 0] [--figure docs/figures/nested.png] [--workers 2]

Answers: the expected loss of butterfly (T = 20, N = 50) and the EVPPI of health (T = N = 50), with defaults, compared
with the truth; samples and outer thetas have the same seed. Rates: the mean of I^2 over the prior of the linear problem
(d = 2), where MOBQ knows I to about 1e-6, by iid and Sobol thetas and by Bayesian quadrature. Capital: the value at
risk of 99.5% of a life insurer (`_risk_models.py`) by `solve(goal=cbq.ValueAtRisk(0.995))` with so many runs, and from
as many runs at 16 thetas of the prior.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from pathlib import Path

import numpy as np

import cbq
from _common import OneThreadPool, met, positive_integer, print_record, with_progress
from _risk_models import Insurer
from cbq.problems import butterfly, health

METHODS = {"CBQ": cbq.CBQ, "MOBQ": cbq.MOBQ, "LSMC": cbq.LSMC}
TRUTHS = {"butterfly": butterfly.EXPECTED_LOSS, "health": health.EVPPI}
SIZES = {"butterfly": (20, 50), "health": (50, 50)}
TARGETS = {
    ("butterfly", "CBQ", "sobol"): 0.012,
    ("butterfly", "MOBQ", "sobol"): 5e-4,
    ("health", "CBQ", "iid"): 1.0,
    ("health", "CBQ", "sobol"): 0.5,
}
COVERAGE_TARGET = 0.88, 0.99  # range of the coverage of CBQ on health
RULES = {"iid": ("mc", "iid"), "Sobol": ("mc", "sobol"), "Bayesian quadrature": ("bq", "sobol")}
NODES = {"mc": (16, 32, 64, 128, 256, 512, 1024), "bq": (4, 8, 16, 32)}
RATE_SEEDS = 10
CAPITAL_TARGET = 1.2  # RMSE with 1024 runs


def answer(problem: str, method: str, design: str, seed: int) -> tuple[float, float, bool]:
    """The error of the estimate, its standard deviation, and whether the 95% interval holds the truth."""
    target, truth = cbq.problems.get(problem), TRUTHS[problem]
    fit = METHODS[method]().fit(target.collect(*SIZES[problem], rng=seed, design=design))
    number = (cbq.expected_loss if problem == "butterfly" else cbq.evppi)(fit, target.prior, rng=seed)
    low, high = number.interval()
    return number.estimate - truth, number.std, bool(low <= truth <= high)


def rates(first: int) -> dict[str, np.ndarray]:
    """For each rule, rows (n, median error) over the numbers n of outer thetas."""
    problem = cbq.problems.get("linear")
    fit = cbq.MOBQ().fit(problem.collect(20, 20, rng=first, design="sobol"))
    x, w = np.polynomial.legendre.leggauss(40)
    grid = np.stack(np.meshgrid(x + 2, x + 2), axis=-1).reshape(-1, 2)  # the prior is uniform on (1, 3)^2
    truth = np.outer(w, w).ravel() @ problem.exact(grid) ** 2 / 4
    found = {}
    for rule, (method, design) in RULES.items():
        rows = []
        for n in NODES[method]:
            seeds = range(first, first + RATE_SEEDS)
            options = {"method": method, "design": design, "n": n}
            estimates = [
                cbq.nested_expectation(fit, np.square, problem.prior, **options, rng=seed).estimate for seed in seeds
            ]
            rows.append((n, np.median(np.abs(np.array(estimates) - truth))))
        found[rule] = np.array(rows)
    return found


def capital(runs: int, by_goal: bool, seed: int) -> tuple[float, float, bool]:
    """The error of the value at risk, the half-width of its interval, and whether the interval holds the truth."""
    insurer = Insurer()
    problem, truth = insurer.problem, insurer.value_at_risk()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if by_goal:
            answer = problem.solve(goal=cbq.ValueAtRisk(0.995), budget=runs, rng=seed)
            estimate, low, high = answer.estimate()
        else:
            fit = cbq.Auto().fit(problem.collect(16, runs // 16, rng=seed, design="iid"))
            risk = cbq.value_at_risk(fit, problem.prior, 0.995)
            estimate, (low, high) = risk.estimate, risk.interval()
    return estimate - truth, 0.5 * (high - low), bool(low <= truth <= high)


def draw(found: dict[str, np.ndarray], path: Path) -> None:
    """Draw the errors over the number of outer thetas."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    ax = figure.subplots()
    for (rule, (n, error)), colour, mark in zip(
        ((rule, rows.T) for rule, rows in found.items()), ("#8C8C8C", "#D55E00", "#0072B2"), "sov", strict=True
    ):
        ax.loglog(n, error, marker=mark, color=colour, lw=1.6, ms=5, label=f"{rule}: slope {slope(n, error):.1f}")
    ax.set_xlabel(r"thetas $n$")
    ax.set_ylabel(r"error of E $I(\theta)^2$, median of 10 seeds")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=160)


def slope(n: np.ndarray, error: np.ndarray) -> float:
    """The slope of the errors over n, both in logarithms."""
    return float(np.polyfit(np.log(n), np.log(error), 1)[0])


def main() -> None:
    """Print the run record and both tables, and write the figure if asked to."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=positive_integer, default=30, help="number of seeds (default 30)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default 0)")
    parser.add_argument("--problems", nargs="*", choices=TRUTHS, default=list(TRUTHS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--capital", nargs="*", type=int, default=[256, 1024], help="runs (default 256 1024)")
    parser.add_argument("--capital-seeds", type=positive_integer, default=5, help="number of seeds (default 5)")
    parser.add_argument("--figure", type=Path, help="file for the figure of the rates")
    parser.add_argument(
        "--workers", type=positive_integer, default=2, help="processes with one thread each (default 2)"
    )
    options = parser.parse_args()
    print_record()
    seeds = range(options.first, options.first + options.seeds)
    print(f"{'':28}{'median |error|':>15} {'RMS error':>10} {'mean std':>9} {'coverage':>9}   targets")
    with OneThreadPool(options.workers) as pool:
        for problem in options.problems:
            for method in options.methods:
                for design in ("iid", "sobol"):
                    jobs = [(problem, method, design, seed) for seed in seeds]
                    results = with_progress(pool.run(answer, jobs), len(jobs), f"{problem} {method} {design}")
                    found = np.array([result for _, result in results])
                    print(row(problem, method, design, found), flush=True)
        for runs in options.capital:
            for by_goal in (True, False):
                jobs = [(runs, by_goal, seed) for seed in range(options.first, options.first + options.capital_seeds)]
                results = with_progress(pool.run(capital, jobs), len(jobs), f"capital, {runs} runs")
                error, half, inside = np.array([result for _, result in results]).T
                rmse = np.sqrt(np.mean(error**2))
                how = "goal" if by_goal else "16 thetas of the prior"
                target = f"RMSE <= {CAPITAL_TARGET}: {met(bool(rmse <= CAPITAL_TARGET))}" * (by_goal and runs >= 1024)
                numbers = f"{np.median(np.abs(error)):9.3g} {rmse:10.3g} {np.mean(half):9.3g} {np.mean(inside):9.3f}"
                print(f"{f'capital, {runs} runs, {how}':44}{numbers}   {target}", flush=True)
    found = rates(options.first)
    for rule, rows in found.items():
        print(f"{rule:20} slope {slope(*rows.T):5.2f}: " + ", ".join(f"{int(n)}: {error:.1e}" for n, error in rows))
    if options.figure:
        draw(found, options.figure)


def row(problem: str, method: str, design: str, found: np.ndarray) -> str:
    """One row of the table, from (n, 3): errors, standard deviations, and whether the truth is in the interval."""
    error, std, inside = found.T
    median, coverage = np.median(np.abs(error)), np.mean(inside)
    text = f"{f'{problem}, {method}, {design}':28}{median:15.3g} {np.sqrt(np.mean(error**2)):10.3g} {np.mean(std):9.3g}"
    verdicts = []
    if (problem, method, design) in TARGETS:
        target = TARGETS[problem, method, design]
        verdicts.append(f"<= {target:g}: {met(bool(median <= target))}")
    if (problem, method) == ("health", "CBQ"):
        low, high = COVERAGE_TARGET
        verdicts.append(f"coverage in {low:g} to {high:g}: {met(bool(low <= coverage <= high))}")
    return f"{text} {coverage:9.3f}   {'; '.join(verdicts)}"


if __name__ == "__main__":
    main()
