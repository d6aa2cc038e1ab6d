"""`cbq problems`: which there are."""

from __future__ import annotations

import inspect

from cbq.cli.tables import show
from cbq.problems import names
from cbq.problems.registry import Build, builder


def problems() -> None:
    """List the problems that are known by name.

    Their options are set with --option: `cbq run linear --option dim=3`. A problem of your own needs no name, only a
    file: `cbq run simulator.py:problem`; a package that brings problems names them in the entry points `cbq.problems`.
    """
    builds = {name: builder(name) for name in names()}
    show(("name", "options", "what it is"), [(name, _options(b), _first(b)) for name, b in builds.items()], left=3)


def _first(build: Build) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(build) or "-").partition("\n")[0]


def _options(build: Build) -> str:
    """The options of a problem, as they come."""
    parameters = inspect.signature(build).parameters.values()
    return " ".join(str(each.replace(annotation=each.empty)).replace(" ", "") for each in parameters) or "-"
