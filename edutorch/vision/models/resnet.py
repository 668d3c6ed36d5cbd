"""ResNet: a layer that learns what to add to its input, so that networks can be deep.

A block computes relu(x + f(x)): with f = 0 it passes on what it gets, and the gradient reaches the
first layers through the additions. Read `BasicBlock` first, then `ResNet.forward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ... import nn
from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...ops import flatten
from .initialization import NormLayer, initialize_convolutions
from .registry import register_model

__all__ = [
    "BasicBlock", "Bottleneck", "ResNet", "resnet18", "resnet34", "resnet50", "resnet101",
    "resnet152",
]  # fmt: skip


def conv3x3(
    in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1
) -> nn.Conv2d:
    """Return a 3 by 3 convolution that keeps the size of a picture (with stride 1)."""
    return nn.Conv2d(
        in_planes, out_planes, 3, stride, padding=dilation, groups=groups, bias=False,
        dilation=dilation,
    )  # fmt: skip


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """Return a 1 by 1 convolution: a linear map of the channels of each pixel."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """The block of ResNet-18 and -34: relu(x + bn(conv3(relu(bn(conv3(x)))))).

    Args:
        inplanes, planes: channels of the input and of the output.
        stride: of the first convolution; 2 halves the picture.
        downsample: brings x to the shape of the output where that differs.
        groups, base_width, dilation: 1, 64 and 1 here; only `Bottleneck` takes others.
        norm_layer: makes a normalization of so many channels; `BatchNorm2d` by default.

    Shape: input (N, inplanes, H, W), output (N, planes, H / stride, W / stride).
    """

    expansion: ClassVar[int] = 1

    def __init__(
        self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None,
        groups: int = 1, base_width: int = 64, dilation: int = 1,
        norm_layer: NormLayer | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64 or dilation > 1:
            raise InvalidValueError(
                "BasicBlock", f"takes no {groups=}, {base_width=}, {dilation=}: only 1, 64 and 1",
                hint="Bottleneck, the block of resnet50, takes others",
            )  # fmt: skip
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    """The block from ResNet-50 on: the 3 by 3 convolution works on a quarter of the channels.

    Args:
        inplanes, planes: channels of the input, and a quarter of those of the output.
        groups, base_width: ResNeXt splits the convolution into groups; wide ResNets widen it.
        stride, downsample, norm_layer: as in `BasicBlock`.
        dilation: gap between the pixels that the convolution sees, for segmentation.

    Shape: input (N, inplanes, H, W), output (N, 4 · planes, H / stride, W / stride).
    """

    expansion: ClassVar[int] = 4

    def __init__(
        self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None,
        groups: int = 1, base_width: int = 64, dilation: int = 1,
        norm_layer: NormLayer | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm_layer(width)
        # The stride is here, not in the first convolution as in the paper: more accurate.
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm_layer(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm_layer(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """A residual network: a stem, four stages of blocks, the mean over the picture, a linear layer.

    Args:
        block: `BasicBlock` or `Bottleneck`.
        layers: how many blocks each of the four stages has.
        num_classes: length of the output.
        zero_init_residual: start with blocks that pass on their input.
        groups, width_per_group: of the 3 by 3 convolutions of `Bottleneck`.
        replace_stride_with_dilation: for stages 2 to 4: keep the picture's size, and look further.
        norm_layer: makes a normalization of so many channels; `BatchNorm2d` by default.

    Shape: input (N, 3, H, W), output (N, num_classes). A stage works on the picture divided by
        4, 8, 16 and 32.

    Paper: He et al., Deep Residual Learning for Image Recognition, 2015,
        https://arxiv.org/abs/1512.03385

    >>> from edutorch.vision.models.resnet import BasicBlock, ResNet
    >>> model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10)
    >>> model(zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self, block: type[BasicBlock | Bottleneck], layers: Sequence[int], num_classes: int = 1000,
        zero_init_residual: bool = False, groups: int = 1, width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: NormLayer | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation = 64, 1
        self.groups, self.base_width = groups, width_per_group
        dilate = replace_stride_with_dilation or (False, False, False)
        if len(dilate) != 3:
            raise InvalidValueError(
                "ResNet", "replace_stride_with_dilation has one value for each of stages 2 to 4",
                {"replace_stride_with_dilation": dilate},
            )  # fmt: skip
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], stride=2, dilate=dilate[0])
        self.layer3 = self._make_layer(block, 256, layers[2], stride=2, dilate=dilate[1])
        self.layer4 = self._make_layer(block, 512, layers[3], stride=2, dilate=dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        initialize_convolutions(self)
        if zero_init_residual:
            zero_last_scales(self)

    def _make_layer(
        self, block: type[BasicBlock | Bottleneck], planes: int, blocks: int, stride: int = 1,
        dilate: bool = False,
    ) -> nn.Sequential:  # fmt: skip
        """Return a stage: only its first block changes the channels and the size."""
        previous_dilation = self.dilation
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        out_planes = planes * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != out_planes:
            downsample = nn.Sequential(
                conv1x1(self.inplanes, out_planes, stride), self._norm_layer(out_planes)
            )
        shared = (self.groups, self.base_width)
        first = block(
            self.inplanes, planes, stride, downsample, *shared, previous_dilation, self._norm_layer
        )
        self.inplanes = out_planes
        others = [
            block(out_planes, planes, 1, None, *shared, self.dilation, self._norm_layer)
            for _ in range(1, blocks)
        ]
        return nn.Sequential(first, *others)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(flatten(self.avgpool(x), 1))


def zero_last_scales(model: nn.Module) -> None:
    """Set the scale of each block's last normalization to 0: then f(x) = 0 at the beginning."""
    for module in model.modules():
        if isinstance(module, Bottleneck | BasicBlock):
            last = module.bn3 if isinstance(module, Bottleneck) else module.bn2
            nn.init.zeros_(last.weight)  # type: ignore[arg-type]


@register_model
def resnet18(**kwargs: Any) -> ResNet:
    """ResNet with 18 layers and 11.7 million parameters. The arguments are those of `ResNet`.

    >>> edutorch.vision.models.resnet18(num_classes=10).fc
    Linear(in_features=512, out_features=10, bias=True)
    """
    return ResNet(BasicBlock, [2, 2, 2, 2], **kwargs)


@register_model
def resnet34(**kwargs: Any) -> ResNet:
    """ResNet with 34 layers and 21.8 million parameters. The arguments are those of `ResNet`."""
    return ResNet(BasicBlock, [3, 4, 6, 3], **kwargs)


@register_model
def resnet50(**kwargs: Any) -> ResNet:
    """ResNet with 50 layers and 25.6 million parameters. The arguments are those of `ResNet`."""
    return ResNet(Bottleneck, [3, 4, 6, 3], **kwargs)


@register_model
def resnet101(**kwargs: Any) -> ResNet:
    """ResNet with 101 layers and 44.5 million parameters. The arguments are those of `ResNet`."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **kwargs)


@register_model
def resnet152(**kwargs: Any) -> ResNet:
    """ResNet with 152 layers and 60.2 million parameters. The arguments are those of `ResNet`."""
    return ResNet(Bottleneck, [3, 8, 36, 3], **kwargs)
