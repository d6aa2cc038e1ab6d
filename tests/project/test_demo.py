"""The command of `make demo` at a tiny size, and the files it writes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cbq.cli import main

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()


def demo() -> list[str]:
    """The arguments of `cbq` in the demo."""
    (line,) = re.findall(r"^\t\$\(BIN\)/cbq (run .*)$", MAKEFILE, flags=re.MULTILINE)
    return shlex.split(line)


def test_the_demo_runs_and_names_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["demo" if word == "$(DEMO)" else word for word in demo()]
    sizes = {"--T": "4", "--N": "5"}
    words = [sizes.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    assert main([*words, "--option", "step=0.25"]) == 0
    printed = capsys.readouterr().out
    for name in ("estimate.csv", "figure.png", "report.html", "fit.cbq", "run.json"):
        assert (tmp_path / "demo" / name).stat().st_size > 0
        assert f"demo/{name}" in printed
    assert "RMSE against the truth" in printed


def test_the_demo_runs_sir_and_writes_a_figure() -> None:
    assert demo()[:2] == ["run", "sir"]
    assert "--out" in demo()
    assert "figure.png" in MAKEFILE
    assert "estimate.csv" in MAKEFILE


def test_the_demo_is_not_committed() -> None:
    assert "/demo/" in (ROOT / ".gitignore").read_text().splitlines()


def test_python_m_cbq_is_the_same_program() -> None:
    done = subprocess.run([sys.executable, "-m", "cbq", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("cbq ")
