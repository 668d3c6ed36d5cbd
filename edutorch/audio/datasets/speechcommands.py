"""Speech Commands: one second of a single English word, by thousands of speakers."""

from __future__ import annotations

import os
from pathlib import Path

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...utils.data import Dataset
from .local_folder import Archive, find_folder, load_expecting, read_lines

__all__ = ["SPEECHCOMMANDS"]

SAMPLE_RATE = 16000
LISTS = {"validation": "validation_list.txt", "testing": "testing_list.txt"}
CHECKSUMS = {
    "speech_commands_v0.01": "743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d",
    "speech_commands_v0.02": "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
}


class SPEECHCOMMANDS(Dataset[tuple[Tensor, int, str, str, int]]):
    """Speech Commands (P. Warden, 2018), from a local folder.

    An item: the waveform (1, time); the sample rate, 16000 Hz; the word; the speaker; the number of
    the utterance.

    Args:
        root: the folder that has `SpeechCommands/speech_commands_v0.02/<word>/<file>.wav`.
        url: the version: "speech_commands_v0.01" or "speech_commands_v0.02".
        folder_in_archive: the folder in `root`.
        download: unpack `speech_commands_v0.02.tar.gz` that lies in `root`.
        subset: "training", "validation", "testing", or None for all.

    Raises: MissingFileError: the data are not there. ValueError: an unknown subset or version.

    >>> audio.datasets.SPEECHCOMMANDS("/nowhere")
    Traceback (most recent call last):
    edutorch.audio.files.MissingFileError: SPEECHCOMMANDS: the data are not there, ...
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        url: str = "speech_commands_v0.02",
        folder_in_archive: str = "SpeechCommands",
        download: bool = False,
        subset: str | None = None,
    ) -> None:
        if subset not in (None, "training", "validation", "testing"):
            raise InvalidValueError(
                "SPEECHCOMMANDS", "When `subset` is not None, it must be one of "
                "['training', 'validation', 'testing'].", {"subset": repr(subset)},
            )  # fmt: skip
        version = url.rpartition("/")[2].removesuffix(".tar.gz")
        if version not in CHECKSUMS:
            raise InvalidValueError(
                "SPEECHCOMMANDS", f"unknown version {url!r}", hint=f"it is one of {list(CHECKSUMS)}"
            )
        archive = Archive(
            f"{version}.tar.gz", CHECKSUMS[version], f"{folder_in_archive}/{version}", is_flat=True
        )
        self.folder = find_folder("SPEECHCOMMANDS", root, archive, download)
        self.files = self._files(subset)

    def _files(self, subset: str | None) -> list[Path]:
        if subset in LISTS:
            lines = read_lines("SPEECHCOMMANDS", self.folder / LISTS[subset])
            return [self.folder / line.strip() for line in lines if line.strip()]
        files = sorted(
            file
            for file in self.folder.glob("*/*.wav")
            if "_nohash_" in file.name and file.parent.name != "_background_noise_"
        )
        if subset == "training":
            others = {*self._files("validation"), *self._files("testing")}
            files = [file for file in files if file not in others]
        return files

    def get_metadata(self, n: int) -> tuple[str, int, str, str, int]:
        """Return what `[n]` returns, with the file's path in place of the waveform."""
        file = self.files[n]
        speaker, _, number = file.stem.partition("_nohash_")
        path = str(file.relative_to(self.folder.parent))
        return path, SAMPLE_RATE, file.parent.name, speaker, int(number)

    def __getitem__(self, n: int) -> tuple[Tensor, int, str, str, int]:
        metadata = self.get_metadata(n)
        return (load_expecting(self.files[n], SAMPLE_RATE), *metadata[1:])

    def __len__(self) -> int:
        return len(self.files)
