"""What changed between two steps: a table, the largest relative change first, and a picture.

Of a tensor with at most four elements, the change is ‖after − before‖ / max(‖before‖, ‖after‖). Of
a larger one only a summary is kept: its change is that of the mean, the minimum, the maximum
or the norm, whichever is largest, each relative to the size of the elements.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal

from ...errors import MissingExtraError
from ..graph.fold import fold_snapshot
from ..graph.model import Graph, GraphEdge, GraphNode, Snapshot, qualified_name
from ..render.arrangement import better_direction, box_sizes, chosen_direction
from ..render.dot import LABELLED_EDGES, flow_style, name_text, printable, quote_lines, shape_text
from ..render.graphviz import LayoutError, render
from ..render.legend import Footer
from ..render.static import add_footer, format_writer, polish_tree, write_file
from ..render.style import INK, NEUTRAL, PALE_INK
from ..render.svg import as_text, pdf_of, png_of
from ..tensors.summaries import UNKNOWN, Stats, magnitude_text, number_text

What = Literal["value", "gradient", "added", "removed"]

SAME = 1e-6
"""A smaller relative change is rounding noise in float32."""

CAREFUL = 2000
"""Two different graphs of more nodes are paired by counting, not by their common subsequences."""

GREW, SHRANK, STILL, ADDED, REMOVED = "#FFE3C2", "#D3E7FB", "#F6F7F8", "#DDF3E2", "#E9EAEC"
STRONG_GREW, STRONG_SHRANK = "#FFBD75", "#9CCBF5"
SHOWN_ROWS = 40
CAPTION = "▲ orange: grew, ▼ blue: shrank (in size, in % of the larger); +, -: node added, removed"


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the table. `relative` is infinite where something appeared or became non-finite.

    `sign` is 1 for what grew in size, -1 for what shrank, 0 where that is undefined.
    """

    what: What
    name: str
    before: str
    after: str
    relative: float
    sign: int
    label: str = ""
    module: str = ""

    @property
    def percent(self) -> str:
        """The relative change as text."""
        if self.what in ("added", "removed"):
            return self.what
        if math.isinf(self.relative):
            return "not finite"
        arrow = {1: "▲ ", -1: "▼ "}.get(self.sign, "")
        return f"{arrow}{percent_text(self.relative)}"


def percent_text(relative: float) -> str:
    """Return a fraction as percent: 0.004 -> 0.4 %.

    >>> percent_text(0.35), percent_text(0.004), percent_text(1e-5)
    ('35 %', '0.4 %', '<0.1 %')
    """
    percent = 100 * relative
    if percent < 0.1:
        return "<0.1 %"
    return f"{percent:.1f} %" if percent < 1 else f"{percent:.0f} %"


class Comparison:
    """Two steps compared. A notebook shows the picture; `print` gives the table.

    `.changes` holds all that changed, `.table()` the same as text, `.svg` the picture.
    """

    def __init__(
        self,
        before: Snapshot,
        after: Snapshot,
        steps: tuple[int, int],
        rankdir: str | None = None,
    ) -> None:
        self.before, self.after, self.steps = before, after, steps
        self.rankdir = chosen_direction(rankdir)
        self.changes = find_changes(before, after)
        self._svg: str | None = None

    @property
    def svg(self) -> str:
        """The picture as SVG text, laid out on first access."""
        if self._svg is None:
            root = polish_tree(render(self._dot()).decode(), merge_graphs(*self._folded())[0])
            arrows = ("arrow",) if any(self.after.flows) else ()
            before, after = self.steps
            add_footer(root, Footer(arrows, f"step {before} → step {after}: {CAPTION}"))
            self._svg = as_text(root)
        return self._svg

    def png(self) -> bytes:
        """Return the picture as PNG; without Pillow it is Graphviz's own."""
        try:
            return png_of(self.svg)
        except ImportError:
            return render(self._dot(), "png")

    def table(self, limit: int | None = None) -> str:
        """Return what changed as text, the largest relative change first.

        Args:
            limit: write so many lines at most, and how many more there are.
        """
        before, after = (f"step {step}" for step in self.steps)
        rows = [("change", "what", "node", before, after)]
        rows += [
            (change.percent, change.what, printable_path(change.name), change.before, change.after)
            for change in self.changes[:limit]
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        if not self.changes:
            lines.append("nothing changed")
        left = len(self.changes) - len(rows) + 1
        return "\n".join([*lines, f"… and {left} more"] if left else lines)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to `path`, whole or not at all; its ending says .svg, .png or .pdf.

        Raises: FormatError: the name has another ending.
        """
        path = Path(path)
        contents = {
            ".svg": lambda: self.svg.encode(),
            ".png": self.png,
            ".pdf": lambda: pdf_of(self.svg),
        }
        write_file(path, format_writer("save", path, contents)())
        return path

    def _folded(self) -> tuple[Snapshot, Snapshot]:
        return fold_snapshot(self.before), fold_snapshot(self.after)

    def _dot(self) -> str:
        before, after = self._folded()
        direction = self.rankdir
        if direction is None:
            sizes = box_sizes(difference_dot(before, after))
            direction = better_direction(merge_graphs(before, after)[0], sizes)
        return difference_dot(before, after, direction)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": self.table(SHOWN_ROWS)}
        try:
            bundle["image/svg+xml"] = self.svg
            bundle["image/png"] = self.png()
        except (LayoutError, MissingExtraError) as error:
            bundle["text/plain"] += f"\n\n{error}"
        return bundle

    def __repr__(self) -> str:
        return self.table(SHOWN_ROWS)


# The values ---------------------------------------------------------------------------------


def find_changes(before: Snapshot, after: Snapshot) -> list[Change]:
    """Return what changed, the largest relative change first; what appeared comes before all."""
    changes: list[Change] = []
    pairs, removed = pair_nodes(before.graph, after.graph)
    for index, node in enumerate(after.graph.nodes):
        old = pairs.get(index)
        if old is None:
            changes.append(structure_change("added", node, after.values[index]))
            continue
        for what, olds, news in (
            ("value", before.values, after.values), ("gradient", before.grads, after.grads),
        ):  # fmt: skip
            change = value_change(what, node, olds[old], news[index])
            if change is not None:
                changes.append(change)
    changes += [structure_change("removed", before.graph.nodes[index], before.values[index])
              for index in removed]  # fmt: skip
    return sorted(changes, key=lambda change: -change.relative)


def path_of(node: GraphNode) -> str:
    return qualified_name(node.module, node.variable or node.label)


def printable_path(path: str) -> str:
    """Return a path that fits into a line of a table."""
    text = "".join(char if char.isprintable() else "�" for char in path)
    return text if len(text) <= 48 else f"…{text[-47:]}"


def structure_change(what: What, node: GraphNode, value: Stats | None) -> Change:
    text = short_text(value, "norm") if value else shape_text(node)
    before, after = ("", text) if what == "added" else (text, "")
    return Change(what, path_of(node), before, after, math.inf, 0, node.label, node.module)


def value_change(
    what: Any, node: GraphNode, before: Stats | None, after: Stats | None
) -> Change | None:
    """Return how a value or gradient changed; None if it did not, or is not known of both."""
    if before is None or after is None or before.size == 0 or after.size == 0:
        return None
    relative, measure, difference = relative_change(before, after)
    if not relative > SAME:
        return None
    sign = 0 if math.isinf(relative) else (difference > 0) - (difference < 0)
    texts = short_text(before, measure), short_text(after, measure)
    return Change(what, path_of(node), *texts, relative, sign, node.label, node.module)


def relative_change(before: Stats, after: Stats) -> tuple[float, str, float]:
    """Return the largest relative change, the measure that shows it, and how much its size grew."""
    if before.bad or after.bad:
        return (0.0, "norm", 0.0) if before.bad and after.bad else (math.inf, "norm", 0.0)
    if before.few and len(before.few) == len(after.few):
        size = max(math.hypot(*before.few), math.hypot(*after.few))
        apart = math.dist(before.few, after.few)
        grown = math.hypot(*after.few) - math.hypot(*before.few)
        return (apart / size if size else 0.0), "few", grown
    peak = max(abs(value) for value in (before.min, before.max, after.min, after.max))
    sizes = {"norm": max(before.norm, after.norm), "mean": peak, "min": peak, "max": peak}
    relative_changes = [
        (abs(getattr(after, name) - getattr(before, name)) / size if size else 0.0, name)
        for name, size in sizes.items()
    ]
    relative, measure = max(relative_changes, key=lambda pair: pair[0])
    if relative_changes[0][0] > relative / 2:
        measure = "norm"  # the most telling measure, unless another changed much more
    return relative, measure, abs(getattr(after, measure)) - abs(getattr(before, measure))


def short_text(stats: Stats | None, measure: str) -> str:
    """Return what is compared as text: the elements themselves, or one measure of them."""
    if stats is None:
        return UNKNOWN
    if stats.text:
        return stats.text
    value = getattr(stats, "norm" if measure == "few" else measure)
    return f"{measure} {magnitude_text(value) if measure == 'norm' else number_text(value)}"


# The same node in two graphs ----------------------------------------------------------------


def pair_nodes(before: Graph, after: Graph) -> tuple[dict[int, int], list[int]]:
    """Return for each node of `after` its index in `before`, and the indices that are left over."""
    if before.structure == after.structure:
        return {index: index for index in range(len(after.nodes))}, []
    old, new = ([identity(node) for node in graph.nodes] for graph in (before, after))
    if max(len(old), len(new)) > CAREFUL:
        pairs = pair_by_count(old, new)
    else:
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        pairs = {
            block.b + index: block.a + index for block in blocks for index in range(block.size)
        }
    left = set(pairs.values())
    return pairs, [index for index in range(len(old)) if index not in left]


def identity(node: GraphNode) -> tuple[object, ...]:
    node_kind = "op" if node.kind == "output" else node.kind
    return node_kind, node.module, node.label, node.group


def pair_by_count(old: Sequence[Any], new: Sequence[Any]) -> dict[int, int]:
    """Pair the first node of an identity with the first, the second with the second …"""
    indices: dict[Any, list[int]] = {}
    for index, key in enumerate(old):
        indices.setdefault(key, []).append(index)
    waiting = {key: iter(unpaired) for key, unpaired in indices.items()}
    pairs = {index: next(waiting.get(key, iter(())), None) for index, key in enumerate(new)}
    return {index: partner for index, partner in pairs.items() if partner is not None}


def merge_graphs(before: Snapshot, after: Snapshot) -> tuple[Graph, dict[int, int], list[int]]:
    """Return one graph with the nodes and edges of both, and the result of `pair_nodes`."""
    pairs, removed = pair_nodes(before.graph, after.graph)
    gone = {index: f"r{index}" for index in removed}
    nodes = [replace(before.graph.nodes[index], id=gone[index]) for index in removed]
    ids = {before.graph.nodes[old].id: after.graph.nodes[new].id for new, old in pairs.items()}
    ids |= {before.graph.nodes[index].id: id for index, id in gone.items()}
    edges = [
        GraphEdge(f"x{edge_index}", ids[edge.source], ids[edge.target], edge.input, edge.kind)
        for edge_index, edge in enumerate(before.graph.edges)
        if {ids[edge.source], ids[edge.target]} & set(gone.values())
    ]
    graph = Graph((*after.graph.nodes, *nodes), (*after.graph.edges, *edges))
    return graph, pairs, removed


# The picture --------------------------------------------------------------------------------


def difference_dot(before: Snapshot, after: Snapshot, rankdir: str = "LR") -> str:
    """Return both steps in one picture, as DOT text."""
    graph, pairs, _ = merge_graphs(before, after)
    lines = [
        "digraph edutorch {",
        f"  graph [rankdir={rankdir} bgcolor=transparent nodesep=0.18 ranksep=0.3]",
        f'  node [fontname="Courier" fontsize=10 fontcolor="{INK}" margin="0.1,0.06" shape=box]',
        f'  edge [fontname="Courier" fontsize=9 arrowsize=0.6 fontcolor="{PALE_INK}"]',
    ]
    for index, node in enumerate(graph.nodes):
        if index >= len(after.graph.nodes):
            lines.append(box(node, ["- removed"], REMOVED, "dashed"))
        elif index not in pairs:
            text = [f"+ added  {short_text(after.values[index], 'norm')}"]
            lines.append(box(node, text, ADDED, "dashed"))
        else:
            lines.append(changed_box(node, before, after, pairs[index], index))
    known = {edge.id: flow for edge, flow in zip(after.graph.edges, after.flows, strict=True)}
    few = len(graph.edges) <= LABELLED_EDGES
    computed = {edge.target for edge in graph.edges}
    lines += [arrow(edge, known.get(edge.id), few, edge.source in computed) for edge in graph.edges]
    return "\n".join([*lines, "}", ""])


def changed_box(node: GraphNode, before: Snapshot, after: Snapshot, old: int, new: int) -> str:
    changes = [
        value_change("value", node, before.values[old], after.values[new]),
        value_change("gradient", node, before.grads[old], after.grads[new]),
    ]
    lines = []
    for word, change in zip(("value", "grad"), changes, strict=True):
        if change is not None:
            lines.append(f"{word} {change.before} → {change.after}  {change.percent}")
    if not lines:
        return box(node, ["the same"], STILL)
    change = max((change for change in changes if change), key=lambda change: change.relative)
    strong = change.relative > 0.25
    color = (STRONG_GREW if strong else GREW) if change.sign >= 0 else (
        STRONG_SHRANK if strong else SHRANK)  # fmt: skip
    return box(node, lines, color)


def box(node: GraphNode, lines: list[str], color: str, more: str = "") -> str:
    where = printable_path(node.module) if node.module else ""
    head = [name_text(node), *([where] if where else []), shape_text(node)]
    style = ",".join(name for name in ("rounded", "filled", more) if name)
    return (f"  {node.id} [id={node.id} label={quote_lines([*head, *lines])} "
            f'style="{style}" fillcolor="{color}" color="{NEUTRAL}"]')  # fmt: skip


def arrow(edge: GraphEdge, flow: Stats | None, labelled: bool, straight: bool) -> str:
    if edge.id.startswith("x"):
        return f'  {edge.source} -> {edge.target} [id={edge.id} style=dashed color="{NEUTRAL}"]'
    label = f" label={quote_lines([f' {magnitude_text(flow.norm)} '])}" if flow and labelled else ""
    weight = " weight=8" if straight else ""  # keeps the main path straight
    return f"  {edge.source} -> {edge.target} [id={edge.id}{label}{weight} {flow_style(flow)}]"


__all__ = [
    "Change",
    "Comparison",
    "find_changes",
    "difference_dot",
    "merge_graphs",
    "pair_nodes",
    "printable",
]
