"""Names of columns on the command line: in lists, in sets, and in named sets.

A name may contain commas, as rr[1,2]. Known columns are recognised as a whole, and brackets and quotes protect commas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

QUOTES, OPEN, CLOSE = "\"'", "([{", ")]}"
BETWEEN_NAMES, BETWEEN_SETS, AFTER_LABEL = ",", ";", ":"
MARKS = BETWEEN_NAMES + BETWEEN_SETS + AFTER_LABEL


@dataclass(frozen=True)
class Piece:
    """A name, and the mark that follows it; "" at the end."""

    name: str
    mark: str


def column_names(text: str | None, known: Sequence[str]) -> list[str]:
    """The names in a comma-separated list."""
    return [piece.name for piece in _pieces(text or "", known, BETWEEN_NAMES) if piece.name]


def column_sets(text: str, known: Sequence[str]) -> list[list[str]] | dict[str, list[str]]:
    """The sets in "p1; p2; p1, p2", or the named sets in "costs: c1, c2; effects: e1"."""
    sets: list[tuple[str, list[str]]] = [("", [])]
    for piece in _pieces(text, known, MARKS):
        label, names = sets[-1]
        if piece.mark == AFTER_LABEL:
            if label or names:
                raise ValueError(f'--pars {text!r} has a colon out of place: write "costs: c1, c2; effects: e1, e2".')
            sets[-1] = (piece.name, [])
            continue
        if piece.name:
            names.append(piece.name)
        if piece.mark == BETWEEN_SETS:
            sets.append(("", []))
    filled = [(label, names) for label, names in sets if label or names]
    if not any(label for label, _ in filled):
        return [names for _, names in filled]
    labelled = {label or ", ".join(names): names for label, names in filled}
    if len(labelled) < len(filled):
        raise ValueError(f"--pars {text!r} names two sets alike: give each a name of its own.")
    return labelled


def _pieces(text: str, known: Sequence[str], marks: str) -> Iterator[Piece]:
    by_length = sorted(known, key=len, reverse=True)
    i = 0
    while i < len(text):
        if text[i].isspace():
            i += 1
            continue
        name, i = _next(text, i, by_length, marks)
        while i < len(text) and text[i].isspace():
            i += 1
        yield Piece(name, text[i] if i < len(text) else "")
        i += 1


def _next(text: str, start: int, known: Sequence[str], marks: str) -> tuple[str, int]:
    """The name that begins here, and its end: a known name, a quoted name, or the text before the next mark."""
    for name in known:
        if name and text.startswith(name, start) and _ends(text, start + len(name), marks):
            return name, start + len(name)
    closing = text.find(text[start], start + 1) if text[start] in QUOTES else -1
    if closing > 0 and _ends(text, closing + 1, marks):
        return text[start + 1 : closing], closing + 1
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in OPEN) - (text[i] in CLOSE)
        if depth <= 0 and text[i] in marks:
            return text[start:i].strip(), i
    return text[start:].strip(), len(text)


def _ends(text: str, i: int, marks: str) -> bool:
    """Whether a name may end here: at the end, or before a mark, with spaces or without."""
    rest = text[i:].lstrip()
    return not rest or rest[0] in marks
