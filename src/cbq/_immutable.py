"""A base class for immutable objects."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np


class Immutable:
    """A base class whose attributes can be set only once, and whose arrays become read-only, also in copies."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            kind = type(self).__name__
            raise AttributeError(f"{kind}.{name} cannot be changed: a {kind} is immutable. Make a new {kind} instead.")
        for part in value.values() if isinstance(value, dict) else (value,):
            if isinstance(part, np.ndarray):
                part.setflags(write=False)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted: a {type(self).__name__} is immutable.")

    def _replaced(self, **changes: Any) -> Self:
        """A copy with other values of some attributes. What was computed from them and cached is computed again."""
        kind = type(self)
        given = {k: v for k, v in self.__dict__.items() if not isinstance(getattr(kind, k, None), cached_property)}
        new = object.__new__(kind)
        new.__setstate__({**given, **changes})
        return new

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
