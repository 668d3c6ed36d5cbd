"""Files of tutorials: found where they were put, and unpacked within their folder."""

from __future__ import annotations

import csv
import gzip
import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import EdutorchError

__all__ = ["download_from_url", "extract_archive", "unicode_csv_reader"]


class ArchiveError(EdutorchError, RuntimeError):
    """An archive is damaged, of another format, or has a member outside of its folder."""


DAMAGE = (EOFError, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged archive raises."""


def download_from_url(
    url: str, path: str | Path | None = None, root: str | Path = ".data", overwrite: bool = False,
    hash_value: str | None = None, hash_type: str = "sha256",
) -> str:  # fmt: skip
    """Return the path of a file that was put into `root`; nothing is downloaded.

    Args:
        url: its last part is the name of the file.
        path: where the file is, instead.
        root: the folder that it is in.
        overwrite: accepted; a file that is there is kept.
        hash_value: its checksum in hexadecimal digits, which is checked.
        hash_type: "sha256" or "md5".

    Raises:
        FileNotFoundError: it is not there; the error says what belongs where.
        ArchiveError (a RuntimeError): its checksum is another.
    """
    name = url.rstrip("/").rpartition("/")[2].partition("?")[0]
    file = Path(root) / name if path is None else Path(path)
    if not file.is_file():
        checksum = f", with {hash_type} {hash_value}" if hash_value else ""
        raise FileNotFoundError(
            f"download_from_url: {file} is not there"
            f"\n  hint: nothing is downloaded; fetch {url}{checksum}, and put it there"
        )
    if hash_value is not None:
        actual = hashlib.new(hash_type, file.read_bytes()).hexdigest()
        if actual != hash_value:
            raise ArchiveError(
                "download_from_url", f"the hash of {file} does not match",
                {"expected": hash_value, "found": actual}, "it is cut short, or another file",
            )  # fmt: skip
    return str(file)


def extract_archive(
    from_path: str | Path, to_path: str | Path | None = None, overwrite: bool = False
) -> list[str]:
    """Unpack a .zip, .tar or compressed .tar, and return the paths of its files.

    Args:
        from_path: the archive.
        to_path: the folder for the files; default: that of the archive.
        overwrite: whether to replace files that are there.

    Raises: ArchiveError (a RuntimeError): it is damaged, of another format, or a member would
        lie outside of the folder. Nothing is unpacked then.
    """
    archive = Path(from_path)
    folder = archive.parent if to_path is None else Path(to_path)
    if not archive.is_file():
        raise FileNotFoundError(f"extract_archive: there is no {archive}")
    try:
        if tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tar:
                members = [(m.name, m, m.isfile()) for m in tar]
                return unpack(partial(tar.extract, filter="data"), members, folder, overwrite)
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                if (bad := zipped.testzip()) is not None:
                    raise zipfile.BadZipFile(f"bad checksum of {bad!r}")
                members = [(m.filename, m, not m.is_dir()) for m in zipped.infolist()]
                return unpack(zipped.extract, members, folder, overwrite)
    except DAMAGE as error:
        raise ArchiveError("extract_archive", f"{archive} is damaged: {error}") from error
    raise ArchiveError("extract_archive", f"{archive} is neither a .zip nor a .tar")


def unpack(
    extract: Callable[[Any, Path], Any], members: list[tuple[str, Any, bool]], folder: Path,
    overwrite: bool,
) -> list[str]:  # fmt: skip
    """Write the files of an archive, after a look at all of their names.

    Links and devices are left out: no data set needs them, and a link may lead anywhere.
    """
    root = folder.resolve()
    for name, _, _ in members:
        if not (root / name).resolve().is_relative_to(root):
            raise ArchiveError(
                "extract_archive", "a member would lie outside of the folder",
                {"member": repr(name), "folder": folder}, "nothing was unpacked",
            )  # fmt: skip
    paths = []
    for name, member, is_file in members:
        if is_file:
            if overwrite or not (folder / name).exists():
                extract(member, folder)
            paths.append(str(folder / name))
    return paths


def unicode_csv_reader(unicode_csv_data: Iterable[str], **kwargs: Any) -> Iterator[list[str]]:
    """Yield the rows of a CSV file, whose fields may be as long as they like.

    >>> list(unicode_csv_reader(['1,"a, b"']))
    [['1', 'a, b']]
    """
    csv.field_size_limit(2**24)
    yield from csv.reader(unicode_csv_data, **kwargs)
