"""Check that a step fits into memory before it begins.

Matrices of exact steps grow with the square of N or T. Out of memory, many systems end the process or swap for hours
instead of raising an error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

GIB = 2**30
PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
LIMIT_AND_USAGE = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))  # of v2, v1
CERTAIN = 2**25  # float64 values that every machine can hold: fewer are not checked
PAGE_CACHE = ("inactive_file", "active_file")  # counted as used, but the system can reclaim it


def require_memory(numbers: float, what: str, instead: str, memory: Callable[[], float] | None = None) -> None:
    """Raise MemoryError, as NumPy does, unless `what` fits into memory; `instead` is the remedy in the message.

    numbers: float64 values in memory at a time, a lower bound, so that no feasible step is refused.
    memory: returns the available bytes of another device (default: of this process).
    """
    if numbers <= CERTAIN:
        return
    available = (available_memory() if memory is None else memory()) / GIB
    needed = 8 * min(numbers, 1e300) / GIB  # numbers may exceed a float
    if needed > available:
        raise MemoryError(
            f"{what} takes at least {needed:.3g} GiB of memory, but {available:.3g} GiB are available: {instead}."
        )


def available_memory(proc: Path = PROC, cgroups: Path = CGROUPS) -> float:
    """Upper bound of the bytes that this process can still allocate; infinite if unknown."""
    bounds = (*_in_machine(proc), *_in_cgroups(proc, cgroups), *_in_address_space(proc))
    return max(0.0, min(bounds, default=math.inf))


def _in_machine(proc: Path) -> Iterator[float]:
    """Memory left on the machine, with swap; its total memory if that is unknown."""
    meminfo = _table(proc / "meminfo")
    if "MemAvailable:" in meminfo:
        yield 1024 * (meminfo["MemAvailable:"] + meminfo.get("SwapFree:", 0))
    elif "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        yield float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")


def _in_cgroups(proc: Path, cgroups: Path) -> Iterator[float]:
    """Memory left in the control groups of this process (in a container, for example), with swap."""
    swap = 1024 * _table(proc / "meminfo").get("SwapFree:", 0)
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):  # version 2 has one group without a name
            continue
        root = cgroups / controllers
        own = root / path.lstrip("/")
        groups = (own, *(group for group in own.parents if group.is_relative_to(root)))
        for group, (limit, usage) in ((group, pair) for group in groups for pair in LIMIT_AND_USAGE):
            most, used = _number(group / limit), _number(group / usage)
            if most is not None and used is not None:
                stat = _table(group / "memory.stat")
                yield most - used + swap + sum(stat.get(f"total_{name}", stat.get(name, 0)) for name in PAGE_CACHE)


def _in_address_space(proc: Path) -> Iterator[float]:
    """Address space left to this process under a limit such as `ulimit -v`."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = _lines(proc / "self" / "statm")
    if most != resource.RLIM_INFINITY:
        yield most - (int(pages[0].split()[0]) * resource.getpagesize() if pages else 0)


def _lines(path: Path) -> list[str]:
    """The lines of a system file; empty if there is no such file."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    """The number in a file; None if it holds none, such as the limit `max`."""
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def _table(path: Path) -> dict[str, int]:
    """The names and numbers in the first two columns of a file."""
    rows = [line.split() for line in _lines(path)]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}
