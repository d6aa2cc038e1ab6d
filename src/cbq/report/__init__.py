"""Pages to hand on: one HTML file each, with charts and sliders, which loads nothing from anywhere.

parts: paragraphs, tables, notices and code as HTML, in which all text is escaped.
charts: panels of figures and readers, as JSON, which the script of the page draws.
document: sections, and the file that they make, with its style (page.css) and its script (page.js).
html: tables and boxes for notebooks.
"""

from cbq.report.charts import Reader, figure_html, resolved
from cbq.report.document import Page, Section, made_with
from cbq.report.parts import (
    Html,
    Kind,
    bullets,
    capital,
    code,
    facts,
    folded,
    heading,
    html_table,
    joined,
    notice,
    paragraph,
)
from cbq.report.table import (
    NO_COLUMN,
    ArrayTable,
    Column,
    RowTable,
    Table,
    digits,
    in_text,
    is_unknown,
    part_of,
    sentences,
    write_page,
)
