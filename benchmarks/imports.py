"""The time that public names take to import, beyond NumPy, and how many modules of cbq they load.

Run: .venv/bin/python benchmarks/imports.py [--repeats 5]

Each line of imports runs in a new process with `-X importtime`; the times are medians over the repeats.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from statistics import median

from _common import positive_integer, print_record

CODE = [
    "import cbq",
    "from cbq import kernels, measures",
    "from cbq import Samples",
    "from cbq import CBQ",
    "from cbq import Problem",
    "from cbq import evppi",
    "from cbq import *",
]
LINE = re.compile(r"import time: +(\d+) \| +(\d+) \|( +)([\w.]+)")  # own and cumulative microseconds, and the name


def imported(code: str) -> tuple[float, float, int]:
    """Milliseconds of all modules after NumPy, of those of cbq alone, and the number of the latter."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import numpy\nimport sys; sys.stderr.write('after\\n')\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [(int(row[1]), row[4]) for row in LINE.finditer(done.stderr.partition("after\n")[2])]
    own = [micro for micro, name in rows if name.partition(".")[0] == "cbq"]
    return sum(micro for micro, _ in rows) / 1000, sum(own) / 1000, len(own)


def main() -> None:
    """Print a row for each line of imports."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=positive_integer, default=5)
    repeats = parser.parse_args().repeats
    print_record()
    print(f"\n{'':36}ms beyond NumPy  ms in cbq alone  modules of cbq")
    for code in CODE:
        runs = [imported(code) for _ in range(repeats)]
        total, own = (median(run[i] for run in runs) for i in (0, 1))
        print(f"{code:36}{total:15.0f}{own:17.0f}{runs[0][2]:16}", flush=True)


if __name__ == "__main__":
    main()
