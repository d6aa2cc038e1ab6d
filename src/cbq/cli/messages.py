"""Messages of the library in the words of the command line: --on-error skip for on_error='skip'.

The library names an argument as `name=value` or `name=` within a message, or as the subject at its beginning. Where a
message is shown, the options of the running command take the place of the arguments.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

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
