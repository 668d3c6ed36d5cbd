"""Batches in parts, one for each device, and outputs in one again. Both have gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...errors import ShapeValueError, warn
from ...ops import cat

__all__ = ["gather", "scatter", "scatter_kwargs"]


def place(device: Any) -> Any:
    """Return a device: an int is a card, and -1 the CPU.

    >>> from edutorch.nn.parallel.scatter_gather import place
    >>> place(1), place(-1), place("cpu")
    ('cuda:1', 'cpu', 'cpu')
    """
    if isinstance(device, int) and not isinstance(device, bool):
        return "cpu" if device < 0 else f"cuda:{device}"
    return device


def is_named(value: Any) -> bool:
    """Whether a value is a named tuple."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Divide tensors along an axis, a part for each device; other values are the same for all.

    Args:
        inputs: a tensor, or tuples, lists and dicts of them.
        target_gpus: the devices. There are fewer parts if the axis is shorter.
        dim: the axis.

    Returns: a part for each device, of the structure of `inputs`.

    >>> nn.parallel.scatter(tensor([1, 2, 3]), ["cpu", "cpu"])
    (tensor([1, 2]), tensor([3]))
    """
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(len(target_gpus), dim)
        return tuple(
            part.to(place(device)) for part, device in zip(parts, target_gpus, strict=False)
        )
    if isinstance(inputs, tuple | list | dict) and len(inputs):
        items = list(inputs.items()) if isinstance(inputs, dict) else inputs
        columns = zip(*(scatter(item, target_gpus, dim) for item in items), strict=False)
        rebuild = rebuilder(inputs)
        return [rebuild(column) for column in columns]
    return [inputs for _ in target_gpus]


def rebuilder(like: Any) -> Callable[[Any], Any]:
    """Return a function that makes a tuple, list or dict of the type of another from its items."""
    if is_named(like):
        return type(like)._make
    return tuple if isinstance(like, tuple) else type(like)


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: Mapping[str, Any] | None, target_gpus: Sequence[Any],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:  # fmt: skip
    """Divide the arguments of a call among devices: as many of the positional as of the named.

    >>> from edutorch.nn.parallel.scatter_gather import scatter_kwargs
    >>> scatter_kwargs((tensor([1, 2]),), None, ["cpu", "cpu"])
    (((tensor([1]),), (tensor([2]),)), ({}, {}))
    """
    positional = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(dict(kwargs), target_gpus, dim)) if kwargs else []
    positional += [()] * (len(named) - len(positional))
    named += [{}] * (len(positional) - len(named))
    return tuple(positional), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Put the outputs of all devices together on one of them.

    Args:
        outputs: one for each device: tensors, or tuples, lists and dicts of them.
        target_device: where the result is.
        dim: along which tensors are joined; numbers become a vector.

    Raises: ValueError: the dicts have different keys.

    >>> nn.parallel.gather([tensor([1, 2]), tensor([3])], "cpu")
    tensor([1, 2, 3])
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        parts = [part.to(place(target_device)) for part in outputs]
        if dim == 0 and not any(part.ndim for part in parts):
            warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; "
                "will instead unsqueeze and return a vector."
            )
            parts = [part.reshape(1) for part in parts]
        return cat(parts, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(set(other) != set(first) for other in outputs):
            raise ShapeValueError(
                "gather", "All dicts must have the same number of keys",
                {f"output {number}": sorted(map(str, d)) for number, d in enumerate(outputs)},
            )  # fmt: skip
        return type(first)(
            (key, gather([output[key] for output in outputs], target_device, dim)) for key in first
        )
    columns = zip(*outputs, strict=True)
    return rebuilder(first)(gather(column, target_device, dim) for column in columns)
