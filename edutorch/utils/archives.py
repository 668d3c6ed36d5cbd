"""Unpacking the archives of others: nothing leaves the folder, and nothing grows without end.

All members are looked at before the first one is written.
"""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ..errors import EdutorchError

__all__ = ["ArchiveError", "unpack_archive"]

MAX_RATIO = 200
"""An archive that would grow more than so many times is not unpacked."""

DAMAGE = (
    EOFError, NotImplementedError, OSError, ValueError, gzip.BadGzipFile, tarfile.TarError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a damaged archive raises."""


class ArchiveError(EdutorchError, RuntimeError):
    """An archive is damaged, of another format, or has members that are not to be trusted."""


class Member(NamedTuple):
    """A member of an archive: `entry` is what the archive itself calls it by."""

    name: str
    size: int
    is_file: bool
    is_link: bool
    entry: Any


def unpack_archive(op: str, source: Path, folder: Path, overwrite: bool = True) -> list[Path]:
    """Unpack a .zip, .tar or compressed .tar, and return the paths of its files.

    Args:
        op: what unpacks it, for errors.
        overwrite: whether to replace files that are there.

    Raises: ArchiveError (a RuntimeError): it is damaged, of another format, or a decompression
        bomb; a member would lie outside of the folder, or is a link. Nothing is unpacked then.
    """
    try:
        if tarfile.is_tarfile(source):
            with tarfile.open(source) as tar:
                members = checked(op, source, map(member_of_tar, tar))
                return write(members, folder, partial(tar.extract, filter="data"), overwrite)
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                members = checked(op, source, map(member_of_zip, archive.infolist()))
                if (bad := archive.testzip()) is not None:
                    raise zipfile.BadZipFile(f"bad checksum of {bad!r}")
                return write(members, folder, archive.extract, overwrite)
    except DAMAGE as error:
        reason = str(error).splitlines()[0].rstrip(":") if str(error) else type(error).__name__
        raise ArchiveError(
            op, f"{source} is damaged: {reason}", {"path": source},
            "expected a .zip, .tar or compressed .tar; copy it again",
        ) from error  # fmt: skip
    raise ArchiveError(op, f"{source} is neither a .zip nor a .tar", {"path": source})


def member_of_tar(entry: tarfile.TarInfo) -> Member:
    is_link = not (entry.isfile() or entry.isdir())  # or a device
    return Member(entry.name, entry.size, entry.isfile(), is_link, entry)


def member_of_zip(entry: zipfile.ZipInfo) -> Member:
    is_link = (entry.external_attr >> 16) & 0o170000 == 0o120000
    return Member(entry.filename, entry.file_size, not entry.is_dir(), is_link, entry)


def checked(op: str, source: Path, members: Iterable[Member]) -> list[Member]:
    """Return the members, if all of them may be written."""
    result: list[Member] = []
    total, limit = 0, MAX_RATIO * source.stat().st_size + 10_000_000
    for member in members:
        path = PurePosixPath(member.name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or (path.parts and ":" in path.parts[0]):
            raise refused(op, source, "a member would lie outside of the folder", member)
        if member.is_link:
            raise refused(op, source, "a member is a link or a device", member)
        total += member.size
        if total > limit:
            raise refused(op, source, "the archive is a decompression bomb", member)
        result.append(member)
    return result


def refused(op: str, source: Path, what: str, member: Member) -> ArchiveError:
    return ArchiveError(
        op, f"{what}: nothing was unpacked", {"path": source, "member": repr(member.name)},
        "the archive is not to be trusted",
    )  # fmt: skip


def write(
    members: list[Member], folder: Path, extract: Callable[[Any, Path], Any], overwrite: bool
) -> list[Path]:
    """Write the files into the folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for member in members:
        if overwrite or not (folder / member.name).is_file():
            extract(member.entry, folder)
    return [folder / member.name for member in members if member.is_file]
