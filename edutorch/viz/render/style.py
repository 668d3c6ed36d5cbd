"""The style of all pictures: one table of colours and marks.

The page's copy is at the top of `widgets/live.css` and in `widgets/colours.js` and
`widgets/legend.js`; `tests/viz/test_style.py` keeps both equal.

The fill of a box shows its role. The colour and the width of an arrow show the norm of its
gradient. Red is only for errors, grey for nodes without a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..graph.model import GraphEdge, GraphNode, NodeKind


class Paint(NamedTuple):
    """The colours of a box: its fill and its border."""

    fill: str
    border: str


PAINTS = {
    "parameter": Paint("#FBE8BD", "#8A6914"),
    "op": Paint("#DFEAFA", "#4A6288"),
    "data": Paint("#DDF1E1", "#41765A"),
    "derivative": Paint("#ECE3F8", "#6B4E9B"),
    "grey": Paint("#E9EBEE", "#8A8F98"),
    "trouble": Paint("#FFE1E1", "#B00020"),
}
INK, PALE_INK, PAGE, ALARM = "#111827", "#4B5563", "#FFFFFF", "#B00020"
NEUTRAL = PAINTS["grey"].border
ACCENT = "#6D3FB0"

ROLES: dict[NodeKind, str] = {
    "parameter": "parameter", "op": "op", "output": "op", "group": "op", "leaf": "data",
    "buffer": "data", "gradient": "derivative", "failed": "trouble", "constant": "grey",
}  # fmt: skip

FLOW_COLOURS = ("#1F9E89", "#26828E", "#31688E", "#3E4989", "#482878", "#440154")
"""The second half of Viridis, reversed: on a white page, larger is darker."""

FLOW_COLOURS_DARK = ("#26828E", "#1F9E89", "#35B779", "#6ECE58", "#B5DE2B", "#FDE725")
"""The same colour map for a dark page, where larger is brighter."""

FLOW_BOUNDS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Norms at which the colour changes."""

SMALLEST, DECADES = -4, 6
"""A norm of 1e-4 or less is drawn thinnest, one that is six decades larger thickest."""

CUT = "✂"

MARK_SHAPES = {
    "frozen": "M1 4.6H9V10H1ZM2.2 4.8V3a2.8 2.8 0 0 1 5.6 0V4.8H6.5V3a1.5 1.5 0 0 0 -3 0V4.8Z",
    "hook": "M3 0H7V1L6.2 1.8V4.4L8 6V7H5.6L5 10.4L4.4 7H2V6L3.8 4.4V1.8L3 1Z",
}
"""A lock and a pin as SVG paths of 10 × 10 points, as no common font has both."""

WORDS = {
    "parameter": "parameter",
    "op": "op",
    "data": "data",
    "derivative": "derivative",
    "grey": "no gradient",
    "signs": "below 0, above 0",
    "arrow": "norm of the gradient that flows back",
    "trouble": "trouble",
    "cut": "detached here",
    "kept": "kept for backward",
    "frozen": "frozen",
    "hook": "hook",
    "version": "written in place",
}
"""The texts of the legend."""

RAMP = ("<0.001", "", "", "", "", "≥10")
"""The texts of the legend for the colours of arrows."""


def paint_of(node: GraphNode) -> Paint:
    """Return the colours of a node's box."""
    return PAINTS[role_of(node)]


def role_of(node: GraphNode) -> str:
    """Return the role of a node, a key of `PAINTS`: "grey" if it has no gradient."""
    role = ROLES[node.kind]
    return role if node.differentiable or role in ("trouble", "derivative") else "grey"


def size_class(norm: float) -> int:
    """Return the index in `FLOW_COLOURS` for a gradient of this norm.

    >>> [size_class(norm) for norm in (0.0, 0.5, 1.0, 1e9)]
    [0, 3, 4, 5]
    """
    return sum(norm >= bound for bound in FLOW_BOUNDS)


def strength(norm: float) -> float:
    """Map a norm to 0 (1e-4 or less) … 1 (100 or more) on a logarithmic scale."""
    if not norm > 0:
        return 0.0
    return min(1.0, max(0.0, (math.log10(norm) - SMALLEST) / DECADES))


def line_width(norm: float) -> float:
    """Return the width of an arrow in points.

    >>> line_width(0.0), line_width(100.0)
    (1.0, 4.0)
    """
    return 1 + 3 * strength(norm)


def legend_keys(
    nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], troubled: bool, signs: bool = False
) -> list[str]:
    """Return the keys of `WORDS` for what is visible in a picture, in the legend's order.

    Args:
        troubled: whether it shows an error.
        signs: whether it has a heat map with values below and above 0.
    """
    keys = {role_of(node) for node in nodes if node.kind != "constant"}
    keys.update(mark for node in nodes for mark in node.marks)
    if any(node.version for node in nodes):
        keys.add("version")
    keys.update(
        edge_kind for edge_kind in ("cut", "kept") if any(edge.kind == edge_kind for edge in edges)
    )
    flows = any(edge.kind in ("forward", "backward") for edge in edges)
    if flows and any(node.differentiable for node in nodes):
        keys.add("arrow")
    keys.update(key for key, is_present in (("trouble", troubled), ("signs", signs)) if is_present)
    return [key for key in WORDS if key in keys]
