"""A student's copies of notebooks: none is ever overwritten, none is there by half."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..backends.platform import IS_WINDOWS
from ..utils.atomic_files import remove_stale_files, temporary_name


def copy_new(source: Path, target: Path) -> None:
    """Copy a file to a path where there is none.

    Raises: FileExistsError: there is one, and it stays as it is. OSError: it cannot be written.
    """
    if os.path.lexists(target):
        raise file_exists(target)
    with temporary_copy(source, target) as temporary:
        move_new(temporary, target)


def copy_fresh(source: Path, target: Path) -> Path | None:
    """Copy a file to a path, and move aside what is there.

    Returns: where the old file is now; None if there was none.
    """
    with temporary_copy(source, target) as temporary:  # a full disk shows before anything moves
        old = move_aside(target) if os.path.lexists(target) else None
        move_new(temporary, target)
    return old


def move_aside(path: Path) -> Path:
    """Rename `03_shapes.ipynb` to `03_shapes.old-1.ipynb`, or the next number that is free."""
    for number in itertools.count(1):
        aside = path.with_name(f"{path.stem}.old-{number}{path.suffix}")
        try:
            move_new(path, aside)
        except FileExistsError:
            continue
        return aside
    raise AssertionError("unreachable")


@contextmanager
def temporary_copy(source: Path, target: Path) -> Iterator[Path]:
    """Write a copy beside `target`, which is gone at the end unless it was moved."""
    data = source.read_bytes()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        folder = str(target.parent)
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder) from None
    remove_stale_files(target)
    temporary = target.with_name(temporary_name(target.name, os.getpid(), 0))
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def file_exists(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def move_new(old: Path, new: Path) -> None:
    """Rename a file in one step to a name that is free.

    `os.rename` replaces a file, except on Windows; a second link to a file does not. Some file
    systems (of USB sticks, of a network) have no links: there, somebody could be in between.

    Raises: FileExistsError: there is a file of that name.
    """
    if not IS_WINDOWS:
        try:
            os.link(old, new, follow_symlinks=False)
        except FileExistsError:
            raise
        except (OSError, NotImplementedError):
            if os.path.lexists(new):
                raise file_exists(new) from None
        else:
            os.unlink(old)
            return
    os.rename(old, new)
