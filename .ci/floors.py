"""Prints the oldest versions that pyproject.toml allows, as requirements: those of the library and of its extras.

`make test-oldest` installs them. Extras for work on cbq itself (dev, docs, bench) have no floors that are tested.
"""

import re
import tomllib
from pathlib import Path

UNTESTED = {"dev", "docs", "bench", "torch", "dask"}

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
required = [*project["dependencies"], *(each for name in extras if name not in UNTESTED for each in extras[name])]
print(*sorted({each.replace(">=", "==") for each in required if re.fullmatch(r"[\w-]+>=[\d.]+", each)}), sep="\n")
