"""Fails a build whose pages would load something from the network: a script, a style, a font or a picture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

LOADS = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["'](?:https?:)?//[^"']*|<link\b(?![^>]*rel=["']canonical)[^>]*\bhref=["'](?:https?:)?//[^"']*"""
)


def _check(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    found = {
        f"{page.relative_to(app.outdir)}: {load}"
        for page in Path(app.outdir).rglob("*.html")
        for load in LOADS.findall(page.read_text(encoding="utf-8"))
    }
    if found:
        raise ExtensionError("pages load from the network:\n" + "\n".join(sorted(found)))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", _check)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
