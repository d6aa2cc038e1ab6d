"""Running the program in tests, and reading what it writes."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from cbq.cli.commands import app


def run(*arguments):
    """Run the program in this process."""
    return CliRunner().invoke(app, [str(word) for word in arguments])


def ok(*arguments):
    """The output of a run that succeeds without warnings."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def refused(*arguments):
    """The one-line error of a run that fails."""
    result = run(*arguments)
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("cbq: error: ")
    return line.removeprefix("cbq: error: ")


def process(*arguments, **options):
    """Run the program in a new process."""
    words = [sys.executable, "-m", "cbq", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def read(path):
    """The columns of a table."""
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}
