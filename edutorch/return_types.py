"""Results with several parts: named tuples that print as PyTorch's do.

>>> max(tensor([[1, 5], [7, 3]]), 1)
torch.return_types.max(
values=tensor([5, 7]),
indices=tensor([1, 0]))
"""

from __future__ import annotations

from typing import Any, NamedTuple


class ValuesIndices(NamedTuple):
    """What was found, and where."""

    values: Any
    indices: Any

    def __repr__(self) -> str:
        return text_of(self)


class SmallestLargest(NamedTuple):
    """Both ends of a range of numbers."""

    min: Any
    max: Any

    def __repr__(self) -> str:
        return text_of(self)


def text_of(result: Any) -> str:
    """Write the parts of a named tuple below each other, each with its name."""
    parts = ",\n".join(
        f"{name}={part!r}" for name, part in zip(result._fields, result, strict=True)
    )
    return f"torch.return_types.{type(result).__name__}(\n{parts})"


class aminmax(SmallestLargest):
    """What `aminmax` returns."""


class cummax(ValuesIndices):
    """What `cummax` returns."""


class cummin(ValuesIndices):
    """What `cummin` returns."""


class kthvalue(ValuesIndices):
    """What `kthvalue` returns."""


class max(ValuesIndices):
    """What `max` with a dim returns."""


class median(ValuesIndices):
    """What `median` with a dim returns."""


class min(ValuesIndices):
    """What `min` with a dim returns."""


class mode(ValuesIndices):
    """What `mode` returns."""


class nanmedian(ValuesIndices):
    """What `nanmedian` with a dim returns."""


class sort(ValuesIndices):
    """What `sort` returns."""


class topk(ValuesIndices):
    """What `topk` returns."""
