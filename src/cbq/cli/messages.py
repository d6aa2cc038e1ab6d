"""Messages of the command line: one line for an error, and options in place of the arguments of the library.

The library names an argument as `name=value` or `name=` within a message, or as the subject at its beginning. Where a
message is shown, the options of the running command take the place of the arguments.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from cbq.common import WorkerError, as_text, sentence
from cbq.estimators import REFUSALS
from cbq.runs import IntegrandError

INTERRUPTED = 130  # exit status after Ctrl-C, as in shells
EXPECTED = (*REFUSALS, IntegrandError, WorkerError, OSError)  # raised by bad input; reports of others name the type
# Arguments of the library whose options have other names.
OTHER_NAMES = {"executor": "workers", "rng": "seed"}
VALUE = r"'[^']*'|\"[^\"]*\"|\[[^][]*\]|\([^()]*\)|[\w.+-]*\w"
SUBJECT = r"(?= (?:must|is|are|has|needs|lists|holds|returns)\b)"  # after an argument at the beginning of a message
AGAIN = re.compile(r"call \w+ again with the same arguments to resume")


def option_names(parameters: Iterable[Any]) -> dict[str, str]:
    """The option of each argument, with the mark before its value: {"on_error": "--on-error "}."""
    options = {each.name: f"{each.opts[0]} " for each in parameters if each.name and each.opts[0].startswith("-")}
    return options | {name: options[option] for name, option in OTHER_NAMES.items() if option in options}


def in_options(message: str, options: Mapping[str, str]) -> str:
    """A message of the library, with options in place of arguments."""
    if options:
        names = "|".join(map(re.escape, options))
        message = re.sub(rf"^({names}){SUBJECT}", lambda found: options[found[1]].rstrip(" ="), message)
        message = re.sub(
            rf"(?<![\w.-])({names})=(?!\.\.\.)({VALUE})?", lambda found: _option(options[found[1]], found[2]), message
        )
    return AGAIN.sub("the same command resumes", message)


@contextmanager
def naming_options(options: Mapping[str, str]) -> Iterator[None]:
    """Errors that arise inside name these options."""
    try:
        yield
    except Exception as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (in_options(error.args[0], options), *error.args[1:])
        raise


def _option(option: str, value: str | None) -> str:
    """An option, with its value as it is typed in a shell."""
    if value is None:
        return option.rstrip(" =")
    try:
        literal = ast.literal_eval(value)
    except (SyntaxError, ValueError):
        literal = value
    return option + shlex.quote(",".join(map(str, literal)) if isinstance(literal, list | tuple) else str(literal))


class CommandInOptions(TyperCommand):
    """A command in which messages of the library name options: --on-error skip instead of on_error='skip'."""

    def invoke(self, ctx: Any) -> Any:
        options = option_names(self.params)
        with naming_options(options), warnings.catch_warnings():
            warnings.showwarning = partial(_print_warning, options)
            return super().invoke(ctx)


class OneLineErrors(TyperGroup):
    """Commands that report an error in one line, without a traceback unless --debug is passed."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any) -> Any:
        arguments = sys.argv[1:] if args is None else list(args)
        extra["standalone_mode"] = False  # so that errors are raised here
        extra["obj"] = tuple(arguments)  # for `command_line`
        try:
            code = super().main(arguments, "cbq", *rest, **extra)
        except (typer.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except Exception as error:
            if "--debug" in arguments:
                raise
            code = _report(error)
        sys.exit(code if isinstance(code, int) else 0)


def _report(error: Exception) -> int:
    """Print the error in one line and return the exit status, which is 2 if the command line cannot be parsed."""
    message = getattr(error, "format_message", None)  # of typer's own errors
    text = " ".join(as_text(error if message is None else message()).split())
    if isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.strerror}: {error.filename}"
    if message is None and not (text and isinstance(error, EXPECTED)):
        text = f"{type(error).__name__}: {text} (--debug shows where)"
    typer.echo(f"cbq: error: {sentence(text)}", err=True)
    return int(getattr(error, "exit_code", 1))


def _print_warning(options: Mapping[str, str], message: Warning | str, *where: Any, **more: Any) -> None:
    text = in_options(" ".join(str(message).split()), options)
    typer.echo(f"cbq: warning: {sentence(text)}", err=True)
