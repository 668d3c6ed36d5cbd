"""DeepLab V3: convolutions with gaps see far, without making the picture smaller.

Several of them with gaps of different width look at the same features, beside the mean of the whole
picture; a last convolution mixes what they see.
"""

from __future__ import annotations

from collections.abc import Sequence

from .... import nn
from ....core.tensor import Tensor
from ....ops import cat
from ..mobilenetv3 import mobilenet_v3_large
from ..registry import register_model
from ..weights import WeightsLike
from .base import IntermediateLayerGetter, SegmentationModel, enlarge, resnet_backbone
from .fcn import FCNHead

__all__ = [
    "DeepLabV3", "deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "deeplabv3_resnet101",
]  # fmt: skip


def normalized_conv(
    in_channels: int, out_channels: int, kernel_size: int, dilation: int = 1
) -> list[nn.Module]:
    """Return a convolution that keeps the size, batch normalization and relu."""
    padding = dilation * (kernel_size // 2)
    convolution = nn.Conv2d(
        in_channels, out_channels, kernel_size, padding=padding, dilation=dilation, bias=False
    )
    return [convolution, nn.BatchNorm2d(out_channels), nn.ReLU()]


class ASPPPooling(nn.Sequential):
    """The mean over the picture, a linear map of it, everywhere.

    Shape: input (N, in_channels, H, W), output (N, out_channels, H, W).
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(
            nn.AdaptiveAvgPool2d(1), *normalized_conv(in_channels, out_channels, kernel_size=1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return enlarge(super().forward(x), x)


class ASPP(nn.Module):
    """Atrous spatial pyramid pooling: several convolutions with gaps, side by side.

    Args:
        in_channels, out_channels: of the features, and of each convolution and the result.
        atrous_rates: distance between the pixels that each 3 by 3 convolution sees.

    Shape: input (N, in_channels, H, W), output (N, out_channels, H, W).
    """

    def __init__(
        self, in_channels: int, atrous_rates: Sequence[int], out_channels: int = 256
    ) -> None:
        super().__init__()
        channels = (in_channels, out_channels)
        self.convs = nn.ModuleList(
            [
                nn.Sequential(*normalized_conv(*channels, kernel_size=1)),
                *[nn.Sequential(*normalized_conv(*channels, 3, rate)) for rate in atrous_rates],
                ASPPPooling(*channels),
            ]
        )
        together = len(self.convs) * out_channels
        self.project = nn.Sequential(
            *normalized_conv(together, out_channels, kernel_size=1), nn.Dropout(0.5)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.project(cat([conv(x) for conv in self.convs], 1))


class DeepLabHead(nn.Sequential):
    """The pyramid, a 3 by 3 convolution, then a score of each class.

    Shape: input (N, in_channels, H, W), output (N, num_classes, H, W).
    """

    def __init__(
        self, in_channels: int, num_classes: int, atrous_rates: Sequence[int] = (12, 24, 36)
    ) -> None:
        super().__init__(
            ASPP(in_channels, atrous_rates),
            *normalized_conv(256, 256, kernel_size=3),
            nn.Conv2d(256, num_classes, 1),
        )


class DeepLabV3(SegmentationModel):
    """Features, a pyramid of convolutions with gaps, enlargement.

    Args:
        backbone, classifier, aux_classifier: see `SegmentationModel`.

    Shape: input (N, 3, H, W); output: a dict with "out", and perhaps "aux": (N, classes, H, W).

    Paper: Chen et al., Rethinking Atrous Convolution for Semantic Image Segmentation, 2017,
        https://arxiv.org/abs/1706.05587
    """


def build(
    resnet: str, num_classes: int | None, aux_loss: bool | None, weights_backbone: WeightsLike
) -> DeepLabV3:
    """Return a DeepLab V3 on the features of a ResNet; 21 classes by default."""
    classes = 21 if num_classes is None else num_classes
    aux = FCNHead(1024, classes) if aux_loss else None
    backbone = resnet_backbone(resnet, weights_backbone, aux_loss)
    return DeepLabV3(backbone, DeepLabHead(2048, classes), aux)


@register_model
def deeplabv3_resnet50(
    num_classes: int | None = None, aux_loss: bool | None = None,
    weights_backbone: WeightsLike = None,
) -> DeepLabV3:  # fmt: skip
    """DeepLab V3 on ResNet-50, with 42.0 million parameters (39.6 without the second head).

    Args:
        num_classes: of pixels; 21 by default, as in Pascal VOC with the background.
        aux_loss: whether it has a second head, for a second loss while training.
        weights_backbone: of the ResNet. None by default (in PyTorch they are fetched).
    """
    return build("resnet50", num_classes, aux_loss, weights_backbone)


@register_model
def deeplabv3_resnet101(
    num_classes: int | None = None, aux_loss: bool | None = None,
    weights_backbone: WeightsLike = None,
) -> DeepLabV3:  # fmt: skip
    """DeepLab V3 on ResNet-101, with 61.0 million parameters; see `deeplabv3_resnet50`."""
    return build("resnet101", num_classes, aux_loss, weights_backbone)


@register_model
def deeplabv3_mobilenet_v3_large(
    num_classes: int | None = None, aux_loss: bool | None = None,
    weights_backbone: WeightsLike = None,
) -> DeepLabV3:  # fmt: skip
    """DeepLab V3 on MobileNet V3, with 11.0 million parameters; see `deeplabv3_resnet50`."""
    classes = 21 if num_classes is None else num_classes
    features = mobilenet_v3_large(weights=weights_backbone, dilated=True).features
    # Layer 4 is the first with an eighth of the picture's size; 16 is the last, with 960 channels.
    layers = {"4": "aux", "16": "out"} if aux_loss else {"16": "out"}
    aux = FCNHead(40, classes) if aux_loss else None
    backbone = IntermediateLayerGetter(features, layers)
    return DeepLabV3(backbone, DeepLabHead(960, classes), aux)
