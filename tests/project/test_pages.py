"""The pages of the site: their code runs, their citations resolve, and the reference leaves out no public name.

Pages with a kernel (`{code-cell}`) are executed by `make docs`; code in the other pages is run here. A block that needs
a GPU is marked as `py` in place of `python`, tests/runs/test_clusters.py runs those of guide/clusters.md, and
test_skeletons.py those of develop/skeletons.md, which register classes.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
from pathlib import Path

import pytest

from docs._ext import reference
from public_modules import MODULES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = {DOCS / "guide" / "clusters.md", DOCS / "develop" / "skeletons.md"}
KEYS = set(re.findall(r"^@\w+\{(\w+),", (DOCS / "references.bib").read_text(), flags=re.MULTILINE))
BLOCK = r"```python\n(.*?)```"


def pages_with_code() -> list[Path]:
    pages = [page for page in DOCS.rglob("*.md") if "```python\n" in page.read_text()]
    return sorted(set(pages) - ELSEWHERE)


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")
@pytest.mark.parametrize("page", pages_with_code(), ids=name_of)
def test_the_code_of_a_page_runs_and_prints_the_output_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text, names = page.read_text(), {}
    for block, shown in re.findall(BLOCK + r"(?:\n\n```text\n(.*?)```)?", text, flags=re.DOTALL):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(block, names)
        assert not shown or printed.getvalue() == shown


def test_pages_with_cells_have_the_head_by_which_they_are_executed() -> None:
    head = (DOCS / "start.md").read_text().partition("\n# ")[0]
    for page in DOCS.rglob("*.md"):
        assert "{code-cell}" not in page.read_text() or page.read_text().startswith(head), name_of(page)


def test_the_reference_lists_every_public_name_once(tmp_path: Path) -> None:
    reference.write(tmp_path)
    pages = "\n".join(page.read_text() for page in tmp_path.glob("*.md"))
    listed, module = [], None
    for line in pages.splitlines():
        if line.startswith(".. currentmodule:: "):
            module = importlib.import_module(line.split()[-1])
        elif re.fullmatch(r"   \w+", line):
            listed.append(getattr(module, line.strip()))
    assert len({id(thing) for thing in listed}) == len(listed) > 100
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if name not in ("__version__", "LinAlgError") and not inspect.ismodule(thing):
                assert any(thing is each for each in listed), f"{module.__name__}.{name} has no page in docs/_ext"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name_of)
def test_cited_keys_are_in_the_bibliography(page: Path) -> None:
    for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", page.read_text()):
        assert set(keys.split(",")) <= KEYS


def test_works_that_the_code_cites_are_in_the_bibliography() -> None:
    cited = r"\(([A-Z][a-z]+)(?:,? (?:and )?[A-Z][a-z]+)* ((?:19|20)\d\d)\)"
    sources = " ".join(" ".join(path.read_text().split()) for path in sorted((ROOT / "src").rglob("*.py")))
    found = set(re.findall(cited, sources))
    assert found
    for surname, year in found:
        assert any(key.startswith(surname.lower() + year) for key in KEYS), f"{surname} {year}"
