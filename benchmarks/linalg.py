"""Gram + Cholesky + three right-hand sides for a batch, against a bare loop of LAPACK's dpotrf.

Run: .venv/bin/python benchmarks/linalg.py [repetitions]

The bare loop factors matrices that are already filled and solves nothing, so a ratio of 1 means that filling
the Gram matrices and solving cost nothing on top. All columns of a row are measured in turn within one
repetition. Run it on a quiet machine: the load average is part of the record.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import scipy
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from cbq.kernels import RBF, Kernel, Matern
from cbq.linalg import at_most, chunks, factor, factor_gram, lapack, threads

SIZES = [(50, 50), (200, 300), (50, 1000)]
DIM = 3
KERNELS: list[Kernel] = [Matern(1.5, 1.0), RBF(0.3)]
TARGET = 3.0


def batched(kernel: Kernel, x: np.ndarray, b: np.ndarray) -> np.ndarray:
    """L^-1 b (T, N, 3) for points x (T, N, d) in chunks of bounded memory, which is used again each time."""
    T, N, _ = x.shape
    out = np.empty(b.shape)
    pieces = list(chunks(T, N))
    work = np.empty((pieces[0].stop, N, N))
    for piece in pieces:
        storage = work[: piece.stop - piece.start]
        out[piece] = factor_gram(kernel, x[piece], out=storage).solve_lower(b[piece])
    return out


def bare(filled: np.ndarray) -> None:
    """dpotrf on each matrix of a batch, in a loop."""
    for a in filled:
        if lapack.potrf(a):
            raise ValueError("not positive definite")


def seconds(call: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def row(kernel: Kernel, T: int, N: int, repetitions: int) -> str:
    """One row of the table."""
    rng = np.random.default_rng(0)
    x, b = rng.normal(size=(T, N, DIM)), rng.normal(size=(T, N, 3))
    grams = kernel.gram(x) + 1e-10 * np.eye(N)
    check = factor(grams[-1]).solve_lower(b[-1])
    if not np.allclose(batched(kernel, x, b)[-1], check, rtol=1e-3, atol=1e-3):
        raise AssertionError("the two routes differ")
    filled = np.empty_like(grams)
    times: dict[str, list[float]] = {name: [] for name in ("cbq", "cbq, 1 thread", "bare, 1", "bare, default")}
    for _ in range(repetitions):
        times["cbq"].append(seconds(lambda: batched(kernel, x, b)))
        with at_most(1):
            times["cbq, 1 thread"].append(seconds(lambda: batched(kernel, x, b)))
        for name, limit in (("bare, 1", threads.one_blas_thread), ("bare, default", nullcontext)):
            filled[...] = grams
            with limit():
                times[name].append(seconds(lambda: bare(filled)))
    ours, serial, one, default = (statistics.median(t) for t in times.values())
    target = "" if N < 100 else "yes" if ours <= TARGET * one else "NO"
    return (
        f"{kernel!r:28} {T:4} {N:5} {ours:9.4f} {serial:9.4f} {one:9.4f} {default:9.4f} "
        f"{ours / one:8.2f} {serial / one:8.2f} {ours / default:8.2f} {target:>6}"
    )


def record() -> str:
    """What the numbers depend on."""
    blas = {
        f"{lib['internal_api']} {lib['version']} ({lib.get('architecture')}, {lib['num_threads']} threads)"
        for lib in threadpool_info()
        if lib["user_api"] == "blas"
    }
    return (
        f"python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"{platform.machine()}, {threads.usable_cores()} usable cores, "
        f"load average {os.getloadavg()[0]:.1f}\nBLAS: {'; '.join(sorted(blas))}"
    )


def main() -> None:
    """Print the run record and the table."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    print(record())
    print(f"seconds, median of {repetitions} interleaved repetitions, d = {DIM}; target: cbq/b1 <= {TARGET:g}\n")
    print(
        f"{'kernel':28} {'T':>4} {'N':>5} {'cbq':>9} {'cbq 1 thr':>9} {'bare 1':>9} {'bare def':>9} "
        f"{'cbq/b1':>8} {'cbq1/b1':>8} {'cbq/bdef':>8} {'target':>6}"
    )
    for kernel in KERNELS:
        for T, N in SIZES:
            print(row(kernel, T, N, repetitions), flush=True)


if __name__ == "__main__":
    main()
