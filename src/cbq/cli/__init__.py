"""The command `cbq`, also `python -m cbq`: estimate, compare and predict from the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program with these arguments (default: sys.argv) and return its exit status."""
    missing = [name for name in ("typer", "rich") if not is_installed(name)]
    if missing:
        needed = " and ".join(missing)
        sys.stderr.write(f"cbq: error: the command line needs {needed}: python -m pip install typer rich\n")
        return 1
    from cbq.cli.commands import app

    try:
        app(list(sys.argv[1:] if arguments is None else arguments))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def is_installed(name: str) -> bool:
    """Whether a module can be imported."""
    try:
        return find_spec(name) is not None
    except ValueError:  # sys.modules contains None for it
        return False
