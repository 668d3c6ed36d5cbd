"""Collectives through which gradients flow. See README.md for the derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...autograd import Function
from ...core.tensor import Tensor
from ...errors import NotHereError
from .. import collectives
from ..process_group import get_rank, get_world_size
from ..reduce_op import ReduceOp

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "reduce",
    "reduce_scatter",
]  # fmt: skip


class AllReduce(Function):
    """y = Σ over ranks of x, on all ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, op: Any, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        y = x.clone()
        collectives.all_reduce(y, op, group=group)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        g = gradients[0].contiguous().clone()
        collectives.all_reduce(g, ctx.op, group=ctx.group)
        return g, None, None


class Broadcast(Function):
    """y = x of one rank, on all ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, src: int, group: Any) -> Tensor:
        ctx.src, ctx.group = src, group
        y = x.clone()
        collectives.broadcast(y, src, group=group)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        g = gradients[0].contiguous().clone()
        collectives.reduce(g, ctx.src, group=ctx.group)
        return g if get_rank() == ctx.src else ops.zeros_like(g), None, None


class Reduce(Function):
    """y = Σ over ranks of x, on one rank; x itself on the others."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dst: int, op: Any, group: Any) -> Tensor:
        ctx.dst, ctx.group = dst, group
        y = x.clone()
        collectives.reduce(y, dst, op, group=group)
        return y if get_rank() == dst else x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        g = gradients[0].contiguous().clone()
        collectives.broadcast(g, ctx.dst, group=ctx.group)
        return g, None, None, None


class AllToAll(Function):
    """Rank r gets part r of each rank's x: all parts have the same shape."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        y = ops.empty_like(x)
        collectives.all_to_all_single(y, x.contiguous(), group=group)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        g = ops.empty_like(gradients[0])
        collectives.all_to_all_single(g, gradients[0].contiguous(), group=ctx.group)
        return g, None


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the sum of a tensor over all ranks.

    Args:
        op: SUM or AVG.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> x = ones(2, requires_grad=True)
    >>> distributed.nn.functional.all_reduce(3 * x).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    >>> distributed.destroy_process_group()
    """
    return AllReduce.apply(tensor, op, group)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """Return the tensor of rank `src`."""
    return Broadcast.apply(tensor, src, group)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the sum over all ranks on rank `dst`, the tensor itself elsewhere."""
    return Reduce.apply(tensor, dst, op, group)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: Any = None,
) -> Tensor:  # fmt: skip
    """Return part r of each rank's input on rank r, concatenated; `output` says the shape.

    Raises: NotImplementedError: parts of different sizes.
    """
    if output_split_sizes is not None or input_split_sizes is not None:
        raise NotHereError(
            "all_to_all_single", "gradients flow through equal parts only",
            hint="pad the parts to one size, and leave both split sizes out",
        )  # fmt: skip
    return AllToAll.apply(input, group).reshape(output.shape)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Return, on rank r, the r-th tensor of each rank's list: all have the same shape."""
    return AllToAll.apply(ops.stack(list(input_tensor_list)), group).unbind(0)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Return the tensors of all ranks, which have the same shape."""
    copies = tensor.unsqueeze(0).expand(get_world_size(group), *tensor.shape)
    return AllToAll.apply(copies.contiguous(), group).unbind(0)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """Return, on rank r, the sum of the r-th tensors of all ranks' lists."""
    parts = AllToAll.apply(ops.stack(list(input_list)), group)
    total = parts.mean(0) if op == ReduceOp.AVG else parts.sum(0)
    return total.reshape(output.shape)
