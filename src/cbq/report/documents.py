"""Pages as Word documents (.docx) and as PDF: the blocks of a page, and a writer of them for each kind of file.

The blocks are read from the HTML of the page, and matplotlib draws its charts, so that a section is written once for
all kinds. Sliders, which need a screen, are left out; tables have their numbers.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cbq.plotting import Axis, Band, Bars, Dots, Figure, Heat, Label, Line, Mark, Panel, Rule, Zone, draw, plain

if TYPE_CHECKING:
    from cbq.report.page import Page

MARKS: dict[str, type[Mark]] = {
    kind.__name__.lower(): kind for kind in (Band, Bars, Dots, Heat, Label, Line, Rule, Zone)
}
WIDTH, HEIGHT = 6.3, 3.0  # of a chart, in inches
BAR_HEIGHT = 0.32  # of a chart with names, in inches for each
DPI = 200
SMALL = 7.5  # points, of tables
MAX_WIDTH = 40  # letters of a column
EM_OF_LETTER = 0.65  # the width of a letter, relative to the size of the font
PARAGRAPHS = {"p": "text", "li": "item", "pre": "code", "figcaption": "caption", "h3": "heading"}
COLOURS = {"failed": (179, 0, 27), "warning": (192, 79, 0), "remark": (0, 114, 178), "good": (0, 121, 90)}


@dataclass
class Block:
    """A part of a page.

    kind : "heading", "text", "item", "code", "caption", "failed", "warning", "remark", "good", "table", "facts" or
        "chart".
    text : its words. chart : its description.
    rows : of a table, the header first, or pairs of facts. numbers : whether each column has numbers.
    """

    kind: str
    text: str = ""
    rows: list[list[str]] = field(default_factory=list)
    numbers: list[bool] = field(default_factory=list)
    chart: Mapping[str, Any] | None = None


class _Blocks(HTMLParser):
    """The blocks of the HTML that `cbq.report.page` writes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Block] = []
        self._words: list[str] | None = None  # of the open element
        self._notice = ""
        self._in_chart = self._in_table = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kinds = (dict(attrs).get("class") or "").split()
        if tag == "div":
            self._notice = kinds[1] if kinds[:1] == ["notice"] else ""
            self._in_chart = kinds == ["chart"]
        elif tag in ("table", "dl"):
            self.found.append(Block("table" if tag == "table" else "facts"))
            self._in_table = tag == "table"
        elif tag in ("tr", "dt"):
            self.found[-1].rows.append([])
        if tag == "th":
            self.found[-1].numbers.append("number" in kinds)
        if tag in PARAGRAPHS or tag in ("td", "th", "dt", "dd", "summary", "script"):
            self._words = []
        if tag == "p" and kinds == ["caption"]:
            self._notice = "caption"

    def handle_data(self, data: str) -> None:
        if self._words is not None:
            self._words.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "div":
            self._notice, self._in_chart = "", False
        if self._words is None or tag not in {*PARAGRAPHS, "td", "th", "dt", "dd", "summary", "script"}:
            return
        words, self._words = "".join(self._words), None
        if tag == "script":
            if self._in_chart and (chart := json.loads(words))["marks"]:
                self.found.append(Block("chart", chart=chart))
        elif tag in ("td", "th", "dt", "dd"):
            self.found[-1].rows[-1].append(words)
        elif tag in PARAGRAPHS:
            self.found.append(
                Block(self._notice or PARAGRAPHS[tag], words if tag == "pre" else " ".join(words.split()))
            )
        if self._notice == "caption":
            self._notice = ""


def blocks(html: str) -> list[Block]:
    """The blocks of the HTML of a part of a page."""
    reader = _Blocks()
    reader.feed(html)
    return reader.found


def chart_png(chart: Mapping[str, Any]) -> bytes:
    """A chart of a page as an image, drawn by matplotlib."""
    panel = _panel(chart)
    height = max(HEIGHT, 1.0 + BAR_HEIGHT * len(panel.y.names))
    buffer = io.BytesIO()
    draw(Figure([[panel]], (WIDTH, height))).savefig(buffer, dpi=DPI, format="png")
    return buffer.getvalue()


def _panel(chart: Mapping[str, Any]) -> Panel:
    """The panel that `figure_html` described."""
    marks = [_mark(each) for each in chart["marks"]]
    return Panel(marks, _axis(chart["x"]), _axis(chart["y"]), plain(chart["title"]))


def _axis(given: Mapping[str, Any]) -> Axis:
    texts = {"label": plain(given["label"]), "names": [plain(name) for name in given["names"]]}
    known = {each.name: given[each.name] for each in fields(Axis)}
    return Axis(**known | texts | {"limits": tuple(given["ends"])})


def _mark(given: Mapping[str, Any]) -> Mark:
    kind = MARKS[given["type"]]
    known = {each.name: given[each.name] for each in fields(kind) if each.name in given}
    arrays = {name: np.array(value, dtype=np.float64) for name, value in known.items() if isinstance(value, list)}
    return kind(**known | arrays | {name: plain(known[name]) for name in ("label", "words") if name in known})


class Writer(ABC):
    """Writes the blocks of a page into a document."""

    @abstractmethod
    def heading(self, text: str, level: int) -> None:
        """Add a heading: 0 for the title, 1 for a section, 2 inside it."""

    @abstractmethod
    def paragraph(self, text: str, kind: str) -> None:
        """Add a paragraph of one of the kinds of `Block`."""

    @abstractmethod
    def table(self, block: Block) -> None:
        """Add a table, or facts."""

    @abstractmethod
    def image(self, png: bytes) -> None:
        """Add an image as wide as the text."""

    @abstractmethod
    def save(self, path: str) -> None:
        """Write the file."""

    def page(self, page: Page) -> None:
        """Add all blocks of a page."""
        self.heading(page.title, 0)
        if page.subtitle:
            self.paragraph(page.subtitle, "caption")
        self.blocks(blocks(page.top))
        for section in page.sections:
            self.heading(section.title, 1)
            self.blocks(blocks(section.body))

    def blocks(self, found: Sequence[Block]) -> None:
        """Add blocks."""
        for block in found:
            if block.kind in ("table", "facts"):
                self.table(block)
            elif block.chart is not None:
                self.image(chart_png(block.chart))
            elif block.kind == "heading":
                self.heading(block.text, 2)
            else:
                self.paragraph(block.text, block.kind)


class Word(Writer):
    """A Word document, by python-docx."""

    def __init__(self) -> None:
        from docx import Document
        from docx.shared import Inches, Pt

        self._document = Document()
        self._points, self._inches = Pt, Inches
        for section in self._document.sections:
            section.left_margin = section.right_margin = Inches(1)

    def heading(self, text: str, level: int) -> None:
        """See `Writer`."""
        self._document.add_heading(text, level)

    def paragraph(self, text: str, kind: str) -> None:
        """See `Writer`."""
        from docx.shared import RGBColor

        added = self._document.add_paragraph(style="List Bullet" if kind == "item" else None)
        run = added.add_run(text)
        run.italic = kind == "caption"
        if kind == "code":
            run.font.name, run.font.size = "Consolas", self._points(8)
        if kind in COLOURS:
            run.font.color.rgb = RGBColor(*COLOURS[kind])

    def table(self, block: Block) -> None:
        """See `Writer`."""
        from docx.enum.text import WD_ALIGN_PARAGRAPH

        style = "Light List" if block.kind == "table" else "Table Grid"
        made = self._document.add_table(len(block.rows), len(block.rows[0]), style=style)
        size = self._points(_font_size(_widths(block)))
        for line, row in zip(made.rows, block.rows, strict=True):
            for j, (cell, text) in enumerate(zip(line.cells, row, strict=True)):
                run = cell.paragraphs[0].add_run(text)
                run.font.size = size
                if any(block.numbers[j : j + 1]):
                    cell.paragraphs[0].alignment = WD_ALIGN_PARAGRAPH.RIGHT
        self._document.add_paragraph()

    def image(self, png: bytes) -> None:
        """See `Writer`."""
        self._document.add_picture(io.BytesIO(png), width=self._inches(WIDTH))

    def save(self, path: str) -> None:
        """See `Writer`."""
        self._document.save(path)


class Pdf(Writer):
    """A PDF, by fpdf2, with the fonts of matplotlib."""

    def __init__(self) -> None:
        import matplotlib
        from fpdf import FPDF

        self._pdf = FPDF(format="A4")
        fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
        for style, name in {"": "DejaVuSans", "B": "DejaVuSans-Bold", "I": "DejaVuSans-Oblique"}.items():
            self._pdf.add_font("Text", style, fonts / f"{name}.ttf")
        self._pdf.add_font("Code", "", fonts / "DejaVuSansMono.ttf")
        self._pdf.set_margin(20)
        self._pdf.add_page()

    def _write(self, text: str, size: float, style: str = "", family: str = "Text") -> None:
        self._pdf.set_font(family, style, size)
        self._pdf.multi_cell(0, 0.5 * size, text, new_x="LMARGIN", new_y="NEXT", align="L")
        self._pdf.ln(1.5)

    def heading(self, text: str, level: int) -> None:
        """See `Writer`."""
        self._pdf.ln((0, 4, 1)[level])
        self._write(text, (18, 13, 10.5)[level], "B")

    def paragraph(self, text: str, kind: str) -> None:
        """See `Writer`."""
        self._pdf.set_text_color(*COLOURS.get(kind, (0, 0, 0)))
        small = kind in ("caption", "code")
        self._write(
            f"\N{BULLET} {text}" if kind == "item" else text,
            8 if small else 9.5,
            "I" if kind == "caption" else "",
            "Code" if kind == "code" else "Text",
        )
        self._pdf.set_text_color(0, 0, 0)

    def table(self, block: Block) -> None:
        """See `Writer`."""
        from fpdf.enums import TableBordersLayout
        from fpdf.fonts import FontFace

        header, widths = block.kind == "table", _widths(block)
        self._pdf.set_font("Text", "", _font_size(widths))
        options: dict[str, Any] = {"borders_layout": TableBordersLayout.HORIZONTAL_LINES, "line_height": 4}
        options |= {"col_widths": tuple(widths), "first_row_as_headings": header, "padding": 0.4}
        options |= {"headings_style": FontFace(emphasis="BOLD") if header else FontFace()}
        options["text_align"] = tuple("RIGHT" if number else "LEFT" for number in block.numbers) or "LEFT"
        with self._pdf.table(**options) as made:
            for row in block.rows:
                line = made.row()
                for text in row:
                    line.cell(text)
        self._pdf.ln(3)

    def image(self, png: bytes) -> None:
        """See `Writer`."""
        self._pdf.image(io.BytesIO(png), w=self._pdf.epw)
        self._pdf.ln(2)

    def save(self, path: str) -> None:
        """See `Writer`."""
        self._pdf.output(path)


def _widths(block: Block) -> list[int]:
    """The widths of the columns in letters: of the longest cell, or of the longest word of the header, which wraps."""
    found = []
    for first, *others in zip(*block.rows, strict=True):
        words = first.split() if block.kind == "table" else [first]
        found.append(min(max(map(len, [*words, *others]), default=1) + 2, MAX_WIDTH))
    return found


def _font_size(widths: Sequence[int]) -> float:
    """The size in points in which columns of these widths in letters fit into the width of the text."""
    return min(SMALL, 72.0 * WIDTH / (EM_OF_LETTER * sum(widths)))


WRITERS: dict[str, tuple[type[Writer], str, str]] = {
    ".docx": (Word, "docx", "python-docx"),
    ".pdf": (Pdf, "fpdf", "fpdf2"),
}


def write_document(page: Page, path: str) -> None:
    """Write a page as the kind of document that the suffix of the path names."""
    kind, module, package = WRITERS[Path(path).suffix.lower()]
    try:
        __import__(module)
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{path} needs {package} and matplotlib: python -m pip install {package} matplotlib, or name an .html "
            f"file, which does not."
        ) from error
    writer = kind()
    writer.page(page)
    writer.save(path)
