"""How Sphinx builds the pages. `make_pages.py` writes most of them first."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

project = "edutorch"
author = "The edutorch developers"
copyright = ""
language = "en"

extensions = ["myst_nb", "ext.mathml", "ext.source_role"]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
smartquotes = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
add_module_names = False
toc_object_entries = False

# The notebooks are shown as they lie there; the tests run them.
nb_execution_mode = "off"
nb_ipywidgets_js = {}  # it would come from another machine

html_theme = "furo"
html_title = "edutorch"
html_static_path = [str(HERE / "_static")]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
templates_path: list[str] = []
exclude_patterns = ["README.md"]
