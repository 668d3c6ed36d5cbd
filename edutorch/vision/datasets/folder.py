"""Pictures in folders: the name of a folder is the class of what is in it.

root/cat/1.png    root/cat/2.png    root/dog/a.jpg
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import ArgumentError
from ..image_files import MissingFileError, near_hint, open_image
from .vision import Transform, VisionDataset

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""The endings of files that `ImageFolder` takes for pictures."""


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """Return True if a name has one of these endings, in small or capital letters.

    >>> has_file_allowed_extension("cat.PNG", (".png",))
    True
    """
    return str(filename).lower().endswith(extensions)


def is_image_file(filename: str) -> bool:
    """Return True if a name has the ending of a picture.

    >>> is_image_file("cat.jpeg")
    True
    """
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def default_loader(path: str) -> Any:
    """Return the picture in a file as a PIL image in colour.

    Raises:
        MissingFileError: there is no such file.
        DamagedFileError: it is no picture, or cut short.
    """
    return open_image(path, "ImageFolder").convert("RGB")


pil_loader = default_loader


def find_classes(directory: Any) -> tuple[list[str], dict[str, int]]:
    """Return the names of the folders in a folder, and their numbers in alphabetical order.

    Raises: MissingFileError: there are none, or there is no such folder.
    """
    if not os.path.isdir(directory):
        raise MissingFileError(
            "ImageFolder", "there is no such folder", {"root": directory},
            near_hint(Path(directory)),
        )  # fmt: skip
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise MissingFileError(
            "ImageFolder", "Couldn't find any class folder", {"root": directory},
            "expected a folder for each class: root/cat/1.png",
        )  # fmt: skip
    return classes, {name: number for number, name in enumerate(classes)}


def make_dataset(
    directory: Any, class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False,
) -> list[tuple[str, int]]:  # fmt: skip
    """Return (path, number of the class) of each file below the folders of the classes.

    Args:
        extensions: the endings of the files to take; or else
        is_valid_file: whether a path is to be taken.
        allow_empty: whether a class may have no file.

    Raises:
        ArgumentError: both or none of the two are given.
        MissingFileError: a class has no file.
    """
    if (extensions is None) == (is_valid_file is None):
        raise ArgumentError("make_dataset", "give either `extensions` or `is_valid_file`")
    if is_valid_file is None:
        endings = extensions or ""

        def is_valid_file(path: str) -> bool:
            return has_file_allowed_extension(path, endings)

    if class_to_idx is None:
        _, class_to_idx = find_classes(directory)
    samples, empty = [], []
    for name in sorted(class_to_idx):
        folder = os.path.join(os.path.expanduser(directory), name)
        paths = [
            path
            for parent, _, files in sorted(os.walk(folder, followlinks=True))
            for file in sorted(files)
            if is_valid_file(path := os.path.join(parent, file))
        ]
        samples += [(path, class_to_idx[name]) for path in paths]
        empty += [] if paths else [name]
    if empty and not allow_empty:
        raise MissingFileError(
            "make_dataset", f"Found no valid file for the classes {', '.join(empty)}",
            {"root": directory, "endings": extensions or "is_valid_file"},
            "allow_empty=True accepts that",
        )  # fmt: skip
    return samples


class DatasetFolder(VisionDataset):
    """Files in folders, one for each class; `loader` reads them.

    Args:
        root: the folder with the folders of the classes.
        loader: takes a path.
        extensions: the endings of the files to take; or else
        is_valid_file: whether a path is to be taken.
        allow_empty: whether a class may have no file.

    Attributes:
        classes: the names of the folders.
        class_to_idx: their numbers.
        samples: (path, number of the class) of each file.
        targets: the numbers of the classes.

    Raises: MissingFileError: there are no folders, or one is empty.
    """

    def __init__(
        self, root: Any, loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None, transform: Transform | None = None,
        target_transform: Transform | None = None,
        is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(
            self.root, self.class_to_idx, extensions, is_valid_file, allow_empty
        )
        self.loader, self.extensions = loader, extensions
        self.targets = [target for _, target in self.samples]

    @staticmethod
    def find_classes(directory: Any) -> tuple[list[str], dict[str, int]]:
        """Return the names of the classes and their numbers: override it for other folders."""
        return find_classes(directory)

    @staticmethod
    def make_dataset(
        directory: Any, class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False,
    ) -> list[tuple[str, int]]:  # fmt: skip
        """Return (path, number of the class) of each file."""
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return what the loader reads from a file and the number of its class."""
        path, target = self.samples[index]
        return self.change(self.loader(path), target)


class ImageFolder(DatasetFolder):
    """Pictures in folders, one for each class.

    Each item is a PIL image in colour and the number of its class.

    Args:
        root: the folder with the folders of the classes.
        loader: takes a path, by default `default_loader`.
        is_valid_file: whether a path is to be taken; by default those with a picture's ending.
        allow_empty: whether a class may have no picture.

    Raises: MissingFileError: there are no folders, or one is empty.

    >>> import os, tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for name in ("cat", "dog"):
    ...         os.mkdir(f"{root}/{name}")
    ...         Image.new("L", (4, 3)).save(f"{root}/{name}/1.png")
    ...     data = ImageFolder(root)
    ...     data.classes, len(data), data[1]
    (['cat', 'dog'], 2, (<PIL.Image.Image image mode=RGB size=4x3 at ...>, 1))
    """

    def __init__(
        self, root: Any, transform: Transform | None = None,
        target_transform: Transform | None = None, loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False,
    ) -> None:  # fmt: skip
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(
            root, loader, extensions, transform, target_transform, is_valid_file, allow_empty
        )
        self.imgs = self.samples


__all__ = [
    "IMG_EXTENSIONS", "DatasetFolder", "ImageFolder", "default_loader", "find_classes",
    "has_file_allowed_extension", "is_image_file", "make_dataset", "pil_loader",
]  # fmt: skip
