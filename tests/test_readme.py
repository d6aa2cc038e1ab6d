"""The code in the README runs and prints what the README says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_code_runs_and_prints_what_is_shown() -> None:
    printed, names = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL):
            exec(block, names)
    assert printed.getvalue() == "".join(re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL))


def test_the_links_lead_somewhere() -> None:
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (Path(__file__).parents[1] / path).exists(), path
