"""The API reference: pages with the names in `__all__` of the public modules, written before Sphinx reads the rest."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import cbq

# By page: its title, its first sentence, its modules below `cbq`, and names of `cbq` from elsewhere.
PAGES: dict[str, tuple[str, str, list[str], list[str]]] = {
    "problem": (
        "Problems and samples",
        "A problem is f with the measure of its inputs; samples hold points and values.",
        ["samples", "integrands", "problems"],
        ["IntegrandError", "CollectWarning", "CheckpointError", "WorkerError"],
    ),
    "estimators": (
        "Estimators and fits",
        "Every estimator takes samples and returns a fit.",
        ["estimators", "fit", "comparison", "sklearn"],
        ["Selection", "Calibration", "LandmarkSelection", "plot"],
    ),
    "adaptive": ("Adaptive runs", "What `problem.solve` and `problem.session` return.", ["runs"], []),
    "decisions": (
        "Decisions, risk and sensitivity",
        "Numbers that depend on all of I, or on all of f.",
        ["nested", "indices", "voi", "voi.studies"],
        [],
    ),
    "measures": ("Measures", "The distributions of x and of theta.", ["measures"], []),
    "kernels": (
        "Kernels and embeddings",
        "Kernels of unit amplitude, and their integrals under measures.",
        ["kernels", "embeddings"],
        [],
    ),
    "linalg": ("Linear algebra", "Factors of Gram matrices, on the cores or on a GPU.", ["linalg"], []),
}
INDEX = """# API reference

All public names. Every example on these pages is run as a test; all begin with `import cbq` and
`import numpy as np`.

| page | |
|---|---|
{rows}

```{{toctree}}
:hidden:

{pages}
```
"""
LIST = """
.. currentmodule:: {module}

.. autosummary::
   :toctree: generated
   :nosignatures:

{names}
"""


def documented() -> dict[str, dict[str, list[str]]]:
    """The names on each page, by the module that they are imported from: `cbq`, if it has them. No object is twice."""
    page_of = {module: page for page, (_, _, modules, _) in PAGES.items() for module in modules}
    found: dict[str, dict[str, list[str]]] = {page: {} for page in PAGES}
    seen: list[object] = []

    def add(page: str, module: str, name: str, thing: object) -> None:
        if not inspect.ismodule(thing) and not any(thing is other for other in seen):
            seen.append(thing)
            found[page].setdefault(module, []).append(name)

    for page, (_, _, _, names) in PAGES.items():
        for name in names:
            add(page, "cbq", name, getattr(cbq, name))
    for name in cbq.__all__:
        thing = getattr(cbq, name)
        _, room, *_ = (*getattr(thing, "__module__", "").split("."), "", "")
        if room in page_of:
            add(page_of[room], "cbq", name, thing)
    for name, page in page_of.items():
        module = importlib.import_module(f"cbq.{name}")
        for public in module.__all__:
            if getattr(getattr(module, public), "__module__", "").startswith("cbq"):
                add(page, module.__name__, public, getattr(module, public))
    return found


def write(folder: Path) -> None:
    """Write the pages, and their index."""
    texts = {
        page: f"# {title}\n\n{sentence}\n\n```{{eval-rst}}"
        + "\n".join(
            LIST.format(module=module, names="\n".join(f"   {name}" for name in names))
            for module, names in documented()[page].items()
        )
        + "```\n"
        for page, (title, sentence, _, _) in PAGES.items()
    }
    rows = "\n".join(f"| [{title}]({page}.md) | {sentence} |" for page, (title, sentence, _, _) in PAGES.items())
    texts["index"] = INDEX.format(rows=rows, pages="\n".join(PAGES))
    folder.mkdir(exist_ok=True)
    for page, text in texts.items():
        path = folder / f"{page}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
