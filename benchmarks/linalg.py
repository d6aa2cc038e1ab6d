"""Gram matrices, Cholesky factors and three right-hand sides for a batch, compared with a bare loop of dpotrf.

Run: .venv/bin/python benchmarks/linalg.py [repetitions]

The bare loop factors matrices that are filled already and solves nothing, so that a ratio of 1 means that filling
the Gram matrices and solving cost nothing. The columns of a row are measured in turn within each repetition. Run it on
a quiet machine: the load average is part of the record.

A second table has single operations on many small matrices, in microseconds per matrix.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np

from _common import met, print_record, seconds
from cbq.kernels import RBF, Kernel, Matern
from cbq.linalg import at_most, factor, lapack, threads
from cbq.linalg.gram import chunks, factor_gram

SIZES = [(50, 50), (1200, 50), (200, 300), (50, 1000)]
SMALL = (1200, 50)
DIM = 3
KERNELS: list[Kernel] = [Matern(1.5, 1.0), RBF(0.3)]
TARGET = 3.0


def batched(kernel: Kernel, x: np.ndarray, b: np.ndarray) -> np.ndarray:
    """L^-1 b (T, N, 3) for points x (T, N, d), in chunks that share one piece of memory."""
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
    if any(lapack.potrf(filled)):
        raise ValueError("not positive definite")


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
    target = "" if N < 100 else met(ours <= TARGET * one)
    return (
        f"{kernel!r:28} {T:4} {N:5} {ours:9.4f} {serial:9.4f} {one:9.4f} {default:9.4f} "
        f"{ours / one:8.2f} {serial / one:8.2f} {ours / default:8.2f} {target:>6}"
    )


def small(kernel: Kernel, T: int, N: int, dim: int, repetitions: int) -> str:
    """One row of the table of single operations: microseconds per matrix, on one thread, as for all small matrices."""
    rng = np.random.default_rng(0)
    x, b = rng.normal(size=(T, N, dim)), rng.normal(size=(T, N, 3))
    G, out, grams = np.ones((T, N, N)), np.empty((T, N, N)), kernel.gram(x) + 1e-8 * np.eye(N)
    F, filled = factor(grams), np.empty_like(grams)
    operations: dict[str, Callable[[], object]] = {
        "dpotrf": lambda: bare(filled),
        "factor_gram": lambda: factor_gram(kernel, x, out=out),
        "solve_lower": lambda: F.solve_lower(b),
        "solve": lambda: F.solve(b),
        "logdet": lambda: F.logdet,
        "inverse": F.inverse,
        "inverse_diagonal": F.inverse_diagonal,
        "contract": lambda: kernel.contract(x, G),
    }
    times: dict[str, list[float]] = {name: [] for name in operations}
    for _ in range(repetitions):
        filled[...] = grams
        with threads.one_blas_thread():
            for name, call in operations.items():
                times[name].append(seconds(call))
    listed = ", ".join(f"{name} {1e6 * statistics.median(t) / T:.1f}" for name, t in times.items())
    return f"{kernel!r}, T = {T}, N = {N}, d = {dim}: {listed}"


def main() -> None:
    """Print the run record and the table."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    print_record()
    print(f"seconds, median of {repetitions} interleaved repetitions, d = {DIM}; target: cbq/b1 <= {TARGET:g}\n")
    print(
        f"{'kernel':28} {'T':>4} {'N':>5} {'cbq':>9} {'cbq 1 thr':>9} {'bare 1':>9} {'bare def':>9} "
        f"{'cbq/b1':>8} {'cbq1/b1':>8} {'cbq/bdef':>8} {'target':>6}"
    )
    for kernel in KERNELS:
        for T, N in SIZES:
            print(row(kernel, T, N, repetitions), flush=True)
    print("\nmicroseconds per matrix")
    for dim in (1, DIM):
        print(small(KERNELS[0], *SMALL, dim, repetitions), flush=True)


if __name__ == "__main__":
    main()
