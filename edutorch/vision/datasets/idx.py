"""IDX files, the format of MNIST: a magic number, the sizes of the axes, then the numbers.

    0 0 · type · number of axes · size of each axis (4 bytes each, most significant first) · data

Source: LeCun, Cortes and Burges, "The MNIST database of handwritten digits".
"""

from __future__ import annotations

import gzip
import lzma
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ...utils.atomic_files import write_atomically
from ..image_files import DamagedFileError

DTYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
"""The dtype of each type in the magic number."""

OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
MAX_RATIO = 200
"""A compressed file that grows more than so many times is refused before it fills the memory."""


def read_idx(path: Path, axes: int | None = None) -> np.ndarray[Any, Any]:
    """Return the array of an IDX file, which may be compressed (.gz, .xz).

    Args:
        axes: how many axes it must have.

    Raises: DamagedFileError: it is no IDX file, or it holds less or more than its header says.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "labels"
    ...     write_idx(path, np.array([7, 2], np.uint8))
    ...     read_idx(path, axes=1)
    array([7, 2], dtype=uint8)
    """
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            dtype, shape = read_header(file, path, axes)
            size = math.prod(shape) * dtype.itemsize
            check_possible(size, path)
            data = file.read(size + 1)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, DamagedFileError | FileNotFoundError):
            raise
        raise DamagedFileError(
            "read_idx", f"the compressed file is damaged: {error}", {"path": path},
            "it was cut short or changed: copy it again",
        ) from error  # fmt: skip
    if len(data) != size:
        length = f"{len(data)} bytes" if len(data) < size else "more"
        raise DamagedFileError(
            "read_idx", "the file does not hold what its header says",
            {"path": path, "expected": f"{shape}: {size} bytes", "found": length},
            "it was cut short or changed: copy it again",
        )  # fmt: skip
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def read_header(file: Any, path: Path, axes: int | None) -> tuple[np.dtype, tuple[int, ...]]:
    """Return the dtype and the shape that a file begins with."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in DTYPES or not magic[3]:
        raise DamagedFileError(
            "read_idx", "this is not an IDX file: its magic number is wrong",
            {"path": path, "expected": "b'\\x00\\x00\\x08\\x03' for images, …\\x01 for labels",
             "found": repr(magic)},
            "is it the right file, and unpacked? Files with .gz are read as well",
        )  # fmt: skip
    if axes is not None and magic[3] != axes:
        raise DamagedFileError(
            "read_idx", f"the file has {magic[3]} axes", {"path": path, "expected": axes},
            "images have 3 axes, labels 1: were the names of two files swapped?",
        )  # fmt: skip
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise DamagedFileError("read_idx", "the file ends in its header", {"path": path})
    shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
    return np.dtype(DTYPES[magic[2]]), shape


def check_possible(size: int, path: Path) -> None:
    """Raise DamagedFileError if a file is too small for `size` bytes, before they are read."""
    on_disk = path.stat().st_size
    most = on_disk * (MAX_RATIO if path.suffix in OPENERS else 1)
    if size > most:
        raise DamagedFileError(
            "read_idx", "the file cannot hold what its header says",
            {"path": path, "expected": f"{size} bytes", "found": f"{on_disk} bytes"},
            "it was cut short, or its header is wrong",
        )  # fmt: skip


def write_idx(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write an array as an IDX file, compressed if the name ends with .gz.

    Raises: ValueError: there is no IDX type for its dtype.
    """
    dtypes = {np.dtype(text).newbyteorder("="): code for code, text in DTYPES.items()}
    if array.dtype not in dtypes:
        raise ValueError(f"write_idx: there is no IDX type for {array.dtype}; use uint8")
    code = dtypes[array.dtype]
    header = bytes([0, 0, code, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    data = header + array.astype(DTYPES[code]).tobytes()
    write_atomically(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
