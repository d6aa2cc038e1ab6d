"""Tables of results: columns are stated once; text, notebooks, data frames, files and reports agree."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field

import numpy as np
import pytest

import cbq
from cbq.report.table import NO_COLUMN, ArrayTable, Column, RowTable, Table, digits, in_text


@dataclass(frozen=True)
class Row:
    name: str = field(metadata=in_text())
    size: float | None = field(metadata=in_text(3, "how large"))
    note: str = ""
    share: float = field(default=float("nan"), metadata=in_text("{:.0%}".format))
    exact: float = 1 / 3
    parts: tuple[int, ...] = field(default=(), metadata=NO_COLUMN)


@dataclass(frozen=True, eq=False, repr=False)
class Rows(RowTable):
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def _legend(self):
        return "A legend."


@dataclass(frozen=True, eq=False, repr=False)
class Curve(Table):
    n: int

    _most = 12

    def _columns(self):
        yield Column("x", list(range(self.n)), digits(2))
        yield Column("y", [0.5] * self.n)


@dataclass(frozen=True, eq=False, repr=False)
class Arrays(ArrayTable):
    x: np.ndarray

    def to_columns(self):
        return {"x": self.x, "a_b": 2 * self.x}

    def __repr__(self):
        return f"Arrays({len(self.x)})"


TABLE = Rows([Row("<b>", 1234.56, "odd"), Row("=1+1", None), Row("third", 0.5, "odd")], ["A remark"])


def test_the_text_has_the_stated_columns_with_numbered_notes_and_remarks():
    assert str(TABLE).splitlines() == [
        "name   how large  note",
        "<b>         1230   [1]",
        "=1+1           -",
        "third        0.5   [1]",
        "A legend.",
        "[1] odd.",
        "A remark.",
    ]
    assert repr(TABLE) == str(TABLE)


def test_a_column_without_any_value_is_left_out_of_texts():
    assert "share" not in str(TABLE)
    assert "50%" in str(Rows([Row("a", 1.0, share=0.5), Row("b", 2.0)]))


def test_data_frames_and_files_have_all_fields_with_the_note_last(tmp_path):
    pytest.importorskip("pandas")
    assert TABLE.columns == ["name", "size", "share", "exact", "note"]
    frame = TABLE.to_frame()
    assert list(frame.columns) == TABLE.columns
    assert frame["exact"].tolist() == [1 / 3] * 3
    TABLE.to_csv(tmp_path / "table.csv")
    header, first, second, _ = csv.reader((tmp_path / "table.csv").read_text().splitlines())
    assert header == TABLE.columns
    assert first == ["<b>", "1234.56", "", repr(1 / 3), "odd"]
    assert second == ["=1+1", "", "", repr(1 / 3), ""]


def test_notebooks_and_reports_escape_texts(tmp_path):
    assert "&lt;b&gt;" in TABLE._repr_html_()
    TABLE.report(tmp_path / "table.html", title="A & B", repeat="code < 1")
    page = (tmp_path / "table.html").read_text()
    assert "A &amp; B" in page
    assert "code &lt; 1" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_a_long_table_shows_rows_that_are_evenly_spread():
    lines = str(Curve(100)).splitlines()
    assert lines[0].strip() == "x"
    assert len(lines) == 14
    assert lines[1].strip() == "0"
    assert lines[12].strip() == "99"
    assert lines[13] == "88 more rows are not shown."
    assert len(Curve(100).to_columns()["y"]) == 100


def test_arrays_print_on_one_line(tmp_path):
    table = Arrays(np.arange(50.0))
    assert str(table) == repr(table) == "Arrays(50)"
    assert "..." in table._repr_html_()
    Arrays(np.empty(0)).report(tmp_path / "empty.html")
    assert "a_b" in (tmp_path / "empty.html").read_text()


def test_a_table_of_rows_needs_one():
    with pytest.raises(ValueError, match="rows is empty"):
        Rows([])


RISK = np.random.default_rng(0).normal(size=200)
EFFECTS, COSTS = {"old": 0 * RISK, "new": 1 + RISK}, {"old": 0 * RISK, "new": 20_000 + 0 * RISK}
NET = {"old": 0 * RISK, "new": RISK}
EVSI = cbq.evsi(NET, {"risk": RISK}, "risk", cbq.voi.studies.Normal(sd=2.0), sizes=[10, 40])
SAMPLES = cbq.problems.get("butterfly").collect(T=8, N=10, rng=0)
FIT = cbq.CBQ().fit(SAMPLES)
RESULTS = {
    "evppi": cbq.evppi(NET, {"risk": RISK}),
    "evsi": EVSI,
    "enbs": cbq.enbs(EVSI, cost=3.0, population=1000),
    "evpi": cbq.evpi((EFFECTS, COSTS), willingness_to_pay=[10_000, 20_000]),
    "ceac": cbq.voi.ceac((EFFECTS, COSTS), willingness_to_pay=[10_000, 20_000]),
    "icers": cbq.voi.icers((EFFECTS, COSTS)),
    "plane": cbq.voi.ce_plane((EFFECTS, COSTS), willingness_to_pay=10_000),
    "variance": cbq.voi.evppi_variance(RISK, {"risk": RISK}),
    "comparison": cbq.compare(SAMPLES, [cbq.LSMC(), cbq.KLSMC()]),
    "suggestion": FIT.suggest(3),
    "answer": cbq.expected_loss(FIT, cbq.measures.Uniform(85.0, 140.0)),
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_every_result_is_a_table(result, tmp_path):
    pytest.importorskip("pandas")
    assert isinstance(result, Table)
    columns = result.to_columns()
    frame = result.to_frame()
    assert list(frame.columns) == list(columns)
    assert len({len(column) for column in columns.values()}) == 1
    result.to_csv(tmp_path / "table.csv")
    header, *lines = csv.reader((tmp_path / "table.csv").read_text().splitlines())
    assert header == list(columns)
    assert len(lines) == len(frame)
    for j, name in enumerate(columns):
        if frame[name].dtype == float:
            written = [float(line[j]) if line[j] else np.nan for line in lines]
            np.testing.assert_array_equal(written, frame[name])
    result.report(tmp_path / "report.html")
    assert "<table" in (tmp_path / "report.html").read_text()
    assert "<table" in result._repr_html_()
    assert str(result) == repr(result)
