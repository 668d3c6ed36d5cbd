"""Handwritten digits that come with scikit-learn: real, and there without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...datasets import load_digits
from ...nn.functional import interpolate
from ...ops.from_data import from_numpy
from .idx import write_idx
from .mnist import MNIST, picture_at
from .vision import Transform, VisionDataset

TEST_EVERY = 5
"""Every fifth of 1,797 digits is for testing, so that both parts have the hands of all writers."""


def read_digits(image_size: int, train: bool) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return digits N × image_size × image_size of uint8, and their classes."""
    images, labels = load_digits()
    is_test = np.arange(len(labels)) % TEST_EVERY == TEST_EVERY - 1
    part = from_numpy(np.flatnonzero(is_test != train))
    pixels = images[part]
    if image_size != 8:
        # As in MNIST the digit takes 20 of 28 pixels, and a border of zeros is around it.
        inner = max(image_size * 20 // 28, 1)
        pixels = interpolate(pixels, (inner, inner), mode="bilinear", align_corners=False)
    before = (image_size - pixels.shape[-1]) // 2
    after = image_size - pixels.shape[-1] - before
    levels = (pixels[:, 0].numpy() * 255).round().astype(np.uint8)
    return np.pad(levels, ((0, 0), (before, after), (before, after))), labels[part].numpy()


class Digits(VisionDataset):
    """Handwritten digits: 1,438 to train and 359 to test, grey.

    Each item is a PIL image and its digit. They come with scikit-learn (BSD-3), or are copied as
    `edutorch.datasets.write_data` says: nothing is fetched.

    Args:
        train: whether to take the training set, or the test set.
        image_size: height and width; 8 as in the file, other sizes by interpolation.

    Raises: MissingExtraError: scikit-learn is not installed.

    >>> data = Digits()
    >>> picture, digit = data[0]
    >>> len(data), picture.size, digit
    (1438, (28, 28), 0)
    """

    classes = MNIST.classes

    def __init__(
        self, train: bool = True, transform: Transform | None = None,
        target_transform: Transform | None = None, image_size: int = 28,
    ) -> None:  # fmt: skip
        super().__init__(transform=transform, target_transform=target_transform)
        self.train = train
        images, labels = read_digits(image_size, train)
        self.data, self.targets = from_numpy(images), from_numpy(labels)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a PIL image and its digit, after the transforms."""
        picture = picture_at(self.data, index, "Digits")
        return self.change(picture, int(self.targets[index]))

    def extra_repr(self) -> str:
        """Return which part of the data it is."""
        return f"Split: {'Train' if self.train else 'Test'}"


def write_digits(root: Any, copies: int = 9) -> None:
    """Write scikit-learn's digits as the files of MNIST, so that a program for MNIST can run.

    Args:
        root: the files are written into its folder MNIST/raw.
        copies: how often each digit of the training set is written: the first as it is, the others
            moved by a pixel, and mixed. The test set is written once, as it is.

    Raises: FileExistsError: there are files already, which may be the real ones.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     write_digits(root, copies=2)
    ...     len(MNIST(root))
    2876
    """
    folder = Path(root).expanduser() / "MNIST" / "raw"
    names = [file.name.removesuffix(".gz") for file in MNIST.resources]
    for name in names:
        if (folder / name).exists() or (folder / f"{name}.gz").exists():
            raise FileExistsError(f"write_digits: {folder / name} is there already")
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.RandomState(0)  # the same files on each machine
    images, labels = read_digits(28, train=True)
    moves = [(0, 0), *random.randint(-1, 2, (copies - 1, 2)).tolist()]
    images = np.concatenate([np.roll(images, move, (1, 2)) for move in moves])
    order = random.permutation(len(images))
    write_idx(folder / names[0], images[order])
    write_idx(folder / names[1], np.tile(labels, copies)[order].astype(np.uint8))
    images, labels = read_digits(28, train=False)
    write_idx(folder / names[2], images)
    write_idx(folder / names[3], labels.astype(np.uint8))


__all__ = ["Digits", "write_digits"]
