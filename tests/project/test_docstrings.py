"""Every public name has an example in its docstring, and the examples print what they show."""

from __future__ import annotations

import doctest
import importlib
import inspect
import warnings

import numpy as np
import pytest

import cbq
from public_modules import MODULES

EXCEPT = {"LinAlgError"}  # NumPy's own
WITH_METHODS = [cbq.Problem, cbq.Samples, cbq.Fit, cbq.measures.Measure]  # whose methods have examples, too
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public() -> dict[str, object]:
    """The public classes and functions, each once, by the first name that they have."""
    found: dict[str, object] = {}
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if (inspect.isclass(thing) or inspect.isfunction(thing)) and name not in EXCEPT:
                known = any(thing is other for other in found.values())
                found |= {} if known else {f"{module.__name__}.{name}": thing}
    return found


PUBLIC = public()
METHODS = {
    f"{owner.__name__}.{name}": method
    for owner in WITH_METHODS
    for name, method in vars(owner).items()
    if inspect.isfunction(method) and not name.startswith("_")
}


@pytest.mark.parametrize("name", [*PUBLIC, *METHODS])
def test_a_public_name_has_an_example(name: str) -> None:
    doc = inspect.getdoc((PUBLIC | METHODS)[name]) or ""
    assert "Examples\n--------\n>>> " in doc


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_print_what_they_show(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=SAME)
    with warnings.catch_warnings():
        for test in doctest.DocTestFinder(recurse=True).find(PUBLIC[name], name, globs={"cbq": cbq, "np": np}):
            runner.run(test)
    assert runner.failures == 0
