"""Formulas as MathML, which browsers draw themselves: the pages need neither a script nor a network for them."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx


def _mathml(source: str, *, block: bool) -> str:
    root = latex2mathml.tex2mathml(source, as_block=block)
    return root if isinstance(root, str) else root.toxml()


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{_mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
