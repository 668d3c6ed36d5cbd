"""Views: shared memory, and writes into it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import edutorch
from edutorch import tensor
from edutorch.errors import ShapeError
from tests.devices import device  # noqa: F401

pytestmark = pytest.mark.usefixtures("device")

VIEWS = {
    "view": lambda x: x.view(6),
    "reshape": lambda x: x.reshape(3, 2),
    "index": lambda x: x[1],
    "slice": lambda x: x[:, 1:],
    "transpose": lambda x: x.t(),
    "T": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "squeeze": lambda x: x[None].squeeze(0),
    "expand": lambda x: x.expand(2, 2, 3),
    "narrow": lambda x: x.narrow(1, 0, 2),
    "select": lambda x: x.select(0, 1),
    "diagonal": lambda x: x.diagonal(),
    "unbind": lambda x: x.unbind(1)[2],
    "split": lambda x: x.split(2, 1)[0],
    "chunk": lambda x: x.chunk(2)[1],
    "flatten": lambda x: x.flatten(),
    "as_strided": lambda x: x.as_strided((2,), (3,), 1),
    "detach": lambda x: x.detach(),
    "view of a view": lambda x: x.t()[1:].unsqueeze(-1),
}
COPIES = {
    "clone": lambda x: x.clone(),
    "arithmetic": lambda x: x * 1,
    "positive": lambda x: +x,
    "reshape": lambda x: x.t().reshape(6),
    "advanced": lambda x: x[[0, 1]],
    "mask": lambda x: x[x > 0],
    "repeat": lambda x: x.repeat(1, 1),
    "flip": lambda x: x.flip(0),
    "contiguous": lambda x: x.t().contiguous(),
    "to": lambda x: x.to(edutorch.float64),
    "cat": lambda x: edutorch.cat([x]),
    "round": lambda x: x.round(),
    "ceil of ints": lambda x: x.long().ceil(),
}


def start():
    return tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.mark.parametrize("view", VIEWS)
def test_views_share_memory_and_versions(view):
    x = start()
    y = VIEWS[view](x)
    before = y.tolist()
    x.mul_(10)
    assert y.tolist() == (np.array(before) * 10).tolist()
    assert y._version == x._version == 1


@pytest.mark.parametrize("copy", COPIES)
def test_copies_do_not(copy):
    x = start()
    y = COPIES[copy](x)
    before = y.tolist()
    x.zero_()
    assert y.tolist() == before
    assert y._version == 0


NOT_WRITTEN = ("detach", "split", "chunk", "unbind")
"""Without a history, or one of several views of one function (see `test_multi_output.py`)."""


@pytest.mark.parametrize("view", [view for view in VIEWS if view not in NOT_WRITTEN])
def test_a_write_into_a_view_is_differentiated(view):
    leaf = start().double().requires_grad_()

    def program(leaf):
        x = leaf * 1
        y = VIEWS[view](x)
        if view == "expand":
            return (x * y).sum()
        y.mul_(3)
        return (x * x).sum() + (y * 2).sum()

    assert edutorch.autograd.gradcheck(program, leaf)


def test_contiguous_tensors_are_returned_as_they_are():
    x = start()
    assert x.contiguous() is x
    assert x.to(edutorch.float32) is x
    assert x.float() is x
    assert x.cpu().device.type == "cpu"


def test_view_refuses_to_copy():
    with pytest.raises(ShapeError, match="view size is not compatible"):
        start().t().view(6)
    with pytest.raises(ShapeError, match=r"shape \[4\] is invalid for input of size 6"):
        start().view(4)


def test_dead_views_are_forgotten():
    x = start()
    for _ in range(1000):
        x[0]
    gc.collect()
    assert len(x._writes.views) < 50


# Memory shared with NumPy ----------------------------------------------------------------------


def test_tensor_copies_as_tensor_shares(device):  # noqa: F811
    a = np.zeros(2)
    x, y = tensor(a), edutorch.as_tensor(a)
    a[0] = 5
    assert x.tolist() == [0, 0]
    assert y.tolist() == ([5, 0] if device == "cpu" else [0, 0])
    assert edutorch.as_tensor(x) is x
