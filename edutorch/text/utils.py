"""Files of tutorials: found where they were put, and unpacked within their folder."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..utils.archives import ArchiveError, unpack_archive

__all__ = ["download_from_url", "extract_archive", "unicode_csv_reader"]


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
    return list(map(str, unpack_archive("extract_archive", archive, folder, overwrite)))


def unicode_csv_reader(unicode_csv_data: Iterable[str], **kwargs: Any) -> Iterator[list[str]]:
    """Yield the rows of a CSV file, whose fields may be as long as they like.

    >>> list(unicode_csv_reader(['1,"a, b"']))
    [['1', 'a, b']]
    """
    csv.field_size_limit(2**24)
    yield from csv.reader(unicode_csv_data, **kwargs)
