"""Draw the figure of the README again: python docs/figures/readme.py."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
DPI = 110


def main() -> None:
    """The figure of the first example, by its own code."""
    names: dict[str, Any] = {}
    example = re.findall(r"```python\n(.*?)```", (FOLDER.parents[1] / "README.md").read_text(), flags=re.DOTALL)[0]
    os.chdir(tempfile.mkdtemp())  # for the report that it writes
    exec(example, names)
    names["figure"].savefig(FOLDER / "kiosk.png", dpi=DPI)


if __name__ == "__main__":
    main()
