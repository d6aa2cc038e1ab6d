"""Malformed calls of the whole public interface return no NaN, do not hang, and raise errors that name the argument.

What is called, and what a call may do, is in `hostile.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import cbq
import hostile
from hostile import MASKED, Call, Entry, Selection


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")  # of fits to hardly any samples
def test_the_calls_are_valid_before_an_argument_is_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entries = [entry for entry in hostile.entries() if entry.name != "problems.register"]  # it would stay registered
    assert len(entries) > 400
    for entry in entries:
        if "plot" not in entry.name and entry.name not in hostile.UNKNOWN_IS_NAN:  # figures take a second each
            assert not hostile.has_nan(Call(entry, {}).make()), entry.name


VERDICTS = {
    "NaN": (lambda x: [0.0, float("nan")], "1", "returned NaN"),
    "an error of another kind": (lambda x: {}["a"], "1", "an error of another kind"),
    "an error from elsewhere": (lambda x: int("x"), "1", "an error that cbq did not raise"),
    "another argument": (lambda x: cbq.kernels.RBF(-1.0), "1", "does not name the argument"),
    "a mask": (lambda x: 1.0, "masked", "it dropped a mask"),
    "a number": (lambda x: 1.0, "1", None),
    "the argument": (lambda x: cbq.kernels.RBF(1.0)("a"), "1", None),
}


@pytest.mark.parametrize(("function", "value", "says"), VERDICTS.values(), ids=VERDICTS)
def test_the_verdict_on_a_call(function, value, says):
    found = hostile.verdict(Call(Entry("function", function, {"x": lambda: 1.0}, frozenset()), {"x": value}))
    assert found is None if says is None else says in found


WORKER = """
import os, sys, time
sys.path.insert(0, {tests!r})
import hostile
hostile.SECONDS = 1
functions = {{"crash": lambda x: os._exit(3), "loop": lambda x: time.sleep(60), "return": lambda x: 1.0}}
make = lambda: 1.0
hostile.entries = lambda: (hostile.Entry(name, f, {{"x": make}}, frozenset()) for name, f in functions.items())
hostile.work(hostile.Selection(["1"]), int(sys.argv[3]))
"""


@pytest.mark.slow
def test_a_crash_and_a_hang_have_a_name_and_the_calls_after_them_are_made(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(tests=str(Path(hostile.__file__).parent)))
    report = hostile.run(Selection(), script=str(script))
    assert report.made == 3
    assert list(report.failures) == ["crash, x = 1", "loop, x = 1"]
    assert "ended its process (3)" in report.failures["crash, x = 1"]
    assert "took more than 1 s" in report.failures["loop, x = 1"]


def test_flags_take_booleans_only():
    report = hostile.run(Selection(flags=True, values=("None", "1", "0", "'False'", "''", "booleans", "1.5")))
    assert report.made > 200
    assert not report.failures, str(report)


def test_some_malformed_calls_are_refused_in_words():
    report = hostile.run(Selection(per_parameter=16, step=37))
    assert report.made >= 300
    assert not report.failures, str(report)


@pytest.mark.slow
def test_masked_values_are_refused_wherever_an_argument_becomes_an_array():
    report = hostile.run(Selection(values=MASKED))
    assert report.made > 4000
    assert not report.failures, str(report)


@pytest.mark.slow
def test_malformed_calls_are_refused_in_words():
    report = hostile.run(Selection(per_parameter=60))  # `python tests/hostile.py` makes all of them
    assert report.made >= 30_000
    assert not report.failures, str(report)
