"""`backend="jax"` where JAX is not installed: NumPy stands in for it, behind the same face.

What is tested is our side: which function is called with which arrays, and what is refused.
"""

from __future__ import annotations

import contextlib
import math
import operator
import sys
import types

import numpy as np
import pytest

import edutorch as torch
from edutorch import fx
from edutorch.compilation.xla import (
    Cell,
    Function,
    Functions,
    Xla,
    XlaError,
    unwrap,
    wrap_cells,
)
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
        numpy=JaxNumpy(), errors=types.SimpleNamespace(JAXTypeError=TypeError),
        jit=lambda function: lambda inputs: function([frozen(np.asarray(x)) for x in inputs]),
        enable_x64=enable_x64, wide=wide,
        ShapeDtypeStruct=lambda shape, dtype: immutable(np.ones(shape, dtype)),
        make_jaxpr=lambda function: lambda examples: f"of {[np.shape(x) for x in examples]}: "
        f"{[np.shape(x) for x in function(examples)]}",
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "jax", library)
    return library


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
    assert jax.wide == [True]


def test_definitions_that_write_into_what_they_made():
    graph = graph_of(losses, [((6, 4), "float32"), ((6,), "int64")])
    x = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    lowered = check(graph, [x, np.array([0, 2, 3, 1, 1, 0])])
    assert lowered.code == "of [(6, 4), (6,)]: [(), (6, 4), (6,), ()]"
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


# Cells --------------------------------------------------------------------------------------------


def test_a_cell_is_what_definitions_expect_of_an_array():
    array = immutable(np.arange(6).reshape(2, 3) - 2)
    cell, other = Cell(array), Cell(immutable(np.full((2, 3), 2)))
    assert (cell.shape, cell.ndim, cell.size, len(cell)) == ((2, 3), 2, 6, 2)
    assert (cell.dtype, cell.itemsize) == (np.dtype("int64"), 8)
    for name in "add sub mul truediv floordiv mod lt le gt ge eq ne and_ or_ xor".split():
        function = getattr(operator, name)
        for right, plain in ((other, np.full((2, 3), 2)), (2, 2)):
            np.testing.assert_array_equal(function(cell, right).array, function(array, plain))
    powers = immutable(np.arange(1, 7).reshape(2, 3))
    for name in "sub floordiv mod lshift rshift pow".split():  # a number on the left
        function = getattr(operator, name)
        expected = function(20, np.asarray(powers))
        np.testing.assert_array_equal(function(20, Cell(powers)).array, expected)
    for name in "neg pos abs invert".split():
        function = getattr(operator, name)
        np.testing.assert_array_equal(function(cell).array, function(array))
    np.testing.assert_array_equal(cell.T.array, array.T)
    np.testing.assert_array_equal((cell @ cell.T).array, array @ array.T)
    np.testing.assert_array_equal(cell.sum(axis=1).array, array.sum(1))
    assert bool(Cell(immutable(1))) and not bool(Cell(immutable(0)))
    complex_cell = Cell(immutable([1 + 2j]))
    assert (complex_cell.real.array, complex_cell.imag.array) == (1, 2)


def test_writing_into_a_cell_puts_another_array():
    array = immutable(np.zeros((2, 3)))
    cell = Cell(array)
    cell[0, 1] = 5.0
    cell[1] = Cell(immutable(ROW[:3]))
    assert cell.array.tolist() == [[0, 5, 0], [1, 2, 3]]
    assert not array.any()
    with pytest.raises(XlaError, match="writes into a part of an array"):
        cell[0][1] = 1.0
    assert cell[0].is_view and not cell.is_view


def test_arrays_are_put_in_and_taken_out_at_any_depth():
    array = immutable(ROW)
    deep = [(array, 1), {"a": 2}]
    closed = wrap_cells(deep[:1])
    assert type(closed[0][0]) is Cell and closed[0][1] == 1
    assert wrap_cells(closed[0][0]) is closed[0][0]
    assert unwrap({"a": closed, "b": (Cell(array),)})["b"][0] is array
    assert unwrap(closed)[0][0] is array


def test_functions_of_the_library_take_cells_and_the_rest_is_itself():
    xp = Functions(np)
    assert xp.pi == math.pi and xp.newaxis is None and xp.float32 is np.float32
    assert type(xp.linalg) is Functions
    array = immutable(ROW.reshape(2, 2))
    assert type(xp.add) is Function and type(xp.linalg.det(Cell(array))) is Cell
    np.testing.assert_array_equal(xp.add.reduce(Cell(array), axis=1).array, array.sum(1))
    pair = xp.linalg.slogdet(Cell(array))
    assert type(pair) is type(np.linalg.slogdet(np.eye(2)))
    assert unwrap(pair) == np.linalg.slogdet(np.asarray(array))
    assert pair[0].array == -1 and pair[1].array == pytest.approx(math.log(2))


# What is refused ----------------------------------------------------------------------------------


def test_what_xla_cannot_do_is_named():
    with pytest.raises(XlaError, match="len has no counterpart in JAX"):
        Xla(of_calls((len, ("x",), {})))([np.ones((3, 4)), 0.5])
    with pytest.raises(XlaError, match=r"(?s)`\w+` cannot be run by XLA: .*backend=\"edutorch\""):
        Xla(of_calls((operator.matmul, ("x", "x"), {})))([np.ones((3, 4)), 0.5])
    empty = fx.Graph()
    empty.placeholder("x").meta.update(shape=(), dtype=np.dtype("float32"))
    with pytest.raises(XlaError, match="the graph has no output"):
        Xla(empty)._traced([np.ones(())])
    random = of_calls((np.negative, ("x",), {"random": True}))
    with pytest.raises(XlaError, match="draws random numbers, which come from NumPy's"):
        Xla(random)


def test_a_function_is_compiled_and_what_fails_runs_as_it_is_written():
    compiled = torch.compile(lambda x: (x * 1.5).exp(), backend="jax")
    x = torch.linspace(0, 1, 5)
    for _ in range(3):
        assert torch.allclose(compiled(x), (x * 1.5).exp())
    assert len(compiled.entries) == 1 and not compiled.broken
