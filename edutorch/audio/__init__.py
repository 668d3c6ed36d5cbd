"""Sound: waveforms, spectrograms and speech, with the names of torchaudio."""

from . import functional, transforms

__all__ = ["functional", "transforms"]
