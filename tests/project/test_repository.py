"""What the repository declares about itself agrees: versions, requirements, workflows, and the list of versions."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest

import cbq

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
RECIPE = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
CODEMETA = json.loads((ROOT / "codemeta.json").read_text())
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def test_all_files_have_one_version() -> None:
    release = cbq.__version__.partition(".dev")[0]
    assert CITATION["version"] == CODEMETA["version"] == RECIPE["context"]["version"] == release
    headings = re.findall(r"^## (\S+)(?: \((\S+)\))?$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    if ".dev" not in cbq.__version__:
        assert headings[0] == (release, str(CITATION["date-released"]))


def test_all_files_have_one_list_of_requirements() -> None:
    def plain(requirements: list[str]) -> set[str]:
        return {each.replace(" ", "") for each in requirements}

    extras = PROJECT["optional-dependencies"]
    assert plain(CODEMETA["softwareRequirements"]) == plain(PROJECT["dependencies"])
    python = f"python{PROJECT['requires-python']}"
    assert plain(RECIPE["requirements"]["run"]) == plain([python, *PROJECT["dependencies"], *extras["cli"]])
    assert CITATION["license"] == PROJECT["license"] == RECIPE["about"]["license"] == CODEMETA["license"][-3:]


def test_workflows_run_targets_on_the_declared_versions_of_python() -> None:
    matrix = WORKFLOWS["tests"]["jobs"]["test"]["strategy"]["matrix"]
    declared = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert matrix["python"] == declared
    assert len(matrix["os"]) == 3
    oldest = WORKFLOWS["tests"]["jobs"]["oldest"]["steps"][1]["with"]["python-version"]
    assert f">={oldest}" == PROJECT["requires-python"] == f">={declared[0]}"
    steps = [step for each in WORKFLOWS.values() for job in each["jobs"].values() for step in job.get("steps", ())]
    made = {found for step in steps for found in re.findall(r"make ([\w-]+)", step.get("run", ""))}
    assert {"lint", "test", "test-minimal", "test-oldest", "test-upstream", "docs", "package"} <= made <= TARGETS


def test_floors_are_the_oldest_versions_that_are_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / ".ci" / "floors.py"))
    floors = capsys.readouterr().out.split()
    assert {each.replace(">=", "==") for each in PROJECT["dependencies"]} <= set(floors)
    assert "pandas==2.1" in floors


def test_the_menu_of_versions_has_every_folder_of_the_site(tmp_path: Path) -> None:
    for name in ("0.9", "dev", "0.10", "1.0.0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    write = runpy.run_path(str(ROOT / ".ci" / "versions.py"))["write"]
    assert write(tmp_path) == ["1.0.0", "0.10", "0.9", "dev"]
    assert (tmp_path / "versions.js").read_text() == 'window.versions = ["1.0.0", "0.10", "0.9", "dev"];\n'
    assert "1.0.0/index.html" in (tmp_path / "index.html").read_text()
