"""Models of sound: CTC decoders, and a small recogniser of spoken digits."""

from . import decoder
from .digit_recognizer import DigitRecognizer

__all__ = ["DigitRecognizer", "decoder"]
