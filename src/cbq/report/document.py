"""The file of a page: sections under a title, with style and script inside."""

from __future__ import annotations

import hashlib
import platform
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import scipy

from cbq._version import __version__
from cbq.report.parts import Html, joined, words


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
        """Write the file. Names of files that are no Unicode are shown by their bytes."""
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
