"""Checkpoints: what is saved comes back, and what is damaged does not."""

from __future__ import annotations

import collections
import dataclasses
import enum
import io
import math
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import safetensors.numpy

import edutorch
from edutorch import nn, optim
from edutorch.serialization import CheckpointError, RefusedError


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
    loaded = edutorch.load(path)
    assert loaded["epoch"] == 3
    twin.load_state_dict(loaded["model"])
    other.load_state_dict(loaded["optimizer"])
    step(model, optimizer)
    step(twin, other)
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert a.tolist() == b.tolist()
    assert str(twin[0].weight.device) == device


class Pair(NamedTuple):
    """A user's own class."""

    left: int
    right: list


@dataclasses.dataclass
class Settings:
    """Another one."""

    width: int
    names: list


class Colour(enum.Enum):
    """And another."""

    RED = 1


MORE_VALUES = [
    frozenset([1]), bytearray(b"ab"), collections.defaultdict(list, {1: [2]}), 2**20000,
    collections.defaultdict(None, a=1), collections.Counter("aab"), collections.deque([1, [2]], 3),
    Path("a/b"), range(1, 9, 2), slice(None, 3), np.float32(0.1), np.int64(3), np.bool_(True),
    np.complex128(1 + 2j), collections.defaultdict(collections.OrderedDict),
]  # fmt: skip
VALUES = [
    *MORE_VALUES,
    None, True, 0, -(2**80), 0.1, -0.0, "text ✓", "", b"\x00\xff", 1 + 2j, [], (), {}, set(),
    [1, [2.5, None]], (1, (2,)), {"a": 1, 2: "b", (1, 2): [3], None: 4, True: 5}, {1, 2},
    OrderedDict(b=1, a=2), math.inf, -math.inf, edutorch.Size([2, 3]), edutorch.float16,
    edutorch.device("cpu"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_come_back(value):
    loaded = round_trip({"value": value})["value"]
    assert loaded == value
    assert type(loaded) is type(value)


@pytest.mark.parametrize("value", [Pair(1, [2]), Settings(3, ["a"]), Colour.RED], ids=repr)
def test_classes_of_the_user_come_back_if_they_are_listed(value):
    with pytest.raises(RefusedError, match=f"{type(value).__name__}, which nobody") as refused:
        round_trip(value)
    assert "add_safe_globals([TheClass])" in str(refused.value)
    with edutorch.serialization.safe_globals([type(value)]):
        loaded = round_trip({"x": value})["x"]
    assert (loaded, type(loaded)) == (value, type(value))
    assert edutorch.serialization.get_safe_globals() == []


def test_results_with_names_come_back():
    loaded = round_trip(edutorch.max(edutorch.tensor([[1, 5]]), 1))
    assert (loaded.values.item(), loaded.indices.item()) == (5, 1)


def test_a_generator_goes_on_where_it_was():
    generator = edutorch.Generator().manual_seed(3)
    edutorch.rand(5, generator=generator)
    twin = round_trip(generator)
    assert edutorch.equal(edutorch.rand(5, generator=twin), edutorch.rand(5, generator=generator))


def test_what_contains_itself_or_is_too_deep_is_refused():
    endless: list = []
    endless.append({"inner": endless})
    with pytest.raises(CheckpointError, match=r"cannot save a list \(at '0.inner'\)") as refused:
        edutorch.save(endless, io.BytesIO())
    assert "contains itself" in str(refused.value)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CheckpointError, match="more than 100 levels deep"):
        edutorch.save(deep, io.BytesIO())
    with pytest.raises(CheckpointError, match="default_factory is a function"):
        edutorch.save(collections.defaultdict(lambda: 1), io.BytesIO())
    with pytest.raises(CheckpointError, match="only numbers are data"):
        edutorch.save(np.array(["a"]), io.BytesIO())


def test_the_versions_beside_a_state_dict_come_back():
    state = nn.BatchNorm1d(2).state_dict()
    assert round_trip(state)._metadata == state._metadata


def test_nan_comes_back():
    assert math.isnan(round_trip(math.nan))


@pytest.mark.parametrize("kind", [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
])  # fmt: skip
def test_every_type_comes_back(kind, device):
    x = edutorch.tensor([[1.5, -2.0, 0.0]], device="cpu").to(getattr(edutorch, kind)).to(device)
    for tensor in (x, x.T, x[0, 1], x[:, :0]):
        loaded = round_trip(tensor)
        assert loaded.dtype is x.dtype
        assert loaded.shape == tensor.shape
        assert loaded.tolist() == tensor.tolist()
        assert str(loaded.device) == device


def test_parameters_and_leaves_stay_what_they_are(device):
    loaded = round_trip([
        nn.Parameter(edutorch.ones(1)), nn.Parameter(edutorch.ones(2), requires_grad=False),
        edutorch.ones(3, requires_grad=True), edutorch.ones(4, requires_grad=True) * 2,
    ])  # fmt: skip
    assert [type(tensor) for tensor in loaded] == [
        nn.Parameter,
        nn.Parameter,
        edutorch.Tensor,
        edutorch.Tensor,
    ]
    assert [tensor.requires_grad for tensor in loaded] == [True, False, True, True]  # as in PyTorch
    assert loaded[3].is_leaf


def test_tied_weights_are_stored_once_and_stay_tied(device, tmp_path):
    weight = edutorch.randn(100, 100)
    path = tmp_path / "tied"
    edutorch.save({"a": weight, "b": weight.detach(), "c": weight.clone()}, path)
    assert path.stat().st_size < 2.2 * weight.nbytes
    loaded = edutorch.load(path)
    assert loaded["a"].data_ptr() == loaded["b"].data_ptr()
    loaded["a"].zero_()
    assert not loaded["b"].any()
    assert loaded["c"].tolist() == weight.tolist()


def test_one_tensor_in_two_places_is_one_tensor(device):
    x = nn.Parameter(edutorch.ones(2))
    loaded = round_trip({"a": x, "b": [x], "c": x.detach()})
    assert loaded["a"] is loaded["b"][0]
    assert loaded["a"] is not loaded["c"]
    assert loaded["a"].data_ptr() == loaded["c"].data_ptr()


def test_views_still_show_the_same_memory(device):
    x = edutorch.arange(12.0).reshape(3, 4).to(device)
    loaded = round_trip({"row": x[1], "x": x, "columns": x.T, "some": x[::2, 1::2]})
    for name, view in {"row": x[1], "columns": x.T, "some": x[::2, 1::2]}.items():
        assert loaded[name].tolist() == view.tolist()
        assert loaded[name].stride() == view.stride()
    loaded["x"].zero_()
    assert not any(loaded[name].any() for name in loaded)


def test_views_without_the_whole(device):
    x = edutorch.arange(12.0).to(device)
    file = io.BytesIO()
    edutorch.save({"a": x[:8:2], "b": x[2:5]}, file)
    loaded = edutorch.load(io.BytesIO(file.getvalue()))
    assert (loaded["a"].tolist(), loaded["b"].tolist()) == ([0, 2, 4, 6], [2, 3, 4])
    loaded["b"].zero_()
    assert loaded["a"].tolist() == [0, 0, 0, 6]


def test_views_apart_are_stored_apart_and_small_ones_small(tmp_path):
    x = edutorch.randn(1000, 100)
    path = tmp_path / "views"
    edutorch.save({"a": x[:2], "b": x[500:501]}, path)
    assert path.stat().st_size < 4 * x[0].nbytes + 2000
    assert sorted(safetensors.numpy.load_file(path)) == ["a", "b"]


def test_a_number_shown_many_times_is_stored_once(device):
    x = edutorch.ones(1).to(device).expand(10**9)
    loaded = round_trip(x)
    assert (loaded.shape, loaded.stride()) == ((10**9,), (0,))


def test_views_of_other_types():
    x = edutorch.tensor([1.0, -2.0])
    loaded = round_trip({"x": x, "bits": x.view(edutorch.int32)})
    loaded["x"][0] = 0
    assert loaded["bits"].tolist() == [0, x.view(edutorch.int32)[1].item()]


def test_arrays_come_back():
    loaded = round_trip({"x": np.arange(3), "y": np.float32(2.5)})
    assert loaded["x"].tolist() == [0, 1, 2]
    assert loaded["y"].dtype == np.float32


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
    loaded = edutorch.load(path)
    assert loaded["b"].tolist() == [1, 1]
    assert loaded["a"].dtype is edutorch.int64


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


def test_what_is_not_data_needs_trust():
    file = io.BytesIO()
    edutorch.save({"a": [1, math_function]}, file)
    with pytest.raises(RefusedError, match="math_function"):
        edutorch.load(io.BytesIO(file.getvalue()))
    twin = edutorch.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert twin == {"a": [1, math_function]}


def math_function():
    """Something that is not data."""
