"""Adaptive softmax: output layer and loss for very many classes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeError, ValueRangeError
from ...ops import argmax, cat, index_select, logical_and, nonzero, where
from .. import functional as F
from ..common_types import DeviceLike, DTypeLike
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = [
    "AdaptiveLogSoftmaxWithLoss",
]


class _ASMoutput(NamedTuple):
    """The log-probability of each sample's target, and the loss: minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Hierarchical softmax: frequent classes in the head, rare ones in clusters.

    The head has an output per frequent class and one per cluster; a cluster is computed only for
    the samples whose target lies in it, and the rarer its classes, the fewer hidden features it
    has. So the classes must be sorted by frequency, the most frequent first.

    Args:
        in_features: the number of input features.
        n_classes: the number of classes.
        cutoffs: the first class of each cluster.
        div_value: the factor by which each cluster has fewer hidden features than the last one.
        head_bias: whether the head adds a bias.

    Paper: Grave et al., Efficient softmax approximation for GPUs, 2017.

    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6])
    >>> layer(zeros(2, 4), tensor([0, 9])).output.shape
    torch.Size([2])
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Iterable[int], div_value: float = 4.0,
        head_bias: bool = False, device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cuts = list(cutoffs)
        if not cuts:
            raise InvalidValueError(
                type(self).__name__, "cutoffs should be a sequence of length larger than 0"
            )
        is_increasing = all(low < high for low, high in pairwise([0, *cuts, n_classes]))
        if not is_increasing or any(int(cut) != cut for cut in cuts):
            raise InvalidValueError(
                type(self).__name__,
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1",
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs, self.div_value, self.head_bias = [*cuts, n_classes], div_value, head_bias
        self.shortlist_size, self.n_clusters = cuts[0], len(cuts)
        self.head_size = self.shortlist_size + self.n_clusters
        factory_kwargs = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, head_bias, **factory_kwargs)
        self.tail = ModuleList()
        for power, (low, high) in enumerate(pairwise(self.cutoffs), 1):
            hidden_size = int(in_features // div_value**power)
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden_size, False, **factory_kwargs),
                    Linear(hidden_size, high - low, False, **factory_kwargs),
                )
            )

    def reset_parameters(self) -> None:
        """Reinitialize the parameters."""
        self.head.reset_parameters()
        for projection, output_layer in self.tail:
            projection.reset_parameters()
            output_layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return log-probability and loss of samples (n, in_features), or of one.

        Raises: RuntimeError: shapes that do not fit, or a class that does not exist.
        """
        check_batch(input_, target_)
        is_unbatched = target_.ndim == 0
        input, target = (
            (input_.unsqueeze(0), target_.unsqueeze(0)) if is_unbatched else (input_, target_)
        )
        self.check_classes(target)
        head_target, tail_output = target, input.new_zeros(target.shape)
        for cluster, (low, high) in enumerate(pairwise(self.cutoffs)):
            is_in_cluster = logical_and(target >= low, target < high)
            # Each cluster is computed for its own samples only: that is what makes it cheap.
            rows = nonzero(is_in_cluster).squeeze(1)
            if rows.shape[0]:
                log_probs = F.log_softmax(self.tail[cluster](index_select(input, 0, rows)), 1)
                target_log_probs = log_probs.gather(
                    1, (index_select(target, 0, rows) - low).unsqueeze(1)
                )
                tail_output = tail_output.index_copy(0, rows, target_log_probs.squeeze(1))
                # In the head these samples have the class of their cluster.
                head_target = where(is_in_cluster, self.shortlist_size + cluster, head_target)
        head = F.log_softmax(self.head(input), 1).gather(1, head_target.unsqueeze(1)).squeeze(1)
        # Log p(class) = log p(cluster) + log p(class | cluster).
        output = head + tail_output
        return _ASMoutput(output.squeeze(0) if is_unbatched else output, -output.mean())

    def check_classes(self, target: Tensor) -> None:
        """Raise unless all classes exist."""
        if target.numel() and not target.is_meta:
            low, high = int(target.min()), int(target.max())
            if low < 0 or high >= self.n_classes:
                raise ValueRangeError(
                    type(self).__name__, f"Target values should be in [0, {self.n_classes - 1}], "
                    f"but values in range [{low}, {high}] were found.",
                )  # fmt: skip

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, (n, n_classes)."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for column, cluster in enumerate(self.tail, self.shortlist_size):
            parts.append(F.log_softmax(cluster(input), 1) + head[:, column : column + 1])
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each sample.

        The clusters are computed only for samples for which the head prefers one.
        """
        # A class of a cluster can only win where the head prefers the cluster.
        predicted = argmax(self.head(input), 1)
        rows = nonzero(predicted >= self.shortlist_size).squeeze(1)
        if not rows.shape[0]:
            return predicted
        tail_classes = argmax(self.log_prob(index_select(input, 0, rows)), 1)
        return predicted.index_copy(0, rows, tail_classes)


def check_batch(input: Tensor, target: Tensor) -> None:
    """Raise ShapeError unless input and target are both one sample or both a batch."""
    op, shapes = "AdaptiveLogSoftmaxWithLoss", {
        "input": tuple(input.shape), "target": tuple(target.shape)
    }  # fmt: skip
    if target.ndim > 1:
        raise ShapeError(op, "0D or 1D target tensor expected, multi-target not supported", shapes)
    if target.ndim == 1 and input.shape[:1] != target.shape:
        raise ShapeError(
            op, "Input and target should have the same size in the batch dimension.", shapes
        )
    if input.ndim != target.ndim + 1:
        raise ShapeError(
            op, f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors", shapes
        )
