"""`backend="jax"` where JAX is not installed: NumPy stands in for it, behind the same face.

What is tested is our side: which function is called with which arrays, and what is refused.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import math
import operator
import types

import numpy as np
import pytest

import edutorch as torch
from edutorch import backends, fx
from edutorch.backends import xla as xla_backend
from edutorch.backends.xla import XlaBackend
from edutorch.backends.xla_array import XlaArray, XlaError, XlaNumber, unwrap
from edutorch.compilation import pipeline, xla, xla_functions
from edutorch.compilation.xla import Xla
from edutorch.errors import MissingExtraError
from edutorch.fx import primitives
from edutorch.fx.interpreter import run_on_arrays
from tests.compilation.graphs import Random, graph_of
from tests.compilation.test_lower import losses


class Array(np.ndarray):
    """An array that nobody can write into, with JAX's `at`."""

    def __getitem__(self, index):
        return immutable(np.asarray(self)[index])

    def __setitem__(self, index, values):
        raise TypeError("JAX arrays are immutable")

    @property
    def at(self):
        return At(self)


class At:
    def __init__(self, array, index=None):
        self.array, self.index = array, index

    def __getitem__(self, index):
        return At(self.array, index)

    def set(self, values):
        array = np.array(self.array)
        array[self.index] = values
        return immutable(array)

    def add(self, values):
        array = np.array(self.array)
        np.add.at(array, self.index, values)
        return immutable(array)


def immutable(x):
    return np.array(x).view(Array)


class JaxNumpy:
    def __getattr__(self, name):
        result = getattr(np, name)
        if isinstance(result, type) or not callable(result) or isinstance(result, np.ufunc):
            return result
        return lambda *args, **kwargs: frozen(result(*args, **kwargs))


def frozen(x):
    if isinstance(x, tuple | list):
        return type(x)(map(frozen, x))
    return immutable(x) if isinstance(x, np.ndarray) else x


@pytest.fixture(autouse=True)
def jax(monkeypatch):
    """The part of JAX that is used."""
    wide = []

    @contextlib.contextmanager
    def enable_x64(on):
        wide.append(on)
        yield

    library = types.SimpleNamespace(
        numpy=JaxNumpy(), errors=types.SimpleNamespace(JAXTypeError=TypeError), jit=Jitted,
        enable_x64=enable_x64, wide=wide, device_put=immutable,
        ShapeDtypeStruct=lambda shape, dtype: immutable(np.ones(shape, dtype)),
    )  # fmt: skip
    for module in (xla, xla_backend, xla_functions):
        monkeypatch.setattr(module, "import_jax", lambda: library)
    for module in (xla, pipeline):
        monkeypatch.setattr(module, "require_jax", lambda: None)
    return library


class Jitted:
    """A program that is traced when it is lowered, and again in each call."""

    def __init__(self, function, **settings):
        self.function, self.settings = function, settings

    def lower(self, *examples):
        self.function(*examples)
        return self

    def compile(self):
        return lambda *arguments: self.function(
            *([frozen(np.asarray(x)) for x in argument] for argument in arguments)
        )

    def as_text(self):
        return f"a program {self.settings}"


def check(graph, arrays):
    lowered = Xla(graph)
    with np.errstate(all="ignore"):
        result, wanted = lowered(arrays), run_on_arrays(graph)(arrays)
    for one, right in zip(result, wanted, strict=True):
        assert type(one) is np.ndarray and one.flags.writeable
        assert one.dtype == np.asarray(right).dtype
        np.testing.assert_allclose(one, right, rtol=1e-5, atol=1e-5)
    return lowered


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed, jax):
    specs = [((4, 6), "float64"), ((6,), "float64"), ((4, 1), "float64")]
    draw = np.random.default_rng(seed)
    arrays = [draw.normal(size=shape) for shape, _ in specs]
    check(graph_of(Random(seed).build, specs), arrays)
    assert jax.wide == [True, True]  # to compile, and to run


def test_definitions_that_write_into_what_they_made():
    graph = graph_of(losses, [((6, 4), "float32"), ((6,), "int64")])
    x = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    lowered = check(graph, [x, np.array([0, 2, 3, 1, 1, 0])])
    assert lowered.code == "a program {'donate_argnums': 0}"
    assert "XLA fuses by itself" in lowered.explain()


def of_calls(*calls):
    """A graph of functions that are no ops, each of an array of shape (3, 4)."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    number = graph.placeholder("number")
    x.meta.update(shape=(3, 4), dtype=np.dtype("float64"))
    number.meta["number"] = True
    nodes = []
    for target, args, meta in calls:
        args = tuple({"x": x, "number": number}.get(argument, argument) if isinstance(argument, str)
                     else nodes[argument[0]] if isinstance(argument, list) else argument
                     for argument in args)  # fmt: skip
        node = graph.call_function(target, args, {})
        node.meta.update(meta)
        nodes.append(node)
    graph.output(tuple(nodes))
    return graph


ROW = np.array([1.0, 2.0, 3.0, 4.0])
CALLS = {
    "taken": (primitives.take, ("x", (slice(None), 1)), lambda x: x[:, 1]),
    "taken by arrays": (primitives.take, ("x", np.array([2, 0])), lambda x: x[[2, 0]]),
    "copied": (primitives.copy, ("x",), lambda x: x),
    "converted": (primitives.cast, ("x", np.dtype("int32")), lambda x: x.astype("int32")),
    "filled": (primitives.fill_like, ("x", 2.5), lambda x: np.full((3, 4), 2.5)),
    "written": (primitives.set_item, ("x", 1, ROW),
                lambda x: np.stack([x[0], ROW, x[2]])),
    "added": (primitives.scatter_add, ("x", np.array([0, 0]), ROW),
              lambda x: np.stack([x[0] + 2 * ROW, x[1], x[2]])),
    "a function of NumPy": (np.arctan2, ("x", 2.0), lambda x: np.arctan2(x, 2)),
    "of its own name": (np.flip, ("x",), np.flip),
    "an operator": (operator.mul, ("x", "x"), lambda x: x * x),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_functions_that_are_no_ops(name):
    target, args, expected = CALLS[name]
    x = np.random.default_rng(0).normal(size=(3, 4))
    (result,) = Xla(of_calls((target, args, {})))([x, 0.5])
    np.testing.assert_allclose(result, expected(x))
    assert result.dtype == expected(x).dtype


def test_numbers_are_numbers():
    number = {"number": True}
    graph = of_calls(
        (math.pow, ("number", 2.0), number), (math.asin, ("number",), number),
        (math.atan, ("number",), number), (operator.add, ("number", 1), number),
        (primitives.take, ("x", (0, 0)), {}), (primitives.item, ([4],), number),
        (primitives.as_array, ("number", np.dtype("float32")), {}),
    )  # fmt: skip
    x = np.arange(12.0).reshape(3, 4) + 7
    power, arcsine, arctangent, total, _, item, array = Xla(graph)([x, 0.5])
    assert (power, total, item) == (0.25, 1.5, 7.0)
    assert (arcsine, arctangent) == pytest.approx((math.asin(0.5), math.atan(0.5)))
    assert array.item() == 0.5 and array.shape == ()
    assert all(type(output) is float for output in (power, arcsine, arctangent, total, item))


def test_parts_and_shapes():
    def build(call, x):
        from edutorch.ops.indexing import getitem
        from edutorch.ops.views import expand, reshape, unsqueeze

        return [
            call(getitem, x, index=(slice(1, 3), 0)), call(getitem, x, index=(1,)),
            call(reshape, x, shape=(6, 2)), call(unsqueeze, x, dim=1),
            call(expand, call(unsqueeze, x, dim=0), size=(2, 3, 4)),
        ]  # fmt: skip

    check(graph_of(build, [((3, 4), "float32")]), [np.arange(12, dtype="float32").reshape(3, 4)])


# Arrays -------------------------------------------------------------------------------------------


@pytest.fixture
def backend():
    return XlaBackend()


def test_an_array_is_what_definitions_expect(backend):
    array = immutable(np.arange(6).reshape(2, 3) - 2)
    x, other = backend.wrap(array), backend.wrap(immutable(np.full((2, 3), 2)))
    assert (x.shape, x.ndim, x.size, len(x)) == ((2, 3), 2, 6, 2)
    assert (x.dtype, x.itemsize, x.strides) == (np.dtype("int64"), 8, (24, 8))
    for name in "add sub mul truediv floordiv mod lt le gt ge eq ne and_ or_ xor".split():
        function = getattr(operator, name)
        for right, plain in ((other, np.full((2, 3), 2)), (2, 2)):
            np.testing.assert_array_equal(function(x, right).values, function(array, plain))
    powers = immutable(np.arange(1, 7).reshape(2, 3))
    for name in "sub floordiv mod lshift rshift pow".split():  # a number on the left
        function = getattr(operator, name)
        expected = function(20, np.asarray(powers))
        np.testing.assert_array_equal(function(20, backend.wrap(powers)).values, expected)
    for name in "neg pos abs invert".split():
        function = getattr(operator, name)
        np.testing.assert_array_equal(function(x).values, function(array))
    np.testing.assert_array_equal((x @ x.T).values, array @ array.T)
    np.testing.assert_array_equal(x.sum(axis=1).values, array.sum(1))
    assert backends.of(x) is backend and backends.is_array(x)
    assert torch.exp(x).dtype == np.float32  # the public op takes it


def test_writes_into_views_are_seen_in_the_whole(backend):
    array = immutable(np.zeros((2, 3)))
    x = backend.wrap(array)
    x[0, 1] = 5.0
    x[1] = backend.wrap(immutable(ROW[:3]))
    x[0][2] = 7.0
    x.T[0, 0] = 9.0
    row = x.reshape(-1)
    row[3:5] += 10
    row[np.array([5])][0] = -1  # into a copy
    assert x.values.tolist() == [[9, 5, 7], [11, 12, 3]]
    assert row.values.tolist() == [9, 5, 7, 11, 12, 3]
    assert not array.any()
    with pytest.raises(XlaError, match="writes into a view that XLA cannot write"):
        backend.broadcast_to(x[:1], (4, 3))[0, 0] = 1


def test_values_are_not_known_while_a_definition_is_traced(backend):
    x = backend.wrap(immutable(1.0))
    for read in (
        bool,
        float,
        int,
        operator.index,
        np.asarray,
        lambda x: x.item(),
        backend.to_numpy,
    ):
        with pytest.raises(XlaError, match="its definition reads"):
            read(x)
    with pytest.raises(XlaError, match="reads a value"):
        bool(XlaNumber(immutable(1.0)))


def test_numbers_take_the_dtype_of_the_array_beside_them(backend):
    rate = XlaNumber(immutable(0.5)) * 2 + 1
    x = backend.wrap(immutable(np.ones(2, "float32")))
    for y in (x * rate, rate * x, backend.xp.multiply(x, rate)):
        assert y.dtype == np.float32 and y.values.tolist() == [2, 2]
    assert (backend.wrap(immutable(np.ones(2, int))) * rate).dtype == np.float64


def test_checks_become_flags(backend):
    index = backend.wrap(immutable(np.array([0, 4])))
    rows = backend.wrap(immutable(np.ones((4, 2))))
    torch.index_select(rows, 0, index)
    assert [bool(failed) for failed in backend.failures] == [True]


def test_arrays_are_taken_out_at_any_depth(backend):
    array = immutable(ROW)
    x = backend.wrap(array)
    plain = unwrap({"a": [(x, 1)], "b": (slice(x, None), x)})
    assert plain["a"][0] == (array, 1) or plain["a"][0][0] is array
    assert plain["b"][0].start is array and plain["b"][1] is array
    pair = backend.xp.linalg.slogdet(backend.wrap(immutable(ROW.reshape(2, 2))))
    assert type(pair) is type(np.linalg.slogdet(np.eye(2))) and type(pair[0]) is XlaArray


# What is refused ----------------------------------------------------------------------------------


def test_what_xla_cannot_do_is_named():
    with pytest.raises(XlaError, match="len has no counterpart in JAX"):
        Xla(of_calls((len, ("x",), {})))
    with pytest.raises(XlaError, match=r"(?s)`\w+` cannot be run by XLA: .*backend=\"edutorch\""):
        Xla(of_calls((operator.matmul, ("x", "x"), {})))


def test_jax_that_is_missing_or_old_is_told_when_compile_is_called(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "edutorch\[jax\]"'):
        torch.compile(len, backend="jax")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "there")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.4.30")
    with pytest.raises(MissingExtraError, match=r"jax 0\.4\.30 is older than 0\.7"):
        torch.compile(len, backend="jax")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.10.2")
    torch.compile(len, backend="jax")


def test_a_function_is_compiled():
    compiled = torch.compile(lambda x: (x * 1.5).exp(), backend="jax")
    x = torch.linspace(0, 1, 5)
    for _ in range(3):
        assert torch.allclose(compiled(x), (x * 1.5).exp())
    assert len(compiled.entries) == 1 and not compiled.broken
