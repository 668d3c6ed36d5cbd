"""Fused is unfused is the definitions, whatever the graph, the shapes and the numbers."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edutorch
from edutorch.compilation.kernel_cache import wait_for_all
from edutorch.compilation.pipeline import lower
from edutorch.compilation.symbols import SymbolicArray, UnsupportedDefinitionError
from edutorch.compilation.values import FUNCTIONS, Value
from edutorch.fx.interpreter import run_on_arrays
from edutorch.ops.reduction import logsumexp
from tests import golden_code
from tests.compilation.graphs import Random, graph_of
from tests.kernels.conftest import kernels_are_made  # noqa: F401  (used by all tests here)

pytest.importorskip("numba")

SHAPES = [(), (5,), (3, 4), (2, 3, 4), (70, 6), (9000,), (0, 3), (1, 1)]


def inputs_for(seed: int, dtype: str) -> tuple[list, list]:
    choose, draw = random.Random(seed), np.random.default_rng(seed)
    base = choose.choice(SHAPES)
    shapes = [base]
    for _ in range(2):
        ones = (1,) * len(base)
        shapes.append(choose.choice([base, base[-1:], ones, (*base[:-1], 1) if base else (), ()]))
    arrays = []
    for shape in shapes:
        array = draw.normal(size=shape).astype(dtype)
        if len(shape) > 1 and choose.random() < 0.3:
            array = np.asfortranarray(array)
        arrays.append(array)
    return [(shape, dtype) for shape in shapes], arrays


def assert_close(actual: np.ndarray, wanted: np.ndarray) -> None:
    wanted = np.asarray(wanted)
    assert isinstance(actual, np.ndarray)
    assert actual.shape == wanted.shape
    assert actual.dtype == wanted.dtype
    if wanted.dtype.kind in "bi":
        assert np.mean(actual != wanted) <= 0.02 or wanted.size < 50  # next to a border
        return
    finite = np.abs(wanted[np.isfinite(wanted)])
    digits = 3e-4 if wanted.dtype == np.float32 else 1e-6
    scale = max(1.0, float(finite.max(initial=0)))
    np.testing.assert_allclose(actual, wanted, rtol=digits, atol=digits * scale)


@settings(max_examples=14, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), dtype=st.sampled_from(["float32", "float64"]))
def test_random_graphs(seed, dtype):
    specs, arrays = inputs_for(seed, dtype)
    try:
        graph = graph_of(Random(seed).build, specs)
    except ValueError:  # an extreme of nothing: no graph
        return
    before = [array.copy() for array in arrays]
    with np.errstate(all="ignore"):
        wanted = run_on_arrays(graph)(arrays)
        plain = lower(graph, fuse=False)(arrays)
        lowered = lower(graph, wait=True, fuse=True)
        once, again = lowered(arrays), lowered(arrays)
    assert not [kernel.failed for kernel in lowered._kernels.values() if kernel.failed]
    for one, other, third, right in zip(plain, once, again, wanted, strict=True):
        assert_close(one, right)
        assert_close(other, right)
        np.testing.assert_array_equal(other, third)
        mine = any(np.shares_memory(other, array) for array in arrays)
        assert mine or not np.shares_memory(other, third)
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)


def chain(call, x, y):
    z = call(edutorch.maximum, call(edutorch.mul, x, y), call(edutorch.exp, x))
    s = call(edutorch.softmax, z, dim=1)
    return [z, s, call(edutorch.sum, s, dim=(0,)), call(logsumexp, z, dim=(1,))]


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
def test_strange_numbers_come_out_as_in_the_definitions(strange):
    graph = graph_of(chain, [((4, 130), "float32"), ((130,), "float32")])
    x = np.random.default_rng(0).normal(size=(4, 130)).astype("float32")
    x[1, 77] = strange
    y = np.ones(130, "float32")
    with np.errstate(all="ignore"):
        wanted = run_on_arrays(graph)([x, y])
        actual = lower(graph, wait=True, fuse=True)([x, y])
    for one, right in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(one, right, rtol=1e-5, atol=1e-6)


def test_what_is_fused_is_one_kernel_and_says_so():
    graph = graph_of(chain, [((4, 130), "float32"), ((130,), "float32")])
    lowered = lower(graph, wait=True, fuse=True)
    assert len(lowered.fused) == 1
    (kernel,) = lowered.fused
    assert {result.node.name for result in kernel.results} == {
        "maximum",
        "softmax",
        "sum_1",
        "logsumexp",
    }
    text = str(lowered.explain())
    assert "1 fused kernels" in text
    assert "mul" in text and "softmax" in text and "compiled" in text
    before, after = lowered.explain().moved
    assert after < before / 3
    assert "<table>" in lowered.explain()._repr_html_()
    assert "def fused_0(start, stop" in lowered.code
    assert "exp(" in lowered.code


def test_what_is_not_fused_has_a_reason():
    def build(call, x, n):
        return [call(edutorch.sin, x), call(edutorch.cumsum, x, dim=0), call(edutorch.add, n, n)]

    graph = graph_of(build, [((1000,), "float32"), ((1000,), "int32")])
    reasons = dict(lower(graph, wait=True, fuse=True).explain().alone)
    assert "not vectorized" in reasons["sin"]
    assert "cumsum" in reasons
    assert "int32" in reasons["add"]


def test_equal_kernels_are_compiled_once():
    def build(call, x, y):
        return [
            call(edutorch.mul, call(edutorch.add, tensor, 1.0), 2.0) for tensor in (x, y)
        ]  # fmt: skip

    graph = graph_of(build, [((300,), "float32"), ((20, 40), "float32")])
    first, second = lower(graph, wait=True, fuse=True)._kernels.values()
    other = graph_of(build, [((500,), "float32"), ((7, 9), "float32")])
    third, _ = lower(other, wait=True, fuse=True)._kernels.values()
    assert first is third
    assert first is not second  # one and two axes are two types of array


def test_integers_and_bools():
    def build(call, n, x):
        odd = call(edutorch.eq, n, 3)
        return [
            call(edutorch.where, odd, x, 0.0), call(edutorch.add, n, n),
            call(edutorch.logical_and, odd, odd),
        ]  # fmt: skip

    graph = graph_of(build, [((6,), "int64"), ((6,), "float64")])
    arrays = [np.arange(6), np.linspace(-1, 1, 6)]
    actual = lower(graph, wait=True, fuse=True)(arrays)
    for one, right in zip(actual, run_on_arrays(graph)(arrays), strict=True):
        np.testing.assert_array_equal(one, right)
        assert one.dtype == right.dtype


def test_float32_is_rounded_after_each_step():
    def build(call, x):
        y = x
        for factor in (3.3, 1e30, 1e30, 1e-30):
            y = call(edutorch.mul, y, factor)
        return [y]

    graph = graph_of(build, [((), "float32")])
    (actual,) = lower(graph, wait=True, fuse=True)([np.array(1.1, "float32")])
    assert actual.dtype == np.float32
    assert np.isinf(actual)  # as float64 it would be 3.6e30


FEW_INSTRUCTIONS = (
    "add subtract multiply divide negative positive absolute fabs square sqrt reciprocal maximum "
    "minimum sign copysign floor ceil trunc rint isnan isfinite isinf less less_equal greater "
    "greater_equal equal not_equal logical_and logical_or logical_not bitwise_and bitwise_or "
    "bitwise_xor invert where cast fill"
)


def test_functions_of_many_instructions_say_what_they_cost():
    """A kernel's work is their sum, and decides whether several threads share it."""
    cheap = {name for name, function in FUNCTIONS.items() if function.costs < 10}
    assert cheap == set(FEW_INSTRUCTIONS.split())


def test_numbers_of_rows_that_lie_in_another_order():
    graph = graph_of(golden_code.numbers_of_rows, golden_code.ROW_SPECS)
    draw = np.random.default_rng(0)
    arrays = [draw.normal(size=shape).astype(dtype) for shape, dtype in golden_code.ROW_SPECS]
    lowered = lower(graph, wait=True, fuse=True)
    assert len(lowered.fused) == 1 and not lowered._kernels["fused_0"].failed
    for actual, wanted in zip(lowered(arrays), run_on_arrays(graph)(arrays), strict=True):
        assert_close(actual, wanted)


LAYOUTS = {
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "askew": lambda x: np.frombuffer(bytearray(b"x" + x.tobytes()), np.uint8)[1:].view(
        x.dtype).reshape(x.shape),
    "backwards": lambda x: x[::-1].copy()[::-1], "by columns": np.asfortranarray,
    "with gaps": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_kernel_takes_arrays_of_any_layout(name):
    graph = graph_of(chain, [((4, 130), "float32"), ((130,), "float32")])
    draw = np.random.default_rng(0)
    arrays = [draw.normal(size=shape).astype("float32") for shape in ((4, 130), (130,))]
    inputs = [LAYOUTS[name](array) for array in arrays]
    wanted = run_on_arrays(graph)(arrays)
    lowered = lower(graph, wait=True, fuse=True)
    for _ in range(2):
        for actual, right in zip(lowered(inputs), wanted, strict=True):
            np.testing.assert_allclose(actual, right, rtol=1e-5, atol=1e-6)
        for one, other in zip(inputs, arrays, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("axis", ["default", None, 0, 1, (0, 1)])
@pytest.mark.parametrize(
    "reduce",
    [np.add.reduce, np.maximum.reduce, np.minimum.reduce, np.sum, np.max, np.min, np.mean],
)
def test_a_reduction_has_numpys_default_axis(reduce, axis):
    settings = {} if axis == "default" else {"axis": axis}
    symbol = SymbolicArray(Value("input", None, (), (2, 3), np.dtype("float32")), Value)
    assert reduce(symbol, **settings).shape == reduce(np.ones((2, 3)), **settings).shape


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", [np.log, np.reciprocal, np.sqrt])
def test_numbers_alone_are_computed_without_warnings(function):
    dtype = np.dtype("float32")
    for number in (0.0, -1.0):
        symbol = SymbolicArray(Value("element", "fill", (dtype.type(number),), (), dtype), Value)
        with np.errstate(all="ignore"):
            wanted = function(dtype.type(number))
        np.testing.assert_array_equal(function(symbol).value.operands[0], wanted)


def test_a_product_with_settings_is_left_to_numpy():
    symbol = SymbolicArray(
        Value("input", None, (), (2, 2), np.dtype("float32")), lambda *parts: parts
    )
    with pytest.raises(
        UnsupportedDefinitionError, match=r"np\.matmul\.__call__ has no place in a kernel"
    ):
        np.matmul(symbol, symbol, dtype=np.float64)
    with pytest.raises(
        UnsupportedDefinitionError, match=r"np\.add\.accumulate has no place in a kernel"
    ):
        np.add.accumulate(symbol)
    with pytest.raises(
        UnsupportedDefinitionError, match=r"np\.add\.__call__ has no place in a kernel"
    ):
        np.add(symbol, 1.0, where=True)
    with pytest.raises(UnsupportedDefinitionError, match="needs the array itself"):
        np.asarray(symbol)


def test_an_op_that_nothing_is_fused_with_keeps_its_own_kernel():
    x = edutorch.randn(40, 300)

    def alone(x):
        return edutorch.softmax(x @ x.T, 0) @ x

    compiled = edutorch.compile(alone)
    compiled(x)
    assert "softmax_1(matmul, 0" in compiled.code
    np.testing.assert_allclose(compiled(x).numpy(), alone(x).numpy(), rtol=1e-5)
    fused = edutorch.compile(lambda x: edutorch.softmax(x * 2, 1))
    fused(x)
    assert "softmax_1(" not in fused.code


def test_a_function_of_one_op_runs_as_it_is_written():
    compiled = edutorch.compile(lambda x: edutorch.sigmoid(x) if x.ndim else x)
    straight = edutorch.compile(lambda x: edutorch.sigmoid(x))
    for x in [*[edutorch.randn(70, 70)] * 12, *[edutorch.randn(30, 40)] * 80]:
        for function in (compiled, straight):
            np.testing.assert_allclose(function(x).numpy(), edutorch.sigmoid(x).numpy(), rtol=1e-6)
    assert compiled.unchecked
    assert len(compiled.entries) == 2  # it was seen that the shape is another one
    assert straight.__call__ is straight.function  # without a branch: nothing is looked at
    straight.reset()
    assert straight(x).shape == (30, 40)
    assert straight.entries


@pytest.mark.parametrize("name", ["x.amax(0)", "x.t()", "x[1]", "x.topk(2)[0]", "x[x > 0]"])
def test_views_and_ops_that_cannot_be_compiled_run_as_they_are_written(name):
    x = edutorch.randn(40, 30, requires_grad=True)
    function = eval(f"lambda x: {name}")
    compiled = edutorch.compile(function)
    with warnings.catch_warnings(action="ignore"):
        results = [compiled(x) for _ in range(10)]
    assert compiled.entries[0].runs_function == (name != "x.amax(0)")  # its rule has no kernel
    for result in results:
        assert result.tolist() == function(x).tolist()


def test_only_what_is_below_its_maximum_is_taken_for_it():
    x = edutorch.randn(300, 300) * 9
    x[1, 2], x[2, 3], x[3] = edutorch.nan, -edutorch.inf, -edutorch.inf
    for function, name in [
        (lambda x: edutorch.exp(2 * x - (2 * x).amax(1, keepdim=True)), "exp_nonpositive"),
        (lambda x: edutorch.exp(2 * x - (2 * x).amax(1)), " exp("),
    ]:
        compiled = edutorch.compile(function)
        compiled(x)
        wait_for_all()
        assert name in compiled.code
        with np.errstate(all="ignore"):
            expected = function(x).numpy()
            np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("size", [300, 20_000])
def test_functions_of_a_known_sign_are_part_of_a_kernel(size):
    """With a minimum or an absolute value inside, expm1 and log1p are vectorized."""
    x = edutorch.randn(size)
    x[:6] = edutorch.tensor([edutorch.nan, edutorch.inf, -edutorch.inf, -0.0, -1e-9, -200.0])
    for function, name in [
        (lambda x: edutorch.nn.functional.elu(x, 0.7) * 2, "expm1_nonpositive("),
        (lambda x: edutorch.log1p(edutorch.exp(-abs(x))) * 2, "log1p_small("),
    ]:
        compiled = edutorch.compile(function)
        compiled(x)
        wait_for_all()
        assert name in compiled.code
        np.testing.assert_allclose(compiled(x).numpy(), function(x).numpy(), rtol=1e-6, atol=1e-37)


def test_a_loss_of_a_large_softmax_runs_as_it_is_written():
    def function(x, y):
        return edutorch.nn.functional.cross_entropy(x, y)

    compiled = edutorch.compile(function)
    for rows, runs_function in ((20, False), (300, True)):
        x, y = edutorch.randn(rows, 200, requires_grad=True), edutorch.randint(0, 200, (rows,))
        compiled(x, y)
        assert compiled.entries[0].runs_function == runs_function
        assert compiled(x, y).item() == pytest.approx(function(x, y).item(), rel=1e-5)


def test_a_table_that_the_function_makes_is_made_once():
    x = edutorch.randn(60)
    compiled = edutorch.compile(lambda x: x + edutorch.tensor([i**2.0 for i in range(60)]))
    for _ in range(3):
        assert compiled(x).tolist() == (x + edutorch.arange(60.0) ** 2).tolist()
    assert not compiled.entries[0].runs_function
