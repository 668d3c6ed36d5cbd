"""AlexNet: the network that won ImageNet in 2012, and began it all.

Five convolutions with relu and pooling, three linear layers with dropout: nothing else.
"""

from __future__ import annotations

from typing import Any

from ... import nn
from ...core.tensor import Tensor
from ...ops import flatten
from .registry import register_model

__all__ = ["AlexNet", "alexnet"]


class AlexNet(nn.Module):
    """Convolutions with ever more channels on ever smaller pictures, then a classifier.

    Args:
        num_classes: length of the output.
        dropout: probability with which an input of the two hidden linear layers is zeroed.

    Shape: input (N, 3, H, W), H and W at least 63; output (N, num_classes).

    Paper: Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014,
        https://arxiv.org/abs/1404.5997: the variant without two halves.
    """

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.features(x))
        return self.classifier(flatten(x, 1))


@register_model
def alexnet(**kwargs: Any) -> AlexNet:
    """AlexNet with 61.1 million parameters. The arguments are those of `AlexNet`.

    >>> edutorch.vision.models.alexnet(num_classes=10).features[0]
    Conv2d(3, 64, kernel_size=(11, 11), stride=(4, 4), padding=(2, 2))
    """
    return AlexNet(**kwargs)
