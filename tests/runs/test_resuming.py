"""A run that resumes after f has changed: 18 kinds of edits, by every door, are refused or documented as unseen."""

from __future__ import annotations

import csv
import http.server
import importlib
import json
import re
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import cbq
from benchmarks._simulated import SimulatedExecutor
from cbq.checkpoint import CheckpointError
from cbq.runs import CollectWarning, fingerprint, resuming
from cbq.runs.resuming import CHECKED_IF_EDITED, CHECKED_POINTS
from command_line import ok, refused, run

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "collect.md"
HEAD = """
import functools, os, subprocess
import numpy as np
import cbq
from benchmarks._simulated import SimulatedExecutor

def family(theta):
    return cbq.measures.Gaussian(theta, 1.0)

def problem_of(f, **options):
    return cbq.Problem(f, family, cbq.measures.Uniform(0.0, 1.0), name="mine", depends_on_theta=False, **options)
"""
EDITS = {  # the rest of a file in which f is {k} sin(x)
    "own source": """
def f(x, theta):
    return {k}.0 * np.sin(x[:, 0])
problem = problem_of(f)
""",
    "attribute of a callable": """
class Model:
    def __init__(self, k): self.k = k
    def __call__(self, x, theta): return self.k * np.sin(x[:, 0])
problem = problem_of(Model({k}.0))
""",
    "argument of a partial": """
def f(x, theta, k): return k * np.sin(x[:, 0])
problem = problem_of(functools.partial(f, k={k}.0))
""",
    "closure variable": """
def scaled(k):
    def f(x, theta): return k * np.sin(x[:, 0])
    return f
problem = problem_of(scaled({k}.0))
""",
    "default": """
def f(x, theta, k={k}.0): return k * np.sin(x[:, 0])
problem = problem_of(f)
""",
    "keyword default": """
def f(x, theta, *, k={k}.0): return k * np.sin(x[:, 0])
problem = problem_of(f)
""",
    "global constant": """
GAIN = {k}.0
def f(x, theta): return GAIN * np.sin(x[:, 0])
problem = problem_of(f)
""",
    "global array": """
GAINS = np.full(100_000, {k}.0)
def f(x, theta): return GAINS.mean() * np.sin(x[:, 0])
problem = problem_of(f)
""",
    "helper function": """
def helper(x): return {k}.0 * np.sin(x)
def f(x, theta): return helper(x[:, 0])
problem = problem_of(f)
""",
    "helper in another module": """
import helpers
def f(x, theta): return helpers.scaled(x[:, 0])
problem = problem_of(f)
""",
    "class attribute": """
class Model:
    k = {k}.0
    def __call__(self, x, theta): return self.k * np.sin(x[:, 0])
problem = problem_of(Model())
""",
    "data file": """
def f(x, theta):
    with open("gain.txt") as file: return float(file.read()) * np.sin(x[:, 0])
problem = problem_of(f)
""",
    "environment": """
def f(x, theta): return float(os.environ["GAIN"]) * np.sin(x[:, 0])
problem = problem_of(f)
""",
    "called program": """
def f(x, theta):
    return float(subprocess.run(["sh", "program.sh"], capture_output=True).stdout) * np.sin(x[:, 0])
problem = problem_of(f)
""",
    "Command template": """
import sys
problem = problem_of(cbq.integrands.Command(f"{{sys.executable}} scaled.py {k} {{{{x}}}}"))
""",
    "Command program": """
import sys
problem = problem_of(cbq.integrands.Command(f"{{sys.executable}} program.py {{{{x}}}}"))
""",
    "UMBridge config": """
problem = problem_of(cbq.integrands.UMBridge("http://127.0.0.1:{port}", "1", {{"gain": {k}}}))
""",
    "UMBridge model": """
problem = problem_of(cbq.integrands.UMBridge("http://127.0.0.1:{port}", "{k}", {{"gain": 1}}))
""",
    "UMBridge server": """
problem = problem_of(cbq.integrands.UMBridge("http://127.0.0.1:{port}/{k}", "1", {{"gain": 1}}))
""",
    "version": """
def f(x, theta): return np.sin(x[:, 0])
problem = problem_of(f, version={k})
""",
}
UNSEEN = ("data file", "environment", "called program")  # where f is not called
PARTS = {  # that errors name
    "own source": "f",
    "attribute of a callable": "the attribute k of Model",
    "argument of a partial": "the argument k of the partial",
    "closure variable": "the variable k of scaled.f",
    "default": "the default k of f",
    "keyword default": "the default k of f",
    "global constant": "the global GAIN",
    "global array": "the global GAINS",
    "helper function": "helper",
    "helper in another module": "scaled",
    "class attribute": "Model.k",
    "Command template": "the attribute template of Command",
    "Command program": "the file program.py",
    "UMBridge config": "the attribute config of UMBridge",
    "UMBridge model": "the attribute name of UMBridge",
    "UMBridge server": "the attribute url of UMBridge",
}


class Model(http.server.BaseHTTPRequestHandler):
    """Models 1 and 2 of UM-Bridge: the first number of the path, times the name, times the gain, times sin(x)."""

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.answer({"protocolVersion": 1.0, "models": ["1", "2"]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("Sizes"):
            self.answer({"inputSizes": [1]} if "Input" in self.path else {"outputSizes": [1]})
            return
        server = float(self.path.strip("/").partition("/")[0].replace("Evaluate", "1"))
        gain = server * float(asked["name"]) * asked["config"]["gain"]
        self.answer({"output": [[gain * float(np.sin(asked["input"][0][0]))]]})

    def answer(self, record):
        data = json.dumps(record).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(scope="module")
def port():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def simulator(tmp_path, monkeypatch, port):
    """The problem of an edit, in the current folder, whose f is k sin(x): `simulator(name, k)`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(name, k):
        Path("simulator.py").write_text(HEAD + EDITS[name].format(k=k, port=port))
        Path("helpers.py").write_text(f"import numpy as np\ndef scaled(x): return {k}.0 * np.sin(x)\n")
        Path("gain.txt").write_text(f"{k}")
        Path("program.sh").write_text(f"echo {k}.0\n")
        Path("program.py").write_text(f"import math, sys\nprint({k} * math.sin(float(sys.argv[1])))\n")
        Path("scaled.py").write_text("import math, sys\nprint(float(sys.argv[1]) * math.sin(float(sys.argv[2])))\n")
        monkeypatch.setenv("GAIN", str(k))
        forget()
        importlib.invalidate_caches()
        return importlib.import_module("simulator").problem

    yield load
    forget()


def forget():
    for name in ("simulator", "helpers"):
        sys.modules.pop(name, None)


def told(problem, path="run.sqlite", n=4):
    """A session in which n runs were made."""
    with problem.session(rng=0, checkpoint=path) as session:
        runs = session.ask(n)
        session.tell(runs.ids, [problem.evaluate(theta, x[None])[0] for _, theta, x in runs])


def told_by_commands(problem):
    """The same, on the command line."""
    ok("ask", "run.sqlite", "--problem", "simulator.py:problem", "--n", 4, "--out", "points.csv")
    with open("points.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    values = [problem.evaluate(float(row["theta"]), [float(row["x"])])[0] for row in rows]
    lines = [f"{row['id']},{float(value)!r}" for row, value in zip(rows, values, strict=True)]
    Path("results.csv").write_text("\n".join(["id,f", *lines]))
    ok("tell", "run.sqlite", "results.csv")


def raised(call):
    """The message of the CheckpointError of a call, None if there is none; a warning would be an error."""
    try:
        call()
    except CheckpointError as error:
        return str(error)
    return None


def by_collect(problem):
    return raised(lambda: problem.collect(2, 4, rng=0, checkpoint="run.sqlite", progress=False))


def by_solve(problem):
    return raised(lambda: problem.solve(budget=16, rng=0, checkpoint="run.sqlite", progress=False))


def by_session(problem):
    return raised(lambda: problem.session(rng=0, checkpoint="run.sqlite").close())


def by_command(*words):
    result = run(*words)
    return None if result.exit_code == 0 else result.stderr.removeprefix("cbq: error: ").strip()


DOORS = {
    "collect": (by_collect, by_collect),
    "solve": (told, by_solve),
    "session": (told, by_session),
    "ask": (told_by_commands, lambda problem: by_command("ask", "run.sqlite", "--n", 2)),
    "tell": (told_by_commands, lambda problem: by_command("tell", "run.sqlite", "results.csv")),
}
WAYS_OUT = (
    "Pass another name to start a new run, or {} to keep the stored values as they are.",
    ("on_change='reuse'", "--on-change reuse"),
)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_f_is_refused_or_documented_as_unseen(simulator, edit, door):
    begin, resume = DOORS[door]
    begin(simulator(edit, 1))
    before = Path("run.sqlite").read_bytes()
    message = resume(simulator(edit, 2))
    if edit in UNSEEN and door not in ("collect", "solve"):
        assert message is None
        return
    assert message.startswith("run.sqlite holds values of another f: ")
    text, ways = WAYS_OUT
    assert message.endswith(text.format(ways[door in ("ask", "tell")]))
    if edit == "version":
        assert "they are of version '1', and the problem is of version '2' now." in message
    elif door in ("collect", "solve"):
        assert re.search(
            r"at theta index t = 0 \(.*\), point i = 0 \(x = \[.*\]\), it has .*, and f now gives ", message
        )
    if edit in PARTS:
        assert f"({PARTS[edit]})" in message
    assert Path("run.sqlite").read_bytes() == before


@pytest.mark.parametrize("door", ["collect", "session"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_f_that_is_made_anew_resumes_in_silence(simulator, edit, door):
    begin, resume = DOORS[door]
    begin(simulator(edit, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resume(simulator(edit, 1)) is None


def test_the_guide_lists_all_edits():
    text = GUIDE.read_text()
    rows = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?\|[^|]+?) \|$", text, flags=re.MULTILINE))
    listed = {name: cells for name, cells in rows.items() if name in EDITS}
    assert list(listed) == list(EDITS)
    assert [name for name, cells in listed.items() if "unseen" in cells] == list(UNSEEN)


# what is no edit


COSMETIC = """
GAIN = 2.0  # the gain

def helper(x):
    {doc}
    return GAIN * np.sin(x){comment}
{blank}
def f(x, theta):
    return helper(x[:, 0])

def unrelated():
    return {number}

problem = problem_of(f)
"""


def test_comments_docstrings_lines_and_other_functions_are_no_edit(simulator, monkeypatch):
    texts = {"doc": '"""One."""', "comment": "", "blank": "", "number": 1}
    others = {"doc": '"""Two: more."""', "comment": "  # faster", "blank": "\n\n", "number": 2}
    monkeypatch.setitem(EDITS, "one", COSMETIC.format(**texts))
    monkeypatch.setitem(EDITS, "other", COSMETIC.format(**others))
    told(simulator("one", 1))
    assert by_session(simulator("other", 1)) is None
    assert by_solve(simulator("other", 1)) is None


class Counting:
    """f, which counts its calls, also in its class, and remembers them."""

    calls = 0

    def __init__(self, k=1.0):
        self.k, self.seen, self.n = k, {}, 0

    def __call__(self, x, theta):
        self.n += len(x)
        type(self).calls += 1
        self.seen[float(x[0, 0])] = 1
        return self.k * np.sin(x[:, 0])


class Sine:
    """f, without a memory."""

    def __init__(self, k=1.0):
        self.k = k

    def __call__(self, x, theta):
        return self.k * np.sin(x[:, 0])


def problem(f=None, **options):
    prior = cbq.measures.Uniform(0.0, 1.0)
    return cbq.Problem(f, lambda theta: cbq.measures.Gaussian(theta, 1.0), prior, **options)


@pytest.mark.parametrize("door", [by_collect, by_solve])
def test_what_f_changes_of_itself_is_no_edit(tmp_path, monkeypatch, door):
    monkeypatch.chdir(tmp_path)
    f = Counting()
    for _ in range(3):
        before = f.n
        assert door(problem(f)) is None
    assert f.n - before == CHECKED_POINTS
    f.k = 2.0  # by the user
    assert "(the attribute k of Counting)" in door(problem(f))


def test_what_changes_while_a_session_is_open_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    f = Counting()
    session = problem(f).session(rng=0, checkpoint="run.sqlite")
    runs = session.ask(3)
    session.tell(runs.ids, [f(x[None], theta)[0] for _, theta, x in runs])
    with pytest.warns(
        CollectWarning, match=r"while run.sqlite was open, there were changes of .*attribute n of Counting"
    ):
        session.close()
    session.close()
    assert by_session(problem(f)) is None
    f.k = 2.0
    assert "(the attribute k of Counting)" in by_session(problem(f))


# the ways out


def test_values_that_are_reused_once_are_kept_without_a_word(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told(problem(Sine(1.0)))
    changed = problem(Sine(2.0), version="b")
    with pytest.warns(CollectWarning, match="'b' now. Nothing is evaluated again"):
        changed.session(rng=0, checkpoint="run.sqlite", on_change="reuse").close()
    assert by_session(changed) is None
    assert "(the attribute k of Sine)" in by_session(problem(Sine(3.0), version="b"))
    assert "of version 'b', and the problem is of no version now" in by_session(problem(Sine(2.0)))


def test_solve_goes_on_with_stored_values_if_it_is_told_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told(problem(Sine(1.0)), n=16)
    with pytest.warns(CollectWarning, match=r"the integrand has changed since .*\(the attribute k of Sine\)"):
        answer = problem(Sine(2.0)).solve(budget=16, rng=0, checkpoint="run.sqlite", on_change="reuse", progress=False)
    np.testing.assert_array_equal(answer.samples.table[:, 0], np.sin(answer.samples.all_points[:, 0]))


@pytest.mark.filterwarnings("always::cbq.CollectWarning")
def test_commands_reuse_values_and_status_warns(simulator):
    told_by_commands(simulator("global constant", 1))
    simulator("global constant", 2)
    before = Path("run.sqlite").read_bytes()
    looked = run("status", "run.sqlite")
    assert looked.exit_code == 0
    assert "the integrand has changed since run.sqlite was made (the global GAIN)" in looked.stderr
    assert Path("run.sqlite").read_bytes() == before
    assert "--on-change must be 'raise' or 'reuse'" in refused("ask", "run.sqlite", "--on-change", "look")
    assert run("ask", "run.sqlite", "--n", 2, "--on-change", "reuse").exit_code == 0
    ok("tell", "run.sqlite", "results.csv")


@pytest.mark.filterwarnings("always::cbq.CollectWarning")
@pytest.mark.filterwarnings("always::cbq.FitWarning")
def test_solve_on_the_command_line_refuses_and_reuses(simulator):
    simulator("data file", 1)
    words = ("solve", "simulator.py:problem", "--budget", 16, "--checkpoint", "run.sqlite")
    assert run(*words).exit_code == 0
    simulator("data file", 2)
    assert "--on-change reuse" in by_command(*words)
    assert by_command(*words, "--on-change", "reuse") is None


# a random f


def drawn_elsewhere(x, theta):
    return GAIN * np.random.default_rng().normal(size=len(x))


GAIN = 1.0


@pytest.mark.parametrize("door", [by_collect, by_solve])
def test_a_random_f_is_compared_through_its_seed(tmp_path, monkeypatch, door):
    monkeypatch.chdir(tmp_path)
    f = Path("gain.txt")

    def read(x, theta, rng):
        return float(f.read_text()) * rng.normal(size=len(x))

    f.write_text("1")
    assert door(problem(read, stochastic=True)) is None
    assert door(problem(read, stochastic=True)) is None
    f.write_text("2")
    assert "f now gives" in door(problem(read, stochastic=True))


@pytest.mark.parametrize("door", [by_collect, by_solve])
def test_a_random_f_without_a_seed_is_compared_by_its_fingerprint(tmp_path, monkeypatch, door):
    monkeypatch.chdir(tmp_path)
    assert door(problem(drawn_elsewhere, stochastic=True)) is None
    assert door(problem(drawn_elsewhere, stochastic=True)) is None
    monkeypatch.setattr(sys.modules[__name__], "GAIN", 2.0)
    message = door(problem(drawn_elsewhere, stochastic=True))
    assert "the integrand has changed since it was made (the global GAIN)" in message
    assert "f now gives" not in message


# other functions, and older files


def test_a_cost_is_no_part_of_the_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"rng": 0, "checkpoint": "run.sqlite"}
    with problem().session(cost=lambda theta, x: 1.0, **options) as session:
        session.tell(session.ask(3).ids, np.zeros(3))
    with pytest.warns(CollectWarning, match="the cost has changed since .* Stored values do not depend on it"):
        problem().session(cost=lambda theta, x: 2.0, **options).close()
    problem().session(**options).close()


@pytest.mark.parametrize("maker", ["Python", "cbq"])
def test_a_file_of_another_python_or_cbq_is_reported_once(tmp_path, monkeypatch, maker):
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        if maker == "Python":
            patch.setattr(fingerprint, "CODE", "2-cpython-310")
        else:
            patch.setattr(resuming.Sources, "record", {"the integrand": 64 * "0"})
        told(problem(Sine()))
    with pytest.warns(CollectWarning, match="cannot be seen, because another version of Python or cbq made it"):
        problem(Sine()).session(rng=0, checkpoint="run.sqlite").close()
    assert by_session(problem(Sine())) is None


def test_a_version_is_a_text_or_a_number():
    assert problem(version=1).version == "1"
    assert problem(version="a").version == "a"
    assert problem().version is None
    for value in (True, [1], float("nan")):
        with pytest.raises(TypeError, match="version must be a text or a number, but it is"):
            problem(version=value)


def test_a_resumed_run_with_an_edit_checks_more_points(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told(problem(lambda x, theta: np.sin(x[:, 0])), n=16)
    f = Counting()
    with pytest.warns(CollectWarning, match=f"Up to {CHECKED_IF_EDITED} of its points were evaluated again"):
        problem(f).solve(budget=16, rng=0, checkpoint="run.sqlite", progress=False)
    assert f.n == CHECKED_IF_EDITED


# stored points are evaluated beside the first new ones


def interrupted(path, by, after):
    """A run of `by` that ends at point number `after`, with a checkpoint."""
    f = Counting()

    def failing(x, theta):
        if f.n >= after:
            raise OSError("the disk is full")
        return f(x, theta)

    with pytest.raises(cbq.IntegrandError):
        by(problem(failing), path)


def collected(mine, path, **options):
    return mine.collect(8, 1, rng=0, checkpoint=path, progress=False, **options)


def solved(mine, path, **options):
    return mine.solve(budget=8, goal=cbq.Probability(above=0.5), rng=0, checkpoint=path, progress=False, **options)


@pytest.mark.parametrize("by", [collected, solved])
def test_stored_points_take_no_batch_of_their_own(tmp_path, by):
    """Three stored points and the five new ones are two rounds of four workers, not three."""
    path = tmp_path / "run.sqlite"
    interrupted(path, by, 4 if by is collected else 3)  # collect has a trial call that it does not keep
    executor = SimulatedExecutor(4, lambda task: 1.0)
    with pytest.warns(CollectWarning, match=f"Up to {CHECKED_IF_EDITED} of its points were evaluated again"):
        by(problem(Counting()), path, executor=executor)
    assert len(executor.started) == 8
    assert executor.clock == 2.0


@pytest.mark.parametrize("by", [collected, solved])
def test_new_values_wait_for_those_of_stored_points(tmp_path, by):
    """New values of another f that come first reach neither the samples nor the file."""
    path = tmp_path / "run.sqlite"
    interrupted(path, by, 4 if by is collected else 3)
    before, new = path.read_bytes(), []
    slow_ones = iter([10.0] * CHECKED_POINTS)
    executor = SimulatedExecutor(4, lambda task: next(slow_ones, 1.0))
    with pytest.raises(CheckpointError, match=r"theta index t = 0 .*, it has .*, and f now gives"):
        by(problem(lambda x, theta: new.append(x) or 2.0 * np.sin(x[:, 0])), path, executor=executor)
    assert len(new) >= CHECKED_POINTS + 4
    assert path.read_bytes() == before


def test_a_run_that_ends_before_stored_points_are_known_keeps_what_it_had(tmp_path):
    path = tmp_path / "run.sqlite"
    interrupted(path, collected, 4)
    before = path.read_bytes()

    def stop(x, theta):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="3 of 8 points are in"):
        collected(problem(stop), path)
    assert path.read_bytes() == before
    with pytest.warns(CollectWarning, match="have the same values: all its values are reused"):
        samples = collected(problem(Counting()), path)
    np.testing.assert_array_equal(samples.table[:, 0], np.sin(samples.all_points[:, 0]))
