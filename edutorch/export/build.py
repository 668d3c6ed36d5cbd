"""Builds the graph of a program from a merged capture: inputs with names, sizes as nodes."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..core.tensor import Tensor, wrap
from ..fx.captured_graph import Captured
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node, flatten, map_aggregate, short_name
from ..nn import Module
from .dims import AxisMap
from .errors import ExportError
from .formulas import Call, Formula, Size, symbols_of
from .functions import name_of_function, replace_primitive, sym_size
from .samples import Arguments
from .signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)  # fmt: skip

__all__ = ["ProgramBuilder"]

CAPTURE_META = ("strides", "index", "device")
"""What is true of the capture only, and not of each call."""

OPERANDS = 3
"""The argument of `cond`, `while_loop` and `scan_flat` with what their graphs read from around."""


class ProgramBuilder:
    """Builds the lifted graph of a program: parameters, buffers and constants are inputs.

    Args:
        module: the exported module.
        merged: the graph of the capture, with formulas in it.
        captured: the first capture, of which `merged` is the graph.
        arguments: the example arguments.
        axes: their dynamic axes.
    """

    def __init__(
        self, module: Module, merged: Graph, captured: Captured, arguments: Arguments, axes: AxisMap
    ) -> None:
        self.module, self.merged, self.captured = module, merged, captured
        self.arguments, self.axes = arguments, axes
        self.allows_arrays = False  # functions of NumPy, in a program that is taken apart
        self.graph = Graph()
        self.state: dict[str, Tensor] = {}
        self.constants: dict[str, Tensor] = {}
        self.submodules: dict[str, GraphModule] = {}
        self.input_specs: list[InputSpec] = []
        self.output_specs: list[OutputSpec] = []
        self.by_tensor: dict[int, Node] = {}
        self.by_leaf: dict[int, Node] = {}

    def build(self, leaves: Sequence[tuple[str, Any]]) -> tuple[GraphModule, ExportGraphSignature]:
        """Build the graph.

        Args:
            leaves: for each leaf of the result ("tensor", index of the output), ("input", index),
                ("same", earlier leaf) or ("value", a value or a formula).

        Raises: ExportError: it calls what a program cannot call.
        """
        placeholders = [node for node in self.merged.nodes if node.op == "placeholder"]
        self.add_state()
        self.add_constants(placeholders)
        self.add_user_inputs()
        pairs = list(zip(placeholders, self.captured.inputs, strict=True))
        sources = {n: self.input_node(source) for n, source in pairs if source.kind != "number"}
        rates = {n: source.holder[source.key] for n, source in pairs if source.kind == "number"}
        for node, target in sources.items():
            target.meta.update({k: node.meta[k] for k in ("shape", "dtype") if k in node.meta})
        symbols = SymbolNodes(self.graph, self.axes, self.by_leaf)
        copier = GraphCopier(self.graph, self.submodules, symbols.node_of, self.allows_arrays)
        copier.copies.update(sources | rates)
        constants = {str(n.target): self.by_tensor[id(n)] for n in self.constant_nodes()}
        copier.run(self.merged, constants)
        self.add_outputs(copier, placeholders, leaves)
        root: dict[str, Any] = dict(self.submodules)
        self.graph.eliminate_dead_code()
        self.graph.lint()
        return GraphModule(root, self.graph), ExportGraphSignature(
            self.input_specs, self.output_specs
        )

    # Inputs ---------------------------------------------------------------------------------

    def add_state(self) -> None:
        """Add every parameter and buffer as an input."""
        kept = set(self.module.state_dict())
        named = [
            (InputKind.PARAMETER, "p", self.module.named_parameters(remove_duplicate=False)),
            (InputKind.BUFFER, "b", self.module.named_buffers(remove_duplicate=False)),
        ]
        for kind_of_input, prefix, tensors in named:
            for path, tensor in tensors:
                self.state[path] = tensor
                if id(tensor) in self.by_tensor:  # tied weights: one input
                    continue
                is_persistent = None if prefix == "p" else path in kept
                node = self.add_input(f"{prefix}_{path}", tensor)
                spec = InputSpec(kind_of_input, TensorArgument(node.name), path, is_persistent)
                self.input_specs.append(spec)

    def add_constants(self, placeholders: Sequence[Node]) -> None:
        """Add tensors that are neither state nor arguments, and constants, as inputs."""
        for source in self.captured.inputs:
            if source.kind == "tensor" and id(source.tensor) not in self.by_tensor:
                self.add_constant(source.name, source.tensor.detach(), id(source.tensor))
            elif source.kind == "number" and self.allows_arrays:
                continue  # the learning rate of a training step: a number in the graph
            elif source.kind not in ("tensor", "argument"):
                raise ExportError(f"it reads {source.name}, which is no input, weight or buffer")
        for node in self.constant_nodes():
            self.add_constant(
                f"lifted_{node.name}", wrap(self.merged.constants[str(node.target)]), id(node)
            )

    def constant_nodes(self) -> list[Node]:
        """Return the constants that are used, each once."""
        unique: dict[str, Node] = {}
        for node in self.merged.nodes:
            if node.op == "get_attr" and node.users:
                unique.setdefault(str(node.target), node)
        return list(unique.values())

    def add_constant(self, name: str, tensor: Tensor, key: int) -> None:
        """Add a tensor that is the same in every call."""
        node = self.add_input(f"c_{name}", tensor)
        self.by_tensor[key] = node
        self.constants[node.name] = tensor
        self.input_specs.append(
            InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), node.name)
        )

    def add_input(self, name: str, tensor: Tensor) -> Node:
        """Add a placeholder for a tensor."""
        node = self.graph.placeholder(re.sub(r"\W", "_", name))
        node.target = node.name
        shape = tuple(tensor.shape)
        node.meta.update(shape=shape, dtype=tensor._array.dtype, line=None)
        self.by_tensor.setdefault(id(tensor), node)
        return node

    def add_user_inputs(self) -> None:
        """Add the arguments of the module; those that are no tensors become constants."""
        names = leaf_names(self.arguments)
        for index, (name, value) in enumerate(zip(names, self.arguments.leaves, strict=True)):
            if not isinstance(value, Tensor):
                self.input_specs.append(
                    InputSpec(InputKind.USER_INPUT, ConstantArgument(name, value))
                )
                continue
            shape = tuple(
                self.axes.formulas.get((index, axis), size) for axis, size in enumerate(value.shape)
            )
            node = self.graph.placeholder(name)
            node.target = node.name
            node.meta.update(shape=shape, dtype=value._array.dtype, line=None)
            self.by_leaf[index] = node
            self.input_specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name)))

    def input_node(self, source: Any) -> Node:
        """Return the input of the program for an input of the capture."""
        if source.kind == "argument":
            return self.by_leaf[source.index]
        return self.by_tensor[id(source.tensor)]

    # Outputs --------------------------------------------------------------------------------

    def add_outputs(
        self, copier: GraphCopier, placeholders: Sequence[Node], leaves: Sequence[tuple[str, Any]]
    ) -> None:
        """Add the output node: new values of buffers and inputs first, then what is returned."""
        values = self.merged.output_node().args[0]
        results: list[Any] = []
        for position, number in sorted(self.merged.writes.items()):
            target = self.input_node(self.captured.inputs[number])
            value = copier.argument(values[position])
            spec = next(s for s in self.input_specs if s.arg.name == target.name)
            is_buffer = spec.kind is not InputKind.USER_INPUT
            use = OutputKind.BUFFER_MUTATION if is_buffer else OutputKind.USER_INPUT_MUTATION
            results.append(value)
            path = spec.target if is_buffer else target.name
            self.output_specs.append(OutputSpec(use, TensorArgument(value.name), path))
        returned: list[Any] = []
        for leaf_type, value in leaves:
            match leaf_type:
                case "tensor":
                    returned.append(copier.argument(values[value]))
                case "input":
                    returned.append(copier.argument(placeholders[value]))
                case "same":
                    returned.append(returned[value])
                case _:
                    returned.append(copier.argument(value))
        for value in returned:
            is_node = isinstance(value, Node)
            argument = TensorArgument(value.name) if is_node else ConstantArgument("", value)
            self.output_specs.append(OutputSpec(OutputKind.USER_OUTPUT, argument))
        self.graph.output((*results, *returned))


def leaf_names(arguments: Arguments) -> list[str]:
    """Return a name for each leaf of the arguments."""
    args_spec, kwargs_spec = arguments.spec.children_specs
    children = [*args_spec.children_specs, *kwargs_spec.children_specs]
    names = []
    for name, child in zip(arguments.names, children, strict=True):
        count = child.num_leaves
        names += [name] if child.type is None else [f"{name}_{index}" for index in range(count)]
    return names


class SymbolNodes:
    """Adds the nodes of sizes, right behind the inputs: `sym_size(x, 0)`.

    Args:
        graph: the graph, which has its inputs already.
        axes: the dynamic axes.
        by_leaf: the inputs by their number among the arguments.
    """

    def __init__(self, graph: Graph, axes: AxisMap, by_leaf: Mapping[int, Node]) -> None:
        self.graph, self.axes, self.by_leaf = graph, axes, by_leaf
        self.nodes: dict[Formula, Node] = {}
        self.last = graph._root.prev

    def node_of(self, formula: Formula) -> Node:
        """Return the node that computes a formula of symbols."""
        if formula not in self.nodes:
            if isinstance(formula, Size):
                node = self.symbol_node(formula)
            else:
                assert isinstance(formula, Call)
                sides = [
                    self.node_of(side) if isinstance(side, Size | Call) else side
                    for side in (formula.left, formula.right)
                ]
                node = self.insert(getattr(operator, formula.op), tuple(sides))
            self.nodes[formula] = node
        return self.nodes[formula]

    def symbol_node(self, size: Size) -> Node:
        """Return the node of a symbol: an axis of an input, or what an axis is a formula of."""
        entries = self.axes.formulas.items()
        for (leaf, axis), formula in entries:
            if formula == size:
                return self.insert(sym_size, (self.by_leaf[leaf], axis))
        for (leaf, axis), formula in entries:
            if size in symbols_of(formula):
                return self.undo(formula, self.insert(sym_size, (self.by_leaf[leaf], axis)))
        raise ExportError(f"no input has the size {size.name}")

    def undo(self, formula: Formula, node: Node) -> Node:
        """Return the node of the size in a formula, from that of the formula's value."""
        inverse = {"mul": operator.floordiv, "add": operator.sub, "sub": operator.add}
        while isinstance(formula, Call):
            node = self.insert(inverse[formula.op], (node, formula.right))
            formula = formula.left
        return node

    def insert(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Node:
        """Add a node behind the last one of a size."""
        with self.graph.inserting_after(self.last):
            node = self.graph.call_function(function, args)
        node.meta.update(number=True, line=None)
        self.last = node
        return node


class GraphCopier:
    """Copies a merged graph into a program's: functions of programs, and nodes for formulas.

    Args:
        graph: where the nodes are added.
        submodules: takes the graphs of control flow, by name.
        symbol_node: returns the node of a formula of symbols.
    """

    def __init__(
        self, graph: Graph, submodules: dict[str, GraphModule],
        symbol_node: Callable[[Formula], Node], allows_arrays: bool = False,
    ) -> None:  # fmt: skip
        self.graph, self.submodules, self.symbol_node = graph, submodules, symbol_node
        self.allows_arrays = allows_arrays
        self.copies: dict[Node, Node] = {}
        self.local: dict[Formula, Node] = {}
        self.by_index: dict[int, Node] = {}

    def run(self, merged: Graph, constants: Mapping[str, Node]) -> None:
        """Copy every step; `constants` are the nodes that take the place of constants."""
        for node in merged.nodes:
            self.by_index[node.meta.get("index", -1)] = node
            if node.op == "get_attr":
                if node.users:
                    self.copies[node] = constants[str(node.target)]
            elif node.op == "call_function":
                self.copies[node] = self.copy(node)

    def copy(self, node: Node) -> Node:
        """Copy one step."""
        replaced = replace_primitive(node)
        target, args, kwargs = replaced or (node.target, node.args, node.kwargs)
        if name_of_function(target) is None and not self.allows_arrays:
            self.refuse(node)
        args, kwargs = in_order(target, args, kwargs)
        if any(isinstance(leaf, Graph) for leaf in flatten(args)):
            args = self.with_subgraphs(target, args)
        else:
            args = self.argument(args)
        copied = self.graph.call_function(target, args, self.argument(kwargs))
        copied.meta = {key: value for key, value in node.meta.items() if key not in CAPTURE_META}
        return copied

    def refuse(self, node: Node) -> None:
        """Raise the error for a step that no program can have."""
        name = getattr(node.target, "__module__", "") or ""
        called = f"{name.partition('.')[0]}.{short_name(node.target, '?')}".lstrip(".")
        raise ExportError(
            f"{node.meta.get('line') or '?'}: {called} of arrays is no op of a program",
            hint="write it with functions of torch",
        )

    def argument(self, value: Any) -> Any:
        """Return an argument with nodes of this graph, and nodes in place of formulas."""

        def converted(leaf: Any) -> Any:
            if isinstance(leaf, Node):
                return self.copies[leaf]
            if isinstance(leaf, Size | Call):
                return self.size_node(leaf)
            return dtypes.of(leaf) if isinstance(leaf, np.dtype) else leaf

        return map_aggregate(value, converted)

    def size_node(self, formula: Formula) -> Node:
        """Return the node that computes a formula, which may name axes of values."""
        if all(size.node < 0 for size in symbols_of(formula)):
            return self.symbol_node(formula)
        if formula in self.local:
            return self.local[formula]
        if isinstance(formula, Size):
            source = self.copies[self.by_index[formula.node]]
            node = self.graph.call_function(sym_size, (source, formula.axis))
        else:
            assert isinstance(formula, Call)
            sides = [
                self.size_node(side) if isinstance(side, Size | Call) else side
                for side in (formula.left, formula.right)
            ]
            node = self.graph.call_function(getattr(operator, formula.op), tuple(sides))
        node.meta.update(number=True, line=None)
        self.local[formula] = node
        return node

    def with_subgraphs(self, target: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of control flow, with submodules in place of graphs."""
        graphs = [leaf for leaf in args if isinstance(leaf, Graph)]
        formulas = list(dict.fromkeys(f for graph in graphs for f in symbol_formulas(graph)))
        sizes = tuple(self.symbol_node(formula) for formula in formulas)
        names = iter(subgraph_names(target, self.submodules))
        converted: list[Any] = []
        for value in args:
            if isinstance(value, Graph):
                name = next(names)
                self.submodules[name] = copy_subgraph(value, formulas, self.allows_arrays)
                converted.append(self.graph.get_attr(name))
            else:
                converted.append(self.argument(value))
        # `cond`, `while_loop` and `scan_flat` hand these to their graphs as the last inputs.
        converted[OPERANDS] = (*converted[OPERANDS], *sizes)
        return tuple(converted)


def in_order(
    target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the arguments of a call as its function takes them.

    A capture has the inputs of an op first, also where a setting comes between them.
    """
    op = getattr(target, "op", None)
    if op is None:
        return args, kwargs
    names = list(op.signature.parameters)
    if names[: len(args)] == list(op.inputs[: len(args)]):
        return args, kwargs
    values = {**dict(zip(op.inputs, args, strict=False)), **kwargs}
    return (), {name: values[name] for name in names if name in values}


def subgraph_names(target: Any, taken: Mapping[str, Any]) -> list[str]:
    """Return unused names for the graphs of a node of control flow."""
    stems = {
        "cond": ("true_graph", "false_graph"), "while_loop": ("cond_graph", "body_graph"),
        "scan_flat": ("combine_graph",),
    }[target.__name__]  # fmt: skip
    count = sum(name.startswith(f"{stems[0]}_") for name in taken)
    return [f"{stem}_{count}" for stem in stems]


def symbol_formulas(graph: Graph) -> list[Formula]:
    """Return the formulas of symbols in the arguments of a graph, and of the graphs in it."""
    formulas: list[Formula] = []
    for node in graph.nodes:
        for leaf in flatten((node.args, node.kwargs)):
            if isinstance(leaf, Graph):
                formulas += symbol_formulas(leaf)
            elif isinstance(leaf, Size | Call):
                sizes = symbols_of(leaf)
                is_global = all(size.node < 0 for size in sizes)
                formulas += [leaf] if is_global else [size for size in sizes if size.node < 0]
    return formulas


def copy_subgraph(
    merged: Graph, formulas: Sequence[Formula], allows_arrays: bool = False
) -> GraphModule:
    """Return the graph of a branch as a module; `formulas` are its last inputs."""
    graph = Graph()
    submodules: dict[str, GraphModule] = {}
    symbols: dict[Formula, Node] = {}
    copier = GraphCopier(graph, submodules, symbols.__getitem__, allows_arrays)
    for node in merged.nodes:
        if node.op == "placeholder":
            copier.by_index[node.meta.get("index", -1)] = node
            copied = graph.placeholder(node.name)
            copied.target = copied.name
            copied.meta = {
                key: value for key, value in node.meta.items() if key not in CAPTURE_META
            }
            copier.copies[node] = copied
    for index, formula in enumerate(formulas):
        symbols[formula] = graph.placeholder(f"size_{index}")
        symbols[formula].target = symbols[formula].name
        symbols[formula].meta.update(number=True, line=None)
    copier.run(merged, {})
    graph.output(copier.argument(merged.output_node().args[0]))
    graph.eliminate_dead_code()
    graph.lint()
    return GraphModule(dict(submodules), graph)
