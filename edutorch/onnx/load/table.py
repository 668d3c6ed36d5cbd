"""The table of ONNX's ops: one function each, by the opset in which its meaning began.

An entry is a function of tensors with ONNX's names: inputs first, attributes as keywords. It is
called in two ways. With proxies, when a model is loaded: the torch calls that it makes become nodes
of the graph. If it asks for something that is not known yet (an `if` over values, a size), it
becomes a single node, and is called with tensors when the model runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

_TABLE: dict[str, dict[int, Callable[..., Any]]] = {}


class Parameters(NamedTuple):
    """The signature of an entry.

    Args:
        inputs: the names of the positional parameters.
        variadic: whether any number of inputs may follow.
        attributes: the names of the keywords.
        literals: the inputs that are lists of numbers where they are constants.
        is_tuple: whether the result is a tuple, even if one output is wanted.
        needed: how many inputs, and which attributes, a node must have.
    """

    inputs: tuple[str, ...]
    variadic: bool
    attributes: frozenset[str]
    literals: frozenset[str]
    is_tuple: bool
    needed: tuple[int, frozenset[str]]


def onnx_op(*op_types: str, since: int = 1) -> Callable[[Function], Function]:
    """Return a decorator that enters a function into the table.

    Args:
        op_types: the names of the ops that it computes.
        since: the first opset with this meaning.
    """

    def enter(function: Function) -> Function:
        for op_type in op_types:
            _TABLE.setdefault(op_type, {})[since] = function
        return function

    return enter


def enter(op_type: str, function: Callable[..., Any], since: int = 1) -> None:
    """Enter a function that was made by another one; it gets the op's name."""
    function.__name__ = function.__qualname__ = op_type.lower()
    _TABLE.setdefault(op_type, {})[since] = function


def find_entry(op_type: str, opset: int) -> Callable[..., Any] | None:
    """Return the function of an op at an opset, or None."""
    versions = _entries().get(op_type, {})
    fitting = [since for since in versions if since <= opset]
    return versions[max(fitting)] if fitting else None


def nearest(op_type: str) -> list[str]:
    """Return the ops of the table with the most similar names."""
    return get_close_matches(op_type, _entries(), 2, 0.6)


def names() -> list[str]:
    """Return the names of all ops in the table."""
    return sorted(_entries())


@cache
def parameters_of(function: Callable[..., Any]) -> Parameters:
    """Return the signature of an entry."""
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty]
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return Parameters(
        tuple(p.name for p in positional),
        any(p.kind is p.VAR_POSITIONAL for p in parameters),
        frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY),
        frozenset(p.name for p in positional if str(p.annotation) in ("Ints", "Floats")),
        str(inspect.signature(function).return_annotation) == "Outputs",
        (
            sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in needed),
            frozenset(p.name for p in needed if p.kind is p.KEYWORD_ONLY),
        ),
    )


def _entries() -> dict[str, dict[int, Callable[..., Any]]]:
    import_module(f"{__package__}.ops")  # the files that fill the table
    return _TABLE
