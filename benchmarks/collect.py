"""The cost of collecting samples: throughput of workers, overhead of a checkpoint, loading a large one.

Run: .venv/bin/python benchmarks/collect.py [--repeats 3]

1. The throughput of 2 processes compared with this process, for an integrand of 10 ms per point, with a checkpoint.
2. The time per point of `collect` for an integrand that costs nothing, in batches of 100 points: without a checkpoint,
   with one, and with a transaction for each batch.
3. The time and peak memory of `Samples.from_checkpoint` with 1e6 evaluations, in a process of its own, and the time of
   collecting the same run again.

The times of a ratio are measured in turn, and the best of each counts. The slow integrand sleeps, so that the first
ratio does not depend on how busy the cores are.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

import cbq
from _common import best_times, met, peak_memory, positive_integer, print_record

SLOW_SIZE = (4, 100)  # T, N of the slow integrand
FREE_SIZE = (100, 1000)  # T, N of the integrand that costs nothing
LOADED_SIZE = (1000, 1000)  # T, N of the checkpoint that is loaded
MIN_SPEEDUP, MAX_OVERHEAD = 1.8, 50.0  # the second in microseconds per point
MAX_SECONDS, MAX_MEMORY = 10.0, 1.0  # of loading; GiB


def slow(x: np.ndarray, theta: np.ndarray) -> float:
    """Sleep 10 ms for one point x (2,)."""
    time.sleep(0.01)
    return float(x[0] * theta[0])


def free(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The first coordinate of the points."""
    return x[:, 0]


def family(theta: np.ndarray) -> cbq.measures.Gaussian:
    """N((theta, 0), I)."""
    return cbq.measures.Gaussian([theta[0], 0.0], 1.0)


PRIOR = cbq.measures.Uniform(0.0, 1.0)
SLOW_PROBLEM = cbq.Problem(slow, family, PRIOR, vectorized=False, name="slow")
FREE_PROBLEM = cbq.Problem(free, family, PRIOR, name="free")


def seconds(run: Callable[..., object], **options: object) -> float:
    """The seconds of a run."""
    start = time.perf_counter()
    run(rng=0, progress=False, **options)
    return time.perf_counter() - start


def new_files(folder: Path) -> Iterator[Path]:
    """Names of files that do not exist yet."""
    return (folder / f"{k}.sqlite" for k in count())


def speedup(folder: Path, repeats: int) -> str:
    """The throughput of two workers against that of one."""
    names, run = new_files(folder), partial(SLOW_PROBLEM.collect, *SLOW_SIZE, batch=10)
    with ProcessPoolExecutor(2) as pool:
        contenders = {
            "in this process": lambda: seconds(run, checkpoint=next(names)),
            "on a pool of 2": lambda: seconds(run, checkpoint=next(names), executor=pool),
            "with executor=2": lambda: seconds(run, checkpoint=next(names), executor=2),
        }
        alone, pooled, own = best_times(repeats, contenders)
    least = alone / max(pooled, own)
    return (
        f"10 ms per point, {SLOW_SIZE[0]} x {SLOW_SIZE[1]}: {alone:.2f} s in this process, "
        f"{pooled:.2f} s on a pool of 2 ({alone / pooled:.2f} times), "
        f"{own:.2f} s with executor=2 ({alone / own:.2f} times)   >= {MIN_SPEEDUP:g}: {met(least >= MIN_SPEEDUP)}"
    )


def overhead(folder: Path, repeats: int) -> str:
    """The microseconds per point of everything but f."""
    names, run = new_files(folder), partial(FREE_PROBLEM.collect, *FREE_SIZE, batch=100)
    contenders = {
        "without a checkpoint": lambda: seconds(run),
        "with a checkpoint": lambda: seconds(run, checkpoint=next(names)),
        "batch by batch": lambda: seconds(run, checkpoint=next(names), in_flight=1),
    }
    points = FREE_SIZE[0] * FREE_SIZE[1]
    bare, kept, single = (1e6 * each / points for each in best_times(repeats, contenders))
    return (
        f"overhead in microseconds per point, batches of 100: {bare:.2f} without a checkpoint, {kept:.2f} with one, "
        f"{single:.2f} with a transaction for each batch   "
        f"<= {MAX_OVERHEAD:g}: {met(max(kept, single) <= MAX_OVERHEAD)}"
    )


def loaded(path: Path) -> tuple[float, float, int]:
    """The seconds and peak memory in GiB of loading a checkpoint, and its number of evaluations."""
    start = time.perf_counter()
    samples = cbq.Samples.from_checkpoint(path)
    taken = time.perf_counter() - start
    return taken, peak_memory(), samples.n_evaluations


def loading(folder: Path) -> str:
    """The time and memory of loading a large checkpoint."""
    path = folder / "many.sqlite"
    run = partial(FREE_PROBLEM.collect, *LOADED_SIZE, checkpoint=path)
    made = seconds(run)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        taken, memory, n = alone.submit(loaded, path).result()
    again = seconds(run)
    return (
        f"{n:,} evaluations, {path.stat().st_size / 2**20:.0f} MiB, collected in {made:.1f} s: loaded in {taken:.2f} s "
        f"(<= {MAX_SECONDS:g}: {met(taken <= MAX_SECONDS)}) with {memory:.2f} GiB at the peak (<= {MAX_MEMORY:g}: "
        f"{met(memory <= MAX_MEMORY)}); collected again in {again:.2f} s"
    )


def main() -> None:
    """Print the run record and the results."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--repeats", type=positive_integer, default=3, help="repetitions of each measurement (default 3)"
    )
    options = parser.parse_args()
    print_record()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for k, part in enumerate((speedup, overhead)):
            (folder / str(k)).mkdir()
            print(part(folder / str(k), options.repeats), flush=True)
        print(loading(folder))


if __name__ == "__main__":
    main()
