"""Compares the captures of a module, and writes what differs between them as formulas of sizes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..fx.graph import Graph
from ..fx.node import Node, short_name
from ..ops.creation import CREATIONS
from .errors import ExportError
from .formulas import Formula, Size, evaluate, solve
from .samples import Sample

__all__ = ["merge_captures", "merge_values"]


def merge_captures(samples: Sequence[Sample]) -> Graph:
    """Return the graph of the first capture, with formulas where the captures differ.

    The last capture is not used to find formulas: it is what they are compared with.

    Args:
        samples: captures at different sizes, or a single one.

    Raises: ExportError: the graph, or a number in it, does not follow from the sizes.
    """
    graphs = [sample.captured.graph for sample in samples]
    merged = copy.deepcopy(graphs[0])
    if len(samples) == 1:
        return merged
    symbols: dict[Formula, list[int]] = {
        size: [sample.sizes[size] for sample in samples] for size in samples[0].sizes
    }
    Comparison(graphs, symbols).merge_into(merged)
    return merged


def merge_values(samples: Sequence[Sample], values: Sequence[Any]) -> Any:
    """Return a value of Python that the captures returned, or its formula.

    Raises: ExportError: it does not follow from the sizes.
    """
    symbols = {size: [sample.sizes[size] for sample in samples] for size in samples[0].sizes}
    if all(type(value) in (int, float) for value in values):
        formula = checked_solution(values, symbols)
        if formula is not None:
            return formula
    elif all(value == values[0] for value in values):
        return values[0]
    raise ExportError(f"a returned number does not follow from the sizes: it was {list(values)}")


def checked_solution(values: Sequence[Any], bases: dict[Any, list[int]]) -> Formula | None:
    """Return a formula of all values but the last that is true of that as well."""
    formula = solve(values[:-1], {base: counts[:-1] for base, counts in bases.items()})
    if formula is None:
        return None
    predicted = evaluate(formula, {base: counts[-1] for base, counts in bases.items()})
    return formula if abs(predicted - values[-1]) <= 1e-12 * abs(values[-1]) else None


class Comparison:
    """Compares graphs of several captures node by node.

    Args:
        graphs: the graphs, all of the same function.
        symbols: the size of each symbol in each capture.
    """

    def __init__(self, graphs: Sequence[Graph], symbols: dict[Formula, list[int]]) -> None:
        self.nodes = [list(graph.nodes) for graph in graphs]
        self.index = {node: i for nodes in self.nodes for i, node in enumerate(nodes)}
        self.symbols = symbols
        self.shapes: dict[int, tuple[Formula, ...]] = {}  # by the index of the node

    def merge_into(self, merged: Graph) -> None:
        """Write formulas into a copy of the first graph."""
        targets = list(merged.nodes)
        self.check_structure()
        for index, node in enumerate(targets):
            node.meta["index"] = index  # further nodes come between, and formulas name these
            column = [nodes[index] for nodes in self.nodes]
            local = self.local_sizes(column)
            if node.op == "get_attr":
                targets[index] = self.merge_constant(merged, node, column)
            else:
                node._update(
                    self.merge([n.args for n in column], column, local, targets),
                    self.merge([n.kwargs for n in column], column, local, targets),
                )
            self.merge_shape(node, index, column)

    def check_structure(self) -> None:
        """Raise ExportError at the first node in which the graphs differ."""
        for column in zip(*self.nodes, strict=False):
            first = column[0]
            other = next((n for n in column if self.identity(n) != self.identity(first)), None)
            if other is not None:
                raise self.depends_on_size(first, other)
        lengths = [len(nodes) for nodes in self.nodes]
        if len(set(lengths)) > 1:
            raise self.depends_on_size(self.nodes[0][-1], self.nodes[1][-1])

    def identity(self, node: Node) -> tuple[Any, ...]:
        """Return what must be the same of a node in all captures."""
        arguments = [self.index.get(argument) for argument in node.all_input_nodes]
        target = "constant" if node.op == "get_attr" else node.target
        return node.op, target, arguments, node.meta.get("dtype")

    def depends_on_size(self, first: Node, other: Node) -> ExportError:
        """Return the error for graphs that differ at these nodes."""
        line = first.meta.get("line") or other.meta.get("line") or "?"
        sizes = [
            ", ".join(f"{size.name}={counts[i]}" for size, counts in self.symbols.items())
            for i in (0, 1)
        ]
        lengths = [len(nodes) for nodes in self.nodes[:2]]
        names = [short_name(node.target, node.op) for node in (first, other)]
        return ExportError(
            f"{line}: the steps depend on a size: {lengths[0]} of them at {sizes[0]}, {lengths[1]} "
            f"at {sizes[1]}; the first that differs is {names[0]} or {names[1]}",
            hint="a loop over an axis is torch.scan, or torch.while_loop; Dim.STATIC fixes a size",
        )

    def local_sizes(self, column: Sequence[Node]) -> dict[Formula, list[int]]:
        """Return the axes of a node's inputs that differ between the captures."""
        sizes: dict[Formula, list[int]] = {}
        for inputs in zip(*(node.all_input_nodes for node in column), strict=True):
            shapes = [node.meta.get("shape", ()) for node in inputs]
            if len({len(shape) for shape in shapes}) > 1:
                continue
            for axis, counts in enumerate(zip(*shapes, strict=True)):
                if len(set(counts)) > 1:
                    name = f"{inputs[0].name}.shape[{axis}]"
                    sizes[Size(name, self.index[inputs[0]], axis)] = list(counts)
        return sizes

    def merge(
        self, values: Sequence[Any], column: Sequence[Node], local: dict[Formula, list[int]],
        targets: Sequence[Node],
    ) -> Any:  # fmt: skip
        """Return the arguments of the first capture, with formulas where they differ."""
        first = values[0]
        if isinstance(first, Node):
            return targets[self.index[first]]
        if isinstance(first, Graph):
            merged = copy.deepcopy(first)
            Comparison(values, self.symbols).merge_into(merged)
            return merged
        if isinstance(first, tuple | list | dict | slice):
            return self.merge_container(values, column, local, targets)
        if all(type(value) is type(first) for value in values):
            if type(first) in (int, float) and any(value != first for value in values):
                return self.number(values, column[0], local)
            if type(first) not in (int, float, bool, str) or all(v == first for v in values):
                return first
        raise self.not_explained(values, column[0])

    def merge_container(
        self, values: Sequence[Any], column: Sequence[Node], local: dict[Formula, list[int]],
        targets: Sequence[Node],
    ) -> Any:  # fmt: skip
        """Merge tuples, lists, dicts or slices element by element."""
        first = values[0]
        if isinstance(first, dict):
            return {
                key: self.merge([v[key] for v in values], column, local, targets) for key in first
            }
        if isinstance(first, slice):
            bounds = [(value.start, value.stop, value.step) for value in values]
            return slice(*self.merge(bounds, column, local, targets))
        if len({len(value) for value in values}) > 1:
            raise self.not_explained(values, column[0])
        parts = [self.merge(p, column, local, targets) for p in zip(*values, strict=True)]
        if isinstance(first, list):
            return parts
        container: Any = type(first)
        return container(*parts) if hasattr(first, "_fields") else tuple(parts)

    def number(self, values: Sequence[Any], node: Node, local: dict[Formula, list[int]]) -> Formula:
        """Return the formula of a number that differs."""
        for bases in (self.symbols, {**self.symbols, **local}):
            formula = checked_solution(values, bases)
            if formula is not None:
                return formula
        raise self.not_explained(values, node)

    def not_explained(self, values: Sequence[Any], node: Node) -> ExportError:
        line, name = node.meta.get("line") or "?", short_name(node.target, node.op)
        sizes = {size.name: ", ".join(map(str, counts)) for size, counts in self.symbols.items()}
        return ExportError(
            f"{line}: {name} gets a value that does not follow from the sizes: "
            f"{', '.join(map(str, values))}",
            sizes, "a mask or index of a size wants to be made by torch.arange, zeros or full",
        )  # fmt: skip

    def merge_shape(self, node: Node, index: int, column: Sequence[Node]) -> None:
        """Write the shape of a node as formulas of the symbols."""
        shapes = [n.meta.get("shape") for n in column]
        if shapes[0] is None or len({len(shape) for shape in shapes}) > 1:
            return
        bases = dict(self.symbols)
        for argument in column[0].all_input_nodes:
            position = self.index[argument]
            rows = [nodes[position].meta.get("shape", ()) for nodes in self.nodes]
            for formula, counts in zip(
                self.shapes.get(position, ()), zip(*rows, strict=True), strict=False
            ):
                if not isinstance(formula, int) and formula is not None:
                    bases.setdefault(formula, list(counts))
        shape = []
        for counts in zip(*shapes, strict=True):
            formula = checked_solution(counts, self.symbols)
            shape.append(checked_solution(counts, bases) if formula is None else formula)
        node.meta["shape"] = self.shapes[index] = tuple(shape)

    def merge_constant(self, merged: Graph, node: Node, column: Sequence[Node]) -> Node:
        """Return the node of a constant; of one that differs, a call that makes it of the sizes."""
        arrays = [n.graph.constants[str(n.target)] for n in column]
        first = arrays[0]
        same = all(
            array.shape == first.shape and array.tobytes() == first.tobytes() for array in arrays
        )
        if same:
            return node
        with merged.inserting_before(node):
            made = self.creation_of(merged, arrays)
        if made is None:
            user = next(iter(column[0].users), column[0])
            shapes = [tuple(array.shape) for array in arrays]
            raise self.not_explained([f"a constant of shape {shape}" for shape in shapes], user)
        made.meta = dict(node.meta)
        return made

    def creation_of(self, merged: Graph, arrays: Sequence[np.ndarray]) -> Node | None:
        """Return a node that makes a constant which depends on sizes: `full` or `arange`."""
        dtype = {"dtype": dtypes.of(arrays[0].dtype)}
        if all(array.size == 1 for array in arrays) and arrays[0].dtype.kind in "if":
            formula = checked_solution([array.item() for array in arrays], self.symbols)
            if formula is not None:
                return merged.call_function(CREATIONS["full"], (arrays[0].shape, formula), dtype)
        counts = [len(array) for array in arrays if array.ndim == 1]
        if len(counts) == len(arrays) and arrays[0].dtype.kind == "i":
            length = checked_solution(counts, self.symbols)
            ramps = all(np.array_equal(array, np.arange(len(array))) for array in arrays)
            if length is not None and ramps:
                return merged.call_function(CREATIONS["arange"], (length,), dtype)
        return None
