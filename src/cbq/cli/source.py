"""The source of a problem (a name, or an attribute of a user's file), and the record of a run that keeps it."""

from __future__ import annotations

import inspect
import json
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from cbq import problems
from cbq.cli.messages import naming_options
from cbq.common import as_text, did_you_mean
from cbq.integrands import Command
from cbq.problems.problem import Problem
from cbq.report import made_with

RECORD = "run.json"
FORMAT, VERSION = "cbq-run", 1


@dataclass(frozen=True)
class ProblemSource:
    """A problem by name, or by file and attribute, with the options of the function that builds it.

    command, pattern: the template of a program that replaces its integrand, and how its output is parsed.
    """

    name: str  # of the problem, or of the attribute
    file: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)
    command: str | None = None
    pattern: str | None = None

    @classmethod
    def parse(cls, text: str, options: Sequence[str] | None) -> Self:
        """From NAME or path/to/file.py:attribute, and options key=value."""
        parsed = _parsed_options(options or ())
        path, _, attribute = text.rpartition(":")
        if text.endswith(".py"):
            raise ValueError(f"{text} is a file: name the problem in it, as in {text}:problem.")
        if not path.endswith(".py"):
            return cls(text, None, parsed)
        if not attribute.isidentifier():
            raise ValueError(f"{text} must end in the name of a problem, as in {path}:problem.")
        return cls(attribute, Path(path).resolve(), parsed)

    @classmethod
    def optional(cls, text: str | None, options: Sequence[str] | None) -> Self | None:
        """From --problem and --option, if the problem is named."""
        if text is None and options:
            raise ValueError("--option is for the problem of --problem: pass --problem as well.")
        return None if text is None else cls.parse(text, options)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        """From the value of `record`."""
        name, file, options = (record[key] for key in ("name", "file", "options"))
        program = record.get("command"), record.get("pattern")
        return cls(name, None if file is None else Path(file), options, *program)

    @property
    def registered(self) -> str | None:
        """The registered name of the problem; None for a problem in a file."""
        return self.name if self.file is None else None

    @property
    def record(self) -> dict[str, Any]:
        """The source as a JSON object."""
        program = {"command": self.command, "pattern": self.pattern} if self.command is not None else {}
        file = None if self.file is None else str(self.file)
        return {"name": self.name, "file": file, "options": self.options, **program}

    def __str__(self) -> str:
        return self.name if self.file is None else f"{_short_path(self.file)}:{self.name}"

    def load(self) -> Problem:
        """Return the problem; this runs the user's file and makes its folder importable."""
        problem = self._loaded()
        if self.command is None:
            return problem
        with naming_options({"the command": "--command", "template": "--command", "parse": "--parse"}):
            return problem._replaced(integrand=Command(self.command, self.pattern).with_names(problem.names))

    def _loaded(self) -> Problem:
        if self.file is None:
            with naming_options({name: f"--option {name}=" for name in self.options}):
                return problems.get(self.name, **self.options)
        problem = self.attribute()
        if callable(problem) and not isinstance(problem, type):
            problem = self._call(problem)
        elif self.options:
            raise ValueError(f"{self} is not a function, so it has no option {', '.join(self.options)}.")
        if not isinstance(problem, Problem):
            kind = problem.__name__ if isinstance(problem, type) else type(problem).__name__
            raise TypeError(f"{self} must be a cbq.Problem, or a function that returns one, but it gives {kind}.")
        return problem

    def attribute(self, what: str = "problem") -> Any:
        """Return the attribute of the user's file; this runs the file and makes its folder importable."""
        if self.file is None or not self.file.is_file():
            raise ValueError(f"there is no file {self.name if self.file is None else _short_path(self.file)}.")
        with self.locating_errors():
            module = _imported(self.file)
        if not hasattr(module, self.name):
            names = _candidates(module) if what == "problem" else [name for name in vars(module) if name[0] != "_"]
            hint = did_you_mean(self.name, names, f"{what}s in it") if names else f"it has no {what}."
            raise ValueError(f"{_short_path(self.file)} has no {self.name!r}: {hint}")
        return getattr(module, self.name)

    @contextmanager
    def locating_errors(self) -> Iterator[None]:
        """Report errors that arise in the user's file with the file and the line."""
        try:
            yield
        except (Exception, SystemExit) as error:
            line = None if self.file is None else _line_in(self.file, error)
            if line is None or self.file is None:
                raise
            kind = "" if type(error).__module__.startswith("cbq.") else f"{type(error).__name__}: "
            text = error.msg if isinstance(error, SyntaxError) else " ".join(as_text(error).split())
            raise ValueError(f"{_short_path(self.file)}, line {line}: {kind}{text}") from error

    def _call(self, function: Any) -> Any:
        try:
            inspect.signature(function).bind(**self.options)
        except TypeError as error:
            raise ValueError(f"{self} cannot be called with these options: {error}.") from error
        with self.locating_errors():
            return function(**self.options)


def _parsed_options(texts: Sequence[str]) -> dict[str, Any]:
    """Options from key=value, where a value that is not JSON (a number, true, a list) is a string."""
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip().isidentifier():
            raise ValueError(f"--option must be key=value, as in --option dim=3, but it is {text!r}.")
        try:
            options[key.strip()] = json.loads(value)
        except ValueError:
            options[key.strip()] = value
    return options


def _line_in(file: Path, error: BaseException) -> int | None:
    """The line of a file in which an error arose, in this or in a worker process; None if it arose elsewhere."""
    text = "".join(traceback.format_exception(error))  # the traceback of a worker process exists as text only
    lines = re.findall(rf'File "{re.escape(str(file))}", line (\d+)', text)
    return int(lines[-1]) if lines else None


def _imported(file: Path) -> ModuleType:
    """Import a file as the module with its name, so that worker processes can import it too."""
    name, known = file.stem, sys.modules.get(file.stem)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return known
    if known is not None or name in sys.stdlib_module_names or "." in name:
        raise ValueError(
            f"{_short_path(file)} cannot be imported, because the name {name!r} is taken: rename the file."
        )
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
    """The names of the problems in a module, and of its public functions that can be called without arguments."""

    def builds(function: Any) -> bool:
        if not inspect.isfunction(function) or function.__module__ != module.__name__:
            return False
        needed = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
        return all(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in needed)

    known = {name: thing for name, thing in vars(module).items() if not name.startswith("_")}
    return [name for name, thing in known.items() if isinstance(thing, Problem) or builds(thing)]


def _short_path(file: Path) -> str:
    """The path relative to the current folder if the file is in it."""
    return str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)


def write_record(folder: Path, source: ProblemSource, problem: str, **parts: Any) -> None:
    """Write the record of a run: the source and the name of its problem, named parts, versions and the time."""
    named = {"format": FORMAT, "version": VERSION, "problem": {"called": problem, **source.record}}
    text = json.dumps({**named, **parts, "versions": made_with()}, indent=1, default=str)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")


def recorded_source(fit: Path) -> ProblemSource | None:
    """The problem of a saved fit, from the record in its folder; None if there is no record."""
    path = fit.parent / RECORD
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != FORMAT or record["version"] > VERSION:
            raise ValueError(f"it has format {record['format']!r}, version {record['version']}")
        return ProblemSource.of_record(record["problem"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a record that cbq run wrote ({error}): pass --problem.") from error
