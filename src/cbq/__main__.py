"""`python -m cbq`: the four problems of the paper, estimated from few evaluations and compared with the truth."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from cbq import problems
from cbq.methods import CBQ

SIZES = {"linear": (50, 50), "sir": (15, 40), "butterfly": (20, 50), "health": (50, 50)}  # T, N
TEST_THETAS = 300


def main() -> None:
    """Print a row for each problem."""
    print("Conditional Bayesian quadrature of the paper's problems, with the defaults:\n")
    errors = f"{'averages':>10} {'CBQ':>10} {'Sobol':>10}"
    print(f"{'problem':<11} {'T':>3} {'N':>3}   {errors}   {'in 95%':>7} {'seconds':>8}")
    for name, (T, N) in SIZES.items():
        print(row(name, T, N))
    print(
        "\nRoot mean squared errors: of plain averages at the T thetas; of CBQ at 300 new thetas, from iid and from"
        "\nSobol points. Then the share of the new thetas whose truth is in the 95% interval, and the time of a fit."
    )


def row(name: str, T: int, N: int) -> str:
    """One line of the table."""
    problem = problems.get(name)
    theta = problem.prior.sample(TEST_THETAS, rng=1)
    truth = problem.exact(theta)
    samples = problem.collect(T, N, rng=0)
    averages = rmse(np.mean(samples.f, axis=1), problem.exact(samples.theta))
    start = perf_counter()
    fit = CBQ().fit(samples)
    seconds = perf_counter() - start
    low, high = fit.interval(theta, 0.95)
    inside = np.mean((low <= truth) & (truth <= high))
    sobol = CBQ().fit(problem.collect(T, N, rng=0, design="sobol"))
    errors = f"{averages:10.3g} {rmse(fit.predict(theta), truth):10.3g} {rmse(sobol.predict(theta), truth):10.3g}"
    return f"{name:<11} {T:3d} {N:3d}   {errors}   {inside:7.0%} {seconds:8.2f}"


def rmse(estimate: object, truth: object) -> float:
    """The root mean squared error."""
    return float(np.sqrt(np.mean((np.asarray(estimate) - np.asarray(truth)) ** 2)))


if __name__ == "__main__":
    main()
