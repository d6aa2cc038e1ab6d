"""Objects whose attributes are set once, in their constructor."""

from __future__ import annotations

from typing import Any

import numpy as np


class Immutable:
    """Refuses to change an attribute that has been set; copies and pickles keep their arrays read-only."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            kind = type(self).__name__
            raise AttributeError(f"{kind}.{name} cannot be changed: others may rely on it. Make a new {kind} instead.")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be removed.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        self.__dict__.update(state)
