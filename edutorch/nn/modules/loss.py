"""Loss modules, called with prediction and target."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ... import dtypes
from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeError, ValueRangeError
from .. import functional as F
from ..common_types import DeviceLike, DTypeLike
from ..functional.loss.ctc import Lengths
from ..functional.loss.reduction import resolve_reduction
from ..functional.op_decorators import SettingError
from .distance import PairwiseDistance
from .linear import Linear
from .module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d",
    "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Module):
    """Base of the losses: how the losses of the elements are reduced."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = resolve_reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """Base of the losses with a weight per class or element, a buffer."""

    weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """Mean absolute error: y = |x - t|, averaged.

    >>> nn.L1Loss()(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Mean squared error: y = (x - t)², averaged.

    >>> nn.MSELoss()(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Smooth L1 loss: quadratic for differences below `beta`, linear above.

    >>> nn.SmoothL1Loss()(tensor([0.0]), tensor([3.0]))
    tensor(2.5000)
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Huber loss: quadratic for differences below `delta`, linear above.

    >>> nn.HuberLoss()(tensor([0.0]), tensor([3.0]))
    tensor(2.5000)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence: Σ t · (log t - x), for log-probabilities x.

    >>> nn.KLDivLoss(reduction="sum")(log(tensor([0.5, 0.5])), tensor([1.0, 0.0]))
    tensor(0.6931)
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
        log_target: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class NLLLoss(_WeightedLoss):
    """Negative log-likelihood of the target class: y = -wₜ · x[t], averaged.

    >>> nn.NLLLoss()(log(tensor([[0.5, 0.5]])), tensor([0]))
    tensor(0.6931)
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(_WeightedLoss):
    """Cross-entropy of logits and target classes: -log softmax(x)[t], averaged.

    Args:
        weight: a weight per class.
        ignore_index: a target that is left out.
        reduction: "mean", "sum" or "none".
        label_smoothing: the part of each target that is spread over all classes.

    Shape: logits (n, c) or (n, c, d1, …), targets (n) or (n, d1, …) of int64; or
    probabilities in the shape of the logits.

    >>> nn.CrossEntropyLoss()(tensor([[0.0, 0.0]]), tensor([1]))
    tensor(0.6931)
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


class BCELoss(_WeightedLoss):
    """Binary cross-entropy of probabilities: -t · log x - (1 - t) · log(1 - x), averaged.

    >>> nn.BCELoss()(tensor([0.5]), tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of logits; with the sigmoid inside, it is numerically stable.

    >>> nn.BCEWithLogitsLoss()(tensor([0.0]), tensor([1.0]))
    tensor(0.6931)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class MultiMarginLoss(_WeightedLoss):
    """Multi-class hinge loss: the target's score should exceed all others by a margin.

        y = Σᵢ max(0, margin - x[t] + x[i])ᵖ / classes,  i ≠ t

    Args: `p` is 1 or 2; `weight` has a weight per class.

    >>> nn.MultiMarginLoss()(tensor([[0.1, 0.2, 0.4, 0.8]]), tensor([3]))
    tensor(0.3250)
    """

    def __init__(
        self, p: float = 1, margin: float = 1.0, weight: Tensor | None = None,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise InvalidValueError(type(self).__name__, "only p == 1 and p == 2 supported")
        if weight is not None and weight.ndim != 1:
            raise SettingError(
                "MultiMarginLoss", f"expected weight to be None or 1D tensor, got {weight.ndim}D "
                "instead", {"weight": tuple(weight.shape)},
            )  # fmt: skip
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, self.p, self.margin, self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(_Loss):
    """Multi-label hinge loss: each target label's score should exceed all others by 1.

    Each row of the target lists the labels, and ends at the first -1.

    >>> x, target = tensor([[0.1, 0.2, 0.4, 0.8]]), tensor([[3, 0, -1, 1]])
    >>> nn.MultiLabelMarginLoss()(x, target)
    tensor(0.8500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross-entropy per label: the mean of -t · log σ(x) - (1 - t) · log σ(-x).

    >>> nn.MultiLabelSoftMarginLoss()(tensor([[0.0, 0.0]]), tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """Logistic loss for targets of 1 and -1: y = log(1 + exp(-t · x)), averaged.

    >>> nn.SoftMarginLoss()(tensor([0.0]), tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """Triplet loss: the anchor should be closer to the positive than to the negative.

        y = max(d(a, p) - d(a, n) + margin, 0)

    Args:
        distance_function: d; the Euclidean distance by default.
        swap: use d(p, n) where that is smaller than d(a, n).

    Raises: ValueError: the margin is not above 0.

    >>> a, b = tensor([[0.0]]), tensor([[3.0]])
    >>> nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs())(a, b, a)
    tensor(4.)
    """

    def __init__(
        self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0, swap: bool = False, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise SettingError(
                "TripletMarginWithDistanceLoss",
                f"expected margin to be greater than 0, got {margin} instead",
            )
        self.distance_function = distance_function or PairwiseDistance()
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function,
            margin=self.margin, swap=self.swap, reduction=self.reduction,
        )  # fmt: skip


class MarginLoss(_Loss):
    """Base of the losses with a margin and a default for it."""

    default_margin = 0.0

    def __init__(
        self, margin: float | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = self.default_margin if margin is None else margin


class MarginRankingLoss(MarginLoss):
    """Ranking loss: the first input should be larger (t = 1) or smaller (t = -1) by `margin`.

    >>> nn.MarginRankingLoss()(tensor([2.0]), tensor([5.0]), tensor([1.0]))
    tensor(3.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(MarginLoss):
    """Hinge loss of distances: small for pairs (t = 1), above `margin` for others (t = -1).

    >>> nn.HingeEmbeddingLoss()(tensor([0.5]), tensor([-1.0]))
    tensor(0.5000)
    """

    default_margin = 1.0

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(MarginLoss):
    """Loss of the cosine similarity of pairs (t = 1) and of others (t = -1).

    >>> x = tensor([[1.0, 0.0]])
    >>> nn.CosineEmbeddingLoss()(x, tensor([[0.0, 1.0]]), tensor([1]))
    tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(
            input1, input2, target, self.margin, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """Triplet loss: the anchor should be closer to the positive than to the negative.

    >>> a, b = tensor([[0.0]]), tensor([[3.0]])
    >>> nn.TripletMarginLoss()(a, b, a)
    tensor(4.0000)
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise InvalidValueError(
                type(self).__name__, f"margin must be greater than 0, got {margin}"
            )
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap,
            reduction=self.reduction,
        )  # fmt: skip


class CTCLoss(_Loss):
    """Connectionist temporal classification: -log p(target), summed over all alignments.

    An alignment assigns a label or a blank to each frame.

    Args:
        blank: the index of the blank label.
        zero_infinity: replace infinite losses, of targets longer than their inputs, by 0.

    Paper: Graves et al., Connectionist temporal classification, 2006.

    >>> scores = zeros(2, 1, 2).log_softmax(2)
    >>> nn.CTCLoss(reduction="sum")(scores, tensor([[1]]), tensor([2]), tensor([1]))
    tensor(0.2877)
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths
    ) -> Tensor:
        """Return the loss for log-probabilities (time, n, classes) and targets."""
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
            self.zero_infinity,
        )  # fmt: skip


class GaussianNLLLoss(_Loss):
    """Gaussian negative log-likelihood with a predicted variance: y = (log v + (x - t)² / v) / 2.

    Args:
        full: whether to add the constant log(2π) / 2.
        eps: the lower bound of the variance.

    >>> nn.GaussianNLLLoss()(tensor([1.0]), tensor([3.0]), tensor([4.0]))
    tensor(1.1931)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class PoissonNLLLoss(_Loss):
    """Poisson negative log-likelihood of counts at a predicted rate: y = exp(x) - t · x.

    Args:
        log_input: whether x is the logarithm of the rate; False: y = x - t · log(x + eps).
        full: whether to add Stirling's approximation of log t!, for t > 1.

    >>> nn.PoissonNLLLoss()(tensor([0.0]), tensor([3.0]))
    tensor(1.)
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: bool | None = None,
        eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
            reduction=self.reduction,
        )  # fmt: skip


class NLLLoss2d(NLLLoss):
    """Deprecated alias of `NLLLoss`, which accepts images too.

    >>> nn.NLLLoss2d()(zeros(1, 2, 1, 1), zeros(1, 1, 1).long()).item()
    0.0
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement.", FutureWarning, stacklevel=2,
        )  # fmt: skip
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer and its cross-entropy loss: cross_entropy(x Wᵀ + b, target).

    Args:
        in_features: the number of input features.
        num_classes: the number of classes.
        out_features: further axes of the logits: (n, num_classes, *out_features).
        bias: whether the layer adds a bias.
        weight, ignore_index, label_smoothing, reduction: as for `CrossEntropyLoss`.
        options: settings of PyTorch's implementation.

    >>> nn.LinearCrossEntropyLoss(4, 10)(zeros(2, 4), tensor([0, 9]))
    tensor(2.3026, grad_fn=<NllLossBackward0>)
    """

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (),
        bias: bool = False, device: DeviceLike = None, dtype: DTypeLike = None,
        reduction: str = "mean", weight: Tensor | None = None, ignore_index: int | None = None,
        label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
    ) -> None:  # fmt: skip
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise ShapeError(
                "LinearCrossEntropyLoss", f"expected weight shape to be {(num_classes,)}, got "
                f"{tuple(weight.shape)}",
            )  # fmt: skip
        if not 0 <= label_smoothing <= 1:
            raise ValueRangeError(
                "LinearCrossEntropyLoss",
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}",
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        # One row of the weight for each score.
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias, device, dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss for features (n, in_features) and target classes."""
        shape, layer = (self.num_classes, *self.out_features), self.linear
        return F.linear_cross_entropy(
            input, layer.weight.reshape(*shape, layer.in_features), target,
            linear_bias=None if layer.bias is None else layer.bias.reshape(shape),
            weight=self.weight, reduction=self.reduction, ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Memory-saving options of PyTorch's `LinearCrossEntropyLoss`; checked, without effect.

    >>> nn.LinearCrossEntropyOptions(batch_chunk_size=128).batch_chunk_size
    128
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise InvalidValueError(type(self).__name__, f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = self.chunking_method.partition(":")  # type: ignore[union-attr]
            right = not colon or (factor.isdigit() and int(factor) > 0)
            if name != "aspect_ratio" or not right:
                raise InvalidValueError(
                    type(self).__name__, f"invalid chunking_method: {self.chunking_method!r}"
                )
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise InvalidValueError(
                type(self).__name__, f"batch_chunk_size must be positive int or None, got {size!r}"
            )
        floats = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
        if self.acc_dtype is not None and self.acc_dtype not in floats:
            raise InvalidValueError(
                type(self).__name__,
                f"acc_dtype must be None or one of {floats}, got {self.acc_dtype!r}",
            )
