"""PowerSGD: instead of a gradient, two thin matrices whose product is close to it are sent.

A gradient M of n x m is taken for a matrix of rank r: (n + m) · r numbers instead of n · m:

    P = Σ over ranks M · Q;  P ← orthogonal columns of the same space
    Q = 1/ranks · Σ over ranks Mᵀ · P;  M ← P · Qᵀ

That is one step of power iteration; it begins with the Q of the last pass. What is lost, which is
M - P · Qᵀ, is added to the gradient of the next pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import linalg
from ....core.tensor import Tensor
from ....dtypes import bfloat16, float16
from ....errors import InvalidValueError
from ....ops import cat, randn, zeros
from ....ops.random import fork_rng, manual_seed
from ...collectives import all_reduce
from ...data_parallel.buckets import GradBucket
from ...process_group import ProcessGroup
from ...work import Future
from .default_hooks import average, group_of_hook

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """What PowerSGD keeps from pass to pass, and its settings.

    Args:
        process_group: the ranks; None: all.
        matrix_approximation_rank: r; 1 to 4 is usual.
        start_powerSGD_iter: before this pass, gradients are averaged as they are.
        min_compression_rate: only gradients that become so many times smaller are compressed.
        use_error_feedback: add to the next gradient what was lost.
        warm_start: begin with the Q of the last pass.
        orthogonalization_epsilon: added to the lengths of columns, which may be 0.
        random_seed: of the first Q, which is the same on all ranks.
        compression_stats_logging_frequency, batch_tensors_with_same_shape: accepted.

    Raises: ValueError: `start_powerSGD_iter` is below 2, though something is kept: the buckets are
        made anew after the first pass.

    Paper: Vogels et al. 2019, PowerSGD: Practical Low-Rank Gradient Compression.

    >>> from edutorch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
    >>> PowerSGDState(None, matrix_approximation_rank=2).start_powerSGD_iter
    1000
    """

    def __init__(
        self, process_group: ProcessGroup | None, matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000, min_compression_rate: float = 2,
        use_error_feedback: bool = True, warm_start: bool = True,
        orthogonalization_epsilon: float = 0, random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:  # fmt: skip
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise InvalidValueError(
                "PowerSGDState",
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP.",
                {"start_powerSGD_iter": start_powerSGD_iter},
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.seed, self.iter = random_seed, 0
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a pass, with its last bucket."""
        self.iter += bucket.is_last()

    def compression_stats(self) -> tuple[float, int, int]:
        """Return before / after, and how many numbers that was: before, after."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def is_worthwhile(self, matrix: Tensor) -> bool:
        """Whether sending P and Q instead of a matrix saves enough; count what is sent."""
        n, m = matrix.shape
        compressed = (n + m) * min(n, m, self.matrix_approximation_rank)
        worthwhile = compressed * self.min_compression_rate < n * m
        self.total_numel_before_compression += n * m
        self.total_numel_after_compression += compressed if worthwhile else n * m
        return worthwhile

    def first_q(self, index: int, matrices: Sequence[Tensor]) -> list[Tensor]:
        """Return an orthogonal Q for each matrix of a bucket: that of the last pass, or a random
        one, the same on all ranks."""
        known = self.q_memory_dict.get(index)
        if known is None or not self.warm_start:
            rank = self.matrix_approximation_rank
            with fork_rng(devices=[]):
                manual_seed(hash((self.seed, self.iter, index)) % 2**31)
                known = [
                    randn(m.shape[1], min(*m.shape, rank)).to(m.device, m.dtype) for m in matrices
                ]
        return [self.orthogonal(q) for q in known]

    def orthogonal(self, matrix: Tensor) -> Tensor:
        """Return a matrix with orthogonal columns of length 1 that span the same space."""
        if matrix.shape[1] > 2 and matrix.dtype not in (float16, bfloat16):
            return linalg.qr(matrix)[0]
        columns: list[Tensor] = []
        for column in matrix.unbind(1):
            for earlier in columns:
                column = column - (earlier * column).sum() * earlier
            length = column.norm() + self.orthogonalization_epsilon
            columns.append(column / length.masked_fill(length == 0, 1))
        return cat([column.reshape(-1, 1) for column in columns], 1)


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Average a bucket, each matrix in it by PowerSGD.

    >>> from edutorch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> model.register_comm_hook(power.PowerSGDState(None, 1, 2), power.powerSGD_hook)
    >>> model(ones(3, 2)).sum().backward()
    >>> model.module.bias.grad
    tensor([3.])
    >>> distributed.destroy_process_group()
    """
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return average(group_of_hook(state.process_group), bucket.buffer())
    return compress(state, bucket, bucket.gradients())


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Average a bucket by PowerSGD, as if it were one square matrix.

    Faster than `powerSGD_hook`, and coarser: its rows and columns mean nothing.
    """
    flat = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return average(group_of_hook(state.process_group), flat)
    length = flat.numel()
    side = math.ceil(math.sqrt(length))
    square = zeros(side * side, dtype=flat.dtype, device=flat.device)
    square[:length] = flat
    future = compress(state, bucket, [square.view(side, side)], square)
    return future.then(lambda _: flat.copy_(square[:length]))


def compress(
    state: PowerSGDState, bucket: GradBucket, gradients: Sequence[Tensor],
    memory: Tensor | None = None,
) -> Future:  # fmt: skip
    """Average gradients, those that are worth it by PowerSGD.

    Args:
        gradients: they are replaced by their averages.
        memory: of all of them; by default that of the bucket.
    """
    group, index = group_of_hook(state.process_group), bucket.index()
    flat = bucket.buffer() if memory is None else memory
    if state.use_error_feedback and index in state.error_dict:
        flat.add_(state.error_dict[index])
    original = flat.clone()
    matrices, others = [], []
    for gradient in gradients:
        matrix = gradient.view(gradient.shape[0], -1) if gradient.ndim else gradient.view(1, 1)
        (matrices if state.is_worthwhile(matrix) else others).append(matrix)
    qs = state.first_q(index, matrices)
    first = joined([*others, *(matrix @ q for matrix, q in zip(matrices, qs, strict=True))], flat)
    shapes: list[Any] = [other.shape for other in others]
    shapes += [(m.shape[0], q.shape[1]) for m, q in zip(matrices, qs, strict=True)]

    def finish(future: Future) -> Tensor:
        sums = parted(future.value()[0], shapes)
        for other, total in zip(others, sums, strict=False):
            other.copy_(total / group.size())
        ps = [state.orthogonal(total) for total in sums[len(others) :]]
        second = joined([m.t() @ p for m, p in zip(matrices, ps, strict=True)], flat)
        all_reduce(second.div_(group.size()), group=group)
        qs[:] = parted(second, [q.shape for q in qs])
        for matrix, p, q in zip(matrices, ps, qs, strict=True):
            matrix.copy_(p @ q.t())
        state.q_memory_dict[index] = qs
        if state.use_error_feedback:
            state.error_dict[index] = original - flat
        state.maybe_increase_iter(bucket)
        return flat

    work = all_reduce(first, group=group, async_op=True)
    assert work is not None
    return work.get_future().then(finish)


def joined(tensors: Sequence[Tensor], like: Tensor) -> Tensor:
    """Return the elements of tensors, one after the other."""
    return cat([tensor.reshape(-1) for tensor in tensors]) if tensors else like.new_zeros(0)


def parted(flat: Tensor, shapes: Sequence[Any]) -> list[Tensor]:
    """Return the tensors that `joined` has put one after the other."""
    sizes = [math.prod(shape) for shape in shapes]
    return (
        [part.reshape(shape) for part, shape in zip(flat.split(sizes), shapes, strict=True)]
        if shapes
        else []
    )
