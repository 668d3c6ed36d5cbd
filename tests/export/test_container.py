"""Files of programs: damaged and hostile ones are refused, and nothing runs."""

from __future__ import annotations

import hashlib
import io
import json
import random
import zipfile

import pytest

import edutorch as torch
from edutorch import nn
from edutorch.export import ProgramFileError, export, load, save


def program_bytes() -> bytes:
    buffer = io.BytesIO()
    save(export(nn.Linear(2, 3), (torch.ones(4, 2),)), buffer, extra_files={"note": "hello"})
    return buffer.getvalue()


def rewritten(change) -> io.BytesIO:
    """Return a file whose JSON is changed, with a seal that fits."""
    with zipfile.ZipFile(io.BytesIO(program_bytes())) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    program = json.loads(parts["program.json"])
    change(program)
    parts["program.json"] = json.dumps(program).encode()
    seal = json.loads(parts["seal.json"])
    seal["sha256"]["program.json"] = hashlib.sha256(parts["program.json"]).hexdigest()
    parts["seal.json"] = json.dumps(seal).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    buffer.seek(0)
    return buffer


def nodes(program):
    return program["graph"]["nodes"]


HOSTILE = {
    "a function of os": lambda p: nodes(p)[-2].update(target="os:system"),
    "a dunder": lambda p: nodes(p)[-2].update(target="python:__import__"),
    "a name with code": lambda p: nodes(p)[0].update(name="x=1;print(1)"),
    "a target with code": lambda p: nodes(p)[0].update(target='x"); print("'),
    "an attribute": lambda p: nodes(p)[-2].update(op="get_attr", target="__class__"),
    "a method": lambda p: nodes(p)[-2].update(op="call_method", target="__reduce__"),
    "a keyword": lambda p: nodes(p)[-2].update(kwargs={"dict": [["x): print(1) #", 1]]}),
    "a deep argument": lambda p: nodes(p)[-2].update(args=eval("[" * 90 + "]" * 90)),
    "an unknown node": lambda p: nodes(p)[-2].update(args={"tuple": [{"node": "y"}]}),
    "another shape": lambda p: nodes(p)[-2]["meta"].update(shape=["a b"]),
    "no nodes": lambda p: p.update(graph={}),
    "other inputs": lambda p: p.update(inputs=[]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name):
    with pytest.raises(ProgramFileError):
        load(rewritten(HOSTILE[name]))


def test_a_line_of_a_file_stays_a_comment():
    def change(program):
        nodes(program)[-2]["meta"]["line"] = "a.py:1\n    raise SystemExit"

    load(rewritten(change)).module()(torch.ones(4, 2))


def test_damaged_files_give_one_error():
    data = program_bytes()
    draw = random.Random(0)
    for _ in range(60):
        damaged = bytearray(data)
        damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            load(io.BytesIO(bytes(damaged)))
        except ProgramFileError:
            pass
    for length in range(0, len(data), 97):
        with pytest.raises(ProgramFileError):
            load(io.BytesIO(data[:length]))


def test_other_files_are_named():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/models/model.json", "{}")
    with pytest.raises(ProgramFileError, match="written by PyTorch"):
        load(buffer)


def test_extra_files_come_back():
    extra = {"note": ""}
    load(io.BytesIO(program_bytes()), extra_files=extra)
    assert extra == {"note": "hello"}


def test_wrong_arguments_are_named(tmp_path):
    layer = torch.nn.Linear(2, 2)
    for refused in (
        lambda: torch.export.save(layer, tmp_path / "layer.edu"),
        lambda: torch.export.cpp(layer, tmp_path / "layer"),
    ):
        with pytest.raises(TypeError, match="a Linear is not an ExportedProgram"):
            refused()
    with pytest.raises(TypeError, match="f is a int, not a path or a file"):
        torch.export.load(3)
    with pytest.raises(RuntimeError, match="to be a tuple of example positional inputs"):
        torch.export.export(layer, torch.ones(1, 2))
    assert not list(tmp_path.iterdir())
