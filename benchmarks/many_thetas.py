"""Many thetas: fits, predictions and nested answers, with their time, peak memory and error.

Run: .venv/bin/python benchmarks/many_thetas.py [--problem butterfly] [--sizes 2000 5000 20000]

Every case runs in a process of its own, whose peak memory is that of the case. Fits of CBQ with N = 20 points at each
theta are compared at 500 new thetas with the fit of a random 2,000 of the thetas, with the same values. Predictions:
means and standard deviations at 10^6 thetas of a CBQ fit (T = 20,000), and means of an MOBQ fit (T = N = 20). Nested:
E I^2 with 10^5 outer thetas. Risk: the value at risk and its tail of an MOBQ fit of 1,536 points, the slowest of the
problems with a known truth, against the same with a mean that is computed at all outer thetas.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

import cbq
from _common import TEST_SEED, coverage, met, peak_memory, positive_integer, print_record, rmse, seconds
from cbq.nested import outer

N, FEW, MANY = 20, 2000, 20_000


def fitted(problem: str, T: int) -> Iterator[str]:
    """Lines on the fit of T thetas, and on that of a random 2,000 of them."""
    target = cbq.problems.get(problem)
    samples = target.collect(T, N, rng=0, progress=False)
    new = target.collect(500, 1, rng=TEST_SEED, progress=False).theta
    truth, errors = target.exact(new), []
    parts = [("all", samples)]
    if T > FEW:
        parts.append((f"{FEW} of them", samples.select(np.random.default_rng(1).choice(T, FEW, replace=False))))
    for name, part in parts:
        found = []
        took = seconds(lambda part=part, found=found: found.append(cbq.CBQ().fit(part)))
        (fit,) = found
        errors.append(rmse(fit.predict(new), truth))
        inside = coverage(fit, new, truth, 0.95)
        memory = f", peak {peak_memory():.2f} GiB" if name == "all" else ""
        yield f"fit of T = {T:>6}, {name:>12}: {took:6.1f} s, RMSE {errors[-1]:.3g}, coverage {inside:.3f}{memory}"
    if T > FEW:
        ratio = errors[0] / errors[1]
        yield f"  RMSE of all over that of {FEW}: {ratio:.2f}, at most 1: {met(ratio <= 1.0)}"


def predicted(problem: str, method: str) -> Iterator[str]:
    """Lines on predictions at a million thetas."""
    target = cbq.problems.get(problem)
    samples = target.collect(MANY if method == "CBQ" else 20, N, rng=0, progress=False)
    fit = getattr(cbq, method)().fit(samples)
    theta = np.random.default_rng(0).choice(samples.theta[:, 0], 10**6)[:, None]
    took = seconds(lambda: fit.predict(theta, return_std=method == "CBQ"))
    yield f"{method}.predict at 1000000 thetas: {took:.1f} s, peak {peak_memory():.2f} GiB"


def nested(problem: str) -> Iterator[str]:
    """Lines on E I^2 with many outer thetas, where its mean is computed at all of them and where it is interpolated."""
    target = cbq.problems.get(problem)
    fit = cbq.CBQ().fit(target.collect(FEW, N, rng=0, progress=False))
    for least, how in ((np.inf, "mean at all thetas"), (outer.MIN_THETAS, "interpolated mean")):
        outer.MIN_THETAS = least
        found = []
        took = seconds(lambda found=found: found.append(cbq.nested_expectation(fit, np.square, target.prior, n=10**5)))
        (value,) = found
        yield f"E I^2, {value.n} thetas, {how}: {took:.1f} s, {value.estimate:.9g} +- {value.std:.3g}"
    yield f"  peak {peak_memory():.2f} GiB"


def risk() -> Iterator[str]:
    """Lines on the value at risk and its tail."""
    target = cbq.problems.get("truncated")
    fit = cbq.MOBQ().fit(target.collect(48, 32, rng=0, design="sobol"))
    times = []
    for least, how in ((np.inf, "one by one, mean at all thetas"), (outer.MIN_THETAS, "in one pass")):
        outer.MIN_THETAS = least

        def both(found: list[cbq.nested.Answer], separate: bool = least == np.inf) -> None:
            found.append(cbq.value_at_risk(fit, target.prior, rng=0))
            found.append(cbq.conditional_value_at_risk(fit, target.prior, rng=0) if separate else found[0].tail)

        found: list[cbq.nested.Answer] = []
        times.append(seconds(lambda found=found, both=both: both(found)))
        numbers = ", ".join(f"{each.estimate:.9g} +- {each.std:.2g}" for each in found)
        yield f"value at risk and tail, {how}: {times[-1]:.2f} s, {numbers}"
    yield f"  {times[0] / times[1]:.1f} times faster; at most 3 s: {met(times[1] <= 3.0)}"


def show(function: Callable[..., Iterator[str]], *arguments: object) -> None:
    """Print the lines of a case."""
    warnings.simplefilter("ignore", cbq.FitWarning)
    for line in function(*arguments):
        print(line, flush=True)


def main() -> None:
    """Print all cases."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="butterfly", help="one with p = 1 and a known truth")
    parser.add_argument("--sizes", type=positive_integer, nargs="+", default=[2000, 5000, MANY])
    options = parser.parse_args()
    print_record()
    cases = [(fitted, options.problem, T) for T in options.sizes]
    cases += [(predicted, options.problem, "CBQ"), (predicted, options.problem, "MOBQ"), (nested, options.problem)]
    for case in [*cases, (risk,)]:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(show, *case).result()


if __name__ == "__main__":
    main()
