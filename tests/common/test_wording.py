"""Messages name arguments as their reader knows them, and say what may have been meant."""

from __future__ import annotations

import pytest

import cbq
from cbq.common.checks import did_you_mean, listed, whole
from cbq.common.wording import Wording, again, arg, in_words_of

OPTIONS = Wording({"on_error": "--on-error"}, between=" ", value=str, again="the same command resumes")


def test_arguments_are_those_of_python_unless_a_program_has_other_words():
    assert arg("on_error", "skip") == "on_error='skip'"
    with in_words_of(OPTIONS):
        assert arg("on_error") == "--on-error"
        assert arg("on_error", "skip") == "--on-error skip"
        assert arg("level", 0.9) == "level=0.9"  # which it has no word for
        assert again("collect") == "the same command resumes"
    assert arg("on_error") == "on_error"
    assert again("collect") == "call collect again with the same arguments to resume"


def test_the_words_of_python_come_back_after_an_error():
    with pytest.raises(ValueError, match="--on-error must be a whole number"), in_words_of(OPTIONS):
        whole("a", "on_error")
    with pytest.raises(ValueError, match=r"^on_error must be a whole number"):
        whole("a", "on_error")


def test_did_you_mean():
    known = ["Butterfly", "sir", "linear"]
    assert did_you_mean("buterfly", known, "problems") == "did you mean 'Butterfly'?"
    assert did_you_mean("xyz", known, "problems") == "the problems are 'Butterfly', 'sir', 'linear'."
    assert listed(map(str, range(30)), 2) == "'0', '1' and 28 more"
    with pytest.raises(ValueError, match="there is no problem 'lineer': did you mean 'linear'"):
        cbq.problems.get("lineer")
    with pytest.raises(TypeError, match="has no option dimm: did you mean 'dim'"):
        cbq.problems.get("linear", dimm=3)
