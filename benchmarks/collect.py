"""What collecting samples costs: workers kept busy, overhead of a checkpoint, loading a large one.

Run: .venv/bin/python benchmarks/collect.py [--repeats 3]

1. Throughput of an integrand of 10 ms a point on a pool of 2 processes against this process alone, with a checkpoint.
2. Time of `collect` with a checkpoint on an integrand that costs nothing, in batches of 100 points, for each point;
   also without a checkpoint, and with every batch in a transaction of its own.
3. Time and peak memory of `Samples.from_checkpoint` with 1e6 evaluations, in a process of its own; and of asking
   `collect` for the same run again.

The times of a ratio are measured in turn within one repetition, and the best of each counts. The 10 ms are slept, so
that the first ratio is that of collect rather than of the cores of a busy machine.
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
from _common import at_least_one, print_record, yes
from speed import best, peak

SLOW = (4, 100)  # T, N of the slow integrand
FREE = (100, 1000)  # of the one that costs nothing
MANY = (1000, 1000)  # of the checkpoint that is loaded
BUSY, OVERHEAD, SECONDS, MEMORY = 1.8, 50.0, 10.0, 1.0  # times, microseconds a point, seconds, GiB


def slow(x: np.ndarray, theta: np.ndarray) -> float:
    """10 ms for one point x (1,)."""
    time.sleep(0.01)
    return float(x[0] * theta[0])


def free(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The first coordinate of the points."""
    return x[:, 0]


def family(theta: np.ndarray) -> cbq.measures.Gaussian:
    """The measure of two coordinates."""
    return cbq.measures.Gaussian([theta[0], 0.0], 1.0)


PRIOR = cbq.measures.Uniform(0.0, 1.0)
SLOWLY = cbq.Problem(slow, family, PRIOR, vectorized=False, name="slow")
FREELY = cbq.Problem(free, family, PRIOR, name="free")


def seconds(run: Callable[..., object], **options: object) -> float:
    """Seconds of a run."""
    start = time.perf_counter()
    run(rng=0, progress=False, **options)
    return time.perf_counter() - start


def fresh(folder: Path) -> Iterator[Path]:
    """Names of files that do not exist yet."""
    return (folder / f"{k}.sqlite" for k in count())


def busy(folder: Path, repeats: int) -> str:
    """The throughput of two workers against that of one."""
    names, run = fresh(folder), partial(SLOWLY.collect, *SLOW, batch=10)
    with ProcessPoolExecutor(2) as pool:
        contenders = {
            "in this process": lambda: seconds(run, checkpoint=next(names)),
            "on a pool of 2": lambda: seconds(run, checkpoint=next(names), executor=pool),
            "with executor=2": lambda: seconds(run, checkpoint=next(names), executor=2),
        }
        alone, pooled, own = best(repeats, contenders)
    least = alone / max(pooled, own)
    return (
        f"10 ms a point, {SLOW[0]} x {SLOW[1]}: {alone:.2f} s in this process, {pooled:.2f} s on a pool of 2 "
        f"({alone / pooled:.2f} times), {own:.2f} s with executor=2 ({alone / own:.2f} times)   "
        f">= {BUSY:g}: {yes(least >= BUSY)}"
    )


def overhead(folder: Path, repeats: int) -> str:
    """Microseconds a point of everything but f."""
    names, run = fresh(folder), partial(FREELY.collect, *FREE, batch=100)
    contenders = {
        "without a checkpoint": lambda: seconds(run),
        "with a checkpoint": lambda: seconds(run, checkpoint=next(names)),
        "batch by batch": lambda: seconds(run, checkpoint=next(names), in_flight=1),
    }
    points = FREE[0] * FREE[1]
    bare, kept, single = (1e6 * each / points for each in best(repeats, contenders))
    return (
        f"overhead in microseconds a point, batches of 100: {bare:.2f} without a checkpoint, {kept:.2f} with one, "
        f"{single:.2f} with a transaction for each batch   <= {OVERHEAD:g}: {yes(max(kept, single) <= OVERHEAD)}"
    )


def loaded(path: Path) -> tuple[float, float, int]:
    """Seconds and peak memory in GiB of loading a checkpoint, and how many evaluations it has."""
    start = time.perf_counter()
    samples = cbq.Samples.from_checkpoint(path)
    taken = time.perf_counter() - start
    return taken, peak(), samples.n_evaluations


def loading(folder: Path) -> str:
    """Loading a large checkpoint."""
    path = folder / "many.sqlite"
    run = partial(FREELY.collect, *MANY, checkpoint=path)
    made = seconds(run)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        taken, memory, n = alone.submit(loaded, path).result()
    again = seconds(run)
    return (
        f"{n:,} evaluations, {path.stat().st_size / 2**20:.0f} MiB, collected in {made:.1f} s: loaded in {taken:.2f} s "
        f"(<= {SECONDS:g}: {yes(taken <= SECONDS)}) with {memory:.2f} GiB at the peak (<= {MEMORY:g}: "
        f"{yes(memory <= MEMORY)}); asked for again in {again:.2f} s"
    )


def main() -> None:
    """Print the run record and the results."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=at_least_one, default=3, help="of each measurement (default 3)")
    options = parser.parse_args()
    print_record()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for k, part in enumerate((busy, overhead)):
            (folder / str(k)).mkdir()
            print(part(folder / str(k), options.repeats), flush=True)
        print(loading(folder))


if __name__ == "__main__":
    main()
