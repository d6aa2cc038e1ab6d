"""Tests that bad input is refused with a message that says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Case = tuple[Callable[[], Any], str]


def refusals(cases: dict[str, Case], error: type[Exception] | tuple[type[Exception], ...]) -> Callable[..., None]:
    """A test for each named case: the attempt raises `error`, whose message matches."""

    @pytest.mark.parametrize(("attempt", "says"), cases.values(), ids=cases)
    def test(attempt: Callable[[], Any], says: str) -> None:
        with pytest.raises(error, match=says):
            attempt()

    return test
