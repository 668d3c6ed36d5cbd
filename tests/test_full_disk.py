"""A full disk: the error of every writer says which file could not be written."""

from __future__ import annotations

import errno
import io
import os

import pytest

import edutorch
from edutorch import profiler, train, viz


def save(path):
    edutorch.save({"x": edutorch.ones(100)}, path)


def draw(path):
    viz.draw(edutorch.ones(2, requires_grad=True).sum()).save(path)


def stacks(path):
    with profiler.profile(with_stack=True) as run:
        edutorch.ones(10).sum()
    run.export_stacks(path)


def trace(path):
    with profiler.profile() as run:
        edutorch.ones(10).sum()
    run.export_chrome_trace(path)


def log(path):
    logger = train.CSVLogger(os.path.dirname(path), name="", version="")
    logger.log_metrics({"loss": 1.0}, 0)
    logger.save()


WRITERS = {"model.pt": save, "picture.svg": draw, "stacks.txt": stacks, "trace.json": trace}


class Full(io.FileIO):
    """A file on a disk without room."""

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill_the_disk(monkeypatch):
    def full(file, mode="r", *rest, **named):
        if not set(mode) & set("wxa"):
            return ordinary(file, mode, *rest, **named)
        raw = Full(file, mode.replace("b", "").replace("t", ""))
        return raw if "b" in mode else io.TextIOWrapper(raw, write_through=True)

    ordinary = open
    monkeypatch.setattr("builtins.open", full)
    monkeypatch.setattr("os.fdopen", full)


@pytest.mark.parametrize("name", WRITERS)
def test_the_file_is_named(name, tmp_path, monkeypatch):
    if name == "picture.svg":
        WRITERS[name](tmp_path / name)  # loads what it needs
    path = tmp_path / name
    fill_the_disk(monkeypatch)
    with pytest.raises(OSError, match=f"No space left on device.*{name}") as caught:
        WRITERS[name](str(path))
    assert caught.value.errno == errno.ENOSPC


def test_the_log_is_named(tmp_path, monkeypatch):
    fill_the_disk(monkeypatch)
    with pytest.raises(OSError, match=r"No space left on device.*metrics\.csv"):
        log(str(tmp_path / "x"))
