"""Where the files of a data set are; nothing is downloaded."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import EdutorchError, InvalidValueError
from ...utils.data import IterableDataset


class DataFileError(EdutorchError, ValueError):
    """A line of a data file cannot be read."""


def find_file(name: str, root: str | Path, path: str, source: str) -> Path:
    """Return the path of a file, or folder, of a data set.

    It is looked for in root/name, root/datasets/name (where torchtext puts it) and root itself,
    with and without the folder that the published archive has.

    Args:
        name: of the data set, "AG_NEWS".
        path: of the file in the archive, "ag_news_csv/train.csv".
        source: the archive, as it is published.

    Raises: FileNotFoundError: it is nowhere; the error says which file belongs where.
    """
    folder = Path(root)
    short = path.partition("/")[2]
    for parent in (folder / name, folder / "datasets" / name, folder):
        for tail in (path, short) if short else (path,):
            if (parent / tail).exists():
                return parent / tail
    raise FileNotFoundError(
        f"datasets.{name}: {folder / name / path} is not there"
        f"\n  hint: nothing is downloaded; unpack {source} into {folder / name}"
    )


class TextDataset(IterableDataset):
    """The items of a file, read anew whenever they are iterated over."""

    def __init__(self, name: str, split: str, read: Callable[[], Iterator[Any]]) -> None:
        self.name, self.split, self.read = name, split, read

    def __iter__(self) -> Iterator[Any]:
        return self.read()

    def __repr__(self) -> str:
        return f"{self.name}(split={self.split!r})"


def make_splits(
    name: str, split: str | Sequence[str], known: Sequence[str],
    reader: Callable[[str], Callable[[], Iterator[Any]]],
) -> Any:  # fmt: skip
    """Return the data set of a split, or a tuple of those of several.

    Args:
        reader: finds the files of a split, and returns the function that reads them.

    Raises: InvalidValueError: there is no such split.
    """
    names = (split,) if isinstance(split, str) else tuple(split)
    for wanted in names:
        if wanted not in known:
            raise InvalidValueError(
                f"datasets.{name}",
                f"there is no split {wanted!r}",
                hint=f"one of {', '.join(known)}",
            )
    datasets = tuple(TextDataset(name, wanted, reader(wanted)) for wanted in names)
    return datasets[0] if isinstance(split, str) else datasets


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file without their ends, numbered from 1.

    Raises: DataFileError: a line is no text in UTF-8.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                message = f"line {number} of {path} is no text in UTF-8: {error}"
                raise DataFileError("datasets", message) from error


def read_text(path: Path) -> str:
    """Return the text of a file; what is no UTF-8 becomes "�"."""
    return io.TextIOWrapper(io.BytesIO(path.read_bytes()), "utf-8", errors="replace").read()
