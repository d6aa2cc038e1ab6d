"""Time and memory of the default estimator, hyperparameters and calibration included, as ratios within one run.

Run: .venv/bin/python benchmarks/speed.py [--repeats 3] [--skip-memory]

1. A fit against a bare loop of LAPACK's dpotrf over the T Gram matrices, filled beforehand, on one thread.
2. The T + 1 regressions of scikit-learn that answer the same question (f on x at each theta, averages of f on theta),
   on one thread, against a fit.
3. A prediction of 10,000 thetas with their standard deviations against the fit that it is made from.
4. `cbq.MOBQ` on 5000 points, one output, against one bare dpotrf of that size, both with all threads.
5. Peak memory of one large fit, in a process of its own.

The times of a ratio are measured in turn within one repetition, and the best of each counts. The fit may use all cores,
as it does for a user; the last column has the ratio with the fit on one thread too. Run it on a quiet machine.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

import cbq
from _common import PROBLEMS, at_least_one, one_thread, print_record, progress, yes
from linalg import bare, seconds

LARGE = ((200, 300), (50, 1000))  # T, N of the fits against dpotrf
SMALL = (50, 50)  # of those against scikit-learn
MANY = (100, 50)  # of those that predict, and of those that are pooled
HUGE = (1000, 1000)  # of the one whose memory is measured
THETAS = 10_000  # predicted at once
CHOLESKY = (("<=", 15.0), ("<=", 8.0))  # target and goal for the ratio
SKLEARN = ((">=", 10.0), (">=", 30.0))
PREDICT = (("<", 1.0),)
POOLED = (("<=", 10.0),)
MEMORY = (("<=", 2.0),)  # GiB
Limits = tuple[tuple[str, float], ...]
MET: dict[str, Callable[[float, float], bool]] = {"<": float.__lt__, "<=": float.__le__, ">=": float.__ge__}


def best(repeats: int, contenders: dict[str, Callable[[], float]]) -> list[float]:
    """The best of several times in seconds of each contender, all of them measured in turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for k in range(repeats):
        for name, measured in contenders.items():
            progress(f"{name}, {k + 1} of {repeats}")
            times[name].append(measured())
    progress("")
    return [min(each) for each in times.values()]


def alone(measured: Callable[[], float]) -> float:
    """The same on one thread."""
    with one_thread():
        return measured()


def fitting(samples: cbq.Samples) -> float:
    """Seconds of a default fit."""
    return seconds(partial(cbq.CBQ().fit, samples))


def row(what: str, name: str, size: tuple[int, int], times: tuple[float, float], single: float, limits: Limits) -> str:
    """One row: two times, their ratio, whether it is what it should be, and the ratio on one thread."""
    ratio = times[0] / times[1]
    verdicts = [f"{sign} {limit:g}: {yes(MET[sign](ratio, limit))}" for sign, limit in limits]
    text = f"{what:25} {name:9} {size[0]:4} {size[1]:5} {times[0]:9.4f} {times[1]:9.4f} {ratio:8.2f}"
    return text + "".join(f" {verdict:>11}" for verdict in [*verdicts, ""][:2]) + f" {single:9.2f}"


def against_cholesky(name: str, size: tuple[int, int], repeats: int) -> str:
    """A fit against dpotrf on one thread."""
    samples = cbq.problems.get(name).collect(*size, rng=0)
    x = np.asarray(samples.x)
    grams = cbq.kernels.Matern(1.5, np.std(x, axis=(0, 1))).gram(x) + 1e-10 * np.eye(size[1])
    filled = np.empty_like(grams)

    def dpotrf() -> float:
        filled[...] = grams
        return seconds(partial(bare, filled))

    fit = partial(fitting, samples)
    contenders = {"fit": fit, "fit on one thread": partial(alone, fit), "dpotrf": partial(alone, dpotrf)}
    ours, single, theirs = best(repeats, contenders)
    return row("fit / T dpotrf", name, size, (ours, theirs), single / theirs, CHOLESKY)


def regressions(samples: cbq.Samples, kernel: str) -> int:
    """T + 1 Gaussian process regressions by scikit-learn: f on x at each theta, the averages of f on theta.

    Returned is how many searches for hyperparameters ended where they began: those were quick for the wrong reason.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

    stuck = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lengthscales on their bounds, and of searches that did not converge
        for x, f in [*zip(samples.x, samples.f, strict=True), (samples.theta, np.mean(samples.f, axis=1))]:
            ell = np.ones(x.shape[1])
            k = ConstantKernel() * (RBF(ell) if kernel == "RBF" else Matern(ell, nu=1.5))
            fitted = GaussianProcessRegressor(k, alpha=1e-10, normalize_y=True).fit(x, f)
            stuck += np.array_equal(fitted.kernel_.theta, k.theta)
    return stuck


def against_sklearn(name: str, kernel: str, repeats: int) -> str:
    """scikit-learn on one thread against a fit."""
    samples = cbq.problems.get(name).collect(*SMALL, rng=0)
    fit, theirs = partial(fitting, samples), partial(seconds, partial(regressions, samples, kernel))
    contenders = {"fit": fit, "fit on one thread": partial(alone, fit), "scikit-learn": partial(alone, theirs)}
    ours, single, sklearn = best(repeats, contenders)
    text = row(f"sklearn, {kernel} / fit", name, SMALL, (sklearn, ours), sklearn / single, SKLEARN)
    stuck = regressions(samples, kernel)
    return text + f"  {stuck} of {samples.T + 1} searches of sklearn gave up at their start" * (stuck > 0)


def prediction(name: str, repeats: int) -> str:
    """A prediction against the fit that it is made from."""
    problem = cbq.problems.get(name)
    samples, theta = problem.collect(*MANY, rng=0), problem.prior.sample(THETAS, 1)
    predict = partial(seconds, partial(cbq.CBQ().fit(samples).predict, theta, return_std=True))
    both = {"predict": predict, "fit": partial(fitting, samples)}
    alike = {f"{name} on one thread": partial(alone, measured) for name, measured in both.items()}
    predicted, fit, predicted1, fit1 = best(repeats, both | alike)
    return row(f"predict {THETAS:,} / fit", name, MANY, (predicted, fit), predicted1 / fit1, PREDICT)


def pooled(name: str, repeats: int) -> str:
    """One process on all points against one Cholesky factorisation of its size."""
    samples = cbq.problems.get(name).collect(*MANY, rng=0).output(0)
    points = samples.all_points
    gram = cbq.kernels.Matern(1.5, np.std(points, axis=0)).gram(points) + 1e-10 * np.eye(len(points))
    filled = np.empty((1, *gram.shape))

    def dpotrf() -> float:
        filled[0] = gram
        return seconds(partial(bare, filled))

    fit = partial(seconds, partial(cbq.MOBQ().fit, samples))
    contenders = {"MOBQ": fit, "MOBQ on one thread": partial(alone, fit)}
    both = {"dpotrf": dpotrf, "dpotrf on one thread": partial(alone, dpotrf)}
    ours, ours1, theirs, theirs1 = best(repeats, contenders | both)
    return row("MOBQ / dpotrf", name, MANY, (ours, theirs), ours1 / theirs1, POOLED)


def peak() -> float:
    """The most memory that this process has held so far, in GiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def large_fit() -> tuple[float, float, float]:
    """Seconds of a large fit, and the peak memory in GiB before it and after."""
    samples = cbq.problems.get("butterfly").collect(*HUGE, rng=0)
    before = peak()
    took = fitting(samples)
    return took, before, peak()


def memory() -> str:
    """Peak memory of a large fit. To be run first: a new process begins with the peak of the one that starts it."""
    progress(f"fit with T, N = {HUGE}")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        took, before, after = pool.submit(large_fit).result()
    progress("")
    ((sign, limit),) = MEMORY
    return (
        f"peak memory of a fit, butterfly, T, N = {HUGE}: {after:.2f} GiB ({before:.2f} GiB before it), {took:.0f} s; "
        f"{sign} {limit:g} GiB: {yes(MET[sign](after, limit))}"
    )


def rows(repeats: int) -> Iterator[str]:
    """The rows of the table, each measured when it is asked for."""
    for name in ("butterfly", "linear"):
        for size in LARGE:
            yield against_cholesky(name, size, repeats)
    for name in ("butterfly", "linear", "sir"):
        for kernel in ("RBF", "Matern 3/2"):
            yield against_sklearn(name, kernel, repeats)
    for name in ("butterfly", "linear"):
        yield prediction(name, repeats)
    for name in PROBLEMS:
        yield pooled(name, repeats)


def main() -> None:
    """Print the run record, the memory and the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=at_least_one, default=3, help="of which the best counts (default 3)")
    parser.add_argument("--skip-memory", action="store_true", help="leave out the large fit, which takes minutes")
    options = parser.parse_args()
    print_record()
    if not options.skip_memory:
        print(f"\n{memory()}", flush=True)
    print(f"\nseconds of a and b, best of {options.repeats} repetitions in turn\n")
    print(
        f"{'a / b':25} {'problem':9} {'T':>4} {'N':>5} {'a':>9} {'b':>9} {'a / b':>8} {'target':>11} {'goal':>11} "
        f"{'1 thread':>9}"
    )
    for text in rows(options.repeats):
        print(text, flush=True)


if __name__ == "__main__":
    main()
