"""Functions: ops that are defined by other ops, in the model or in ONNX's own definition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .errors import ModelFileError, damaged
from .protos import FunctionProto, GraphProto, NodeProto
from .reader import canonical_domain, import_onnx, opsets_of

if TYPE_CHECKING:
    from .importer import GraphImporter
else:  # which imports this file
    GraphImporter = Any


MOST_NODES = 200_000
"""Functions that call functions twice grow without limit: a model with more nodes is refused."""

MOST_NESTED = 60
"""Functions and graphs inside each other."""

Key = tuple[str, str]
"""The domain and the name of a function."""


def grows() -> ModelFileError:
    """Make the error for functions that call themselves, or become too many nodes."""
    return damaged(
        f"its functions and graphs grow to more than {MOST_NODES} nodes, or call themselves"
    )


def check_growth(graph: GraphProto, functions: dict[Key, FunctionProto]) -> None:
    """Refuse a model with too many nodes before anything walks through them.

    Raises: ModelFileError.
    """
    sizes: dict[Key, int] = {}

    def size_of(nodes: Iterable[NodeProto], depth: int) -> int:
        if depth > MOST_NESTED:
            raise grows()
        total = 0
        for node in nodes:
            key = (canonical_domain(node.domain), node.op_type)
            if key in functions and key not in sizes:
                sizes[key] = size_of(functions[key].node, depth + 1)
            total += 1 + sizes.get(key, 0)
            for attribute in node.attribute:
                for inner in (attribute.g, *attribute.graphs):
                    total += size_of(inner.node, depth + 1)
            if total > MOST_NODES:
                raise grows()
        return total

    size_of(graph.node, 0)


def find_function(
    node: NodeProto, domain: str, opset: int, importer: GraphImporter
) -> FunctionProto | None:
    """Return the definition of an op by other ops that ONNX gives, or None."""
    onnx = import_onnx()
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    function = onnx.FunctionProto()
    if schema.has_function:
        function.ParseFromString(
            schema.get_function_with_opset_version(function_opset(schema, opset))
        )
        return function
    if not schema.has_context_dependent_function:
        return None
    types = [type_bytes(importer, name) for name in node.input]
    if None in types:
        return None
    version = function_opset(schema, opset)
    body = schema.get_context_dependent_function_with_opset_version(
        version, node.SerializeToString(), types
    )
    function.ParseFromString(body)
    return function


def function_opset(schema: Any, opset: int) -> int:
    """Return the newest opset, up to that of the model, in which a definition is written."""
    versions = [*schema.function_opset_versions, *schema.context_dependent_function_opset_versions]
    fitting = [version for version in versions if version <= opset]
    return max(fitting) if fitting else min(versions)


def type_bytes(importer: GraphImporter, name: str) -> bytes | None:
    """Return the type of a value, serialized, or None where it is not known."""
    from ..dtypes import to_onnx

    onnx = import_onnx()
    if not name:
        return onnx.TypeProto().SerializeToString()
    value = importer.find_value(name, "a function")
    facts = getattr(value, "meta", {}).get("onnx")
    if facts is None or facts.dtype is None:
        return None
    return onnx.helper.make_tensor_type_proto(
        int(to_onnx(facts.dtype)), facts.shape
    ).SerializeToString()


def call_of(importer: GraphImporter, node: NodeProto, function: FunctionProto) -> None:
    """Bring in the nodes of a function in place of a call of it."""
    if len(node.input) > len(function.input) or len(node.output) > len(function.output):
        raise damaged(
            f"{node.op_type} (node {node.name!r}) does not fit the function of this name",
            call=f"{len(node.input)} inputs, {len(node.output)} outputs",
            function=f"{len(function.input)} inputs, {len(function.output)} outputs",
        )  # fmt: skip
    user = f"{node.op_type} (node {node.name!r})"
    arguments = {
        formal: importer.find_value(actual, user) if actual else None
        for formal, actual in zip(function.input, node.input, strict=False)
    }
    saved = importer.values, importer.opsets, importer.facts
    importer.values = {formal: arguments.get(formal) for formal in function.input}
    importer.opsets = saved[1] | opsets_of(function.opset_import)
    importer.facts = {}
    outer, importer.outer = importer.outer, None  # a function sees its own values only
    importer.depth += 1
    try:
        for inner in function.node:
            importer.enter_node(bound(inner, node, function))
        results = [importer.find_value(name, user) for name in function.output if name]
    finally:
        importer.values, importer.opsets, importer.facts = saved
        importer.outer = outer
        importer.depth -= 1
    for name, value in zip(node.output, results, strict=False):
        if name:
            importer.values[name] = value


def bound(inner: NodeProto, call: NodeProto, function: FunctionProto) -> NodeProto:
    """Return a node of a function with the attributes that the call gives."""
    onnx = import_onnx()
    values = {attribute.name: attribute for attribute in call.attribute}
    for default in function.attribute_proto:
        values.setdefault(default.name, default)
    copied = onnx.NodeProto()
    copied.CopyFrom(inner)
    copied.name = inner.name or call.name
    bind_attributes(copied, values)
    return copied


def bind_attributes(node: NodeProto, values: dict[str, Any]) -> None:
    """Replace references to attributes of the function, also in graphs inside the node."""
    attributes = list(node.attribute)
    del node.attribute[:]
    for attribute in attributes:
        if not attribute.ref_attr_name:
            for graph in (attribute.g, *attribute.graphs):
                for inner in graph.node:
                    bind_attributes(inner, values)
            node.attribute.append(attribute)
        elif attribute.ref_attr_name in values:
            value = node.attribute.add()
            value.CopyFrom(values[attribute.ref_attr_name])
            value.name = attribute.name
