"""Messages of the library name options where the command line shows them."""

from __future__ import annotations

import sys

import pytest

from cbq.cli.messages import in_options, naming_options
from cbq.common.checks import whole
from command_line import refused

OPTIONS = {"on_error": "--on-error ", "budget": "--budget ", "pars": "--pars ", "dim": "--option dim="}


MESSAGES = {
    "on_error='raise' evaluates them again.": "--on-error raise evaluates them again.",
    "budget is 1: pass budget=20 or more.": "--budget is 1: pass --budget 20 or more.",
    "pass pars=['a', 'b c'], or leave pars= out.": "pass --pars 'a,b c', or leave --pars out.",
    "dim must be 1: pass dim=1.": "--option dim must be 1: pass --option dim=1.",
    "pars and costs need a price.": "pars and costs need a price.",
    "the budget is spent; level=0.9 is no option.": "the budget is spent; level=0.9 is no option.",
    "see my_budget=3 or --budget=3.": "see my_budget=3 or --budget=3.",
    "or make f(budget=...).": "or make f(budget=...).",
    "3 runs: call solve again with the same arguments to resume.": "3 runs: the same command resumes.",
}


@pytest.mark.parametrize("message", MESSAGES)
def test_options_stand_in_place_of_arguments(message):
    assert in_options(message, OPTIONS) == MESSAGES[message]


def test_errors_name_options_only_inside():
    with pytest.raises(ValueError, match=r"^--on-error must be a whole number"), naming_options(OPTIONS):
        whole("a", "on_error")
    with pytest.raises(ValueError, match=r"^on_error must be a whole number"):
        whole("a", "on_error")


def test_a_run_that_fails_shows_the_option_that_keeps_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "failing.py").write_text(
        "import cbq\n\ndef f(x, theta):\n    return 1.0 if theta[0] < 0.5 else 1 / 0\n\n"
        "family, prior = lambda theta: cbq.measures.Gaussian(theta, 1.0), cbq.measures.Uniform(0.0, 1.0)\n"
        "problem = cbq.Problem(f, family, prior, vectorized=False)\n"
    )
    command = ["run", "failing.py:problem", "--N", 4, "--theta", 0.1, "--theta", 0.9]
    assert "with --checkpoint run.sqlite an interrupted run can be resumed" in refused(*command)
    monkeypatch.delitem(sys.modules, "failing")
    assert "the same command resumes" in refused(*command, "--checkpoint", "run.sqlite")
    monkeypatch.delitem(sys.modules, "failing")
