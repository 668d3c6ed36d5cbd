"""Code generation: writes a graph as a Python function."""

from __future__ import annotations

import builtins
import keyword
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .node import INFIX, PREFIX, Node

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["PythonCode"]


@dataclass
class PythonCode:
    """`src`: the source of a function `forward`; `globals`: the values of its free names."""

    src: str
    globals: dict[str, Any] = field(default_factory=dict)


class CodeWriter:
    """Turns nodes into statements, and collects the globals that they refer to."""

    def __init__(self, root_module: str) -> None:
        self.root = root_module
        self.globals: dict[str, Any] = {}

    def add_global(self, name: str, value: Any) -> str:
        """Return a global name for a value: `name`, with a suffix if that is taken."""
        name = re.sub(r"\W", "_", name) or "value"
        candidate, count = name, 0
        while self.globals.get(candidate, value) is not value:
            count += 1
            candidate = f"{name}_{count}"
        self.globals[candidate] = value
        return candidate

    def format_function(self, target: Any) -> str:
        """Return the path of a function: torch.relu, torch.nn.functional.gelu, …"""
        name = getattr(target, "__name__", type(target).__name__)
        if getattr(builtins, name, None) is target:
            return name
        import edutorch

        functional: Any = edutorch.nn.functional
        for path, holder in (("torch", edutorch), ("torch.nn.functional", functional)):
            if getattr(holder, name, None) is target:
                self.globals["torch"] = edutorch
                return f"{path}.{name}"
        module = getattr(target, "__module__", "") or ""
        return self.add_global(f"{module.rpartition('.')[2]}_{name}".strip("_"), target)

    def format_value(self, value: Any) -> str:
        """Return an argument as an expression."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple):
            inside = ", ".join(map(self.format_value, value)) + ("," if len(value) == 1 else "")
            if hasattr(value, "_fields"):
                return f"{self.add_global(type(value).__name__, type(value))}({inside})"
            return f"({inside})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.format_value, value))}]"
        if isinstance(value, dict):
            pairs = (f"{key!r}: {self.format_value(item)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, slice):
            return (
                f"slice({', '.join(map(self.format_value, (value.start, value.stop, value.step)))})"
            )
        if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
            return f"float('{value}')"
        if (
            value is None
            or value is Ellipsis
            or isinstance(value, bool | int | float | complex | str)
        ):
            return repr(value)
        return self.add_global(getattr(value, "__name__", type(value).__name__), value)

    def format_attribute(self, path: str) -> str:
        """Return the path of a parameter or module: self.layers, getattr(self.s, "0")."""
        text = self.root
        for part in path.split("."):
            text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
        return text

    def format_arguments(self, node: Node, first: int = 0) -> str:
        """Return the arguments of a call as source."""
        named = [f"{key} = {self.format_value(value)}" for key, value in node.kwargs.items()]
        return ", ".join([*map(self.format_value, node.args[first:]), *named])

    def format_expression(self, node: Node) -> str:
        """Return the expression that computes a node."""
        target: Any = node.target
        if node.op == "get_attr":
            return self.format_attribute(target)
        if node.op == "call_module":
            return f"{self.format_attribute(target)}({self.format_arguments(node)})"
        if node.op == "call_method":
            return f"{self.format_value(node.args[0])}.{target}({self.format_arguments(node, 1)})"
        if not node.kwargs:
            parts = [self.format_value(argument) for argument in node.args]
            if target in INFIX and len(parts) == 2:
                return f"{parts[0]} {INFIX[target]} {parts[1]}"
            if target in PREFIX and len(parts) == 1:
                return f"{PREFIX[target]}{parts[0]}"
            if getattr(target, "__module__", "") == "_operator" and target.__name__ == "getitem":
                return f"{parts[0]}[{parts[1]}]"
            if target is getattr and isinstance(node.args[1], str) and len(parts) == 2:
                return f"{parts[0]}.{node.args[1]}"
        return f"{self.format_function(target)}({self.format_arguments(node)})"


def write_function(graph: Graph, root_module: str = "self") -> PythonCode:
    """Return a graph as a function. Values are released after their last use."""
    writer = CodeWriter(root_module)
    dead_after = last_uses(graph)
    parameters, lines = [root_module], []
    for node in graph.nodes:
        if node.op == "placeholder":
            name = f"*{node.name}" if str(node.target).startswith("*") else node.name
            if str(node.target).startswith("**"):
                name = f"**{node.name}"
            default = f" = {writer.format_value(node.args[0])}" if node.args else ""
            parameter = str(node.target)
            if (
                parameter != node.name
                and parameter.isidentifier()
                and not keyword.iskeyword(parameter)
            ):
                lines.append(f"{node.name} = {parameter}")  # callers may pass it by that name
                name = parameter
            parameters.append(f"{name}{default}")
            continue
        if node.op == "output":
            line = f"return {writer.format_value(node.args[0])}"
        else:
            line = f"{node.name} = {writer.format_expression(node)}"
            dropped = [dead.name for dead in dead_after.get(node, ())]
            if not node.users:
                dropped.append(node.name)
            line += f";  {' = '.join(dropped)} = None" if dropped else ""
        if node.meta.get("line"):
            previous = node.prev.meta.get("line")
            if node.meta["line"] != previous:
                lines.append(f"# {node.meta['line']}")
        lines.append(line)
    body = "\n".join(f"    {line}" for line in lines or ["pass"])
    return PythonCode(f"def forward({', '.join(parameters)}):\n{body}\n", writer.globals)


def last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """Return, for each node, the values that are not needed after it."""
    seen: set[Node] = set()
    dead_after: dict[Node, list[Node]] = {}
    for node in reversed(graph.nodes):
        for input_node in node.all_input_nodes:
            if input_node not in seen:
                seen.add(input_node)
                dead_after.setdefault(node, []).append(input_node)
    return dead_after
