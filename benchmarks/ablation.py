"""What each choice of an estimator is worth: error, width and coverage with it, and with it switched off.

Run: .venv/bin/python benchmarks/ablation.py [--methods Auto CBQ MOBQ] [--switches all] [--seeds judging] [--count 3]
     [--problems kink jump] [--designs iid sobol] [--out PATH.jsonl] [--by-problem]

The problems are in `_matrix.py`. Seeds are split: "choosing" ones serve to set defaults, "judging" ones to judge them,
and no default may be set by the latter. A switch replaces one choice inside the package; it stays in the list as long
as the choice does, and a choice that does not pay on the judging seeds goes.

For each method and switch the table has, over all fits: the RMSE, as the geometric mean of its ratio to the same fit
without the switch; width / error, the root-mean-square half-width of 95% intervals over 1.96 RMSEs (1 is ideal), as the
geometric mean and the 90% quantile; the coverage of 95% and 50% intervals; the share of fits whose coverage at 95% is
under 0.75, and of those the share that do not warn; and the seconds of a fit, as the geometric mean.
`--by-problem` adds a table with a row for each problem. Finished fits are kept in `--out`, and are not repeated.
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import cbq
from _common import TEST_SEED, OneThreadPool, positive_integer, print_record, share_inside, with_progress
from _matrix import CASES
from cbq.estimators.conditional import StageOneSelection
from cbq.estimators.multioutput.candidates import automatic_kernels_of_x
from cbq.kernels.combinations import SumKernel

M = 100  # test thetas
FAILED = 0.75  # the coverage of a fit, below which it has failed
SEEDS = {"choosing": 0, "judging": 10_000}  # the first of each kind
METHODS: dict[str, Callable[..., Any]] = {
    "Auto": cbq.Auto,
    "CBQ": cbq.CBQ,
    "MOBQ": partial(cbq.MOBQ, nystrom="auto"),
}
RESULTS = Path(__file__).parent / "results" / "ablation.jsonl"
Job = tuple[str, int, int, str, int, str, str]  # problem, T, N, design, seed, method, switch
Score = dict[str, Any]


def _own_noise(nodes: Any, near: Any) -> np.ndarray:
    return np.asarray(nodes.variance)


def _no_sums(*given: Any, **options: Any) -> list[Any]:
    found = automatic_kernels_of_x(*given, **options)
    return [each for each in found if not isinstance(getattr(each, "base", each), SumKernel)]


# The methods that a switch concerns, and what it replaces: attributes of the package, by "module.attribute", or options
# of the method, by their names.
SWITCHES: dict[str, tuple[Sequence[str], dict[str, Any]]] = {
    "as it is": (tuple(METHODS), {}),
    "MOBQ: averages do not judge": (["Auto", "MOBQ"], {"gp.selection.useful_groups": lambda owners, n: None}),
    "MOBQ: integrals do not judge": (
        ["Auto", "MOBQ"],
        {"estimators.multioutput.candidates.integrals_at_some": lambda samples: None},
    ),
    "MOBQ: one kernel": (["MOBQ"], {"selection": cbq.Selection(most=1)}),
    "MOBQ: kernels within 3": (["MOBQ"], {"selection": cbq.Selection(within=3.0, most=4)}),
    "MOBQ: all kernels twice": (["MOBQ"], {"selection": cbq.Selection(screened=1000, refined=8)}),
    "MOBQ: finer lengthscales": (["MOBQ"], {"selection": cbq.Selection(step=0.25)}),
    "MOBQ: no Matern 1/2": (["Auto", "MOBQ"], {"estimators.multioutput.candidates.MANY_INPUTS": 0}),
    "MOBQ: no sums of kernels": (
        ["Auto", "MOBQ"],
        {"estimators.multioutput.candidates.automatic_kernels_of_x": _no_sums},
    ),
    "MOBQ: ratios by 300 points": (["MOBQ"], {"selection": cbq.Selection(shaped=300)}),
    "MOBQ: likeliest amplitudes ignored": (
        ["Auto", "MOBQ"],
        {"gp.calibration.likeliest_amplitude": lambda given: np.zeros(given.process.f.shape[-1])},
    ),
    "MOBQ: points left out": (["Auto", "MOBQ"], {"gp.calibration.useful_groups": lambda owners, n: None}),
    "MOBQ: no common error": (["MOBQ"], {"calibration": cbq.Calibration(common=0.0)}),
    "MOBQ: scale within a factor of 2": (["MOBQ"], {"calibration": cbq.Calibration(factor=2.0)}),
    "MOBQ: shared points stay": (["Auto", "MOBQ"], {"estimators.multioutput.candidates._places": lambda samples: None}),
    "MOBQ: rounding ignored": (["Auto", "MOBQ"], {"gp.pooled.EPS": 0.0}),
    "CBQ: no second curve": (["Auto", "CBQ"], {"estimators.conditional.stage_two.unbiased_curve": lambda *given: None}),
    "CBQ: no stretch for tails": (
        ["Auto", "CBQ"],
        {"estimators.conditional.stage_one.tail_stretch": lambda z, *given: np.ones(z.shape[-1])},
    ),
    "CBQ: variances of stage 1 alone": (
        ["Auto", "CBQ"],
        {"estimators.conditional.stage_two.smoothed_noise": _own_noise},
    ),
    "CBQ: amplitudes as predicted": (
        ["Auto", "CBQ"],
        {"estimators.conditional.stage_two.moved_amplitude": lambda weights, *given: np.ones((len(weights), 1))},
    ),
    "CBQ: no common error": (["CBQ"], {"calibration": cbq.Calibration(common=0.0)}),
    "CBQ: scale within a factor of 2": (["CBQ"], {"calibration": cbq.Calibration(factor=2.0)}),
    "CBQ: own amplitude, few points": (["CBQ"], {"selection": StageOneSelection(few=0)}),
    "CBQ: families by mse^-1": (["CBQ"], {"selection": StageOneSelection(power=1.0)}),
    "CBQ: the best family alone": (["CBQ"], {"selection": StageOneSelection(power=200.0)}),
    "CBQ: 24 kernels at any N": (["CBQ"], {"selection": StageOneSelection(least=24)}),
    "CBQ: 3 kernels from N = 250 on": (["CBQ"], {"selection": StageOneSelection(least=3)}),
    "CBQ: no kernel is negligible": (["CBQ"], {"selection": StageOneSelection(negligible=0.0)}),
    "CBQ: slow embeddings equal": (["CBQ"], {"selection": StageOneSelection(costly_share=1.0)}),
    "Auto: tails not left to CBQ": (["Auto"], {"estimators.auto.TAILS": np.inf}),
}


@contextmanager
def switched(name: str) -> Iterator[None]:
    """Replace the attributes of a switch."""
    with ExitStack() as stack:
        for path, value in SWITCHES[name][1].items():
            if "." not in path:
                continue
            module, attribute = f"cbq.{path}".rsplit(".", 1)
            stack.enter_context(patch.object(import_module(module), attribute, value))
        yield


@lru_cache(maxsize=4)
def _problem(name: str) -> tuple[cbq.Problem, np.ndarray, np.ndarray]:
    """A problem, test thetas (M, p) and the truth there as columns (M, C)."""
    case = CASES[name]
    problem = case.problem()
    theta = problem.prior.sample(M, TEST_SEED)
    truth = problem.exact(theta) if case.truth is None else case.truth(theta)
    return problem, theta, truth.reshape(len(theta), -1)


def score(name: str, T: int, N: int, design: str, seed: int, method: str, switch: str) -> Score:
    """The scores of one fit; only the reason where there is none."""
    problem, theta, truth = _problem(name)
    samples = CASES[name].collect(problem, T, N, seed, design)
    start = time.process_time()
    try:
        with switched(switch):
            options = {name: value for name, value in SWITCHES[switch][1].items() if "." not in name}
            fit = METHODS[method](**options).fit(samples)
            wide, narrow = fit.interval(theta, 0.95), fit.interval(theta, 0.5)
            mean = fit.predict(theta).reshape(truth.shape)
            seconds = time.process_time() - start
            warns = bool(fit.serious_findings)
    except (ValueError, ArithmeticError, MemoryError) as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    (low, high), (low50, high50) = ((end.reshape(truth.shape) for end in ends) for ends in (wide, narrow))
    spread = np.maximum(np.std(truth, axis=0), np.finfo(float).tiny)
    return {
        "rmse": float(np.sqrt(np.mean(((mean - truth) / spread) ** 2))),
        "width": float(np.sqrt(np.mean(((high - low) / spread / 2 / 1.96) ** 2))),
        "95": share_inside(low, truth, high),
        "50": share_inside(low50, truth, high50),
        "warns": warns,
        "seconds": seconds,
        "fit": type(fit).__name__,
    }


def evaluated(jobs: Sequence[Job], path: Path, workers: int) -> dict[Job, Score]:
    """The scores of all jobs; those in the file are taken from there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text().splitlines() if path.exists() else []
    known = {tuple(job): found for job, found in map(json.loads, lines)}
    missing = [job for job in jobs if job not in known]
    with OneThreadPool(workers) as pool, path.open("a") as file:
        for job, found in with_progress(pool.run(score, missing), len(missing), "fits"):
            known[job] = found
            file.write(json.dumps([job, found]) + "\n")
            file.flush()
    return {job: known[job] for job in jobs}


def summary(scores: Sequence[tuple[Score, Score]]) -> str:
    """The columns of the table, from pairs of scores with a switch and without."""
    both = [(a, b) for a, b in scores if "rmse" in a and "rmse" in b]
    if not both:
        return "no fits"
    ratio = np.exp(np.mean([np.log(a["rmse"] / b["rmse"]) for a, b in both]))
    widths = np.array([a["width"] / a["rmse"] for a, _ in both])
    widths = widths[np.isfinite(widths)]  # infinite where all values of f are equal
    failed = [not a["warns"] for a, _ in both if a["95"] < FAILED]
    return (
        f"{len(both):5} {ratio:8.3g} {np.exp(np.mean(np.log(widths))):8.2f} {np.quantile(widths, 0.9):8.1f} "
        f"{np.mean([a['95'] for a, _ in both]):6.3f} {np.mean([a['50'] for a, _ in both]):6.3f} "
        f"{len(failed) / len(both):7.3f} {sum(failed) / len(both):7.3f} "
        f"{np.exp(np.mean([np.log(a['seconds']) for a, _ in both])):7.2f}"
    )


COLUMNS = {"fits": 5, "RMSE": 8, "width": 8, "(90%)": 8, "95%": 6, "50%": 6, "failed": 7, "silent": 7, "seconds": 7}
HEAD = " ".join(f"{name:>{width}}" for name, width in COLUMNS.items())


def print_tables(found: dict[Job, Score], by_problem: bool) -> None:
    """A row for each method and switch; then, if wanted, one for each problem and method as it is."""
    pairs: dict[tuple[str, str], list[tuple[str, Score, Score]]] = {}
    for job, mine in found.items():
        plain = found[(*job[:-1], "as it is")]
        pairs.setdefault((job[-2], job[-1]), []).append((job[0], mine, plain))
    print(f"\n{'method':6} {'switch':32} {HEAD}")
    for (method, switch), each in sorted(
        pairs.items(), key=lambda item: (item[0][0], list(SWITCHES).index(item[0][1]))
    ):
        print(f"{method:6} {switch:32} {summary([(a, b) for _, a, b in each])}")
    if not by_problem:
        return
    print(f"\n{'method':6} {'problem':32} {HEAD}   (RMSE in units of the spread of I)")
    for (method, switch), each in pairs.items():
        for name in dict.fromkeys(name for name, _, _ in each) if switch == "as it is" else ():
            print(f"{method:6} {name:32} {summary([(a, {'rmse': 1.0}) for problem, a, _ in each if problem == name])}")


def main() -> None:
    """Evaluate what is missing, then print the tables."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--switches", nargs="*", choices=[*SWITCHES, "all"], default=[], help="besides none; or all")
    parser.add_argument("--seeds", choices=SEEDS, default="choosing", help="which seeds (default choosing)")
    parser.add_argument("--count", type=positive_integer, default=3, help="number of seeds (default 3)")
    parser.add_argument("--problems", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--designs", nargs="+", choices=("iid", "sobol"), default=("iid", "sobol"))
    parser.add_argument(
        "--workers", type=positive_integer, default=2, help="processes with one thread each (default 2)"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file that keeps finished fits")
    parser.add_argument("--by-problem", action="store_true")
    options = parser.parse_args()
    print_record()
    switches = list(SWITCHES) if "all" in options.switches else ["as it is", *options.switches]
    first = SEEDS[options.seeds]
    jobs = [
        (name, T, N, design, seed, method, switch)
        for seed in range(first, first + options.count)
        for name in options.problems
        for T, N in CASES[name].sizes
        for design in options.designs
        if design in CASES[name].designs
        for method in options.methods
        for switch in switches
        if method in SWITCHES[switch][0]
    ]
    print_tables(evaluated(jobs, options.out, options.workers), options.by_problem)


if __name__ == "__main__":
    main()
