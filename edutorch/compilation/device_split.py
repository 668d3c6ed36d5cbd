"""Splits a graph captured on a device: what the host computes, and what the device does.

A training step computes a few things on the CPU: counts of steps, which optimizers keep there, and
the Python numbers made from them and from learning rates. They differ from step to step, and a
graph of kernels that is replayed has no arguments. So the host computes them first, by a graph of
its own, and the device reads them from its memory: the numbers are inputs of the device's graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import EdutorchError
from ..fx import Graph, Node, primitives

__all__ = ["Split", "SplitError", "device_of", "split_by_device"]


class SplitError(EdutorchError, RuntimeError):
    """A graph mixes the host and the device in a way that cannot be separated."""


@dataclass
class Split:
    """The two parts of a graph.

    Attributes:
        host, device: their graphs. The device's has the inputs on the device, and then the numbers.
        host_inputs, device_inputs: their inputs, as indices of the inputs of the whole.
        host_outputs, device_outputs: by output of the whole that they compute, the index in theirs.
        scalars: how many outputs of the host, the last ones, are numbers for the device.
    """

    host: Graph = field(default_factory=Graph)
    device: Graph = field(default_factory=Graph)
    host_inputs: list[int] = field(default_factory=list)
    device_inputs: list[int] = field(default_factory=list)
    host_outputs: dict[int, int] = field(default_factory=dict)
    device_outputs: dict[int, int] = field(default_factory=dict)
    scalars: int = 0


def device_of(graph: Graph) -> str | None:
    """Return the name of the device that a graph was captured on, or None for the CPU alone.

    Raises: SplitError: there are several devices.
    """
    names = {str(node.meta.get("device", "cpu")) for node in graph.nodes} - {"cpu"}
    if len(names) > 1:
        raise SplitError("compile", f"the graph has arrays on {' and '.join(sorted(names))}")
    return names.pop() if names else None


def find_host_nodes(graph: Graph) -> set[Node]:
    """Return the nodes that the host computes: on CPU arrays, and numbers made from them alone."""
    host: set[Node] = set()
    for node in graph.nodes:
        if node.op == "output":
            continue
        inputs = node.all_input_nodes
        if "device" in node.meta and not node.meta.get("tuple"):
            is_host = str(node.meta["device"]) == "cpu"
        elif node.op == "placeholder":
            is_host = bool(node.meta.get("number"))
        else:  # a number, or a tuple: it is where its inputs are
            is_host = all(input_ in host for input_ in inputs)
        if is_host and not all(input_ in host for input_ in inputs):
            raise SplitError(
                "compile", f"`{node.name}` moves an array from the device to the host",
                {"line": node.meta.get("line") or "unknown"},
                "move it out of the compiled function",
            )  # fmt: skip
        if is_host:
            host.add(node)
    return host


class Splitter:
    """Copies the nodes of a graph into the two parts."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.split = graph, Split()
        self.host_nodes = find_host_nodes(graph)
        self.host_copies: dict[Node, Node] = {}
        self.device_copies: dict[Node, Node] = {}
        self.needed: dict[Node, Node] = {}  # host node, and the device's placeholder for it

    def run(self) -> Split:
        split = self.split
        inputs_ = [node for node in self.graph.nodes if node.op == "placeholder"]
        for number, node in enumerate(inputs_):
            is_host = node in self.host_nodes
            (split.host_inputs if is_host else split.device_inputs).append(number)
            copies, part = self.part_of(node)
            copies[node] = part.node_copy(node, copies.__getitem__)
        self.last_input = next(iter(reversed(self.device_copies.values())), None)
        for node in self.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            copies, part = self.part_of(node)
            if node not in self.host_nodes:
                self.copy_to_device(node)
            else:
                copies[node] = part.node_copy(node, copies.__getitem__)
        self.finish()
        return split

    def part_of(self, node: Node) -> tuple[dict[Node, Node], Graph]:
        """Return the copies made so far, and the graph, of the part that a node belongs to."""
        if node in self.host_nodes:
            return self.host_copies, self.split.host
        return self.device_copies, self.split.device

    def copy_to_device(self, node: Node) -> None:
        """Copy a node of the device; what it needs of the host becomes an input."""
        if node.target is primitives.to_device:
            (source,) = node.args
            values = (self.number(source), node.meta["dtype"])  # type: ignore[arg-type]
            copied = self.split.device.call_function(primitives.as_array, values)
            copied.meta = dict(node.meta)
        else:
            copied = self.split.device.node_copy(node, self.on_device)
        self.device_copies[node] = copied

    def on_device(self, node: Node) -> Node:
        """Return the copy of an input of a device's node."""
        if node not in self.host_nodes:
            return self.device_copies[node]
        if node.meta.get("number"):
            return self.number(node)
        raise SplitError(
            "compile", f"the device computes with `{node.name}`, an array of the CPU",
            {"line": node.meta.get("line") or "unknown"},
            "move it to the device before the compiled function is called",
        )  # fmt: skip

    def number(self, node: Node) -> Node:
        """Return the device's input for a number, or a 0-d array, of the host."""
        if node not in self.needed:
            graph = self.split.device
            with graph.inserting_after(self.last_input):
                copied = graph.placeholder(node.name)
            copied.meta = {**node.meta, "number": True}
            copied.meta.pop("shape", None)
            self.last_input = self.needed[node] = copied
        return self.needed[node]

    def finish(self) -> None:
        """Add the outputs of both parts, and who writes into which input."""
        split = self.split
        outputs: Any = self.graph.output_node().args[0]
        host_ends: list[Node] = []
        device_ends: list[Node] = []
        for position, node in enumerate(outputs):
            is_host = node in self.host_nodes
            ends, scalars = (
                (host_ends, split.host_outputs) if is_host else (device_ends, split.device_outputs)
            )
            scalars[position] = len(ends)
            ends.append((self.host_copies if is_host else self.device_copies)[node])
        for position, number in self.graph.writes.items():
            is_host = position in split.host_outputs
            part, inputs = (split.host, split.host_inputs) if is_host else (
                split.device, split.device_inputs
            )  # fmt: skip
            inputs_ = split.host_outputs if is_host else split.device_outputs
            part.writes[inputs_[position]] = inputs.index(number)
        split.scalars = len(self.needed)
        host_ends += [self.host_copies[node] for node in self.needed]
        split.host.output(tuple(host_ends))
        split.device.output(tuple(device_ends))
        split.host.lint()
        split.device.lint()


def split_by_device(graph: Graph) -> Split:
    """Split a captured graph into what the host and what the device computes.

    Raises: SplitError: they cannot be separated.

    >>> import edutorch
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> x.meta.update(shape=(2,), dtype=edutorch.float32.numpy, device="strict")
    >>> rate = graph.placeholder("rate")
    >>> rate.meta.update(number=True)
    >>> y = graph.call_function(edutorch.mul, (x, rate))
    >>> y.meta.update(x.meta)
    >>> _ = graph.output((y,))
    >>> split = split_by_device(graph)
    >>> split.host_inputs, split.device_inputs, split.scalars
    ([1], [0], 1)
    """
    return Splitter(graph).run()
