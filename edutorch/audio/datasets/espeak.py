"""Speech by eSpeak NG, called through ctypes: `python espeak.py OUTPUT < JOBS`.

The package espeakng-loader (extra `speech`) brings the library and its voices. They are under the
GNU General Public License, version 3; nothing of them is in edutorch. A synthesizer of this kind
carries state from word to word (the phase of a trembling voice, random breath), so a list of words
is always spoken by a fresh process, in its order: then each run makes the same samples.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

RETRIEVAL, WAIT = 1, 2
RATE, PITCH = 1, 3
"""Numbers of settings in eSpeak's header `speak_lib.h`."""

UTF8 = 1
SEED = 0


class Utterance(NamedTuple):
    """A text to be spoken.

    Attributes:
        text: in the language of the voice.
        voice: a language and a variant: "en-us+f2".
        rate: words per minute.
        pitch: from 0 to 99; 50 is the voice's own.
    """

    text: str
    voice: str
    rate: int = 170
    pitch: int = 50


class Synthesizer:
    """eSpeak NG in this process.

    >>> isinstance(Synthesizer, type)
    True
    """

    def __init__(self) -> None:
        import espeakng_loader

        self.library = ctypes.CDLL(espeakng_loader.get_library_path())
        data = espeakng_loader.get_data_path().encode()
        self.sample_rate = self.library.espeak_Initialize(WAIT, 0, data, 0)
        if self.sample_rate <= 0:
            raise OSError(f"eSpeak NG found no voices in {data.decode()}")
        self.blocks: list[np.ndarray] = []
        callback_type = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
        )
        self.callback = callback_type(self._take)  # the library keeps only its address
        self.library.espeak_SetSynthCallback(self.callback)

    def _take(self, samples: Any, count: int, events: Any) -> int:
        if samples and count > 0:
            self.blocks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0  # go on

    def speak(self, utterance: Utterance) -> np.ndarray:
        """Return the samples of a text, as int16.

        Raises: ValueError: there is no such voice.
        """
        self.blocks.clear()
        if self.library.espeak_SetVoiceByName(utterance.voice.encode()):
            raise ValueError(f"eSpeak NG has no voice {utterance.voice!r}")
        self.library.espeak_ng_SetRandSeed(ctypes.c_long(SEED))
        self.library.espeak_SetParameter(RATE, utterance.rate, 0)
        self.library.espeak_SetParameter(PITCH, utterance.pitch, 0)
        text = utterance.text.encode()
        self.library.espeak_Synth(text, len(text) + 1, 0, 1, 0, UTF8, None, None)
        self.library.espeak_Synchronize()
        return np.concatenate([np.zeros(0, np.int16), *self.blocks])


def main() -> None:
    """Speak the utterances that come as JSON, and write all samples and their counts."""
    synthesizer = Synthesizer()
    spoken = [synthesizer.speak(Utterance(*job)) for job in json.load(sys.stdin)]
    np.savez(
        sys.argv[1],
        samples=np.concatenate(spoken),
        counts=np.array([len(samples) for samples in spoken]),
        sample_rate=synthesizer.sample_rate,
    )


def synthesize(utterances: Sequence[Utterance], file: str) -> None:
    """Let a process of its own speak, and write samples, counts and sample_rate to a .npz file.

    Raises: RuntimeError: it failed; its last line says why.
    """
    done = subprocess.run(
        [sys.executable, __file__, file],
        input=json.dumps(utterances), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise RuntimeError(f"eSpeak NG: {lines[-1]}")


if __name__ == "__main__":
    main()
