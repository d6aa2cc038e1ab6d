"""Reports as Word documents and as PDF: their words, tables and charts are those of the page."""

import zipfile

import numpy as np
import pytest

from cbq.plotting import Axis, Line, Panel
from cbq.report import Page, Section, figure_html, heading, html_table, joined, notice, paragraph
from cbq.report.page import bullets, code, facts, folded
from cbq.voi import appendix

RNG = np.random.default_rng(3)
P = RNG.normal(size=200)
FOUND = appendix(
    ({"old": 0 * P, "new": 1 + P}, {"old": 0 * P, "new": 20_000 + 0 * P}),
    {"<b>risk & co": P},
    willingness_to_pay=[10_000, 20_000, 30_000],
)


def test_blocks_are_the_parts_of_a_page_in_order():
    parts = [
        heading("H & <b>"),
        paragraph("a\nb"),
        notice("warning", "W:", "w.", "do"),
        bullets(["i", "j"]),
        code("x  y", ""),
    ]
    parts += [facts({"k": "v"}), folded("more", html_table(["n", "x"], [["a", "1"]], "caption", left=1))]
    found = joined(parts).blocks
    kinds = [block.kind for block in found]
    assert kinds == ["heading", "text", "warning", "warning", "item", "item", "code", "facts", "caption", "table"]
    assert [block.text for block in found[:7]] == ["H & <b>", "a\nb", "W: w.", "What to do: do", "i", "j", "x  y"]
    assert found[7].rows == [("k", "v")]
    assert (found[-1].rows, found[-1].left) == ([["n", "x"], ["a", "1"]], 1)


def test_charts_that_a_reader_fills_are_left_out():
    panel = Panel([Line([0.0, 1.0], [1.0, 2.0])], Axis(), Axis())
    chart, caption = figure_html(panel, "caption").blocks
    assert (chart.kind, chart.panel, caption.text) == ("chart", panel, "caption")
    assert figure_html(panel, "caption", reader="reading", slice=True).blocks == ()
    assert figure_html(Panel([], Axis(), Axis()), "caption").blocks == ()


def test_a_word_document_has_the_words_the_numbers_and_the_charts(tmp_path):
    docx = pytest.importorskip("docx")
    pytest.importorskip("matplotlib")
    FOUND.report(tmp_path / "r.docx", title="A <title> & more")
    document = docx.Document(str(tmp_path / "r.docx"))
    words = "\n".join(each.text for each in document.paragraphs)
    assert words.startswith("A <title> & more")
    assert "Learning <b>risk & co is worth most" in words
    cells = [[cell.text for cell in row.cells] for table in document.tables for row in table.rows]
    assert cells[0][:4] == ["decision", "effect", "cost", "status"]
    assert any(row[0] == "<b>risk & co" for row in cells)
    assert len([name for name in zipfile.ZipFile(tmp_path / "r.docx").namelist() if "/media/" in name]) >= 5


def test_a_pdf_is_written(tmp_path):
    pytest.importorskip("fpdf")
    pytest.importorskip("matplotlib")
    FOUND.report(tmp_path / "r.PDF")
    raw = (tmp_path / "r.PDF").read_bytes()
    assert raw.startswith(b"%PDF")
    assert raw.count(b"/Subtype /Image") >= 5


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "docx", None)
    page = Page("T", "", paragraph(""), [Section("S", paragraph("p"))])
    with pytest.raises(ImportError, match=r"needs python-docx and matplotlib: .* or name an \.html file"):
        page.write(str(tmp_path / "r.docx"))
