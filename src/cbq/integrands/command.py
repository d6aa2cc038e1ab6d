"""Programs in any language as integrands: one call of a command for each point, in a working folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from cbq.common import Array, file_name, flag, one_of, real, shown
from cbq.integrands.template import filled, has_placeholders, require_names, require_template, split
from cbq.samples import Names

Keep = Literal["failed", "all", "none"]
STDIN, STDOUT, STDERR = "cbq-stdin.txt", "cbq-stdout.txt", "cbq-stderr.txt"  # in a working folder
MAX_LENGTH = 2**17  # characters of a command, which systems limit, too
MOST_SHOWN = 400  # bytes of the output of a program that failed
SECONDS_TO_LIST = 5.0  # for the list of processes


@dataclass(frozen=True)
class Command:
    """A program as an integrand: `Problem(Command("./borehole {x.rw} {theta.depth}"), family, prior, names=...)`.

    The template is split into words as a shell does it, before numbers are put in for its placeholders: `{x.rw}` is the
    coordinate rw of x, by the names of the problem, `{x[0]}` the first one, `{x}` all of them, and `{theta...}` is
    alike; `{x.rw:.6e}` has a format, without which a number has all its digits. Each call has a new working folder. The
    program is looked for in the folder where Python runs when the command is made, and then on the PATH; behind a
    program from elsewhere, so is the first file, as in `python model.py {x}`. All other paths are relative to the
    working folder: pass further files by `files`, or write absolute paths.

    f fails at a point if the exit status of the program is not 0, or if its output has no finite number. The error has
    the end of the error output and the name of the working folder, which is kept. The contents of the program and of
    files count as code of f, which a resumed run compares.

    Parameters
    ----------
    template : the command, a text or a list of words.
    parse : how f is read from the output: a regular expression, whose groups in its last match are the outputs of f; or
        a function of the output, a text, that returns a number or (C,). By default, the last line must hold numbers and
        nothing else.
    files : the files in the working folder, by name: a text is a template, a path a file to copy.
    stdin : a template of the standard input.
    output : the name of the file that the program writes, if f is not in its standard output. A function `parse`
        receives its path.
    shell : whether `sh` runs the template, with pipes and redirections, in place of the program.
    timeout : seconds after which a call is ended, and f fails (default: no limit).
    folder : where working folders are made (default: the folder for temporary files of the system).
    keep : which working folders are kept: those of "failed" calls, "all" or "none".

    Examples
    --------
    >>> command = cbq.integrands.Command("expr {x[0]:.0f} + {theta[0]:.0f}")
    >>> problem = cbq.Problem(command, lambda theta: cbq.measures.Normal(theta, 1.0), cbq.measures.Uniform(0.0, 9.0))
    >>> problem.evaluate(3.0, [4.0, 5.0])
    array([7., 8.])
    """

    template: str | Sequence[str]
    parse: str | Callable[[Any], Any] | None = None
    files: Mapping[str, str | os.PathLike[str]] | None = None
    stdin: str | None = None
    output: str | None = None
    shell: bool = False
    timeout: float | None = field(default=None, compare=False)  # the same program, however long it takes
    folder: str | os.PathLike[str] | None = field(default=None, compare=False)
    keep: Keep = field(default="failed", compare=False)
    names: Names = field(init=False, repr=False)  # of the coordinates: those of the problem
    _root: str = field(init=False, repr=False, compare=False)  # the folder of Python, also in other processes

    def __post_init__(self) -> None:
        object.__setattr__(self, "_root", os.getcwd())
        object.__setattr__(self, "names", Names())
        object.__setattr__(self, "shell", flag(self.shell, "shell"))
        templates = self._templates()
        for argument, text in templates:
            require_template(text, argument)
        if not any(has_placeholders(text) for _, text in templates):
            raise ValueError("template needs a placeholder, such as {x} or {theta[0]}: without one, f is constant.")
        self._require_parse()
        if self.output is not None and not _is_inside(self.output):
            raise ValueError(f"output must be a file name in the working folder, but it is {shown(self.output)}.")
        one_of(self.keep, Keep, "keep")
        number = isinstance(self.timeout, int | float) and not isinstance(self.timeout, bool)
        if self.timeout is not None and not (number and 0 < self.timeout < np.inf):
            raise ValueError(f"timeout must be a positive number of seconds, but it is {shown(self.timeout)}.")
        if self.folder is not None:
            object.__setattr__(self, "folder", file_name(self.folder, "folder"))

    def _templates(self) -> list[tuple[str, str]]:
        """All texts with placeholders, checked, and the arguments that they are from."""
        template, files = self.template, {} if self.files is None else self.files
        words = [template] if isinstance(template, str) else template
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) and word.strip() for word in words):
            raise TypeError(f"template must be a command, a text or a list of texts, but it is {shown(template)}.")
        if sum(map(len, words)) > MAX_LENGTH:
            raise ValueError(f"template must have at most {MAX_LENGTH} characters: pass long texts by files or stdin.")
        if not words or (self.shell and not isinstance(template, str)):
            needed = "one text for the shell" if words else "a command"
            raise ValueError(f"template must be {needed}, but it is {shown(template)}.")
        if not self.shell:
            self._words()
        if not isinstance(files, Mapping) or not all(map(_is_inside, files)):
            raise ValueError(f"files must be a dictionary from names in the working folder, but it is {shown(files)}.")
        if not all(isinstance(each, str | os.PathLike) for each in files.values()):
            raise TypeError(f"files must hold texts, or paths of files to copy, but it is {shown(files)}.")
        if self.stdin is not None and not isinstance(self.stdin, str):
            raise TypeError(f"stdin must be a text, but it is {shown(self.stdin)}.")
        in_files = [("files", each) for each in files.values() if isinstance(each, str)]
        return [*(("template", word) for word in words), *in_files, ("stdin", self.stdin or "")]

    def _require_parse(self) -> None:
        if isinstance(self.parse, str):
            try:
                groups = re.compile(self.parse).groups
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(
                    f"parse must be a regular expression, but {shown(self.parse)} is none ({error})."
                ) from error
            if not groups:
                needed = "a group around the number, as in 'f = (.*)'"
                raise ValueError(f"parse must have {needed}, but it is {shown(self.parse)}.")
        elif self.parse is not None and not callable(self.parse):
            raise TypeError(f"parse must be a regular expression or a function, but it is {shown(self.parse)}.")

    def with_names(self, names: Names) -> Self:
        """The same command for a problem with these names."""
        for _, text in self._templates():
            require_names(text, names)
        new = copy(self)
        object.__setattr__(new, "names", names)
        return new

    def __call__(self, x: Array, theta: Array) -> Array:
        """f at points x (n, d) and theta (p,): (n,), or (n, C) for C outputs; at x (d,), a number or (C,)."""
        if np.ndim(x) == 1:
            return np.asarray(self._at(x, theta))
        return np.stack([self._at(point, theta) for point in x])

    @property
    def used_files(self) -> dict[str, Path]:
        """The files that f depends on, by their names in the command: the program, and those to copy."""
        words = [] if self.shell else self._words()
        found = self._located(words)
        if len(found) > 1:  # an interpreter and its program
            found.pop(0)
        files = {name: each for name, each in (self.files or {}).items() if not isinstance(each, str)}
        paths: dict[str, str | os.PathLike[str]] = {**{words[i]: path for i, path in found.items()}, **files}
        return {name: path for name, each in paths.items() if (path := Path(self._root, each)).is_file()}

    def _words(self) -> list[str]:
        """The words of the command."""
        if not isinstance(self.template, str):
            return list(self.template)
        try:
            words = split(self.template)
        except ValueError as error:
            raise ValueError(f"template is no command, {error}: {shown(self.template)}.") from error
        if not words:
            raise ValueError("template must be a command, but it is empty.")
        return words

    def _located(self, words: list[str]) -> dict[int, str]:
        """The paths of the program and, behind one from elsewhere, of the first file; by places among the words."""
        if not words or (not os.path.isabs(words[0]) and Path(self._root, words[0]).is_file()):
            return {i: str(Path(self._root, word)) for i, word in enumerate(words[:1])}
        found = {0: shutil.which(words[0]) or words[0]}
        for i, word in enumerate(words):
            if i and word not in (self.files or {}) and Path(self._root, word).is_file():
                return {**found, i: str(Path(self._root, word))}
        return found

    def _at(self, x: Array, theta: Array) -> Any:
        """f at one point x (d,): a number, or (C,)."""
        names = self.names.with_theta(len(theta)).with_x(len(x))
        parent = None if self.folder is None else Path(self._root, self.folder)
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        folder, keep = Path(tempfile.mkdtemp(prefix="cbq-", dir=parent)), self.keep == "all"
        try:
            self._prepare(folder, lambda text: filled(text, x, theta, names))
            self._run(folder, [filled(word, x, theta, names) for word in self._expanded(x, theta)])
            return self._read(folder)
        except Exception as error:
            keep = self.keep != "none"
            kind = TimeoutError if isinstance(error, TimeoutError) else RuntimeError
            kept = f" Its working folder is {folder}." * keep
            raise kind(f"{str(error).rstrip('.')}.{kept}") from error
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)

    def _expanded(self, x: Array, theta: Array) -> list[str]:
        """The words to run, in which `{x}` alone has become a word for each coordinate."""
        if self.shell:
            return ["sh", "-c", str(self.template)]
        template, words = self._words(), list[str]()
        found = self._located(template)
        for i, word in enumerate(template):
            n = {"{x}": len(x), "{theta}": len(theta)}.get(word)
            words += [found.get(i, word)] if n is None else [f"{word[:-1]}[{k}]}}" for k in range(n)]
        return words

    def _prepare(self, folder: Path, fill: Callable[[str], str]) -> None:
        """Write the files of a call."""
        for name, content in {**(self.files or {}), STDIN: self.stdin or ""}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                (folder / name).write_text(fill(content), encoding="utf-8")
            else:
                shutil.copy2(Path(self._root, content), folder / name)

    def _run(self, folder: Path, words: list[str]) -> None:
        """Run the program to its end, or raise the reason of its failure."""
        name = Path(words[0]).name if not self.shell else "the command"
        with (
            open(folder / STDIN, "rb") as stdin,
            open(folder / STDOUT, "wb") as stdout,
            open(folder / STDERR, "wb") as stderr,
        ):
            try:
                process = subprocess.Popen(words, cwd=folder, stdin=stdin, stdout=stdout, stderr=stderr)
            except OSError as error:
                where = f"looked for in {self._root} and on the PATH"
                raise RuntimeError(f"{shown(words[0])} cannot be started ({error.strerror}), {where}") from error
            try:
                status = process.wait(self.timeout)
            except subprocess.TimeoutExpired as error:
                _end(process)
                raise TimeoutError(f"{name} took longer than timeout = {self.timeout:g} s{_end_of(folder)}") from error
            except BaseException:
                _end(process)
                raise
        if status:
            raise RuntimeError(f"{name} ended with {_status(status)}{_end_of(folder)}")

    def _read(self, folder: Path) -> Any:
        """The value of f in the output."""
        file = folder / (self.output or STDOUT)
        if not file.exists():
            raise ValueError(f"the program ended without a file {self.output!r}{_end_of(folder)}")
        if callable(self.parse):
            argument = file if self.output is not None else _text(file)
            try:
                values = real(self.parse(argument), "the value of parse")
            except Exception as error:
                raise ValueError(f"parse found no number in the output ({type(error).__name__}: {error})") from error
        else:
            values = _last_match(self.parse, _text(file)) if self.parse else _last_line(_text(file))
        if values.ndim > 1 or not values.size:
            raise ValueError(f"the output has numbers of shape {values.shape}, but f is a number or of shape (C,)")
        if not np.all(np.isfinite(values)):
            raise ValueError(f"the output is {values}, but values must be finite")
        return values if values.ndim else float(values)


def _is_inside(name: Any) -> bool:
    """Whether this is the name of a file in a working folder."""
    if not isinstance(name, str) or not name or "\0" in name:
        return False
    return not Path(name).is_absolute() and ".." not in Path(name).parts and name not in (STDIN, STDOUT, STDERR)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def _last_line(text: str) -> Array:
    """The numbers in the last line: (), or (C,) for several."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("its output is empty")
    return _numbers([word for word in re.split(r"[\s,;]+", lines[-1]) if word], f"its last line, {shown(lines[-1])},")


def _last_match(pattern: str, text: str) -> Array:
    """The groups of the last match of a regular expression: (), or (C,) for several."""
    found = list(re.finditer(pattern, text, re.MULTILINE))
    if not found:
        raise ValueError(f"its output has no match of parse = {shown(pattern)}")
    return _numbers([group or "" for group in found[-1].groups()], f"the match {shown(found[-1][0])} of parse")


def _numbers(words: list[str], where: str) -> Array:
    try:
        found = [float(re.sub("[dD]", "e", word)) for word in words]  # as Fortran writes 1.0D+00
    except ValueError as error:
        remedy = "pass parse=, a regular expression with a group around the number"
        raise ValueError(f"{where} has something that is no number: {remedy}") from error
    return np.array(found if len(found) != 1 else found[0])


def _end_of(folder: Path) -> str:
    """The end of the error output, or of the output, in a sentence."""
    for file in (STDERR, STDOUT):
        with open(folder / file, "rb") as output:
            output.seek(max(os.path.getsize(folder / file) - MOST_SHOWN, 0))
            text = " ".join(output.read().decode(errors="replace").split())
        if text:
            return f", and its output ends in '{text}'"
    return ", without any output"


def _status(status: int) -> str:
    if status > 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program, and all that it has started; a group of its own would survive the worker that called it."""
    for child in _descendants(process.pid):
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
    process.kill()
    process.wait()


def _descendants(pid: int) -> list[int]:
    """The processes below one, as far as the system lists them."""
    try:
        words = ["ps", "-A", "-o", "pid=,ppid="]
        listed = subprocess.run(words, capture_output=True, text=True, check=True, timeout=SECONDS_TO_LIST).stdout
        parents = {int(child): int(parent) for child, parent in map(str.split, listed.splitlines())}
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    found = [pid]
    for each in found:  # which grows
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]
