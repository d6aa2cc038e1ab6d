"""Which problems there are, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from cbq.problem import Problem

Build = Callable[..., Problem]
B = TypeVar("B", bound=Build)
GROUP = "cbq.problems"  # of entry points, by which installed packages bring problems along

_BUILDERS: dict[str, Build] = {}


@overload
def register(name: str, build: B) -> B: ...
@overload
def register(name: str) -> Callable[[B], B]: ...
def register(name: str, build: Any = None) -> Any:
    """Let `get(name, **options)`, and with it `cbq run NAME`, return what `build(**options)` returns.

    build : a function that returns a cbq.Problem; the first line of its docstring is what `cbq problems` says of it.
        Without it, this is a decorator of such a function:

            @cbq.problems.register("pendulum")
            def pendulum(length=1.0):
                \"\"\"Period of a pendulum as its amplitude varies.\"\"\"
                return cbq.Problem(...)

    The name must be new. An installed package makes its problems known to every process with entry points
    `name = "module:build"` of the group `cbq.problems`.
    """
    if build is None:
        return lambda function: register(name, function)
    if not isinstance(name, str) or not name.strip() or any(mark in name for mark in ":/\\ "):
        raise ValueError(f"a problem must have a name without spaces, colons and slashes, but it is {name!r}.")
    if not callable(build):
        what = "wrap it as lambda: problem" if isinstance(build, Problem) else "def build(): return cbq.Problem(...)"
        raise TypeError(f"build must be a function that returns a cbq.Problem, but it is {build!r}: {what}.")
    if name in _BUILDERS:
        raise ValueError(f"there is a problem {name!r} already: register this one by another name.")
    _BUILDERS[name] = build
    return build


def names() -> tuple[str, ...]:
    """The names that `get` knows, in alphabetical order."""
    return tuple(sorted({*_BUILDERS, *_entry_points()}))


def get(name: str, **options: Any) -> Problem:
    """The problem of that name; `options` are those of `build` in the module of that name."""
    build = builder(name)
    known = inspect.signature(build).parameters
    anything = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values())
    unknown = [option for option in options if option not in known and not anything]
    if unknown:
        raise TypeError(f"problem {name!r} has no option {', '.join(unknown)}: it has {', '.join(known) or 'none'}.")
    problem = build(**options)
    if not isinstance(problem, Problem):
        raise TypeError(f"the function registered as {name!r} returned {problem!r}, but a cbq.Problem is needed.")
    return problem


def builder(name: str) -> Build:
    """The function that builds the problem of that name."""
    if name in _BUILDERS:
        return _BUILDERS[name]
    brought = _entry_points()
    if name not in brought:
        raise ValueError(f"there is no problem {name!r}: the problems are {', '.join(names())}.")
    try:
        build: Build = brought[name].load()
    except Exception as error:
        raise ImportError(f"problem {name!r} cannot be loaded from {brought[name].value}: {error}") from error
    return build


def _entry_points() -> dict[str, Any]:
    """Those of installed packages; a name that is registered here is not replaced by theirs."""
    from importlib.metadata import entry_points  # slow to import

    return {each.name: each for each in entry_points(group=GROUP) if each.name not in _BUILDERS}
