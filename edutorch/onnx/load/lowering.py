"""One node of a model becomes nodes of the graph, by its entry in the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.tensor import Tensor
from ...errors import EdutorchError, NotHereError
from ...fx import Node, Proxy
from ...fx.node import map_aggregate
from ...fx.proxy import TracerBase
from .attributes import attribute_value
from .errors import damaged, unsupported
from .folding import fold
from .protos import AttributeProto, NodeProto
from .reader import import_onnx, plain, readable_name
from .table import Parameters, parameters_of
from .values import Facts, NotKnownError, active_tracer

if TYPE_CHECKING:
    from .importer import GraphImporter
else:  # which imports this file
    GraphImporter = Any

LONGEST_LITERAL = 32
"""Longer constants stay tensors: a list of thousands of numbers is not to be read."""


class Lowering:
    """Brings one node in.

    Args:
        importer: of the graph that it belongs to.
        node: the node.
        entry: its function in the table.
    """

    def __init__(self, importer: GraphImporter, node: NodeProto, entry: Callable[..., Any]) -> None:
        self.importer, self.node, self.entry = importer, node, entry
        self.graph = importer.graph
        self.tracer = TracerBase(self.graph)

    def run(self) -> None:
        """Add the nodes, and enter the outputs by their names."""
        parameters = parameters_of(self.entry)
        if fold(self.importer, self.node, self.entry):
            return
        inputs = self.inputs(parameters)
        attributes = self.attributes(parameters)
        before = self.graph._root.prev
        token = active_tracer.set(self.tracer)
        try:
            result = self.entry(*map_aggregate(inputs, self.proxy), **attributes)
        except NotHereError as error:
            raise unsupported(self.node.op_type, self.node.name, error.message) from error
        # Whatever a proxy cannot do is done when the model runs.
        except (NotKnownError, EdutorchError, AttributeError, TypeError, ValueError, IndexError):
            result = self.call(before, inputs, attributes)
        finally:
            active_tracer.reset(token)
        line = " ".join(filter(None, (self.node.op_type, plain(self.node.name))))
        node = before.next
        while node is not self.graph._root:
            if node.op != "get_attr":
                node.meta.setdefault("line", line)
            node = node.next
        self.enter_outputs(result, before)

    def proxy(self, value: object) -> object:
        """Return the proxy of a node; other values unchanged."""
        return self.tracer.proxy(value) if isinstance(value, Node) else value

    def call(self, before: Node, inputs: list[Any], attributes: dict[str, Any]) -> Any:
        """Add the node as one call of its entry, after removing what it had become so far."""
        while self.graph._root.prev is not before:
            self.graph.erase_node(self.graph._root.prev)
        plain_attributes = {
            key: value.node if isinstance(value, Proxy) else value
            for key, value in attributes.items()
        }
        node = self.graph.call_function(self.entry, tuple(inputs), plain_attributes)
        if len(self.node.output) > 1 or parameters_of(self.entry).is_tuple:
            return [self.tracer.proxy(node)[index] for index in range(len(self.node.output))]
        return self.tracer.proxy(node)

    # Inputs and attributes -------------------------------------------------------------------

    def inputs(self, parameters: Parameters) -> list[Any]:
        """Return the inputs: nodes, lists of numbers for literals, None where absent."""
        node, user = self.node, f"{self.node.op_type} (node {self.node.name!r})"
        if len(node.input) > len(parameters.inputs) and not parameters.variadic:
            raise damaged(
                f"{user} has too many inputs", given=len(node.input),
                most=len(parameters.inputs),
            )  # fmt: skip
        values: list[Any] = []
        for index, name in enumerate(node.input):
            value = self.importer.find_value(name, user) if name else None
            parameter = parameters.inputs[index] if index < len(parameters.inputs) else ""
            if parameter in parameters.literals:
                value = as_literal(value)
            elif parameter in ("input_mean", "input_var") and isinstance(value, Node):
                self.importer.constants.statistics.add(str(value.target))
            values.append(value)
        while values and values[-1] is None:
            values.pop()
        if len(values) < parameters.needed[0]:
            raise damaged(
                f"{user} has too few inputs", actual=len(values), least=parameters.needed[0]
            )
        return values

    def attributes(self, parameters: Parameters) -> dict[str, Any]:
        """Return the attributes that the entry takes.

        Raises: UnsupportedOpError: an attribute that the entry does not know.
        """
        values: dict[str, Any] = {}
        for attribute in self.node.attribute:
            if attribute.name in parameters.attributes:
                values[attribute.name] = self.attribute(attribute)
            elif attribute.name not in IGNORED:
                what = f"its attribute {attribute.name!r} cannot be brought in"
                raise unsupported(self.node.op_type, self.node.name, what)
        missing = sorted(parameters.needed[1] - values.keys())
        if missing:
            raise damaged(f"{self.node.op_type} (node {self.node.name!r}) has no {missing[0]!r}")
        if "outputs" in parameters.attributes:
            values["outputs"] = len(self.node.output)
        return values

    def attribute(self, attribute: AttributeProto) -> Any:
        """Return an attribute; a tensor becomes a constant of the module."""
        if attribute.type == import_onnx().AttributeProto.TENSOR:
            name = f"{self.node.output[0]}_{attribute.name}"
            constants = self.importer.constants
            constant = constants.add_tensor(attribute.t, False, name)
            return self.proxy(constants.node_of(constant))
        return attribute_value(attribute, self.node)

    # Outputs ------------------------------------------------------------------------------------

    def enter_outputs(self, result: Any, before: Node) -> None:
        """Enter the outputs of the node under their names."""
        names = list(self.node.output)
        results = list(result) if isinstance(result, tuple | list) and len(names) > 0 else [result]
        if len(results) < len([name for name in names if name]):
            raise damaged(
                f"{self.node.op_type} (node {self.node.name!r}) has too many outputs",
                wanted=len(names), has=len(results),
            )  # fmt: skip
        for name, value in zip(names, results, strict=False):
            if name:
                self.importer.values[name] = self.named(name, value, before)

    def named(self, name: str, value: Any, before: Node) -> Any:
        """Return the node of an output, named after it, with what is known about it."""
        if isinstance(value, Tensor):  # computed from constants alone
            return self.importer.constants.add_array(name, value.numpy(), False)
        if not isinstance(value, Proxy):
            return value
        node = value.node
        facts = self.importer.facts.get(name, Facts())
        if is_new(node, before):
            self.graph._names.discard(node.name)
            node.name = self.graph._free_name(readable_name(name))
            node.meta["onnx_name"] = name
            node.meta["onnx"] = facts
        return node


IGNORED = {"type"}
"""Attributes that change nothing here: the type of an Optional without a value."""


def is_new(node: Node, before: Node) -> bool:
    """Return True if a node was added behind `before`, and is no input."""
    return node.op not in ("placeholder", "get_attr") and "onnx" not in node.meta


def as_literal(value: Any) -> Any:
    """Return a short constant as a list of numbers; others unchanged."""
    if not isinstance(value, Node):
        return value
    constant: np.ndarray | None = value.meta.get("onnx", Facts()).constant
    if constant is None or constant.size > LONGEST_LITERAL:
        return value
    return constant.reshape(-1).tolist()
