"""Helpers of the function transforms: selection of arguments, and the tensors in their trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.autograd.graph import reachable
from ..core.autograd.tangents import detach_with_tangents, differentiation_input, tangents_of
from ..core.tensor import LEAF, Tensor
from ..errors import GradientError
from ..modes import current, enable_grad
from ..ops.conversion import lift_to_innermost
from ..utils._pytree import TreeSpec, tree_flatten, tree_map_only, tree_unflatten

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


class SelectedArguments:
    """The arguments with respect to which a function is differentiated.

    Args:
        name: the name of the transform, for errors.
        args: all positional arguments.
        argnums: the positions to select; negative ones count from the end.

    Raises: GradientError, TypeError: there is no such argument, or a leaf of its tree is
        not a tensor.
    """

    def __init__(self, name: str, args: Sequence[Any], argnums: Argnums) -> None:
        positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        if not positions:
            raise GradientError(name, "argnums must not be empty")
        for position in positions:
            if not -len(args) <= position < len(args):
                raise GradientError(
                    name, f"Got argnum={position}, but only {len(args)} positional inputs"
                )
        self.positions = [position % len(args) for position in positions]
        if len(set(self.positions)) < len(positions):
            raise GradientError(name, f"argnums must be different numbers, got {argnums}")
        self.name, self.args, self.is_single = name, list(args), isinstance(argnums, int)
        # An int for argnums returns a bare gradient, a tuple of one returns a tuple.
        selected: Any = tuple(args[position] for position in self.positions)
        self.tensors, self.spec = flatten_tensors(name, selected[0] if self.is_single else selected)

    def call(self, func: Function, kwargs: dict[str, Any], tensors: Sequence[Tensor]) -> Any:
        """Call `func` with other tensors in place of the selected ones."""
        tree = self.tree(tensors)
        args = list(self.args)
        for position, value in zip(
            self.positions, (tree,) if self.is_single else tree, strict=True
        ):
            args[position] = value
        return func(*args, **kwargs)

    def tree(self, tensors: Sequence[Any]) -> Any:
        """Arrange one value per tensor in the tree structure of the selected arguments."""
        return tree_unflatten(tensors, self.spec)


def flatten_tensors(name: str, tree: Any) -> tuple[list[Tensor], TreeSpec]:
    """Return the tensors of a tree, and its structure.

    Raises: TypeError: a leaf is not a tensor.
    """
    leaves, spec = tree_flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise TypeError(
                f"{name}: Expected tensors, got {type(leaf).__name__}; "
                "hint: other values can be arguments that are not differentiated by"
            )
    return leaves, spec


def record_call(
    func: Function, kwargs: dict[str, Any], selected: SelectedArguments
) -> tuple[Any, list[Tensor]]:
    """Call `func` on new leaves (or nodes of the outer graph); return its result and these."""
    is_recording = current().grad
    leaves = [
        differentiation_input(lift_to_innermost(tensor), is_recording)
        for tensor in selected.tensors
    ]
    # As PyTorch's transforms do: `no_grad` around them does not reach inside.
    with enable_grad():
        return selected.call(func, kwargs, leaves), leaves


def has_outer_graph(outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> bool:
    """Whether the outputs depend on anything other than `leaves` that can get a gradient.

    Leaves of completed transforms do not count, as their gradients cannot be requested any more.
    This function marks `leaves` as such.
    """
    for leaf in leaves:
        # A mark at the leaf: it is found again through graphs that outlive this call.
        leaf.__dict__["_is_done"] = True
    tensors = [tensor for output in outputs for tensor in (output, *tangents_of(output))]
    nodes = [tensor if tensor._node is LEAF else tensor._node for tensor in tensors if tensor._node]
    return current().grad and any(
        "_is_done" not in edge.__dict__ for edge in reachable(nodes) if isinstance(edge, Tensor)
    )


def split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """Return a function's output and its auxiliary output.

    Raises: GradientError: the result is not a pair.
    """
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise GradientError(
            name,
            "output of the function should be a tuple: (output, aux) if has_aux is True",
            {"returned": type(result).__name__},
        )
    return result


def detach_tree(tree: Any) -> Any:
    """Return a tree with its tensors detached from the graph; they keep their tangents."""
    return tree_map_only(Tensor, detach_with_tangents, tree)
