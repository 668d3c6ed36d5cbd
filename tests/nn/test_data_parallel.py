"""A batch divided among several devices of one process: `nn.DataParallel` and its parts."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import edutorch as et
from edutorch import nn
from edutorch.nn import parallel
from edutorch.nn.parallel.scatter_gather import scatter_kwargs
from tests.simulation import simulated

Pair = namedtuple("Pair", ["x", "y"])


class Net(nn.Module):
    """Two layers that share a weight, one that is frozen, and batch norm."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.again = self.first
        self.norm = nn.BatchNorm1d(4)
        self.scales = nn.ParameterList([nn.Parameter(et.ones(4))])
        self.frozen = nn.Linear(4, 2).requires_grad_(False)
        self.devices = []

    def forward(self, x, shift=None):
        self.devices.append(str(x.device))
        y = self.again(self.norm(self.first(x))) * self.scales[0]
        assert len(list(self.parameters())) == 7
        return {"y": self.frozen(y if shift is None else y + shift), "n": x.new_tensor(len(x))}


def train(network, x, device):
    optimizer = et.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        out = network(x.to(device))
        (out["y"] ** 2).mean().backward()
        optimizer.step()
    return out


@pytest.mark.parametrize("count", [1, 2, 3])
def test_it_is_the_module_with_the_whole_batch(count):
    x = et.randn(7, 4)
    alone = Net().eval()
    with simulated(count):
        network = Net().eval()
        network.load_state_dict(alone.state_dict())
        model = nn.DataParallel(network.to("cuda:0"))
        out = train(model, x, "cuda:0")
        wanted = train(alone, x, "cpu")
        assert str(out["y"].device) == "cuda:0"
        used = [f"cuda:{card}" for card in range(count)]
        assert network.devices == used * 3  # the list is shared by the copies
        sizes = [len(part) for part in x.chunk(count)]
        assert (out["n"].tolist() if count > 1 else [out["n"].item()]) == sizes
        np.testing.assert_allclose(
            out["y"].detach().cpu().numpy(), wanted["y"].detach().numpy(), atol=1e-6
        )
        for (name, a), b in zip(alone.named_parameters(), network.parameters(), strict=True):
            np.testing.assert_allclose(b.detach().cpu().numpy(), a.detach().numpy(), atol=1e-6)
            assert (b.grad is None) == name.startswith("frozen")
        with et.no_grad():
            assert model(x.to("cuda:0"))["y"].requires_grad is False


def test_batch_norm_keeps_the_averages_of_the_first_part():
    x = et.randn(6, 4)
    alone = nn.BatchNorm1d(4)
    alone(x[:3])
    with simulated(2):
        model = nn.DataParallel(nn.BatchNorm1d(4).to("cuda:0"))
        model(x.to("cuda:0"))
        assert model.module.num_batches_tracked.item() == 1
        np.testing.assert_allclose(
            model.module.running_mean.cpu().numpy(), alone.running_mean.numpy(), atol=1e-6
        )


def test_arguments_of_every_kind_are_divided():
    x, y = et.arange(3), et.arange(6).reshape(3, 2)
    parts, named = scatter_kwargs((Pair(x, [y, 5]), "all"), {"k": {"z": x}}, ["cpu"] * 2)
    assert [part[0].x.tolist() for part in parts] == [[0, 1], [2]]
    assert [type(part[0]) for part in parts] == [Pair, Pair]
    assert [part[0].y[1] for part in parts] == [5, 5]
    assert [part[1] for part in parts] == ["all", "all"]
    assert [part["k"]["z"].tolist() for part in named] == [[0, 1], [2]]
    assert scatter_kwargs((), {"x": x}, ["cpu"] * 3)[0] == ((), (), ())
    back = parallel.gather([Pair(part[0].x, (None, part[0].x)) for part in parts], "cpu")
    assert type(back) is Pair
    assert back.x.tolist() == back.y[1].tolist() == [0, 1, 2]
    assert back.y[0] is None
    with pytest.warns(UserWarning, match="will instead unsqueeze"):
        assert parallel.gather([et.tensor(1.0), et.tensor(2.0)], "cpu").tolist() == [1, 2]
    with pytest.raises(ValueError, match="same number of keys"):
        parallel.gather([{"a": x}, {"b": x, "a": x}], "cpu")


def test_what_a_part_raises_says_which_part():
    def fail(x):
        raise KeyError("no such word")

    model = nn.Identity()
    model.forward = fail
    with pytest.raises(KeyError) as caught:
        parallel.parallel_apply([nn.Identity(), model], [et.ones(1), et.ones(1)])
    assert "in replica 1" in caught.value.__notes__[0]


def test_a_module_on_another_device_is_refused():
    with simulated(2):
        model = nn.DataParallel(nn.Linear(2, 1), device_ids=[1, 0], output_device=-1)
        with pytest.raises(RuntimeError, match=r"on device cuda:1 \(device_ids\[0\]\)"):
            model(et.ones(4, 2))
        model.to("cuda:1")
        assert str(model(et.ones(4, 2)).device) == "cpu"
        out = parallel.data_parallel(model.module, et.ones(1, 2), device_ids=[1, 0])
        assert str(out.device) == "cuda:1"


def test_without_a_card_the_module_is_called():
    model = nn.DataParallel(nn.Linear(2, 1), device_ids=[0, 1])
    assert model.device_ids == []
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    assert model(et.ones(4, 2)).shape == (4, 1)
