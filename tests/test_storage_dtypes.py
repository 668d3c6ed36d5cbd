"""float8 and the wide unsigned integers: held, moved and converted as in PyTorch, and refused by
what PyTorch refuses.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import Tensor, tensor
from edutorch.backends.numpy import Stored
from edutorch.errors import DTypeError, NotForTypesError
from tests.trials import tried

FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
UNSIGNED = ("uint16", "uint32", "uint64")
STORAGE = FLOAT8 + UNSIGNED


def made(name: str, library: Any = edutorch) -> Any:
    return library.tensor([[1, 2], [3, 4]]).to(getattr(library, name))


def limits_and_midpoints(values: np.ndarray) -> np.ndarray:
    """Return all finite values, what lies halfway between two, and what is too large."""
    finite = np.unique(values[np.isfinite(values)]).astype(np.float64)
    halfway = (finite[1:] + finite[:-1]) / 2
    beyond = [finite[-1] * share for share in (1.01, 1.03, 1.05, 1.07, 1.2, 1e3)]
    random = np.random.default_rng(0).normal(size=5000) * 10.0 ** np.arange(-4, 6).repeat(500)
    return np.concatenate([finite, halfway, beyond, random, [np.inf, -np.inf, np.nan, -0.0]])


# Conversion ----------------------------------------------------------------------------------


@tried("name", FLOAT8)
def test_float8_is_rounded_as_in_pytorch(name, torch):
    ours, theirs = getattr(edutorch, name), getattr(torch, name)
    bits = np.arange(256, dtype=np.uint8)
    values = tensor(bits).view(ours).float().numpy()
    np.testing.assert_array_equal(values, torch.tensor(bits).view(theirs).float().numpy())
    samples = limits_and_midpoints(values)
    for source in ("float64", "float32", "float16", "bfloat16"):
        result = tensor(samples).to(getattr(edutorch, source)).to(ours).float()
        expected = torch.tensor(samples).to(getattr(torch, source)).to(theirs).float()
        np.testing.assert_array_equal(result.numpy(), expected.numpy())
        assert (np.signbit(result.numpy()) == np.signbit(expected.numpy()))[samples == 0].all()


@tried("name", UNSIGNED)
def test_unsigned_integers_wrap_as_in_pytorch(name, torch):
    for source, values in (
        ("int64", [1, -1, 70000, 2**40 + 3, -5]), ("float32", [1.7, 700.5]),
        ("bool", [True, False]), ("uint8", [1, 255]), ("float16", [2.5]),
    ):  # fmt: skip
        ours, theirs = (
            lib.tensor(values, dtype=getattr(lib, source)).to(getattr(lib, name))
            for lib in (edutorch, torch)
        )
        assert ours.tolist() == theirs.tolist()
        assert ours.to(edutorch.int64).tolist() == theirs.to(torch.int64).tolist()


@tried("name", STORAGE)
def test_values_are_converted_wherever_they_enter(name):
    dtype, large = getattr(edutorch, name), 500.0
    expected = tensor([large]).to(dtype).float().item()
    for x in (
        tensor([500], dtype=dtype), tensor(500, dtype=dtype)[None],
        edutorch.full((1,), 500, dtype=dtype),
        edutorch.zeros(1, dtype=dtype).copy_(tensor([large])), tensor([large]).type(dtype),
        edutorch.zeros(1, dtype=dtype).fill_(500), tensor(np.array([large]), dtype=dtype),
        edutorch.full_like(made(name), 500)[0, :1],
        edutorch.empty(1, dtype=dtype).copy_(tensor([500])),
    ):  # fmt: skip
        assert x.dtype is dtype and (x.float().item() == expected or np.isnan(expected))


# What works, and what does not -------------------------------------------------------------------

MOVES = {
    "index": lambda lib, x: (x[0], x[0, 1], x[:, 1:], x[lib.tensor([1, 0])]),
    "mask": lambda lib, x: x[lib.tensor([True, False])],
    "views": lambda lib, x: (x.T, x.reshape(-1), x.expand(2, 2, 2), x.unsqueeze(0), *x.unbind()),
    "copies": lambda lib, x: (x.clone(), x.T.contiguous(), x.repeat(2, 1), x.flip(0), x.roll(1)),
    "joins": lambda lib, x: (lib.cat([x, x.T]), lib.stack([x, x])),
    "where": lambda lib, x: lib.where(lib.tensor([True, False]), x, x.T),
    "selects": lambda lib, x: (x.index_select(0, lib.tensor([1])), x.diag(), *x.split(1)),
    "writes": lambda lib, x: (x.clone().zero_(), x.clone().fill_(3), x.clone().copy_(x.T)),
    "equal": lambda lib, x: (x == x.T, x != x.T, x.isnan(), x.any(), x.all()),
    "numbers": lambda lib, x: lib.tensor([x[1, 1].item(), *x.tolist()[0]]),
    "bits": lambda lib, x: x.view(getattr(lib, f"int{8 * x.itemsize}")),
    "likes": lambda lib, x: (lib.zeros_like(x), lib.ones_like(x), x.new_zeros(2), x.bool()),
    "float": lambda lib, x: (x.float() @ x.double().float(), x.half(), x.int()),
}  # fmt: skip


@tried("name", STORAGE)
@pytest.mark.parametrize("what", MOVES)
def test_elements_are_moved_as_in_pytorch(what, name, torch):
    ours, theirs = (MOVES[what](lib, made(name, lib)) for lib in (edutorch, torch))
    pairs = zip(*(part if type(part) is tuple else (part,) for part in (ours, theirs)), strict=True)
    for result, expected in pairs:
        assert str(result.dtype) == str(expected.dtype)
        assert result.tolist() == expected.tolist()
        assert result.stride() == expected.stride()


REFUSED_BY_ALL = {
    "add": lambda x: x + x, "a number": lambda x: x + 1, "from the right": lambda x: 1 - x,
    "negative": lambda x: -x, "less": lambda x: x < x, "maximum": lambda x: x.maximum(x),
    "max": lambda x: x.max(), "argmax": lambda x: x.argmax(), "remainder": lambda x: x % 2,
    "floor_divide": lambda x: x // 2, "clamp": lambda x: x.clamp(0, 1), "relu": lambda x: x.relu(),
    "sign": lambda x: x.sign(), "tril": lambda x: x.tril(), "shift": lambda x: x << 1,
    "gather": lambda x: x.gather(0, edutorch.zeros(1, 2).long()),
    "masked_fill": lambda x: x.masked_fill(tensor([True, False]), 1),
    "in place": lambda x: x.add_(1),
}  # fmt: skip
REFUSED_FOR_FLOAT8 = {
    "mul": lambda x: x * x, "divide": lambda x: x / x, "sum": lambda x: x.sum(),
    "exp": lambda x: x.exp(), "sort": lambda x: x.sort(), "prod": lambda x: x.prod(),
    "cumsum": lambda x: x.cumsum(0), "mean": lambda x: x.mean(), "sqrt": lambda x: x.sqrt(),
}  # fmt: skip


@tried("name", STORAGE)
def test_arithmetic_is_refused(name):
    x = made(name)
    attempts = REFUSED_BY_ALL | (REFUSED_FOR_FLOAT8 if name in FLOAT8 else {})
    for attempt in attempts.values():
        with pytest.raises(NotForTypesError, match=f"not implemented for {name}") as refused:
            attempt(x)
        assert "convert it first" in str(refused.value)
    with pytest.raises(NotImplementedError, match="which is for storage"):
        edutorch.rand(2, dtype=x.dtype) if name in FLOAT8 else edutorch.arange(3, dtype=x.dtype)


@tried("name", UNSIGNED)
def test_what_pytorch_computes_with_unsigned_integers(name, torch):
    for function in (
        lambda lib, x: x * 2, lambda lib, x: x / x.T, lambda lib, x: x.sum(),
        lambda lib, x: x.exp(),
        lambda lib, x: x.sort(descending=True).values, lambda lib, x: x & x.T, lambda lib, x: x | 1,
        lambda lib, x: x + lib.ones(2), lambda lib, x: x * 2.5, lambda lib, x: x.cumsum(1),
        lambda lib, x: x * lib.ones(2, dtype=lib.float16),
    ):  # fmt: skip
        ours, theirs = (function(lib, made(name, lib)) for lib in (edutorch, torch))
        assert str(ours.dtype) == str(theirs.dtype)
        np.testing.assert_allclose(ours.tolist(), theirs.tolist(), rtol=1e-6)


def test_a_refusal_says_what_to_do():
    x = tensor([1.0, 2.0]).to(edutorch.float8_e4m3fn)
    with pytest.raises(NotForTypesError) as refused:
        x + x
    assert str(refused.value) == (
        "add: not implemented for float8_e4m3fn, which is for storage\n"
        "  input  = (2,) torch.float8_e4m3fn\n"
        "  other  = (2,) torch.float8_e4m3fn\n"
        "  hint: convert it first, for example with x.float()"
    )


def test_promotion_is_that_of_pytorch(torch):
    names = (*STORAGE, "float32", "float16", "int64", "uint8", "bool", "complex64")
    for first in STORAGE:
        for second in names:
            pair = [getattr(torch, first), getattr(torch, second)]
            ours = [getattr(edutorch, first), getattr(edutorch, second)]
            try:
                expected = str(torch.promote_types(*pair))
            except RuntimeError as error:
                words = str(error).partition(", attempted")[0]
                with pytest.raises(DTypeError, match=words):
                    edutorch.promote_types(*ours)
            else:
                assert str(edutorch.promote_types(*ours)) == expected
    with pytest.raises(TypeError, match="only floating types can be the default"):
        edutorch.set_default_dtype(edutorch.float8_e5m2)


# Descriptions ------------------------------------------------------------------------------------


@tried("name", STORAGE)
def test_descriptions_equal_pytorchs(name, torch):
    ours, theirs = getattr(edutorch, name), getattr(torch, name)
    for member in ("itemsize", "is_floating_point", "is_complex", "is_signed", "__repr__"):
        one, other = getattr(ours, member), getattr(theirs, member)
        assert (one() if callable(one) else one) == (other() if callable(other) else other)
    assert repr(made(name)) == repr(made(name, torch))
    assert repr(tensor(2, dtype=ours)) == repr(torch.tensor(2, dtype=theirs))
    if name in UNSIGNED:
        assert repr(edutorch.iinfo(ours)) == repr(torch.iinfo(theirs))
        assert edutorch.iinfo(ours).max == torch.iinfo(theirs).max
    elif (
        name != "float8_e5m2fnuz"
    ):  # PyTorch says that its eps is 0.125: 1.25 is its successor of 1
        assert repr(edutorch.finfo(ours)) == repr(torch.finfo(theirs))


def test_limits_print_as_in_pytorch(torch):
    for name in ("float16", "bfloat16", "float32", "float64"):
        info = repr(edutorch.finfo(getattr(edutorch, name)))
        assert info == repr(torch.finfo(getattr(torch, name)))
    assert repr(edutorch.iinfo(edutorch.int8)) == repr(torch.iinfo(torch.int8))


def test_only_float8_can_require_grad():
    x = made("float8_e4m3fn").requires_grad_()
    x.float().sum().backward()
    assert x.grad.dtype is edutorch.float8_e4m3fn and x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        made("uint16").requires_grad_()


# Memory, and files -----------------------------------------------------------------------------


def is_same(x: Tensor, y: Tensor) -> bool:
    bits = getattr(edutorch, f"int{8 * x.itemsize}")
    same = x.dtype is y.dtype and x.view(bits).tolist() == y.view(bits).tolist()
    return same and isinstance(x._array, Stored)


@tried("name", STORAGE)
def test_saved_and_loaded(name, tmp_path, torch):
    x = made(name)
    edutorch.save({"x": x, "view": x.T}, tmp_path / "ours.pt")
    loaded = edutorch.load(tmp_path / "ours.pt")
    assert is_same(loaded["x"], x) and is_same(loaded["view"], x.T)
    assert loaded["view"].untyped_storage() == loaded["x"].untyped_storage()
    torch.save({"x": made(name, torch)}, tmp_path / "theirs.pt")
    assert is_same(edutorch.load(tmp_path / "theirs.pt")["x"], x)


@tried("name", STORAGE)
def test_safetensors_of_others_are_read(name, tmp_path, torch):
    safetensors_torch = pytest.importorskip("safetensors.torch")
    safetensors_torch.save_file({"x": made(name, torch)}, tmp_path / "x.safetensors")
    assert is_same(edutorch.load(tmp_path / "x.safetensors")["x"], made(name))


@tried("name", STORAGE)
def test_copies_are_marked(name):
    x = made(name)
    for twin in (copy.copy(x), copy.deepcopy(x), copy.deepcopy(x.T).T,
                 pickle.loads(pickle.dumps(x)), pickle.loads(pickle.dumps(x.T)).T):  # fmt: skip
        assert is_same(twin, x)
    array = x.numpy()
    assert array.dtype == x.dtype.numpy and np.shares_memory(array, x._array)
    y = edutorch.from_numpy(array)
    del array
    assert is_same(x.clone(), y.clone())
    with pytest.raises(NotForTypesError):
        y + y
    assert y.to("meta").dtype is x.dtype and x.data.dtype is x.dtype


@tried("name", STORAGE)
def test_a_module_stores_them(name):
    """Weights are kept in float8 as a buffer, and computed with in float32."""
    layer = edutorch.nn.Module()
    layer.register_buffer("weight", made(name))
    other = copy.deepcopy(layer)
    other.weight.zero_()
    other.load_state_dict(layer.state_dict())
    assert is_same(other.weight, layer.weight)
    assert (tensor([[1.0, 0.0]]) @ other.weight.float()).tolist() == [[1.0, 2.0]]
