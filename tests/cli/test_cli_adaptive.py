"""Adaptive runs from the command line: solve, and ask, tell and status for a simulator in any language."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import cbq
from cbq import problems
from cbq.checkpoint import database
from cbq.checkpoint.ledger import read_ledger
from cbq.cli import adaptive
from cbq.cli.source import ProblemSource
from command_line import ok, process, read, refused, run

FILE = """
import cbq

def family(theta):
    return cbq.measures.Gaussian(theta, 1.0)

def build(outputs=1, high=2.0):
    prior = cbq.measures.Uniform(0.0, high)
    return cbq.Problem(None, family, prior, depends_on_theta=False, name="mine")

problem = build()
number = 3
"""
FILES = {"report.html", "estimate.csv", "figure.png", "history.csv", "history.png", "fit.cbq", "run.json"}


@pytest.fixture
def simulator(tmp_path, monkeypatch):
    """A problem in a file, as file.py:problem, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "simulator.py").write_text(FILE)
    yield "simulator.py:problem"
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def f(x):
    return np.sin(x)


def points(text):
    """The columns of a printed table, as floats."""
    rows = list(csv.DictReader(StringIO(text)))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def write_results(path, table, value=f):
    """Write results of the runs in a table of points, with their points, last run first."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "id", "f"])
        rows = zip(table["x"], table["id"], strict=True)
        writer.writerows([(x, int(t), float(value(x))) for x, t in reversed(list(rows))])


def begin(problem, n, *more):
    """Ask for n runs of a new run."""
    return points(ok("ask", "run.sqlite", "--problem", problem, "--n", n, *more))


def asked_beside(n, *words):
    """The table of further runs, beside which n earlier ones are mentioned apart from it."""
    result = run("ask", "run.sqlite", *words)
    assert result.exit_code == 0, result.output
    earlier = f"{n} runs that were asked for earlier are pending: cbq ask run.sqlite --pending lists them"
    assert result.stderr == f"{earlier}.\n"
    return result.stdout


def told():
    """What the file holds: how many runs were asked for, and the results by run."""
    stored = read_ledger("run.sqlite")
    return len(stored.theta), {result.batch.t: (result.f.tolist(), result.failures) for result in stored.results}


# solve


def test_solve_prints_the_answer_of_the_python_api_and_writes_it(tmp_path):
    problem = problems.get("linear", dim=1)
    n = problem.session(rng=3).missing + 2
    words = ["solve", "linear", "--option", "dim=1", "--budget", n, "--rtol", 1e-9, "--seed", 3, "--level", 0.8]
    text = ok(*words, "--out", tmp_path)
    answer = problem.solve(rtol=1e-9, budget=n, rng=3, level=0.8)
    assert text.startswith("Not reached: ")
    assert text.splitlines()[-1].startswith(answer.lines()[0])
    assert [line for line in answer.summary().splitlines() if not line.startswith("It took")] == [
        line for line in text.splitlines()[: answer.summary().count("\n") + 1] if not line.startswith("It took")
    ]
    assert "RMSE against the truth at 200 thetas drawn from the prior: " in text
    assert {path.name for path in tmp_path.iterdir()} == FILES
    table = {name: np.array(column, dtype=float) for name, column in read(tmp_path / "estimate.csv").items()}
    assert list(table) == ["theta", "mean", "std", "lower", "upper", "truth"]
    np.testing.assert_allclose(table["mean"], answer.fit.predict(table["theta"]), rtol=1e-10)
    history = {name: np.array(column, dtype=float) for name, column in read(tmp_path / "history.csv").items()}
    for name, column in answer.history.to_columns().items():
        np.testing.assert_array_equal(history[name], column)
    record = json.loads((tmp_path / "run.json").read_text())
    assert (record["reached"], record["runs"], record["sampling"]["seed"]) == (False, n, 3)
    assert record["goal"] == answer.goal.record
    low, high = answer.fit.interval([2.5], 0.8)
    row = ok("predict", tmp_path / "fit.cbq", "--theta", 2.5, "--level", 0.8).splitlines()[1].split()
    np.testing.assert_allclose([float(row[3]), float(row[4])], [low[0], high[0]], rtol=1e-5)


def test_solve_with_a_checkpoint_resumes_and_has_a_status(tmp_path, simulator):
    n = problems.get("linear", dim=1).session(rng=0).missing
    words = ["solve", "linear", "--option", "dim=1", "--checkpoint", "run.sqlite", "--at", 1.5, "--budget", n]
    first = ok(*words)
    assert ok(*words) == first
    assert len([line for line in first.splitlines() if line.split()[:1] == ["1.5"]]) == 1
    status = ok("status", "run.sqlite")
    assert status.startswith(f"linear-1-square: {n} runs asked for, {n} told, 0 pending.")
    assert f"Next: the budget is spent. cbq ask run.sqlite --budget {2 * n}" in status


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rtol", 0], "rtol must be a number above 0"),
        (["--tolerance", "a"], "--tolerance must be a number, or several separated by commas, but it is 'a'"),
        (["--criterion", "mean"], "criterion must be"),
        (["--level", 2], "level must"),
        (["--budget", 1], "budget is 1, but the first estimate of I needs"),
        (["--on-error", "shrug"], "--on-error must be"),
        (["--at", "1,2"], "has 2 coordinates, but theta has 1"),
    ],
)
def test_solve_refuses_bad_options_before_it_runs(words, says):
    assert says in refused("solve", "linear", "--option", "dim=1", *words)


def test_solve_of_a_problem_without_an_integrand_says_what_to_do(simulator):
    assert "session.ask(n)" in refused("solve", simulator, "--rtol", 0.1)


# ask and tell


def test_ask_and_tell_from_separate_processes_give_the_samples_of_solve(simulator):
    problem = ProblemSource.parse(simulator, None).load()
    callable_here = cbq.Problem(lambda x, theta: f(x[:, 0]), problem.family, problem.prior, depends_on_theta=False)
    n = problem.session(rng=5).missing
    expected = callable_here.solve(budget=2 * n, batch=n, rng=5).samples
    for words in (["--problem", simulator, "--seed", "5"], []):
        asked = process("ask", "run.sqlite", "--n", n, *words)
        assert (asked.returncode, asked.stderr) == (0, "")
        write_results("results.csv", points(asked.stdout))
        told = process("tell", "run.sqlite", "results.csv")
        assert (told.returncode, told.stderr) == (0, "")
        assert told.stdout.startswith(f"{n} new results.")
    found = cbq.Samples.from_checkpoint("run.sqlite")
    np.testing.assert_array_equal(found.theta, expected.theta)
    np.testing.assert_array_equal(found.all_points, expected.all_points)
    np.testing.assert_array_equal(found.table, expected.table)


def test_a_run_remembers_its_problem_seed_and_goal(simulator):
    session = ProblemSource.parse("simulator.py:build", ["high=1.0"]).load().session(rng=7)
    budget = session.missing
    begin("simulator.py:build", 3, "--option", "high=1.0", "--seed", 7, "--tolerance", "0.5", "--budget", budget)
    expected = np.concatenate([session.ask(3).x, session.ask(budget - 3).x])
    more = points(asked_beside(3, "--n", budget))  # which are three too many
    assert more["id"] == list(range(3, budget))
    np.testing.assert_array_equal(read_ledger("run.sqlite").x, expected)
    result = run("ask", "run.sqlite")
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"Nothing to run: {budget} runs were asked for, which is the budget" in result.stderr
    assert len(points(asked_beside(budget, "--n", 1, "--budget", budget + 1))["id"]) == 1
    assert read_ledger("run.sqlite").notes["goal"]["tolerance"] == [0.5]
    asked_beside(budget + 1, "--n", 1, "--budget", budget + 4, "--rtol", 0.1)
    goal = read_ledger("run.sqlite").notes["goal"]
    assert (goal["tolerance"], goal["rtol"], goal["budget"]) == (
        None,
        0.1,
        budget + 4,
    )  # a new accuracy replaces the old one
    assert "began with --seed 7, but --seed 8 is passed" in refused("ask", "run.sqlite", "--seed", 8)
    assert "the level of the intervals is 0.95 in the file" in refused("ask", "run.sqlite", "--level", 0.5)


def test_points_are_written_in_full_and_given_again_while_they_are_pending(simulator, tmp_path):
    assert "5 runs are in new/points.csv" in ok(
        "ask", "run.sqlite", "--problem", simulator, "--n", 5, "--out", "new/points.csv"
    )
    table = read(tmp_path / "new" / "points.csv")
    assert list(table) == ["id", "theta", "x"]
    stored = read_ledger("run.sqlite")
    np.testing.assert_array_equal(np.array(table["theta"], dtype=float), stored.theta[:, 0])
    np.testing.assert_array_equal(np.array(table["x"], dtype=float), stored.x[:, 0])
    (tmp_path / "results.csv").write_text("id,f\n3,0.5\n1,\n")
    ok("tell", "run.sqlite", "results.csv")
    again = points(ok("ask", "run.sqlite", "--pending"))
    assert again["id"] == [0, 2, 4]
    assert again["x"] == stored.x[[0, 2, 4], 0].tolist()
    (tmp_path / "results.csv").write_text("id,f\n0,0.5\n2,1.5\n4,1\n")
    ok("tell", "run.sqlite", "results.csv")
    result = run("ask", "run.sqlite", "--pending")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "would overwrite the run" in refused("ask", "run.sqlite", "--out", "run.sqlite")
    assert told()[0] == 5


@pytest.mark.parametrize(
    ("text", "values", "failures"),
    [
        ("id,f\n1,0.5\n0,1e-3\n", {0: 1e-3, 1: 0.5}, {}),
        ("theta,f,id,comment\n9,0.5,1,fine\n", {1: 0.5}, {}),
        ("id;f\n1,0;0,5\n", {1: 0.5}, {}),
        ("id,f\n0,\n1,nan\n2,NA\n3,inf\n", {}, dict.fromkeys(range(4), "no value")),
        ("id,f,failed\n0,1.5,\n1,-999,diverged\n2,,0\n3,2.5,false\n", {0: 1.5, 3: 2.5}, {1: "diverged", 2: "no value"}),
        ("id,failed\n2,out of memory\n", {}, {2: "out of memory"}),
        ("id,f_1,f_0\n0,2,1\n1,3,\n", {0: [1.0, 2.0]}, {1: "no value"}),
    ],
)
def test_results_and_failures_are_read_from_a_table(simulator, tmp_path, text, values, failures):
    begin(simulator, 4)
    (tmp_path / "results.csv").write_text(text)
    for new in (len(values) + len(failures), 0):  # and once more
        assert ok("tell", "run.sqlite", "results.csv").startswith(f"{new} new results.")
    _, results = told()
    assert {t: reason[0] for t, (_, reason) in results.items() if reason} == failures
    assert {t: value[0] for t, (value, reason) in results.items() if not reason} == values


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "id,f\n1,0.5\n\n9,0.5\n",
            "results.csv, line 4: ids must be numbers of runs, but there is no run 9: runs 0 to 3 were asked for",
        ),
        (
            "id,f\n1,0.5\n0,0.75\n",
            "results.csv, line 3: values have 0.75 for run 0, which was told before, with the value 0.25",
        ),
        ("id,f\n1,0.5\n0,\n", "results.csv, line 3: run 0 was told before, with the value 0.25: it cannot fail"),
        ("id,f\n1,0.5\n2,1\n1,0.5\n", "results.csv, line 4: run 1 is in line 2, too"),
        ("id,f\n1,half\n", "results.csv, line 2: f must be a number, or empty where f failed, not 'half'"),
        ("id,f\n1.5,0.5\n", "results.csv, line 2: the id of a run is a whole number, not '1.5'"),
        ("id,f\n1,0.5,3\n", "2 columns, but 3 values in line 2"),
        ("id,f_0,f_1\n1,0.5,1\n", "results.csv has the columns f_0, f_1, but earlier results had f"),
        ("run,f\n1,0.5\n", "results.csv must have a column id, but it has run, f"),
        ("id,x\n1,0.5\n", "must have a column f, or f_0, f_1, ... for several outputs, but it has id, x"),
        ("id,f_0,f_2\n1,0.5,1\n", "must have a column f, or f_0, f_1, ..."),
        ("id,f,f_0\n1,0.5,1\n", "must have a column f, or f_0, f_1, ..."),
        ("id,f\n", "must have a line of names and at least one line of values"),
    ],
)
def test_wrong_results_are_refused_in_one_line_and_change_nothing(simulator, tmp_path, text, says):
    begin(simulator, 4)
    (tmp_path / "results.csv").write_text("id,f\n0,0.25\n")
    ok("tell", "run.sqlite", "results.csv")
    before = told()
    (tmp_path / "results.csv").write_text(text)
    assert says in refused("tell", "run.sqlite", "results.csv")
    assert told() == before


def test_files_that_are_no_runs_are_refused(simulator, tmp_path):
    begins = "there is no run run.sqlite: cbq ask run.sqlite --problem path/to/file.py:attribute begins one"
    (tmp_path / "results.csv").write_text("id,f\n0,0.25\n")
    for words in (
        ["ask"],
        ["status"],
        ["status", "--problem", simulator],
        ["ask", "--pending", "--problem", simulator],
    ):
        assert begins in refused(words[0], "run.sqlite", *words[1:])
    assert begins in refused("tell", "run.sqlite", "results.csv")
    assert "must be a cbq.Problem" in refused("ask", "run.sqlite", "--problem", "simulator.py:number")
    assert "rtol must be" in refused("ask", "run.sqlite", "--problem", simulator, "--rtol", -1)
    assert not (tmp_path / "run.sqlite").exists()
    assert "is not a checkpoint of cbq" in refused("status", "results.csv")
    ok("run", "linear", "--option", "dim=1", "--T", 12, "--N", 6, "--checkpoint", "other.sqlite")
    assert "it is no adaptive run" in refused("status", "other.sqlite", "--problem", "linear")
    (tmp_path / "run.sqlite").touch()
    assert begins in refused("status", "run.sqlite")
    begin(simulator, 2)
    assert "pass --problem as well" in refused("status", "run.sqlite", "--option", "high=3")
    assert "is the checkpoint of another run: the prior is" in refused(
        "status", "run.sqlite", "--problem", "simulator.py:build", "--option", "high=3.0"
    )


def test_a_problem_that_has_moved_is_named_once_again(simulator, tmp_path):
    begin(simulator, 2)
    (tmp_path / "simulator.py").rename(tmp_path / "moved.py")
    assert "is a run of simulator.py:problem, which is no longer there: pass --problem" in refused(
        "status", "run.sqlite"
    )
    ok("status", "run.sqlite", "--problem", "moved.py:problem")
    assert len(points(asked_beside(2, "--n", 2))["id"]) == 2


def test_a_session_of_python_needs_its_problem_named_once(simulator):
    problem = ProblemSource.parse(simulator, None).load()
    problem.session(rtol=0.25, rng=0, checkpoint="run.sqlite").close()
    assert "does not name its problem: pass --problem" in refused("status", "run.sqlite")
    assert "Wanted: 0.25 of the spread of I" in ok("status", "run.sqlite", "--problem", simulator)
    assert "Wanted: 0.25 of the spread of I" in ok("status", "run.sqlite")


def test_two_shells_that_ask_at_the_same_time_get_different_runs(simulator):
    begin(simulator, 1)
    words = [sys.executable, "-m", "cbq", "ask", "run.sqlite", "--n", "3"]
    shells = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    ids = [points(shell.communicate()[0])["id"] for shell in shells]
    assert sorted(ids) == [[1, 2, 3], [4, 5, 6]]


def test_a_file_in_use_is_waited_for_and_then_refused(simulator, tmp_path, monkeypatch):
    begin(simulator, 2)
    (tmp_path / "results.csv").write_text("id,f\n0,0.25\n")
    waits, connect_at_once = [], database.connect

    def connect(path, *, write, wait):
        waits.append(wait)
        return connect_at_once(path, write=write, wait=0.01)

    monkeypatch.setattr("cbq.checkpoint.ledger.connect", connect)
    monkeypatch.setattr("cbq.checkpoint.database.connect", connect)
    problem = ProblemSource.parse(simulator, None).load()
    with problem.session(rng=0, checkpoint="run.sqlite"):
        waits.clear()
        for words in (["ask", "run.sqlite"], ["tell", "run.sqlite", "results.csv"], ["status", "run.sqlite"]):
            assert "run.sqlite is in use by another run" in refused(*words)
    assert ok("tell", "run.sqlite", "results.csv").startswith("1 new results.")
    assert set(waits) == {adaptive.WAIT}


PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "adaptive.md").read_text()
SIMULATE = """#!{python}
import csv, os, sys
rows = list(csv.DictReader(open(sys.argv[1])))
failing = not os.path.exists("failed")
open("failed", "w").close()
print("id,f")
for row in rows[: len(rows) // 2 if failing else None]:
    print(f"{{row['id']}},{{float(row['x']) ** 2}}")
sys.exit(failing)
"""


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell")
def test_the_documented_loop_makes_every_run_that_it_asks_for(tmp_path, monkeypatch):
    """Also those of the command before it, and those of a simulator that fails halfway, after which it begins again."""
    section = PAGE.partition("### A simulator in any language")[2]
    (problem,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    first, loop = re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)
    loop = loop[: loop.index("done") + len("done")]
    (tmp_path / "river.py").write_text(problem)
    for name, text in {
        "cbq": f'#!/bin/sh\nexec {sys.executable} -m cbq "$@"\n',
        "simulate": SIMULATE.format(python=sys.executable),
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    for script in (first.replace("--budget 100", "--budget 17"), loop, loop):
        subprocess.run(["sh", "-c", script], check=False, capture_output=True, timeout=120)
    asked, results = told()
    assert asked == 17
    assert sorted(results) == list(range(17))


def test_runs_that_are_left_pending_are_not_forgotten(simulator):
    begin(simulator, 5, "--budget", 20)
    text = ok("ask", "run.sqlite", "--n", 15, "--out", "points.csv")
    pending = "5 runs that were asked for earlier are pending: cbq ask run.sqlite --pending lists them"
    assert (
        text == f"15 runs are in points.csv: run f there, and tell the results with cbq tell run.sqlite. {pending}.\n"
    )
    result = run("ask", "run.sqlite")
    assert result.exit_code == 3
    assert (
        "which is the budget. Continue with a larger --budget. 20 runs that were asked for earlier are" in result.stderr
    )
    text = ok("ask", "run.sqlite", "--pending", "--out", "points.csv")
    assert text == "20 runs are in points.csv: run f there, and tell the results with cbq tell run.sqlite.\n"


def later(monkeypatch, seconds):
    """Let the clock of leases be this much later."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + seconds)


def test_a_lost_job_comes_back_when_its_lease_is_over(simulator, monkeypatch):
    begin(simulator, 15, "--budget", 16, "--lease", "2h")
    write_results("results.csv", {"id": [1], "x": [0.0]})
    ok("tell", "run.sqlite", "results.csv")
    mentioned = (
        "14 runs that were asked for earlier are pending: cbq ask run.sqlite --pending lists them, and cbq ask repeats "
        "each 2h after it was asked for."
    )
    text = ok("ask", "run.sqlite", "--n", 3, "--out", "points.csv")
    assert (
        text == f"1 runs are in points.csv: run f there, and tell the results with cbq tell run.sqlite. {mentioned}\n"
    )
    result = run("ask", "run.sqlite")
    assert result.exit_code == 3
    assert "16 runs were asked for, which is the budget." in result.stderr
    before = read_ledger("run.sqlite")
    later(monkeypatch, 7300)
    assert "15 pending (15 for more than 2h)" in ok("status", "run.sqlite")
    result = run("ask", "run.sqlite", "--n", 2)
    assert points(result.stdout)["id"] == [0, 2]  # the first that were asked for
    assert result.stderr.startswith("2 of them were asked for before and not told. 13 runs that were asked for earlier")
    assert points(run("ask", "run.sqlite").stdout)["id"] == list(range(3, 16))
    assert run("ask", "run.sqlite").exit_code == 3  # all have new leases
    after = read_ledger("run.sqlite")
    np.testing.assert_array_equal(after.x, before.x)
    assert after.choices == before.choices == [(0, 0)] * 15 + [(15, 1)]
    assert len(points(ok("ask", "run.sqlite", "--pending"))["id"]) == 15


@pytest.mark.parametrize("lease", ["soon", "0h", "-1", "2 years", ""])
def test_a_lease_is_a_time(simulator, lease):
    begin(simulator, 2)
    assert refused("ask", "run.sqlite", "--lease", lease).startswith(
        "--lease must be a time such as 90s, 30m, 2h or 1d"
    )


# programs


PROGRAM = "import math, sys\nprint('theta', sys.argv[2])\nprint('f =', math.sin(float(sys.argv[1])))\n"


def test_a_program_takes_the_place_of_the_integrand(simulator, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    words = ("--command", f"{sys.executable} program.py {{x}} {{theta:.3f}}", "--parse", "f = (.*)")
    text = ok("solve", simulator, *words, "--budget", 17, "--checkpoint", "run.sqlite")
    assert "It took 17 runs" in text
    samples = cbq.Samples.from_checkpoint("run.sqlite")
    np.testing.assert_allclose(samples.table[:, 0], np.sin(samples.all_points[:, 0]), rtol=1e-15)
    assert "mine: 17 runs asked for, 17 told" in ok("status", "run.sqlite")  # which remembers the program
    process("run", simulator, *words, "--T", 3, "--N", 4, "--checkpoint", "points.sqlite", "--out", "out")
    assert json.loads(Path("out/run.json").read_text())["problem"]["command"] == words[1]
    samples = cbq.Samples.from_checkpoint("points.sqlite")
    np.testing.assert_allclose(samples.table[:, 0], np.sin(samples.all_points[:, 0]), rtol=1e-15)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--command", "./model {theta.flow}"], "--command has {theta.flow}: the names of theta are 'theta'."),
        (["--command", "./model"], "--command needs a placeholder, such as {x}"),
        (["--command", "./model '{x}"], "--command is no command, No closing quotation"),
        (["--command", "./model {x}", "--parse", "f ="], "--parse must have a group around the number"),
        (["--parse", "(.*)"], "--parse is for the output of a program: pass --command as well."),
        (["--command", "./model {x}", "--budget", 17], "'./model' cannot be started (No such file or directory)"),
    ],
)
def test_programs_are_refused_in_a_sentence(simulator, words, says):
    assert says in refused("solve", simulator, *words)


# status


def test_status_at_every_stage(simulator, tmp_path):
    needed = ProblemSource.parse(simulator, None).load().session(rng=0).missing
    table = begin(simulator, 10, "--rtol", 0.5, "--budget", 60)
    text = ok("status", "run.sqlite")
    assert text.startswith("mine: 10 runs asked for, 0 told, 10 pending. Wanted: 0.5 of the spread of I")
    assert f"Next: an estimate needs {needed} more runs with values; make the 10 pending runs" in text
    (tmp_path / "results.csv").write_text("id,f\n0,\n")
    ok("tell", "run.sqlite", "results.csv")
    assert "10 runs asked for, 1 told (1 failed), 9 pending" in ok("status", "run.sqlite")
    result = run("status", "run.sqlite", "--out", "out")
    assert result.exit_code == 1
    assert "there is nothing to write to out before there is an estimate" in result.stderr
    write_results("results.csv", table)
    ok("tell", "run.sqlite", "results.csv")
    rest = needed - 10
    text = ok("status", "run.sqlite")
    assert f"Next: an estimate needs {rest} more runs with values; cbq ask run.sqlite --n {rest} --out" in text
    write_results("results.csv", points(ok("ask", "run.sqlite", "--n", rest)))
    ok("tell", "run.sqlite", "results.csv")
    before = (tmp_path / "run.sqlite").read_bytes()
    text = ok("status", "run.sqlite", "--out", "out")
    assert (tmp_path / "run.sqlite").read_bytes() == before
    assert "Not reached: the 95% interval has a half-width of " in text  # at one round, whatever it is
    assert re.search(r"Next: cbq ask run.sqlite --n \d+ --out points.csv\.", text)
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert ok("predict", "out/fit.cbq", "--theta", 1.0)
    result = run("ask", "run.sqlite", "--n", 6)
    while result.exit_code == 0:
        write_results("results.csv", points(result.stdout))
        ok("tell", "run.sqlite", "results.csv")
        result = run("ask", "run.sqlite", "--n", 6)
    assert result.exit_code == 3
    assert "Nothing to run: the accuracy is reached" in result.stderr
    text = ok("status", "run.sqlite")
    assert "\nReached: " in text
    assert "Next: nothing, the accuracy is reached" in text


def test_a_probability_is_a_goal(tmp_path):
    words = ["solve", "butterfly", "--above", 5, "--relative", 0.5, "--budget", 24, "--at", 100]
    text = ok(*words, "--out", tmp_path)
    problem, goal = problems.get("butterfly"), cbq.Probability(above=5.0)
    answer = problem.solve(goal=goal, relative=0.5, budget=24, rng=0)
    assert text.startswith("Reached: the 95% interval for P(f > 5) has a half-width of ")
    found = read(tmp_path / "goals.csv")
    assert list(found) == ["theta", "P(f > 5)", "P(f > 5), lower", "P(f > 5), upper"]
    np.testing.assert_allclose([float(found[name][0]) for name in list(found)[1:]], np.ravel(answer.estimate([100.0])))
    assert json.loads((tmp_path / "run.json").read_text())["goal"] == answer.goal.record


def test_a_session_remembers_what_is_wanted(simulator):
    ok("ask", "run.sqlite", "--problem", simulator, "--quantile", 0.9, "--relative", 0.1, "--out", "points.csv")
    goal = read_ledger("run.sqlite").notes["goal"]
    assert (goal["goal"], goal["relative"]) == ([{"kind": "Quantile", "q": 0.9}], 0.1)
    ok("ask", "run.sqlite", "--n", 1, "--above", 2, "--out", "more.csv")
    goal = read_ledger("run.sqlite").notes["goal"]
    assert (goal["goal"], goal["relative"]) == ([{"kind": "Probability", "above": 2.0}], 0.1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--quantile", 2], "q must be between 0 and 1"),
        (["--above", "nan"], "above"),
        (["--relative", 0, "--above", 1], "relative must be a number above 0"),
        (["--output", 1], "--output names an output for a goal"),
        (["--maximize", "--minimize"], "contradict each other"),
        (["--limit", "cost=,1"], "pass --maximize or --minimize"),
        (["--maximize", "--limit", "cost<1"], "such as cost=,100"),
        (["--value-at-risk", 2], "alpha must lie between 0 and 1"),
    ],
)
def test_goals_are_refused_in_a_sentence(words, says):
    assert says in refused("solve", "butterfly", *words)


def test_the_best_theta_is_a_goal(tmp_path):
    words = ["solve", "linear", "--option", "dim=2", "--maximize", "--value-at-risk", 0.9, "--budget", 12]
    text = ok(*words, "--at", "2,2", "--out", tmp_path)
    assert "The largest E f is" in text
    assert list(read(tmp_path / "best.csv")) == ["theta_0", "theta_1", "probability"]
    numbers = read(tmp_path / "numbers.csv")
    assert numbers["what"] == ["the largest E f", "the 0.9 value at risk of E f"]
    assert float(numbers["estimate"][1]) < float(numbers["estimate"][0])
    goal = json.loads((tmp_path / "run.json").read_text())["goal"]["goal"]
    assert [each["kind"] for each in goal] == ["Best", "ValueAtRisk"]
