"""What translations of programs into other languages share: ONNX's and C++'s.

A translation is a table with one short entry for each function that programs call. An op without an
entry is taken apart: the module is exported again, with that op recorded by what its definition
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

from ..core.op import Op
from ..fx.graph_module import GraphModule
from .functions import name_of_function
from .program import ExportedProgram

__all__ = [
    "Unsupported", "function_name", "missing_ops", "registrar", "take_apart", "take_name",
]  # fmt: skip

Entry = Callable[..., Any]


class Unsupported(Exception):
    """An entry cannot translate these settings; the message says which."""


def registrar(table: dict[str, Entry]) -> Callable[..., Callable[[Entry], Entry]]:
    """Return a decorator that adds an entry to a table, under one or more names."""

    def entry(*names: str) -> Callable[[Entry], Entry]:
        """Register an entry for functions of these names."""

        def register(function: Entry) -> Entry:
            for name in names:
                table[name] = function
            return function

        return register

    return entry


def take_name(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, with a number behind it if need be, and take it.

    >>> from edutorch.export.translation import take_name
    >>> take_name("add", {"add", "add_1"})
    'add_2'
    """
    candidate, count = name, 0
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    taken.add(candidate)
    return candidate


def function_name(target: Any) -> str:
    """Return the name of a function in tables: "op:relu", "new:zeros", "numpy:exp"."""
    name = name_of_function(target)
    if name is not None:
        return name
    home = (getattr(target, "__module__", "") or "numpy").partition(".")[0]
    return f"{home}:{getattr(target, '__name__', '?')}"


def missing_ops(module: GraphModule, table: Container[str]) -> set[str]:
    """Return the names of the ops of a graph, and of its branches, that have no entry."""
    names: set[str] = set()
    for node in module.graph.nodes:
        op: Op | None = getattr(node.target, "op", None)
        if op is not None and f"op:{op.name}" not in table:
            names.add(op.name)
    for _, branch in module.named_children():
        if isinstance(branch, GraphModule):
            names |= missing_ops(branch, table)
    return names


def take_apart(
    program: ExportedProgram, table: Container[str], further: Iterable[str] = ()
) -> ExportedProgram:
    """Return a program whose ops without an entry are recorded by what their definitions call.

    Args:
        further: names of ops that are taken apart although they have an entry.
    """
    apart = missing_ops(program.graph_module, table) | set(further)
    return program.run_decompositions(lambda op: op.name in apart) if apart else program
