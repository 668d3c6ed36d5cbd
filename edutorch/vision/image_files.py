"""Opens image files with Pillow; what cannot be an image is refused with one clear error."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import EdutorchError
from .transforms.functional.conversion import require_pil


class DamagedFileError(EdutorchError, ValueError, RuntimeError, OSError):
    """A file is cut short, or is not of the format that it should be.

    PyTorch code catches a RuntimeError here, Pillow's callers an OSError.
    """


class MissingFileError(EdutorchError, FileNotFoundError, RuntimeError):
    """A file is not where it should be. (torchvision raises a RuntimeError here.)"""


PIL_ERRORS = (
    OSError, SyntaxError, ValueError, struct.error, EOFError, zlib.error, IndexError, KeyError,
    TypeError, OverflowError, NotImplementedError, ZeroDivisionError, AssertionError,
)  # fmt: skip
"""What Pillow raises for files that are damaged, by the format."""

MAGIC = {
    "PNG": b"\x89PNG",
    "JPEG": b"\xff\xd8\xff",
    "GIF": b"GIF8",
    "TIFF": b"II*\0",
    "WebP": b"RIFF",
}
"""What files of a format begin with."""


def open_image(source: str | os.PathLike[str] | bytes, op: str) -> Any:
    """Return a PIL image, decoded.

    Args:
        source: a path, or the contents of a file.
        op: the function that the user called, for errors.

    Raises:
        MissingFileError: there is no such file.
        DamagedFileError: it is not an image, it is cut short, or it is so large that it may be made
            to fill the memory: more pixels than `PIL.Image.MAX_IMAGE_PIXELS`.
    """
    name = f"{len(source)} bytes" if isinstance(source, bytes) else os.fspath(source)
    if not isinstance(source, bytes) and not Path(source).is_file():
        raise MissingFileError(op, "there is no such file", {"path": name}, near_hint(Path(source)))
    try:
        image = require_pil(op).open(io.BytesIO(source) if isinstance(source, bytes) else source)
    except PIL_ERRORS as error:
        raise not_an_image(op, name, source) from error
    except Exception as error:
        if type(error).__name__ != "DecompressionBombError":
            raise
        raise too_large(op, name, str(error)) from error
    check_size(image, op, name)
    try:
        image.load()
    except PIL_ERRORS as error:
        raise damaged(image, op, name, error) from error
    finally:
        if not isinstance(source, bytes) and image.fp is not None:
            image.fp.close()
    return image


def read_frames(image: Any, op: str) -> Iterator[Any]:
    """Iterate over the images of an animation; each must be used before the next is asked for.

    Raises: DamagedFileError: one is damaged, or all of them would fill the memory.
    """
    name = "an animation"
    try:
        count = image.n_frames
    except PIL_ERRORS as error:
        raise damaged(image, op, name, error) from error
    check_size(image, op, name, count)
    for index in range(count):
        try:
            image.seek(index)
            image.load()
        except PIL_ERRORS as error:
            raise damaged(image, op, name, error) from error
        yield image


def damaged(image: Any, op: str, name: str, error: Exception) -> DamagedFileError:
    return DamagedFileError(
        op, f"the {image.format} image is damaged: {error}",
        {"path": name, "expected": f"{image.width} x {image.height} pixels"},
        "it was cut short or changed: copy it again",
    )  # fmt: skip


def check_size(image: Any, op: str, name: str, count: int = 1) -> None:
    """Raise DamagedFileError for an image (or so many) whose pixels would fill the memory."""
    most = require_pil(op).MAX_IMAGE_PIXELS
    if most is not None and image.width * image.height * count > most:
        raise too_large(op, name, f"{image.width} x {image.height} pixels, limit {most}")


def too_large(op: str, name: str, size: str) -> DamagedFileError:
    return DamagedFileError(
        op, "the image is too large: a decompression bomb?", {"path": name, "size": size},
        "if you trust the file, raise PIL.Image.MAX_IMAGE_PIXELS",
    )  # fmt: skip


def not_an_image(op: str, name: str, source: Any) -> DamagedFileError:
    """Make the error for a file of no format that Pillow knows; it shows the first bytes."""
    start = source[:16] if isinstance(source, bytes) else read_start(Path(source))
    form = next((form for form, magic in MAGIC.items() if start.startswith(magic)), None)
    what = f"the {form} image is damaged in its header" if form else "this is not an image"
    return DamagedFileError(
        op, f"{what}: Pillow cannot read it",
        {"path": name, "begins": repr(start)},
        "expected PNG (b'\\x89PNG…'), JPEG (b'\\xff\\xd8\\xff…'), or another format of Pillow",
    )  # fmt: skip


def read_start(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(16)


def near_hint(path: Path) -> str:
    """Return the name in a folder that is nearest to a missing one, or which folder is missing."""
    from difflib import get_close_matches

    folder = path.parent
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    if folder != path.parent:
        return f"there is {folder}, but no folder {path.parent.relative_to(folder)} in it"
    near = get_close_matches(path.name, os.listdir(folder), 1)
    return f"did you mean {near[0]!r}?" if near else f"its folder is {folder.resolve()}"
