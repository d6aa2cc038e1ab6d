"""Pages to hand on: one HTML file each, with charts and sliders, which loads nothing from anywhere.

parts: paragraphs, tables, notices and code as HTML, in which all text is escaped.
charts: panels of figures and readers, as JSON, which the script of the page draws.
document: sections, and the file that they make, with its style (page.css) and its script (page.js).
html: tables and boxes for notebooks.
"""
