"""Public names that were replaced: the old names still work and warn."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def deprecated_names(module: str, new_names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's `__getattr__` that maps each old name to the object with the new name.

    Hide it from type checkers, which would otherwise accept any name:

        if not TYPE_CHECKING:
            __getattr__ = deprecated_names(__name__, {"OldName": "NewName"})
    """

    def __getattr__(name: str) -> Any:
        if name not in new_names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
        _warn(f"{module}.{name}", new_names[name])
        return getattr(sys.modules[module], new_names[name])

    return __getattr__


class DeprecatedAttribute:
    """The old name of a method, property or attribute: `old = DeprecatedAttribute("new")` in the body of the class."""

    def __init__(self, new_name: str) -> None:
        self._new_name = new_name
        self.__doc__ = f"Deprecated: use `{new_name}`."

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"{owner.__name__}.{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self  # on the class itself, for inspection
        _warn(self._name, self._new_name)
        return getattr(instance, self._new_name)


def _warn(old_name: str, new_name: str) -> None:
    message = f"{old_name} is deprecated and will be removed: use {new_name} instead."
    warnings.warn(message, DeprecationWarning, stacklevel=3)
