"""Collate functions, which make one batch of a list of samples."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...dtypes import float64
from ...errors import EdutorchError, ShapeError
from ...ops import as_tensor, stack, tensor

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

Collate = Callable[..., Any]
CollateMap = Mapping[type | tuple[type, ...], Collate]
"""A function for each type, or for each of several types."""


class CollateError(EdutorchError, TypeError):
    """Samples contain a value that cannot be collated."""


def default_collate(batch: Sequence[Any]) -> Any:
    """Make a batch of samples: tensors and numbers are stacked, containers are kept.

    Raises: ShapeError: tensors of different shapes. CollateError (a TypeError): not a
        tensor, array, number, text, or a container of these.

    >>> default_collate([(tensor([1.0]), 0), (tensor([2.0]), 1)])
    [tensor([[1.],
            [2.]]), tensor([0, 1])]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(
    batch: Sequence[Any],
    *,
    collate_fn_map: CollateMap | None = None,
) -> Any:
    """Make a batch of samples with a function for each type in them.

    Args:
        batch: the samples, at least one.
        collate_fn_map: a function for each type, called as
            `function(values, collate_fn_map=collate_fn_map)`. Containers need none.

    Raises: ShapeError: containers of different lengths. CollateError: no function for a type.

    >>> collate([(1, "a"), (2, "b")], collate_fn_map={int: lambda values, **_: tensor(values),
    ...     str: lambda values, **_: "".join(values)})
    [tensor([1, 2]), 'ab']
    """
    first = batch[0]
    function = find_function(first, collate_fn_map or {})
    if function is not None:
        if any(sample is None for sample in batch):
            position = next(i for i, sample in enumerate(batch) if sample is None)
            raise uncollatable_error(None, f"; sample[{position}] is None")
        return function(batch, collate_fn_map=collate_fn_map)

    def collate_values(values: Sequence[Any]) -> Any:
        return collate(values, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        named = {key: collate_values([sample[key] for sample in batch]) for key in first}
        return mapping_like(first, named)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*map(collate_values, transpose_samples(batch)))
    if isinstance(first, tuple):
        # A list, as PyTorch has returned since its first versions.
        return list(map(collate_values, transpose_samples(batch)))
    if isinstance(first, Sequence):
        return sequence_like(first, list(map(collate_values, transpose_samples(batch))))
    raise uncollatable_error(first)


def uncollatable_error(value: object, where: str = "") -> CollateError:
    """Return the error for a value without a collate function."""
    return CollateError(
        "default_collate",
        "batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {type(value)}{where}",
        hint="does __getitem__ end without `return`?" if value is None
        else "convert it in the dataset, or give the DataLoader a collate_fn",
    )  # fmt: skip


def find_function(value: object, functions: CollateMap) -> Collate | None:
    # The exact class first: a bool is an int as well, and a table may have a function for both.
    exact = functions.get(type(value))
    if exact is not None:
        return exact
    return next((function for cls, function in functions.items() if isinstance(value, cls)), None)


def mapping_like(first: Mapping[Any, Any], named: dict[Any, Any]) -> Mapping[Any, Any]:
    """Make a mapping of the class of `first`, if that is possible, otherwise a dict."""
    if type(first) is dict:
        return named
    try:
        if isinstance(first, MutableMapping):
            result = copy.copy(first)  # keeps other state, such as a default factory
            result.update(named)
            return result
        return type(first)(named)  # type: ignore[call-arg]
    except TypeError:
        return named


def sequence_like(first: Sequence[Any], values: list[Any]) -> Sequence[Any]:
    """Make a sequence of the class of `first`, if that is possible, otherwise a list."""
    if type(first) is list:
        return values
    try:
        if isinstance(first, MutableSequence):
            result = copy.copy(first)
            for i, value in enumerate(values):
                result[i] = value
            return result
        return type(first)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def transpose_samples(batch: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Transpose a list of samples into a list of their fields."""
    if len({len(sample) for sample in batch}) > 1:
        raise ShapeError(
            "default_collate", "each element in list of batch should be of equal size",
            {f"sample[{i}]": len(sample) for i, sample in enumerate(batch[:4])},
            "cut or pad the samples to one length in the dataset, or give a collate_fn",
        )  # fmt: skip
    return list(zip(*batch, strict=True))


# Collate functions by type -----------------------------------------------------------------------


def collate_tensors(batch: Sequence[Tensor], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Stack tensors."""
    shapes = {tuple(tensor.shape) for tensor in batch}
    if len(shapes) > 1:
        raise ShapeError(
            "default_collate", "stack expects each tensor to be equal size",
            {f"sample[{i}]": tuple(tensor.shape) for i, tensor in enumerate(batch[:4])},
            "cut or pad the samples to one shape in the dataset, or give a collate_fn",
        )  # fmt: skip
    return stack(list(batch))


def collate_arrays(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Stack NumPy arrays and scalars."""
    if np.asarray(batch[0]).dtype.kind not in "biufc":
        raise CollateError(
            "default_collate",
            "batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found {np.asarray(batch[0]).dtype}",
            hint="give numbers, or a list of text instead of an array of it",
        )
    return collate_tensors([as_tensor(array) for array in batch])


def collate_floats(batch: Sequence[float], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Make a float64 tensor of Python floats."""
    return tensor(list(batch), dtype=float64)


def collate_integers(batch: Sequence[int], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Make a tensor of Python ints or bools."""
    return tensor(list(batch))


def collate_text(
    batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None
) -> Sequence[Any]:
    """Return strings unchanged."""
    return batch


# The order counts for subclasses: np.float64 is a float as well, and has to be found as NumPy's.
default_collate_fn_map: dict[type | tuple[type, ...], Collate] = {
    Tensor: collate_tensors,
    np.ndarray: collate_arrays,
    np.generic: collate_arrays,
    float: collate_floats,
    int: collate_integers,
    str: collate_text,
    bytes: collate_text,
}
"""The functions of `default_collate`. A type that is added here is collated everywhere."""


def default_convert(data: object) -> Any:
    """Convert NumPy arrays to tensors, also inside containers; leave the rest unchanged.

    >>> default_convert({"a": 1})
    {'a': 1}
    """
    if isinstance(data, np.ndarray | np.generic) and data.dtype.kind in "biufc":
        return as_tensor(data)
    if isinstance(data, Mapping):
        return mapping_like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return sequence_like(data, [default_convert(item) for item in data])
    return data
