"""Kernels written from formulas equal their definitions, for all shapes, strides and dtypes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

pytest.importorskip("numba", reason="needs numba: the extra `fast`")

import edutorch as torch
from edutorch.backends import kernel_registry, reference_only
from edutorch.core.registry import REGISTRY
from edutorch.kernels.cpu import elementwise
from edutorch.kernels.formulas import NEVER, formula_of, worthwhile_size
from tests.trials import tried

KERNELS = {
    "lt": (), "addcmul": (1,), "addcmul/tensor1": (0.5,), "lerp": (), "fmod": (), "remainder": (),
    "hypot": (), "hypot/input": (), "maximum/input": (), "clamp": (), "where": (), "logaddexp": (),
    "atan2": (), "pow": (), "sin": (), "sign": (), "round": (0,), "fmax": (), "div/other": (None,),
    "floor_divide": (),
}  # fmt: skip
"""Conditions, settings, three operands, rules, NumPy's own loops, operands that are bool."""

ONE_STEP = {
    "floor_divide",
    "lt",
    "fmod",
    "remainder",
    "hypot",
    "logaddexp",
    "atan2",
    "pow",
    "sin",
    "round",
}
"""One function of NumPy's, which chooses the order of axes; of several, each one chooses."""

MODERATE = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -2.5, 0.5]
SPECIAL = [*MODERATE, 3e38, 1e10]  # not where a product and a sum are rounded once (FMA)
_made = {}


def kernel(key):
    if key not in _made:
        _made[key] = elementwise.formula_kernel(key)
    return _made[key]


@some.composite
def operand(draw, shape, dtype, special):
    """An array that broadcasts to a shape: with axes of size 1, missing ones, gaps, transposed."""
    sizes = [draw(some.sampled_from([size, size, 1])) for size in shape]
    sizes = sizes[draw(some.integers(0, len(shape))) :] if draw(some.booleans()) else sizes
    step = draw(some.sampled_from([1, 1, 2, -1]))
    order = draw(some.permutations(range(len(sizes))))
    seed = draw(some.integers(0, 99))
    generator = np.random.default_rng(seed)
    memory = np.asarray(generator.normal(size=[sizes[axis] * abs(step) for axis in order]) * 2)
    memory[generator.random(memory.shape) < 0.2] = generator.choice(special)
    with np.errstate(over="ignore"):
        array = memory.astype(dtype).transpose(np.argsort(order))
    return np.asarray(array[tuple([slice(None, None, step)] * len(sizes))])


@tried("key", KERNELS)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=some.data())
def test_any_operands(key, data):
    shape = data.draw(some.lists(some.sampled_from([0, 1, 2, 3, 7, 40, 300]), max_size=3))
    shape = shape if np.prod(shape) < 40_000 else shape[:2]
    dtype = data.draw(some.sampled_from([np.float32, np.float64]))
    formula, special = formula_of(key), SPECIAL if key in ONE_STEP else MODERATE
    values = [
        None if name == "node"
        else data.draw(operand(shape, bool if name == "condition" else dtype, special))
        for name in formula.arrays
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        result = kernel(key)(*values, *KERNELS[key])
        expected = np.asarray(formula.compute(*values, *KERNELS[key]))
    if key == "pow" and values[1].size == 1:
        return  # where it is one number, it chooses the formula
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    layouts = {(value.shape, value.strides) for value in values if value is not None}
    if key in ONE_STEP and len(layouts) == 1:  # where operands disagree, the order may be another
        steps = [
            [step for size, step in zip(array.shape, array.strides, strict=True) if size > 1]
            for array in (result, expected)
        ]
        assert steps[0] == steps[1]
    tolerance = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * 8)


@pytest.mark.parametrize("target", ["bfloat16", "float16", "float64", "bool"])
def test_conversions_are_those_of_numpy(target):
    x = np.random.default_rng(0).normal(size=(300, 301)).astype(np.float32) * 100
    x[0, : len(SPECIAL)] = SPECIAL
    for array in (x, x.T, x[:, ::2]):
        tensor = torch.from_numpy(array)
        fast = tensor.to(getattr(torch, target))
        with reference_only():
            slow = tensor.to(getattr(torch, target))
        np.testing.assert_array_equal(fast.float().numpy(), slow.float().numpy())
        assert fast.stride() == slow.stride()


@pytest.mark.parametrize("name", ["add", "div", "lt"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_floats_are_rounded_once(name, dtype):
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(300, 300, generator=generator).to(getattr(torch, dtype)) for _ in range(2))
    fast = getattr(torch, name)(x, y[0])
    with reference_only():
        slow = getattr(torch, name)(x, y[0])
    assert fast.dtype is slow.dtype
    assert torch.equal(fast, slow)


def test_a_loss_does_not_depend_on_the_number_of_threads():
    x = torch.randn(300_000, generator=torch.Generator().manual_seed(0))
    losses, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            losses.append(torch.nn.functional.huber_loss(x, x.flip(0)).item())
    finally:
        torch.set_num_threads(threads)
    exact = x.double()
    assert len(set(losses)) == 1
    assert losses[0] == pytest.approx(
        torch.nn.functional.huber_loss(exact, exact.flip(0)).item(), rel=1e-6
    )


def test_every_elementwise_op_has_a_slot_and_most_have_a_formula():
    sizes = [worthwhile_size(name) for name, op in REGISTRY.items() if op.family.broadcasts]
    assert sum(size < NEVER for size in sizes) > 80
    for op in REGISTRY.values():
        if op.family.broadcasts:
            assert isinstance(op.slot, kernel_registry.Slot)


def test_a_formula_that_cannot_be_traced_is_left_to_the_definition():
    assert worthwhile_size("gcd") == NEVER
    assert elementwise.Variants("gcd").make((np.dtype("float32"),) * 2, None) is False


@pytest.mark.parametrize(
    ("key", "others"),
    [("sub", [(300, 40)]), ("sub", [(40,)]), ("mul", [2.5]), ("clamp", [-1.0, 1.0]), ("exp", [])],
)
def test_in_place(key, others):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(300, 40)).astype(np.float32)
    others = [
        generator.normal(size=other).astype(np.float32) if isinstance(other, tuple) else other
        for other in others
    ]
    formula, target = formula_of(key), x.copy()
    rest = [1] if formula.settings else []
    assert kernel(key).into(target, others)
    np.testing.assert_allclose(target, formula.compute(x, *others, *rest), rtol=1e-6)


def test_in_place_leaves_overlaps_to_numpy():
    memory = np.arange(80_000, dtype=np.float32)
    into = kernel("sub").into
    assert not into(memory[1:], [memory[:-1]])
    assert into(memory, [memory])
    assert not memory.any()


def test_a_row_and_a_column_ask_for_the_kernel(monkeypatch):
    """Each of them is small, and their product is not: as tensors, and as arrays in a rule."""
    op, asked = REGISTRY["mul"], []
    torch.mul(torch.ones(2), 1)  # its call path is written
    monkeypatch.setattr(op.slot, "run", lambda *operands: asked.append(operands))
    monkeypatch.setattr(op.slot, "min_size", 65_536)
    column, row = np.ones((300, 1), np.float32), np.ones(300, np.float32)
    torch.mul(torch.tensor(column), torch.tensor(row))
    op.function(column, row)
    assert len(asked) == 2
    op.function(row, 2.0)
    op.function(row, row)
    assert len(asked) == 2


@pytest.mark.parametrize("offset", [0, 1, 4, 13])
def test_memory_that_begins_anywhere(offset):
    """A loop begins at a cache line of the result; the elements before it come first."""
    values = np.random.default_rng(0).standard_normal(20_000).astype(np.float32)
    x, y = values[offset : offset + 9001], values[10_000:19_001]
    np.testing.assert_array_equal(kernel("sub")(x, y, 1), x - y)
    np.testing.assert_array_equal(kernel("lt")(x, y), x < y)
