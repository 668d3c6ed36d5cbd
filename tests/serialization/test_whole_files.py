"""Atomic writes: killed or interrupted processes, a full disk, remote files."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import edutorch
from edutorch.utils import atomic_files


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    edutorch.save({"x": 1}, path)

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        edutorch.save({"x": 2}, path)
    assert edutorch.load(path) == {"x": 1}
    assert os.listdir(tmp_path) == ["x"]


KILLED = """
import os, signal, sys, edutorch
from edutorch.utils import atomic_files
atomic_files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
edutorch.save({"x": 2}, sys.argv[1])
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_a_killed_save_leaves_the_old_file_and_is_swept(tmp_path):
    path = tmp_path / "x[1]"
    edutorch.save({"x": 1}, path)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode < 0
    assert len(os.listdir(tmp_path)) == 2
    assert edutorch.load(path) == {"x": 1}
    edutorch.save({"x": 3}, path)
    assert os.listdir(tmp_path) == ["x[1]"]
    assert edutorch.load(path) == {"x": 3}


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links and file modes")
def test_links_and_modes_are_kept(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    edutorch.save({"x": 1}, target)
    target.chmod(0o640)
    link.symlink_to(target)
    edutorch.save({"x": 2}, link)
    assert link.is_symlink()
    assert edutorch.load(target) == {"x": 2}
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder") as caught:
        edutorch.save({"w": edutorch.ones(1)}, tmp_path / "absent" / "model.safetensors")
    assert caught.value.filename == str(tmp_path / "absent")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize(("kind", "trials"), [("SIGKILL", 50), ("SIGINT", 40)])
def test_the_old_or_the_new_file_is_there_whenever_a_save_is_stopped(tmp_path, kind, trials):
    script = Path(__file__).with_name("killed.py")
    command = [sys.executable, str(script), str(tmp_path), kind, str(trials)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{trials} trials")


LIMITED = """
import resource, sys, edutorch
path = sys.argv[1]
edutorch.save({"x": edutorch.ones(10)}, path)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    edutorch.save({"x": edutorch.zeros(10_000)}, path)
except OSError as error:
    print(error.errno)
print(edutorch.load(path)["x"].sum().item())
edutorch.save({"x": edutorch.ones(3)}, path)
print(edutorch.load(path)["x"].sum().item())
"""


@pytest.mark.skipif(os.name != "posix", reason="needs limits of resources")
def test_a_file_that_finds_no_room_leaves_the_old_one(tmp_path):
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(errno.EFBIG), "10.0", "3.0"]
    assert os.listdir(tmp_path) == ["x"]


def test_an_interrupted_save_cleans_up_and_the_commit_is_not_torn(tmp_path, monkeypatch):
    path = tmp_path / "x"
    edutorch.save({"x": 1}, path)
    moved = os.replace

    def interrupted(*names):
        signal.raise_signal(signal.SIGINT)
        moved(*names)

    monkeypatch.setattr(atomic_files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        edutorch.save({"x": 2}, path)
    assert edutorch.load(path) == {"x": 2}  # it was too late to stop
    monkeypatch.setattr(atomic_files.os, "fsync", lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        edutorch.save({"x": 3}, path)
    assert edutorch.load(path) == {"x": 2}
    assert os.listdir(tmp_path) == ["x"]


def test_what_this_process_left_behind_is_swept(tmp_path):
    path = tmp_path / "x"
    (tmp_path / atomic_files.temporary_name("x", os.getpid(), 10**6)).write_bytes(b"")
    other = tmp_path / ".x.another-machine.7.0.tmp"
    other.write_bytes(b"")
    edutorch.save({"x": 1}, path)
    assert sorted(os.listdir(tmp_path)) == [other.name, "x"]


# Elsewhere ------------------------------------------------------------------------------------


def test_urls(tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="needs the extra `remote`")
    for url in (f"memory://{tmp_path.name}/a/model.pt", (tmp_path / "x").as_uri()):
        edutorch.save({"x": edutorch.ones(2)}, url)
        edutorch.save({"x": edutorch.zeros(2)}, url)
        assert edutorch.load(url)["x"].tolist() == [0, 0]
    assert os.listdir(tmp_path) == ["x"]
    memory = fsspec.filesystem("memory")
    assert [Path(path).name for path in memory.find(f"/{tmp_path.name}")] == ["model.pt"]
    with pytest.raises(FileNotFoundError):
        edutorch.load(f"memory://{tmp_path.name}/nothing")


def test_urls_are_written_under_another_name_first(tmp_path, monkeypatch):
    fsspec = pytest.importorskip("fsspec", reason="needs the extra `remote`")
    memory = fsspec.filesystem("memory")
    url, folder = f"memory://{tmp_path.name}/model.pt", f"/{tmp_path.name}"
    edutorch.save({"x": 1}, url)
    memory.pipe_file(f"{folder}/{atomic_files.temporary_name('model.pt', 2**30, 0)}", b"half")

    def fails(*_, **__):
        raise OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr(type(memory), "mv", fails)
    with pytest.raises(OSError, match="No space left"):
        edutorch.save({"x": 2}, url)
    assert edutorch.load(url) == {"x": 1}
    assert memory.find(folder) == [f"{folder}/model.pt"]


def test_without_fsspec_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for call in (lambda: edutorch.save({}, "s3://a/b"), lambda: edutorch.load("s3://a/b")):
        with pytest.raises(ImportError, match=r'pip install "edutorch\[remote\]"'):
            call()


@pytest.mark.skipif(os.name != "posix", reason="folders are opened where POSIX is")
def test_file_and_folder_reach_the_disk(tmp_path, monkeypatch):
    """First the bytes, then the name: after that a power cut takes neither."""
    steps = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}") if Path("/proc/self/fd").exists() else ""
        steps.append("folder" if path == str(tmp_path) else "file")
        fsync(descriptor)

    def noted_replace(source, target):
        steps.append("name")
        replace(source, target)

    if not Path("/proc/self/fd").exists():
        pytest.skip("what a descriptor is of cannot be asked here")
    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    edutorch.save({"x": 1}, tmp_path / "x")
    assert steps == ["file", "name", "folder"]


def test_what_another_user_writes_is_left_alone(tmp_path, monkeypatch):
    """A process that may not be signalled is alive."""
    name = atomic_files.temporary_name("x", 4_194_301, 0)
    (tmp_path / name).write_bytes(b"half")

    def refuse(process, signal):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)
    edutorch.save({"x": 1}, tmp_path / "x")
    assert sorted(os.listdir(tmp_path)) == sorted([name, "x"])
