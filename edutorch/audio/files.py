"""Reading and writing sound files: WAV by `wav.py`, all others by libsndfile.

FLAC, Ogg Vorbis, MP3 and compressed WAV files need the extra `audio`, whose package soundfile
brings libsndfile.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .. import dtypes
from ..core.tensor import Tensor
from ..errors import ArgumentError, EdutorchError, InvalidValueError, ShapeValueError, missing_extra
from ..ops import tensor
from ..utils.atomic_files import is_url, read_bytes, write_atomically
from .wav import AudioFileError, encode_wav, read_header, read_samples

__all__ = ["AudioFileError", "AudioMetaData", "MissingFileError", "info", "load", "save"]

Source = str | os.PathLike[str] | BinaryIO


class MissingFileError(EdutorchError, FileNotFoundError, RuntimeError):
    """There is no such file, or no such folder of data."""


class AudioMetaData(NamedTuple):
    """What a sound file says about itself.

    Attributes:
        sample_rate: in Hz.
        num_frames: the number of samples of a channel.
        num_channels: 1 for mono, 2 for stereo.
        bits_per_sample: 0 where that means nothing (MP3).
        encoding: "PCM_S" (signed integers), "PCM_U", "PCM_F" (floats), or libsndfile's name.
    """

    sample_rate: int
    num_frames: int
    num_channels: int
    bits_per_sample: int
    encoding: str


@contextmanager
def _opened(op: str, uri: Source) -> Iterator[tuple[BinaryIO, str]]:
    """Open a path, a URL or an open file for reading; yield it and its name.

    Raises: MissingFileError: there is no such file.
    """
    if hasattr(uri, "read"):
        yield uri, str(getattr(uri, "name", "the open file"))  # type: ignore[misc]
        return
    if is_url(uri):
        yield io.BytesIO(read_bytes(uri)), str(uri)
        return
    if not isinstance(uri, str | os.PathLike):
        raise ArgumentError(op, f"expected a path or an open file, got {type(uri).__name__}")
    path = Path(uri)
    if not path.is_file():
        state = "a folder" if path.is_dir() else "nothing"
        raise MissingFileError(
            op, "there is no such file", {"expected": f"a sound file at {path}", "found": state}
        )
    with path.open("rb") as file:
        yield file, str(path)


def _is_wav(file: BinaryIO, name: str) -> bool:
    """Whether a file claims to be a WAV file, by its first bytes or its name."""
    file.seek(0)
    return file.read(4) == b"RIFF" or name.lower().endswith((".wav", ".wave"))


@contextmanager
def _sound_file(file: BinaryIO, name: str, op: str) -> Iterator[Any]:
    """Yield a file as libsndfile reads it.

    Raises: MissingExtraError: soundfile is not installed. AudioFileError: it cannot be read.
    """
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise missing_extra("audio", f"{op}({name!r})", "soundfile is not installed") from error
    file.seek(0)
    first = file.read(16)
    file.seek(0)
    try:
        with soundfile.SoundFile(file) as opened:
            yield opened
    except soundfile.LibsndfileError as error:
        raise AudioFileError(
            op, f"{name} cannot be read: {error.error_string}",
            {"expected": "a sound file", "found": f"a file that begins with {first!r}"},
        ) from error  # fmt: skip


SUBTYPES = {
    "PCM_S8": ("PCM_S", 8, np.int16), "PCM_U8": ("PCM_U", 8, np.int16),
    "PCM_16": ("PCM_S", 16, np.int16), "PCM_24": ("PCM_S", 24, np.int32),
    "PCM_32": ("PCM_S", 32, np.int32), "FLOAT": ("PCM_F", 32, np.float32),
    "DOUBLE": ("PCM_F", 64, np.float64),
}  # fmt: skip
"""For libsndfile's names: those of torchaudio, the bits, and the type of samples as stored."""


def info(uri: Source, format: str | None = None, backend: str | None = None) -> AudioMetaData:
    """Return what a sound file says about itself, without reading its samples.

    Args:
        uri: a path, a URL that fsspec knows, or an open file.
        format, backend: taken as torchaudio takes them, and not needed.

    Raises: as `load`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     audio.save(f"{folder}/a.wav", zeros(2, 8000), 8000)
    ...     audio.info(f"{folder}/a.wav").num_frames
    8000
    """
    with _opened("audio.info", uri) as (file, name):
        if _is_wav(file, name):
            header = read_header(file, name)
            if header.is_plain:
                encoding = "PCM_F" if header.tag == 3 else "PCM_U" if header.bits == 8 else "PCM_S"
                return AudioMetaData(
                    header.sample_rate, header.frames, header.channels, header.bits, encoding
                )
        with _sound_file(file, name, "audio.info") as opened:
            encoding, bits, _ = SUBTYPES.get(opened.subtype, (opened.subtype, 0, None))
            return AudioMetaData(opened.samplerate, opened.frames, opened.channels, bits, encoding)


def load(
    uri: Source,
    frame_offset: int = 0,
    num_frames: int = -1,
    normalize: bool = True,
    channels_first: bool = True,
    format: str | None = None,
    buffer_size: int = 4096,
    backend: str | None = None,
) -> tuple[Tensor, int]:
    """Read a sound file.

    Args:
        uri: a path, a URL that fsspec knows, or an open file.
        frame_offset: so many samples are left out at the start.
        num_frames: at most so many are read; -1 for all.
        normalize: whether samples are scaled to float32 from -1 to 1; else they are as in the
            file (those of 24 bits as int32).
        channels_first: (channels, time), or else (time, channels).
        format, buffer_size, backend: taken as torchaudio takes them, and not needed.

    Returns: the waveform, and the sample rate in Hz.

    Raises: MissingFileError: there is no such file. AudioFileError: it is damaged, cut off, or no
        sound. MissingExtraError: it is no WAV file, and soundfile is not installed.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     audio.save(f"{folder}/a.wav", tensor([[0.0, 0.5, -1.0]]), 8000)
    ...     audio.load(f"{folder}/a.wav")
    (tensor([[ 0.0000,  0.5000, -1.0000]]), 8000)
    """
    if frame_offset < 0 or num_frames < -1:
        raise InvalidValueError(
            "audio.load", "expected frame_offset >= 0 and num_frames >= -1",
            {"frame_offset": frame_offset, "num_frames": num_frames},
        )  # fmt: skip
    with _opened("audio.load", uri) as (file, name):
        header = read_header(file, name) if _is_wav(file, name) else None
        if header is not None and header.is_plain:
            start, count = _part(header.frames, frame_offset, num_frames)
            samples, sample_rate = read_samples(file, header, start, count), header.sample_rate
        else:
            with _sound_file(file, name, "audio.load") as opened:
                sample_rate = opened.samplerate
                stored = SUBTYPES.get(opened.subtype, ("", 0, np.float32))[2]
                samples = _read_blocks(
                    opened, name, frame_offset, num_frames, np.float32 if normalize else stored
                )
    if normalize:
        samples = _scaled(samples).astype(np.float32)
    waveform = tensor(np.ascontiguousarray(samples.T if channels_first else samples))
    return waveform, sample_rate


def _part(frames: int, frame_offset: int, num_frames: int) -> tuple[int, int]:
    """Return the first sample that is read, and how many are read."""
    start = min(frame_offset, frames)
    return start, frames - start if num_frames < 0 else min(num_frames, frames - start)


def _read_blocks(
    opened: Any, name: str, frame_offset: int, num_frames: int, dtype: Any
) -> np.ndarray:
    """Return samples of libsndfile's file, read in blocks: a header may promise any number of them.

    Raises: AudioFileError: there are fewer than promised.
    """
    start, count = _part(opened.frames, frame_offset, num_frames)
    opened.seek(start)
    blocks, total = [np.zeros((0, opened.channels), dtype)], 0
    while total < count:
        size = min(count - total, 2**18)
        blocks.append(opened.read(size, dtype=np.dtype(dtype).name, always_2d=True))
        total += len(blocks[-1])
        if len(blocks[-1]) < size:
            break
    if total < count and opened.format != "MP3":  # of which the length is an estimate
        raise AudioFileError(
            "audio.load", f"{name} is cut off",
            {"expected": f"{count} samples of a channel", "found": total},
        )  # fmt: skip
    return np.concatenate(blocks)


def _scaled(samples: np.ndarray) -> np.ndarray:
    """Return samples as float64 from -1 to 1."""
    if samples.dtype.kind == "f":
        return samples.astype(np.float64)
    if samples.dtype == np.uint8:
        return (samples.astype(np.float64) - 128) / 128
    return samples / 2.0 ** (8 * samples.dtype.itemsize - 1)


def save(
    uri: Source,
    src: Tensor,
    sample_rate: int,
    channels_first: bool = True,
    format: str | None = None,
    encoding: str | None = None,
    bits_per_sample: int | None = None,
    buffer_size: int = 4096,
    backend: str | None = None,
    compression: float | int | None = None,
) -> None:
    """Write a sound file; its format is that of its name: .wav, or .flac, .ogg, .mp3 by libsndfile.

    A crash leaves the old file, or the new one.

    Args:
        uri: a path, a URL that fsspec knows, or an open file.
        src: (channels, time), floats from -1 to 1 (others are clipped), or integers.
        sample_rate: in Hz.
        channels_first: False for (time, channels).
        format: of a file without a telling name: "wav", "flac", "ogg", "mp3".
        encoding: "PCM_S" (signed integers), "PCM_U" (8 bits) or "PCM_F" (floats); by default
            that of the tensor.
        bits_per_sample: 8, 16, 24, 32 or 64; by default those of the tensor.
        buffer_size, backend, compression: taken as torchaudio takes them, without effect.

    Raises: TypeError, ValueError: invalid arguments. MissingExtraError: it is no WAV file, and
        soundfile is not installed. FileNotFoundError: there is no such folder.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     audio.save(f"{folder}/a.wav", zeros(1, 8), 8000, encoding="PCM_S", bits_per_sample=16)
    ...     audio.info(f"{folder}/a.wav").bits_per_sample
    16
    """
    if not isinstance(src, Tensor):
        raise ArgumentError("audio.save", f"src must be a Tensor, got {type(src).__name__}")
    if isinstance(sample_rate, bool) or not hasattr(sample_rate, "__index__"):
        raise ArgumentError("audio.save", f"sample_rate must be an integer, got {sample_rate!r}")
    if not 0 < sample_rate < 2**32:
        raise InvalidValueError("audio.save", f"sample_rate must be positive, got {sample_rate}")
    if src.ndim not in (1, 2) or src.dtype.is_complex or src.dtype == dtypes.bool:
        raise ShapeValueError(
            "audio.save", "expected samples of (channels, time)",
            {"src": tuple(src.shape), "dtype": src.dtype},
        )  # fmt: skip
    samples = (src.unsqueeze(0) if src.ndim == 1 else src).detach().cpu()
    array = (samples.T if channels_first or src.ndim == 1 else samples).numpy()
    if not 0 < array.shape[1] < 2**16:
        raise ShapeValueError(
            "audio.save", "expected 1 to 65535 channels", {"src": tuple(src.shape)}
        )
    suffix = Path(str(getattr(uri, "name", uri))).suffix.lstrip(".").lower()
    file_format = (format or suffix or "wav").lower()
    encoding, bits = _encoding_of(array.dtype, encoding, bits_per_sample)
    if file_format in ("wav", "wave") and bits != 24:
        data = encode_wav(_as_encoding(array, encoding, bits), int(sample_rate), encoding, bits)
    else:
        data = _encode(array, int(sample_rate), file_format, encoding, bits)
    write_atomically(uri, data)


def _encoding_of(
    dtype: np.dtype[Any], encoding: str | None, bits_per_sample: int | None
) -> tuple[str, int]:
    """Return the encoding and the bits of a sample: those asked for, or those of a dtype."""
    own = {"f": "PCM_F", "u": "PCM_U"}.get(dtype.kind, "PCM_S")
    if encoding is None:
        encoding = own if bits_per_sample in (None, 32, 64) else "PCM_S"
        encoding = "PCM_U" if bits_per_sample == 8 else encoding
    own_bits = min(max(8 * dtype.itemsize, 16), 32) if own != "PCM_U" else 8
    defaults = {"PCM_F": 32, "PCM_U": 8, "PCM_S": own_bits if own == "PCM_S" else 16}
    return encoding, bits_per_sample or defaults.get(encoding, 16)


def _as_encoding(array: np.ndarray, encoding: str, bits: int) -> np.ndarray:
    """Return samples scaled from their own range to that of an encoding."""
    floats = _scaled(array)
    if encoding == "PCM_F":
        return floats
    if encoding == "PCM_U":
        return np.clip(np.rint(floats * 128 + 128), 0, 255)
    half = 2.0 ** (bits - 1)
    return np.clip(np.rint(floats * half), -half, half - 1)


def _encode(
    array: np.ndarray, sample_rate: int, file_format: str, encoding: str, bits: int
) -> bytes:
    """Return the bytes of a file as libsndfile writes it.

    Raises: MissingExtraError: soundfile is not installed. ValueError: it cannot write this.
    """
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise missing_extra("audio", "audio.save", "soundfile is not installed") from error
    subtype = None
    if file_format in ("wav", "flac", "aiff") and encoding != "PCM_F":
        subtype = f"PCM_{'U8' if encoding == 'PCM_U' else bits}"
    buffer = io.BytesIO()
    try:
        floats = np.clip(_scaled(array), -1.0, 1.0)
        soundfile.write(buffer, floats, sample_rate, subtype=subtype, format=file_format.upper())
    except (ValueError, TypeError, soundfile.LibsndfileError) as error:
        known = ", ".join(sorted(name.lower() for name in soundfile.available_formats()))
        raise InvalidValueError(
            "audio.save", f"cannot write {encoding} with {bits} bits as {file_format!r}: {error}",
            hint=f"libsndfile writes {known}",
        ) from error  # fmt: skip
    return buffer.getvalue()
