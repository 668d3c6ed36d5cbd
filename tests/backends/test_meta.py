"""The device `meta`: every op and every module has there the shape and the dtype of the CPU, and
nothing of a tensor's size is allocated.

What has no answer there is in `NEEDS_ELEMENTS`, with its reason.
"""

from __future__ import annotations

import copy
import doctest
import pickle
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import nn
from edutorch.backends.meta_array import MetaArray
from edutorch.core.tensor import Tensor
from edutorch.errors import DeviceError, MetaTensorError
from tests.module_cases import Case
from tests.op_calls import arguments, call, every, ops
from tests.op_cases import CASES
from tests.test_every_module import CALLED, FIRST_CALLED, called, make
from tests.trials import tried

MASK = "a mask selects as many elements as are True"
NEEDS_ELEMENTS = {
    "to_device": "leads away from the device, and there is nothing to copy",
    "getitem": MASK,
    "setitem": f"its gradient is an element of a mask: {MASK}",
    "index_put": f"its gradient is an element of a mask: {MASK}",
}
"""Ops of which a sample is refused on meta, and why."""

OTHER_STRIDES = {
    "getitem": "NumPy chooses the order of the axes that arrays of indices select",
    "einsum_forward": "on the CPU it is a product of matrices, whose result is transposed",
    "mode_dim": "its definition is not run, and its layout depends on its last step",
}
"""Ops whose results lie otherwise in memory than on the CPU."""

MODULES_NEED_ELEMENTS = {
    "momentum=None": "the mean over all batches counts them in a tensor",
    "LazyBatchNorm": "the same",
    "CTCLoss": "lengths are read, and label by label compared",
    "AdaptiveLogSoftmaxWithLoss": "each cluster gets the rows whose class is in it",
}
"""Modules that are refused on meta, by a part of the case's text, and why."""

pytestmark = pytest.mark.filterwarnings("ignore")


def tensors(result: Any) -> Iterator[Tensor]:
    """Yield the tensors of a result, at any depth."""
    for part in every(result):
        if isinstance(part, tuple | list):
            yield from tensors(part)
        elif isinstance(part, Tensor):
            yield part


# Every op and every module ---------------------------------------------------------------------


@tried("dtype", ("float32", "bfloat16", "complex64", "int64"))
@ops()
def test_every_op_has_the_shape_and_dtype_of_the_cpu(op, dtype):
    has_gradient = "float" in dtype or "complex" in dtype
    for case in CASES[op.name]:
        try:
            expected = call(op, arguments(op, case, "cpu", dtype, has_gradient))
        except (RuntimeError, TypeError, ValueError):
            continue  # the op refuses the dtype
        try:
            result = call(op, arguments(op, case, "meta", dtype, has_gradient))
            for ours, wanted in zip(tensors(result), tensors(expected), strict=True):
                assert ours.is_meta
                assert (ours.shape, ours.dtype) == (wanted.shape, wanted.dtype)
                assert ours.requires_grad == wanted.requires_grad
                if wanted.numel() and op.name not in OTHER_STRIDES:
                    assert ours.stride() == wanted.stride()
                if ours.requires_grad:
                    ours.backward(edutorch.ones_like(ours), retain_graph=True)
        except MetaTensorError:
            assert op.name in NEEDS_ELEMENTS


def check_module(case: Case) -> None:
    """Compare outputs, gradients and buffers of a module with those on the CPU."""
    expected = called(edutorch, make(edutorch, case).double(), case, "float64", "cpu")
    with edutorch.device("meta"):
        module = make(edutorch, case, "meta").double()
    try:
        results = called(edutorch, module, case, "float64", "meta")
    except MetaTensorError:
        assert any(part in f"{case}" for part in MODULES_NEED_ELEMENTS)
        return
    for what, wanted in expected.items():
        ours = results[what]
        assert (ours is None) == (wanted is None), what
        if wanted is not None:
            assert ours.is_meta
            assert (ours.shape, ours.dtype) == (wanted.shape, wanted.dtype), what


@pytest.mark.parametrize("case", FIRST_CALLED, ids=lambda case: case.name)
def test_every_module_runs_forward_and_backward(case):
    check_module(case)


@pytest.mark.slow
@tried("case", CALLED, ids=str)
def test_every_module_runs_with_all_settings(case):
    check_module(case)


def test_what_needs_elements_has_a_reason():
    lists = (NEEDS_ELEMENTS, OTHER_STRIDES, MODULES_NEED_ELEMENTS)
    assert all(reason for reasons in lists for reason in reasons.values())
    assert not (set(NEEDS_ELEMENTS) | set(OTHER_STRIDES)) - set(CASES)


# Nothing is allocated ------------------------------------------------------------------------

SIDE = 10**6


def huge(*shape: int, dtype: Any = None) -> Tensor:
    return edutorch.empty(*shape, dtype=dtype, device="meta")


def write_into_view(x: Tensor) -> Tensor:
    x[1:, 1:].mul_(2)
    (gradient,) = edutorch.autograd.grad(x.sum(), x)
    x.as_strided((SIDE, 2), (SIDE, 1)).sum().backward()
    return gradient


HUGE = {
    "elementwise": lambda x: (x * 2 + x.exp()).clamp(0, 1).where(x > 0, x),
    "reductions": lambda x: x.softmax(-1).sum(0) + x.mean(0) + x.var(0) + x.amax(0),
    "matmul": lambda x: x @ x.T,
    "linear": lambda x: nn.functional.linear(x, huge(3 * SIDE, SIDE)),
    "views": lambda x: x.T[::2, 5:].reshape(-1).unflatten(0, (-1, 5)).transpose(0, 1),
    "copies": lambda x: edutorch.cat([x, x.flip(0)]).repeat(2, 1).contiguous().clone(),
    "sorted": lambda x: x.sort(-1).values.cumsum(-1).topk(3).indices,
    "indices": lambda x: x[huge(SIDE, dtype=edutorch.int64)].gather(1, x.argsort(-1)),
    "conv2d": lambda x: nn.functional.conv2d(x.view(SIDE, 1, 1000, 1000), huge(64, 1, 3, 3)),
    "pooling": lambda x: nn.functional.max_pool2d(x.view(SIDE, 1, 1000, 1000), 2),
    "interpolate": lambda x: nn.functional.interpolate(x.view(SIDE, 1, 1000, 1000), scale_factor=2),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(
        *[x.view(SIDE, 1, -1, 100)] * 3
    ),
    "layer_norm": lambda x: nn.functional.layer_norm(x, (SIDE,)),
    "dropout": lambda x: nn.functional.dropout(x),
    "cross_entropy": lambda x: nn.functional.cross_entropy(x, huge(SIDE, dtype=edutorch.int64)),
    "fft": lambda x: edutorch.fft.rfft(x),
    "einsum": lambda x: edutorch.einsum("ij,kj->ik", x, x),
    "random": lambda x: edutorch.rand_like(x) + edutorch.randn(SIDE, SIDE, device="meta"),
    "creation": lambda x: edutorch.eye(SIDE, device="meta") + edutorch.arange(SIDE, device="meta"),
    "repeats": lambda x: x.reshape(-1).repeat_interleave(2),
    "solve": lambda x: edutorch.linalg.solve(x, edutorch.linalg.inv(x)),
    "svd": lambda x: edutorch.linalg.svd(x, full_matrices=False).S,
    "writes into views": lambda x: write_into_view(x.requires_grad_() * 1),
    "writes": lambda x: x.fill_(1).mul_(2).copy_(x.T),
}


@pytest.mark.parametrize("name", HUGE)
def test_nothing_is_allocated(name):
    """10^12 elements would be 4 TB, and a single row of them 4 MB."""
    x = huge(SIDE, SIDE)
    HUGE[name](x)  # compiles the ops' call paths
    tracemalloc.start()
    try:
        result = HUGE[name](x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(tensor.is_meta for tensor in tensors(result))
    assert peak < 2**20


def test_a_network_too_large_for_any_machine_trains():
    with edutorch.device("meta"):
        model = nn.Sequential(nn.Linear(SIDE, SIDE), nn.ReLU(), nn.Linear(SIDE, 10))
        x = edutorch.randn(64, SIDE)
    optimizer = edutorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(x).sum().backward()
    optimizer.step()
    assert model[0].weight.grad.shape == (SIDE, SIDE)
    assert sum(p.nbytes for p in model.parameters()) > 4e12


def test_a_size_that_no_address_reaches_is_refused():
    with pytest.raises(RuntimeError, match="empty: out of memory"):
        huge(10**10, 10**10)


def test_no_kernel_is_chosen():
    """Kernels compute on memory; where one would be chosen, the definition runs."""
    x = huge(64, 32, 28, 28).requires_grad_()
    layer = nn.Sequential(nn.Conv2d(32, 64, 3), nn.BatchNorm2d(64), nn.GELU()).to("meta")
    layer(x).sum().backward()
    assert type(x.grad._array) is MetaArray


def test_the_readme_is_true():
    readme = Path(edutorch.backends.__file__).with_name("README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    test = doctest.DocTestParser().get_doctest(example, {}, "README", None, None)
    assert doctest.DocTestRunner().run(test) == (0, 7)


# Made and moved ---------------------------------------------------------------------------------


def test_made_in_every_way():
    x = edutorch.ones(2, 3)
    for made in (
        edutorch.empty(2, 3, device="meta"), x.to("meta"), x.to(device=edutorch.device("meta")),
        edutorch.zeros_like(x, device="meta"), x.to(x.to("meta")),
        edutorch.tensor(x, device="meta"),
        edutorch.as_tensor(x.tolist(), device="meta"), x.new_empty(2, 3, device="meta"),
    ):  # fmt: skip
        assert made.is_meta and not made.is_cpu and made.device == edutorch.device("meta")
        assert (made.shape, made.dtype, made.stride()) == (x.shape, x.dtype, x.stride())
    assert not x.is_meta


def test_the_context_makes_new_tensors_there():
    with edutorch.device("meta"):
        assert edutorch.zeros(2).is_meta and edutorch.tensor([1, 2]).is_meta
        assert not edutorch.from_numpy(np.ones(2)).is_meta
    assert not edutorch.zeros(2).is_meta


def test_text():
    x = edutorch.empty(2, 3, device="meta")
    assert repr(x) == "tensor(..., device='meta', size=(2, 3))"
    assert "size=(), dtype=torch.int32)" in repr(edutorch.tensor(1).int().to("meta"))
    assert repr(x.requires_grad_() * 2).endswith("size=(2, 3), grad_fn=<MulBackward0>)")
    assert x.type() == "torch.meta.FloatTensor"
    assert "Linear(in_features=2" in repr(nn.Linear(2, 2, device="meta"))


def test_memory_is_described():
    x = edutorch.empty(4, 6, device="meta")
    view = x.T[2:, 1]
    assert (view.shape, view.stride(), view.storage_offset()) == ((4,), (1,), 8)
    assert view._base is x and view.data_ptr() == 0
    assert view.untyped_storage().nbytes() == x.nbytes == 96
    assert edutorch.as_strided(x, (2, 2), (3, 5), 4).storage_offset() == 4
    assert not x.expand(2, 4, 6).is_contiguous() and x.T.contiguous().stride() == (4, 1)


def test_copies_keep_the_device():
    model = nn.Linear(3, 2, device="meta")
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.weight.is_meta and twin.weight.requires_grad and twin.weight.shape == (2, 3)
        assert twin.weight is not model.weight


def test_initialization_does_nothing():
    layer = nn.Linear(3, 2, device="meta")
    for fill in ("xavier_normal_", "kaiming_uniform_", "trunc_normal_", "orthogonal_", "zeros_"):
        assert getattr(nn.init, fill)(layer.weight).is_meta
    layer.reset_parameters()


def test_a_module_gets_memory_by_to_empty():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to("meta")
    assert all(tensor.is_meta for tensor in model.state_dict().values())
    with pytest.raises(NotImplementedError, match=r"no data! Please use torch.nn.Module.to_empty"):
        model.to("cpu")
    weight = model[0].weight
    assert model.to_empty(device="cpu")[0].weight is weight and not weight.is_meta


def test_a_state_is_assigned():
    state = nn.Linear(3, 2).state_dict()
    model = nn.Linear(3, 2, device="meta")
    with pytest.warns(UserWarning, match=r"for weight: copying from a non-meta parameter .*no-op"):
        model.load_state_dict(state)
    assert model.weight.is_meta
    model.load_state_dict(state, assign=True)
    assert edutorch.equal(model.weight, state["weight"]) and model.weight.requires_grad
    with pytest.raises(RuntimeError, match="Cannot copy out of meta tensor; no data!"):
        model.load_state_dict(nn.Linear(3, 2, device="meta").state_dict())


def test_a_meta_tensor_of_pytorch_is_loaded(torch, tmp_path):
    saved = torch.empty(4, 3, device="meta", dtype=torch.float64).T
    torch.save({"x": saved}, tmp_path / "x.pt")
    x = edutorch.load(tmp_path / "x.pt")["x"]
    assert x.is_meta and (x.shape, x.stride(), x.dtype) == ((3, 4), (1, 3), edutorch.float64)


# Refused -----------------------------------------------------------------------------------------

X = edutorch.empty(2, 3, device="meta")
G = edutorch.ones(2, 3)

REFUSED = {
    "item": (lambda: X[0, 0].item(), "item: Tensor.item\\(\\) cannot be called on meta tensors"),
    "item of many": (lambda: X.item(), "6 elements cannot be converted to Scalar"),
    "bool": (lambda: bool(X[0, 0]), "cannot be called on meta tensors"),
    "bool of many": (lambda: bool(X), "more than one value is ambiguous"),
    "float": (lambda: float(X[0, 0]), "cannot be called on meta tensors"),
    "int": (lambda: int(X[0, 0]), "cannot be called on meta tensors"),
    "format": (lambda: f"{X[0, 0]:.2f}", "cannot be called on meta tensors"),
    "if": (lambda: 1 if X.sum() > 0 else 2, "cannot be called on meta tensors"),
    "tolist": (lambda: X.tolist(), "tolist: Cannot copy out of meta tensor; no data!"),
    "cpu": (lambda: X.cpu(), "Cannot copy out of meta tensor; no data!"),
    "to": (lambda: X.to("cpu"), "to: Cannot copy out of meta tensor; no data!"),
    "copy_": (lambda: edutorch.ones(2, 3).copy_(X), "Cannot copy out of meta tensor; no data!"),
    "equal": (lambda: edutorch.equal(X, X), "cannot be called on meta tensors"),
    "allclose": (lambda: edutorch.allclose(X, X), "cannot be called on meta tensors"),
    "nonzero": (lambda: X.nonzero(), "nonzero: the shape of the result depends on the elements"),
    "where": (lambda: edutorch.where(X > 0), "depends on the elements"),
    "mask": (lambda: X[X > 0], "depends on the elements"),
    "masked_select": (lambda: X.masked_select(X > 0), "masked_select: .*depends on the elements"),
    "unique": (lambda: X.unique(), "unique: the shape of the result depends on the elements"),
    "repeat_interleave": (lambda: X.repeat_interleave(X[0].long(), 1), "no data!"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_elements_is_refused(name):
    attempt, words = REFUSED[name]
    with pytest.raises(RuntimeError, match=words):  # NotImplementedError is one
        attempt()


def test_numpy_is_refused():
    for attempt in (X.numpy, lambda: np.asarray(X)):
        with pytest.raises(TypeError, match="can't convert a meta tensor to numpy") as raised:
            attempt()
        assert "no elements" in str(raised.value)
    with pytest.raises(MetaTensorError):
        X.numpy(force=True)


def test_another_device_is_refused():
    for attempt in (
        lambda: X + G, lambda: G @ X.T, lambda: edutorch.cat([X, G]), lambda: nn.Linear(3, 2)(X),
        lambda: edutorch.tensor(1.0, device="meta") + G, lambda: edutorch.where(G > 0, X, G),
    ):  # fmt: skip
        with pytest.raises(DeviceError, match="Expected all tensors to be on the same device"):
            attempt()
    assert (X + edutorch.tensor(1.0)).is_meta  # a 0-d tensor of the CPU goes anywhere


def test_shapes_are_checked_as_on_the_cpu():
    """A wrong shape is the same error: this is what the device is for."""
    attempts = (
        lambda x: x + x.T, lambda x: x @ x, lambda x: x.view(4), lambda x: x.sum(3),
        lambda x: edutorch.cat([x, x[:, :1]]), lambda x: x[:, 7], lambda x: x.expand(4, 3),
        lambda x: nn.functional.conv2d(x, x), lambda x: edutorch.linalg.inv(x),
        lambda x: x.copy_(x[:, :2]), lambda x: edutorch.einsum("ij,jk", x, x),
        lambda x: x.squeeze(4), lambda x: x[0, 0, 0],
    )  # fmt: skip
    for attempt in attempts:
        errors = []
        for x in (G, X):
            with pytest.raises(Exception) as raised:  # noqa: PT011  (each its own)
                attempt(x)
            errors.append(raised.value)
        assert type(errors[0]) is type(errors[1])
        assert f"{errors[0]}".replace("'cpu'", "'meta'") == f"{errors[1]}"


def test_a_graph_without_elements_is_drawn():
    layer = edutorch.nn.Linear(3, 2, device="meta")
    picture = edutorch.viz.draw(layer(edutorch.ones(4, 3, device="meta")).sum())
    assert "linear" in picture.dot and picture.dot.count("value unknown") == 4
    assert "meta" in str(edutorch.viz.show(layer.weight))
