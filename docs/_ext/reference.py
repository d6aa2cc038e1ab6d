"""The API reference: pages with the names in `__all__` of the public modules, written before Sphinx reads the rest."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import cbq

# By page: its title, its first sentence, its modules below `cbq`, and names of `cbq` that no other page has.
PAGES: dict[str, tuple[str, str, list[str], list[str]]] = {
    "problem": (
        "Problems and samples",
        "A problem is f with the measure of its inputs; samples hold points and values.",
        ["samples", "integrands", "problems"],
        ["Problem", "Names", "IntegrandError", "CollectWarning", "CheckpointError", "WorkerError"],
    ),
    "estimators": (
        "Estimators and fits",
        "Every estimator takes samples and returns a fit.",
        ["estimators", "fit", "comparison"],
        ["Selection", "Calibration", "LandmarkSelection", "StageOneSelection", "load", "plot"],
    ),
    "adaptive": ("Adaptive runs", "What `problem.solve` and `problem.session` return.", ["runs"], []),
    "decisions": ("Decisions and risk", "Numbers that depend on all of I.", ["nested", "voi", "voi.studies"], []),
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
    """The names on each page by the module that they are imported from: `cbq`, if it has them. No object is twice."""
    found: dict[str, dict[str, list[str]]] = {
        page: {"cbq": list(names)} if names else {} for page, (_, _, _, names) in PAGES.items()
    }
    seen = [getattr(cbq, name) for _, _, _, names in PAGES.values() for name in names]
    for page, (_, _, modules, _) in PAGES.items():
        for module in (importlib.import_module(f"cbq.{name}") for name in modules):
            for name in module.__all__:
                thing = getattr(module, name)
                if inspect.ismodule(thing) or any(thing is other for other in seen):
                    continue
                if getattr(thing, "__module__", "cbq").startswith("cbq"):
                    seen.append(thing)
                    place = "cbq" if name in cbq.__all__ else module.__name__
                    found[page].setdefault(place, []).append(name)
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
