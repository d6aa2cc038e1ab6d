"""How Sphinx builds the site: `make docs` writes it to site/html."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS / "_ext"))

os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # `cbq` in cells

import cbq  # noqa: E402
import reference  # noqa: E402

reference.write(DOCS / "api")


def _digest_of_sources() -> str:
    """A digest of the library and of the examples, on which the outputs of pages depend."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").iterdir()]):
        if path.is_file():
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


project = "cbq"
author = copyright = "The cbq developers"
version = release = cbq.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
    "docstrings",
    "mathml",
    "offline",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
nitpicky = True  # a reference to a name of cbq that is not documented is an error
nitpick_ignore_regex = [("py:.*", r"(?!cbq).*"), ("py:.*", r"cbq\.(.*\.)?_.*"), ("py:obj", ".*")]
suppress_warnings = ["config.cache", "ref.python"]  # `kernel` may be the attribute of several classes

# Pages are MyST; those with a kernel are executed, and a cell that raises fails the build.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "substitution"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / ".docs-cache" / _digest_of_sources())
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # seconds for a cell, on a busy machine
nb_execution_show_tb = True
nb_merge_streams = True
nb_render_markdown_format = "myst"

autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "inherited-members": False,
    "exclude-members": "set_predict_request, set_score_request",  # which scikit-learn writes
}
autodoc_class_signature = "mixed"
autodoc_type_aliases = {
    "npt.ArrayLike": "ArrayLike",
    "Array": "Array",
    "Integers": "Array",
    "Booleans": "Array",
    "Family": "Family",
    "Integrand": "Integrand",
    "Progress": "Progress",
    "RNGLike": "RNGLike",
    "Cost": "Cost",
}
autosummary_generate = True
autosummary_imported_members = True
default_role = "py:obj"  # `name` in a docstring links to the name, if it is public
python_use_unqualified_type_names = True

bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"

html_theme = "pydata_sphinx_theme"
html_title = "cbq"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "cbq"},
    "navbar_align": "left",
    "show_nav_level": 1,
    "show_toc_level": 2,
    "header_links_before_dropdown": 8,
    "navbar_end": ["version-switch.html", "theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "default",
    "show_prev_next": True,
}
ALONE = ("index", "start", "howto", "health", "trust", "paper", "benchmarks", "changelog", "gallery")  # in no section
html_sidebars = {page: [] for page in ALONE}
html_math_renderer = "mathml"
