"""FCN: a network that classifies pictures becomes one that classifies pixels.

The linear layer at its end becomes a 1 by 1 convolution, which scores each pixel of the features.
"""

from __future__ import annotations

from .... import nn
from ..registry import register_model
from ..weights import WeightsLike
from .base import SegmentationModel, resnet_backbone

__all__ = ["FCN", "fcn_resnet50", "fcn_resnet101"]


class FCNHead(nn.Sequential):
    """A 3 by 3 convolution to a quarter of the channels, then a score of each class.

    Shape: input (N, in_channels, H, W), output (N, channels, H, W).
    """

    def __init__(self, in_channels: int, channels: int) -> None:
        hidden = in_channels // 4
        super().__init__(
            nn.Conv2d(in_channels, hidden, 3, padding=1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Conv2d(hidden, channels, 1),
        )


class FCN(SegmentationModel):
    """A fully convolutional network: features, two convolutions, enlargement.

    Args:
        backbone, classifier, aux_classifier: see `SegmentationModel`.

    Shape: input (N, 3, H, W); output: a dict with "out", and perhaps "aux": (N, classes, H, W).

    Paper: Long et al., Fully Convolutional Networks for Semantic Segmentation, 2014,
        https://arxiv.org/abs/1411.4038
    """


def build(
    resnet: str, num_classes: int | None, aux_loss: bool | None, weights_backbone: WeightsLike
) -> FCN:
    """Return an FCN on the features of a ResNet; 21 classes by default."""
    classes = 21 if num_classes is None else num_classes
    aux = FCNHead(1024, classes) if aux_loss else None
    backbone = resnet_backbone(resnet, weights_backbone, aux_loss)
    return FCN(backbone, FCNHead(2048, classes), aux)


@register_model
def fcn_resnet50(
    num_classes: int | None = None, aux_loss: bool | None = None,
    weights_backbone: WeightsLike = None,
) -> FCN:  # fmt: skip
    """FCN on ResNet-50, with 35.3 million parameters (33.0 without the second head).

    Args:
        num_classes: of pixels; 21 by default, as in Pascal VOC with the background.
        aux_loss: whether it has a second head, for a second loss while training.
        weights_backbone: of the ResNet. None by default (in PyTorch they are fetched).

    >>> model = edutorch.vision.models.segmentation.fcn_resnet50(num_classes=3)
    >>> model.classifier[4]
    Conv2d(512, 3, kernel_size=(1, 1), stride=(1, 1))
    """
    return build("resnet50", num_classes, aux_loss, weights_backbone)


@register_model
def fcn_resnet101(
    num_classes: int | None = None, aux_loss: bool | None = None,
    weights_backbone: WeightsLike = None,
) -> FCN:  # fmt: skip
    """FCN on ResNet-101, with 54.3 million parameters; see `fcn_resnet50`."""
    return build("resnet101", num_classes, aux_loss, weights_backbone)
