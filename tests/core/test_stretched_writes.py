"""Writes into expanded tensors: allowed if no written elements share a memory location."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import errors, ones, tensor, zeros
from tests.devices import device  # noqa: F401  (a fixture)

STRETCHED = {
    "a new axis of 1": lambda x: x.expand(1, -1),
    "its own size": lambda x: x.expand(3),
    "as another": lambda x: x.expand_as(ones(1, 3)),
    "broadcast_to": lambda x: edutorch.broadcast_to(x, (1, 1, 3)),
    "broadcast_tensors": lambda x: edutorch.broadcast_tensors(x, ones(1, 3))[0],
    "a row of it": lambda x: x.expand(2, 3)[0],
    "rows of it": lambda x: x.expand(2, 3)[1:],
    "nothing of it": lambda x: x.expand(0, 3),
}
WRITES = {
    "add_": lambda y: y.add_(2),
    "fill_": lambda y: y.fill_(2),
    "copy_": lambda y: y.copy_(tensor(2.0)),
    "setitem": lambda y: y.__setitem__(..., 2.0),
    "masked_fill_": lambda y: y.masked_fill_(tensor(True), 2.0),
    "index_fill_": lambda y: y.index_fill_(-1, edutorch.arange(3), 2.0),
    "uniform_": lambda y: y.uniform_(2, 2),
    "out": lambda y: edutorch.add(edutorch.zeros_like(y), 2, out=y),
}


@pytest.mark.parametrize("shape", STRETCHED)
@pytest.mark.parametrize("write", WRITES)
def test_each_element_has_its_own_place(shape, write, device):  # noqa: F811
    x = zeros(3)
    y = STRETCHED[shape](x)
    WRITES[write](y)
    assert (y == 2).all()
    assert x.tolist() == [0.0 if y.numel() == 0 else 2.0] * 3


@pytest.mark.parametrize("write", WRITES)
def test_several_elements_at_one_place(write, device):  # noqa: F811
    with pytest.raises(errors.ShapeError, match="refers to a single memory location") as caught:
        WRITES[write](zeros(3).expand(2, 3))
    assert "clone()" in caught.value.hint


def test_a_row_of_a_stretched_tensor_is_all_its_rows():
    y = zeros(3).expand(2, 3)
    y[0] = 5.0
    y[1, 2] = 7.0
    assert y.tolist() == [[5.0, 5.0, 7.0]] * 2


def test_gradients_pass_a_write_into_a_stretched_tensor():
    x = tensor([1.0, 2.0], requires_grad=True)
    h = x * 2
    h.expand(1, -1).mul_(tensor([3.0, 4.0]))
    (h * h).sum().backward()
    assert x.grad.tolist() == [72.0, 256.0]


def test_memory_that_is_read_only():
    array = tensor([1.0, 2.0]).numpy().copy()
    array.flags.writeable = False
    with pytest.raises(errors.ShapeError, match="memory is read-only"):
        edutorch.from_numpy(array).add_(1)


def test_only_memory_that_is_read_only_is_written_in_another_way():
    from edutorch.core.tensor_methods import write

    x = edutorch.zeros(2)
    with pytest.raises(ValueError, match="could not broadcast"):
        write(x, "copy_", np.ones(3, np.float32))
    assert x.tolist() == [0, 0] and x._version == 0
