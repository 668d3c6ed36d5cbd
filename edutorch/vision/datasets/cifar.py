"""CIFAR-10 and CIFAR-100: small colour pictures, in pickles of Python 2.

A pickle is a program. Here it is read by the interpreter of `serialization`, which can only build
data: a file that names anything else is refused, and nothing of it runs.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...serialization.safe_classes import CheckpointError
from ...serialization.torch_file import find_allowed_global, run_as_data
from ..image_files import DamagedFileError
from ..transforms.functional.conversion import require_pil
from .mnist import check_labels
from .utils import DataFile, extract_archive, fetch, missing_file
from .vision import Transform, VisionDataset


def read_pickle(path: Path, op: str) -> dict[str, Any]:
    """Return the dict of a pickle, whose keys may be text or bytes.

    Raises: DamagedFileError: it is damaged, or holds more than data.
    """
    try:
        program = io.BytesIO(path.read_bytes())
        entries = run_as_data(program, find_allowed_global, refuse_persistent, str(path))
    except CheckpointError as error:
        raise DamagedFileError(
            op, "the file is no pickle of data", {"path": path, "found": error.message},
            "it was cut short or changed: copy it again",
        ) from error  # fmt: skip
    if not isinstance(entries, dict):
        raise DamagedFileError(
            op, "the file holds no dict", {"path": path, "found": type(entries).__name__}
        )
    return {
        key.decode("latin1") if isinstance(key, bytes) else str(key): value
        for key, value in entries.items()
    }


def refuse_persistent(name: Any) -> Any:
    raise ValueError("it refers to something outside of the file")


class CIFAR10(VisionDataset):
    """Pictures of ten classes of things: 50,000 to train and 10,000 to test, 32 × 32, in colour.

    Each item is a PIL image and the number of its class.

    Args:
        root: the folder that contains cifar-10-batches-py, or cifar-10-python.tar.gz.
        train: whether to take the training set, or the test set.
        download: whether the archive is copied from an address that the user has named, and
            unpacked. Nothing is fetched from the web.

    Attributes:
        data: all pictures, an array N × 32 × 32 × 3.
        targets: their classes, a list.

    Raises:
        MissingFileError: a file is not there; it says which, and its checksum.
        DamagedFileError: a file is cut short, or not what it should be.

    Source: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009).

    >>> CIFAR10.base_folder
    'cifar-10-batches-py'
    """

    base_folder = "cifar-10-batches-py"
    archive = DataFile("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a")
    train_list: ClassVar[list[DataFile]] = [
        DataFile("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        DataFile("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        DataFile("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        DataFile("data_batch_4", "634d18415352ddfa80567beed471001a"),
        DataFile("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
    ]
    test_list: ClassVar[list[DataFile]] = [
        DataFile("test_batch", "40351d587109b95175f43aff81a1287e")
    ]
    meta = DataFile("batches.meta", "5ff9c542aee3614f3951f8cda6e48888")
    label_key, names_key = "labels", "label_names"
    mirrors: ClassVar[list[str]] = []

    def __init__(
        self, root: Any, train: bool = True, transform: Transform | None = None,
        target_transform: Transform | None = None, download: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        files = self.train_list if train else self.test_list
        if download and not all(self.path(file).is_file() for file in [*files, self.meta]):
            folder = Path(self.root)
            archive = folder / self.archive.name
            if not archive.is_file():
                archive = fetch(type(self).__name__, self.archive, folder, self.mirrors)
            extract_archive(archive, folder)
        names = self.read(self.meta).get(self.names_key)
        self.classes = self.check_names(names)
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        batches = [self.read_batch(file) for file in files]
        self.data = np.concatenate([images for images, _ in batches])
        self.targets = [int(label) for _, labels in batches for label in labels]

    def path(self, file: DataFile) -> Path:
        """Return where a file belongs."""
        return Path(self.root) / self.base_folder / file.name

    def read(self, file: DataFile) -> dict[str, Any]:
        """Return the dict in a file."""
        path, op = self.path(file), type(self).__name__
        if not path.is_file():
            inside = DataFile(f"{file.name} in {self.archive.name}", file.md5)
            raise missing_file(op, path, inside)
        return read_pickle(path, op)

    def check_names(self, names: Any) -> list[str]:
        """Return the names of the classes."""
        if not isinstance(names, list) or not names:
            raise DamagedFileError(
                type(self).__name__, f"the file has no list {self.names_key!r}",
                {"path": self.path(self.meta)},
            )  # fmt: skip
        return [name.decode("latin1") if isinstance(name, bytes) else str(name) for name in names]

    def read_batch(self, file: DataFile) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the pictures N × 32 × 32 × 3 of a file, and their labels.

        In the file each picture is a row: all of red, then green, then blue.
        """
        entries, path, op = self.read(file), self.path(file), type(self).__name__
        rows, labels = entries.get("data"), np.asarray(entries.get(self.label_key, ()))
        if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.shape[1:] != (3072,):
            shape = f"{rows.shape} {rows.dtype}" if isinstance(rows, np.ndarray) else type(rows)
            raise DamagedFileError(
                op, "the pictures have another shape",
                {"path": path, "expected": "N × 3072, uint8", "found": shape},
                "each row is 3 channels × 32 × 32",
            )  # fmt: skip
        if labels.shape != (len(rows),) or labels.dtype.kind not in "iu":
            raise DamagedFileError(
                op, f"expected as many {self.label_key!r} as pictures",
                {"path": path, "pictures": len(rows), "labels": labels.shape},
            )  # fmt: skip
        check_labels(op, labels, len(self.classes), path)
        return rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a PIL image and the number of its class, after the transforms."""
        pixels = np.ascontiguousarray(self.data[index])
        picture = require_pil(type(self).__name__).fromarray(pixels)
        return self.change(picture, self.targets[index])

    def extra_repr(self) -> str:
        """Return which part of the data it is."""
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """Pictures of a hundred classes of things, in the format of CIFAR-10.

    >>> CIFAR100.base_folder
    'cifar-100-python'
    """

    base_folder = "cifar-100-python"
    archive = DataFile("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85")
    train_list: ClassVar[list[DataFile]] = [DataFile("train", "16019d7e3df5f24257cddd939b257f8d")]
    test_list: ClassVar[list[DataFile]] = [DataFile("test", "f0ef6b0ae62326f3e7ffdfab6717acfc")]
    meta = DataFile("meta", "7973b15100ade9c7d40fb424638fde48")
    label_key, names_key = "fine_labels", "fine_label_names"


__all__ = ["CIFAR10", "CIFAR100"]
