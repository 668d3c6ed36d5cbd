"""WAV files, byte by byte: a header of chunks, and then the samples as they are in memory.

    "RIFF" size "WAVE"                     the frame around everything
      "fmt " size tag channels rate …      what a sample is
      "data" size samples …                channel after channel of each moment

A chunk is a name of four letters, the number of its bytes (32 bits, lowest byte first), and these
bytes. Nothing in a header is believed: a file may be cut off, or something else altogether.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, NamedTuple

import numpy as np

from ..errors import EdutorchError, InvalidValueError

__all__ = ["AudioFileError", "WavHeader", "encode_wav", "read_header", "read_samples"]

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
"""Format tags: integers, floats; and one that says that the tag stands further behind."""

MAX_CHUNKS = 1000
"""A file with more chunks than this before its samples is not searched to its end."""

STREAMED = (0xFFFFFFFF, 0x7FFFFFFF, 0)
"""Sizes that programs write which do not know yet how long the sound will be."""


class AudioFileError(EdutorchError, RuntimeError, ValueError):
    """A file is not the sound that it claims to be: damaged, cut off, or of another format."""


class WavHeader(NamedTuple):
    """What the header of a WAV file says.

    Attributes:
        tag: how samples are encoded: 1 for integers, 3 for floats.
        channels: 1 for mono, 2 for stereo.
        sample_rate: in Hz.
        bits: of a sample.
        start: the position of the first sample in the file.
        frames: the number of moments, each with a sample of each channel.
    """

    tag: int
    channels: int
    sample_rate: int
    bits: int
    start: int
    frames: int

    @property
    def is_plain(self) -> bool:
        """Whether NumPy can read the samples as they are."""
        return (self.tag == PCM and self.bits in (8, 16, 24, 32)) or (
            self.tag == FLOAT and self.bits in (32, 64)
        )


def _damaged(name: str, expected: str, actual: str) -> AudioFileError:
    return AudioFileError(
        "audio.load", f"{name} is no WAV file that can be read",
        {"expected": expected, "found": actual},
    )  # fmt: skip


def read_header(file: BinaryIO, name: str) -> WavHeader:
    """Read the chunks of a WAV file up to its samples.

    Args:
        name: of the file, for errors.

    Raises: AudioFileError: it is something else, damaged or cut off.
    """
    size = file.seek(0, 2)
    file.seek(0)
    magic = file.read(12)
    if len(magic) < 12 or magic[:4] != b"RIFF" or magic[8:] != b"WAVE":
        actual = f"{magic!r}" if magic else "an empty file"
        raise _damaged(name, "the bytes RIFF….WAVE at its start", actual)
    layout: tuple[int, int, int, int, int] | None = None
    for _ in range(MAX_CHUNKS):
        head = file.read(8)
        if len(head) < 8:
            break
        chunk, length = head[:4], int.from_bytes(head[4:], "little")
        start = file.tell()
        if chunk == b"fmt ":
            layout = _read_format(file.read(min(length, 40)), length, name)
        elif chunk == b"data":
            if layout is None:
                raise _damaged(name, "a chunk `fmt ` before the samples", "a chunk `data`")
            return _header(layout, start, length, size, name)
        file.seek(start + length + length % 2)  # chunks begin at even positions
    wanted = "a chunk `data` with samples" if layout else "a chunk `fmt ` and a chunk `data`"
    raise _damaged(name, wanted, f"none in {size} bytes")


def _read_format(data: bytes, length: int, name: str) -> tuple[int, int, int, int, int]:
    """Return the tag, the channels, the rate, the bytes of a moment and the bits of a sample."""
    if len(data) < 16:
        raise _damaged(name, "16 bytes or more in the chunk `fmt `", f"{min(length, len(data))}")
    tag, channels, rate, _, frame_bytes, bits = struct.unpack("<HHIIHH", data[:16])
    if tag == EXTENSIBLE and len(data) >= 26:
        tag = int.from_bytes(data[24:26], "little")
    if not channels or not rate:
        raise _damaged(
            name,
            "one channel or more, and a sample rate above 0",
            f"{channels} channels, {rate} Hz",
        )
    if tag in (PCM, FLOAT) and (not bits or frame_bytes != channels * -(-bits // 8)):
        raise _damaged(name, f"{channels} × {bits} bits in each moment", f"{frame_bytes} bytes")
    if not frame_bytes:
        raise _damaged(name, "one byte or more in each moment", "0")
    return tag, channels, rate, frame_bytes, bits


def _header(
    layout: tuple[int, int, int, int, int], start: int, length: int, size: int, name: str
) -> WavHeader:
    """Return the header of samples that begin at `start`, in a file of `size` bytes."""
    tag, channels, rate, frame_bytes, bits = layout
    if length in STREAMED:
        length = size - start
    if start + length > size:
        raise _damaged(name, f"{length} bytes of samples", f"{size - start}: the file is cut off")
    return WavHeader(tag, channels, rate, bits, start, length // frame_bytes)


def read_samples(file: BinaryIO, header: WavHeader, offset: int, frames: int) -> np.ndarray:
    """Return samples as they stand in the file; those of 24 bits as int32, filled with zeros.

    Args:
        offset: the first moment.
        frames: so many moments.

    Shape: (frames, channels).
    """
    width = header.bits // 8
    file.seek(header.start + offset * header.channels * width)
    data = file.read(frames * header.channels * width)
    if width == 3:
        low = np.frombuffer(data, np.uint8).reshape(-1, 3)
        samples = np.zeros((len(low), 4), np.uint8)
        samples[:, 1:] = low  # as the upper bytes, so that the sign is right
        values = samples.view("<i4")
    elif header.tag == FLOAT:
        values = np.frombuffer(data, f"<f{width}")
    else:
        values = np.frombuffer(data, "u1" if width == 1 else f"<i{width}")
    return values.reshape(-1, header.channels)


SAMPLE_TYPES = {("PCM_U", 8): "u1", ("PCM_S", 16): "<i2", ("PCM_S", 32): "<i4",
                ("PCM_F", 32): "<f4", ("PCM_F", 64): "<f8"}  # fmt: skip
"""The encodings that are written, by their name in torchaudio and the bits of a sample."""


def encode_wav(samples: np.ndarray, sample_rate: int, encoding: str, bits: int) -> bytes:
    """Return the bytes of a WAV file.

    Args:
        samples: (frames, channels), already of the type of the encoding.

    Raises: ValueError: an encoding that is not written here, or more than 4 GiB.
    """
    if (encoding, bits) not in SAMPLE_TYPES:
        known = ", ".join(f"{name} {width}" for name, width in SAMPLE_TYPES)
        raise InvalidValueError(
            "audio.save", f"cannot write {encoding} with {bits} bits to a WAV file",
            hint=f"it takes {known}",
        )  # fmt: skip
    data = samples.astype(SAMPLE_TYPES[encoding, bits]).tobytes()
    if len(data) + 36 >= 2**32:
        raise InvalidValueError(
            "audio.save", "a WAV file holds less than 4 GiB", {"bytes": len(data)}
        )
    channels, width = samples.shape[1], bits // 8
    layout = struct.pack(
        "<HHIIHH", FLOAT if encoding == "PCM_F" else PCM, channels, sample_rate,
        sample_rate * channels * width, channels * width, bits,
    )  # fmt: skip
    head = struct.pack("<4sI4s4sI", b"RIFF", 36 + len(data) + len(data) % 2, b"WAVE", b"fmt ", 16)
    return head + layout + struct.pack("<4sI", b"data", len(data)) + data + b"\0" * (len(data) % 2)
