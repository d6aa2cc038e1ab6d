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

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", (EXAMPLES / "README.md").read_text(), flags=re.DOTALL)
    for line in block.splitlines()
]


def shell(line, folder, **environment):
    """Run a line of the README in a folder: environment variables, then `cbq` or `python` and its arguments."""
    words = shlex.split(line)
    first = next(i for i, word in enumerate(words) if word in ("cbq", "python"))
    variables = dict(word.split("=", 1) for word in words[:first])
    return subprocess.run(
        [sys.executable, *["-m", "cbq"][: 2 * (words[first] == "cbq")], *words[first + 1 :]],
        cwd=folder,
        env={**os.environ, **variables, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def load(name):
    """The example of this name, as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    module = load("reservoir")
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


def test_the_information_gain_agrees_with_its_closed_form():
    module = load("information_gain")
    for t in (0.0, 2.0):
        a = np.array([1.0, t])
        log_det = np.linalg.slogdet(np.eye(2) + np.outer(np.sqrt(module.PRIOR) * a, np.sqrt(module.PRIOR) * a) / 0.25)[
            1
        ]
        np.testing.assert_allclose(module.exact(t), 0.5 * log_det, rtol=1e-12)
    covered = []
    for seed in range(5):
        estimate, low, high = module.information_gain(1.0, rng=seed)
        assert abs(estimate - module.exact(1.0)) < 1e-3
        covered.append(low <= module.exact(1.0) <= high)
    assert np.mean(covered) >= 0.8


def test_the_approximate_posterior_is_that_of_the_line_but_wider():
    module = load("information_gain")
    a, y = np.array([1.0, 2.0]), 0.7
    covariance = np.linalg.inv(np.diag(1 / module.PRIOR) + np.outer(a, a) / module.NOISE)
    found = module.posterior(2.0, np.array([y]))
    np.testing.assert_allclose(found.mean, covariance @ a * y / module.NOISE, rtol=1e-12)
    np.testing.assert_allclose(found.cov, module.WIDER * covariance, rtol=1e-12)


def test_the_table_of_information_gains_has_the_truth_in_its_intervals(ran):
    _, results = ran
    done = next(done for line, done in results.items() if "information_gain" in line)
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert len(rows) == 4
    for _, estimate, low, _, high, exact in rows:
        assert float(low) <= float(estimate) <= float(high)
        assert abs(float(estimate) - float(exact)) < 1e-3
