"""Data sets of sound, from local folders; and `SpokenDigits`, which needs none."""

from .ljspeech import LJSPEECH
from .speechcommands import SPEECHCOMMANDS
from .spoken_digits import SpokenDigits
from .yesno import YESNO

__all__ = ["LJSPEECH", "SPEECHCOMMANDS", "YESNO", "SpokenDigits"]
