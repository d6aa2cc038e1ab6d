"""The recipes of docs/guide/clusters.md: each runs f, on this machine, and finds the same answer."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from math import gamma
from pathlib import Path

import numpy as np
import pytest

import cbq
from cbq.checkpoint.ledger import read_ledger

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "clusters.md").read_text()
SCRIPT, *_ = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
RECIPES = dict(re.findall(r"^## (\w+)$[^#]*?```python\n(.*?)```", PAGE, flags=re.DOTALL | re.MULTILINE))
MODULES = {"Processes": "cbq", "joblib": "joblib", "Dask": "distributed", "executorlib": "executorlib"}
SLOW_MODULES = {"submitit": "submitit", "Ray": "ray", "parsl": "parsl"}
RIVER = """
import cbq


def family(theta):
    return cbq.measures.Gaussian(theta, std=1.0)


problem = cbq.Problem(None, family, cbq.measures.Uniform(0.0, 3.0), name="river", depends_on_theta=False)
"""
SIMULATE = """#!{python}
import csv, sys
print("id,f")
for row in csv.DictReader(open(sys.argv[1])):
    print(f"{{row['id']}},{{float(row['x']) ** 2}}")
"""


def damage(flow, climate):
    return 0.3 * flow[0] ** 1.5


def family(climate):
    return cbq.measures.Gamma(shape=climate[0], rate=1.0)


@pytest.fixture(scope="module")
def fitted():
    """The second line that each recipe prints."""
    problem = cbq.Problem(damage, family, cbq.measures.Uniform(2.0, 6.0), vectorized=False)
    fit = cbq.CBQ().fit(problem.collect(T=12, N=12, rng=0))
    return " ".join(map(str, fit.predict([3.0, 5.0])))


def run(recipe, folder, *launcher):
    """The lines that a recipe prints."""
    script = folder / "script.py"
    script.write_text(SCRIPT.replace("# workers() of one of the sections below\n", RECIPES[recipe]))
    folders = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # parsl starts its own scripts
    environment = {**os.environ, "PATH": folders, "RAY_AUTH_MODE": "disabled"}
    words = [*launcher, script.name]
    shown = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.strip().splitlines()


def require_answer(lines, fitted):
    *_, solved, collected = lines
    n, _, *values = solved.split()
    truth = [0.3 * gamma(theta + 1.5) / gamma(theta) for theta in (3.0, 5.0)]  # of E X^1.5, X ~ Gamma(theta, 1)
    assert n == "20"
    np.testing.assert_allclose(list(map(float, values)), truth, rtol=2e-3)
    assert collected == fitted


@pytest.mark.parametrize("recipe", [*MODULES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_MODULES)])
def test_the_recipes_solve_collect_and_fit(recipe, fitted, tmp_path):
    module = {**MODULES, **SLOW_MODULES}[recipe]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    require_answer(run(recipe, tmp_path, sys.executable), fitted)


def test_the_recipe_of_mpi_does_it_too(fitted, tmp_path):
    launcher = Path(sys.executable).with_name("mpiexec")
    launcher = str(launcher) if launcher.exists() else shutil.which("mpiexec")
    if importlib.util.find_spec("mpi4py") is None or launcher is None:
        pytest.skip("mpi4py or mpiexec is not installed")
    works = subprocess.run([sys.executable, "-c", "import mpi4py.MPI"], capture_output=True, check=False)
    if works.returncode:
        pytest.skip("mpi4py finds no MPI library")
    require_answer(run("MPI", tmp_path, launcher, "-n", "3", sys.executable, "-m", "mpi4py.futures"), fitted)


def test_every_section_is_tested():
    assert {*RECIPES} == {*MODULES, *SLOW_MODULES, "MPI"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell")
def test_the_tasks_of_a_job_array_make_every_run_of_the_budget_once(tmp_path):
    (script,) = re.findall(r"^## A job array$.*?```sh\n(.*?)```", PAGE, flags=re.DOTALL | re.MULTILINE)
    for before, after in {"--budget 100": "--budget 18", "--n 1": "--n 4"}.items():
        assert before in script
        script = script.replace(before, after)
    for name, text in {
        "river.py": RIVER,
        "array.sh": script,
        "cbq": f'#!/bin/sh\nexec {sys.executable} -m cbq "$@"\n',
        "simulate": SIMULATE.format(python=sys.executable),
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    tasks = [
        subprocess.Popen(["sh", "array.sh"], cwd=tmp_path, env={**environment, "SLURM_ARRAY_TASK_ID": str(i)})
        for i in (1, 2)
    ]
    assert [task.wait(timeout=300) for task in tasks] == [0, 0]
    stored = read_ledger(tmp_path / "run.sqlite")
    assert sorted(result.batch.t for result in stored.results) == list(range(18))
    np.testing.assert_allclose(
        [result.f[0] for result in stored.results], [stored.x[result.batch.t, 0] ** 2 for result in stored.results]
    )
    assert len({first for first, _ in stored.choices}) >= 5  # tasks took turns
