"""Backward as plain data: a step of a walk, as lines of text too, and the graph that it walks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

from ...backends.numpy import Array
from ...core.autograd.engine import OutputGradients
from ..graph.model import Graph, GraphEdge, GraphNode, Snapshot, gradient_label
from ..graph.rules import Rule, value_of
from ..tensors.summaries import Stats, bar_text, magnitude_text, number_text, summarize

LINE_WIDTH = 96
"""Characters in a line of text: an output of JupyterLab at 1,280 pixels holds 100."""


@dataclass(frozen=True)
class GradientSummary:
    """A gradient, or a sum of gradients so far.

    Attributes:
        text: all elements if they are few, else a summary.
        latex: the elements for a formula, "" if there are too many.
        bars: a histogram in a line of text, where there are many.
        stats: the summary as numbers.
        shape: of the array.
    """

    text: str
    latex: str
    bars: str
    stats: Stats
    shape: tuple[int, ...]

    @classmethod
    def from_array(cls, array: Array) -> GradientSummary:
        """Describe an array. It is not kept."""
        if array.__class__ is OutputGradients:
            array = next(iter(array.by_output.values()))
        shape = tuple(array.shape)
        value = value_of(array)
        stats = summarize(array, bars=value is None)
        if value is not None:
            return cls(value.plain, value.latex, "", stats, shape)
        size = "×".join(map(str, shape))
        text = (
            f"{size}, mean {number_text(stats.mean)}, norm {magnitude_text(stats.norm)}, "
            f"from {number_text(stats.min)} to {number_text(stats.max)}"
        )
        return cls(text, "", bar_text(stats.bars), stats, shape)

    def __str__(self) -> str:
        return f"{self.text}  {self.bars}".rstrip()


Contribution = tuple[str, GradientSummary]
"""One term of a gradient: where it came from, and its summary."""


@dataclass(frozen=True)
class EdgeGradient:
    """A gradient that leaves a node.

    Attributes:
        input: the op's argument to which it goes.
        to: what that was: a variable, a parameter, another op.
        into: whether it goes into a `.grad`.
        rule: how it was computed.
        gradient: the result, in the shape of the input.
        note: what else happened to it, such as the sum over what broadcasting had copied.
        paths: all contributions that have arrived there so far, this one last.
        total: their sum.
        edge, target: the arrow and the box in the picture, by their index in the graph.
    """

    input: str
    to: str
    into: bool
    rule: Rule
    gradient: GradientSummary
    note: str
    paths: tuple[Contribution, ...]
    total: GradientSummary | None
    edge: int
    target: int


@dataclass(frozen=True)
class BackwardStep:
    """One step of backward: a node that has run, or a leaf whose `.grad` was written.

    Attributes:
        number: counted from 1.
        kind: "node" or "leaf".
        name: the variable that holds it (then `op` is what computed it), the op, the parameter.
        line: of the user's code that computed it.
        incoming: the gradient that arrived.
        paths: the contributions that it is the sum of.
        flows: of a node: the gradients that left it.
        before, after: of a leaf: `.grad` until now (None: nothing), and from now on.
        note: further information.
        node: the box in the picture, by its index in the graph.
        waiting: the boxes at which a gradient waits.
        upcoming: the one that comes next, None at the end.
    """

    number: int
    kind: Literal["node", "leaf"]
    name: str
    op: str
    module: str
    line: str
    incoming: GradientSummary
    paths: tuple[Contribution, ...]
    flows: tuple[EdgeGradient, ...] = ()
    before: GradientSummary | None = None
    after: GradientSummary | None = None
    note: str = ""
    node: int = 0
    waiting: tuple[int, ...] = ()
    upcoming: int | None = None

    @property
    def gradient(self) -> GradientSummary:
        """The same as `incoming`."""
        return self.incoming

    def __str__(self) -> str:
        where = f"   {self.line}" if self.line else ""
        return "\n".join([f"{self.number}  {self.title}{where}", *self.lines()])

    @property
    def title(self) -> str:
        """The name, and the op if that is another: `y = mul`."""
        return f"{self.name} = {self.op}" if self.op else self.name

    def lines(self) -> list[str]:
        """Return what happened, line by line."""
        if self.kind == "leaf":
            return self._leaf_lines()
        came = sum_text(self.paths, self.incoming)
        where = sources_text(self.paths)
        lines = [f"   g = {came}   ({where})"]
        if self.incoming.bars:
            lines.append(f"       {self.incoming.bars}")
        for flow in self.flows:
            lines += lines_of(f"   → {flow.to}: {flow_text(flow)}", flow.gradient.bars)
            if flow.note:
                lines.append(f"       {flow.note}")
            if flow.rule.source:
                lines.append("       " + flow.rule.source.replace("\n", "\n       "))
            if len(flow.paths) > 1 and flow.total is not None:
                name = f"{flow.to} has" if flow.into else f"at {flow.to} wait"
                lines.append(f"       {name} {sum_text(flow.paths, flow.total)} so far")
        return [*lines, f"   {self.note}"] if self.note else lines

    def _leaf_lines(self) -> list[str]:
        where = sources_text(self.paths)
        arrived = f"   arrived: {sum_text(self.paths, self.incoming)}   ({where})"
        bars = (self.after or self.incoming).bars
        return [
            arrived,
            *lines_of(f"   {gradient_label(self.name)} = {self.accumulation()[1]}", bars),
        ]

    def accumulation(self) -> tuple[str, str]:
        """Return the new value of `.grad`, as LaTeX and as text: "2 + 3 = 5"."""
        after = self.after or self.incoming
        if self.before is None:
            return after.latex, str(after)
        if not after.latex:
            return "", f"what was there, plus what arrived: {after}"
        return (
            f"{self.before.latex} + {self.incoming.latex} = {after.latex}",
            f"{self.before.text} + {term_text(self.incoming)} = {after.text}",
        )


def lines_of(line: str, bars: str) -> list[str]:
    """Move the histogram at the end of a line to its own line, where it would be broken in two."""
    if not bars or len(line) <= LINE_WIDTH:
        return [line]
    return [line.removesuffix(bars).rstrip(), f"       {bars}"]


def sources_text(paths: Sequence[Contribution]) -> str:
    return "from " + ", ".join(source for source, _ in paths)


def flow_text(flow: EdgeGradient) -> str:
    """Return how one gradient was computed: the rule, with values as far as they are few."""
    if flow.rule.equation_text and not flow.note:
        return flow.rule.equation_text
    start = flow.rule.equation_text or flow.rule.text
    return f"{start} ⇒ {flow.gradient}" if start else str(flow.gradient)


def term_text(summary: GradientSummary) -> str:
    return f"({summary.text})" if summary.text.startswith("-") else summary.text


def sum_text(paths: Sequence[Contribution], total: GradientSummary) -> str:
    """Return a sum: "2 + 3 = 5", or the number of its terms."""
    if len(paths) < 2:
        return total.text
    if not total.latex:
        return f"{total.text} (sum of {len(paths)} ways)"
    terms = [paths[0][1].text, *(term_text(summary) for _, summary in paths[1:])]
    return f"{' + '.join(terms)} = {total.text}"


def sum_latex(paths: Sequence[Contribution], total: GradientSummary) -> str:
    """Return the same as LaTeX; "" if there are too many elements."""
    if not total.latex or not all(summary.latex for _, summary in paths):
        return ""
    if len(paths) < 2:
        return total.latex
    terms = [summary.latex for _, summary in paths]
    terms[1:] = [f"({term})" if term.startswith("-") else term for term in terms[1:]]
    return f"{' + '.join(terms)} = {total.latex}"


# As a table ----------------------------------------------------------------------------------

TABLE_NAME = 18
TABLE_ROOM = (LINE_WIDTH - len("step") - TABLE_NAME - 3 * len("  ")) // 2
TABLE_TITLES = ("step", "node", "incoming gradient", "outgoing gradients")


def table_of(steps: Sequence[BackwardStep]) -> str:
    """Return steps as a table. Cells that are too wide continue in the next line."""
    rows = [[[title] for title in TABLE_TITLES], *map(cells_of, steps)]
    widths = [max(len(line) for cell in column for line in cell)
              for column in zip(*rows, strict=True)]  # fmt: skip
    lines = []
    for row in rows:
        for cells in zip_longest(*row, fillvalue=""):
            padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def cells_of(step: BackwardStep) -> list[list[str]]:
    """Return the lines of the four cells of a step."""
    name, after = step.name, step.after
    sent = [line for flow in step.flows for line in wrap_text(f"{flow.to}: ", flow.gradient.text)]
    if after is not None:
        addition = step.accumulation()[1]
        fits = bool(after.latex) and len(addition) + 2 <= TABLE_ROOM
        text = addition if fits else after.text
        name, sent = gradient_label(name), wrap_text("= ", text)
    incoming = wrap_text("", step.incoming.text)
    return [[str(step.number)], [truncate_start(name, TABLE_NAME)], incoming, sent]


def truncate_start(name: str, room: int) -> str:
    """Cut a name at its beginning: the end of a path is more informative."""
    return name if len(name) <= room else f"…{name[1 - room :]}"


def wrap_text(start: str, text: str) -> list[str]:
    """Return `start + text` in lines of at most `TABLE_ROOM` characters.

    A matrix gets a line for each row, so that its columns can be read; anything else is
    broken at its commas. Where a long name leaves no room, the text begins in the next line.
    """
    if len(start) + len(text) <= TABLE_ROOM:
        return [start + text]
    is_matrix = text.startswith("[") and "; " in text and ", " in text
    separator = "; " if "; " in text else ", "
    pieces = text.split(separator)
    pieces[:-1] = [piece + separator.rstrip() for piece in pieces[:-1]]
    widest = max(map(len, pieces)) if text.startswith("[") else len(pieces[0])
    if len(start) + widest < TABLE_ROOM:
        lines = [start + pieces[0]]
    else:
        lines = [truncate_start(start.rstrip(), TABLE_ROOM), f"  {pieces[0]}"]
    left = lines[-1].index("[") + 1 if text.startswith("[") else 2
    for piece in pieces[1:]:
        if is_matrix or len(lines[-1]) + 1 + len(piece) > TABLE_ROOM:
            lines.append(" " * left + piece)
        else:
            lines[-1] += f" {piece}"
    return lines


# For the page --------------------------------------------------------------------------------


def step_data(step: BackwardStep) -> dict[str, Any]:
    """Return the page's data of a step (`WalkStation` in the protocol)."""
    return {
        "number": step.number,
        "kind": step.kind,
        "name": step.title,
        "line": step.line,
        "incoming": summary_data(step.incoming, step.paths),
        "from": sources_text(step.paths),
        "flows": [
            {
                "to": flow.to,
                "into": flow.into,
                "latex": flow.rule.equation or flow.rule.latex,
                "source": flow.rule.source,
                "gradient": summary_data(flow.gradient),
                "whole": bool(flow.rule.equation) and not flow.note,
                "note": flow.note,
                "total": None
                if flow.total is None or len(flow.paths) < 2
                else summary_data(flow.total, flow.paths),
            }
            for flow in step.flows
        ],
        "added": None
        if step.after is None
        else {**summary_data(step.after), "latex": step.accumulation()[0]},
        "before": step.before is not None,
        "note": step.note,
        "spoken": f"{step.title}. " + ". ".join(line.strip() for line in step.lines()),
    }


def summary_data(summary: GradientSummary, paths: Sequence[Contribution] = ()) -> dict[str, str]:
    """Return a gradient summary, or the sum that it is, as the page gets it."""
    return {
        "text": sum_text(paths, summary),
        "latex": sum_latex(paths, summary) if paths else summary.latex,
        "bars": summary.bars,
    }


GraphDirection = Literal["forward", "backward", "both"]


# The graph that backward walks: for each op its derivative, and the arrows reversed ------


def backward_snapshot(snapshot: Snapshot, part: GraphDirection) -> Snapshot:
    """Return the backward graph of a forward one, alone or beside it.

    The node of a derivative holds the gradient that arrives at it, that of a leaf what is
    accumulated there. Beside the forward graph, an arrow of its own shows each value that a
    derivative needs and that is therefore saved.
    """
    if part == "forward":
        return snapshot
    return BackwardGraphBuilder(snapshot, part == "both").snapshot()


class BackwardGraphBuilder:
    """Builds the backward graph, node by node."""

    def __init__(self, forward: Snapshot, both: bool) -> None:
        self.forward, self.both = forward, both
        self.rows: list[tuple[GraphNode, Stats | None, Stats | None]] = []
        self.forward_id: dict[str, str] = {}
        self.backward_id: dict[str, str] = {}
        self.edges: list[GraphEdge] = []
        self.flows: list[Stats | None] = []

    def snapshot(self) -> Snapshot:
        """Return the whole graph."""
        forward = self.forward
        rows = list(zip(forward.graph.nodes, forward.values, forward.grads, strict=True))
        for node, value, grad in rows if self.both else rows[::-1]:
            if self.both:
                self.forward_id[node.id] = self._add(node, value, grad)
            if node.differentiable:
                self.backward_id[node.id] = self._add(derivative(node), grad, None)
        for edge, flow in zip(forward.graph.edges, forward.flows, strict=True):
            self._reverse(edge, flow)
        if self.both:
            for node in forward.graph.nodes:
                self._connect_saved(node)
        nodes, values, grads = zip(*self.rows, strict=True) if self.rows else ((), (), ())
        graph = Graph(tuple(nodes), tuple(self.edges), forward.graph.modules)
        return Snapshot(graph, tuple(values), tuple(grads), tuple(self.flows))

    def _add(self, node: GraphNode, value: Stats | None, grad: Stats | None) -> str:
        id = f"n{len(self.rows)}"
        self.rows.append((replace(node, id=id), value, grad))
        return id

    def _connect(self, edge: GraphEdge, flow: Stats | None) -> None:
        self.edges.append(replace(edge, id=f"e{len(self.edges)}"))
        self.flows.append(flow)

    def _reverse(self, edge: GraphEdge, flow: Stats | None) -> None:
        """Add the arrow itself, if the forward graph is shown, and the one of its gradient."""
        if self.both:
            source, target = self.forward_id[edge.source], self.forward_id[edge.target]
            self._connect(replace(edge, source=source, target=target), None)
        source, target = self.backward_id.get(edge.target), self.backward_id.get(edge.source)
        if source is not None and target is not None:
            turned = replace(edge, source=source, target=target, kind="backward")
            self._connect(turned, flow)

    def _connect_saved(self, node: GraphNode) -> None:
        makers = {edge.input: edge.source for edge in self.forward.graph.edges
                  if edge.target == node.id}  # fmt: skip
        for name, _ in node.saved:
            maker = node.id if name == "y" else makers.get(name)
            if maker is not None and node.id in self.backward_id:
                source, target = self.forward_id[maker], self.backward_id[node.id]
                self._connect(GraphEdge("", source, target, name, "kept"), None)


def derivative(node: GraphNode) -> GraphNode:
    """Return the node of the derivative of an op, or of a leaf's gradient."""
    label = node.grad_fn or gradient_label(node.label)
    return replace(node, kind="gradient", label=label, variable="", differentiable=False)
