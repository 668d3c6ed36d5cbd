"""Checkpoints: what is saved comes back, and what is damaged does not."""

from __future__ import annotations

import io
import json
import math
import os
import random
import subprocess
import sys
from collections import OrderedDict

import numpy as np
import pytest
import safetensors.numpy

import edutorch
from edutorch import nn, optim
from edutorch.serialization import CheckpointError


def round_trip(obj, **settings):
    file = io.BytesIO()
    edutorch.save(obj, file)
    return edutorch.load(io.BytesIO(file.getvalue()), **settings)


def test_a_model_and_its_optimizer(device, tmp_path):
    def make():
        model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
        return model, optim.Adam(model.parameters(), lr=0.01)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(edutorch.ones(4, 3) * edutorch.arange(4.0).reshape(4, 1)).sum().backward()
        optimizer.step()

    model, optimizer = make()
    for _ in range(3):
        step(model, optimizer)
    path = tmp_path / "checkpoint.pt"
    edutorch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path
    )
    twin, other = make()
    found = edutorch.load(path)
    assert found["epoch"] == 3
    twin.load_state_dict(found["model"])
    other.load_state_dict(found["optimizer"])
    step(model, optimizer)
    step(twin, other)
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert a.tolist() == b.tolist()
    assert str(twin[0].weight.device) == device


VALUES = [
    None, True, 0, -(2**80), 0.1, -0.0, "text ✓", "", b"\x00\xff", 1 + 2j, [], (), {}, set(),
    [1, [2.5, None]], (1, (2,)), {"a": 1, 2: "b", (1, 2): [3], None: 4, True: 5}, {1, 2},
    OrderedDict(b=1, a=2), math.inf, -math.inf, edutorch.Size([2, 3]), edutorch.float16,
    edutorch.device("cpu"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back(value):
    found = round_trip({"value": value})["value"]
    assert found == value
    assert type(found) is type(value)


def test_nan_comes_back():
    assert math.isnan(round_trip(math.nan))


@pytest.mark.parametrize("kind", [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
])  # fmt: skip
def test_every_type_comes_back(kind, device):
    x = edutorch.tensor([[1.5, -2.0, 0.0]], device="cpu").to(getattr(edutorch, kind)).to(device)
    for tensor in (x, x.T, x[0, 1], x[:, :0]):
        found = round_trip(tensor)
        assert found.dtype is x.dtype
        assert found.shape == tensor.shape
        assert found.tolist() == tensor.tolist()
        assert str(found.device) == device


def test_parameters_and_leaves_stay_what_they_are(device):
    found = round_trip([
        nn.Parameter(edutorch.ones(1)), nn.Parameter(edutorch.ones(2), requires_grad=False),
        edutorch.ones(3, requires_grad=True), edutorch.ones(4, requires_grad=True) * 2,
    ])  # fmt: skip
    assert [type(each) for each in found] == [
        nn.Parameter,
        nn.Parameter,
        edutorch.Tensor,
        edutorch.Tensor,
    ]
    assert [each.requires_grad for each in found] == [True, False, True, False]


def test_tied_weights_are_stored_once_and_stay_tied(device, tmp_path):
    weight = edutorch.randn(100, 100)
    path = tmp_path / "tied"
    edutorch.save({"a": weight, "b": weight.detach(), "c": weight.clone()}, path)
    assert path.stat().st_size < 2.2 * weight.nbytes
    found = edutorch.load(path)
    assert found["a"] is found["b"]
    assert found["a"] is not found["c"]
    assert found["c"].tolist() == weight.tolist()


def test_arrays_come_back():
    found = round_trip({"x": np.arange(3), "y": np.float32(2.5)})
    assert found["x"].tolist() == [0, 1, 2]
    assert found["y"].dtype == np.float32


def test_other_programs_read_the_tensors(tmp_path):
    path = tmp_path / "model.safetensors"
    model = nn.Linear(2, 1)
    edutorch.save(model.state_dict(), path)
    arrays = safetensors.numpy.load_file(path)
    assert sorted(arrays) == ["bias", "weight"]
    assert arrays["weight"].tolist() == model.weight.tolist()


def test_files_of_other_programs_are_read(tmp_path):
    path = tmp_path / "other.safetensors"
    safetensors.numpy.save_file(
        {"b": np.ones(2, np.float32), "a": np.arange(3)}, path, {"format": "pt"}
    )
    found = edutorch.load(path)
    assert found["b"].tolist() == [1, 1]
    assert found["a"].dtype is edutorch.int64


def test_map_location(device):
    x = edutorch.ones(2)
    assert str(round_trip(x, map_location="cpu").device) == "cpu"
    assert str(round_trip(x, map_location=edutorch.device("strict")).device) == "strict"
    assert str(round_trip(x, map_location={device: "cpu"}).device) == "cpu"
    seen = []
    round_trip(x, map_location=lambda tensor, name: seen.append(name))
    assert seen == [device]


def test_pytorchs_arguments_are_accepted(tmp_path):
    edutorch.save({"x": 1}, tmp_path / "x", pickle_protocol=2)
    assert edutorch.load(tmp_path / "x", weights_only=True, mmap=False) == {"x": 1}


def test_what_cannot_be_saved_is_named():
    with pytest.raises(CheckpointError, match=r"cannot save a Linear \(at 'model'\)") as found:
        edutorch.save({"model": nn.Linear(1, 1)}, io.BytesIO())
    assert "save its state_dict()" in str(found.value)
    with pytest.raises(RuntimeError, match=r"cannot save a function \(at 'a.1'\)"):
        edutorch.save({"a": [1, math_function]}, io.BytesIO())


def math_function():
    """Something that is not data."""


# Damage --------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint():
    file = io.BytesIO()
    generator = np.random.default_rng(0)
    state = {
        "a": edutorch.tensor(generator.normal(size=(5, 4)).astype(np.float32)),
        "b": [edutorch.arange(6), {"lr": 0.1, "steps": 7}], "text": "some words",
        "half": edutorch.ones(3, dtype=edutorch.bfloat16),
    }  # fmt: skip
    edutorch.save(state, file)
    return file.getvalue()


def plain(value):
    if isinstance(value, edutorch.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def refused_or_exact(data, expected):
    """Load, and say whether the file was refused; anything in between fails."""
    try:
        found = edutorch.load(io.BytesIO(data))
    except CheckpointError:
        return True
    assert plain(found) == expected
    return False


def test_a_flipped_bit_is_noticed(checkpoint):
    expected = plain(edutorch.load(io.BytesIO(checkpoint)))
    choose = random.Random(1)
    refused = 0
    for _ in range(1000):
        data = bytearray(checkpoint)
        data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        refused += refused_or_exact(bytes(data), expected)
    assert refused > 900


def test_a_file_cut_short_is_refused(checkpoint):
    for length in range(0, len(checkpoint), 7):
        with pytest.raises(CheckpointError, match="damaged"):
            edutorch.load(io.BytesIO(checkpoint[:length]))


def test_bytes_of_two_tensors_exchanged_are_noticed(checkpoint):
    length = int.from_bytes(checkpoint[:8], "little")
    header = json.loads(checkpoint[8 : 8 + length])
    structure = json.loads(header["__metadata__"]["structure"])
    structure["tensors"]["a"]["crc32"] ^= 1
    header["__metadata__"]["structure"] = json.dumps(structure, separators=(",", ":"))
    changed = json.dumps(header).encode()
    data = len(changed).to_bytes(8, "little") + changed + checkpoint[8 + length :]
    with pytest.raises(CheckpointError, match="the checksum of its structure is wrong"):
        edutorch.load(io.BytesIO(data))


def test_a_pickle_is_not_opened(tmp_path, torch):
    for legacy in (False, True):
        path = tmp_path / "theirs.pt"
        torch.save({"x": torch.ones(1)}, path, _use_new_zipfile_serialization=not legacy)
        with pytest.raises(CheckpointError, match="is a pickle") as found:
            edutorch.load(path)
        assert "safetensors" in str(found.value)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        edutorch.load(tmp_path / "nothing")


# The file is there whole or not at all ------------------------------------------------------------


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
from edutorch.utils import files
files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
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
