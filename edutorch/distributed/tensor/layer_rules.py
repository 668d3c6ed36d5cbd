"""The rules of layers: they divide the batch, and channels and heads where independent."""

from __future__ import annotations

from collections.abc import Sequence

from .dispatch import Call, Candidate
from .placement_types import Partial, Placement, Replicate, Shard
from .redistribution import Spec

__all__ = ["LAYER_RULES"]


def rank_of(spec: Spec | None) -> int:
    """Return how many axes an input has."""
    return 0 if spec is None else len(spec.shape)


def with_parameters(call: Call, dims: Sequence[int]) -> list[Candidate]:
    """Divide the first input along some axes; the others, weight and bias, are whole."""
    rest = tuple(None if spec is None else Replicate() for spec in call.inputs[1:])
    return [Candidate((Shard(dim), *rest), Shard(dim)) for dim in dims]


def attention(call: Call) -> list[Candidate]:
    """Batch and heads: the axes in front of positions and features."""
    shapes = [spec.shape for spec in call.inputs if spec is not None]
    dims = [d for d in range(len(call.output) - 2) if len({shape[d] for shape in shapes}) == 1]
    return [Candidate((Shard(dim),) * 3, Shard(dim)) for dim in dims]


def convolution(call: Call) -> list[Candidate]:
    """The batch, the channels of the result, or those of the input: these are summed over."""
    spec, weight, bias = call.inputs[:3]
    if spec is None or weight is None or rank_of(spec) != rank_of(weight):
        return []
    candidates = with_parameters(call, [0])
    if call.settings.get("groups") == 1:
        shares: list[tuple[Placement, Placement, Placement, Placement]] = [
            (Replicate(), Shard(0), Shard(0), Shard(1)),
            (Shard(1), Shard(1), Partial(), Partial()),
        ]
        for first, second, third, result in shares:
            candidates.append(Candidate((first, second, None if bias is None else third), result))
    return candidates


def group_norm(call: Call) -> list[Candidate]:
    """The batch."""
    return with_parameters(call, [0])


def window(call: Call) -> list[Candidate]:
    """Batch and channels, which no window covers."""
    size = call.settings.get("kernel_size")
    covered = len(size) if isinstance(size, Sequence) else 1
    return with_parameters(call, range(rank_of(call.inputs[0]) - covered))


def padding(call: Call) -> list[Candidate]:
    """The axes that are not made longer."""
    spec = call.inputs[0]
    assert spec is not None
    kept = [d for d, size in enumerate(spec.shape) if call.output[d] == size]
    pads = call.settings["pads"]
    return with_parameters(call, [d for d in kept if not any(pads[d])])


def triangle(call: Call) -> list[Candidate]:
    """The axes in front of rows and columns."""
    return with_parameters(call, range(rank_of(call.inputs[0]) - 2))


LAYER_RULES = {
    "attention_forward": attention, "conv2d": convolution, "conv_nd": convolution,
    "native_group_norm": group_norm, "avg_pool": window, "max_pool": window,
    "constant_pad": padding, "tril": triangle, "triu": triangle,
}  # fmt: skip
