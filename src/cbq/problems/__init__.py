"""Problems with exact answers, by name: `get("linear", dim=2)`, `get("sir")`, `get("butterfly")`, `get("health")`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from cbq.problem import Problem
from cbq.problems import butterfly, health, linear, sir

__all__ = ["get", "names"]

_BUILDERS: dict[str, Callable[..., Problem]] = {
    "butterfly": butterfly.build,
    "health": health.build,
    "linear": linear.build,
    "sir": sir.build,
}


def names() -> tuple[str, ...]:
    """The names that `get` knows."""
    return tuple(_BUILDERS)


def get(name: str, **options: Any) -> Problem:
    """The problem of that name; `options` are those of `build` in the module of that name."""
    if name not in _BUILDERS:
        raise ValueError(f"there is no problem {name!r}: the problems are {', '.join(_BUILDERS)}.")
    known = inspect.signature(_BUILDERS[name]).parameters
    unknown = [option for option in options if option not in known]
    if unknown:
        raise TypeError(f"problem {name!r} has no option {', '.join(unknown)}: it has {', '.join(known) or 'none'}.")
    return _BUILDERS[name](**options)
