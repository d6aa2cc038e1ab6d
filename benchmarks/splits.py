"""How to split a number of runs into T thetas and N points at each, for MOBQ and for CBQ.

Run: .venv/bin/python benchmarks/splits.py [--runs 150] [--seeds 2] [--problems butterfly borehole]

Each row is a problem with its best split by each estimator; the other columns are errors, as multiples of the smallest
of the row: root mean squares over thetas of the prior, medians over seeds, on Sobol points. The last rows are geometric
means over problems. `borehole` has eight inputs, and theta moves the mean of one of them.
"""

from __future__ import annotations

from argparse import ArgumentParser

import numpy as np

import cbq
from _common import TEST_SEED, one_thread, positive_integer, print_record
from adaptive import PROBLEMS, THETAS, relative, with_truth

POINTS = (1, 3, 6, 10, 19, 30)  # N
METHODS = {"MOBQ": cbq.MOBQ(), "CBQ": cbq.CBQ()}
CHOSEN = ("butterfly", "laplace", "ramp", "truncated", "wave", "health", "borehole")
Truth = tuple[cbq.Problem, np.ndarray, np.ndarray]


def borehole(draws: int = 2**15) -> Truth:
    """The flow through a borehole, over the mean of its radius; the truth by quasi-Monte Carlo."""

    def f(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        low, high = (
            np.array([100, 63070, 990, 63.1, 700, 1120, 9855]),
            np.array([50000, 115600, 1110, 116, 820, 1680, 12045]),
        )
        r, upper, head, lower, other, length, conductivity = (low + (high - low) * x[:, 1:]).T
        ratio = np.log(r / x[:, 0])
        inner = 1 + 2 * length * upper / (ratio * x[:, 0] ** 2 * conductivity) + upper / lower
        return np.asarray(2 * np.pi * upper * (head - other) / (ratio * inner))

    def family(theta: np.ndarray) -> cbq.measures.Measure:
        radius = cbq.measures.Uniform(theta[0] - 0.02, theta[0] + 0.02)
        return cbq.measures.Product([radius, cbq.measures.Uniform(np.zeros(7), np.ones(7))])

    problem = cbq.Problem(f, family, cbq.measures.Uniform(0.07, 0.13), depends_on_theta=False, name="borehole")
    theta = problem.prior.sample(50, TEST_SEED)
    u = cbq.measures.Uniform(np.zeros(8), np.ones(8)).sample(draws, np.random.default_rng(1))
    return problem, theta, np.array([[np.mean(f(family(t).transport(u), t))] for t in theta])


def errors(truth: Truth, runs: int, seed: int) -> np.ndarray:
    """The errors (methods, splits) of one seed; infinite where an estimator refuses the samples."""
    problem, theta, exact = truth
    found = np.full((len(METHODS), len(POINTS)), np.inf)
    for j, N in enumerate(POINTS):
        samples = problem.collect(runs // N, N, rng=seed, design="sobol", progress=False)
        for i, estimator in enumerate(METHODS.values()):
            try:
                found[i, j] = relative(estimator._undiagnosed(samples, None).predict(theta), exact)
            except (ValueError, RuntimeError):
                continue
    return found


def main() -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=positive_integer, default=150)
    parser.add_argument("--seeds", type=positive_integer, default=2)
    parser.add_argument("--problems", nargs="+", choices=[*PROBLEMS, "borehole"], default=list(CHOSEN))
    options = parser.parse_args()
    print_record()
    print(f"{options.runs} runs, medians over {options.seeds} seeds, {THETAS} thetas")
    head = [f"{options.runs // N} x {N}" for N in POINTS]
    print(f"| problem | method | {' | '.join(head)} | smallest error |\n|{'---|' * (len(head) + 3)}")
    logs = []
    with one_thread():
        for name in options.problems:
            truth = borehole() if name == "borehole" else with_truth(name)
            found = np.median([errors(truth, options.runs, seed) for seed in range(options.seeds)], axis=0)
            least = float(np.min(found))
            logs.append(np.log(found / least))
            for method, row in zip(METHODS, found / least, strict=True):
                print(f"| {name} | {method} | {' | '.join(f'{each:.2g}' for each in row)} | {least:.2g} |", flush=True)
    for method, row in zip(METHODS, np.exp(np.mean(logs, axis=0)), strict=True):
        print(f"| all | {method} | {' | '.join(f'{each:.2g}' for each in row)} | |")


if __name__ == "__main__":
    main()
