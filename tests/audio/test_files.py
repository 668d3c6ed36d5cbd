"""Sound files: what is written can be read, also by others, and damaged ones are refused."""

from __future__ import annotations

import io
import os
import struct
import sys

import numpy as np
import pytest

import edutorch
from edutorch import audio
from edutorch.errors import MissingExtraError

SOUND = np.stack([np.sin(np.arange(100) * 0.1), np.cos(np.arange(100) * 0.2)]).astype(np.float32)

ENCODINGS = {
    ("PCM_S", 16): 2**-15, ("PCM_S", 32): 2**-23, ("PCM_U", 8): 2**-7, ("PCM_F", 32): 0.0,
    ("PCM_F", 64): 0.0,
}  # fmt: skip


@pytest.mark.parametrize(("encoding", "bits"), ENCODINGS)
def test_what_is_written_is_read(encoding, bits, tmp_path):
    file = tmp_path / "sound.wav"
    audio.save(file, edutorch.tensor(SOUND), 8000, encoding=encoding, bits_per_sample=bits)
    assert audio.info(file) == (8000, 100, 2, bits, encoding)
    waveform, rate = audio.load(file)
    assert (rate, waveform.dtype) == (8000, edutorch.float32)
    assert np.abs(waveform.numpy() - SOUND).max() <= ENCODINGS[encoding, bits]
    part, _ = audio.load(file, frame_offset=90, num_frames=20, channels_first=False)
    assert part.shape == (10, 2)
    assert (part.T.numpy() == waveform.numpy()[:, 90:]).all()


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_wav_files_are_those_of_libsndfile(subtype, tmp_path):
    soundfile = pytest.importorskip("soundfile", reason="needs the extra `audio`")
    file = tmp_path / "sound.wav"
    soundfile.write(file, SOUND.T, 11025, subtype=subtype)
    theirs = soundfile.read(file, dtype="float32", always_2d=True)[0].T
    ours, rate = audio.load(file)
    assert rate == 11025
    assert (ours.numpy() == theirs).all()
    audio.save(file, ours, rate)
    assert (theirs == soundfile.read(file, dtype="float32", always_2d=True)[0].T).all()


def test_samples_as_stored(tmp_path):
    file = tmp_path / "sound.wav"
    stored = edutorch.tensor([[0, 1, -(2**15)]], dtype=edutorch.int16)
    audio.save(file, stored, 8000)
    assert audio.load(file, normalize=False)[0].equal(stored)
    assert audio.load(file)[0].tolist() == [[0.0, 2**-15, -1.0]]


@pytest.mark.parametrize("suffix", ["flac", "ogg", "mp3"])
def test_other_formats(suffix, tmp_path):
    pytest.importorskip("soundfile", reason="needs the extra `audio`")
    file = tmp_path / f"sound.{suffix}"
    tone = edutorch.sin(edutorch.arange(16000.0) * 0.1).unsqueeze(0) / 2
    audio.save(file, tone, 16000)
    waveform, rate = audio.load(file)
    assert rate == 16000
    assert waveform.shape[0] == 1
    assert (waveform[:, 2000:4000].std() - 0.3536).abs() < 0.01
    assert audio.info(file).num_channels == 1


def test_without_soundfile_wav_files_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    sound = edutorch.tensor(SOUND)
    audio.save(tmp_path / "sound.wav", sound, 8000)
    assert audio.load(tmp_path / "sound.wav")[0].equal(sound)
    with pytest.raises(MissingExtraError, match=r"soundfile is not installed\n.*edutorch\[audio\]"):
        audio.save(tmp_path / "sound.flac", sound, 8000)
    (tmp_path / "sound.flac").write_bytes(b"fLaC")
    with pytest.raises(MissingExtraError, match=r"edutorch\[audio\]"):
        audio.load(tmp_path / "sound.flac")


def test_open_files():
    buffer = io.BytesIO()
    audio.save(buffer, edutorch.tensor(SOUND), 8000, format="wav")
    buffer.seek(0)
    assert audio.load(buffer)[0].shape == (2, 100)


def wav(*, riff=b"RIFF", wave=b"WAVE", layout=None, data=bytes(8), length=None, chunk=b"data"):
    """Return the bytes of a WAV file, right but for what is given."""
    layout = struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16) if layout is None else layout
    length = len(data) if length is None else length
    body = wave + b"fmt " + struct.pack("<I", len(layout)) + layout
    body += chunk + struct.pack("<I", length) + data
    return riff + struct.pack("<I", len(body)) + body


def layout(tag=1, channels=1, rate=8000, frame_bytes=2, bits=16):
    return struct.pack("<HHIIHH", tag, channels, rate, rate * frame_bytes, frame_bytes, bits)


HOSTILE = {
    "empty": (b"", "an empty file"),
    "short": (b"RIFF\x04", r"b'RIFF\\x04'"),
    "wrong magic": (wav(riff=b"RIFX"), "RIFX"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(40), "PNG"),
    "not WAVE": (wav(wave=b"AVI "), "AVI"),
    "no chunks": (wav()[:12], "none in 12 bytes"),
    "format cut off": (wav()[:25], "16 bytes or more"),
    "short format": (wav(layout=bytes(4)), "16 bytes or more"),
    "no channels": (wav(layout=layout(channels=0)), "0 channels"),
    "no rate": (wav(layout=layout(rate=0)), "0 Hz"),
    "no bits": (wav(layout=layout(bits=0)), "0 bits"),
    "bits that do not fit": (wav(layout=layout(bits=32)), "2 bytes"),
    "65535 channels": (wav(layout=layout(channels=65535)), "2 bytes"),
    "no samples": (wav(chunk=b"junk"), "chunk `data`"),
    "samples cut off": (wav(length=4000), "8: the file is cut off"),
    "3 GiB promised": (wav(length=3 << 30), "8: the file is cut off"),
    "samples before the format": (
        b"RIFF\x10\0\0\0WAVEdata\x04\0\0\0\0\0\0\0", "chunk `fmt ` before the samples"
    ),
    "a chunk of 4 GiB": (wav(chunk=b"LIST", length=2**32 - 1), "chunk `data`"),
    "a million chunks": (wav()[:36] + b"junk\0\0\0\0" * 100_000, "chunk `data`"),
    "unknown encoding": (wav(layout=layout(tag=0x7777)), "cannot be read"),
    "text": (b"hello, I am a sound file" * 9, "hello"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_damaged_files_are_refused(name, tmp_path):
    data, words = HOSTILE[name]
    file = tmp_path / "sound.wav"
    file.write_bytes(data)
    for read in (audio.load, audio.info):
        with pytest.raises(audio.AudioFileError, match=words) as caught:
            read(file)
        assert str(file) in str(caught.value)
        assert "expected" in str(caught.value)
        assert "found" in str(caught.value)


def test_other_files_that_are_damaged(tmp_path):
    pytest.importorskip("soundfile", reason="needs the extra `audio`")
    file = tmp_path / "sound.flac"
    audio.save(file, edutorch.zeros(1, 50_000) + edutorch.rand(50_000) / 9, 8000)
    whole = file.read_bytes()
    for data in (whole[: len(whole) // 2], b"", os.urandom(5), whole[:60]):
        file.write_bytes(data)
        with pytest.raises(audio.AudioFileError, match=r"sound\.flac"):
            audio.load(file)


def test_streamed_files_end_where_they_end(tmp_path):
    file = tmp_path / "sound.wav"
    file.write_bytes(wav(length=2**32 - 1))
    assert audio.load(file)[0].shape == (1, 4)


def test_missing_files(tmp_path):
    with pytest.raises(audio.MissingFileError, match=r"found.*= nothing") as caught:
        audio.load(tmp_path / "nothing.wav")
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(audio.MissingFileError, match=r"found.*= a folder"):
        audio.info(tmp_path)
    with pytest.raises(TypeError, match="expected a path or an open file, got int"):
        audio.load(3)


WRONG = {
    "sample_rate must be an integer, got 8000.5": (edutorch.zeros(1, 4), 8000.5),
    "sample_rate must be positive, got 0": (edutorch.zeros(1, 4), 0),
    "src must be a Tensor, got list": ([0.0], 8000),
    "expected samples of": (edutorch.zeros(1, 2, 3), 8000),
    "1 to 65535 channels": (edutorch.zeros(0, 2), 8000),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_cannot_be_written(words, tmp_path):
    with pytest.raises((ValueError, TypeError), match=words):
        audio.save(tmp_path / "sound.wav", *WRONG[words])
    assert list(tmp_path.iterdir()) == []


def test_encodings_that_cannot_be_written(tmp_path):
    with pytest.raises(ValueError, match="cannot write PCM_S with 12 bits"):
        audio.save(tmp_path / "a.wav", edutorch.zeros(1, 4), 8000, bits_per_sample=12)
    with pytest.raises(ValueError, match="libsndfile writes"):
        audio.save(tmp_path / "a.xyz", edutorch.zeros(1, 4), 8000)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        audio.save(tmp_path / "none" / "a.wav", edutorch.zeros(1, 4), 8000)
