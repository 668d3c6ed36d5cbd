"""The result of `check`, `trouble` and `post_mortem`: findings, and the picture they are about."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from ...errors import MissingExtraError
from ..graph.fold import Choice
from ..graph.model import Snapshot
from ..render.graphviz import LayoutError
from ..render.static import Drawing
from .messages import Finding

ALL_WELL = "No trouble found."

STYLE = (
    "border-left:4px solid {colour};padding:6px 12px;margin:6px 0;"
    "font:14px/1.45 Helvetica,Arial,sans-serif;max-width:60em"
)
CODE = "font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px;white-space:pre-wrap"


class Report:
    """The findings in words; a notebook shows the picture below.

    Attributes:
        findings: one per trouble, each with `.kind`, `.says`, `.do`, `.line` and `.details`.
        snapshot: the graph as plain data, None where there is none.
    """

    def __init__(self, snapshot: Snapshot | None, findings: tuple[Finding, ...] = ()) -> None:
        self.snapshot, self.findings = snapshot, findings

    @property
    def ok(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    @property
    def kinds(self) -> list[str]:
        """The kinds of the findings, as in `messages.py`."""
        return [finding.kind for finding in self.findings]

    @property
    def drawing(self) -> Drawing:
        """The picture of the graph, with the group of the failed op open."""
        if self.snapshot is None:
            raise ValueError("viz: this report is of no single graph, so there is no picture")
        return Drawing(self.snapshot, choice=self._choice())

    def _choice(self) -> Choice:
        choice = Choice()
        assert self.snapshot is not None
        for node in self.snapshot.graph.nodes:
            if node.kind == "failed" and node.module:
                choice = choice.open(node.module)
        return choice

    def html(self) -> str:
        """Return the findings, and the picture as an image, as HTML."""
        parts = [self._html_of(finding) for finding in self.findings]
        if not parts:
            style = STYLE.format(colour="#1B7F4B")
            parts = [f'<div style="{style}"><b>✓ {ALL_WELL}</b></div>']
        picture = self._image()
        return '<div role="group" aria-label="trouble">' + "".join(parts) + picture + "</div>"

    def _html_of(self, finding: Finding) -> str:
        rows = "\n".join(([finding.line] if finding.line else []) + list(finding.details))
        code = f'<div style="{CODE}">{escape_text(rows)}</div>' if rows else ""
        return (
            f'<div style="{STYLE.format(colour="#B00020")}">'
            f"<b>✗ {escape_text(finding.says)}</b>{code}"
            f"<div>→ {escape_text(finding.do)}</div></div>"
        )

    def _image(self) -> str:
        if self.snapshot is None:
            return ""
        try:
            image = base64.b64encode(self.drawing.svg.encode()).decode()
        except (LayoutError, MissingExtraError):
            return ""
        alt = escape_text("; ".join(finding.says for finding in self.findings) or ALL_WELL)
        return (f'<img style="max-width:100%;background:#ffffff" alt="The graph. {alt}" '
                f'src="data:image/svg+xml;base64,{image}">')  # fmt: skip

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return the report in each form that a notebook may know."""
        text = str(self)
        if self.snapshot is not None:
            text += f"\n\n{self.drawing.table(100)}"
        return {"text/html": self.html(), "text/plain": text}

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.findings)) or f"✓ {ALL_WELL}"

    __repr__ = __str__


def escape_text(text: str) -> str:
    """Return text fit for HTML: escaped, and without unprintable characters."""
    return escape("".join(char if char.isprintable() or char == "\n" else "�" for char in text))
