"""Texts with placeholders for coordinates: `{x.rw}`, `{theta[0]}`, `{x.rw:.3e}`; other braces stay as they are."""

from __future__ import annotations

import re
import shlex

from cbq.common import Array, did_you_mean
from cbq.samples import Names

PLACEHOLDER = re.compile(r"\{(x|theta)(?:\.([^{}:\[\]]+)|\[(\d+)\])?(?::([^{}]*))?\}")
SIMILAR = re.compile(r"\{[A-Za-z_]\w*(?:[.\[][^{}\s]*)?(?::[^{}\s]*)?\}")  # a misspelt placeholder
LITERAL = re.compile(r"\{(\{[^{}]*\})\}")  # {{x}} for {x}
TOKENS = re.compile(f"{LITERAL.pattern}|{PLACEHOLDER.pattern}|{SIMILAR.pattern}")
FORMAT = re.compile(r"[<>^=]?[-+ ]?#?0?\d{0,3}(\.\d{1,3})?[eEfFgG]?")  # of the standard library, for numbers
HOW = "placeholders are {x} or {theta}, {x[0]}, {x.name} and {x.name:.6e}, and {{a}} stands for {a}"


def require_template(text: str, argument: str) -> None:
    """Raise unless each placeholder of a text is one of x or theta, with a format for numbers."""
    for found in TOKENS.finditer(text):
        literal, part, _, _, spec = found.groups()
        if literal is None and part is None:
            raise ValueError(f"{argument} has {found[0]}, which is no coordinate: {HOW}.")
        if not FORMAT.fullmatch(spec or ""):
            raise ValueError(f"{argument} has {found[0]}, whose format is none of a number: {HOW}.")


def has_placeholders(text: str) -> bool:
    """Whether a text depends on x or theta."""
    return any(found[2] is not None for found in TOKENS.finditer(text))


def require_names(text: str, names: Names) -> None:
    """Raise if a text names coordinates that differ from the given names."""
    for _, part, name, _, _ in TOKENS.findall(text):
        known = getattr(names, part) if part else ()
        if name and known and name not in known:
            raise ValueError(f"the command has {{{part}.{name}}}: {did_you_mean(name, known, f'names of {part}')}")


def split(text: str) -> list[str]:
    """The words of a command, as a shell splits it; placeholders stay whole, also with blanks in their names."""
    found = [token[0] for token in TOKENS.finditer(text)]
    numbered = iter(range(len(found)))
    words = shlex.split(TOKENS.sub(lambda _: f"\0{next(numbered)}\0", text))
    return [re.sub("\0(\\d+)\0", lambda number: found[int(number[1])], word) for word in words]


def filled(text: str, x: Array, theta: Array, names: Names) -> str:
    """A text for a point x (d,) and theta (p,); numbers have all their digits, unless a format shortens them."""

    def number(found: re.Match[str]) -> str:
        literal, part, name, i, spec = found.groups()
        if literal is not None:
            return str(literal)
        values, known = (x, names.x) if part == "x" else (theta, names.theta)
        if name is None and i is None:
            return " ".join(_written(value, spec) for value in values)
        if name is not None and name not in known:
            raise ValueError(f"the command has {found[0]}: {did_you_mean(name, known, f'names of {part}')}")
        if i is not None and int(i) >= len(values):
            raise ValueError(f"the command has {found[0]}, but {part} has {len(values)} coordinates, from 0 on.")
        return _written(values[known.index(name) if i is None else int(i)], spec)

    return TOKENS.sub(number, text)


def _written(value: float, spec: str | None) -> str:
    return format(float(value), spec) if spec else repr(float(value))
