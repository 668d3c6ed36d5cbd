"""Classes derived from Tensor, and classes that only behave like one."""

from __future__ import annotations

import copy
import functools
import pickle
from typing import Any, ClassVar

import numpy as np
import pytest
from edutorch.overrides import (
    DisableTorchFunctionSubclass,
    get_overridable_functions,
    handle_torch_function,
    has_torch_function,
    is_tensor_like,
    is_tensor_method_or_property,
    resolve_name,
    wrap_torch_function,
)  # fmt: skip

import edutorch as torch
from edutorch import overrides
from tests.oracle import require_torch


class Tagged(torch.Tensor):
    pass


class Derived(Tagged):
    pass


def tagged(*values: float) -> Any:
    return torch.tensor(values).as_subclass(Tagged)


RESULTS = {
    "operator": lambda x: x + 1,
    "reflected": lambda x: 2 - x,
    "with a tensor": lambda x: torch.ones(2) * x,
    "with an array": lambda x: np.ones(2) * x,
    "function": lambda x: torch.exp(x),
    "method": lambda x: x.exp(),
    "reduction": lambda x: x.sum(),
    "index": lambda x: x[0],
    "slice": lambda x: x[:1],
    "mask": lambda x: x[x > 1],
    "view": lambda x: x.view(2, 1),
    "transpose": lambda x: x.unsqueeze(0).t(),
    "detach": lambda x: x.detach(),
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to(torch.float64),
    "comparison": lambda x: x > 1,
    "cat": lambda x: torch.cat([torch.ones(2), x]),
    "stack": lambda x: torch.stack([x, x]),
    "split": lambda x: x.split(1)[1],
    "max": lambda x: x.max(0).values,
    "topk": lambda x: x.topk(1)[0],
    "softmax": lambda x: x.softmax(0),
    "matmul": lambda x: x @ x,
    "where": lambda x: torch.where(x > 1, x, 0.0),
    "loss": lambda x: torch.nn.functional.mse_loss(x, torch.ones(2)),
    "relu": lambda x: torch.nn.functional.relu(x),
    "linear": lambda x: torch.nn.functional.linear(x, torch.ones(3, 2)),
    "module": lambda x: torch.nn.Linear(2, 3)(x),
    "in place": lambda x: x.add_(1),
    "augmented": lambda x: x.__iadd__(1),
    "zeros_like": lambda x: torch.zeros_like(x),
    "iteration": lambda x: next(iter(x)),
    "einsum": lambda x: torch.einsum("i,i->", x, x),
    "norm": lambda x: torch.linalg.norm(x),
    "std": lambda x: x.std(),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_keep_the_class(name):
    assert type(RESULTS[name](tagged(1.0, 2.0))) is Tagged


class Asked(torch.Tensor):
    functions: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.functions.append(func)
        with DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        assert type(result) is torch.Tensor
        return (cls, result)


@pytest.mark.parametrize("name", ["to", "double", "half", "int", "detach"])
def test_an_override_is_asked_about_the_method_itself(name, monkeypatch):
    monkeypatch.setattr(Asked, "functions", [])
    x = torch.ones(2).as_subclass(Asked)
    cls, y = x.to(dtype=torch.float64) if name == "to" else getattr(x, name)()
    assert Asked.functions == [getattr(torch.Tensor, name)]
    assert cls is Asked
    assert (y.dtype is x.dtype) == (name == "detach")


def test_an_override_is_asked_about_an_argument():
    cls, result = torch.ones(2, dtype=torch.int64).to(torch.ones(2).as_subclass(Asked))
    assert cls is Asked
    assert result.dtype is torch.float32


def test_the_most_derived_class_wins():
    x, y = tagged(1.0), torch.ones(1).as_subclass(Derived)
    assert type(x + y) is type(y + x) is Derived
    assert type(x * torch.nn.Parameter(torch.ones(1))) is Tagged
    assert type(torch.nn.Parameter(torch.ones(1)) * 2) is torch.Tensor


def test_gradients_flow_through_them():
    x = torch.ones(2, requires_grad=True)
    y = x.as_subclass(Tagged)
    (y * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]
    leaf = torch.Tensor._make_subclass(Tagged, torch.ones(2), True)
    assert leaf.is_leaf
    (leaf * leaf).sum().backward()
    assert leaf.grad.tolist() == [2, 2]


def test_memory_and_writes_are_shared():
    x = torch.ones(2)
    y = x.as_subclass(Tagged)
    y[0] = 5
    y.mul_(2)
    assert x.tolist() == [10, 2]
    assert x._version == y._version == 2


def test_a_constructor_of_its_own():
    class Named(torch.Tensor):
        @staticmethod
        def __new__(cls, data, name=None, **kwargs):
            return super().__new__(cls, data, **kwargs)

        def __init__(self, data, name=None):
            super().__init__()
            self.name_of_it = name

    x = Named([1.0, 2.0], name="first")
    assert (x.name_of_it, x.tolist()) == ("first", [1, 2])
    assert type(x + 1) is Named
    assert not hasattr(x + 1, "name_of_it")


def test_pickle_and_copy_keep_class_and_attributes():
    x = tagged(1.0, 2.0)
    x.note = {"unit": "m"}
    for again in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(again) is Tagged
        assert again.note == x.note
        assert again.tolist() == [1, 2]


def test_as_subclass_takes_only_subclasses():
    with pytest.raises(TypeError, match="subclass of Tensor"):
        torch.ones(1).as_subclass(int)


# The examples of PyTorch's documentation ("Extending torch Python API"), as they stand -----------

HANDLED_FUNCTIONS: dict[Any, Any] = {}


def implements(torch_function):
    def decorator(func):
        functools.update_wrapper(func, torch_function)
        HANDLED_FUNCTIONS[torch_function] = func
        return func

    return decorator


class ScalarTensor:
    def __init__(self, N, value):
        self._N = N
        self._value = value

    def __repr__(self):
        return f"ScalarTensor(N={self._N}, value={self._value})"

    def tensor(self):
        return self._value * torch.eye(self._N)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if kwargs is None:
            kwargs = {}
        if func not in HANDLED_FUNCTIONS or not all(
            issubclass(t, (torch.Tensor, ScalarTensor)) for t in types
        ):
            return NotImplemented
        return HANDLED_FUNCTIONS[func](*args, **kwargs)


def ensure_tensor(data):
    if isinstance(data, ScalarTensor):
        return data.tensor()
    return torch.as_tensor(data)


@implements(torch.mean)
def mean(input):
    return float(input._value) / input._N


@implements(torch.add)
def add(input, other):
    try:
        if input._N == other._N:
            return ScalarTensor(input._N, input._value + other._value)
        raise ValueError("Shape mismatch!")
    except AttributeError:
        return torch.add(ensure_tensor(input), ensure_tensor(other))


def test_scalar_tensor():
    d = ScalarTensor(5, 2)
    assert torch.mean(d) == 0.4
    s = ScalarTensor(2, 2)
    assert repr(torch.add(s, s)) == "ScalarTensor(N=2, value=4)"
    t = torch.tensor([[1, 1], [1, 1]])
    assert torch.add(s, t).tolist() == torch.add(t, s).tolist() == [[3, 1], [1, 3]]
    with pytest.raises(TypeError, match="no implementation found for 'mul' on types that"):
        torch.mul(s, 3)
    assert (t + s).tolist() == [[3, 1], [1, 3]]


class MetadataTensor:
    def __init__(self, data, metadata=None, **kwargs):
        self._t = torch.as_tensor(data, **kwargs)
        self._metadata = metadata

    def __repr__(self):
        return f"Metadata:\n{self._metadata}\n\ndata:\n{self._t}"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if kwargs is None:
            kwargs = {}
        metadatas = tuple(a._metadata for a in args if hasattr(a, "_metadata"))
        args = [getattr(a, "_t", a) for a in args]
        assert len(metadatas) > 0
        ret = func(*args, **kwargs)
        return MetadataTensor(ret, metadata=metadatas[0])


def test_metadata_tensor():
    metadata = {"owner": "Ministry of Silly Walks"}
    m = MetadataTensor([[1, 2], [3, 4]], metadata=metadata)
    t = torch.tensor([[1, 2], [1, 2]])
    for result in (torch.add(t, m), torch.mul(t, m)):
        assert result._metadata is metadata
    assert torch.add(t, m)._t.tolist() == [[2, 4], [4, 6]]


class LoggingTensor(torch.Tensor):
    seen: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is not torch.Tensor.__repr__:
            cls.seen.append((func.__name__, types, args, kwargs))
        if kwargs is None:
            kwargs = {}
        return super().__torch_function__(func, types, args, kwargs)


def test_logging_tensor():
    LoggingTensor.seen.clear()
    x = torch.ones(2).as_subclass(LoggingTensor)
    y = torch.sum(x * 2, dim=0, keepdim=True)
    assert type(y) is LoggingTensor
    assert y.tolist() == [4]
    mul, total = LoggingTensor.seen
    assert mul[:2] == ("mul", (LoggingTensor,))
    assert mul[2][0] is x
    assert mul[2][1] == 2
    assert total[0] == "sum"
    assert total[3] == {"dim": 0, "keepdim": True}
    x.add_(1)
    assert LoggingTensor.seen[-1][0] == "add_"
    assert x.tolist() == [2, 2]


def test_derived_classes_are_asked_first():
    asked = []

    class First(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(cls.__name__)
            return NotImplemented

    class Second(First):
        pass

    x, y = torch.ones(1).as_subclass(First), torch.ones(1).as_subclass(Second)
    with pytest.raises(TypeError, match="no implementation found"):
        x + y
    assert asked == ["Second", "First"]


def test_disabled():
    x = torch.ones(1).as_subclass(LoggingTensor)
    LoggingTensor.seen.clear()
    with DisableTorchFunctionSubclass():
        y = x + 1
    assert type(y) is torch.Tensor
    assert not LoggingTensor.seen


def test_a_function_of_ones_own():
    def double(x):
        if has_torch_function((x,)):
            return handle_torch_function(double, (x,), x)
        return x * 2

    HANDLED_FUNCTIONS[double] = lambda x: ScalarTensor(x._N, 2 * x._value)
    assert double(torch.ones(1)).item() == 2
    assert double(ScalarTensor(2, 3))._value == 6

    @wrap_torch_function(lambda x: (x,))
    def triple(x):
        return x * 3

    HANDLED_FUNCTIONS[triple] = lambda x: "three"
    assert triple(ScalarTensor(2, 3)) == "three"
    assert triple(torch.ones(1)).item() == 3


def test_questions():
    assert is_tensor_like(torch.ones(1))
    assert is_tensor_like(ScalarTensor(1, 1))
    assert not is_tensor_like([1])
    assert torch.exp in get_overridable_functions()[torch.Tensor]
    assert is_tensor_method_or_property(torch.Tensor.exp)
    assert resolve_name(torch.exp) == "torch.exp"
    assert resolve_name(print) is None


@pytest.mark.parametrize("oracle", [False, True])
def test_the_same_in_pytorch(oracle):
    """What decides the class of a result there decides it here."""
    from tests.oracle import require_torch

    library = require_torch() if oracle else torch

    class One(library.Tensor):
        pass

    class Two(One):
        pass

    one, two = library.ones(2).as_subclass(One), library.ones(2).as_subclass(Two)
    seen = [
        type(result).__name__
        for result in (one + 1, one + two, one[0], one.sum(), one.max(0)[0], one.detach(),
                     library.zeros_like(one), library.nn.Parameter(library.ones(2)) + 1,
                     library.nn.Linear(2, 2)(one), one.data, one.add_(1), one.to("cpu"))
    ]  # fmt: skip
    assert seen == ["One", "Two", "One", "One", "One", "One", "One", "Tensor", "One", "One",
                    "One", "One"]  # fmt: skip


class Doubled(overrides.TorchFunctionMode):
    """Returns what an op returns, times two, and notes its name."""

    def __init__(self, seen):
        self.seen = seen  # without a call of the base class's own __init__

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {})) * 2


def test_a_mode_gets_every_op():
    seen = []
    x = torch.ones(3, requires_grad=True)
    with Doubled(seen):
        y = torch.sum(x, dim=0, keepdim=True)
    assert y.tolist() == [6.0] and seen == ["sum"]
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    with Doubled(seen), Doubled(seen):  # the outer one is open inside of the inner
        assert torch.exp(torch.zeros(1)).tolist() == [8.0]
    assert seen == ["sum", "exp", "exp", "mul"]


def test_a_mode_is_closed_after_an_error_and_without_a_method():
    with (
        pytest.raises(NotImplementedError, match="TorchFunctionMode does not define"),
        overrides.TorchFunctionMode(),
    ):
        torch.ones(2) + 1
    assert (torch.ones(2) + 1).tolist() == [2.0, 2.0]


def test_a_mode_sees_what_pytorchs_sees():
    theirs = require_torch()
    names = {}
    for library, base in ((torch, overrides), (theirs, theirs.overrides)):

        class Names(base.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                names.setdefault(library.__name__, []).append(func.__name__.strip("_"))  # noqa: B023
                return func(*args, **(kwargs or {}))

        x = library.ones(2, 3)
        with Names():
            (library.exp(x) @ x.t()).sum()
    assert names["edutorch"] == [name for name in names["torch"] if name != "rmatmul"]
