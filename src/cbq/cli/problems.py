"""`cbq problems`: the problems that are known by name."""

from __future__ import annotations

import inspect

from cbq.cli.tables import show
from cbq.problems import names
from cbq.problems.registry import builder


def problems() -> None:
    """List the problems that are known by name.

    Set their options with --option, as in `cbq run linear --option dim=3`. Your own problem does not need a name: write
    it to a file and use `cbq run simulator.py:problem`. Packages can add problems by entry points `cbq.problems`.
    """
    rows = []
    for name in names():
        build = builder(name)
        parameters = inspect.signature(build).parameters.values()
        options = " ".join(str(each.replace(annotation=each.empty)).replace(" ", "") for each in parameters)
        rows.append((name, options or "-", (inspect.getdoc(build) or "-").partition("\n")[0]))
    show(("name", "options", "description"), rows, left=3)
