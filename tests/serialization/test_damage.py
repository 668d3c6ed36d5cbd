"""Damaged files: refused with a clear message, or loaded exactly; nothing in between."""

from __future__ import annotations

import io
import json
import random
import resource
import struct
import zipfile

import numpy as np
import pytest

import edutorch
from edutorch.serialization import CheckpointError


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
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def refused_or_exact(data, expected):
    """Load, and say whether the file was refused; anything in between fails."""
    try:
        loaded = edutorch.load(io.BytesIO(data))
    except CheckpointError:
        return True
    assert plain(loaded) == expected
    return False


def flipped(data, choose):
    changed = bytearray(data)
    changed[choose.randrange(len(changed))] ^= 1 << choose.randrange(8)
    return bytes(changed)


def test_a_flipped_bit_is_noticed(checkpoint):
    expected = plain(edutorch.load(io.BytesIO(checkpoint)))
    choose = random.Random(1)
    refused = sum(refused_or_exact(flipped(checkpoint, choose), expected) for _ in range(1000))
    assert refused > 900


def test_a_file_cut_short_is_refused(checkpoint):
    choose = random.Random(2)
    for _ in range(200):
        with pytest.raises(CheckpointError, match="damaged"):
            edutorch.load(io.BytesIO(checkpoint[: choose.randrange(len(checkpoint))]))


@pytest.mark.oracle
def test_damaged_files_of_pytorchs(torch):
    """A zip archive has checksums for what it holds, and none for its dates and paddings."""
    file = io.BytesIO()
    torch.save({"x": torch.arange(50.0), "y": [torch.ones(3).bfloat16(), 7]}, file)
    data = file.getvalue()
    expected = plain(edutorch.load(io.BytesIO(data)))
    choose = random.Random(3)
    refused = sum(refused_or_exact(flipped(data, choose), expected) for _ in range(1000))
    assert 300 < refused < 1000
    for _ in range(200):
        with pytest.raises(CheckpointError):
            edutorch.load(io.BytesIO(data[: choose.randrange(len(data))]))


@pytest.mark.oracle
def test_damaged_older_files_of_pytorchs(torch):
    """They have no checksums: only what is not a number is noticed. Nothing else may happen."""
    file = io.BytesIO()
    torch.save({"x": torch.arange(9.0)}, file, _use_new_zipfile_serialization=False)
    data = file.getvalue()
    choose = random.Random(4)
    for _ in range(1000):
        try:
            edutorch.load(io.BytesIO(flipped(data, choose)))
        except (CheckpointError, edutorch.errors.DeviceError):
            pass
    for _ in range(200):
        with pytest.raises(CheckpointError):
            edutorch.load(io.BytesIO(data[: choose.randrange(len(data))]))


# Sizes that cannot be ------------------------------------------------------------------------


def safetensors_file(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(shape, offsets, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


IMPOSSIBLE = {
    "a header of exabytes": (2**60).to_bytes(8, "little") + b"{}",
    "a tensor of terabytes": safetensors_file({"x": entry([2**40], [0, 2**42])}),
    "sizes that overflow": safetensors_file({"x": entry([2**40, 2**40], [0, 0])}),
    "negative sizes": safetensors_file({"x": entry([-1], [0, 4])}, bytes(4)),
    "offsets backwards": safetensors_file({"x": entry([1], [4, 0])}, bytes(4)),
    "overlapping tensors": safetensors_file(
        {"x": entry([1], [0, 4]), "y": entry([1], [0, 4])}, bytes(4)
    ),
    "a name twice": safetensors_file(
        b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
        b'"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)
    ),
    "a deep header": safetensors_file(b'{"__metadata__":' + b"[" * 100_000),
    "something behind": safetensors_file({"x": entry([1], [0, 4])}, bytes(8)),
    "neither true nor false": safetensors_file({"x": entry([1], [0, 1], "BOOL")}, b"\x02"),
    "nothing": b"",
    "a few bytes": b"abc",
}  # fmt: skip


@pytest.fixture
def little_memory():
    """Let nobody take more than 2 GB more than there is."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_sizes_take_no_memory(name, little_memory):
    with pytest.raises(CheckpointError):
        edutorch.load(io.BytesIO(IMPOSSIBLE[name]))


def with_structure(checkpoint, change):
    """Change the structure of a file and all checksums with it: what an attacker would do."""
    import zlib

    length = int.from_bytes(checkpoint[:8], "little")
    header = json.loads(checkpoint[8 : 8 + length])
    structure = json.loads(header["__metadata__"]["structure"])
    text = change(structure) or json.dumps(structure, separators=(",", ":"))
    header["__metadata__"] |= {"structure": text, "crc32": str(zlib.crc32(text.encode()))}
    return safetensors_file(header, checkpoint[8 + length :])


TREES = [
    {"tensor": "none"}, {"again": 7}, {"again": "x"}, {}, {"dict": 3}, {"dict": [[1]]},
    {"dict": [[{"dict": []}, 1]]}, {"default": [], "factory": "eval"}, {"unknown": 1},
    {"tensor": "a", "view": ["float32", [2**40], [4], 0]},
    {"tensor": "a", "view": ["float32", [3], [-4], 8]},
    {"tensor": "a", "view": ["float32", [3], [4], 2**61]},
    {"tensor": "a", "view": ["nothing", [3], [4], 0]}, {"tensor": "a", "view": [1]},
    {"scalar": "float32", "hex": "00"}, {"scalar": "object", "hex": "00" * 8},
    {"enum": "os.system", "name": "x"}, {"record": "builtins.tuple", "values": []},
    {"dataclass": "subprocess.Popen", "fields": {"dict": []}}, {"dtype": "of"}, {"bytes": "*"},
    {"device": "nowhere"}, {"generator": "{}", "device": "cpu"}, {"range": [1, 2, 0]},
    {"record": "edutorch.return_types.text_of", "values": []}, {"size": ["a"]}, {"float": "x"},
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_structures_that_save_does_not_write(checkpoint, tree):
    def change(structure):
        structure["tree"] = tree

    data = with_structure(checkpoint, change)
    if tree == {"device": "nowhere"}:
        assert str(edutorch.load(io.BytesIO(data))) == "nowhere"
        return
    with pytest.raises(CheckpointError):
        edutorch.load(io.BytesIO(data))


def test_a_structure_too_deep_to_read(checkpoint):
    deep = "[" * 100_000 + "]" * 100_000
    data = with_structure(checkpoint, lambda structure: f'{{"tree":{deep},"tensors":{{}}}}')
    with pytest.raises(CheckpointError):
        edutorch.load(io.BytesIO(data))


def test_zip_archives_that_grow():
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", bytes(10**7))
    with pytest.raises(CheckpointError, match="compressed or encrypted"):
        edutorch.load(io.BytesIO(bomb.getvalue()))
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as archive:
        archive.writestr("x/data.pkl", b"N.")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x/data.pkl", b"N.")
    with pytest.raises(CheckpointError, match="occurs twice"):
        edutorch.load(io.BytesIO(twice.getvalue()))


def test_zip_parts_that_lie_over_each_other():
    """Every entry of the directory shows the same bytes: many times the file's size."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(100):
            archive.writestr(f"x/{number:03}", bytes(1000 if number == 0 else 0))
        for info in archive.infolist():
            info.header_offset, info.file_size, info.compress_size = 0, 100_000, 100_000
    with pytest.raises(CheckpointError, match="larger than the file"):
        edutorch.load(io.BytesIO(file.getvalue()))


def test_other_kinds_of_files_are_named():
    for data, what in (
        (b"\x80\x04K\x01.", "a bare pickle"),
        (bytes(257) + b"ustar" + bytes(250), "a tar archive"),
    ):
        with pytest.raises(CheckpointError, match=what):
            edutorch.load(io.BytesIO(data))
    file = io.BytesIO()
    np.savez(file, x=np.ones(2))
    with pytest.raises(CheckpointError, match="not one that PyTorch has written") as refused:
        edutorch.load(io.BytesIO(file.getvalue()))
    assert "numpy.load" in str(refused.value)


def test_a_safetensors_header_whose_size_looks_like_a_pickle():
    text = json.dumps({"x": entry([1], [0, 4])}).encode().ljust(0x280)
    data = struct.pack("<Q", len(text)) + text + struct.pack("<f", 2.5)
    assert data[:2] == b"\x80\x02"
    assert edutorch.load(io.BytesIO(data))["x"].tolist() == [2.5]


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


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        edutorch.load(tmp_path / "nothing")
