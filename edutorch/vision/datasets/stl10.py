"""STL-10: pictures of ten classes, few with labels and many without, in plain bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...errors import InvalidValueError
from ..image_files import DamagedFileError
from ..transforms.functional.conversion import require_pil
from .mnist import check_labels
from .utils import DataFile, extract_archive, fetch, missing_file, verify_str_arg
from .vision import Transform, VisionDataset

PIXELS = 3 * 96 * 96


class STL10(VisionDataset):
    """Pictures of 96 × 96 in colour: 5,000 to train, 8,000 to test, 100,000 without labels.

    Each item is a PIL image and the number of its class, -1 without a label.

    Args:
        root: the folder that contains stl10_binary, or stl10_binary.tar.gz.
        split: "train", "test", "unlabeled" or "train+unlabeled".
        folds: from 0 to 9: the thousand training pictures of a published fold; None for all.
        download: whether the archive is copied from an address that the user has named, and
            unpacked.

    Raises:
        MissingFileError: a file is not there; it says which, and its checksum.
        DamagedFileError: a file is cut short, or not what it should be.

    Paper: Coates, Lee and Ng, "An Analysis of Single-Layer Networks in Unsupervised Feature
    Learning" (2011).

    >>> STL10.splits
    ('train', 'train+unlabeled', 'unlabeled', 'test')
    """

    base_folder = "stl10_binary"
    archive = DataFile("stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb")
    files: ClassVar[dict[str, tuple[DataFile, DataFile | None]]] = {
        "train": (
            DataFile("train_X.bin", "918c2871b30a85fa023e0c44e0bee87f"),
            DataFile("train_y.bin", "5a34089d4802c674881badbb80307741"),
        ),
        "test": (
            DataFile("test_X.bin", "7f263ba9f9e0b06b93213547f721ac82"),
            DataFile("test_y.bin", "36f9794fa4beb8a2c72628de14fa638e"),
        ),
        "unlabeled": (DataFile("unlabeled_X.bin", "5242ba1fed5e4be9e1e742405eb56ca4"), None),
    }
    splits = ("train", "train+unlabeled", "unlabeled", "test")
    mirrors: ClassVar[list[str]] = []

    def __init__(
        self, root: Any, split: str = "train", folds: int | None = None,
        transform: Transform | None = None, target_transform: Transform | None = None,
        download: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", self.splits)
        if folds is not None and not (isinstance(folds, int) and 0 <= folds < 10):
            raise InvalidValueError("STL10", "`folds` lies between 0 and 9", {"folds": folds})
        self.folds = folds
        self.folder = Path(self.root) / self.base_folder
        if download and not (self.folder / self.files[split.split("+")[0]][0].name).is_file():
            extract_archive(fetch("STL10", self.archive, Path(self.root), self.mirrors), self.root)
        names = self.folder / "class_names.txt"
        self.classes = names.read_text("utf-8").split() if names.is_file() else []
        parts = [self.load(part) for part in split.split("+")]
        # One part stays on the disk: the pictures without labels are 2.8 GB.
        self.data = parts[0][0] if len(parts) == 1 else np.concatenate([part[0] for part in parts])
        self.labels = np.concatenate([labels for _, labels in parts])

    def load(self, part: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the pictures N × 3 × 96 × 96 of a part, and their labels."""
        image_file, label_file = self.files[part]
        data = self.read(image_file)
        if data.size == 0 or data.size % PIXELS:
            raise DamagedFileError(
                "STL10", "the file does not hold whole pictures",
                {"path": self.folder / image_file.name, "expected": f"a multiple of {PIXELS} bytes",
                 "found": f"{data.size} bytes"},
                "it was cut short: copy it again",
            )  # fmt: skip
        # Column by column, as in Matlab.
        images = data.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)
        if label_file is None:
            return images, np.full(len(images), -1)
        labels = self.read(label_file).astype(np.int64)
        path = self.folder / label_file.name
        if len(labels) != len(images):
            raise DamagedFileError(
                "STL10", "expected as many labels as pictures",
                {"path": path, "pictures": len(images), "labels": len(labels)},
            )  # fmt: skip
        check_labels("STL10", labels, 10, path, first=1)
        if part == "train" and self.folds is not None:
            chosen = self.fold(len(images))
            images, labels = images[chosen], labels[chosen]
        return images, labels - 1

    def read(self, file: DataFile) -> np.ndarray[Any, Any]:
        """Return the bytes of a file, which stay on the disk until they are used."""
        path = self.folder / file.name
        if not path.is_file():
            inside = DataFile(f"{file.name} in {self.archive.name}", file.md5)
            raise missing_file("STL10", path, inside)
        if path.stat().st_size == 0:
            return np.empty(0, np.uint8)
        return np.memmap(path, np.uint8, "r")

    def fold(self, count: int) -> np.ndarray[Any, Any]:
        """Return which training pictures are in the fold."""
        path = self.folder / "fold_indices.txt"
        if not path.is_file():
            raise missing_file("STL10", path, DataFile(path.name, f"in {self.archive.name}"))
        lines = path.read_text("utf-8").splitlines()
        try:
            indices = np.array([int(word) for word in lines[self.folds or 0].split()])
        except (IndexError, ValueError) as error:
            raise DamagedFileError(
                "STL10", "the file has no such fold", {"path": path, "folds": self.folds}
            ) from error
        check_labels("STL10", indices, count, path)
        return indices

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a PIL image and the number of its class, after the transforms."""
        pixels = np.ascontiguousarray(self.data[index].transpose(1, 2, 0))
        return self.change(require_pil("STL10").fromarray(pixels), int(self.labels[index]))

    def extra_repr(self) -> str:
        """Return which part of the data it is."""
        return f"Split: {self.split}"


__all__ = ["STL10"]
