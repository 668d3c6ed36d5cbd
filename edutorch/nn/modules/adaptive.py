"""Last layer and loss in one, for very many classes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeError, ValueRangeError
from ...ops import argmax, cat, index_select, logical_and, nonzero, where
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = [
    "AdaptiveLogSoftmaxWithLoss",
]


class Judgement(NamedTuple):
    """The log-probability of each sample's right class, and the loss: minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax in two steps: frequent classes at once, rare ones in clusters.

    The head knows the first classes, and one entry for each cluster; a cluster is looked at
    only where a sample's class lies in it, and the rarer its classes, the smaller it is
    inside. So the classes must be sorted, the most frequent first.

    Args:
        in_features: how many features the samples have.
        n_classes: how many classes.
        cutoffs: where the clusters begin.
        div_value: by how much each cluster is smaller than the one before.
        head_bias: the head has shifts.

    Paper: Grave et al., Efficient softmax approximation for GPUs, 2017.

    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6])
    >>> layer(zeros(2, 4), tensor([0, 9])).output.shape
    torch.Size([2])
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Iterable[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cuts = list(cutoffs)
        if not cuts:
            raise InvalidValueError(
                type(self).__name__, "cutoffs should be a sequence of length larger than 0"
            )
        rising = all(low < high for low, high in pairwise([0, *cuts, n_classes]))
        if not rising or any(int(cut) != cut for cut in cuts):
            raise InvalidValueError(
                type(self).__name__,
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1",
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs, self.div_value, self.head_bias = [*cuts, n_classes], div_value, head_bias
        self.shortlist_size, self.n_clusters = cuts[0], len(cuts)
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, head_bias, **made)
        self.tail = ModuleList()
        for number, (low, high) in enumerate(pairwise(self.cutoffs), 1):
            inside = int(in_features // div_value**number)
            self.tail.append(
                Sequential(
                    Linear(in_features, inside, False, **made),
                    Linear(inside, high - low, False, **made),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new random numbers."""
        self.head.reset_parameters()
        for inwards, outwards in self.tail:
            inwards.reset_parameters()
            outwards.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Judgement:
        """Judge samples (n, in_features), or one, by their classes.

        Raises: RuntimeError: shapes that do not fit, or a class that does not exist.
        """
        check_batch(input_, target_)
        single = target_.ndim == 0
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        self.check_classes(target)
        in_head, in_tail = target, input.new_zeros(target.shape)
        for cluster, (low, high) in enumerate(pairwise(self.cutoffs)):
            inside = logical_and(target >= low, target < high)
            rows = nonzero(inside).squeeze(1)
            if rows.shape[0]:
                scores = F.log_softmax(self.tail[cluster](index_select(input, 0, rows)), 1)
                own = scores.gather(1, (index_select(target, 0, rows) - low).unsqueeze(1))
                in_tail = in_tail.index_copy(0, rows, own.squeeze(1))
                in_head = where(inside, self.shortlist_size + cluster, in_head)
        head = F.log_softmax(self.head(input), 1).gather(1, in_head.unsqueeze(1)).squeeze(1)
        output = head + in_tail
        return Judgement(output.squeeze(0) if single else output, -output.mean())

    def check_classes(self, target: Tensor) -> None:
        """Raise unless all classes exist."""
        if target.numel():
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
        for number, cluster in enumerate(self.tail, self.shortlist_size):
            parts.append(F.log_softmax(cluster(input), 1) + head[:, number : number + 1])
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each sample.

        Only where the head prefers a cluster are the clusters looked at.
        """
        found = argmax(self.head(input), 1)
        rows = nonzero(found >= self.shortlist_size).squeeze(1)
        if not rows.shape[0]:
            return found
        rare = argmax(self.log_prob(index_select(input, 0, rows)), 1)
        return found.index_copy(0, rows, rare)


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
