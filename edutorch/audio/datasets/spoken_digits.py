"""Spoken digits without a download: eSpeak NG says "zero" to "nine" in twenty voices."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...core.tensor import Tensor
from ...errors import InvalidValueError, missing_extra, warn
from ...kernels.disk_cache import user_cache_folder
from ...ops import tensor
from ...utils.atomic_files import write_atomically
from ...utils.data import Dataset
from .espeak import Utterance, synthesize

__all__ = ["SpokenDigits"]

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

TRAINING_VOICES = (
    "en-us+m1", "en-us+f1", "en-us+m3", "en-us+f2", "en-gb-x-rp+m2", "en-gb-x-rp+f4",
    "en-gb-x-gbclan+m4", "en-gb-x-gbclan+f3", "en-gb-scotland+m6", "en-gb-scotland+f5",
    "en-gb-x-gbcwmd+m8", "en-us-nyc+m5", "en-us-nyc+linda", "en-029+f2", "en-us+klatt2",
    "en-gb-x-rp+quincy",
)  # fmt: skip
TESTING_VOICES = ("en-us+steph", "en-gb-x-rp+m7", "en-gb-scotland+belinda", "en-029+adam")
"""Accents of English, each with a variant: the size of the throat, the pitch, the roughness."""

TAKES = ((170, 50), (140, 40), (200, 60), (155, 70))
"""The rate (words per minute) and the pitch of each time that a voice says a digit."""

NOTICE = (
    "SpokenDigits is spoken by eSpeak NG, in the package espeakng-loader, which is under the GNU "
    "General Public License, version 3. edutorch calls it in a process of its own, and contains "
    "nothing of it."
)


class Recording(NamedTuple):
    """All digits of a voice's takes: samples, and where each one ends."""

    samples: np.ndarray
    counts: np.ndarray
    sample_rate: int


def _script() -> list[tuple[str, str, int, Utterance]]:
    """Return the word, the voice, the take and the utterance of each recording, in order."""
    return [
        (word, voice, take, Utterance(word, voice, rate, pitch))
        for voice in (*TRAINING_VOICES, *TESTING_VOICES)
        for take, (rate, pitch) in enumerate(TAKES)
        for word in WORDS
    ]


@cache
def _recording() -> Recording:
    """Return all recordings, from the cache of this user, or spoken now.

    Raises: MissingExtraError: espeakng-loader is not installed.
    """
    try:
        loader = version("espeakng-loader")
    except PackageNotFoundError as error:
        raise missing_extra(
            "speech", "audio.datasets.SpokenDigits", "espeakng-loader is not installed"
        ) from error
    utterances = [utterance for *_, utterance in _script()]
    key = hashlib.sha256(json.dumps([loader, utterances]).encode()).hexdigest()[:16]
    file = user_cache_folder("speech") / f"digits-{key}.npz"
    if not file.is_file():
        warn(NOTICE)
        with tempfile.TemporaryDirectory() as folder:
            spoken = Path(folder) / "spoken.npz"
            synthesize(utterances, str(spoken))
            write_atomically(file, spoken.read_bytes())
    with np.load(file) as arrays:
        return Recording(arrays["samples"], arrays["counts"], int(arrays["sample_rate"]))


class SpokenDigits(Dataset[tuple[Tensor, int, str, str, int]]):
    """English digits in 20 voices, each four times, at other speeds and pitches: 800 recordings.

    They are made by eSpeak NG (extra `speech`), at the first use, and kept in the user's cache
    folder. An item has the fields of `SPEECHCOMMANDS`: the waveform (1, time), float32 from -1 to
    1; the sample rate, 22050 Hz; the word; the voice; the number of the take.

    Args:
        subset: "training" (16 voices), "testing" (4 others), or None for all.
        voices: only these of them.

    Attributes:
        classes: the words.

    Raises: MissingExtraError: espeakng-loader is not installed. ValueError: an unknown subset or
        voice.

    >>> digits = SpokenDigits("testing")
    >>> len(digits), digits[7][1:]
    (160, (22050, 'seven', 'en-us+steph', 0))
    """

    classes = WORDS

    def __init__(self, subset: str | None = None, voices: Sequence[str] | None = None) -> None:
        subsets = {
            "training": TRAINING_VOICES, "testing": TESTING_VOICES,
            None: (*TRAINING_VOICES, *TESTING_VOICES),
        }  # fmt: skip
        if subset not in subsets:
            raise InvalidValueError(
                "SpokenDigits",
                f"unknown subset {subset!r}",
                hint='it is "training", "testing" or None',
            )
        known = subsets[subset]
        self.voices = known if voices is None else tuple(voices)
        for voice in self.voices:
            if voice not in known:
                raise InvalidValueError(
                    "SpokenDigits", f"no voice {voice!r}", hint=f"the voices are {', '.join(known)}"
                )
        self.recording = _recording()
        ends = self.recording.counts.cumsum()
        self.items = [
            (end - count, end, word, voice, take)
            for (word, voice, take, _), end, count in zip(
                _script(), ends.tolist(), self.recording.counts.tolist(), strict=True
            )
            if voice in self.voices
        ]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, n: int) -> tuple[Tensor, int, str, str, int]:
        start, end, word, voice, take = self.items[n]
        samples = self.recording.samples[start:end].astype(np.float32) / 2**15
        return tensor(samples).unsqueeze(0), self.recording.sample_rate, word, voice, take
