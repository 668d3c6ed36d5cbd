"""Copying and pickling of tensors: which attributes are preserved."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import arange, from_numpy, ones, tensor
from edutorch.errors import GradientError
from edutorch.nn import Buffer, Parameter
from tests.devices import device  # noqa: F401


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


DEEP: dict[str, Callable[[Any], Any]] = {"deepcopy": copy.deepcopy, "pickle": pickled}


class Mine(Parameter):
    pass


KINDS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: tensor([1.0, 2.0]),
    "0-d": lambda: tensor(3),
    "empty": lambda: ones(0, 3),
    "bfloat16": lambda: ones(2, dtype=edutorch.bfloat16),
    "complex": lambda: tensor([1j]),
    "bool": lambda: tensor([True, False]),
    "transposed": lambda: arange(6).view(2, 3).t(),
    "a part": lambda: arange(6.0)[2:5:2],
    "expanded": lambda: ones(1).expand(3),
    "flipped": lambda: arange(3).flip(0),
    "from_numpy": lambda: from_numpy(np.arange(6.0).reshape(2, 3).T),
    "from a part": lambda: from_numpy(np.arange(6.0)[::2]),
    "parameter": lambda: Parameter(ones(2)),
    "frozen parameter": lambda: Parameter(ones(2), requires_grad=False),
    "derived parameter": lambda: Mine(ones(2)),
    "buffer": lambda: Buffer(ones(2), persistent=False),
    "leaf": lambda: ones(2, requires_grad=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [*DEEP, "copy"])
@pytest.mark.usefixtures("device")
def test_what_arrives(kind, how):
    x = KINDS[kind]()
    x.note = ["unit"]
    again = copy.copy(x) if how == "copy" else DEEP[how](x)
    assert type(again) is type(x)
    assert again.tolist() == x.tolist()
    assert (again.dtype, again.shape) == (x.dtype, x.shape)
    assert again.requires_grad == x.requires_grad
    assert again.is_leaf
    assert again.note == ["unit"]
    assert (again.note is x.note) == (how == "copy")
    assert getattr(again, "persistent", None) == getattr(x, "persistent", None)


@pytest.mark.parametrize("how", DEEP)
@pytest.mark.parametrize("lent", [False, True])
def test_memory_that_is_shared_stays_shared(how, lent):
    x = arange(6.0)
    first = [x, x[2:], x.view(2, 3).t(), x.detach(), x]
    array = x.numpy() if lent else None
    second = DEEP[how](first)
    second[0][3] = 9
    assert second[1][1] == second[2][0, 1] == second[3][3] == 9
    assert second[4] is second[0]
    assert x[3] == 3
    assert array is None or array[3] == 3
    assert [tensor.stride() for tensor in second] == [tensor.stride() for tensor in first]


VIEWS: dict[str, Callable[[], Any]] = {
    "of another dtype": lambda: ones(4).view(edutorch.int32),
    "of a part": lambda: ones(4)[1:].view(edutorch.int32),
    "real": lambda: tensor([1 + 2j, 3j]).real,
    "imag": lambda: tensor([1 + 2j, 3j]).imag,
    "view_as_real": lambda: edutorch.view_as_real(tensor([1 + 2j])),
    "view_as_complex": lambda: edutorch.view_as_complex(ones(3, 2)),
    "transposed": lambda: arange(6.0).view(2, 3).t(),
    "detached": lambda: arange(6.0).detach(),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("how", DEEP)
@pytest.mark.usefixtures("device")
def test_a_copy_of_a_view_has_its_own_memory(how, view):
    x = VIEWS[view]()
    before = x.tolist()
    again = DEEP[how](x)
    assert again.tolist() == before
    again.zero_()
    assert x.tolist() == before


@pytest.mark.parametrize("how", DEEP)
def test_of_an_outside_array_only_the_part_that_was_given_is_copied(how):
    a = np.zeros((100_000, 2))
    x = from_numpy(a[7])
    again = DEEP[how](x)
    a[7] = 1
    assert again.tolist() == [0, 0]
    assert len(pickle.dumps(x)) < 2000
    first, second = DEEP[how]([x, x[1:]])
    first[1] = 5
    assert second.tolist() == [5]


def test_copy_shares_memory_and_writes():
    x = ones(2)
    y = copy.copy(x)
    y[0] = 5
    assert x.tolist() == [5, 1]
    assert x._version == 1
    z = copy.copy(ones(2, requires_grad=True) * 2)
    assert z.is_leaf
    assert z.requires_grad


def test_a_computed_tensor_is_not_copied_deeply():
    x = ones(2, requires_grad=True) * 2
    with pytest.raises(GradientError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x)
    again = pickled(x)
    assert again.is_leaf
    assert again.requires_grad


def test_the_gradient_goes_with_a_deep_copy_only():
    x = ones(2, requires_grad=True)
    x.sum().backward()
    assert copy.deepcopy(x).grad.tolist() == [1, 1]
    assert pickled(x).grad is None
    assert copy.copy(x).grad is None


def test_hooks_stay_behind():
    x = ones(2, requires_grad=True)
    x.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="hook"):
        pickled(x)
    assert copy.deepcopy(x)._hooks is None


def test_a_model_keeps_its_ties():
    layer = edutorch.nn.Linear(2, 2)
    pair = edutorch.nn.ModuleList([layer, layer])
    for again in (copy.deepcopy(pair), pickled(pair)):
        assert again[0].weight is again[1].weight
        assert again[0].weight.tolist() == layer.weight.tolist()
        assert again[0].weight is not layer.weight


def test_saved_files_hold_a_view_and_not_its_base():
    file = io.BytesIO()
    edutorch.save({"part": arange(1000.0)[10:12]}, file)
    file.seek(0)
    assert edutorch.load(file)["part"].tolist() == [10, 11]


def doubled(x: Any) -> Any:
    return x * 2


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_between_processes(start):
    with multiprocessing.get_context(start).Pool(1) as pool:
        x = tensor([1.0, 2.0])
        y = pool.apply(doubled, (x[1:],))
    assert y.tolist() == [4]
