"""Checkpoints of one process: where they can be, what is read, what is refused."""

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn, optim
from edutorch.distributed import checkpoint as dcp
from edutorch.distributed.checkpoint import chunk_file
from edutorch.distributed.checkpoint.folder import Folder
from edutorch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)


@pytest.fixture(params=["path", "file", "memory", "s3"])
def place(request, tmp_path):
    """A folder of each sort."""
    if request.param == "path":
        return str(tmp_path)
    pytest.importorskip("fsspec", reason="needs the extra `remote`")
    if request.param == "file":
        return f"file://{tmp_path}"
    if request.param == "memory":
        return f"memory://{tmp_path.name}"
    return request.getfixturevalue("bucket")


@pytest.fixture
def bucket(monkeypatch):
    """A bucket of a server on this computer, which speaks S3."""
    pytest.importorskip("s3fs", reason="needs s3fs")
    server = pytest.importorskip("moto.server", reason="needs moto[server]")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    running = server.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir("bucket")
    yield "s3://bucket/runs"
    s3fs.S3FileSystem.clear_instance_cache()
    running.stop()


def every_state():
    return {
        "half": torch.ones(3, dtype=torch.bfloat16) * 2,
        "complex": torch.arange(3).to(torch.complex128),
        "flags": torch.tensor([True, False]),
        "number": torch.tensor(3.5),
        "empty": torch.zeros(0, 3),
        "strided": torch.arange(12.0).reshape(3, 4).t(),
        "nested": [{"x": torch.arange(3)}, {"x": torch.ones(2)}],
        "values": (1, "a", None, [2.5]),
        "array": np.arange(3, dtype=np.int16),
        "nothing": {},
        7: {"int": 1},
    }


def blank(state):
    if isinstance(state, dict):
        return {key: blank(value) for key, value in state.items()}
    if isinstance(state, list):
        return [blank(value) for value in state]
    return torch.zeros_like(state) if isinstance(state, torch.Tensor) else None


def test_everything_comes_back_from_everywhere(place):
    state = every_state()
    dcp.save(state, checkpoint_id=f"{place}/one")
    loaded = blank(state)
    dcp.load(loaded, checkpoint_id=f"{place}/one")
    assert repr(loaded) == repr(state)
    assert dcp.latest_checkpoint(place) == f"{place}/one"
    dcp.save({"x": torch.ones(2)}, checkpoint_id=f"{place}/one")  # in place of the other
    dcp.load(loaded := {"x": torch.zeros(2)}, checkpoint_id=f"{place}/one")
    assert loaded["x"].tolist() == [1, 1]
    assert len(Folder(f"{place}/one").sizes()) == 2  # the files before are gone
    writer = dcp.FileSystemWriter(f"{place}/one", overwrite=False)
    with pytest.raises(RuntimeError, match="already"):
        dcp.save({"x": torch.ones(2)}, storage_writer=writer)
    assert dcp.latest_checkpoint(f"{place}/two") is None


def test_only_what_is_needed_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(chunk_file, "BLOCK", 4096)
    large = torch.arange(1_000_000.0).reshape(1000, 1000)
    dcp.save({"large": large, "small": torch.ones(5)}, checkpoint_id=tmp_path)
    read = []
    original = Folder.read

    def count(self, *args):
        data = original(self, *args)
        read.append(len(data))
        return data

    monkeypatch.setattr(Folder, "read", count)
    dcp.load({"small": torch.zeros(5)}, checkpoint_id=tmp_path)
    assert sum(read) < 100_000, read
    read.clear()
    part = Rows(large * 0, 200, 300)
    dcp.load({"large": part}, checkpoint_id=tmp_path)
    assert torch.equal(part.to_local(), large[200:300])
    assert sum(read) < 500_000, read


class Rows:
    """Some rows of a tensor, as the rank that holds them sees it."""

    def __init__(self, whole, start, stop):
        self.shape, self.dtype = whole.shape, whole.dtype
        self.local = whole[start:stop].clone()
        self.placements = [self]
        self.device_mesh = self
        self.start, self.dim = start, 0

    def is_partial(self):
        return False

    def is_shard(self):
        return True

    def size(self, axis):
        return self.shape[0] // len(self.local)

    def get_coordinate(self):
        return [self.start // len(self.local)]

    def to_local(self):
        return self.local


def saved(folder):
    dcp.save({"w": torch.arange(5000.0), "b": torch.ones(3)}, checkpoint_id=folder)
    (name,) = (path for path in folder.iterdir() if path.name.startswith("__"))
    return name, {"w": torch.zeros(5000), "b": torch.zeros(3)}


@pytest.mark.parametrize("harm", ["bit", "short", "header", "index", "none", "gone"])
def test_a_damaged_checkpoint_is_named(tmp_path, harm):
    file, state = saved(tmp_path)
    data = bytearray(file.read_bytes())
    if harm == "bit":
        data[-100] ^= 1
    elif harm == "short":
        del data[-100:]
    elif harm == "header":
        data[200] ^= 1
    file.write_bytes(data)
    index = tmp_path / ".metadata"
    if harm == "index":
        index.write_bytes(index.read_bytes().replace(b"5000", b"5001"))
    elif harm == "none":
        index.unlink()
    elif harm == "gone":
        file.unlink()
    with pytest.raises(RuntimeError, match=r"damaged|no complete checkpoint"):
        dcp.load(state, checkpoint_id=tmp_path)
    if harm in ("short", "index", "none", "gone"):
        assert dcp.latest_checkpoint(tmp_path) is None


def test_the_checkpoint_of_another_model_is_explained(tmp_path):
    dcp.save({"model": nn.Linear(2, 3), "step": 1}, checkpoint_id=tmp_path)
    with pytest.raises(RuntimeError) as caught:
        dcp.load({"model": nn.Bilinear(2, 2, 3, bias=False)}, checkpoint_id=tmp_path)
    said = str(caught.value)
    assert "model.weight is (3, 2) in the checkpoint, (3, 2, 2) here" in said
    assert [line for line in said.splitlines() if "unexpected" in line and "model.bias" in line]
    state = {"step": 0, "new": 5}
    planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
    dcp.load(state, checkpoint_id=tmp_path, planner=planner)
    assert state == {"step": 1, "new": 5}


def test_pytorchs_own_checkpoint_is_refused_with_a_way_out(tmp_path):
    (tmp_path / ".metadata").write_bytes(b"\x80\x04abc")
    with pytest.raises(RuntimeError, match="dcp_to_torch_save"):
        dcp.load({}, checkpoint_id=tmp_path)


def test_what_is_no_data_is_refused_and_the_old_one_stays(tmp_path):
    saved(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(RuntimeError, match="cannot save a function"):
        dcp.save({"f": lambda: None}, checkpoint_id=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("make", [optim.AdamW, lambda p: optim.SGD(p, lr=0.1, momentum=0.9)])
def test_optimizers_go_on_by_the_names_of_parameters(tmp_path, flat, make):
    def start():
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        return model, make(model.parameters())

    def train(model, optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()

    model, optimizer = start()
    train(model, optimizer)
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    names, states = get_state_dict(model, optimizer, options=options)
    dcp.save({"m": names, "o": states}, checkpoint_id=tmp_path)
    other, optimizer_of_other = start()
    names, states = get_state_dict(other, optimizer_of_other, options=options)
    state = {"m": names, "o": states}
    dcp.load(state, checkpoint_id=tmp_path)
    set_state_dict(
        other, optimizer_of_other, model_state_dict=state["m"], optim_state_dict=state["o"],
        options=options,
    )  # fmt: skip
    train(model, optimizer)
    train(other, optimizer_of_other)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)
