"""YesNo: sixty recordings of one speaker who says yes or no in Hebrew, eight times each."""

from __future__ import annotations

import os

from ...core.tensor import Tensor
from ...utils.data import Dataset
from ..files import AudioFileError, load
from .local_folder import Archive, find_folder

__all__ = ["YESNO"]

SHA256 = "c3f49e0cca421f96b75b41640749167b52118f232498667ca7a5f9416aef8e73"


class YESNO(Dataset[tuple[Tensor, int, list[int]]]):
    """YesNo, from a local folder.

    An item: the waveform (1, time); the sample rate, 8000 Hz; eight labels, 1 for yes.

    Args:
        root: the folder that has `waves_yesno/0_0_1_0_1_0_1_1.wav` and others.
        url: the name of the archive.
        folder_in_archive: the folder in `root`.
        download: unpack `waves_yesno.tar.gz` that lies in `root`.

    Raises: MissingFileError: the data are not there. AudioFileError: a file without labels.

    >>> audio.datasets.YESNO("/nowhere")
    Traceback (most recent call last):
    edutorch.audio.files.MissingFileError: YESNO: the data are not there, ...
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        url: str = "waves_yesno.tar.gz",
        folder_in_archive: str = "waves_yesno",
        download: bool = False,
    ) -> None:
        archive = Archive(url.rpartition("/")[2], SHA256, folder_in_archive)
        self.folder = find_folder("YESNO", root, archive, download)
        self.files = sorted(self.folder.glob("*.wav"))

    def __getitem__(self, n: int) -> tuple[Tensor, int, list[int]]:
        file = self.files[n]
        labels = file.stem.split("_")
        if not all(label in ("0", "1") for label in labels):
            raise AudioFileError(
                "YESNO", f"{file} is not called by its labels",
                {"expected": "0_1_….wav", "found": file.name},
            )  # fmt: skip
        waveform, sample_rate = load(file)
        return waveform, sample_rate, [int(label) for label in labels]

    def __len__(self) -> int:
        return len(self.files)
