"""What the benchmarks share: what `experiments/` shares with them, the run record in print, progress and arguments."""

from __future__ import annotations

import resource
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))  # the root of the checkout, so that `experiments` can be imported

from experiments.common import (
    PROBLEMS,
    TEST_SEED,
    OneThreadPool,
    coverage,
    one_thread,
    problem_with_truth,
    rmse,
    share_inside,
)
from experiments.record import package_digest, run_record

__all__ = [
    "PROBLEMS",
    "TEST_SEED",
    "OneThreadPool",
    "best_times",
    "coverage",
    "met",
    "one_thread",
    "peak_memory",
    "positive_integer",
    "print_record",
    "problem_with_truth",
    "progress",
    "rmse",
    "seconds",
    "share_inside",
    "with_progress",
]

Item = TypeVar("Item")


def print_record() -> dict[str, Any]:
    """Print the run record, and return it."""
    record = run_record(package_digest())
    versions, machine = record["versions"], record["machine"]
    print(
        f"{record['started']}, cbq {versions['cbq']}, commit {record['commit']}, code {record['code']}\n"
        f"python {versions['python']}, numpy {versions['numpy']}, scipy {versions['scipy']}, {machine['processor']}, "
        f"{machine['cores']} usable cores, load average {machine['load_average']}\nBLAS: {versions['blas']}"
    )
    return record


def seconds(call: Callable[[], object]) -> float:
    """The wall-clock time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def best_times(repeats: int, contenders: dict[str, Callable[[], float]]) -> list[float]:
    """The best of several times in seconds of each contender; contenders take turns."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for k in range(repeats):
        for name, measured in contenders.items():
            progress(f"{name}, {k + 1} of {repeats}")
            times[name].append(measured())
    progress("")
    return [min(each) for each in times.values()]


def peak_memory() -> float:
    """The peak memory of this process so far, in GiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def with_progress(items: Iterable[Item], total: int, title: str) -> Iterator[Item]:
    """Yield the items, and show on stderr how many of them have come."""
    start = time.perf_counter()
    for done, item in enumerate(items, 1):
        yield item
        progress(f"{title}: {done}/{total}, {time.perf_counter() - start:.0f} s")
    progress("")


def progress(text: str) -> None:
    """Show a line on stderr; on a terminal it replaces the last one."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def positive_integer(text: str) -> int:
    """A positive integer from the command line."""
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"must be an integer of at least 1, but it is {text!r}")
    return int(text)


def met(target_met: bool) -> str:
    """Whether a target is met, in a table."""
    return "yes" if target_met else "NO"
