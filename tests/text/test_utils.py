"""Files of tutorials: what is missing, damaged, or would leave its folder."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile

import pytest

from edutorch.text.utils import ArchiveError, download_from_url, extract_archive

URL = "https://doi.org/data/train.tar.gz?download=1"


def write_tar(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            if data is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def test_files_are_found_and_checked(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"(?s)train\.tar\.gz is not there.*with md5 abc"):
        download_from_url(URL, root=tmp_path, hash_value="abc", hash_type="md5")
    (tmp_path / "train.tar.gz").write_bytes(b"data")
    assert download_from_url(URL, root=tmp_path) == str(tmp_path / "train.tar.gz")
    right = hashlib.sha256(b"data").hexdigest()
    assert download_from_url(URL, tmp_path / "train.tar.gz", hash_value=right)
    with pytest.raises(ArchiveError, match=r"(?s)does not match.*expected +=? *00.*found"):
        download_from_url(URL, root=tmp_path, hash_value="00")


def test_archives_are_unpacked(tmp_path):
    write_tar(tmp_path / "a.tar.gz", {"data/one.txt": b"1", "two.txt": b"2"})
    files = extract_archive(tmp_path / "a.tar.gz")
    assert files == [str(tmp_path / "data/one.txt"), str(tmp_path / "two.txt")]
    (tmp_path / "two.txt").write_text("mine")
    extract_archive(tmp_path / "a.tar.gz")
    assert (tmp_path / "two.txt").read_text() == "mine"
    extract_archive(tmp_path / "a.tar.gz", overwrite=True)
    assert (tmp_path / "two.txt").read_text() == "2"
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as zipped:
        zipped.writestr("sub/x.txt", "x")
    assert extract_archive(tmp_path / "b.zip", tmp_path / "new") == [
        str(tmp_path / "new/sub/x.txt")
    ]


def test_links_are_refused(tmp_path):
    write_tar(tmp_path / "a.tar.gz", {"one.txt": b"1", "link": None})
    with pytest.raises(ArchiveError, match=r"(?s)a member is a link.*nothing was unpack.*'link'"):
        extract_archive(tmp_path / "a.tar.gz")
    assert not (tmp_path / "one.txt").exists()


@pytest.mark.parametrize("name", ["../out.txt", "a/../../out.txt", "/tmp/out_of_the_folder.txt"])
def test_nothing_leaves_the_folder(tmp_path, name):
    inner = tmp_path / "inner"
    inner.mkdir()
    write_tar(inner / "a.tar.gz", {"fine.txt": b"1", name: b"2"})
    with zipfile.ZipFile(inner / "a.zip", "w") as zipped:
        zipped.writestr("fine.txt", "1")
        zipped.writestr(name, "2")
    for archive in ("a.tar.gz", "a.zip"):
        with pytest.raises(ArchiveError, match=r"(?s)outside of the folder.*nothing was unpacked"):
            extract_archive(inner / archive)
    assert sorted(path.name for path in tmp_path.rglob("*.txt")) == []


def test_damaged_archives(tmp_path):
    write_tar(tmp_path / "a.tar.gz", {"one.txt": b"1" * 100_000})
    data = (tmp_path / "a.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(data[: len(data) // 2])
    (tmp_path / "text.zip").write_bytes(b"no archive")
    middle = bytearray(data)
    middle[40:60] = b"\xff" * 20
    (tmp_path / "middle.tar.gz").write_bytes(middle)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("x.txt", "some text")
    data = (tmp_path / "a.zip").read_bytes().replace(b"some text", b"some tent")
    (tmp_path / "bad.zip").write_bytes(data)
    with pytest.raises(ArchiveError, match=r"bad\.zip is damaged: bad checksum of 'x\.txt'"):
        extract_archive(tmp_path / "bad.zip", tmp_path / "x")
    with pytest.raises(ArchiveError, match=r"middle\.tar\.gz is (damaged|neither)"):
        extract_archive(tmp_path / "middle.tar.gz", tmp_path / "x")
    with pytest.raises(ArchiveError, match=r"cut\.tar\.gz is (damaged|neither)"):
        extract_archive(tmp_path / "cut.tar.gz", tmp_path / "x")
    with pytest.raises(ArchiveError, match=r"neither a \.zip nor a \.tar"):
        extract_archive(tmp_path / "text.zip")
    with pytest.raises(FileNotFoundError):
        extract_archive(tmp_path / "none.zip")
