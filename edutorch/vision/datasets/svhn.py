"""SVHN: house numbers from photographs of streets, in files of Matlab."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...errors import missing_extra
from ..image_files import PIL_ERRORS, DamagedFileError
from ..transforms.functional.conversion import require_pil
from .mnist import check_labels
from .utils import DataFile, fetch, missing_file, verify_str_arg
from .vision import Transform, VisionDataset


class SVHN(VisionDataset):
    """Digits of house numbers, 32 × 32, in colour: 73,257 to train, 26,032 to test, 531,131 more.

    Each item is a PIL image and its digit. (In the file the digit 0 is called 10.)

    Args:
        root: the folder that contains train_32x32.mat, test_32x32.mat or extra_32x32.mat.
        split: "train", "test" or "extra".
        download: whether a missing file is copied from an address that the user has named.

    Raises:
        MissingFileError: the file is not there; it says which, and its checksum.
        DamagedFileError: it is cut short, or not what it should be.

    Paper: Netzer et al., "Reading Digits in Natural Images with Unsupervised Feature Learning"
    (2011).

    >>> SVHN.split_list["test"].name
    'test_32x32.mat'
    """

    split_list: ClassVar[dict[str, DataFile]] = {
        "train": DataFile("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        "test": DataFile("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
        "extra": DataFile("extra_32x32.mat", "a93ce644f1a588dc4d68dda5feec44a7"),
    }
    mirrors: ClassVar[list[str]] = []

    def __init__(
        self, root: Any, split: str = "train", transform: Transform | None = None,
        target_transform: Transform | None = None, download: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", self.split_list)
        published = self.split_list[split]
        path = Path(self.root) / published.name
        if not path.is_file():
            if not download:
                raise missing_file("SVHN", path, published)
            fetch("SVHN", published, Path(self.root), self.mirrors)
        images, labels = read_mat(path)
        check_labels("SVHN", labels, 10, path, first=1)
        self.data = images.transpose(3, 2, 0, 1)  # N × 3 × 32 × 32
        self.labels = np.where(labels == 10, 0, labels)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a PIL image and its digit, after the transforms."""
        pixels = np.ascontiguousarray(self.data[index].transpose(1, 2, 0))
        return self.change(require_pil("SVHN").fromarray(pixels), int(self.labels[index]))

    def extra_repr(self) -> str:
        """Return which part of the data it is."""
        return f"Split: {self.split}"


def read_mat(path: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return X (height × width × 3 × N) and y (N) of a file of Matlab.

    Raises:
        MissingExtraError: SciPy is not installed.
        DamagedFileError: it is no such file, or the arrays have other shapes.
    """
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise missing_extra("vision", "SVHN", "SciPy is not installed") from error
    try:
        arrays = loadmat(path, variable_names=["X", "y"])
    except (*PIL_ERRORS, MemoryError) as error:
        raise DamagedFileError(
            "SVHN", f"the Matlab file is damaged: {error}", {"path": path},
            "it was cut short or changed: copy it again",
        ) from error  # fmt: skip
    images, labels = arrays.get("X"), arrays.get("y")
    shapes = f"X {getattr(images, 'shape', None)}, y {getattr(labels, 'shape', None)}"
    if (
        images is None or labels is None or images.dtype != np.uint8 or images.ndim != 4
        or images.shape[:3] != (32, 32, 3) or labels.size != images.shape[3]
    ):  # fmt: skip
        raise DamagedFileError(
            "SVHN", "the arrays have other shapes",
            {"path": path, "expected": "X 32 × 32 × 3 × N of uint8, y N × 1", "found": shapes},
            "take the cropped digits (format 2)",
        )  # fmt: skip
    return images, labels.astype(np.int64).reshape(-1)


__all__ = ["SVHN"]
