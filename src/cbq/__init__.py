"""Conditional expectations with honest uncertainty, from few evaluations of an expensive function."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

# `__init__.pyi` lists the public names, also for type checkers and editors. A name is imported when it is first used
# (SPEC 1 of Scientific Python), so that a program pays for what it uses.
_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_IMPORTS = [node for node in _STUB.body if isinstance(node, ast.ImportFrom)]
_MODULES = {alias.name: node.module for node in _IMPORTS for alias in node.names}
__all__ = next(ast.literal_eval(node.value) for node in _STUB.body if isinstance(node, ast.Assign))


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'cbq' has no attribute {name!r}")
    value = import_module(f"cbq.{name}") if module == "cbq" else getattr(import_module(module), name)
    globals()[name] = value  # so that the next use finds it at once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
