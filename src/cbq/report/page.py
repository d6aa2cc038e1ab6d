"""Pages: their parts as HTML, sections under a title, and the file, with style and script inside.

Every text that is passed in is escaped, so that names cannot become markup.
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
from typing import Literal, NewType

import numpy as np
import scipy

from cbq._version import __version__
from cbq.report.documents import WRITERS, write_document

MOST_PRINTED = 9  # columns of a table that a printed page holds in its usual size of letters
Html = NewType("Html", str)  # text that a browser may read as markup
Kind = Literal["failed", "warning", "remark", "good"]


def joined(parts: Iterable[Html]) -> Html:
    """Parts one after the other."""
    return Html("\n".join(parts))


def words(text: str) -> Html:
    """Text as it is."""
    return Html(escape(text, quote=True))


def capital(text: str) -> str:
    """The same text, beginning with a capital."""
    return f"{text[:1].upper()}{text[1:]}"


def heading(text: str) -> Html:
    """A heading inside a section."""
    return Html(f"<h3>{words(text)}</h3>")


def paragraph(text: str) -> Html:
    """A paragraph."""
    return Html(f"<p>{words(text)}</p>")


def code(text: str, label: str) -> Html:
    """Lines of code or of a terminal, which can be scrolled; the label is read aloud."""
    return Html(f'<pre tabindex="0" role="region" aria-label="{words(label)}"><code>{words(text)}</code></pre>')


def bullets(items: Iterable[str]) -> Html:
    """A list."""
    return Html(f"<ul>{''.join(f'<li>{words(each)}</li>' for each in items)}</ul>")


def notice(kind: Kind, title: str, text: str, remedy: str = "") -> Html:
    """A box with a message that must not be overlooked, and its remedy."""
    advice = f"<p><strong>What to do:</strong> {words(remedy)}</p>" if remedy else ""
    strong = f"<strong>{words(title)}</strong> " if title else ""
    role = "alert" if kind in ("failed", "warning") else "note"
    return Html(f'<div class="notice {kind}" role="{role}"><p>{strong}{words(text)}</p>{advice}</div>')


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str, *, left: int = 0) -> Html:
    """A table that scrolls sideways on narrow screens; the first `left` columns align left, the others right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = ["" if j < left else ' class="number"' for j in range(len(row))]
        scope = ' scope="col"' if tag == "th" else ""
        return "".join(f"<{tag}{scope}{kind}>{words(cell)}</{tag}>" for cell, kind in zip(row, kinds, strict=True))

    wide = ' class="wide"' if len(header) > MOST_PRINTED else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return Html(
        f'<p class="caption">{words(caption)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{words(caption)}"><table{wide}>'
        f"<thead><tr>{cells('th', header)}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def facts(pairs: Mapping[str, str]) -> Html:
    """Names with their values, one below the other."""
    return Html(f"<dl>{''.join(f'<dt>{words(k)}</dt><dd>{words(v)}</dd>' for k, v in pairs.items())}</dl>")


def folded(title: str, inside: Html) -> Html:
    """Something that opens when its title is pressed."""
    return Html(f"<details><summary>{words(title)}</summary>{inside}</details>")


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    body: Html


@dataclass(frozen=True)
class Page:
    """A title with a line below it, and sections; `top` stands before all of them, for what must be read first."""

    title: str
    subtitle: str
    top: Html
    sections: Sequence[Section]

    def html(self) -> str:
        """The whole file.

        Its policy lets nothing but its own script run, and lets nothing load: whatever a text may contain, it stays
        text.
        """
        style, script = _resource("page.css"), _resource("page.js")
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
        body = joined(Html(f"<section><h2>{words(each.title)}</h2>\n{each.body}\n</section>") for each in self.sections)
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
{self.top}
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
