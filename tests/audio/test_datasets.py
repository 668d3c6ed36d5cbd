"""Data sets in local folders, and spoken digits."""

from __future__ import annotations

import hashlib
import io
import tarfile
import warnings

import numpy as np
import pytest

import edutorch
from edutorch import audio
from edutorch.audio.datasets import (
    LJSPEECH,
    SPEECHCOMMANDS,
    YESNO,
    SpokenDigits,
    spoken_digits,
    yesno,
)
from edutorch.errors import MissingExtraError


def write_sounds(root, *names, rate=16000):
    for number, name in enumerate(names):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        audio.save(file, edutorch.full((1, 8), number / 8), rate)


def test_speech_commands(tmp_path):
    folder = tmp_path / "SpeechCommands" / "speech_commands_v0.02"
    names = ["cat/a1_nohash_0.wav", "cat/a1_nohash_1.wav", "dog/b2_nohash_0.wav"]
    write_sounds(folder, *names, "_background_noise_/pink_noise.wav")
    (folder / "validation_list.txt").write_text("cat/a1_nohash_1.wav\n")
    (folder / "testing_list.txt").write_text("dog/b2_nohash_0.wav\n")
    assert len(SPEECHCOMMANDS(tmp_path)) == 3
    (only,) = [SPEECHCOMMANDS(tmp_path, subset="training")[0]]
    assert only[1:] == (16000, "cat", "a1", 0)
    assert SPEECHCOMMANDS(tmp_path, subset="validation")[0][0].tolist() == [[1 / 8] * 8]
    testing = SPEECHCOMMANDS(tmp_path, subset="testing")
    assert testing.get_metadata(0)[1:] == (16000, "dog", "b2", 0)
    assert testing.get_metadata(0)[0].endswith("b2_nohash_0.wav")
    write_sounds(folder, names[0], rate=8000)
    with pytest.raises(
        audio.AudioFileError, match=r"expected += 16000 Hz\n +found +8000 Hz|8000 Hz"
    ):
        SPEECHCOMMANDS(tmp_path)[0]
    (folder / "testing_list.txt").unlink()
    with pytest.raises(RuntimeError, match="a list of the data set is missing"):
        SPEECHCOMMANDS(tmp_path, subset="testing")
    with pytest.raises(ValueError, match="subset"):
        SPEECHCOMMANDS(tmp_path, subset="test")
    with pytest.raises(ValueError, match="unknown version"):
        SPEECHCOMMANDS(tmp_path, url="v3")


def test_yes_no(tmp_path):
    write_sounds(tmp_path / "waves_yesno", "0_1_1_0_0_0_1_1.wav", "1_1_1_1_1_1_1_1.wav", rate=8000)
    data = YESNO(tmp_path)
    assert len(data) == 2
    assert data[0][1:] == (8000, [0, 1, 1, 0, 0, 0, 1, 1])
    write_sounds(tmp_path / "waves_yesno", "name.wav")
    with pytest.raises(audio.AudioFileError, match=r"name\.wav is not called by its labels"):
        YESNO(tmp_path)[2]


def test_lj_speech(tmp_path):
    folder = tmp_path / "LJSpeech-1.1"
    write_sounds(folder / "wavs", "LJ001-0001.wav", rate=22050)
    (folder / "metadata.csv").write_text("LJ001-0001|Dr. 1|Doctor one\n")
    assert LJSPEECH(tmp_path)[0][1:] == (22050, "Dr. 1", "Doctor one")
    (folder / "metadata.csv").write_text("LJ001-0001|one\nLJ001\n")
    with pytest.raises(audio.AudioFileError, match="line 1 cannot be read"):
        LJSPEECH(tmp_path)


def archive_of(**members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def accept(monkeypatch, data):
    monkeypatch.setattr(yesno, "SHA256", hashlib.sha256(data).hexdigest())


def test_an_archive_is_unpacked_if_it_is_there(tmp_path, monkeypatch):
    sound = io.BytesIO()
    audio.save(sound, edutorch.zeros(1, 4), 8000, format="wav")
    data = archive_of(**{"waves_yesno/0_1.wav": sound.getvalue()})
    file = tmp_path / "waves_yesno.tar.gz"
    file.write_bytes(data)
    with pytest.raises(
        audio.MissingFileError, match=r"the archive .*waves_yesno.tar.gz\n.*download=True"
    ):
        YESNO(tmp_path)
    with pytest.raises(audio.AudioFileError, match="not the archive that was published"):
        YESNO(tmp_path, download=True)
    accept(monkeypatch, data)
    assert YESNO(tmp_path, download=True)[0][2] == [0, 1]
    assert len(YESNO(tmp_path)) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["waves_yesno", "waves_yesno.tar.gz"]


@pytest.mark.parametrize("name", ["../outside.wav", "/outside.wav", "waves_yesno/../../o.wav"])
def test_members_that_leave_the_folder(name, tmp_path, monkeypatch):
    data = archive_of(**{name: b"x", "waves_yesno/0.wav": b"x"})
    root = tmp_path / "root"
    root.mkdir()
    (root / "waves_yesno.tar.gz").write_bytes(data)
    accept(monkeypatch, data)
    with pytest.raises(audio.AudioFileError, match="cannot be unpacked"):
        YESNO(root, download=True)
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_an_archive_that_is_cut_off(tmp_path, monkeypatch):
    data = archive_of(**{"waves_yesno/0.wav": bytes(range(256)) * 99})[:-200]
    (tmp_path / "waves_yesno.tar.gz").write_bytes(data)
    accept(monkeypatch, data)
    with pytest.raises(audio.AudioFileError, match="cannot be unpacked"):
        YESNO(tmp_path, download=True)
    assert not (tmp_path / "waves_yesno").exists()


def test_missing_data_say_what_goes_where(tmp_path):
    for data_set, name in ((YESNO, "waves_yesno.tar.gz"), (LJSPEECH, "LJSpeech-1.1.tar.bz2"),
                           (SPEECHCOMMANDS, "speech_commands_v0.02.tar.gz")):  # fmt: skip
        with pytest.raises(audio.MissingFileError, match=name) as caught:
            data_set(tmp_path, download=True)
        assert str(tmp_path) in str(caught.value)
        assert "SHA-256" in str(caught.value)
        assert isinstance(caught.value, RuntimeError)


# Spoken digits -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    pytest.importorskip("espeakng_loader", reason="needs the extra `speech`")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return SpokenDigits()


def test_every_voice_is_another(digits):
    assert len(digits) == 20 * 4 * 10
    sevens = [item[0].numpy().tobytes() for item in digits if item[2] == "seven"]
    assert len(set(sevens)) == 80
    lengths = [item[0].shape[1] / item[1] for item in digits]
    assert 0.2 < min(lengths) < max(lengths) < 1.0
    loudest = [float(item[0].abs().max()) for item in digits]
    assert 0.1 < min(loudest) <= max(loudest) <= 1.0


def test_subsets_and_voices(digits):
    training, testing = SpokenDigits("training"), SpokenDigits("testing")
    assert (len(training), len(testing)) == (640, 160)
    assert not set(training.voices) & set(testing.voices)
    assert len(SpokenDigits(voices=["en-us+m1"])) == 40
    with pytest.raises(ValueError, match="unknown subset 'test'"):
        SpokenDigits("test")
    with pytest.raises(ValueError, match="no voice 'en-us'"):
        SpokenDigits(voices=["en-us"])


def test_each_run_speaks_alike(tmp_path, monkeypatch, digits):
    monkeypatch.setattr(spoken_digits, "user_cache_folder", lambda name: tmp_path)
    monkeypatch.setattr(spoken_digits, "TRAINING_VOICES", ("en-us+m1",))  # what is spoken first
    monkeypatch.setattr(spoken_digits, "TESTING_VOICES", ())
    spoken_digits._recording.cache_clear()
    with pytest.warns(UserWarning, match="GNU General Public License, version 3"):
        again = spoken_digits._recording()
    assert len(again.counts) == 40
    assert np.array_equal(again.samples, digits.recording.samples[: len(again.samples)])
    spoken_digits._recording.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spoken_digits._recording()  # from the file: nothing is spoken, nothing is said
    spoken_digits._recording.cache_clear()


def test_without_the_synthesizer(monkeypatch):
    def absent(name):
        raise spoken_digits.PackageNotFoundError(name)

    monkeypatch.setattr(spoken_digits, "version", absent)
    spoken_digits._recording.cache_clear()
    with pytest.raises(MissingExtraError, match=r'pip install "edutorch\[speech\]"'):
        SpokenDigits()


def test_an_unknown_voice(tmp_path):
    pytest.importorskip("espeakng_loader", reason="needs the extra `speech`")
    with pytest.raises(RuntimeError, match="eSpeak NG has no voice 'xx'"):
        spoken_digits.synthesize([spoken_digits.Utterance("one", "xx")], str(tmp_path / "a.npz"))
