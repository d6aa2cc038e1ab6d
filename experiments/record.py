"""The record of a run: commit, digest of the code, versions and machine. Experiments and benchmarks share it."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

import cbq
from cbq.linalg.threads import usable_cores

HERE = Path(__file__).parent
PACKAGE = Path(cbq.__file__).parent
NO_ESTIMATORS = ("cli", "nested", "psa")  # rooms of the package that no estimate depends on
SCORING = ("common.py", "methods.py")  # files of the experiments that scores depend on


def run_record(code: str) -> dict[str, Any]:
    """The time, commit, code digest, versions and machine of this process."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"started": now, "commit": commit(), "code": code, "versions": versions(), "machine": machine()}


@cache
def estimator_digest() -> str:
    """A digest of the files, as they are on disk, that estimates and their scores depend on."""
    package = [path for path in _package_files() if path.relative_to(PACKAGE).parts[0] not in NO_ESTIMATORS]
    return _digest([*package, *(HERE / name for name in SCORING)])


@cache
def package_digest() -> str:
    """A digest of all files of the package, as they are on disk."""
    return _digest(_package_files())


def versions() -> dict[str, str]:
    """The versions of everything that numbers depend on."""
    blas = {
        f"{found['internal_api']} {found['version']} ({found.get('architecture')}, {found['num_threads']} threads)"
        for found in threadpool_info()
        if found["user_api"] == "blas"
    }
    return {
        "cbq": cbq.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": "; ".join(sorted(blas)),
    }


def machine() -> dict[str, Any]:
    """The platform, processor, usable cores and load average of this machine."""
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {"platform": platform.platform(), "processor": _processor(), "cores": usable_cores(), "load_average": load}


@cache
def commit() -> str | None:
    """The commit of the package, with "-dirty" if files differ from it; None if it is not in a repository."""
    git = ["git", "-C", str(PACKAGE), "--no-optional-locks"]
    try:
        for arguments in (["ls-files", "--error-unmatch", "__init__.py"], ["describe", "--always", "--dirty"]):
            answer = subprocess.run([*git, *arguments], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _package_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _digest(paths: Iterable[Path]) -> str:
    """Twelve hexadecimal digits that change with a name or with content; line endings do not count."""
    digest = hashlib.sha256()
    for path in paths:
        name = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else HERE).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()[:12]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [value.strip() for key, _, value in (line.partition(":") for line in lines) if key.strip() == "model name"]
    return names[0] if names else platform.processor()
