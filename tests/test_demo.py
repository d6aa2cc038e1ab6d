"""The demo estimates every problem far better than averages do, and says so."""

from __future__ import annotations

import pytest

import cbq
from cbq.__main__ import main


def test_every_problem_has_a_row_and_beats_averages(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.split()[:1] and "%" in line]
    table = {row[0]: row for row in rows if row[0] in cbq.problems.names()}
    assert table.keys() == set(cbq.problems.names())
    for _, _, _, averages, _, cbq_, auto, inside, _, chosen in table.values():
        assert float(cbq_) < 0.1 * float(averages)
        assert float(auto) < 0.1 * float(cbq_)
        assert float(inside.rstrip("%")) > 50
        assert chosen == "MOBQ"
