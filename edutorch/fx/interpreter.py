"""Interpreters, which run a graph node by node: slow, but easy to extend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ..backends.numpy import Namespace
from ..nn import Module
from ._symbolic_trace import Tracer, unwrap_proxies
from .graph import Graph, last_uses
from .graph_module import GraphModule, get_at_path
from .node import Argument, Node, map_arg

Function = Callable[..., Any]

__all__ = ["Interpreter", "Transformer", "arguments_in_order", "run_node", "run_on_arrays"]


class Interpreter:
    """Runs a `GraphModule` node by node. Derived classes override what nodes do.

    Args:
        module: the module to run.
        garbage_collect_values: drop each value after its last use.
        graph: another graph than the module's own.

    >>> class Doubling(fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         return 2 * super().call_function(target, args, kwargs)
    >>> Doubling(fx.symbolic_trace(lambda x: relu(x))).run(tensor([3.0]))
    tensor([6.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module, self.garbage_collect_values = module, garbage_collect_values
        self.submodules = dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.name = "Interpreter"
        self.env: dict[Node, Any] = {}

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:  # fmt: skip
        """Run the whole graph on these arguments."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        dead_after = last_uses(self.graph) if self.garbage_collect_values else {}
        for node in self.graph.nodes:
            if node not in self.env:
                self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            # Their memory is free for what comes.
            for dead in dead_after.get(node, ()):
                self.env.pop(dead, None)
        return None

    def run_node(self, n: Node) -> Any:
        """Run one node on the values computed so far."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a node, with nodes replaced by their values."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """Replace nodes by their values, at any depth."""
        return map_arg(args, self.env.__getitem__)

    def fetch_attr(self, target: str) -> Any:
        """Return the parameter, buffer or constant at a path."""
        return get_at_path(self.module, target)

    # One method per op of a node --------------------------------------------------------------

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Take the next argument, or the default.

        Raises: RuntimeError: there are too few arguments.
        """
        if str(target).startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Look up a parameter, buffer or constant."""
        return self.fetch_attr(target)

    def call_function(self, target: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the first argument."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of the graph."""
        return args[0]


class Transformer(Interpreter):
    """Runs a graph on proxies, which builds a new graph: a way to rewrite one.

    >>> class Smooth(fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         target = tanh if target is relu else target
    ...         return super().call_function(target, args, kwargs)
    >>> print(Smooth(fx.symbolic_trace(lambda x: relu(x))).transform().code.strip())
    def forward(self, x):
        tanh = torch.tanh(x);  x = None
        return tanh
    """

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = Tracer()
        self.tracer.graph, self.tracer.root = self.new_graph, module

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the argument a proxy."""
        default = args[0] if args else ...
        return self.tracer.proxy(self.new_graph.placeholder(target, default_value=default))

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the parameter a proxy."""
        return self.tracer.proxy(self.new_graph.get_attr(target))

    def call_function(self, target: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Add the call to the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Add the call to the new graph."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Add the call to the new graph."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return a module with the new graph."""
        self.new_graph.constants = dict(self.graph.constants)
        self.new_graph.output(unwrap_proxies(self.run()))
        return GraphModule(self.module, self.new_graph)


# Running captured graphs on arrays -------------------------------------------------------------


def run_node(
    node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], xp: Namespace = numpy
) -> Any:
    """Run a node of a captured graph on arrays: an op's definition, or the function itself."""
    target: Any = node.target
    definition = getattr(target, "op", None)
    if definition is None:
        return target(*args, **kwargs)
    args, kwargs = arguments_in_order(definition, args, kwargs)
    value = definition.forward(xp, *args, **kwargs)
    return numpy.asarray(value) if isinstance(value, numpy.generic) else value


def arguments_in_order(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a node's arguments as the op's definition takes them.

    A node has its inputs first, but `scatter` has a setting between them: then they go by name.
    """
    names = op.inputs[: len(args)]
    if tuple(op.signature.parameters)[: len(names)] == tuple(names):
        return args, kwargs
    return (), dict(zip(names, args, strict=True)) | kwargs


def run_on_arrays(graph: Graph) -> Callable[[list[Any]], list[Any]]:
    """Return a function of arrays that runs a captured graph, one node after the other.

    It is the reference for compiled programs (`edutorch.compilation`).
    """
    dead_after = last_uses(graph)
    nodes = [node for node in graph.nodes if node.op != "placeholder"]
    inputs = [node for node in graph.nodes if node.op == "placeholder"]

    def run(arrays: list[Any]) -> list[Any]:
        values: dict[Node, Any] = dict(zip(inputs, arrays, strict=True))
        for node in nodes:
            if node.op == "get_attr":
                values[node] = graph.constants[str(node.target)]
            elif node.op == "output":
                return [values[argument] for argument in node.args[0]]
            else:
                args = map_arg(node.args, values.__getitem__)
                values[node] = run_node(node, args, map_arg(node.kwargs, values.__getitem__))
            for dead in dead_after.get(node, ()):
                values.pop(dead, None)
        return []

    return run
