"""Fits, factors and solves on a device, compared with NumPy on the cores of the same machine.

Run: .venv/bin/python benchmarks/engines.py [--engine cuda] [--parts fit,exact,raw,batch] [--quick] [--profile]

Needs numpy, scipy, threadpoolctl and torch only: PYTHONPATH=src is enough. `--quick` takes small sizes, with which
`--engine torch` runs in seconds on any machine; its times mean nothing. Values of f are made beforehand. Times of an
engine are those of the second of two equal fits: the first one loads libraries and takes memory.

    fit    CBQ().fit with 1000 points at each of 1000 thetas, by NumPy and on the device
    exact  exact MOBQ, kernels and lengthscales included: 10,000 points by both, 40,000 on the device
    raw    one Gram matrix and its Cholesky factor, on the device
    batch  Gram matrices, factors and a solve of 1000 x 1000 points, on the device

Differences are the largest ones between the two answers, relative to the largest of them. Beside them stand those of
two fits by NumPy to values of f that differ in their last digit: where lengthscales are searched for and Gram matrices
are nearly singular, rounding decides in both cases.
"""

from __future__ import annotations

import cProfile
import pstats
import traceback
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import numpy as np

import cbq
from _common import met, print_record, seconds
from cbq.kernels import Matern
from cbq.linalg import factor_gram
from cbq.linalg.engines import current_engine
from cbq.measures import Gaussian

DIM, NEW = 2, 50  # coordinates of x, and thetas to compare predictions at
FULL = {"fit": [(1000, 1000)], "exact": [(100, 100), (200, 200)], "raw": [20_000, 40_000], "batch": [(1000, 1000)]}
QUICK = {"fit": [(50, 60)], "exact": [(20, 20), (30, 30)], "raw": [500, 1000], "batch": [(20, 100)]}
FIT_SECONDS, FIT_FASTER, EXACT_SECONDS, EXACT_FASTER = 3.0, 10.0, 30.0, 20.0  # targets


def samples(T: int, N: int, *, nudged: bool = False) -> cbq.Samples:
    """Values of a function of x with a kink, at N points of each of T thetas; nudged: with other last digits."""
    rng = np.random.default_rng(0)
    theta = np.sort(rng.uniform(0.5, 1.5, (T, 1)), axis=0)
    x = theta[:, None] + rng.standard_normal((T, N, DIM))
    f = np.sum(np.sin(2 * x), axis=-1) * np.exp(-0.3 * x[..., 0] ** 2) + np.maximum(x[..., 0] - 1.0, 0.0)
    f = np.nextafter(f, np.inf) if nudged else f
    return cbq.Samples(theta, x, f, lambda t: Gaussian(t * np.ones(DIM), np.ones(DIM)), depends_on_theta=False)


class Contest:
    """The same fits by NumPy and by another engine."""

    def __init__(self, engine: str, profile: bool) -> None:
        self.engine, self.profile = engine, profile

    def fitted(self, engine: str, estimator: cbq.CBQ | cbq.MOBQ, data: cbq.Samples, runs: int) -> tuple[cbq.Fit, float]:
        """The fit by an engine, and the seconds of the last of some runs."""
        found: list[cbq.Fit] = []
        with cbq.engine(engine):
            for _ in range(runs):
                found.clear()  # so that its matrices make room
                time = seconds(lambda: found.append(estimator.fit(data)))
            if self.profile and engine == self.engine:
                found.clear()
                profile = cProfile.Profile()
                profile.runcall(lambda: found.append(estimator.fit(data)))
                pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return found[0], time

    def compare(self, title: str, estimator: cbq.CBQ | cbq.MOBQ, T: int, N: int, most: float, faster: float) -> None:
        """Print the seconds of both, and how far their answers are apart."""
        data, theta = samples(T, N), np.linspace(0.6, 1.4, NEW)
        fit, time = self.fitted(self.engine, estimator, data, 2)
        a = np.stack(fit.predict(theta, return_std=True))
        print(f"{title}: {self.engine} {time:.2f} s (at most {most:g}: {met(time <= most)})", flush=True)
        del fit
        fit, by_numpy = self.fitted("numpy", estimator, data, 1)
        b = np.stack(fit.predict(theta, return_std=True))
        nudged, _ = self.fitted("numpy", estimator, samples(T, N, nudged=True), 1)
        apart, yardstick = (
            np.max(np.abs(each - b), axis=1) / np.max(np.abs(b), axis=1)
            for each in (a, np.stack(nudged.predict(theta, return_std=True)))
        )
        ratio = by_numpy / time
        target = f"at least {faster:g}: {met(ratio >= faster)}"
        print(
            f"{title}: numpy {by_numpy:.2f} s, {ratio:.1f} times as long ({target}); "
            f"means differ by {apart[0]:.1e}, standard deviations by {apart[1]:.1e}; two fits by numpy, to values with "
            f"other last digits, by {yardstick[0]:.1e} and {yardstick[1]:.1e}",
            flush=True,
        )

    def fit(self, sizes: list[tuple[int, int]]) -> None:
        """CBQ."""
        for T, N in sizes:
            self.compare(f"CBQ().fit, T = {T}, N = {N}", cbq.CBQ(), T, N, FIT_SECONDS, FIT_FASTER)

    def exact(self, sizes: list[tuple[int, int]]) -> None:
        """MOBQ: all sizes but the last by both engines."""
        *both, (T, N) = sizes
        for each in both:
            self.compare(f"exact MOBQ, n = {each[0] * each[1]}", cbq.MOBQ(), *each, EXACT_SECONDS, EXACT_FASTER)
        _, time = self.fitted(self.engine, cbq.MOBQ(), samples(T, N), 2)
        target = f"at most {EXACT_SECONDS:g}: {met(time <= EXACT_SECONDS)}"
        print(f"exact MOBQ, n = {T * N}: {self.engine} {time:.2f} s ({target})", flush=True)

    def raw(self, sizes: list[int]) -> None:
        """A single large matrix."""
        for n in sizes:
            x = np.random.default_rng(0).standard_normal((n, DIM))
            with cbq.engine(self.engine):
                _, time = second(lambda x=x: factor_gram(Matern(1.5, 1.0), x).logdet)
            print(f"Gram matrix and Cholesky, n = {n}: {time:.3f} s, {n**3 / 3e12 / time:.1f} TFLOP/s", flush=True)

    def batch(self, sizes: list[tuple[int, int]]) -> None:
        """Many matrices, against NumPy for a few of them."""
        rng = np.random.default_rng(0)
        for T, N in sizes:
            x, b = rng.standard_normal((T, N, DIM)), rng.standard_normal((T, N, 1))

            def solved(k: int, x: np.ndarray = x, b: np.ndarray = b) -> np.ndarray:
                return factor_gram(Matern(1.5, 1.0), x[:k]).solve(b[:k])

            with cbq.engine(self.engine):
                found, time = second(lambda T=T, solved=solved: solved(T))
            few = solved(5)
            apart = np.max(np.abs(found[:5] - few)) / np.max(np.abs(few))
            print(f"{T} Gram matrices of {N} points, factors, a solve: {time:.3f} s; differ by {apart:.1e}", flush=True)


def second(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and the seconds of the second of two such calls."""
    call()
    found: list[Any] = []
    time = seconds(lambda: found.append(call()))
    return found[0], time


def main() -> None:
    """Print the run record and each part that is asked for."""
    parser = ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--engine", default="cuda")
    parser.add_argument("--parts", default=",".join(FULL))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--profile", action="store_true", help="print where the fits on the device take their time")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", cbq.FitWarning)
    print_record()
    with cbq.engine(arguments.engine):
        print(f"engine: {current_engine().name}, exact for up to {current_engine().largest_exact} points\n", flush=True)
        cbq.CBQ().fit(samples(20, 200))  # loads the libraries
    contest = Contest(arguments.engine, arguments.profile)
    for part in arguments.parts.split(","):
        call: Callable[..., None] = getattr(contest, part)
        try:
            call((QUICK if arguments.quick else FULL)[part])
        except Exception:  # the other parts are worth having
            traceback.print_exc()


if __name__ == "__main__":
    main()
