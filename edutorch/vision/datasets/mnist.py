"""MNIST and its family: small grey pictures in IDX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...core.tensor import Tensor
from ...ops.from_data import from_numpy
from ..image_files import DamagedFileError
from ..transforms.functional.conversion import require_pil
from ..transforms.functional.image import plain_array
from .idx import read_idx
from .utils import DataFile, extract_archive, fetch, find_file, missing_file, verify_str_arg
from .vision import Transform, VisionDataset


class MNIST(VisionDataset):
    """Handwritten digits: 60,000 to train and 10,000 to test, 28 × 28, grey.

    Each item is a PIL image and the number of its class.

    Args:
        root: the folder that contains MNIST/raw with the published files, as they are or unpacked.
        train: whether to take the training set, or the test set.
        download: whether missing files are copied from an address that the user has named: see
            `datasets.utils.fetch`. Nothing is fetched from the web.

    Raises:
        MissingFileError: a file is not there; it says which, and its checksum.
        DamagedFileError: a file is cut short, or not what it should be.

    Source: LeCun, Cortes and Burges, "The MNIST database of handwritten digits".

    >>> import tempfile
    >>> from edutorch.vision.datasets import write_digits
    >>> with tempfile.TemporaryDirectory() as root:
    ...     write_digits(root, copies=1)
    ...     data = MNIST(root, train=False)
    >>> picture, label = data[0]
    >>> len(data), picture.size, picture.mode
    (359, (28, 28), 'L')
    """

    resources: ClassVar[list[DataFile]] = [
        DataFile("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        DataFile("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        DataFile("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        DataFile("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ]
    mirrors: ClassVar[list[str]] = []
    classes: ClassVar[list[str]] = [
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five", "6 - six",
        "7 - seven", "8 - eight", "9 - nine",
    ]  # fmt: skip

    def __init__(
        self, root: Any, train: bool = True, transform: Transform | None = None,
        target_transform: Transform | None = None, download: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        self.data, self.targets = self.load(download)

    @property
    def raw_folder(self) -> str:
        """The folder of the files."""
        return str(Path(self.root) / type(self).__name__ / "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class."""
        return {name: number for number, name in enumerate(self.classes)}

    def files(self) -> list[DataFile]:
        """Return the published files of the images and of the labels."""
        return list(self.resources[:2] if self.train else self.resources[2:])

    def load(self, download: bool) -> tuple[Tensor, Tensor]:
        """Return all images N × 28 × 28, and their labels."""
        image_file, label_file = (self.find(published, download) for published in self.files())
        images, labels = read_idx(image_file, axes=3), read_idx(label_file, axes=1)
        self.check(images, labels, image_file, label_file)
        return from_numpy(images), from_numpy(labels.astype(np.int64))

    def find(self, published: DataFile, download: bool) -> Path:
        """Return the path of a file, unpacked or as it was published."""
        folder, op = Path(self.raw_folder), type(self).__name__
        unpacked = published.name.removesuffix(".gz")
        path = find_file(folder, [unpacked, published.name])
        if path is None and not download:
            raise missing_file(op, folder / unpacked, published)
        return path or fetch(op, published, folder, self.mirrors)

    def check(self, images: Any, labels: Any, image_file: Path, label_file: Path) -> None:
        """Raise DamagedFileError if images and labels do not belong together."""
        op = type(self).__name__
        if images.dtype != np.uint8 or len(images) != len(labels):
            raise DamagedFileError(
                op, "images and labels do not belong together",
                {str(image_file): f"{images.shape} {images.dtype}",
                 str(label_file): f"{labels.shape} {labels.dtype}"},
                "expected as many labels as images, and images of uint8",
            )  # fmt: skip
        check_labels(op, labels, len(self.classes), label_file)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a PIL image and the number of its class, after the transforms."""
        picture = picture_at(self.data, index, type(self).__name__)
        return self.change(picture, int(self.targets[index]))

    def extra_repr(self) -> str:
        """Return which part of the data it is."""
        return f"Split: {'Train' if self.train else 'Test'}"


def picture_at(data: Tensor, index: int, op: str) -> Any:
    """Return one of the images N × height × width as a PIL image."""
    images = plain_array(data)  # numpy() would watch what is written to each
    pixels = data[index].cpu().numpy() if images is None else images[index]
    return require_pil(op).fromarray(pixels)


def check_labels(op: str, labels: Any, classes: int, path: Path, first: int = 0) -> None:
    """Raise DamagedFileError for a label that is the number of no class."""
    wrong = np.flatnonzero((labels < first) | (labels >= first + classes))
    if len(wrong):
        raise DamagedFileError(
            op, "a label is out of range",
            {"path": path, "expected": f"{first} to {first + classes - 1}",
             "found": f"{labels[wrong[0]]} at position {wrong[0]}"},
            "labels are the numbers of the classes",
        )  # fmt: skip


class FashionMNIST(MNIST):
    """Pictures of clothes in the format of MNIST: 60,000 to train and 10,000 to test.

    Paper: Xiao, Rasul and Vollgraf, "Fashion-MNIST" (2017).

    >>> FashionMNIST.classes[:2]
    ['T-shirt/top', 'Trouser']
    """

    resources: ClassVar[list[DataFile]] = [
        DataFile("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        DataFile("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        DataFile("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        DataFile("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ]
    classes: ClassVar[list[str]] = [
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
        "Ankle boot",
    ]  # fmt: skip


class KMNIST(MNIST):
    """Handwritten Japanese characters in the format of MNIST: 60,000 to train and 10,000 to test.

    Paper: Clanuwat et al., "Deep Learning for Classical Japanese Literature" (2018).

    >>> KMNIST.classes[:3]
    ['o', 'ki', 'su']
    """

    resources: ClassVar[list[DataFile]] = [
        DataFile("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
        DataFile("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
        DataFile("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
        DataFile("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"),
    ]
    classes: ClassVar[list[str]] = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


DIGITS, CAPITALS = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SMALL = CAPITALS.lower()
MERGED = sorted(set(SMALL) - set("cijklmopsuvwxyz"))
"""Small letters that look unlike the capital ones."""


class EMNIST(MNIST):
    """Handwritten digits and letters in the format of MNIST.

    Args:
        split: "byclass", "bymerge" (small letters that look like capitals are one class with them),
            "balanced" (as many of each), "letters", "digits" or "mnist".

    Paper: Cohen et al., "EMNIST: an extension of MNIST to handwritten letters" (2017).

    >>> EMNIST.classes_split_dict["letters"][:3]
    ['N/A', 'a', 'b']
    """

    archive = DataFile("gzip.zip", "58c8d27c78d21e728a6bc7b3cc06412e")
    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    classes_split_dict: ClassVar[dict[str, list[str]]] = {
        "byclass": sorted(DIGITS + CAPITALS + SMALL),
        "bymerge": sorted([*DIGITS, *CAPITALS, *MERGED]),
        "balanced": sorted([*DIGITS, *CAPITALS, *MERGED]),
        "letters": ["N/A", *SMALL],
        "digits": list(DIGITS),
        "mnist": list(DIGITS),
    }

    def __init__(self, root: Any, split: str, **kwargs: Any) -> None:
        self.split = verify_str_arg(split, "split", self.splits)
        self.classes = self.classes_split_dict[split]  # type: ignore[misc]
        super().__init__(root, **kwargs)

    def files(self) -> list[DataFile]:
        """Return the files of the images and of the labels, which lie in one archive."""
        start = f"emnist-{self.split}-{'train' if self.train else 'test'}"
        names = (f"{start}-images-idx3-ubyte.gz", f"{start}-labels-idx1-ubyte.gz")
        inside = f"in {self.archive.name}, {self.archive.md5}"
        return [DataFile(name, inside) for name in names]

    def find(self, published: DataFile, download: bool) -> Path:
        """Return the path of a file; with `download` the archive is fetched and unpacked."""
        folder = Path(self.raw_folder)
        inside = f"gzip/{published.name}"  # the archive's folder
        unpacked = published.name.removesuffix(".gz")
        path = find_file(folder, [unpacked, published.name, inside])
        if path is None and download:
            extract_archive(fetch(type(self).__name__, self.archive, folder, self.mirrors), folder)
            path = find_file(folder, [inside])
        if path is None:
            raise missing_file(type(self).__name__, folder / unpacked, published)
        return path


class QMNIST(MNIST):
    """MNIST with all 60,000 test images, and who wrote each.

    Args:
        what: "train", "test", "test10k" (MNIST's test images), "test50k" (the others) or "nist";
            by default `train` chooses.
        compat: whether the target is the class, or all eight numbers of a label: class, source,
            writer, and others.

    Paper: Yadav and Bottou, "Cold Case: the Lost MNIST Digits" (2019).

    >>> QMNIST.subsets["test50k"]
    'test'
    """

    subsets: ClassVar[dict[str, str]] = {
        "train": "train", "test": "test", "test10k": "test", "test50k": "test", "nist": "nist",
    }  # fmt: skip
    resources_by_subset: ClassVar[dict[str, list[DataFile]]] = {
        "train": [
            DataFile("qmnist-train-images-idx3-ubyte.gz", "ed72d4157d28c017586c42bc6afe6370"),
            DataFile("qmnist-train-labels-idx2-int.gz", "0058f8dd561b90ffdd0f734c6a30e5e4"),
        ],
        "test": [
            DataFile("qmnist-test-images-idx3-ubyte.gz", "1394631089c404de565df7b7aeaf9412"),
            DataFile("qmnist-test-labels-idx2-int.gz", "5b5b05890a5e13444e108efe57b788aa"),
        ],
        "nist": [
            DataFile("xnist-images-idx3-ubyte.xz", "7f124b3b8ab81486c9d8c2749c17f834"),
            DataFile("xnist-labels-idx2-int.xz", "5ed0e788978e45d4a8bd4b7caec3d79d"),
        ],
    }

    def __init__(
        self, root: Any, what: str | None = None, compat: bool = True, train: bool = True,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        self.what = verify_str_arg(what or ("train" if train else "test"), "what", self.subsets)
        self.compat = compat
        super().__init__(root, train, **kwargs)

    def files(self) -> list[DataFile]:
        """Return the published files of the images and of the labels."""
        return self.resources_by_subset[self.subsets[self.what]]

    def load(self, download: bool) -> tuple[Tensor, Tensor]:
        """Return all images N × 28 × 28, and eight numbers for each."""
        image_file, label_file = (self.find(published, download) for published in self.files())
        images, labels = read_idx(image_file, axes=3), read_idx(label_file, axes=2)
        if labels.shape[1:] != (8,):
            raise DamagedFileError(
                "QMNIST", "a label has eight numbers",
                {"path": label_file, "expected": "N × 8", "found": labels.shape},
            )  # fmt: skip
        self.check(images, labels[:, 0], image_file, label_file)
        part = {"test10k": slice(0, 10_000), "test50k": slice(10_000, None)}.get(self.what)
        part = part or slice(None)
        return from_numpy(images[part].copy()), from_numpy(labels[part].astype(np.int64))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a PIL image and its class, or all numbers of its label."""
        picture = picture_at(self.data, index, "QMNIST")
        label: Any = self.targets[index]
        return self.change(picture, int(label[0]) if self.compat else label)

    def extra_repr(self) -> str:
        """Return which part of the data it is."""
        return f"Split: {self.what}"


__all__ = ["EMNIST", "KMNIST", "MNIST", "QMNIST", "FashionMNIST"]
