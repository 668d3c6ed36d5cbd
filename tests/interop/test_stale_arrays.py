"""A write through a NumPy array leaves gradients right, or backward refuses to run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import from_numpy, ones, tensor
from edutorch.core import numpy_aliasing
from edutorch.errors import StaleValueError
from tests.trials import tried

X = [[0.5, 1.5], [2.0, 0.25]]

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda x, w: x * w,
    "div": lambda x, w: x / w,
    "pow": lambda x, w: x**w,
    "matmul": lambda x, w: x @ w,
    "einsum": lambda x, w: edutorch.einsum("ij,jk->ik", x, w),
    "linear": lambda x, w: edutorch.nn.functional.linear(x, w),
    "where": lambda x, w: edutorch.where(w > 1, x, x * w),
    "prod": lambda x, w: (x * w).prod(0),
    "mse_loss": lambda x, w: edutorch.nn.functional.mse_loss(x, w),
    "cross_entropy": lambda x, w: edutorch.nn.functional.cross_entropy(x, w),
    "index": lambda x, w: x[w.long()[0] % 2] * w,
    "gather": lambda x, w: x.gather(0, (w > 1).long()) * w,
    "cat": lambda x, w: edutorch.cat([x, w]) * edutorch.cat([w, w]),
    "a view": lambda x, w: x * w.t(),
    "a row": lambda x, w: x * w[0],
    "a wide view": lambda x, w: x * w[:1].expand(2, 2),
    "a reshaped view": lambda x, w: x * w.reshape(4)[:2],
    "strided": lambda x, w: x * w.as_strided((2,), (1,), 1),
    "unbind": lambda x, w: x * w.unbind(0)[1],
    "split": lambda x, w: x * w.split(1)[0],
    "detach": lambda x, w: x * w.detach(),
    "a function": lambda x, w: Times.apply(x, w),
    "in place": lambda x, w: (x * 1).mul_(w),
    "loss of a leaf": lambda x, w: edutorch.nn.Parameter(w.detach()) * x,
}


class Times(edutorch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * w, g * x


def memory(array: np.ndarray) -> Any:
    return np.frombuffer(memoryview(array).cast("B"), array.dtype)


# How a tensor and an array come to share memory: (tensor, array).
ALIASES: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {}


def alias(name: str) -> Any:
    return lambda make: ALIASES.setdefault(name, make)


def numbers() -> np.ndarray:
    return np.array(X, np.float32) + 0.25


@alias("numpy()")
def _() -> Any:
    w = tensor(X) + 0.25
    return w, w.numpy()


@alias("detach().numpy()")
def _() -> Any:
    w = tensor(X) + 0.25
    return w, w.detach().numpy()


@alias("data.numpy()")
def _() -> Any:
    w = tensor(X) + 0.25
    return w, w.data.numpy()


@alias("numpy() of a view")
def _() -> Any:
    w = tensor(X) + 0.25
    return w, w[1].numpy()


@alias("a view of numpy() of a view")
def _() -> Any:
    w = tensor(X) + 0.25
    return w, w.t().numpy()[0, 1:]


@alias("numpy() of the base")
def _() -> Any:
    base = edutorch.cat([tensor(X) + 0.25, ones(1, 2)])
    return base[:2], base.numpy()


ALIVE: list[Any] = []


def with_many_views() -> Any:
    """Return a tensor with so many views that they are not all looked at each time."""
    w = tensor(X) + 0.25
    ALIVE[:] = [w, [w[i % 2] for i in range(20)], w.unbind()]
    return w


@alias("numpy() beside many views")
def _() -> Any:
    w = with_many_views()
    return w, w.numpy()


@alias("numpy() once more beside many views")
def _() -> Any:
    w = with_many_views()
    w.numpy()
    assert type((w * 1)._array) is type(w._array) is np.ndarray  # an ordinary tensor again
    return w, ALIVE[1][0].numpy()


@alias("numpy() of a view that came later")
def _() -> Any:
    w = with_many_views()
    w.numpy()
    view = (w * 1, w.view(4))[1]
    return view.view(2, 2), w.numpy()


@alias("asarray")
def _() -> Any:
    w = tensor(X) + 0.25
    return w, np.asarray(w)


@alias("memoryview")
def _() -> Any:
    w = tensor(X) + 0.25
    return w, memory(w.numpy())


@alias("dlpack")
def _() -> Any:
    w = tensor(X) + 0.25
    return w, np.from_dlpack(w)


@alias("from_numpy")
def _() -> Any:
    a = numbers()
    return from_numpy(a), a


@alias("a view that from_numpy sees")
def _() -> Any:
    a = np.concatenate([numbers(), numbers()])
    return from_numpy(a[:2]), a


@alias("a view of from_numpy")
def _() -> Any:
    a = numbers()
    return from_numpy(a).view(4).view(2, 2), a


@alias("as_tensor")
def _() -> Any:
    a = numbers()
    return edutorch.as_tensor(a), a


@alias("asarray of an array")
def _() -> Any:
    a = numbers()
    return edutorch.asarray(a), a


@alias("from_dlpack")
def _() -> Any:
    a = numbers()
    return edutorch.from_dlpack(a), a


@alias("frombuffer")
def _() -> Any:
    held = bytearray(numbers().tobytes())
    w = edutorch.frombuffer(held, dtype=edutorch.float32).view(2, 2)
    return w, np.frombuffer(held, np.float32)


@alias("there and back")
def _() -> Any:
    w = tensor(X) + 0.25
    return from_numpy(w.numpy()), w.numpy()


def right_gradient(op: str, w: Any) -> Any:
    x = tensor(X, requires_grad=True)
    OPS[op](x, tensor(w.tolist())).sum().backward()
    return x.grad.tolist()


def checked(x: Any, loss: Any, right: Any) -> None:
    noticed = ""
    try:
        loss.backward()
    except StaleValueError as error:
        noticed = str(error)
    if noticed:
        assert "changed through a NumPy array" in noticed
        return
    assert x.grad.tolist() == right, "a stale value was used"


@pytest.mark.parametrize("op", OPS)
@tried("kind", ALIASES)
def test_a_write_between_forward_and_backward(op, kind):
    w, array = ALIASES[kind]()
    right = right_gradient(op, w)
    x = tensor(X, requires_grad=True)
    loss = OPS[op](x, w).sum()
    array[...] = 7
    checked(x, loss, right)


@pytest.mark.parametrize("op", OPS)
@tried("kind", ALIASES)
def test_a_write_before_forward_is_what_forward_sees(op, kind):
    w, array = ALIASES[kind]()
    array += 1
    right = right_gradient(op, w)
    x = tensor(X, requires_grad=True)
    OPS[op](x, w).sum().backward()
    assert x.grad.tolist() == right


@tried("kind", ALIASES)
def test_a_write_after_backward_changes_nothing(kind):
    w, array = ALIASES[kind]()
    right = right_gradient("mul", w)
    x = tensor(X, requires_grad=True)
    loss = (x * w).sum()
    loss.backward(retain_graph=True)
    array += 1
    assert x.grad.tolist() == right
    x.grad = None
    checked(x, loss, right)


# The array is asked for only when the graph is there already.
LATER: dict[str, Callable[[Any], np.ndarray]] = {
    "numpy()": lambda w: w.detach().numpy(),
    "of a row": lambda w: w.detach()[0].numpy(),
    "turned": lambda w: w.detach().t().numpy(),
    "data": lambda w: w.data.numpy(),
    "asarray": lambda w: np.asarray(w.detach()),
    "force": lambda w: w.numpy(force=True),
    "memory": lambda w: memory(w.detach().numpy()),
    "dlpack": lambda w: np.from_dlpack(w.detach()),
    "second": lambda w: [w.detach().numpy(), w.detach().numpy()][1],
    "beside many views": lambda w: [*(w.detach() for _ in range(20)), w.detach().numpy()][-1],
}


@pytest.mark.parametrize("op", OPS)
@tried("how", LATER)
@tried("kept", [True, False])
def test_an_array_asked_for_after_the_forward_pass(op, how, kept):
    w = tensor(X) + 0.25
    right = right_gradient(op, w)
    x = tensor(X, requires_grad=True)
    loss = OPS[op](x, w).sum()
    array = LATER[how](w)
    array[...] = 7
    if not kept:
        del array
    checked(x, loss, right)


RESULTS: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "sqrt": lambda x: x.sqrt(),
    "tanh": lambda x: x.tanh(),
    "softmax": lambda x: x.softmax(1),
    "cumprod": lambda x: x.cumprod(0),
    "in place": lambda x: (x * 1).sigmoid_(),
}


@pytest.mark.parametrize("op", RESULTS)
@tried("how", LATER)
@tried("kept", [True, False])
def test_a_result_that_is_changed(op, how, kept):
    x, right = tensor(X, requires_grad=True), tensor(X, requires_grad=True)
    RESULTS[op](right).sum().backward()
    y = RESULTS[op](x)
    loss = y.sum()
    array = LATER[how](y)
    array[...] = 7
    if not kept:
        del array
    checked(x, loss, right.grad.tolist())


def test_reading_is_always_fine():
    w, x = tensor(X), tensor(X, requires_grad=True)
    arrays = [w.numpy()]
    loss = (x * w).exp().sum()
    arrays += [w.numpy(), x.detach().numpy(), loss.detach().numpy()]
    arrays[0].sum()
    loss.backward()
    assert x.grad is not None


def test_setting_weights_before_the_forward_pass():
    layer = edutorch.nn.Linear(2, 2)
    x = ones(1, 2)
    layer(x).sum().backward()
    layer.weight.detach().numpy()[:] = X
    layer.weight.data.numpy()[0] += 1
    layer(x).sum().backward()
    assert layer.weight.tolist() == [[1.5, 2.5], X[1]]


def test_the_error_says_what_happened():
    x, w = tensor(X, requires_grad=True), tensor(X)
    loss = (x * w).sum()
    w.numpy()[0, 0] = 3
    with pytest.raises(StaleValueError, match="mul: its input `other` was changed through a NumPy"):
        loss.backward()


def test_a_tensor_is_ordinary_again_when_the_last_array_is_gone():
    w = tensor(X)
    row, apart = w[0], w.detach()
    array, second = w.numpy(), row.numpy()
    held = second[1:]
    views = [w[1], apart.view(4)]
    for alias in (w, row, apart, *views):
        assert type(alias._array) is not np.ndarray
    del array, second
    assert type(w._array) is not np.ndarray
    del held
    for alias in (w, row, apart, *views):
        assert type(alias._array) is np.ndarray
    assert type(w._writes).__name__ == "VersionCounter"
    assert w._version == 0


def test_beside_many_views_a_tensor_is_ordinary_again_when_it_is_used():
    w = with_many_views()
    x = ones(2, requires_grad=True)
    loss = (x * w[0]).sum()
    array = w.numpy()
    w[1].add_(1)  # into all of the memory, as far as one knows
    del array
    with pytest.raises(StaleValueError):
        loss.backward()
    loss = (x * w[0]).sum()
    assert type(w._array) is np.ndarray
    w[1].add_(1)  # beside it
    loss.backward()


def test_taking_views_to_numpy_takes_time_by_their_number():
    """Each `numpy()` looked at all views, and each array that died at all others."""

    def seconds(count: int) -> float:
        views = ones(count, 1).unbind()
        start = time.process_time()
        for view in views:
            view.numpy()
        arrays = [view.numpy() for view in views]
        arrays.clear()
        return time.process_time() - start

    few = min(seconds(500) for _ in range(3))
    assert seconds(8000) < 16 * few * 6


def test_our_own_writes_still_count_while_memory_is_lent():
    x, w = tensor(X, requires_grad=True), tensor(X)
    loss = (x * w).sum()
    array = w.numpy()
    w.mul_(2)
    assert w._version == 1
    assert array[0, 0] == 1
    with pytest.raises(StaleValueError, match="modified by an inplace operation"):
        loss.backward()
    (x * w).sum().backward()
    assert x.grad.tolist() == w.tolist()


def test_an_array_that_nobody_else_holds_becomes_ordinary():
    x = from_numpy(np.array(X))
    assert type(x._array) is not np.ndarray
    y = x + 1
    assert type(x._array) is type(y._array) is np.ndarray
    a = np.array(X)
    x = from_numpy(a)
    x + 1
    assert type(x._array) is not np.ndarray
    del a
    x + 1
    assert type(x._array) is np.ndarray


@pytest.mark.parametrize("dtype", [edutorch.bfloat16, edutorch.float16, edutorch.bool])
def test_every_type_can_be_lent(dtype):
    x = tensor(X).to(dtype)
    array = x.numpy()
    assert array.dtype == dtype.numpy
    array[0, 0] = 1
    assert x[0, 0].item() == 1
    assert x.tolist() == array.tolist()


def test_second_derivatives_through_shared_memory():
    a = np.array([2.0, 3.0])
    x = from_numpy(a).requires_grad_()
    y = (x**3).sum()
    (first,) = edutorch.autograd.grad(y, x, create_graph=True)
    a[:] = 100
    (second,) = edutorch.autograd.grad(first.sum(), x)
    assert first.tolist() == [12, 27]
    assert second.tolist() == [12, 18]
    assert x.grad is None


def test_memory_that_no_node_has_saved_is_not_read(monkeypatch):
    lengths = []
    monkeypatch.setattr(
        numpy_aliasing, "checksum", lambda array: lengths.append(array.size) or array.sum()
    )
    x, w = tensor(X), ones(2, 2, requires_grad=True)
    x.numpy()[0] = 7
    x.detach().numpy()
    assert not lengths
    loss = (x * w).sum()
    for _ in range(3):
        x.numpy()
    assert lengths == [4]  # once per version
    x.numpy()[1] = 5
    loss_of_new_elements = (x * w).sum()
    x.numpy()
    loss_of_new_elements.backward()
    assert w.grad.tolist() == x.tolist()
    with pytest.raises(StaleValueError):
        loss.backward()
