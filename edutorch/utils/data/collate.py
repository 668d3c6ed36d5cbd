"""Many samples become one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...dtypes import float64
from ...errors import EdutorchError, ShapeError
from ...ops import as_tensor, stack, tensor

__all__ = ["default_collate", "default_convert"]


class CollateError(EdutorchError, TypeError):
    """Samples hold something that cannot be made into a batch."""


def default_collate(batch: Sequence[Any]) -> Any:
    """Make a batch of samples: tensors and numbers are stacked, containers are kept.

    Raises: ShapeError: tensors of different shapes. CollateError (a TypeError): not a
        tensor, array, number, text, or a container of these.

    >>> default_collate([(tensor([1.0]), 0), (tensor([2.0]), 1)])
    [tensor([[1.],
            [2.]]), tensor([0, 1])]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stacked(batch)
    if isinstance(first, np.ndarray | np.generic) and first.dtype.kind in "biufc":
        return as_tensor(np.stack(batch))
    if isinstance(first, bool | int):
        return tensor(list(batch))
    if isinstance(first, float):
        return tensor(list(batch), dtype=float64)
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        together = {key: default_collate([sample[key] for sample in batch]) for key in first}
        return together if type(first) is dict else type(first)(together)  # type: ignore[call-arg]
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(each) for each in columns(batch)))
    if isinstance(first, Sequence):
        return [default_collate(each) for each in columns(batch)]
    raise CollateError(
        "default_collate",
        "batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {type(first).__name__}",
        hint="convert it in the dataset, or give the DataLoader a collate_fn",
    )


def stacked(batch: Sequence[Tensor]) -> Tensor:
    shapes = {tuple(each.shape) for each in batch}
    if len(shapes) > 1:
        raise ShapeError(
            "default_collate", "stack expects each tensor to be equal size",
            {f"sample[{i}]": tuple(each.shape) for i, each in enumerate(batch[:4])},
            "cut or pad the samples to one shape in the dataset, or give a collate_fn",
        )  # fmt: skip
    return stack(list(batch))


def columns(batch: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Turn samples of parts into parts of samples."""
    if len({len(sample) for sample in batch}) > 1:
        raise ShapeError(
            "default_collate", "each element in list of batch should be of equal size",
            {f"sample[{i}]": len(sample) for i, sample in enumerate(batch[:4])},
        )  # fmt: skip
    return list(zip(*batch, strict=True))


def default_convert(data: Any) -> Any:
    """Make tensors of NumPy arrays, also inside containers; leave the rest as it is.

    >>> default_convert({"a": 1})
    {'a': 1}
    """
    if isinstance(data, np.ndarray | np.generic) and data.dtype.kind in "biufc":
        return as_tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(each) for each in data))
    if isinstance(data, tuple | list):
        return [default_convert(each) for each in data]
    return data
