"""Time and memory of the default estimator, including hyperparameters and calibration, as ratios within one run.

Run: .venv/bin/python benchmarks/speed.py [--repeats 3] [--skip-memory]

1. A fit, compared with a bare loop of LAPACK's dpotrf over the T filled Gram matrices on one thread.
2. The T + 1 regressions of scikit-learn that answer the same question (f on x at each theta, averages of f on theta) on
   one thread, compared with a fit.
3. The prediction at 10,000 thetas with standard deviations, compared with the fit that makes it.
4. `cbq.MOBQ` on 5000 points and one output, compared with one bare dpotrf of that size, both with all threads.
5. The peak memory of one large fit, in a process of its own.

The times of a ratio are measured in turn, and the best of each counts. A fit uses all cores, as it does for a user; the
last column has the ratio with the fit on one thread. Run it on a quiet machine.
"""

from __future__ import annotations

import multiprocessing
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

import cbq
from _common import (
    PROBLEMS,
    best_times,
    met,
    one_thread,
    peak_memory,
    positive_integer,
    print_record,
    progress,
    seconds,
)
from linalg import bare

CHOLESKY_SIZES = ((200, 300), (50, 1000))  # T, N of fits compared with dpotrf
SKLEARN_SIZE = (50, 50)
PREDICT_SIZE = (100, 50)  # also of MOBQ
MEMORY_SIZE = (1000, 1000)
PREDICTED = 10_000  # thetas
CHOLESKY_LIMITS = (("<=", 15.0), ("<=", 8.0))  # target and goal of the ratio
SKLEARN_LIMITS = ((">=", 10.0), (">=", 30.0))
PREDICT_LIMITS = (("<", 1.0),)
MOBQ_LIMITS = (("<=", 10.0),)
MAX_MEMORY = 2.0  # GiB
Limits = tuple[tuple[str, float], ...]
COMPARE: dict[str, Callable[[float, float], bool]] = {"<": float.__lt__, "<=": float.__le__, ">=": float.__ge__}


def alone(measured: Callable[[], float]) -> float:
    """The same measurement on one thread."""
    with one_thread():
        return measured()


def fitting(samples: cbq.Samples) -> float:
    """The seconds of a default fit."""
    return seconds(partial(cbq.CBQ().fit, samples))


def row(what: str, name: str, size: tuple[int, int], times: tuple[float, float], single: float, limits: Limits) -> str:
    """One row: two times, their ratio, whether it is within its limits, and the ratio on one thread."""
    ratio = times[0] / times[1]
    verdicts = [f"{sign} {limit:g}: {met(COMPARE[sign](ratio, limit))}" for sign, limit in limits]
    text = f"{what:25} {name:9} {size[0]:4} {size[1]:5} {times[0]:9.4f} {times[1]:9.4f} {ratio:8.2f}"
    return text + "".join(f" {verdict:>11}" for verdict in [*verdicts, ""][:2]) + f" {single:9.2f}"


def against_cholesky(name: str, size: tuple[int, int], repeats: int) -> str:
    """A fit compared with dpotrf on one thread."""
    samples = cbq.problems.get(name).collect(*size, rng=0)
    x = np.asarray(samples.x)
    grams = cbq.kernels.Matern(1.5, np.std(x, axis=(0, 1))).gram(x) + 1e-10 * np.eye(size[1])
    filled = np.empty_like(grams)

    def dpotrf() -> float:
        filled[...] = grams
        return seconds(partial(bare, filled))

    fit = partial(fitting, samples)
    contenders = {"fit": fit, "fit on one thread": partial(alone, fit), "dpotrf": partial(alone, dpotrf)}
    ours, single, theirs = best_times(repeats, contenders)
    return row("fit / T dpotrf", name, size, (ours, theirs), single / theirs, CHOLESKY_LIMITS)


def regressions(samples: cbq.Samples, kernel: str) -> int:
    """T + 1 Gaussian process regressions by scikit-learn: f on x at each theta, the averages of f on theta.

    Return the number of searches for hyperparameters that ended where they began, which makes them too fast.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

    stuck = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about lengthscales at their bounds and searches that did not converge
        for x, f in [*zip(samples.x, samples.f, strict=True), (samples.theta, np.mean(samples.f, axis=1))]:
            ell = np.ones(x.shape[1])
            k = ConstantKernel() * (RBF(ell) if kernel == "RBF" else Matern(ell, nu=1.5))
            fitted = GaussianProcessRegressor(k, alpha=1e-10, normalize_y=True).fit(x, f)
            stuck += np.array_equal(fitted.kernel_.theta, k.theta)
    return stuck


def against_sklearn(name: str, kernel: str, repeats: int) -> str:
    """scikit-learn on one thread compared with a fit."""
    samples = cbq.problems.get(name).collect(*SKLEARN_SIZE, rng=0)
    fit, theirs = partial(fitting, samples), partial(seconds, partial(regressions, samples, kernel))
    contenders = {"fit": fit, "fit on one thread": partial(alone, fit), "scikit-learn": partial(alone, theirs)}
    ours, single, sklearn = best_times(repeats, contenders)
    text = row(f"sklearn, {kernel} / fit", name, SKLEARN_SIZE, (sklearn, ours), sklearn / single, SKLEARN_LIMITS)
    stuck = regressions(samples, kernel)
    return text + f"  {stuck} of {samples.T + 1} searches of scikit-learn ended where they began" * (stuck > 0)


def prediction(name: str, repeats: int) -> str:
    """A prediction compared with the fit that makes it."""
    problem = cbq.problems.get(name)
    samples, theta = problem.collect(*PREDICT_SIZE, rng=0), problem.prior.sample(PREDICTED, 1)
    predict = partial(seconds, partial(cbq.CBQ().fit(samples).predict, theta, return_std=True))
    both = {"predict": predict, "fit": partial(fitting, samples)}
    alike = {f"{name} on one thread": partial(alone, measured) for name, measured in both.items()}
    predicted, fit, predicted1, fit1 = best_times(repeats, both | alike)
    return row(f"predict {PREDICTED:,} / fit", name, PREDICT_SIZE, (predicted, fit), predicted1 / fit1, PREDICT_LIMITS)


def pooled(name: str, repeats: int) -> str:
    """MOBQ compared with one Cholesky factorisation of its size."""
    samples = cbq.problems.get(name).collect(*PREDICT_SIZE, rng=0).output(0)
    points = samples.all_points
    gram = cbq.kernels.Matern(1.5, np.std(points, axis=0)).gram(points) + 1e-10 * np.eye(len(points))
    filled = np.empty((1, *gram.shape))

    def dpotrf() -> float:
        filled[0] = gram
        return seconds(partial(bare, filled))

    fit = partial(seconds, partial(cbq.MOBQ().fit, samples))
    contenders = {"MOBQ": fit, "MOBQ on one thread": partial(alone, fit)}
    both = {"dpotrf": dpotrf, "dpotrf on one thread": partial(alone, dpotrf)}
    ours, ours1, theirs, theirs1 = best_times(repeats, contenders | both)
    return row("MOBQ / dpotrf", name, PREDICT_SIZE, (ours, theirs), ours1 / theirs1, MOBQ_LIMITS)


def large_fit() -> tuple[float, float, float]:
    """The seconds of a large fit, and the peak memory in GiB before and after it."""
    samples = cbq.problems.get("butterfly").collect(*MEMORY_SIZE, rng=0)
    before = peak_memory()
    took = fitting(samples)
    return took, before, peak_memory()


def memory() -> str:
    """The peak memory of a large fit. Call it first: a new process inherits the peak of the one that starts it."""
    progress(f"fit with T, N = {MEMORY_SIZE}")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        took, before, after = pool.submit(large_fit).result()
    progress("")
    return (
        f"peak memory of a fit, butterfly, T, N = {MEMORY_SIZE}: {after:.2f} GiB ({before:.2f} GiB before it), "
        f"{took:.0f} s; <= {MAX_MEMORY:g} GiB: {met(after <= MAX_MEMORY)}"
    )


def rows(repeats: int) -> Iterator[str]:
    """The rows of the table, each measured when it is requested."""
    for name in ("butterfly", "linear"):
        for size in CHOLESKY_SIZES:
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
    parser.add_argument(
        "--repeats", type=positive_integer, default=3, help="repetitions, of which the best counts (default 3)"
    )
    parser.add_argument("--skip-memory", action="store_true", help="skip the large fit, which takes minutes")
    options = parser.parse_args()
    print_record()
    if not options.skip_memory:
        print(f"\n{memory()}", flush=True)
    print(f"\nseconds of a and b, best of {options.repeats} repetitions\n")
    print(
        f"{'a / b':25} {'problem':9} {'T':>4} {'N':>5} {'a':>9} {'b':>9} {'a / b':>8} {'target':>11} {'goal':>11} "
        f"{'1 thread':>9}"
    )
    for text in rows(options.repeats):
        print(text, flush=True)


if __name__ == "__main__":
    main()
