"""Ops with graphs inside: If, Loop, Scan, SequenceMap. Each graph becomes a GraphModule.

A graph may use values of the graph around it. It gets them as arguments, behind its own inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import TYPE_CHECKING, Any

from ...fx import GraphModule, Node
from . import control
from .attributes import attribute_value
from .errors import damaged, unsupported
from .protos import NodeProto
from .reader import plain, readable_name
from .values import Facts

if TYPE_CHECKING:
    from .importer import GraphImporter
else:  # which imports this file
    GraphImporter = Any


def build_subgraph(
    importer: GraphImporter, node: NodeProto, attribute: str
) -> tuple[Node, tuple[Any, ...]]:
    """Return the node of a subgraph's module, and the values that it uses of the graph around.

    Raises: ModelFileError: the node has no such graph.
    """
    graphs = [entry.g for entry in node.attribute if entry.name == attribute]
    if not graphs:
        raise damaged(f"{node.op_type} (node {node.name!r}) has no graph {attribute!r}")
    inner = type(importer)(importer.program, importer.facts, importer, importer.depth + 1)
    inner.opsets = importer.opsets
    inner.enter_graph(graphs[0])
    inner.finish(graphs[0])
    # A Loop's graph returns one value or several; here it is always a tuple.
    output = inner.graph.output_node()
    if not isinstance(output.args[0], tuple):
        output.args = ((output.args[0],),)
    name = plain(graphs[0].name) or attribute
    module = GraphModule(inner.constants.referenced(), inner.graph, name)
    captured = tuple(importer.find_value(name, node.op_type) for name in inner.captured)
    path = f"{readable_name(node.output[0])}_{attribute}"
    return importer.constants.add_module(path, module), captured


def inputs_of(importer: GraphImporter, node: NodeProto) -> list[Any]:
    """Return the inputs of a node; None where absent."""
    user = f"{node.op_type} (node {node.name!r})"
    return [importer.find_value(name, user) if name else None for name in node.input]


def attributes_of(node: NodeProto) -> dict[str, Any]:
    """Return the attributes that are numbers."""
    graphs = ("then_branch", "else_branch", "body")
    return {a.name: attribute_value(a, node) for a in node.attribute if a.name not in graphs}


def add_call(
    importer: GraphImporter, node: NodeProto, function: Callable[..., Any], *args: Any
) -> None:
    """Add the call of a function that returns a tuple, and enter its outputs."""
    call = importer.graph.call_function(function, args)
    call.meta["line"] = " ".join(filter(None, (node.op_type, plain(node.name))))
    for index, name in enumerate(node.output):
        if name:
            value = importer.graph.call_function(getitem, (call, index), name=readable_name(name))
            value.meta |= {"line": call.meta["line"], "onnx": importer.facts.get(name, Facts())}
            importer.values[name] = value


def enter_if(importer: GraphImporter, node: NodeProto) -> None:
    """If: one of two graphs is run."""
    condition = inputs_of(importer, node)[0]
    then_branch, then_args = build_subgraph(importer, node, "then_branch")
    else_branch, else_args = build_subgraph(importer, node, "else_branch")
    add_call(importer, node, control.cond, condition, then_branch, then_args, else_branch,
             else_args)  # fmt: skip


def enter_loop(importer: GraphImporter, node: NodeProto) -> None:
    """Loop: a graph is run again and again, on what it has returned."""
    inputs = [*inputs_of(importer, node), None, None]
    carried = tuple(inputs[2:-2])
    body, captured = build_subgraph(importer, node, "body")
    add_call(importer, node, control.loop, body, inputs[0], inputs[1], carried, captured)


def enter_scan(importer: GraphImporter, node: NodeProto) -> None:
    """Scan: a graph is run on every slice of its inputs."""
    inputs, attributes = inputs_of(importer, node), attributes_of(node)
    body, captured = build_subgraph(importer, node, "body")
    count = attributes.pop("num_scan_inputs")
    batched = importer.opsets.get("", 0) < 9
    if batched and inputs[0] is not None:
        raise unsupported("Scan", node.name, "sequence_lens of opset 8 cannot be brought in")
    if batched:
        inputs = inputs[1:]
    states, scanned = tuple(inputs[: len(inputs) - count]), tuple(inputs[len(inputs) - count :])
    function = control.batched_scan if batched else control.scan
    axes = (
        attributes.get("scan_input_axes", attributes.get("directions", [])),
        attributes.get("scan_input_directions", []),
        attributes.get("scan_output_axes", []),
        attributes.get("scan_output_directions", []),
    )
    if batched:
        axes = ([], attributes.get("directions", []), [], [])
    add_call(importer, node, function, body, states, scanned, captured, *axes)


def enter_sequence_map(importer: GraphImporter, node: NodeProto) -> None:
    """SequenceMap: a graph is run on each tensor of a sequence."""
    sequence, *others = inputs_of(importer, node)
    body, captured = build_subgraph(importer, node, "body")
    add_call(importer, node, control.sequence_map, body, sequence, tuple(others), captured)


HANDLERS: dict[str, Callable[[GraphImporter, NodeProto], None]] = {
    "If": enter_if, "Loop": enter_loop, "Scan": enter_scan, "SequenceMap": enter_sequence_map,
}  # fmt: skip
