"""Control flow of programs as If, Loop and Scan of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...export.formulas import text_of
from ...fx.graph_module import GraphModule
from ...fx.node import Node
from .builder import Builder, Value, is_value

__all__ = ["CONTROL"]

Translate = Callable[[Builder, GraphModule, Mapping[str, Any]], list[Any]]
"""Translates a graph into a builder, given the values of its inputs; returns its results."""


def branch_inputs(module: GraphModule) -> list[Node]:
    """Return the inputs of a branch's graph."""
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def result_types(module: GraphModule) -> list[tuple[Any, Any]]:
    """Return dtype and shape of each result of a branch's graph."""
    results = module.graph.output_node().args[0]
    return [(node.meta["dtype"], node.meta["shape"]) for node in results]


def fresh(b: Builder, values: Sequence[Any]) -> list[Any]:
    """Return outputs of a graph: each a value of its own, made inside."""
    made = {id(node_output) for node in b.nodes for node_output in node.outputs}
    outputs: list[Any] = []
    for value in values:
        repeated = any(value is other for other in outputs)
        is_own = is_value(value) and id(value) in made and not repeated
        output = value if is_own else b.op("Identity", value)
        if is_value(value) and output is not value:
            output.type, output.shape = value.type, value.shape
        outputs.append(output)
    return outputs


def export_cond(
    b: Builder, translate: Translate, pred: Value, true_graph: GraphModule,
    false_graph: GraphModule, operands: Sequence[Any],
) -> Any:  # fmt: skip
    """An If: its branches read what is around them."""
    graphs = []
    for name, module in (("then", true_graph), ("else", false_graph)):
        inner = Builder(b.opset, b)
        values = dict(zip((n.name for n in branch_inputs(module)), operands, strict=True))
        results = fresh(inner, translate(inner, module, values))
        graphs.append(inner.graph([], results, b.unique(f"{name}_branch")))
    count = len(result_types(true_graph))
    test = b.op("Reshape", pred, b.const([1], np.int64))
    outputs = b.op("If", test, outputs=count, then_branch=graphs[0], else_branch=graphs[1])
    return outputs if count > 1 else (outputs,)


def export_while(
    b: Builder, translate: Translate, cond_graph: GraphModule, body_graph: GraphModule,
    carried: Sequence[Any], additional: Sequence[Any],
) -> Any:  # fmt: skip
    """A Loop: its body ends with the test of the next turn, and the first test stands before."""
    inputs = branch_inputs(body_graph)

    def named(module: GraphModule, values: Sequence[Any]) -> dict[str, Any]:
        names = (node.name for node in branch_inputs(module))
        return dict(zip(names, (*values, *additional), strict=True))

    (first,) = translate(b, cond_graph, named(cond_graph, carried))
    inner = Builder(b.opset, b)
    turn = inner.value("turn", np.int64, [])
    test = inner.value("test", np.bool_, [])
    states = [
        inner.value("carried", node.meta["dtype"], symbolic(node.meta["shape"]))
        for node in inputs[: len(carried)]
    ]
    following = translate(inner, body_graph, named(body_graph, states))
    (again,) = translate(inner, cond_graph, named(cond_graph, following))
    outputs = fresh(inner, [inner.op("Reshape", again, b.const([], np.int64)), *following])
    body = inner.graph([turn, test, *states], outputs, b.unique("body"))
    started = b.op("Reshape", first, b.const([], np.int64))
    results = b.op("Loop", None, started, *carried, outputs=len(carried), body=body)
    return results if len(carried) > 1 else (results,)


def export_scan(
    b: Builder, translate: Translate, graph: GraphModule, init: Sequence[Any], xs: Sequence[Any],
    additional: Sequence[Any], dim: int = 0, reverse: bool = False,
) -> Any:  # fmt: skip
    """A Scan: its body takes the carried values and one slice of each sequence."""
    inputs = branch_inputs(graph)
    inner = Builder(b.opset, b)
    own = [
        inner.value(
            "state" if i < len(init) else "slice", n.meta["dtype"], symbolic(n.meta["shape"])
        )
        for i, n in enumerate(inputs[: len(init) + len(xs)])
    ]
    names = (node.name for node in inputs)
    values = dict(zip(names, (*own, *additional), strict=True))
    outputs = fresh(inner, translate(inner, graph, values))
    body = inner.graph(own, outputs, b.unique("combine"))
    order, stacked = int(reverse), len(outputs) - len(init)
    results = b.op(
        "Scan", *init, *xs, outputs=len(outputs), body=body, num_scan_inputs=len(xs),
        scan_input_axes=[dim] * len(xs), scan_input_directions=[order] * len(xs),
        scan_output_directions=[order] * stacked if stacked else None,
    )  # fmt: skip
    return results if len(outputs) > 1 else (results,)


def symbolic(shape: Sequence[Any]) -> list[Any]:
    """Return a shape with names in place of formulas."""
    return [size if isinstance(size, int) or size is None else text_of(size) for size in shape]


CONTROL: dict[str, Callable[..., Any]] = {
    "program:cond": export_cond, "program:while_loop": export_while,
    "program:scan_flat": export_scan,
}  # fmt: skip
"""The translations of functions that take graphs."""
