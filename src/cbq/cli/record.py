"""The record of a run, `run.json`: enough to repeat it, and for `cbq predict` to find the problem again."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from cbq import __version__
from cbq.cli.source import Source

NAME = "run.json"
FORMAT, VERSION = "cbq-run", 1


def write(folder: Path, source: Source, problem: str, **parts: Any) -> None:
    """Write the record: where the problem came from, what it calls itself, and named parts that are JSON."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "problem": {"called": problem, **source.record()},
        **parts,
        "versions": {
            "cbq": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "platform": platform.platform(),
        },
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    (folder / NAME).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def source_beside(fit: Path) -> Source | None:
    """The problem of the run that wrote a fit, from the record beside it; None where there is no record."""
    path = fit.parent / NAME
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != FORMAT or record["version"] > VERSION:
            raise ValueError(f"it has format {record['format']!r}, version {record['version']}")
        return Source.from_record(record["problem"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a record that cbq run wrote ({error}): pass --problem.") from error
