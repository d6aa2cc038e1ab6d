"""The commands in the README of the examples run unchanged."""

from __future__ import annotations

import csv
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", (EXAMPLES / "README.md").read_text(), flags=re.DOTALL)
    for line in block.splitlines()
]


def shell(line, folder, **environment):
    """Run a line of the README in a folder: environment variables, then `cbq` and its arguments."""
    words = shlex.split(line)
    variables = dict(word.split("=", 1) for word in words[: words.index("cbq")])
    arguments = words[words.index("cbq") + 1 :]
    return subprocess.run(
        [sys.executable, "-m", "cbq", *arguments],
        cwd=folder,
        env={**os.environ, **variables, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The results of all commands of the README, in order, in a folder with the examples."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "examples").symlink_to(EXAMPLES)
    return folder, {line: shell(line, folder) for line in COMMANDS}


def table(path):
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def test_every_command_in_the_readme_succeeds(ran):
    _, results = ran
    assert len(results) >= 5
    for line, done in results.items():
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert "Traceback" not in done.stderr


def test_the_environment_variable_reaches_the_simulator(ran):
    folder, results = ran
    wet, dry = (table(folder / "out" / scenario / "estimate.csv")["mean"] for scenario in ("wet", "dry"))
    assert np.all(wet < dry)
    names = [done.stdout.split(":")[0] for done in results.values()]
    assert "reservoir-wet" in names
    assert "reservoir-dry" in names


def test_the_estimate_agrees_with_many_evaluations_of_f(ran, monkeypatch):
    folder, _ = ran
    monkeypatch.setenv("RESERVOIR_SCENARIO", "wet")
    spec = importlib.util.spec_from_file_location("wet_reservoir", EXAMPLES / "reservoir.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    estimate = table(folder / "out" / "wet" / "estimate.csv")
    for row in (20, 50):
        theta = np.array([estimate["theta"][row]])
        f = np.array([module.shortage(x, theta) for x in module.family(theta).sample(3000, 0)])
        error = f.std() / np.sqrt(len(f))
        assert abs(estimate["mean"][row] - f.mean()) < 4 * np.hypot(error, estimate["std"][row])


def test_an_unknown_scenario_is_reported_with_the_line(tmp_path):
    (tmp_path / "examples").symlink_to(EXAMPLES)
    done = shell(COMMANDS[0], tmp_path, RESERVOIR_SCENARIO="monsoon")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    number = next(
        i for i, text in enumerate((EXAMPLES / "reservoir.py").read_text().splitlines(), 1) if "raise Value" in text
    )
    assert f"reservoir.py, line {number}: ValueError: RESERVOIR_SCENARIO must be wet or dry" in line
