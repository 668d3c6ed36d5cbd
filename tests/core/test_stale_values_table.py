"""Every op raises for each kind of write into a saved value, or its gradient is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import edutorch
from edutorch import tensor
from edutorch.errors import StaleValueError
from tests.devices import device  # noqa: F401
from tests.trials import tried

pytestmark = pytest.mark.usefixtures("device")

X = [[0.5, 1.5], [2.0, 0.25]]

# Of two inputs x and w; those named in SAVED need w (or the result) for the gradient of x.
OPS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda x, w: x * w,
    "div": lambda x, w: x / w,
    "pow": lambda x, w: x**w,
    "matmul": lambda x, w: x @ w,
    "einsum": lambda x, w: edutorch.einsum("ij,jk->ik", x, w),
    "atan2": lambda x, w: edutorch.atan2(x, w),
    "maximum": lambda x, w: edutorch.maximum(x, w),
    "where": lambda x, w: edutorch.where(w > 1, x, x * w),
    "lerp": lambda x, w: edutorch.lerp(x, w, w),
    "addcmul": lambda x, w: edutorch.addcmul(x, x, w),
    "linear": lambda x, w: edutorch.nn.functional.linear(x, w),
    "prod": lambda x, w: (x * w).prod(0),
    "gather": lambda x, w: x.gather(0, (w > 1).long()) * w,
    "index_put": lambda x, w: x.index_put((tensor([0]),), w[0]) * w,
    "a view of it": lambda x, w: x * w.t(),
    "a row of it": lambda x, w: x * w[0],
    "a wide view of it": lambda x, w: x * w[0].expand(2, 2),
    "its windows": lambda x, w: x[0] * w.unfold(0, 2, 1)[0, 1],
    "its real part": lambda x, w: x * w.real,
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda w: w.add_(1),
    "operator": lambda w: w.__imul__(2),
    "setitem": lambda w: w.__setitem__((0, 0), 7.0),
    "mask": lambda w: w.__setitem__(w > 1, 7.0),
    "a row": lambda w: w[0].zero_(),
    "a transposed view": lambda w: w.t()[1].mul_(3),
    "a wide slice": lambda w: w[:, :1].fill_(2),
    "flat": lambda w: w.view(-1)[1:].mul_(2),
    "strided": lambda w: w.as_strided((2,), (1,)).zero_(),
    "detach": lambda w: w.detach().mul_(2),
    "a row of detach": lambda w: w.detach()[0].mul_(2),
    "data": lambda w: w.data.mul_(2),
    "no_grad": lambda w: edutorch.no_grad()(lambda: w.mul_(2))(),
    "copy_": lambda w: w.copy_(edutorch.ones(2, 2)),
    "masked_fill_": lambda w: w.masked_fill_(w > 1, 0.0),
    "put_": lambda w: w.put_(tensor([0]), tensor([3.0])),
    "masked_scatter_": lambda w: w.masked_scatter_(w > 1, edutorch.zeros(4)),
    "scatter_": lambda w: w.scatter_(0, tensor([[0, 0]]), 3.0),
    "index_reduce_": lambda w: w.index_reduce_(0, tensor([0]), edutorch.ones(1, 2) * 9, "amax"),
    "fill_diagonal_": lambda w: w.fill_diagonal_(9.0),
    "uniform_": lambda w: w.uniform_(),
    "out=": lambda w: edutorch.add(edutorch.ones(2, 2), 1, out=w),
    "unbind": lambda w: w.unbind(0)[1].mul_(2),
    "real": lambda w: w.real.mul_(2),
    "bits": lambda w: w.view(edutorch.int32).zero_(),
    "turned": lambda w: w.t_(),
    "squeezed": lambda w: w.unsqueeze_(0),
    "resized": lambda w: w.resize_(2),
    "set_": lambda w: w.set_(edutorch.zeros(2, 2)),
    "set data": lambda w: setattr(w, "data", edutorch.zeros(2, 2)),
}


@pytest.mark.parametrize("op", OPS)
@tried("write", WRITES)
def test_a_write_into_a_saved_value_is_noticed(op, write):
    x, w = tensor(X, requires_grad=True), tensor(X) + 0.25
    right = tensor(X, requires_grad=True)
    OPS[op](right, w.clone()).sum().backward()
    y = OPS[op](x, w)
    WRITES[write](w)
    try:
        y.sum().backward()
    except StaleValueError:
        return
    assert x.grad.tolist() == right.grad.tolist(), "a stale value was used"


RESULTS: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "sqrt": lambda x: x.sqrt(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "softmax": lambda x: x.softmax(1),
    "reciprocal": lambda x: x.reciprocal(),
    "logsumexp": lambda x: x.logsumexp(1, keepdim=True).expand(2, 2) * 1,
    "norm": lambda x: x.norm(dim=1, keepdim=True).expand(2, 2) * 1,
    "cumprod": lambda x: x.cumprod(0),
}
NOT_HERE = {"put_", "scatter_", "set_", "masked_scatter_", "index_reduce_", "resized", "out="}
"""These take no tensor with a history, or another shape."""


@pytest.mark.parametrize("op", RESULTS)
@tried("write", [write for write in WRITES if write not in NOT_HERE])
def test_a_write_into_a_saved_result_is_noticed(op, write):
    x, right = tensor(X, requires_grad=True), tensor(X, requires_grad=True)
    RESULTS[op](right).sum().backward()
    y = RESULTS[op](x)
    loss = y.sum()
    try:
        WRITES[write](y)
    except RuntimeError:
        return  # refused at once
    try:
        loss.backward()
    except StaleValueError:
        return
    assert x.grad.tolist() == right.grad.tolist(), "a stale value was used"
