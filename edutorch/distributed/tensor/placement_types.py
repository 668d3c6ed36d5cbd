"""Placements: what each rank along one axis of a mesh has of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """The base of `Shard`, `Replicate` and `Partial`."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each rank has a part, divided along `dim`."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each rank has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each rank has a term of a sum (or of what `reduce_op` says)."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each rank has a part of the tensor, divided along `dim` as by `chunk`.

    >>> distributed.tensor.Shard(0)
    Shard(dim=0)
    """

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """Each rank has the whole tensor."""


@dataclass(frozen=True)
class Partial(Placement):
    """Each rank has a tensor of the whole shape; their sum is the tensor.

    Args: reduce_op: "sum", "avg", "product", "min" or "max".

    >>> distributed.tensor.Partial()
    Partial(sum)
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"


def chunk_bounds(size: int, parts: int, index: int) -> tuple[int, int]:
    """Return where part `index` of an axis begins and ends, as `chunk` divides it.

    The last parts may be shorter, or empty.
    """
    length = -(-size // parts)
    return min(length * index, size), min(length * (index + 1), size)
