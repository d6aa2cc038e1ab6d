"""What results depend on: code, versions, machine."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

import cbq
from cbq.linalg.threads import usable_cores

PACKAGE = Path(cbq.__file__).parent
OTHERS = ("cli", "nested", "psa", "reproduce", "plot.py")  # of the package: what changes no number of a method
MEASURING = ("measure.py", "methods.py", "rough.py")  # of this folder: what does


@cache
def code() -> str:
    """A digest of the files that estimates and their errors depend on, as they are on disk."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] not in OTHERS or place.as_posix() in {f"reproduce/{name}" for name in MEASURING}:
            digest.update(place.as_posix().encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()[:12]


def environment(workers: int) -> dict[str, Any]:
    """When this is, and the commit, code, versions and machine of this process."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    found = {"started": now, "workers": workers, "commit": commit(), "code": code()}
    return {**found, "versions": versions(), "machine": machine()}


def versions() -> dict[str, str]:
    """Of what numbers depend on."""
    blas = {f"{one['internal_api']} {one['version']}" for one in threadpool_info() if one["user_api"] == "blas"}
    return {
        "cbq": cbq.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": ", ".join(sorted(blas)),
    }


def machine() -> dict[str, Any]:
    """Where this runs."""
    return {"platform": platform.platform(), "processor": _processor(), "cores": usable_cores()}


@cache
def commit() -> str | None:
    """The commit of the package, with "-dirty" where files differ from it; None where it lies in no repository."""
    git = ["git", "-C", str(PACKAGE), "--no-optional-locks"]
    try:
        for arguments in (["ls-files", "--error-unmatch", "__init__.py"], ["describe", "--always", "--dirty"]):
            answer = subprocess.run([*git, *arguments], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
