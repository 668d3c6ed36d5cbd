"""Sound: waveforms, spectrograms and speech, with the names of torchaudio."""

from . import functional, transforms
from .files import AudioFileError, AudioMetaData, MissingFileError, info, load, save

__all__ = [
    "AudioFileError", "AudioMetaData", "MissingFileError", "functional", "info", "load", "save",
    "transforms",
]  # fmt: skip
