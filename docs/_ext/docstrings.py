"""Turns our docstrings into reStructuredText: parameters with their types, notes, and examples.

A docstring is plain text that reads well in a terminal. Its section `Parameters` has entries `name : text`, and so may
lines `name: text` of a method. Stars, bars and underscores in it are those of mathematics, and no markup.
"""

from __future__ import annotations

import inspect
import re
from itertools import takewhile
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.inspect import TypeAliasForwardRef
from sphinx.util.nodes import make_refnode

import cbq

ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) ?: (.+)$")
EXAMPLES = ".. rubric:: Examples"
UNDERLINE = re.compile(r"^-{3,}$")
QUOTED = re.compile(r"(`[^`]+`)")


def _escaped(text: str) -> str:
    """Text in which the characters of markup stand for themselves, except in backquotes."""
    parts = QUOTED.split(text)
    parts[::2] = [re.sub(r"([*|\\])|(_)(?=\W|$)", r"\\\1\2", part) for part in parts[::2]]
    return "".join(parts)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fields(lines: list[str], kind: str = "param") -> list[str]:
    """Entries `name : text` with indented continuations as a list of fields."""
    found: list[str] = []
    for line in lines:
        entry = ENTRY.match(line)
        if entry:
            names = entry[1].split(", ")
            found += [f":{kind} {name}: {_escaped(entry[2])}" for name in names]
        else:
            found.append(" " * min(_indent(line), 4) + _escaped(line.strip()))
    return ["", *found, ""]


def restructured(lines: list[str]) -> list[str]:
    """The lines of a docstring, as reStructuredText."""
    found: list[str] = []
    section, i = "", 0
    parameters: list[str] = []
    while i < len(lines):
        line = lines[i]
        heading = i + 1 < len(lines) and UNDERLINE.match(lines[i + 1]) and line.strip()
        if heading:
            section = line.strip()
            i += 2
            if section == "Attributes":
                entries = list(takewhile(str.strip, lines[i:]))
                found += _fields(entries, "ivar")
                i += len(entries)
            elif section != "Parameters":
                found += ["", f".. rubric:: {section}", ""]
            continue
        if section == "Parameters" and line and not (ENTRY.match(line) or line.startswith(" ")):
            section = ""  # a paragraph after the parameters
        if section == "Parameters":
            parameters.append(line)
        elif line.lstrip().startswith(">>>"):
            found.append("")
            while i < len(lines) and lines[i].strip():
                found.append(lines[i])
                i += 1
            found.append("")
            continue
        elif not section and _is_entry(lines, i):
            j = i + 1
            while j < len(lines) and lines[j].strip() and not _is_entry(lines, j):
                j += 1
            parameters += [line, *(f"    {each.strip()}" for each in lines[i + 1 : j])]
            i = j
            continue
        elif _indent(line) >= 4 and (not found or not found[-1].strip() or found[-1].startswith("    ")):
            found += ["::", "", line] if not (found and found[-1].startswith("    ")) else [line]
        else:
            if found and found[-1].startswith("    ") and line:
                found.append("")
            found.append(_escaped(line))
        i += 1
    fields = _fields([line for line in parameters if line.strip()]) if parameters else []
    at = found.index(EXAMPLES) if EXAMPLES in found else len(found)
    return [*found[:at], *fields, *found[at:]]


def _is_entry(lines: list[str], i: int) -> bool:
    """Whether a line `name: text` at the start of a paragraph, or below such a line, describes a parameter."""
    return bool(re.match(r"^[a-z_]+(, [a-z_]+)* ?: \S", lines[i])) and i > 0


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = restructured(lines)


def _resolve(app: Sphinx, env: Any, node: Any, contnode: nodes.Element) -> nodes.Node | None:
    """A reference to a class where it is defined leads to where it is public; one to an inner class is plain text."""
    module, _, name = node.get("reftarget", "").rpartition(".")
    if node.get("refdomain") != "py" or not module.startswith("cbq") or module in _public_modules():
        return None
    objects = env.get_domain("py").objects
    found = sorted((each for each in objects if each.rpartition(".")[2] == name and name[:1].isupper()), key=len)
    if not found:
        return contnode
    entry = objects[found[0]]
    return make_refnode(app.builder, node.get("refdoc", env.docname), entry.docname, entry.node_id, contnode, found[0])


def _readable_types(app: Sphinx, *_: Any) -> None:
    """Write the types that autodoc has recorded as people say them."""
    for types in getattr(app.env.current_document, "autodoc_annotations", {}).values():
        for name, text in types.items():
            types[name] = re.sub(r"TypeAliasForwardRef\('([\w.]+)'\)", r"\1", text).replace("npt.", "")


def _public_modules() -> set[str]:
    return {"cbq", *(f"cbq.{name}" for name in cbq.__all__ if inspect.ismodule(getattr(cbq, name)))}


def setup(app: Sphinx) -> dict[str, Any]:
    TypeAliasForwardRef.__repr__ = lambda self: self.name  # of properties, whose types are not recorded
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _readable_types, priority=900)
    app.connect("missing-reference", _resolve)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
