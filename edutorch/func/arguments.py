"""What all derivatives of functions share: picking arguments, and the tensors in their trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.autograd.forward_mode import differentiation_input, detach_with_tangents, tangents_of
from ..core.autograd.graph import reachable
from ..core.tensor import LEAF, Tensor
from ..errors import GradientError
from ..modes import current, enable_grad
from ..ops.batching import lift_to_innermost
from ..utils._pytree import TreeSpec, tree_flatten, tree_map_only, tree_unflatten

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


class SelectedArguments:
    """The arguments that a function is differentiated by, made new for it.

    Args:
        name: of the derivative, for errors.
        args: all positional arguments.
        argnums: which of them; a negative one counts from the end.

    Raises: GradientError, TypeError: there is no such argument, or a leaf of its tree is
        not a tensor.
    """

    def __init__(self, name: str, args: Sequence[Any], argnums: Argnums) -> None:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        if not numbers:
            raise GradientError(name, "argnums must not be empty")
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise GradientError(
                    name, f"Got argnum={number}, but only {len(args)} positional inputs"
                )
        self.positions = [number % len(args) for number in numbers]
        if len(set(self.positions)) < len(numbers):
            raise GradientError(name, f"argnums must be different numbers, got {argnums}")
        self.name, self.args, self.is_single = name, list(args), isinstance(argnums, int)
        picked: Any = tuple(args[number] for number in self.positions)
        self.tensors, self.spec = flatten_tensors(name, picked[0] if self.is_single else picked)

    def call(self, func: Function, kwargs: dict[str, Any], tensors: Sequence[Tensor]) -> Any:
        """Call `func` with other tensors in the places of the chosen ones."""
        tree = self.tree(tensors)
        args = list(self.args)
        for number, value in zip(self.positions, (tree,) if self.is_single else tree, strict=True):
            args[number] = value
        return func(*args, **kwargs)

    def tree(self, tensors: Sequence[Any]) -> Any:
        """Arrange something per tensor as the chosen arguments are."""
        return tree_unflatten(tensors, self.spec)


def flatten_tensors(name: str, tree: Any) -> tuple[list[Tensor], TreeSpec]:
    """Return the tensors of a tree, and its shape.

    Raises: TypeError: something else is in it.
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
    func: Function, kwargs: dict[str, Any], chosen: SelectedArguments
) -> tuple[Any, list[Tensor]]:
    """Call `func` on new leaves (or steps in the outer graph); return its result and them."""
    connected = current().grad
    leaves = [differentiation_input(lift_to_innermost(tensor), connected) for tensor in chosen.tensors]
    with enable_grad():
        return chosen.call(func, kwargs, leaves), leaves


def has_outer_graph(outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> bool:
    """Say whether what was computed from our leaves can be differentiated by anything else.

    Leaves of derivatives that are done do not count: nobody can ask for them any more. From
    now on ours are such.
    """
    for leaf in leaves:
        leaf.__dict__["_is_done"] = True
    found = [each for output in outputs for each in (output, *tangents_of(output))]
    nodes = [each if each._node is LEAF else each._node for each in found if each._node]
    return current().grad and any(
        "_is_done" not in edge.__dict__ for edge in reachable(nodes) if isinstance(edge, Tensor)
    )


def split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """Return a function's output, and what it returned besides.

    Raises: GradientError: there should be two, but are not.
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
    """Return a tree with its tensors taken out of the graph (if they move, they still do)."""
    return tree_map_only(Tensor, detach_with_tangents, tree)
