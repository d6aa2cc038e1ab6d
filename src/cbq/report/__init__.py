"""Pages to hand on: one HTML file each, with charts and sliders, which loads nothing from anywhere; or Word or PDF.

page: paragraphs, tables and notices as fragments, in which all text is escaped; sections, and the file that they make,
with its style (page.css) and its script (page.js).
charts: panels of figures and readers, as JSON, which the script of the page draws.
table: the one table of all results.
documents: pages as Word documents and as PDF.
html: tables and boxes for notebooks.
"""

from cbq.report.charts import Reader, figure_html, resolved
from cbq.report.page import (
    Fragment,
    Kind,
    Page,
    Section,
    bullets,
    capital,
    code,
    facts,
    folded,
    heading,
    html_table,
    joined,
    made_with,
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
