"""Batch norm by the statistics of all ranks' batches together: what `nn.SyncBatchNorm` calls.

Rank r has n_r values per channel, of mean m_r and variance v_r. Together:

    N = Σ n_r      m = Σ n_r · m_r / N      v = Σ n_r · (v_r + (m_r - m)²) / N

so that batches of different sizes are right, and nothing is lost where m is large. In backward, the
two sums of batch norm's gradient are over all ranks:

    x̂ = (x - m) / √(v + eps)      g_x = w / √(v + eps) · (g - (Σ g + x̂ · Σ g x̂) / N)
"""

from __future__ import annotations

from typing import Any

from ...autograd import Function
from ...autograd.function import once_differentiable
from ...core.tensor import Tensor
from ...dtypes import float32, float64
from ...errors import ShapeValueError
from ...modes import no_grad
from ...ops import cat, zeros
from ..collectives import all_gather_into_tensor, all_reduce
from ..process_group import ProcessGroup

__all__ = ["sync_batch_norm"]


def sync_batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None,
    bias: Tensor | None, momentum: float, eps: float, group: ProcessGroup,
) -> Tensor:  # fmt: skip
    """Normalize each channel by its mean and variance over the batches of all ranks.

    The statistics are computed in float32 (of float64: in float64).

    Args:
        input: (n, c, …); n may differ between the ranks, and be 0.
        running_mean, running_var: moved towards the statistics, by `momentum`.

    Raises: ShapeError: all ranks together have a single value per channel.
    """
    with no_grad():
        mean, variance, count = statistics(input, group)
        if running_mean is not None and running_var is not None:
            unbiased = variance * (count / (count - 1))
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    return Normalize.apply(input, weight, bias, mean, (variance + eps).rsqrt(), count, group)


def statistics(input: Tensor, group: ProcessGroup) -> tuple[Tensor, Tensor, float]:
    """Return mean and variance of each channel over all ranks, and how many values that is."""
    x = widened(input).transpose(0, 1).flatten(1)
    channels, n = x.shape
    empty = zeros(channels, dtype=x.dtype, device=x.device)
    mine = [x.mean(1), x.var(1, correction=0)] if n else [empty, empty]
    parts = cat([*mine, empty.new_full((1,), n)])
    everyone = parts.new_empty(group.size(), parts.shape[0])
    all_gather_into_tensor(everyone, parts, group=group)
    counts = everyone[:, -1:]
    count = counts.sum()
    total = float(count.item())
    if total <= 1:
        raise ShapeValueError(
            "SyncBatchNorm", "Expected more than 1 value per channel when training",
            {"input": tuple(input.shape), "ranks": group.size()}, "use a larger batch",
        )  # fmt: skip
    means, variances = everyone[:, :channels], everyone[:, channels:-1]
    mean = (counts * means).sum(0) / count
    variance = (counts * (variances + (means - mean) ** 2)).sum(0) / count
    return mean, variance, total


def widened(input: Tensor) -> Tensor:
    """Return a tensor in the dtype of its statistics."""
    return input if input.dtype is float64 else input.to(float32)


def by_channel(values: Tensor, ndim: int) -> Tensor:
    """Return a value per channel in a shape that fits an input of `ndim` axes."""
    return values.reshape(-1, *[1] * (ndim - 2))


class Normalize(Function):
    """y = (x - m) · scale · weight + bias, where m and scale depend on the inputs of all ranks."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor,
        scale: Tensor, count: float, group: ProcessGroup,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(input, weight, bias, mean, scale)
        ctx.count, ctx.group = count, group
        x, ndim = widened(input), input.ndim
        factor = scale if weight is None else scale * weight.to(scale.dtype)
        y = (x - by_channel(mean, ndim)) * by_channel(factor, ndim)
        if bias is not None:
            y = y + by_channel(bias.to(scale.dtype), ndim)
        return y.to(input.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, bias, mean, scale = ctx.saved_tensors
        ndim = input.ndim
        dims = [0, *range(2, ndim)]
        wide = widened(g)
        x = (widened(input) - by_channel(mean, ndim)) * by_channel(scale, ndim)
        sums = cat([wide.sum(dims), (wide * x).sum(dims)])  # of this rank: those of its parameters
        channels = mean.shape[0]
        g_bias, g_weight = sums[:channels], sums[channels:]
        totals = sums.clone()
        all_reduce(totals, group=ctx.group)
        totals /= ctx.count
        factor = scale if weight is None else scale * weight.to(scale.dtype)
        shift = by_channel(totals[:channels], ndim) + x * by_channel(totals[channels:], ndim)
        g_input = ((wide - shift) * by_channel(factor, ndim)).to(input.dtype)
        return (
            g_input, None if weight is None else g_weight.to(weight.dtype),
            None if bias is None else g_bias.to(bias.dtype), None, None, None, None,
        )  # fmt: skip
