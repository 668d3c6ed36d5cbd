"""The graph of the ops that a model runs, for TensorBoard: ops inside a box for each module."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...events import ModuleEntered, ModuleLeft, OpApplied, listening
from ...modes import no_grad
from .._pytree import tree_leaves
from .messages import message

__all__ = ["build_graph"]


def build_graph(model: Any, inputs: Any) -> Any:
    """Run a model and return the graph of its ops."""
    arguments = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    builder = GraphBuilder(model)
    for number, tree_leaf in enumerate(tree_leaves(arguments)):
        if isinstance(tree_leaf, Tensor):
            builder.add("input", f"input/{number}", (), tree_leaf)
    with no_grad(), listening(builder):
        output = model(*arguments)
    for number, tree_leaf in enumerate(tree_leaves(output)):
        if isinstance(tree_leaf, Tensor):
            builder.add("output", f"output/{number}", (tree_leaf,), None)
    versions = message("versions.VersionDef")(producer=22)
    return message("graph.GraphDef")(node=builder.nodes, versions=versions)


class GraphBuilder:
    """Adds a node for each op, named by the modules around it."""

    def __init__(self, model: Any) -> None:
        start = type(model).__name__
        self.paths = {
            id(module): f"{start}/{name.replace('.', '/')}".rstrip("/")
            for name, module in model.named_modules()
        }
        self.parameters = {
            id(parameter): f"{start}/{name.replace('.', '/')}"
            for name, parameter in (*model.named_parameters(), *model.named_buffers())
        }
        self.module_stack: list[str] = []
        self.nodes: list[Any] = []
        self.node_names: dict[int, str] = {}  # the node of a tensor, by id
        self.keep_alive: list[Any] = []  # so that no id is reused
        self.name_counts: dict[str, int] = {}

    def __call__(self, event: Any) -> None:
        """Handle one event."""
        if isinstance(event, ModuleEntered):
            self.module_stack.append(self.paths.get(id(event.module), type(event.module).__name__))
        elif isinstance(event, ModuleLeft):
            self.module_stack.pop()
        elif isinstance(event, OpApplied):
            scope = self.module_stack[-1] if self.module_stack else "outside"
            outputs = [
                tree_leaf
                for tree_leaf in tree_leaves(event.output)
                if isinstance(tree_leaf, Tensor)
            ]
            first = outputs[0] if outputs else None
            name = self.add(event.op.label, f"{scope}/{event.op.label}", event.inputs, first)
            for output in outputs[1:]:
                self.node_names[id(output)] = name

    def add(self, op: str, name: str, inputs: tuple[Any, ...], output: Any) -> str:
        """Add a node, with edges from the nodes of its inputs."""
        edges = [self.source_name(input_) for input_ in inputs if isinstance(input_, Tensor)]
        name = self.unused_name(name)
        node = message("node_def.NodeDef")(name=name, op=op, input=edges)
        if isinstance(output, Tensor):
            sizes = node.attr["_output_shapes"].list.shape.add()
            for size in output.shape:
                sizes.dim.add(size=size)
            self.node_names[id(output)] = name
            self.keep_alive.append(output)
        self.nodes.append(node)
        return name

    def source_name(self, tensor: Tensor) -> str:
        """Return the node of a tensor; a parameter or constant gets one on first use."""
        if id(tensor) not in self.node_names:
            self.keep_alive.append(tensor)
            known = self.parameters.get(id(tensor))
            self.add("parameter" if known else "constant", known or "constant", (), tensor)
        return self.node_names[id(tensor)]

    def unused_name(self, name: str) -> str:
        """Return an unused name."""
        count = self.name_counts.get(name, 0)
        self.name_counts[name] = count + 1
        return f"{name}_{count}" if count else name
