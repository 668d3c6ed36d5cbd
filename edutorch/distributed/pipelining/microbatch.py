"""Micro-batches: the arguments of a step in parts, and their results put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeError
from ...ops import cat, stack

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec(NamedTuple):
    """Along which axis a tensor is divided."""

    split_dim: int = 0


class _Replicate:
    """Marks an argument that all micro-batches get as it is."""


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, chunks: int,
    args_chunk_spec: Sequence[Any] | None = None,
    kwargs_chunk_spec: Mapping[str, Any] | None = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:  # fmt: skip
    """Return the arguments of each micro-batch.

    Args:
        args, kwargs: of the whole batch. Tensors are divided, other values repeated.
        chunks: how many micro-batches there are.
        args_chunk_spec, kwargs_chunk_spec: along which axes; by default the first.

    Raises: ShapeError: a tensor has fewer rows than there are micro-batches.

    >>> from edutorch.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
    >>> split_args_kwargs_into_chunks((arange(3), 5), {}, 2)
    ([(tensor([0, 1]), 5), (tensor([2]), 5)], [{}, {}])
    """
    named = dict(kwargs or {})
    positional = [
        split_value(value, chunks, args_chunk_spec[at] if args_chunk_spec else None)
        for at, value in enumerate(args)
    ]
    by_name = {
        name: split_value(value, chunks, (kwargs_chunk_spec or {}).get(name))
        for name, value in named.items()
    }
    parts = range(chunks)
    return (
        [tuple(split[part] for split in positional) for part in parts],
        [{name: split[part] for name, split in by_name.items()} for part in parts],
    )


def split_value(value: Any, chunks: int, spec: Any = None) -> list[Any]:
    """Return one argument of each micro-batch."""
    is_whole = isinstance(spec, _Replicate) or spec is _Replicate
    if not isinstance(value, Tensor) or is_whole or value.dim() == 0:
        return [value] * chunks
    dim = 0 if spec is None else spec.split_dim
    if value.shape[dim] < chunks:
        raise ShapeError(
            "pipelining", f"a batch of {value.shape[dim]} cannot be divided into {chunks} parts",
            {"input": tuple(value.shape), "n_microbatches": chunks},
            "take a larger batch, or fewer micro-batches",
        )  # fmt: skip
    return list(value.tensor_split(chunks, dim))


def merge_chunks(chunks: Sequence[Any], chunk_spec: Any = None) -> Any:
    """Put the results of micro-batches together, along their first axis.

    >>> from edutorch.distributed.pipelining.microbatch import merge_chunks
    >>> merge_chunks([ones(1, 2), zeros(2, 2)]).shape
    torch.Size([3, 2])
    """
    first = chunks[0]
    if isinstance(first, tuple | list):
        merged = [merge_chunks(column) for column in zip(*chunks, strict=True)]
        return type(first)(merged)
    if isinstance(first, Mapping):
        return {key: merge_chunks([chunk[key] for chunk in chunks]) for key in first}
    if not isinstance(first, Tensor):
        return first
    return stack(list(chunks)) if first.dim() == 0 else cat(list(chunks))


def check_microbatches(n_microbatches: int) -> None:
    """Raise ValueError unless there is at least one micro-batch."""
    if n_microbatches < 1:
        raise InvalidValueError("pipelining", f"n_microbatches is {n_microbatches}: at least 1")
