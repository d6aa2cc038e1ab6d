"""Pages as Word documents (.docx) and as PDF, written block by block; matplotlib draws the charts.

Sliders, which need a screen, are left out; tables have their numbers.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbq.plotting import Figure, Panel, draw

if TYPE_CHECKING:
    from cbq.report.page import Block, Page

WIDTH, HEIGHT = 6.3, 3.0  # of a chart, in inches
BAR_HEIGHT = 0.32  # of a chart with names, in inches for each
DPI = 200
SMALL = 7.5  # points, of tables
BELOW_HEADING = 30  # millimetres of a page that a heading needs below it
MAX_WIDTH = 40  # letters of a column
EM_OF_LETTER = 0.65  # the width of a letter, relative to the size of the font
COLOURS = {"failed": (179, 0, 27), "warning": (192, 79, 0), "remark": (0, 114, 178), "good": (0, 121, 90)}


def chart_png(panel: Panel) -> bytes:
    """A chart of a page as an image, drawn by matplotlib."""
    height = max(HEIGHT, 1.0 + BAR_HEIGHT * len(panel.y.names))
    buffer = io.BytesIO()
    draw(Figure([[panel]], (WIDTH, height))).savefig(buffer, dpi=DPI, format="png")
    return buffer.getvalue()


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
        self.blocks(page.top.blocks)
        for section in page.sections:
            self.heading(section.title, 1)
            self.blocks(section.body.blocks)

    def blocks(self, found: Sequence[Block]) -> None:
        """Add blocks."""
        for block in found:
            if block.kind in ("table", "facts"):
                self.table(block)
            elif block.panel is not None:
                self.image(chart_png(block.panel))
            elif block.kind == "heading":
                self.heading(block.text, 2)
            else:
                self.paragraph(block.text if block.kind == "code" else " ".join(block.text.split()), block.kind)


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
        self._document.add_heading(text, level)

    def paragraph(self, text: str, kind: str) -> None:
        from docx.shared import RGBColor

        added = self._document.add_paragraph(style="List Bullet" if kind == "item" else None)
        run = added.add_run(text)
        run.italic = kind == "caption"
        if kind == "code":
            run.font.name, run.font.size = "Consolas", self._points(8)
        if kind in COLOURS:
            run.font.color.rgb = RGBColor(*COLOURS[kind])

    def table(self, block: Block) -> None:
        from docx.enum.text import WD_ALIGN_PARAGRAPH

        style = "Light List" if block.kind == "table" else "Table Grid"
        made = self._document.add_table(len(block.rows), len(block.rows[0]), style=style)
        size = self._points(_font_size(_widths(block)))
        for line, row in zip(made.rows, block.rows, strict=True):
            for j, (cell, text) in enumerate(zip(line.cells, row, strict=True)):
                run = cell.paragraphs[0].add_run(text)
                run.font.size = size
                if block.kind == "table" and j >= block.left:
                    cell.paragraphs[0].alignment = WD_ALIGN_PARAGRAPH.RIGHT
        self._document.add_paragraph()

    def image(self, png: bytes) -> None:
        self._document.add_picture(io.BytesIO(png), width=self._inches(WIDTH))

    def save(self, path: str) -> None:
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
        if level and self._pdf.will_page_break(BELOW_HEADING):
            self._pdf.add_page()
        self._pdf.ln((0, 4, 1)[level])
        self._write(text, (18, 13, 10.5)[level], "B")

    def paragraph(self, text: str, kind: str) -> None:
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
        from fpdf.enums import TableBordersLayout
        from fpdf.fonts import FontFace

        header, widths = block.kind == "table", _widths(block)
        self._pdf.set_font("Text", "", _font_size(widths))
        options: dict[str, Any] = {"borders_layout": TableBordersLayout.HORIZONTAL_LINES, "line_height": 4}
        options |= {"col_widths": tuple(widths), "first_row_as_headings": header, "padding": 0.4}
        options |= {"headings_style": FontFace(emphasis="BOLD") if header else FontFace()}
        options["text_align"] = tuple("RIGHT" if header and j >= block.left else "LEFT" for j in range(len(widths)))
        with self._pdf.table(**options) as made:
            for row in block.rows:
                line = made.row()
                for text in row:
                    line.cell(text)
        self._pdf.ln(3)

    def image(self, png: bytes) -> None:
        self._pdf.image(io.BytesIO(png), w=self._pdf.epw)
        self._pdf.ln(2)

    def save(self, path: str) -> None:
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
