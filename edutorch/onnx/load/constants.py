"""The constants of a graph: parameters, buffers, and numbers that are written into the code."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.tensor import Tensor
from ...fx import Graph, Node
from ...nn import Buffer, Module, Parameter
from .protos import TensorProto
from .reader import read_tensor, readable_name
from .values import Facts, Value, torch


class Constant(NamedTuple):
    """A tensor of the file. Its node is made where it is used first.

    Args:
        path: below the module.
        array: its elements.
        is_weight: whether it may become a parameter.
    """

    path: str
    array: np.ndarray
    is_weight: bool


class Constants:
    """The constants of one graph.

    Args:
        graph: the graph that uses them.
        folder: of the model.
    """

    def __init__(self, graph: Graph, folder: Path | None) -> None:
        self.graph, self.folder = graph, folder
        self.nodes: dict[str, Node] = {}
        self.members: dict[str, Constant | Module] = {}
        self.statistics: set[str] = set()

    def add_tensor(self, tensor: TensorProto, is_weight: bool, name: str = "") -> Constant:
        """Add a tensor of the file."""
        array = read_tensor(tensor, self.folder)
        # Some exporters write weights as Constant nodes: a single number in one is a setting.
        return self.add_array(name or tensor.name, array, is_weight or array.size > 1)

    def add_numbers(self, name: str, value: Any, is_int: bool) -> Constant:
        """Add a number or a list of numbers."""
        return self.add_array(name, np.array(value, np.int64 if is_int else np.float32), False)

    def add_module(self, name: str, module: Module) -> Node:
        """Add the module of a subgraph, and return its node."""
        path = self.free_path(name)
        self.members[path] = module
        return self._get(path, name)

    def add_array(self, name: str, array: np.ndarray, is_weight: bool) -> Constant:
        """Add the elements of a tensor."""
        path = self.free_path(readable_name(name))
        constant = Constant(path, array, is_weight)
        self.members[path] = constant
        return constant

    def node_of(self, value: Value) -> Value:
        """Return the node of a constant, which is made on its first use; others unchanged."""
        if not isinstance(value, Constant):
            return value
        node = self.nodes.get(value.path)
        if node is None or node._erased:
            node = self._get(value.path, value.path)
            dtype = torch.from_numpy(value.array[..., None][:0]).dtype
            node.meta["onnx"] = Facts(dtype, tuple(value.array.shape), value.array)
            self.nodes[value.path] = node
        return node

    def _get(self, path: str, name: str) -> Node:
        return self.graph.create_node("get_attr", path, name=name.replace(".", "_"))

    def free_path(self, name: str) -> str:
        """Return a path for a name: the name itself, if it is a path of attributes."""
        parts = [part for part in re.sub(r"[^\w.]", "_", name, flags=re.ASCII).split(".") if part]
        parts = [safe_part(part) for part in parts] or ["constant"]
        path = ".".join(parts)
        if path in self.members or any(
            other.startswith(f"{path}.") or path.startswith(f"{other}.") for other in self.members
        ):
            path = "_".join(parts)
        count, candidate = 0, path
        while candidate in self.members:
            count += 1
            candidate = f"{path}_{count}"
        return candidate

    def referenced(self) -> dict[str, Any]:
        """Return the members that the graph uses, as modules, parameters and buffers."""
        used = {str(node.target) for node in self.graph.nodes if node.op == "get_attr"}
        return {path: self._member(path) for path in self.members if path in used}

    def _member(self, path: str) -> Any:
        member = self.members[path]
        if isinstance(member, Module):
            return member
        tensor: Tensor = torch.from_numpy(member.array)
        is_trained = member.is_weight and tensor.is_floating_point() and tensor.dim() > 0
        if is_trained and path not in self.statistics and not tensor.dtype.is_storage:
            return Parameter(tensor)
        return Buffer(tensor)


def safe_part(part: str) -> str:
    """Return part of a path that is no keyword, and hides no attribute of modules."""
    taken = part.startswith("_") or hasattr(Module, part) or keyword.iskeyword(part)
    return f"v_{part}" if taken or part in ("training", "graph", "code", "inputs") else part
