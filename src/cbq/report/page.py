"""Pages: their fragments, sections under a title, and the file, with style and script inside.

A fragment has its HTML, and the blocks that stand in its place in Word documents and PDFs (`documents.py`). Every text
that is passed in is escaped, so that names cannot become markup.
"""

from __future__ import annotations

import hashlib
import platform
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np
import scipy

from cbq._version import __version__
from cbq.plotting import Panel
from cbq.report.documents import WRITERS, write_document

MOST_PRINTED = 9  # columns of a table that a printed page holds in its usual size of letters
Kind = Literal["failed", "warning", "remark", "good"]


@dataclass(frozen=True)
class Block:
    """A part of a document.

    kind : "heading", "text", "item", "code", "caption", "warning", "remark", "good", "table", "facts" or "chart".
    text : its words. panel : of a chart.
    rows : of a table, the header first, or pairs of facts. left : columns of a table that align left.
    """

    kind: str
    text: str = ""
    rows: Sequence[Sequence[str]] = ()
    left: int = 0
    panel: Panel | None = None


class Fragment:
    """A part of a page: its HTML, and its blocks in documents."""

    def __init__(self, html: str = "", *blocks: Block) -> None:
        self.html, self.blocks = html, blocks


def joined(fragments: Iterable[Fragment]) -> Fragment:
    """Fragments one after the other."""
    every = list(fragments)
    return Fragment("\n".join(each.html for each in every), *(block for each in every for block in each.blocks))


def words(text: str) -> str:
    """Text as it is, in HTML."""
    return escape(text, quote=True)


def capital(text: str) -> str:
    """The same text, beginning with a capital."""
    return f"{text[:1].upper()}{text[1:]}"


def heading(text: str) -> Fragment:
    """A heading inside a section."""
    return Fragment(f"<h3>{words(text)}</h3>", Block("heading", text))


def paragraph(text: str) -> Fragment:
    """A paragraph."""
    return Fragment(f"<p>{words(text)}</p>", Block("text", text))


def code(text: str, label: str) -> Fragment:
    """Lines of code or of a terminal, which can be scrolled; the label is read aloud."""
    html = f'<pre tabindex="0" role="region" aria-label="{words(label)}"><code>{words(text)}</code></pre>'
    return Fragment(html, Block("code", text))


def bullets(items: Iterable[str]) -> Fragment:
    """A list."""
    blocks = [Block("item", item) for item in items]
    return Fragment(f"<ul>{''.join(f'<li>{words(each.text)}</li>' for each in blocks)}</ul>", *blocks)


def notice(kind: Kind, title: str, text: str, remedy: str = "") -> Fragment:
    """A box with a message that must not be overlooked, and its remedy."""
    advice = f"<p><strong>What to do:</strong> {words(remedy)}</p>" if remedy else ""
    strong = f"<strong>{words(title)}</strong> " if title else ""
    role = "alert" if kind in ("failed", "warning") else "note"
    html = f'<div class="notice {kind}" role="{role}"><p>{strong}{words(text)}</p>{advice}</div>'
    lines = [f"{title} {text}".strip(), *[f"What to do: {remedy}"] * bool(remedy)]
    return Fragment(html, *(Block(kind, line) for line in lines))


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str, *, left: int = 0) -> Fragment:
    """A table that scrolls sideways on narrow screens; the first `left` columns align left, the others right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = ["" if j < left else ' class="number"' for j in range(len(row))]
        scope = ' scope="col"' if tag == "th" else ""
        return "".join(f"<{tag}{scope}{kind}>{words(cell)}</{tag}>" for cell, kind in zip(row, kinds, strict=True))

    wide = ' class="wide"' if len(header) > MOST_PRINTED else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    html = (
        f'<p class="caption">{words(caption)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{words(caption)}"><table{wide}>'
        f"<thead><tr>{cells('th', header)}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return Fragment(html, Block("caption", caption), Block("table", rows=[header, *rows], left=left))


def facts(pairs: Mapping[str, str]) -> Fragment:
    """Names with their values, one below the other."""
    html = f"<dl>{''.join(f'<dt>{words(k)}</dt><dd>{words(v)}</dd>' for k, v in pairs.items())}</dl>"
    return Fragment(html, Block("facts", rows=list(pairs.items())))


def folded(title: str, inside: Fragment) -> Fragment:
    """Something that opens when its title is pressed; documents show it."""
    return Fragment(f"<details><summary>{words(title)}</summary>{inside.html}</details>", *inside.blocks)


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    body: Fragment


@dataclass(frozen=True)
class Page:
    """A title with a line below it, and sections; `top` stands before all of them, for what must be read first."""

    title: str
    subtitle: str
    top: Fragment
    sections: Sequence[Section]

    def html(self) -> str:
        """The whole file.

        Its policy lets nothing but its own script run, and lets nothing load: whatever a text may contain, it stays
        text.
        """
        style, script = _resource("page.css"), _resource("page.js")
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
        sections = [f"<section><h2>{words(each.title)}</h2>\n{each.body.html}\n</section>" for each in self.sections]
        body = "\n".join(sections)
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="cbq">
<title>{words(self.title)}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<main>
<header><h1>{words(self.title)}</h1><p class="subtitle">{words(self.subtitle)}</p></header>
<noscript><p class="notice remark">Charts and sliders need JavaScript, which is off here: the tables hold the numbers.
</p></noscript>
{self.top.html}
{body}
</main>
<script>{script}</script>
</body>
</html>
"""

    def write(self, path: str) -> None:
        """Write the file: Word or PDF if the suffix is .docx or .pdf, and otherwise HTML.

        Names of files that are no Unicode are shown by their bytes.
        """
        if Path(path).suffix.lower() in WRITERS:
            write_document(self, path)
            return
        Path(path).write_bytes(self.html().encode("utf-8", errors="backslashreplace"))


@cache
def _resource(name: str) -> str:
    return (files("cbq.report") / name).read_text(encoding="utf-8")


def made_with() -> dict[str, str]:
    """The versions behind a page, and when it was written."""
    return {
        "cbq": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "platform": platform.platform(),
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
