"""Where files of data sets come from: the root, or an address that the user has named.

Nothing is fetched unless the user names where from: `download=True` looks into the class's
`mirrors`, and into EDUTORCH_MIRROR: a folder, "file://…", or an address that fsspec knows.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InvalidValueError, NotHereError, warn
from ...utils.archives import ArchiveError, unpack_archive
from ...utils.atomic_files import is_url, resolve_url
from ..image_files import DamagedFileError, MissingFileError

MIRROR = "EDUTORCH_MIRROR"
"""The environment variable with the address of published files."""


class DataFile(NamedTuple):
    """A published file: its name and the MD5 checksum that was published with it."""

    name: str
    md5: str


def find_file(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the first of these files that is in a folder."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def missing_file(op: str, path: Path, published: DataFile) -> MissingFileError:
    """Make the error for a file that is not in the root: which file belongs where."""
    return MissingFileError(
        op, "Dataset not found: a file is not there",
        {"expected": path, "published": f"{published.name}, MD5 {published.md5}"},
        f"edutorch fetches nothing unasked: put the file there; or set {MIRROR} to a folder or an "
        "fsspec address that has it, and use download=True",
    )  # fmt: skip


def fetch(op: str, published: DataFile, folder: Path, mirrors: Iterable[str]) -> Path:
    """Copy a published file into a folder, from the first mirror that has it.

    Args:
        op: the class of the data set. Mirrors may have a folder of this name.
        mirrors: addresses; that in EDUTORCH_MIRROR comes last.

    Raises: MissingFileError: no mirror has it.
    """
    target = folder / published.name
    named = os.environ.get(MIRROR)
    for mirror in [*mirrors, *([named] if named else [])]:
        for address in (join(mirror, op, published.name), join(mirror, published.name)):
            if copy_file(address, target):
                if calculate_md5(target) != published.md5:
                    warn(f"{op}: {address} is not the published file: its MD5 differs")
                print(f"{op}: copied {address} to {target}")
                return target
    raise missing_file(op, target, published)


def join(address: str, *parts: str) -> str:
    return "/".join([str(address).rstrip("/"), *parts])


def copy_file(address: str, target: Path) -> bool:
    """Copy a file, local or remote; the target is complete or not there. False if there is none."""
    files, path = resolve_url(address, "download") if is_url(address) else (None, address)
    if not (os.path.isfile(path) if files is None else files.isfile(path)):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        if files is None:
            shutil.copyfile(path, temporary)
        else:
            files.get_file(path, str(temporary))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def download_url(
    url: str, root: Any, filename: str | None = None, md5: str | None = None, **unused: Any
) -> None:
    """Copy a file into a folder. `url` is a folder's file, "file://…", or one that fsspec knows.

    Raises:
        NotHereError: the address is of the web: nothing is fetched from there.
        MissingFileError: there is no such file.
        DamagedFileError: its MD5 is another.

    >>> download_url("https://127.0.0.1/a.zip", "data")
    Traceback (most recent call last):
    edutorch.errors.NotHereError: download_url: nothing is fetched from the web
      url       = https://127.0.0.1/a.zip
      expected  = data/a.zip
      hint: put the file there yourself
    """
    target = Path(root).expanduser() / (filename or url.rstrip("/").rpartition("/")[2])
    if target.is_file() and (md5 is None or calculate_md5(target) == md5):
        return
    if url.startswith(("http:", "https:", "ftp:")):
        raise NotHereError(
            "download_url", "nothing is fetched from the web",
            {"url": url, "expected": target}, "put the file there yourself",
        )  # fmt: skip
    if not copy_file(url, target):
        raise MissingFileError("download_url", "there is no such file", {"url": url})
    if md5 is not None and calculate_md5(target) != md5:
        raise DamagedFileError(
            "download_url", "the file is not the one that was published",
            {"path": target, "expected": f"MD5 {md5}", "found": f"MD5 {calculate_md5(target)}"},
        )  # fmt: skip


def download_and_extract_archive(
    url: str, download_root: Any, extract_root: Any = None, filename: str | None = None,
    md5: str | None = None, remove_finished: bool = False,
) -> None:  # fmt: skip
    """Copy an archive by `download_url`, and unpack it by `extract_archive`."""
    name = filename or url.rstrip("/").rpartition("/")[2]
    download_url(url, download_root, name, md5)
    extract_archive(Path(download_root) / name, extract_root or download_root, remove_finished)


# Checksums --------------------------------------------------------------------------------------


def calculate_md5(fpath: Any, chunk_size: int = 1024 * 1024) -> str:
    """Return the MD5 checksum of a file."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(fpath, "rb") as file:
        while chunk := file.read(chunk_size):
            digest.update(chunk)
    return digest.hexdigest()


def check_md5(fpath: Any, md5: str, **settings: Any) -> bool:
    """Return True if a file has this MD5 checksum."""
    return md5 == calculate_md5(fpath, **settings)


def check_integrity(fpath: Any, md5: str | None = None) -> bool:
    """Return True if there is a file, and it has this MD5 checksum, if one is given.

    >>> check_integrity("there is none")
    False
    """
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


# Archives ---------------------------------------------------------------------------------------


def extract_archive(from_path: Any, to_path: Any = None, remove_finished: bool = False) -> str:
    """Unpack a zip or tar archive into a folder, and return the folder.

    Args:
        to_path: by default the archive's folder.
        remove_finished: whether the archive is removed afterwards.

    Raises:
        MissingFileError: there is no such file.
        DamagedFileError: it is no archive, it is cut short, a member would leave the folder or is
            a link, or it would grow by more than `MAX_RATIO`. Members are checked before anything
            is written.
    """
    source = Path(from_path)
    folder = Path(to_path) if to_path is not None else source.parent
    if not source.is_file():
        raise MissingFileError("extract_archive", "there is no such file", {"path": source})
    try:
        unpack_archive("extract_archive", source, folder)
    except ArchiveError as error:
        raise DamagedFileError(error.op, error.message, error.arguments, error.hint) from error
    if remove_finished:
        source.unlink()
    return str(folder)


# Names ------------------------------------------------------------------------------------------


def verify_str_arg(
    value: Any, arg: str | None = None, valid_values: Iterable[str] | None = None,
    custom_msg: str | None = None,
) -> str:  # fmt: skip
    """Return a text if it is one of the known ones.

    Raises: InvalidValueError: it is none of them.

    >>> verify_str_arg("train", "split", ("train", "test"))
    'train'
    """
    known = list(valid_values or ())
    if not isinstance(value, str) or (valid_values is not None and value not in known):
        name = arg or "value"
        raise InvalidValueError(
            None, custom_msg or f"unknown value {value!r} for argument {name}",
            hint=f"use one of {', '.join(map(str, known))}",
        )  # fmt: skip
    return value


def list_dir(root: Any, prefix: bool = False) -> list[str]:
    """Return the names of the folders in a folder; `prefix`: with the path before them."""
    names = sorted(entry.name for entry in os.scandir(os.path.expanduser(root)) if entry.is_dir())
    return [os.path.join(root, name) for name in names] if prefix else names


def list_files(root: Any, suffix: str, prefix: bool = False) -> list[str]:
    """Return the names of files in a folder with this ending; `prefix`: with the path."""
    names = sorted(
        entry.name
        for entry in os.scandir(os.path.expanduser(root))
        if entry.is_file() and entry.name.endswith(suffix)
    )
    return [os.path.join(root, name) for name in names] if prefix else names
