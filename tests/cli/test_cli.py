"""The command line: what it prints and writes, and how it reports errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from math import isnan

import numpy as np
import pytest

import cbq
from cbq import problems
from cbq.cli import main
from cbq.estimators.base import registrations
from command_line import ok, process, read, refused, run

pytestmark = [  # of samples as small as these
    pytest.mark.filterwarnings(f"ignore:{kind}:cbq.FitWarning") for kind in ("few thetas", "few points", "beyond")
]
SMALL = ["--T", "5", "--N", "6"]
LINE = ["linear", "--option", "dim=1"]  # with fast fits
FILE = """
import numpy as np
import cbq

def f(x, theta):
    return x[0] * theta[0]

def family(theta):
    return cbq.measures.Gaussian(theta, 1.0)

def build(scale=1.0):
    prior = cbq.measures.Uniform(0.0, scale)
    return cbq.Problem(f, family, prior, vectorized=False, exact=lambda theta: theta[:, 0] ** 2, name="mine")

problem = build()
number = 3
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A function that writes a user's module, which is removed from sys.modules afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def made(text=FILE, name="simulator.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    yield made
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def numbers(text):
    """The rows of the first printed table, each a mapping from column names to floats."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:1] and line.split()[0].startswith("theta"))
    rows = []
    for line in lines[start + 1 :]:
        if not line.strip():
            break
        rows.append(dict(zip(lines[start].split(), map(float, line.split()), strict=True)))
    return rows


# run


def test_run_prints_the_numbers_of_the_python_api():
    text = ok("run", *LINE, *SMALL, "--seed", 3, "--design", "sobol", "--level", 0.8)
    problem = problems.get("linear", dim=1)
    fit = cbq.Auto().fit(problem.collect(5, 6, rng=3, design="sobol"))
    assert fit.summary() in text
    rows = numbers(text)
    theta = np.linspace(1.0, 3.0, 11)
    np.testing.assert_allclose([row["theta"] for row in rows], theta, atol=1e-12)
    mean, std = fit.predict(theta, return_std=True)
    low, high = fit.interval(theta, 0.8)
    columns = {"mean": mean, "std": std, "lower": low, "upper": high, "truth": problem.exact(theta)}
    for name, values in columns.items():
        np.testing.assert_allclose([row[name] for row in rows], values, rtol=1e-5)
    (error,) = re.findall(
        r"RMSE against the truth at 200 thetas drawn from the prior: (\S+); \d+% of 80% intervals contain", text
    )
    new = problem.prior.sample(4000, 0)
    assert float(error) == pytest.approx(np.sqrt(np.mean((fit.predict(new) - problem.exact(new)) ** 2)), rel=0.3)


def test_run_writes_a_table_a_figure_a_fit_and_a_record(tmp_path):
    out = tmp_path / "new" / "out"
    text = ok("run", "linear", *SMALL, "--option", "dim=2", "--option", "f=inner", "--method", "cbq", "--out", out)
    for name in ("estimate.csv", "figure.png", "fit.cbq", "run.json"):
        assert str(out / name) in text
    samples = problems.get("linear", dim=2, f="inner").collect(5, 6, rng=0, design="sobol")
    fit = cbq.CBQ().fit(samples)
    table = {name: np.array(column, dtype=float) for name, column in read(out / "estimate.csv").items()}
    assert list(table) == ["theta_0", "theta_1", "mean", "std", "lower", "upper", "truth"]
    theta = np.column_stack([table["theta_0"], table["theta_1"]])
    mean, std = fit.predict(theta, return_std=True)
    np.testing.assert_array_equal(table["mean"], mean)
    np.testing.assert_array_equal(table["std"], std)
    np.testing.assert_array_equal([table["lower"], table["upper"]], fit.interval(theta))
    np.testing.assert_array_equal(cbq.load(out / "fit.cbq").predict(theta), mean)
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((out / "run.json").read_text())
    assert record["versions"]["cbq"] == cbq.__version__
    assert record["problem"]["options"] == {"dim": 2, "f": "inner"}
    assert (record["sampling"]["seed"], record["sampling"]["T"], record["sampling"]["N"]) == (0, 5, 6)
    assert record["sampling"]["evaluations"] == 30
    assert record["method"] == "cbq"
    assert record["seconds"].keys() == {"collect", "fit"}


def test_the_estimators_are_those_of_the_registry_in_order():
    names = ["auto", "cbq", "mobq", "lsmc", "klsmc", "importance-sampling", "monte-carlo", "paper"]
    assert [each.name for each in registrations()] == names
    listed = ", ".join(f"{each.name} ({each.title})" for each in registrations())
    for command in ("run", "compare"):
        assert "".join(listed.split()) in "".join(ok(command, "--help").split())  # the help wraps lines


@pytest.mark.parametrize("method", [each.name for each in registrations()])
def test_every_estimator_gives_estimates(method, tmp_path):
    words = ["--method", method, "--option", "step=0.25", "--design", "iid", "--out", tmp_path]
    text = ok("run", "sir", *SMALL, *words)
    assert "RMSE against the truth" in text
    assert len(numbers(text)) >= 5
    assert (tmp_path / "figure.png").exists()
    truth = np.array(read(tmp_path / "estimate.csv")["truth"], dtype=float)
    assert np.all((truth > 1e5) & (truth < 1e6))


def test_an_estimator_that_predicts_at_the_observed_thetas_only():
    text = ok("run", "truncated", *SMALL, "--method", "monte-carlo")
    theta = np.sort(problems.get("truncated").collect(5, 6, rng=0, design="sobol").theta[:, 0])
    np.testing.assert_allclose([row["theta"] for row in numbers(text)], theta, rtol=1e-5)
    assert "RMSE against the truth at the observed thetas" in text


def test_missing_intervals_are_explained(tmp_path):
    text = ok("run", "truncated", "--T", 3, "--N", 1, "--method", "monte-carlo", "--out", tmp_path)
    assert "There are no intervals: there is no standard error at theta" in text
    assert list(read(tmp_path / "estimate.csv")) == ["theta", "mean", "truth"]
    assert "no figure.png: there is no standard error" in text


def test_every_output_has_its_own_row(tmp_path):
    text = ok("run", "characteristic", "--T", 8, "--N", 24, "--at", 0.5, "--at", 2, "--out", tmp_path)
    rows = numbers(text)
    assert [(row["theta"], row["output"]) for row in rows] == [(0.5, 0), (0.5, 1), (2, 0), (2, 1)]
    truth = problems.get("characteristic").exact([0.5, 2.0])
    np.testing.assert_allclose([row["truth"] for row in rows], truth.ravel(), rtol=1e-5)
    table = read(tmp_path / "estimate.csv")
    assert list(table)[:4] == ["theta", "mean_0", "mean_1", "std_0"]
    assert len(table["theta"]) == 2
    assert (tmp_path / "figure.png").exists()


def test_three_coordinates_have_a_table_and_a_figure_of_slices(tmp_path):
    ok("run", "linear", *SMALL, "--option", "dim=3", "--method", "lsmc", "--out", tmp_path)
    assert (tmp_path / "figure.png").stat().st_size > 5000
    assert len(read(tmp_path / "estimate.csv")["theta_2"]) == 100


def test_the_grid_covers_the_thetas_of_the_user():
    words = [word for theta in (0.5, 1.0, 2.0) for word in ("--theta", theta)]
    rows = numbers(ok("run", "truncated", "--N", 6, "--method", "cbq", *words))
    assert (rows[0]["theta"], rows[-1]["theta"]) == (0.5, 2.0)
    samples = problems.get("truncated").collect(None, 6, rng=0, theta=[0.5, 1.0, 2.0], design="sobol")
    fit = cbq.CBQ().fit(samples)
    np.testing.assert_allclose(rows[0]["mean"], fit.predict([0.5])[0], rtol=1e-5)


def test_a_grid_keeps_to_thetas_where_x_has_a_measure(write):
    text = """
import cbq

def f(x, theta):
    return x[:, 0]

def family(theta):
    return cbq.measures.Gamma(theta, 1.0)  # no measure at zero, where the prior begins

problem = cbq.Problem(f, family, cbq.measures.Uniform(0.0, 1.0))
"""
    rows = numbers(ok("run", f"{write(text)}:problem", *SMALL, "--method", "cbq", "--design", "iid"))
    assert rows[0]["theta"] == pytest.approx(0.005)
    assert rows[-1]["theta"] == 1.0


# problems in a user's file


@pytest.mark.parametrize("attribute", ["problem", "build"])
def test_a_problem_in_a_file(write, attribute):
    text = ok("run", f"{write()}:{attribute}", *SMALL, "--method", "cbq")
    assert text.startswith("mine: 30 evaluations")
    assert numbers(text)[-1]["truth"] == 1.0


def test_options_are_passed_to_a_function_in_a_file(write):
    assert numbers(ok("run", f"{write()}:build", *SMALL, "--option", "scale=4", "--method", "cbq"))[-1]["theta"] == 4.0


def test_a_file_may_import_its_neighbours(write):
    write("from cbq.problems.univariate import build_truncated as build\n", "neighbour_of_mine.py")
    path = write("from neighbour_of_mine import build\nproblem = build()\n", "with_neighbour.py")
    assert "truncated: 30 evaluations" in ok("run", f"{path}:problem", *SMALL, "--method", "lsmc")


def test_a_problem_of_an_installed_package_is_found_by_name(write, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine-1.0.dist-info").mkdir()
    build = "    return get('truncated', mean=mean)\n"
    write(
        f'from cbq.problems import get\n\ndef build(mean=1.0):\n    """A normal cut off below."""\n{build}', "mine.py"
    )
    write("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n", "mine-1.0.dist-info/METADATA")
    write("[cbq.problems]\nmine = mine:build\n", "mine-1.0.dist-info/entry_points.txt")
    assert "truncated: 30 evaluations" in ok("run", "mine", *SMALL, "--option", "mean=2.5", "--method", "lsmc")
    (line,) = [line for line in ok("problems").splitlines() if line.startswith("mine ")]
    assert "mean=1.0" in line
    assert line.endswith("A normal cut off below.")


FILES = {
    "no attribute": (FILE, "", "simulator.py is a file: name the problem in it, as in .*simulator.py:problem"),
    "a typo": (FILE, ":problm", r"simulator.py has no 'problm': did you mean 'problem'\?"),
    "a number": (FILE, ":number", "must be a cbq.Problem, or a function that returns one, but it gives int"),
    "a function that needs more": (FILE, ":f", "cannot be called with these options: missing a required argument: 'x'"),
    "an empty attribute": (FILE, ":", "must end in the name of a problem"),
    "an error at the top": (
        "import cbq\nx = 1\ny = 1 / 0\n",
        ":problem",
        "line 3: ZeroDivisionError: division by zero",
    ),
    "an error in the syntax": ("import cbq\nx = (\n", ":problem", "simulator.py, line 2: SyntaxError: '\\(' was never"),
    "a missing import": ("import no_such_thing\n", ":p", "line 1: ModuleNotFoundError: No module named 'no_such"),
    "an exit": ("import sys\nsys.exit(3)\n", ":p", "line 2: SystemExit: 3"),
    "an error in the function": (
        FILE.replace("    prior =", "    raise KeyError('rate')\n    prior =").replace("problem = build()", ""),
        ":build",
        "simulator.py, line 12: KeyError: 'rate'",
    ),
    "an error in f": (
        FILE.replace("    return x[0]", "    assert x[0] > 9, 'too small'\n    return x[0]"),
        ":problem",
        "simulator.py, line 6: the integrand raised AssertionError at theta index t = 0 .* too small",
    ),
    "an error in the family": (
        FILE.replace("Gaussian(theta, 1.0)", "Gaussian(theta, -1.0)"),
        ":problem",
        "simulator.py, line 9: ValueError: the family gives no measure at theta index t = 0",
    ),
}


@pytest.mark.parametrize(("text", "attribute", "says"), FILES.values(), ids=FILES)
def test_an_error_in_a_file_is_reported_in_one_line(write, text, attribute, says):
    assert re.search(says, refused("run", f"{write(text)}{attribute}", *SMALL))


def test_files_that_cannot_be_loaded(write, tmp_path):
    assert "there is no file" in refused("run", f"{tmp_path}/nothing.py:problem")
    assert "is not a function, so it has no option a" in refused("run", f"{write()}:problem", "--option", "a=1")
    assert "got an unexpected keyword argument 'a'" in refused("run", f"{write()}:build", "--option", "a=1")
    assert "because the name 'random' is taken: rename the file" in refused("run", f"{write(name='random.py')}:problem")


# errors

ARGUMENTS = {
    "a problem": (
        ["run", "lorenz"],
        "there is no problem 'lorenz': the problems are 'butterfly', 'characteristic', 'health'",
    ),
    "a misspelt problem": (["run", "Buterfly"], "there is no problem 'Buterfly': did you mean 'butterfly'?"),
    "a misspelt method": (["run", "sir", "--method", "klsm"], "'klsm': did you mean 'klsmc' or 'lsmc'?"),
    "a misspelt command": (["comapre", "sir"], "Did you mean 'compare'?"),
    "a method": (
        ["run", "sir", "--method", "magic"],
        "there is no estimator 'magic': the estimators are 'auto', 'cbq', 'mobq', 'lsmc'",
    ),
    "methods": (["compare", "sir", "--methods", "cbq,magic"], "there is no estimator 'magic'"),
    "a design": (["run", "sir", "--design", "grid"], "--design must be 'iid' or 'sobol', but it is 'grid'"),
    "an option": (["run", "linear", "--option", "d=3"], "'linear' has no option d: the options are 'dim', 'f', 'seed'"),
    "a value": (["run", "linear", "--option", "f=cube"], "--option f must be 'square' or 'inner', but it is 'cube'"),
    "no value": (["run", "linear", "--option", "dim"], "--option must be key=value, as in --option dim=3"),
    "a level": (["run", "sir", "--level", "95"], "--level must lie between 0 and 1, as 0.95 does, but it is 95.0"),
    "T": (["run", "sir", "--T", "0"], "Invalid value for '--T': "),
    "no number": (["run", "sir", "--N", "many"], "Invalid value for '--N': "),
    "a theta": (["run", "sir", "--theta", "4;5"], "--theta must be a number, or several separated by commas"),
    "an infinite theta": (["run", "sir", "--theta", "inf"], "--theta must be finite, but it is 'inf'"),
    "coordinates": (
        ["run", "sir", "--theta", "4,5"],
        "--theta 4,5 has 2 coordinates, but theta has 1: repeat --theta for each theta",
    ),
    "few coordinates": (
        ["run", "linear", "--theta", "2"],
        "--theta 2 has 1 coordinate, but theta has 2: write --theta 1.5,1.5",
    ),
    "thetas to report": (
        ["run", "sir", "--at", "4,5"],
        "--at 4,5 has 2 coordinates, but theta has 1: repeat --at for each",
    ),
    "T and thetas": (
        ["run", "sir", "--T", "3", "--theta", "4"],
        "--T is 3, but --theta holds 1 thetas: leave --T out, or pass --T 1",
    ),
    "a time limit": (
        ["run", "sir", "--timeout", "3"],
        "--timeout needs processes that the run can end: pass --workers 1",
    ),
    "on error": (["run", "sir", "--on-error", "never"], "--on-error must be 'raise' or 'skip', but it is 'never'"),
    "a command": (["walk"], "No such command 'walk'"),
    "an unknown option": (["run", "sir", "--speed", "3"], "--speed"),
    "no problem": (["run"], "Missing argument 'PROBLEM'"),
    "no fit": (["predict", "nothing.cbq"], "No such file or directory: nothing.cbq."),
}


@pytest.mark.parametrize(("words", "says"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_bad_arguments_are_reported_in_one_line(words, says):
    text = refused(*words)
    assert says in text
    assert text.rstrip()[-1] in ".?"


def test_debug_raises_the_error(capsys):
    result = run("run", "lorenz", "--debug")
    assert isinstance(result.exception, ValueError)
    assert result.exit_code == 1


def test_an_output_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    assert "out" in refused("run", "truncated", *SMALL, "--out", tmp_path / "out")


# compare


def test_compare_prints_and_writes_the_table_of_cbq_compare(tmp_path):
    words = ["--methods", "cbq,lsmc", "--methods", "monte-carlo", "--out", tmp_path, "--level", 0.9]
    text = ok("compare", "truncated", *SMALL, *words)
    problem = problems.get("truncated")
    methods = {"cbq": cbq.CBQ(), "lsmc": cbq.LSMC(), "monte-carlo": cbq.MonteCarlo()}
    expected = cbq.compare(problem.collect(5, 6, rng=0), methods, problem, level=0.9)
    table = read(tmp_path / "comparison.csv")
    assert table["method"] == list(methods)
    for name in ("rmse", "coverage", "width"):
        assert [float(value) for value in table[name]] == [getattr(row, name) for row in expected.rows]
    assert table["loo"] == [""] * 3
    assert all(isnan(row.loo) for row in expected.rows)
    assert (
        text.split("\n")[0].split() == str(expected).split("\n")[0].split()
    )  # the widths of columns vary with the seconds
    assert "Intervals: 90%" in text
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_compare_without_a_truth_leaves_thetas_out(write):
    path = write(FILE.replace("exact=lambda theta: theta[:, 0] ** 2, ", ""))
    text = ok("compare", f"{path}:problem", *SMALL, "--methods", "cbq,lsmc")
    assert "loo" in text.splitlines()[0]
    assert "rmse" not in text.splitlines()[0]


# evppi


@pytest.fixture
def draws(tmp_path):
    """A table of draws of a decision model, with a column of text, and the same as arrays."""
    rng = np.random.default_rng(0)
    columns = {"p1": rng.normal(size=200), "p2": rng.normal(size=200), "nb1": np.zeros(200)}
    columns["nb2"] = columns["p1"] + 0.3 * columns["p2"] + 0.1 * rng.normal(size=200)
    columns |= {"c1": np.zeros(200), "c2": np.full(200, 0.5)}
    rows = zip(*[column.tolist() for column in columns.values()], strict=True)
    lines = ["id," + ",".join(columns), *(f"r{i}," + ",".join(map(repr, row)) for i, row in enumerate(rows))]
    (tmp_path / "psa.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "psa.csv", columns


def test_evppi_prints_and_writes_the_table_of_cbq_evppi(draws, tmp_path):
    path, columns = draws
    out = tmp_path / "new" / "evppi.csv"
    text = ok("evppi", path, "--outputs", "nb1, nb2", "--pars", "p1;p2; p1,p2;", "--out", out, "--level", 0.9)
    outputs = {name: columns[name] for name in ("nb1", "nb2")}
    inputs = {name: columns[name] for name in ("p1", "p2")}
    expected = cbq.evppi(outputs, inputs, [["p1"], ["p2"], ["p1", "p2"]], level=0.9).to_frame()
    written = read(out)
    assert list(written) == list(expected.columns)
    assert written["pars"] == ["p1", "p2", "p1, p2"]
    for name in ("evppi", "se", "lower", "upper", "evpi"):
        assert [float(value) for value in written[name]] == expected[name].tolist()
    assert "Intervals of 90%; 200 rows" in text
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_evppi_of_effects_and_costs(draws):
    path, _ = draws
    text = ok("evppi", path, "--effects", "nb1,nb2", "--costs", "c1,c2", "--wtp", "1,2", "--pars", "p1")
    assert [line.split()[:2] for line in text.splitlines()[1:3]] == [["p1", "1"], ["p1", "2"]]


def test_evppi_of_every_other_column_and_of_other_csv_dialects(draws):
    path, _ = draws
    rows = [line.split(",") for line in path.read_text().splitlines()]
    plain, other = path.with_name("plain.csv"), path.with_name("other.csv")
    plain.write_text("\n".join(",".join(row[:5]) for row in rows))
    lines = ["sep=;", *(";".join(row[:5]).replace(".", ",") for row in rows)]
    other.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    text = ok("evppi", other, "--outputs", "nb1,nb2")
    assert [line.split()[0] for line in text.splitlines()[1:3]] == ["p1", "p2"]
    assert text == ok("evppi", plain, "--outputs", "nb1,nb2")


def test_evppi_reports_bad_input(draws, tmp_path):
    path, _ = draws
    outputs = ["--outputs", "nb1,nb2"]
    assert "did you mean 'nb2'" in refused("evppi", path, "--outputs", "nb1,nb22")
    assert "did you mean 'p1'" in refused("evppi", path, *outputs, "--pars", "p11")
    assert "pass --outputs" in refused("evppi", path, *outputs, "--wtp", "3")
    assert "came without --willingness-to-pay" in refused(
        "evppi", path, "--effects", "nb1,nb2", "--costs", "c1,c2", "--pars", "p1"
    )
    assert "there is no table to read" in refused("evppi")
    assert "--costs-file came without --effects-file" in refused("evppi", path, "--costs-file", path)
    assert "holds 200 different words in 200 rows" in refused("evppi", path, *outputs, "--pars", "id")
    assert "must hold numbers, but holds 'r0' in line 2" in refused("evppi", path, "--outputs", "id,nb1")
    assert "No such file" in refused("evppi", tmp_path / "none.csv", *outputs)
    assert "--level" in refused("evppi", path, *outputs, "--level", 95)
    (tmp_path / "short.csv").write_text("a,b\n")
    assert "at least one line of values, but it has 1 non-empty lines" in refused(
        "evppi", tmp_path / "short.csv", "--outputs", "a,b"
    )
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n\n1\n")
    assert "1 values in line 4" in refused("evppi", tmp_path / "ragged.csv", "--outputs", "a,b")
    (tmp_path / "twice.csv").write_text("a,b,a\n1,2,3\n")
    assert "several columns named 'a'" in refused("evppi", tmp_path / "twice.csv", "--outputs", "a,b")


def test_evppi_does_not_overwrite_the_draws(draws):
    path, _ = draws
    before = path.read_bytes()
    assert "would overwrite" in refused("evppi", path, "--outputs", "nb1,nb2", "--pars", "p1", "--out", path)
    assert "name a .csv file" in refused("evppi", path, "--outputs", "nb1,nb2", "--out", path.with_suffix(".png"))
    assert path.read_bytes() == before


# predict


def predicted(fit, theta, level=0.95):
    mean, std = fit.predict(theta, return_std=True)
    low, high = fit.interval(theta, level)
    return {"theta": theta, "mean": mean, "std": std, "lower": low, "upper": high}


def agree(text, expected):
    rows = numbers(text)
    for name, values in expected.items():
        np.testing.assert_allclose([row[name] for row in rows], values, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("method", ["auto", "cbq"])
def test_predict_gives_the_numbers_of_the_python_api(tmp_path, method):
    ok("run", *LINE, *SMALL, "--method", method, "--out", tmp_path, "--option", "seed=4")
    text = ok("predict", tmp_path / "fit.cbq", "--theta", 1.5, "--theta", 2.25, "--level", 0.5)
    fit = cbq.load(tmp_path / "fit.cbq", family=problems.get("linear", dim=1, seed=4).family)
    agree(text, predicted(fit, [1.5, 2.25], 0.5))


def test_predict_with_coordinates_and_without_thetas(tmp_path):
    ok("run", "linear", *SMALL, "--method", "cbq", "--out", tmp_path)
    fit = cbq.load(tmp_path / "fit.cbq")
    (row,) = numbers(ok("predict", tmp_path / "fit.cbq", "--theta", "1.25,2.5"))
    assert (row["theta_0"], row["theta_1"]) == (1.25, 2.5)
    assert row["mean"] == pytest.approx(fit.predict([[1.25, 2.5]])[0], rel=1e-5)
    observed = numbers(ok("predict", tmp_path / "fit.cbq"))
    np.testing.assert_allclose([row["mean"] for row in observed], fit.predict(fit.theta), rtol=1e-5)


def test_the_problem_of_a_fit_is_the_recorded_or_the_given_one(tmp_path, write):
    ok("run", f"{write()}:build", *SMALL, "--method", "mobq", "--out", tmp_path / "out", "--option", "scale=2")
    beside = ok("predict", tmp_path / "out" / "fit.cbq", "--theta", 0.5)
    moved = tmp_path / "moved.cbq"
    (tmp_path / "out" / "fit.cbq").rename(moved)
    says = refused("predict", moved, "--theta", 0.5)
    assert "needs the measure of x at any theta" in says
    assert "no run.json beside it: pass --problem" in says
    given = ok("predict", moved, "--theta", 0.5, "--problem", f"{tmp_path}/simulator.py:problem")
    assert given == beside
    assert "does not go with this family" in refused("predict", moved, "--theta", 0.5, "--problem", "truncated")
    (tmp_path / "run.json").write_text('{"format": "something"}')
    assert "run.json is not a record that cbq run wrote" in refused("predict", moved, "--theta", 0.5)


def test_a_fit_that_holds_its_measures_needs_no_problem(tmp_path):
    x = np.random.default_rng(0).normal(size=(4, 6))
    samples = cbq.Samples([1.0, 2.0, 3.0, 4.0], x, np.sin(x), cbq.measures.Gaussian(0.0, 1.0), depends_on_theta=False)
    fit = cbq.MOBQ().fit(samples)
    fit.save(tmp_path / "fit.cbq")
    agree(ok("predict", tmp_path / "fit.cbq", "--theta", 2.5), predicted(fit, [2.5], 0.95))


def test_a_recorded_file_that_no_longer_exists(tmp_path, write):
    path = write()
    ok("run", f"{path}:problem", *SMALL, "--method", "mobq", "--out", tmp_path / "out")
    path.unlink()
    assert "there is no file" in refused("predict", tmp_path / "out" / "fit.cbq", "--theta", 0.5)


def test_files_that_are_not_fits(tmp_path):
    (tmp_path / "fit.cbq").write_text("nothing")
    assert "is not a fit of cbq" in refused("predict", tmp_path / "fit.cbq", "--theta", 1)
    assert "--option is for the problem of --problem: pass --problem as well" in refused(
        "predict", tmp_path / "fit.cbq", "--option", "a=1"
    )


# the program


def test_problems_are_listed_with_their_options():
    lines = ok("problems").splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(problems.names())
    assert any("dim=2 f='square' seed=0" in line for line in lines)


def test_version_and_help():
    assert ok("--version") == f"cbq {cbq.__version__}\n"
    assert ok() == ok("--help")
    for command in ("run", "solve", "ask", "tell", "status", "compare", "predict", "problems"):
        assert command in ok("--help")
        text = ok(command, "--help")
        assert f"Usage: cbq {command}" in text
        assert f"cbq {command} " in text.replace("Usage: cbq", "") or command == "problems"


def test_every_example_in_the_help_can_be_parsed():
    """With a problem that does not exist, the only error is about the problem."""
    for command in ("run", "solve", "compare"):
        examples = re.findall(rf"^ +cbq {command} (.*)$", ok(command, "--help"), flags=re.MULTILINE)
        assert len(examples) >= 3
        for words in map(str.split, examples):
            kept = [word for word in words if word not in ("--out", "out/")]
            assert "there is no problem 'nothing'" in refused(command, "nothing", *kept[1:])


def test_main_returns_the_exit_status(capsys):
    assert main(["--version"]) == 0
    assert main(["run", "lorenz"]) == 1
    assert main(["run", "--nothing"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_tables_are_framed_on_a_terminal(monkeypatch):
    monkeypatch.setattr("cbq.cli.tables.sys", type("Terminal", (), {"stdout": type("S", (), {"isatty": lambda: True})}))
    monkeypatch.setenv("COLUMNS", "120")
    text = ok("problems")
    assert "┃" in text
    assert all(name in text for name in problems.names())


# new processes


def test_a_run_in_a_new_process(tmp_path):
    done = process("run", *LINE, *SMALL, "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("linear-1-square: 30 evaluations")
    assert numbers(done.stdout)[0]["theta"] == 1.0


def test_an_error_in_a_new_process():
    done = process("run", "lorenz")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    shown = process("run", "lorenz", "--debug")
    assert shown.returncode != 0
    assert "Traceback" in shown.stderr


def test_workers_and_a_checkpoint_give_the_same_samples(tmp_path, write):
    path = write(FILE.replace("exact=lambda theta: theta[:, 0] ** 2, ", ""))
    words = ["run", f"{path}:problem", *SMALL, "--method", "cbq", "--batch", 4]
    plain = process(*words, "--out", tmp_path / "plain")
    pooled = process(*words, "--out", tmp_path / "pooled", "--workers", 2, "--checkpoint", tmp_path / "run.sqlite")
    for done in (plain, pooled):
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(r"(cbq: warning: (few thetas|beyond): .*\n)*", done.stderr)
    assert (tmp_path / "plain" / "estimate.csv").read_bytes() == (tmp_path / "pooled" / "estimate.csv").read_bytes()
    counted = path.read_text().replace("return x[0]", "raise RuntimeError('again')\n    return x[0]")
    path.write_text(counted)
    edited = process(*words, "--checkpoint", tmp_path / "run.sqlite")
    assert edited.returncode == 1
    assert "holds values of another f" in edited.stderr
    assert "RuntimeError: again" in edited.stderr
    again = process(*words, "--checkpoint", tmp_path / "run.sqlite", "--on-change", "reuse")
    assert again.returncode == 0, again.stderr  # nothing is evaluated twice
    assert " reused, 0 evaluated" in again.stderr
    other = process(*words, "--seed", 1, "--checkpoint", tmp_path / "run.sqlite")
    assert other.returncode == 1
    assert "seed" in other.stderr
    assert other.stderr.count("\n") == 1


def test_errors_in_worker_processes_are_reported_with_file_and_line(write):
    body = "    import multiprocessing\n    assert multiprocessing.parent_process() is None\n    return x[0]"
    path = write(FILE.replace("    return x[0]", body))
    done = process("run", f"{path}:problem", *SMALL, "--workers", 2)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "simulator.py, line 7: the integrand raised AssertionError" in line


def test_thetas_beyond_the_observed_ones_are_marked_and_warned_of(tmp_path):
    options = ["--T", 8, "--N", 6, "--method", "lsmc", "--at", 2.0, "--at", 50.0, "--out", tmp_path]
    with warnings.catch_warnings(action="default"):
        done = run("run", *LINE, *options)
        again = run("predict", tmp_path / "fit.cbq", "--theta", 50.0, "--theta", 60.0)
    assert re.fullmatch(r"cbq: warning: beyond: 1 of 2 thetas, such as theta = \[50\.\], .*\n", done.stderr)
    assert [row["beyond"] for row in numbers(done.stdout)] == [0.0, 1.0]
    assert again.stderr.startswith("cbq: warning: beyond: 2 of 2 thetas")
    assert [row["beyond"] for row in numbers(again.stdout)] == [1.0, 1.0]
    assert "beyond" not in numbers(ok("predict", tmp_path / "fit.cbq", "--theta", 2.0))[0]


def test_points_that_fail_are_skipped_with_a_warning(write):
    path = write(FILE.replace("    return x[0]", "    assert x[0] < 1\n    return x[0]"))
    done = process("run", f"{path}:problem", *SMALL, "--method", "cbq", "--on-error", "skip")
    assert done.returncode == 0, done.stderr
    collected, fitted, *others = done.stderr.splitlines()
    assert collected.startswith("cbq: warning: the integrand failed at")
    assert fitted.startswith("cbq: warning: failures: f failed at")
    assert all(each.startswith(("cbq: warning: few thetas: ", "cbq: warning: beyond: ")) for each in others)
    assert done.stdout.partition("\n\n")[2].startswith("WARNING: f failed at")


WITHOUT = """
import sys
sys.modules[{name!r}] = None
from cbq.cli import main
sys.exit(main(["--version"]))
"""


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_a_missing_extra_is_named_in_one_line(name):
    words = [sys.executable, "-c", WITHOUT.format(name=name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"cbq: error: the command line needs {name}: python -m pip install typer rich\n"


NO_FIGURES = """
import sys
sys.modules["matplotlib"] = None
from cbq.cli import main
sys.exit(main(["run", "linear", "--T", "3", "--N", "4", "--out", sys.argv[1]]))
"""


def test_without_matplotlib_a_run_writes_all_but_the_figure(tmp_path):
    words = [sys.executable, "-c", NO_FIGURES, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no figure.png: plot needs matplotlib: python -m pip install matplotlib" in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["estimate.csv", "fit.cbq", "report.html", "run.json"]


# Engines ---------------------------------------------------------------------------------------------------------


def test_commands_take_an_engine(tmp_path):
    pytest.importorskip("torch", reason="engines other than numpy need torch")
    words = ["sir", "--T", 8, "--N", 5, "--method", "klsmc", "--at", 3.0, "--out", tmp_path]
    assert "Engine: torch (CPU)." in ok("run", *words, "--engine", "torch")
    assert json.loads((tmp_path / "run.json").read_text())["engine"] == "torch"
    plain, other = (ok("predict", tmp_path / "fit.cbq", "--engine", name) for name in ("numpy", "torch"))
    assert plain == other


@pytest.mark.parametrize("command", [["run", "sir"], ["compare", "sir"], ["predict", "a.cbq"], ["evppi", "a.csv"]])
def test_commands_refuse_an_unknown_engine_before_they_begin(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "engine must be one of numpy, torch, cuda, but it is 'opencl'" in refused(*command, "--engine", "opencl")
