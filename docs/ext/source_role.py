"""The role {source}`edutorch/ops/special.py:12`: a link to that line of the shown file."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole


class SourceRole(SphinxRole):
    """A link to the page of a file, where `make_pages.py` made one."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        path, _, line = self.text.partition(":")
        name = self.text if line else path
        target = f"source/{path}"
        if target not in self.env.found_docs:  # a part of the pages was asked for
            return [nodes.literal(self.text, name)], []
        reference = addnodes.pending_xref(
            "",
            nodes.literal(self.text, name),
            reftype="doc",
            refdomain="std",
            refexplicit=True,
            refwarn=True,
            refdoc=self.env.docname,
            reftarget=f"/{target}",
        )
        return [reference], []


def add_lines(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Let the links lead to the line, not only to the file."""
    for reference in doctree.findall(nodes.reference):
        text = reference.astext()
        path, _, line = text.partition(":")
        if line.isdigit() and reference.get("internal") and path.endswith(".py"):
            reference["refuri"] = f"{reference['refuri']}#line-{line}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_role("source", SourceRole())
    app.connect("doctree-resolved", add_lines)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
