"""The registry of problems, from this package, from users and from installed packages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from cbq.common import as_text, did_you_mean, sentence, shown, text
from cbq.problems.problem import Problem

Build = Callable[..., Problem]
B = TypeVar("B", bound=Build)
GROUP = "cbq.problems"  # the entry points with which installed packages provide problems

_BUILDERS: dict[str, Build] = {}


@overload
def register(name: str, build: B) -> B: ...
@overload
def register(name: str) -> Callable[[B], B]: ...
def register(name: str, build: Any = None) -> Any:
    """Register a problem, which `get(name, **options)` and `cbq run NAME` make by `build(**options)`.

    Parameters
    ----------
    name : the name of the problem, which must be new.
    build : a function that returns a cbq.Problem. `cbq problems` shows the first line of its docstring. Without it,
        `register(name)` is a decorator:

            @cbq.problems.register("pendulum")
            def pendulum(length=1.0):
                \"\"\"Period of a pendulum as its amplitude varies.\"\"\"
                return cbq.Problem(...)

    An installed package provides its problems with entry points `name = "module:build"` of the group `cbq.problems`.

    Examples
    --------
    >>> try:
    ...     cbq.problems.register("sir", lambda: None)
    ... except ValueError as error:
    ...     print(error)
    there is a problem 'sir' already: register this one with another name.
    """
    if not isinstance(name, str) or not name.strip() or any(mark in name for mark in ":/\\ "):
        raise ValueError(f"a problem must have a name without spaces, colons and slashes, but it is {shown(name)}.")
    if build is None:
        return lambda function: register(name, function)
    if not callable(build):
        hint = "wrap it as lambda: problem" if isinstance(build, Problem) else "def build(): return cbq.Problem(...)"
        raise TypeError(f"build must be a function that returns a cbq.Problem, but it is {shown(build)}: {hint}.")
    if name in _BUILDERS:
        raise ValueError(f"there is a problem {name!r} already: register this one with another name.")
    _BUILDERS[name] = build
    return build


def names() -> tuple[str, ...]:
    """The names of all problems, in alphabetical order.

    Examples
    --------
    >>> "sir" in cbq.problems.names()
    True
    """
    return tuple(sorted({*_BUILDERS, *_entry_points()}))


def get(name: str, **options: Any) -> Problem:
    """The problem of this name; `options` are passed to the function that builds it.

    Examples
    --------
    >>> cbq.problems.get("butterfly").p
    1
    """
    build = builder(text(name, "name"))
    known = inspect.signature(build).parameters
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values())
    unknown = [option for option in options if option not in known and not takes_any]
    if unknown:
        hint = did_you_mean(unknown[0], known, "options") if known else "it has none."
        raise TypeError(f"problem {name!r} has no option {', '.join(unknown)}: {hint}")
    problem = build(**options)
    if not isinstance(problem, Problem):
        raise TypeError(f"the function registered as {name!r} returned {shown(problem)}, but a cbq.Problem is needed.")
    return problem


def builder(name: str) -> Build:
    """The function that builds the problem of this name."""
    if name in _BUILDERS:
        return _BUILDERS[name]
    installed = _entry_points()
    if name not in installed:
        raise ValueError(f"there is no problem {shown(name)}: {did_you_mean(name, names(), 'problems')}")
    try:
        build: Build = installed[name].load()
    except Exception as error:
        message = f"problem {name!r} cannot be loaded from {installed[name].value}: {as_text(error)}"
        raise ImportError(sentence(message)) from error
    return build


def _entry_points() -> dict[str, Any]:
    """The entry points of installed packages; they do not replace problems that are registered."""
    from importlib.metadata import entry_points  # slow to import

    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in _BUILDERS}
