"""Parts of a page as HTML. Every text that is passed in is escaped, so that names cannot become markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Literal, NewType

Html = NewType("Html", str)  # text that a browser may read as markup
Kind = Literal["warning", "remark", "good"]


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
    role = "alert" if kind == "warning" else "note"
    return Html(f'<div class="notice {kind}" role="{role}"><p>{strong}{words(text)}</p>{advice}</div>')


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str, *, left: int = 0) -> Html:
    """A table that scrolls sideways on narrow screens; the first `left` columns align left, the others right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = ["" if j < left else ' class="number"' for j in range(len(row))]
        scope = ' scope="col"' if tag == "th" else ""
        return "".join(f"<{tag}{scope}{kind}>{words(cell)}</{tag}>" for cell, kind in zip(row, kinds, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return Html(
        f'<p class="caption">{words(caption)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{words(caption)}"><table>'
        f"<thead><tr>{cells('th', header)}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def facts(pairs: Mapping[str, str]) -> Html:
    """Names with their values, one below the other."""
    return Html(f"<dl>{''.join(f'<dt>{words(k)}</dt><dd>{words(v)}</dd>' for k, v in pairs.items())}</dl>")


def folded(title: str, inside: Html) -> Html:
    """Something that opens when its title is pressed."""
    return Html(f"<details><summary>{words(title)}</summary>{inside}</details>")
