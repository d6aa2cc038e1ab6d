"""The demo prints every pair with a value, and its second way agrees."""

from __future__ import annotations

import pytest

import cbq
from cbq.__main__ import main


def test_every_pair_has_a_checked_value(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    rows = capsys.readouterr().out.splitlines()[1:]
    assert len(rows) == len(cbq.available_pairs())
    assert all(float(row.split()[3]) < 1e-13 for row in rows)
