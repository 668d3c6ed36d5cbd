"""Data sets of pictures, in the formats in which they are published (see README.md).

    data = datasets.MNIST("data", train=True, transform=transforms.ToTensor())

Nothing is fetched from the web: what is missing is named, with its checksum and where it belongs.
"""

from __future__ import annotations

from . import utils
from .cifar import CIFAR10, CIFAR100
from .coco import CocoCaptions, CocoDetection
from .digits import Digits, write_digits
from .fakedata import FakeData
from .folder import DatasetFolder, ImageFolder
from .mnist import EMNIST, KMNIST, MNIST, QMNIST, FashionMNIST
from .stl10 import STL10
from .svhn import SVHN
from .vision import VisionDataset
from .voc import VOCDetection, VOCSegmentation

__all__ = [
    "CIFAR10", "CIFAR100", "CocoCaptions", "CocoDetection", "DatasetFolder", "Digits", "EMNIST",
    "FakeData", "FashionMNIST", "ImageFolder", "KMNIST", "MNIST", "QMNIST", "STL10", "SVHN",
    "VOCDetection", "VOCSegmentation", "VisionDataset", "utils", "write_digits",
]  # fmt: skip
