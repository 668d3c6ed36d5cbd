"""Sound: waveforms, spectrograms and speech, with the names of torchaudio."""

from . import datasets, functional, models, transforms
from .files import AudioFileError, AudioMetaData, MissingFileError, info, load, save

__version__ = "2.11.0+edutorch"
"""The version of torchaudio whose names these are."""

__all__ = [
    "AudioFileError", "AudioMetaData", "MissingFileError", "datasets", "functional", "info",
    "load", "models", "save", "transforms",
]  # fmt: skip
