"""`python -m cbq`: the four problems of the paper, estimated from few evaluations and compared with the truth."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from cbq import problems
from cbq.methods import CBQ, LSMC, Auto, MonteCarlo

SIZES = {"linear": (50, 50), "sir": (15, 40), "butterfly": (20, 50), "health": (50, 50)}  # T, N
TEST_THETAS = 300


def main() -> None:
    """Print a row for each problem."""
    print("The paper's problems from few evaluations, every method with its defaults:\n")
    errors = f"{'averages':>10} {'LSMC':>10} {'CBQ':>10} {'Auto':>10}"
    print(f"{'problem':<11} {'T':>3} {'N':>3}   {errors}   {'in 95%':>7} {'seconds':>8}   Auto chose")
    for name, (T, N) in SIZES.items():
        print(row(name, T, N), flush=True)
    print(
        "\nRoot mean squared errors: of plain averages at the T thetas, and of least-squares Monte Carlo, conditional"
        "\nBayesian quadrature and cbq.Auto() at 300 new thetas. Then the share of these whose truth is in the 95%"
        "\ninterval of Auto, the time of its fit, and what it chose."
    )


def row(name: str, T: int, N: int) -> str:
    """One line of the table."""
    problem = problems.get(name)
    theta = problem.prior.sample(TEST_THETAS, rng=1)
    truth = problem.exact(theta)
    samples = problem.collect(T, N, rng=0)
    averages = rmse(MonteCarlo().fit(samples).predict(samples.theta), problem.exact(samples.theta))
    others = [rmse(method.fit(samples).predict(theta), truth) for method in (LSMC(), CBQ())]
    start = perf_counter()
    fit = Auto().fit(samples)
    seconds = perf_counter() - start
    low, high = fit.interval(theta, 0.95)
    inside = np.mean((low <= truth) & (truth <= high))
    errors = " ".join(f"{error:10.3g}" for error in (averages, *others, rmse(fit.predict(theta), truth)))
    chosen = type(fit).__name__.removesuffix("Fit")
    return f"{name:<11} {T:3d} {N:3d}   {errors}   {inside:7.0%} {seconds:8.2f}   {chosen}"


def rmse(estimate: object, truth: object) -> float:
    """The root mean squared error."""
    return float(np.sqrt(np.mean((np.asarray(estimate) - np.asarray(truth)) ** 2)))


if __name__ == "__main__":
    main()
