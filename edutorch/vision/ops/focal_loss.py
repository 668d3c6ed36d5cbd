"""The focal loss, for detectors in which almost every box is background."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...nn.functional import binary_cross_entropy_with_logits
from ...nn.functional.op_decorators import SettingError
from ...ops import sigmoid

__all__ = ["sigmoid_focal_loss"]


def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none"
) -> Tensor:
    """Binary cross-entropy, scaled down where the prediction is right already.

        loss = -α (1 - p)ᵞ log p, where p is the probability of the true class

    Args:
        inputs: logits, of any shape.
        targets: 0 or 1, of the same shape.
        alpha: the weight of the class 1, and 1 - alpha that of the class 0; -1: no weights.
        gamma: how much less the easy ones count; 0 is plain cross-entropy.
        reduction: "none", "mean" or "sum".

    Raises: SettingError (a ValueError): `alpha` or `reduction` is out of range.

    Paper: Lin et al., Focal loss for dense object detection, 2017.

    >>> logits = tensor([0.0, 1.0])
    >>> edutorch.vision.ops.sigmoid_focal_loss(logits, tensor([1.0, 1.0]))
    tensor([0.0433, 0.0057])
    """
    if not 0 <= alpha <= 1 and alpha != -1:
        raise SettingError(
            "sigmoid_focal_loss", f"alpha should be from 0 to 1, or -1 for none, got {alpha}"
        )
    if reduction not in ("none", "mean", "sum"):
        raise SettingError(
            "sigmoid_focal_loss", f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}"
        )
    p = sigmoid(inputs)
    p_true = p * targets + (1 - p) * (1 - targets)
    loss = binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    loss = loss * (1 - p_true) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return loss if reduction == "none" else getattr(loss, reduction)()
