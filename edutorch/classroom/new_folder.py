"""A folder that is there whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..errors import EdutorchError


class NewFolderError(EdutorchError, OSError):
    """A folder that cannot be made, because something is there or nothing can be written."""


@contextlib.contextmanager
def new_folder(op: str, path: Path) -> Iterator[Path]:
    """Give a folder to write to, which becomes `path` at the end; after an error nothing is left.

    Raises: NewFolderError: `path` is a file or not empty, or its parent cannot be written to.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        what = "is not empty" if path.is_dir() else "is a file"
        raise NewFolderError(op, f"{str(path)!r} {what}", hint="choose a folder that is new")
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        parent = path.absolute().parent
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=parent))
    except OSError as error:
        raise NewFolderError(op, f"{str(path)!r} cannot be made: {error.strerror}") from None
    try:
        yield temporary
        temporary.chmod(0o777 & ~current_umask())
        if path.exists():
            path.rmdir()
        os.replace(temporary, path)
    except NewFolderError:
        raise
    except OSError as error:
        where = error.filename or path
        raise NewFolderError(op, f"{str(where)!r} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def current_umask() -> int:
    """Return the umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
