"""Where a problem comes from: a name of the registry, or an attribute of a user's file."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from cbq import problems
from cbq.cli.errors import line_in, one_line
from cbq.problem import Problem


@dataclass(frozen=True)
class Source:
    """A problem by name, or by file and attribute, with the options of the function that builds it."""

    name: str  # of the problem, or of the attribute
    file: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, options: dict[str, Any]) -> Self:
        """From NAME or path/to/file.py:attribute."""
        path, _, attribute = text.rpartition(":")
        if text.endswith(".py"):
            raise ValueError(f"{text} is a file: name what to take from it, as in {text}:problem.")
        if not path.endswith(".py"):
            return cls(text, None, options)
        if not attribute.isidentifier():
            raise ValueError(f"{text} must end in the name of a problem, as in {path}:problem.")
        return cls(attribute, Path(path).resolve(), options)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """From what `record` returned."""
        file = record["file"]
        return cls(record["name"], None if file is None else Path(file), record["options"])

    def record(self) -> dict[str, Any]:
        """As JSON."""
        file = None if self.file is None else str(self.file)
        return {"name": self.name, "file": file, "options": self.options}

    def __str__(self) -> str:
        return self.name if self.file is None else f"{_shown(self.file)}:{self.name}"

    def load(self) -> Problem:
        """The problem itself; runs the file, whose folder becomes importable."""
        if self.file is None:
            return problems.get(self.name, **self.options)
        if not self.file.is_file():
            raise ValueError(f"there is no file {_shown(self.file)}.")
        with self.blamed():
            module = _imported(self.file)
        if not hasattr(module, self.name):
            found = ", ".join(_candidates(module)) or "no problem at all"
            raise ValueError(f"{_shown(self.file)} has no {self.name!r}: there is {found}.")
        thing = getattr(module, self.name)
        if callable(thing) and not isinstance(thing, type):
            thing = self._called(thing)
        elif self.options:
            raise ValueError(f"{self} is no function, so it takes no option {', '.join(self.options)}.")
        if not isinstance(thing, Problem):
            kind = thing.__name__ if isinstance(thing, type) else type(thing).__name__
            raise TypeError(f"{self} must be a cbq.Problem, or a function that returns one, but it gives a {kind}.")
        return thing

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Errors that arise in the user's file are reported with the file and the line."""
        try:
            yield
        except (Exception, SystemExit) as error:
            line = None if self.file is None else line_in(self.file, error)
            if line is None or self.file is None:
                raise
            kind = "" if type(error).__module__.startswith("cbq.") else f"{type(error).__name__}: "
            text = error.msg if isinstance(error, SyntaxError) else one_line(error).removeprefix(kind)
            raise ValueError(f"{_shown(self.file)}, line {line}: {kind}{text}") from error

    def _called(self, function: Any) -> Any:
        try:
            inspect.signature(function).bind(**self.options)
        except TypeError as error:
            raise ValueError(f"{self} cannot be called with these options: {error}.") from error
        with self.blamed():
            return function(**self.options)


def _imported(file: Path) -> ModuleType:
    """A file as a module with the name of the file, under which worker processes find it too."""
    name, known = file.stem, sys.modules.get(file.stem)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return known
    if known is not None or name in sys.stdlib_module_names or "." in name:
        raise ValueError(f"{_shown(file)} cannot be imported as {name!r}, a name that is taken: rename the file.")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _candidates(module: ModuleType) -> list[str]:
    """The problems of a module, and its functions without arguments that are needed."""
    return [
        name
        for name, thing in vars(module).items()
        if isinstance(thing, Problem) or (inspect.isfunction(thing) and _needs_nothing(thing, module))
    ]


def _needs_nothing(function: Any, module: ModuleType) -> bool:
    mine = function.__module__ == module.__name__ and not function.__name__.startswith("_")
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return mine and all(each.default is not each.empty or each.kind in kinds for each in parameters)


def _shown(file: Path) -> str:
    """A path as short as it can be from here."""
    return str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)
