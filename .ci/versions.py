"""Writes the list of versions of the site, for the menu of its pages: .ci/versions.py FOLDER

Each folder of FOLDER with an index.html is a version. `versions.js` has their names, newest first and "dev" last, and
`index.html` leads to the newest.
"""

import json
import re
import sys
from pathlib import Path


def order(name: str) -> tuple[bool, list[int]]:
    """Released versions before others, each by its numbers."""
    return bool(re.fullmatch(r"\d+(\.\d+)*", name)), [int(number) for number in re.findall(r"\d+", name)]


def write(folder: Path) -> list[str]:
    """Write the list and the front page, and return the names."""
    names = sorted((page.parent.name for page in folder.glob("*/index.html")), key=order, reverse=True)
    (folder / "versions.js").write_text(f"window.versions = {json.dumps(names)};\n", encoding="utf-8")
    if names:
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={names[0]}/index.html"><title>cbq</title>\n'
        (folder / "index.html").write_text(page, encoding="utf-8")
    return names


if __name__ == "__main__":
    print(*write(Path(sys.argv[1])), sep="\n")
