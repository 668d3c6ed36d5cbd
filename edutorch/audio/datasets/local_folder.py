"""Data sets that lie in a folder of the user, in the format in which they are published.

Nothing is fetched from a network. Where the data are missing, the error says which archive goes
where; `download=True` unpacks it if it lies there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from ...core.tensor import Tensor
from ...utils.archives import ArchiveError
from ...utils.archives import unpack_archive as unpack
from ..files import AudioFileError, MissingFileError, load


class Archive(NamedTuple):
    """A published archive.

    Attributes:
        name: of the file.
        sha256: its checksum, "" where none is known.
        folder: what is in it, or is to be made for its members.
        is_flat: whether its members lie in no folder of their own.
    """

    name: str
    sha256: str
    folder: str
    is_flat: bool = False


def find_folder(
    data_set: str, root: str | os.PathLike[str], archive: Archive, unpack: bool
) -> Path:
    """Return the folder of a data set in `root`.

    Args:
        unpack: whether to unpack the archive if the folder is missing and the archive is there.

    Raises: MissingFileError: the folder is missing. AudioFileError: the archive is another one,
        or has members that leave its folder.
    """
    folder, file = Path(root) / archive.folder, Path(root) / archive.name
    if folder.is_dir():
        return folder
    if unpack and file.is_file():
        unpack_archive(data_set, file, archive, folder)
        return folder
    state = f"the archive {file}" if file.is_file() else "neither that folder nor the archive"
    raise MissingFileError(
        data_set, "the data are not there, and edutorch fetches nothing from a network",
        {"expected": f"the folder {folder}", "found": state},
        f"put {archive.name} (SHA-256 {archive.sha256 or 'unknown'}) into {Path(root)} and use "
        "download=True, which unpacks it; or unpack it yourself",
    )  # fmt: skip


def unpack_archive(data_set: str, file: Path, archive: Archive, folder: Path) -> None:
    """Unpack an archive, so that its folder is there as a whole or not at all.

    Raises: AudioFileError: a wrong checksum, no archive, or members outside of the folder.
    """
    actual = sha256_of(file)
    if archive.sha256 and actual != archive.sha256:
        raise AudioFileError(
            data_set, f"{file} is not the archive that was published",
            {"expected SHA-256": archive.sha256, "found": actual},
        )  # fmt: skip
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        try:
            unpack(data_set, file, Path(temporary))
        except ArchiveError as error:
            raise AudioFileError(
                data_set, f"{file} cannot be unpacked: {error.message}",
                {"expected": "a whole tar archive", "found": f"{file.stat().st_size} bytes"},
            ) from error  # fmt: skip
        top = archive.folder.split("/")[-1]
        source = Path(temporary) if archive.is_flat else Path(temporary) / top
        if not source.is_dir():
            raise AudioFileError(
                data_set, f"{file} has no folder {top}",
                {"expected": top, "found": sorted(os.listdir(temporary))[:5]},
            )  # fmt: skip
        if archive.is_flat:
            shutil.copytree(source, folder)
        else:
            os.replace(source, folder)


def sha256_of(file: Path) -> str:
    """Return the checksum of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def load_expecting(file: Path, sample_rate: int) -> Tensor:
    """Read a waveform.

    Raises: AudioFileError: it has another sample rate. MissingFileError: it is not there.
    """
    waveform, actual = load(file)
    if actual != sample_rate:
        raise AudioFileError(
            "audio.load", f"{file} has another sample rate than its data set",
            {"expected": f"{sample_rate} Hz", "found": f"{actual} Hz"},
        )  # fmt: skip
    return waveform


def read_lines(data_set: str, file: Path) -> list[str]:
    """Return the lines of a list that belongs to a data set.

    Raises: MissingFileError: it is not there.
    """
    if not file.is_file():
        raise MissingFileError(
            data_set, "a list of the data set is missing", {"expected": file, "found": "nothing"}
        )
    return file.read_text(encoding="utf-8").splitlines()
