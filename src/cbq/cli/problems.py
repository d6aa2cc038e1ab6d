"""`cbq problems`: the problems that are known by name."""

from __future__ import annotations

import inspect

from cbq.cli.tables import show
from cbq.problems import names
from cbq.problems.registry import Build, builder


def problems() -> None:
    """List the problems that are known by name.

    Set their options with --option, as in `cbq run linear --option dim=3`. Your own problem does not need a name: write
    it to a file and use `cbq run simulator.py:problem`. Packages can add problems by entry points `cbq.problems`.
    """
    builders = {name: builder(name) for name in names()}
    rows = [(name, _options(build), _first_line(build)) for name, build in builders.items()]
    show(("name", "options", "description"), rows, left=3)


def _first_line(build: Build) -> str:
    return (inspect.getdoc(build) or "-").partition("\n")[0]


def _options(build: Build) -> str:
    """The options of a problem with their defaults."""
    parameters = inspect.signature(build).parameters.values()
    return " ".join(str(each.replace(annotation=each.empty)).replace(" ", "") for each in parameters) or "-"
