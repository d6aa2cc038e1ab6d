"""A program is an integrand as any other: its points are exact, its failures are told, and its changes are seen."""

from __future__ import annotations

import os
import pickle
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import cbq
from cbq.checkpoint import CheckpointError
from cbq.integrands import Command
from cbq.measures import Gaussian, Uniform
from cbq.runs.fingerprint import fingerprint

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),  # by Python 3.12 and 3.13
    pytest.mark.skipif(os.name != "posix", reason="there is no sh"),
]
PRIOR = Uniform([0.0, 1.0], [1.0, 4.0])
MODEL = """#!{python}
import math, os, sys
a, b, theta = map(float, sys.argv[1:4])
assert sorted(os.listdir()) == ["cbq-stderr.txt", "cbq-stdin.txt", "cbq-stdout.txt"]  # a folder of its own
open("trace", "w").close()
print("step 1:", a)
print(repr({gain} * (math.sin(a) + theta * b)))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, with a program in it; working folders are made here, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    write_model(1.0)
    return tmp_path


def write_model(gain):
    Path("model").write_text(MODEL.format(python=sys.executable, gain=gain))
    Path("model").chmod(0o755)


def problem(command, **options):
    return cbq.Problem(command, lambda theta: Gaussian(theta, 1.0), PRIOR, **options)


def in_python(x, theta):
    return np.sin(x[:, 0]) + theta[1] * x[:, 1]


COMMANDS = {
    "by number": "./model {x[0]} {x[1]} {theta[1]}",
    "by name": "model {x.rw} {x.my length} {theta.depth}",
    "all": "./model {x} {theta[1]}",
    "an interpreter": f"{sys.executable} model {{x[0]}} {{x[1]}} {{theta[1]:.17g}}",
    "words": ["./model", "{x[0]}", "{x[1]}", "{theta[1]}"],
}
NAMES = {"theta": ["width", "depth"], "x": ["rw", "my length"]}


@pytest.mark.parametrize("template", COMMANDS.values(), ids=COMMANDS)
def test_a_program_gets_every_digit_of_each_coordinate(here, template):
    one = problem(Command(template), names=NAMES)
    samples = one.collect(2, 2, rng=0)
    np.testing.assert_array_equal(samples.table, problem(in_python).collect(2, 2, rng=0).table)
    assert sorted(os.listdir()) == ["model"]  # no working folder is left


@pytest.mark.parametrize("executor", [2, ThreadPoolExecutor(2)], ids=["processes", "threads"])
def test_workers_run_programs(here, executor, monkeypatch):
    command = pickle.loads(pickle.dumps(Command(COMMANDS["by number"], folder="runs")))
    monkeypatch.chdir("/")  # paths are those of where it was made
    command = Command.with_names(command, cbq.Names())
    samples = problem(command).collect(2, 2, rng=0, executor=executor, batch=1)
    np.testing.assert_array_equal(samples.table, problem(in_python).collect(2, 2, rng=0).table)


def test_input_files_are_templates_and_output_is_read_from_a_file(here):
    Path("mesh.dat").write_text("{x[0]}")  # no template
    files = {
        "in/run.nml": "&run\n rw = {x.rw:.3f}\n depth = {theta.depth:12.4e} /\n",
        "run.json": '{"a":{"rw":{x.rw}},"b":[{x}],"c":"{{x}}"}',
        "mesh.dat": Path("mesh.dat"),
    }
    template = "cat in/run.nml run.json mesh.dat - > all.txt && echo {theta[0]:g} >> all.txt"
    seen = []

    def parse(path):
        seen.append(path.read_text())
        return [1.0, float(seen[-1].split()[-1])]

    command = Command(template, parse, files=files, stdin="{x[1]:.1f}\n", output="all.txt", shell=True)
    value = problem(command, names=NAMES).evaluate([0.5, 2.0], [[0.1, 0.25]])
    np.testing.assert_array_equal(value, [[1.0, 0.5]])
    assert seen == [
        '&run\n rw = 0.100\n depth =   2.0000e+00 /\n{"a":{"rw":0.1},"b":[0.1 0.25],"c":"{x}"}{x[0]}0.2\n0.5\n'
    ]


def test_words_are_never_split_again(here):
    """A shell would run what stands behind the semicolon."""
    command = Command(["printf", "%s\\n", "a; touch {x[0]}", "$(touch b)", "{theta[0]}"])
    np.testing.assert_array_equal(problem(command).evaluate([0.5, 2.0], [[1.0, 2.0]]), [0.5])
    assert sorted(os.listdir()) == ["model"]


PARSED = {
    "the last line": ("3\n1.5\n\n", None, 1.5),
    "several numbers": ("text\n1.5, -2e3;7\n", None, [1.5, -2000.0, 7.0]),
    "as Fortran writes them": ("  0.15D+02  -1.0d-1\n", None, [15.0, -0.1]),
    "the last match": ("f = 1\nf = 2.5 m\ndone\n", r"^f = (\S+)", 2.5),
    "two groups": ("(1, 2)", r"\((.*), (.*)\)", [1.0, 2.0]),
    "a function": ("1 2 3", lambda text: sum(map(float, text.split())), 6.0),
    "a function of several": ("1 2 3", lambda text: text.split(), [1.0, 2.0, 3.0]),
}


def printing(text, **options):
    return Command("cat text # {x[0]}", files={"text": text}, shell=True, **options)


@pytest.mark.parametrize(("text", "parse", "value"), PARSED.values(), ids=PARSED)
def test_numbers_are_found_in_the_output(here, text, parse, value):
    if parse is PARSED["a function of several"][1]:
        parse = lambda text: [float(word) for word in text.split()]  # noqa: E731
    found = problem(printing(text, parse=parse)).evaluate([0.5, 2.0], [[1.0, 2.0]])
    np.testing.assert_array_equal(found, [value])


@pytest.mark.parametrize(
    ("text", "parse", "says"),
    [
        ("", None, "its output is empty"),
        (
            "finished in 3.2 s\n",
            None,
            "its last line, 'finished in 3.2 s', has something that is no number: pass parse=",
        ),
        ("1\nnan\n", None, "the output is nan, but values must be finite"),
        ("1 inf", None, "the output is [ 1. inf], but values must be finite"),
        ("*****", None, "its last line, '*****', has something that is no number"),
        ("g = 1", "f = (.*)", "its output has no match of parse = 'f = (.*)'"),
        ("f = one", "f = (.*)", "the match 'f = one' of parse has something that is no number"),
        ("f = 1", "f = (1)|g = (2)", "the match 'f = 1' of parse has something that is no number"),
        ("text", float, "parse found no number in the output (ValueError: could not convert string to float"),
        ("text", lambda text: None, "parse found no number in the output (TypeError: the value of parse"),
        ("text", lambda text: [[1.0]], "the output has numbers of shape (1, 1), but f is a number or of shape (C,)"),
    ],
)
def test_other_output_is_refused_in_a_sentence(here, text, parse, says):
    with pytest.raises(cbq.IntegrandError, match=re.escape(says)):
        problem(printing(text, parse=parse)).evaluate([0.5, 2.0], [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (
            "sh -c 'echo no licence >&2; exit 3' {x[0]}",
            "sh ended with exit status 3, and its output ends in 'no licence'",
        ),
        ("sh -c 'kill -9 $$' {x[0]}", "sh ended with signal SIGKILL, without any output"),
        ("./missing {x[0]}", "'./missing' cannot be started (No such file or directory)"),
        ("./text {x[0]}", "text' cannot be started (Permission denied)"),
        ("true {x[2]}", "the command has {x[2]}, but x has 2 coordinates"),
        ("true {x.rv}", "the command has {x.rv}: the names of x are"),
    ],
)
def test_a_failure_is_told_and_its_folder_is_kept(here, template, says):
    Path("text").touch()
    one = problem(Command(template), names={"theta": NAMES["theta"]})
    with pytest.raises(cbq.IntegrandError, match=re.escape(says)) as error:
        one.evaluate([0.5, 2.0], [[1.0, 2.0]])
    (folder,) = re.findall(r"Its working folder is (.*)\.$", str(error.value))
    assert Path(folder).is_dir()


@pytest.mark.parametrize(("keep", "left"), [("none", [0, 0]), ("failed", [0, 1]), ("all", [1, 1])])
def test_working_folders_are_kept_as_asked(here, keep, left):
    good, bad = (
        problem(Command(f"sh -c 'echo 1; exit {status}' {{x[0]}}", folder=here / str(status), keep=keep))
        for status in (0, 1)
    )
    good.evaluate([0.5, 2.0], [[1.0, 2.0]])
    with pytest.raises(cbq.IntegrandError) as error:
        bad.evaluate([0.5, 2.0], [[1.0, 2.0]])
    assert ("working folder" in str(error.value)) == (left[1] == 1)
    assert [len(os.listdir(here / status)) for status in "01"] == left


def test_a_program_that_takes_too_long_ends_with_all_that_it_started(here):
    code = "echo $$ > ../pid; sleep 3600 & echo $! > ../child; wait"
    command = Command(["sh", "-c", code, "{x[0]}"], timeout=0.5)
    with pytest.raises(cbq.IntegrandError, match=r"TimeoutError.*sh took longer than timeout = 0.5 s"):
        problem(command).evaluate([0.5, 2.0], [[1.0, 2.0]])
    until = time.monotonic() + 10
    for name in ("pid", "child"):
        pid = int(Path(name).read_text())
        while is_running(pid) and time.monotonic() < until:
            time.sleep(0.01)
        assert not is_running(pid)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"  # not waiting for init


def test_failures_are_left_out(here):
    command = Command("sh -c 'test $1 != {theta[0]} && echo 1 || exit 2' sh 0.5")
    samples = cbq.Problem(command, lambda theta: Gaussian(theta, 1.0), Uniform(0.0, 1.0))
    with pytest.warns(cbq.CollectWarning, match="failed at 1 of 2 points.*sh ended with exit status 2"):
        found = samples.collect(None, 1, theta=[[0.25], [0.5]], rng=0, on_error="skip")
    assert found.table.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("template", "options", "says"),
    [
        ("./model", {}, "template needs a placeholder"),
        ("./model {x.a", {}, "template needs a placeholder"),
        ("./model {x} {rw}", {}, "template has {rw}, which is no coordinate"),
        ("./model {thet[0]}", {}, "template has {thet[0]}, which is no coordinate"),
        ("./model {x:d}", {}, "template has {x:d}, whose format is none of a number"),
        ("./model {x:99999999f}", {}, "whose format is none of a number"),
        ("./model {x} 'a", {}, "template is no command, No closing quotation"),
        ("  ", {}, "template must be a command"),
        ([], {}, "template must be a command"),
        (["./model", 1], {}, "template must be a command"),
        (["./model", "{x}"], {"shell": True}, "template must be one text for the shell"),
        ("./model {x}", {"parse": "f = "}, "parse must have a group"),
        ("./model {x}", {"parse": "f = ("}, "parse must be a regular expression, but 'f = (' is none"),
        ("./model {x}", {"parse": 3}, "parse must be a regular expression or a function"),
        ("./model {x}", {"files": {"../a": ""}}, "files must be a dictionary from names in the working folder"),
        ("./model {x}", {"files": {"/a": ""}}, "files must be a dictionary from names in the working folder"),
        ("./model {x}", {"files": {"a": 3}}, "files must hold texts, or paths"),
        ("./model {x}", {"files": {"a": "{y}"}}, "files has {y}, which is no coordinate"),
        ("./model {x}", {"output": "/etc/passwd"}, "output must be a file name in the working folder"),
        ("./model {x}", {"timeout": 0}, "timeout must be a positive number of seconds"),
        ("./model {x}", {"keep": "some"}, "keep must be 'failed', 'all' or 'none'"),
        ("./model {x}", {"stdin": 3}, "stdin must be a text"),
    ],
)
def test_commands_that_are_none_are_refused(template, options, says):
    with pytest.raises((TypeError, ValueError), match=re.escape(says)):
        Command(template, **options)


def test_a_name_that_the_problem_does_not_have_is_refused_before_any_run():
    with pytest.raises(ValueError, match=r"the command has \{x.rv\}: the names of x are 'rw', 'my length'"):
        problem(Command("./model {x.rv}"), names=NAMES)


def test_a_changed_program_counts_as_a_change_of_f(here):
    """Also of a session, which cannot call it."""
    one = problem(Command(COMMANDS["by number"]))
    one.collect(2, 2, rng=0, checkpoint="run.sqlite")
    one.session(rng=0, checkpoint="session.sqlite").close()
    with one.session(rng=0, checkpoint="session.sqlite") as session:
        session.tell(session.ask(1).ids, [1.0])
    write_model(2.0)
    with pytest.raises(CheckpointError, match=r"The integrand was edited since \(the file ./model\)"):
        one.collect(2, 2, rng=0, checkpoint="run.sqlite")
    with pytest.raises(CheckpointError, match=r"the integrand has changed since it was made \(the file ./model\)"):
        one.session(rng=0, checkpoint="session.sqlite")


def test_fingerprints_have_what_f_depends_on_and_no_more(here, monkeypatch):
    Path("mesh.dat").write_text("1")
    (here / "elsewhere").mkdir()

    def parts(template="./model {x}", **options):
        return fingerprint(Command(template, **options))

    first = parts(files={"mesh.dat": Path("mesh.dat")})
    assert {"the file ./model", "the file mesh.dat"} <= set(first)
    assert first == parts(files={"mesh.dat": Path("mesh.dat")}, timeout=3.0, folder="runs", keep="all")
    Path("mesh.dat").write_text("2")
    second = parts(files={"mesh.dat": Path("mesh.dat")})
    assert {name for name in first if first[name] != second[name]} == {"the file mesh.dat"}
    assert {"the file model"} == {name for name in parts("python3 model {x}") if "file " in name}
    assert {"the file echo"} == {name for name in parts("echo {x}") if "file " in name}
    write_model(3.0)
    wrapped = {name: digest for name, digest in parts().items() if "file " in name}
    assert wrapped["the file ./model"] != first["the file ./model"]
    command = Command("./model {x}")
    assert "the file ./model" in fingerprint(lambda x, theta: command(x, theta))
