"""The ops that a model runs, as TensorBoard's graph: a box for each module, ops inside."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...events import ModuleEntered, ModuleLeft, OpApplied, listening
from ...modes import no_grad
from .._pytree import tree_leaves
from .messages import message

__all__ = ["graph_of"]


def graph_of(model: Any, inputs: Any) -> Any:
    """Run a model and return the graph of its ops."""
    arguments = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    drawing = Drawing(model)
    for number, tree_leaf in enumerate(tree_leaves(arguments)):
        if isinstance(tree_leaf, Tensor):
            drawing.add("input", f"input/{number}", (), tree_leaf)
    with no_grad(), listening(drawing):
        output = model(*arguments)
    for number, tree_leaf in enumerate(tree_leaves(output)):
        if isinstance(tree_leaf, Tensor):
            drawing.add("output", f"output/{number}", (tree_leaf,), None)
    versions = message("versions.VersionDef")(producer=22)
    return message("graph.GraphDef")(node=drawing.nodes, versions=versions)


class Drawing:
    """Makes a node of each op, named by the modules that are running."""

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
        self.running: list[str] = []
        self.nodes: list[Any] = []
        self.made: dict[int, str] = {}  # which node a tensor comes from
        self.kept: list[Any] = []  # a tensor that is gone could lend its id to another
        self.taken: dict[str, int] = {}

    def __call__(self, event: Any) -> None:
        """Take one event."""
        if isinstance(event, ModuleEntered):
            self.running.append(self.paths.get(id(event.module), type(event.module).__name__))
        elif isinstance(event, ModuleLeft):
            self.running.pop()
        elif isinstance(event, OpApplied):
            place = self.running[-1] if self.running else "outside"
            outputs = [
                tree_leaf
                for tree_leaf in tree_leaves(event.output)
                if isinstance(tree_leaf, Tensor)
            ]
            first = outputs[0] if outputs else None
            name = self.add(event.op.label, f"{place}/{event.op.label}", event.inputs, first)
            for output in outputs[1:]:
                self.made[id(output)] = name

    def add(self, op: str, name: str, inputs: tuple[Any, ...], output: Any) -> str:
        """Add a node, with an edge from whatever made each of its inputs."""
        edges = [self.source(input_) for input_ in inputs if isinstance(input_, Tensor)]
        name = self.free(name)
        node = message("node_def.NodeDef")(name=name, op=op, input=edges)
        if isinstance(output, Tensor):
            sizes = node.attr["_output_shapes"].list.shape.add()
            for size in output.shape:
                sizes.dim.add(size=size)
            self.made[id(output)] = name
            self.kept.append(output)
        self.nodes.append(node)
        return name

    def source(self, tensor: Tensor) -> str:
        """Return the node that a tensor comes from; one that was there before becomes a node."""
        if id(tensor) not in self.made:
            self.kept.append(tensor)
            known = self.parameters.get(id(tensor))
            self.add("parameter" if known else "constant", known or "constant", (), tensor)
        return self.made[id(tensor)]

    def free(self, name: str) -> str:
        """Return a name that no node has yet."""
        count = self.taken.get(name, 0)
        self.taken[name] = count + 1
        return f"{name}_{count}" if count else name
