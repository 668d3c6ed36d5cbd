"""Names of `grad_fn` for functions that are composed of several ops here, but one in PyTorch.

    >>> import edutorch
    >>> x = edutorch.ones(2, 2, requires_grad=True)
    >>> edutorch.addmm(x, x, x).grad_fn
    <AddmmBackward0>

An op names its own nodes itself (`node=` of `core.op.Op`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..tensor import LEAF, Tensor
from .multi_output import OutputNode
from .versions import clock

Function = TypeVar("Function", bound=Callable[..., Any])


def recorded_as(name: str | Callable[..., str]) -> Callable[[Function], Function]:
    """Give PyTorch's name to the last node that a composed function records.

    Args:
        name: PyTorch's name for it, or a function of the call's arguments that returns it ("": keep
            its own).
    """

    def decorator(function: Function) -> Function:
        @functools.wraps(function)
        def recorded(*args: Any, **settings: Any) -> Any:
            start = clock()
            result = function(*args, **settings)
            for tensor in (result,) if result.__class__ is Tensor else results_of(result):
                node = tensor._node
                if node is not None and node is not LEAF and node._order > start:
                    name_node(node, name if name.__class__ is str else name(*args, **settings))
            return result

        return recorded  # type: ignore[return-value]

    return decorator


def results_of(result: Any) -> tuple[Tensor, ...]:
    """Return the tensors that a function has returned."""
    parts = result if isinstance(result, tuple) else (result,)
    return tuple(part for part in parts if isinstance(part, Tensor))


def name_node(node: Any, name: Any) -> None:
    """Name a node; an `OutputNode` keeps the name of its op."""
    if name and node.__class__ is not OutputNode:
        node.__class__ = node.op.node_types.get(name) or node.op.node_type_named(name)
