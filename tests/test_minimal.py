"""The library without any extra: numpy, scipy and threadpoolctl are enough, and a sentence asks for what is missing.

In an environment without extras, run `python -m pip install . pytest` and `python -m pytest tests/test_minimal.py`.
"""

import subprocess
import sys

import numpy as np
import pytest

import cbq
from quiet import silent

THETA = [90.0, 100.0, 110.0]


@pytest.fixture
def problem():
    return cbq.problems.get("butterfly")


@pytest.mark.parametrize(
    "estimator", [cbq.CBQ(), cbq.MOBQ(), cbq.Auto(), cbq.LSMC(), cbq.KLSMC()], ids=lambda each: type(each).__name__
)
def test_fits_answer_and_are_saved(estimator, problem, tmp_path):
    samples = problem.collect(T=16, N=16, rng=0, design="sobol", checkpoint=tmp_path / "run.sqlite", progress=False)
    with silent():
        fit = estimator.fit(samples)
    mean, std = fit.predict(THETA, return_std=True)
    low, high = fit.interval(THETA)
    assert np.all((low < mean) & (mean < high) & (std > 0))
    assert np.all(np.abs(mean - problem.exact(np.array(THETA))) < 4.0)  # I is about 4, with a spread of 5
    fit.save(tmp_path / "fit.cbq")
    again = cbq.load(tmp_path / "fit.cbq", family=problem.family)
    assert np.array_equal(again.predict(THETA, return_std=True)[0], mean)
    assert "theta" in fit.summary()
    fit.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_runs_are_chosen_and_decisions_are_valued(problem):
    with silent():
        answer = problem.solve(budget=16, rng=0, progress=False)
    assert answer.n_runs == 16
    rng = np.random.default_rng(0)
    inputs = {"a": rng.standard_normal(500), "b": rng.standard_normal(500)}
    outputs = {"old": np.zeros(500), "new": inputs["a"] + 0.1 * rng.standard_normal(500)}
    (row,) = cbq.evppi(outputs, inputs, [["a"]], rng=0).rows
    assert row.evppi == pytest.approx(1 / np.sqrt(2 * np.pi), abs=0.08)  # E max(a, 0) of a standard normal


def test_tables_by_name_need_no_data_frame(problem):
    samples = cbq.Samples.from_frame({"theta": np.repeat(THETA, 4), "x": np.arange(12.0), "f": np.arange(12.0)})
    assert samples.T == 3
    assert list(samples.to_columns()) == ["theta", "x", "f"]


MISSING = {
    "pandas": lambda fit: fit.to_frame(),
    "matplotlib": lambda fit: fit.plot(),
    "xarray": lambda fit: fit.to_dataset(),
    "torch": lambda fit: cbq.engine("torch").__enter__(),
}


@pytest.mark.parametrize("package", MISSING)
def test_a_missing_package_is_asked_for_in_a_sentence(package, problem, monkeypatch):
    fit = cbq.LSMC().fit(problem.collect(T=12, N=16, rng=0))
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "cbq.linalg.torch_engine", raising=False)  # imported with torch
    with pytest.raises(ImportError, match=rf"needs? .*{package}.*: python -m pip install {package}"):
        MISSING[package](fit)


def test_the_command_line_asks_for_its_packages():
    code = "import sys; sys.modules['typer'] = None; from cbq.cli import main; sys.exit(main(['problems']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("cbq: error: the command line needs typer")
    assert done.stderr.endswith("python -m pip install typer rich\n")
