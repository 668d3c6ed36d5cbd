"""What is known about the values of a model before it runs: dtypes and shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..dtypes import from_onnx
from .protos import GraphProto, ModelProto, TypeProto
from .reader import import_onnx
from .values import Facts

LARGE = 1024
"""Tensors with more bytes take no part: the sizes of others are not computed from them."""


def infer_facts(model: ModelProto) -> dict[str, Facts]:
    """Return dtype and shape of the values of a model, as far as onnx can infer them."""
    onnx = import_onnx()
    light = light_copy(model)
    try:
        light = onnx.shape_inference.infer_shapes(light, data_prop=True)
    # Facts only make the code shorter: without them, ops ask their tensors when they run.
    except Exception:  # noqa: BLE001
        return {}
    known: dict[str, Facts] = {}
    for graph in graphs_of(light.graph):
        for value in (*graph.value_info, *graph.input, *graph.output):
            fact = facts_of(value.type)
            # Two graphs may use one name: only what holds in both is kept.
            known[value.name] = fact if known.get(value.name, fact) == fact else Facts()
    return known


def light_copy(model: ModelProto) -> ModelProto:
    """Return a copy of a model, with large tensors as inputs."""
    onnx = import_onnx()
    light = onnx.ModelProto()
    for field, value in model.ListFields():
        if field.name != "graph":
            copy_field(light, field, value)
    for field, value in model.graph.ListFields():
        if field.name not in ("initializer", "sparse_initializer"):
            copy_field(light.graph, field, value)
    inputs = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        is_large = tensor.ByteSize() > LARGE or tensor.data_location == onnx.TensorProto.EXTERNAL
        if not is_large:
            light.graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            stand_in = onnx.helper.make_tensor_value_info
            light.graph.input.append(stand_in(tensor.name, tensor.data_type, list(tensor.dims)))
    return light


def copy_field(target: Any, field: Any, value: Any) -> None:
    """Copy one field of a message."""
    if isinstance(value, str | bytes | int | float):
        setattr(target, field.name, value)
    elif hasattr(value, "append"):
        getattr(target, field.name).extend(value)
    else:
        getattr(target, field.name).CopyFrom(value)


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph, and the graphs in its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            subgraphs: Iterable[GraphProto] = (attribute.g, *attribute.graphs)
            for subgraph in subgraphs:
                if subgraph.node or subgraph.output:
                    yield from graphs_of(subgraph)


def facts_of(type_proto: TypeProto) -> Facts:
    """Return what a type says: nothing for sequences and optionals."""
    if not type_proto.HasField("tensor_type"):
        return Facts()
    tensor = type_proto.tensor_type
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(size_of(dim) for dim in tensor.shape.dim)
    return Facts(from_onnx(tensor.elem_type), shape)


def size_of(dim: Any) -> int | str:
    """Return a size, its name, or "?"; some exporters write -1 for one that they do not know."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return dim.dim_param or "?"
