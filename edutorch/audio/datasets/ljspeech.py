"""LJ Speech: 24 hours of one speaker who reads books, with the texts."""

from __future__ import annotations

import os

from ...core.tensor import Tensor
from ...utils.data import Dataset
from ..files import AudioFileError, load
from .local_folder import Archive, find_folder, read_lines

__all__ = ["LJSPEECH"]

SHA256 = "be1a30453f28eb8dd26af4101ae40cbf2c50413b1bb21936cbcdc6fae3de8aa5"


class LJSPEECH(Dataset[tuple[Tensor, int, str, str]]):
    """LJ Speech 1.1 (K. Ito, L. Johnson, 2017), from a local folder.

    An item: the waveform (1, time); the sample rate, 22050 Hz; the text; the text with its numbers
    and abbreviations written out.

    Args:
        root: the folder that has `LJSpeech-1.1/metadata.csv` and `LJSpeech-1.1/wavs/`.
        url: the name of the archive.
        folder_in_archive: the folder of the sounds.
        download: unpack `LJSpeech-1.1.tar.bz2` that lies in `root`.

    Raises: MissingFileError: the data are not there. AudioFileError: a line of `metadata.csv`
        that has not three fields.

    >>> audio.datasets.LJSPEECH("/nowhere")
    Traceback (most recent call last):
    edutorch.audio.files.MissingFileError: LJSPEECH: the data are not there, ...
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        url: str = "LJSpeech-1.1.tar.bz2",
        folder_in_archive: str = "wavs",
        download: bool = False,
    ) -> None:
        name = url.rpartition("/")[2]
        archive = Archive(name, SHA256, name.removesuffix(".tar.bz2"))
        folder = find_folder("LJSPEECH", root, archive, download)
        self.folder = folder / folder_in_archive
        metadata = folder / "metadata.csv"
        self.rows = [line.split("|") for line in read_lines("LJSPEECH", metadata)]
        for number, row in enumerate(self.rows, 1):
            if len(row) != 3:
                raise AudioFileError(
                    "LJSPEECH", f"{metadata}, line {number} cannot be read",
                    {"expected": "name|text|text written out", "found": "|".join(row)[:60]},
                )  # fmt: skip

    def __getitem__(self, n: int) -> tuple[Tensor, int, str, str]:
        name, text, written_out = self.rows[n]
        waveform, sample_rate = load(self.folder / f"{name}.wav")
        return waveform, sample_rate, text, written_out

    def __len__(self) -> int:
        return len(self.rows)
