"""Ops on shapes that nobody thought of: hypothesis makes them, the same ones in each run.

Values are compared with PyTorch's, gradients with differences, or with PyTorch's where many
numbers would take long.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import edutorch
from tests.op_calls import array
from tests.oracle import require_torch

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("warnings_are_errors")]

Shape = tuple[int, ...]
some_examples = settings(
    max_examples=25, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip

SIZES = st.integers(0, 3)
SHAPES = st.lists(SIZES, max_size=4).map(tuple)
AXES = st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple)


def random_array(shape: Shape, seed: int = 0) -> np.ndarray:
    """Different numbers, none of them an integer, in some order; others for another seed."""
    count = int(np.prod(shape))
    values = (np.arange(count) + 0.37) / max(count, 1) * 4 - 2 + 0.11 * seed
    return np.random.default_rng(seed).permutation(values).reshape(shape)


def agree(function: Any, *shapes: Shape) -> None:
    """Assert that values and gradients of a function of tensors are PyTorch's.

    Args:
        function: takes a module, `torch` or `edutorch`, and a tensor for each shape.
    """
    torch = require_torch()
    arrays = [random_array(shape, seed) for seed, shape in enumerate(shapes)]
    theirs = [torch.from_numpy(array.copy()).requires_grad_() for array in arrays]
    ours = [edutorch.tensor(array, requires_grad=True) for array in arrays]
    expected, result = function(torch, *theirs), function(edutorch, *ours)
    assert tuple(result.shape) == tuple(expected.shape)
    assert str(result.dtype) == str(expected.dtype)
    np.testing.assert_allclose(array(result), array(expected), 1e-12, 1e-12)
    if not expected.requires_grad:
        assert not result.requires_grad
        return
    weights = random_array(tuple(expected.shape), 9)
    expected.backward(torch.from_numpy(weights.copy()))
    result.backward(edutorch.tensor(weights))
    for mine, their in zip(ours, theirs, strict=True):
        if their.grad is None:
            assert mine.grad is None
        else:
            np.testing.assert_allclose(array(mine.grad), array(their.grad), 1e-10, 1e-10)
    if sum(array.size for array in arrays) <= 12:
        assert edutorch.autograd.gradcheck(lambda *tensors: function(edutorch, *tensors), ours)


# Elementwise ---------------------------------------------------------------------------------


@st.composite
def broadcast_pairs(draw: Any) -> tuple[Shape, Shape]:
    """Two shapes that broadcast: axes of 1 or missing in one of them, also empty ones."""
    shape = draw(SHAPES)

    def thinned() -> Shape:
        kept = [1 if draw(st.booleans()) else size for size in shape]
        return tuple(kept[draw(st.integers(0, len(kept))) :])

    return (shape, thinned()) if draw(st.booleans()) else (thinned(), shape)


@pytest.mark.parametrize("name", ["add", "mul", "div", "sub", "maximum", "atan2", "hypot"])
@some_examples
@given(shapes=broadcast_pairs())
def test_broadcast(name, shapes):
    agree(lambda torch, a, b: getattr(torch, name)(a, b), *shapes)


@some_examples
@given(shapes=broadcast_pairs(), third=st.booleans())
def test_broadcast_of_three(shapes, third):
    def function(torch: Any, a: Any, b: Any) -> Any:
        lerped = torch.lerp(a, b, b.sigmoid() if third else a.sigmoid())
        return torch.where(a > b, torch.addcmul(lerped, a, b, value=0.5), b)

    agree(function, *shapes)


@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "sin", "relu", "neg", "square", "erf"])
@some_examples
@given(shape=SHAPES)
def test_elementwise(name, shape):
    agree(lambda torch, x: getattr(torch, name)(x), shape)


# Reductions ----------------------------------------------------------------------------------


@st.composite
def reductions(draw: Any, least: int = 0) -> tuple[Shape, tuple[int, ...], bool]:
    """A shape, some of its axes (counted from either end), and keepdim."""
    shape = tuple(draw(st.lists(st.integers(least, 3), min_size=1, max_size=4)))
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    dims = tuple(axis - (len(shape) if draw(st.booleans()) else 0) for axis in sorted(axes))
    return shape, dims, draw(st.booleans())


@pytest.mark.parametrize("name", ["sum", "mean", "logsumexp", "var"])
@some_examples
@given(asked=reductions(least=1))
def test_reductions(name, asked):
    shape, dims, keepdim = asked
    rest = {"correction": 0} if name == "var" else {}
    agree(lambda torch, x: getattr(torch, name)(x, dim=dims, keepdim=keepdim, **rest), shape)


@pytest.mark.parametrize("name", ["amax", "amin"])
@some_examples
@given(asked=reductions(least=1))
def test_extremes(name, asked):
    shape, dims, keepdim = asked
    agree(lambda torch, x: getattr(torch, name)(x, dim=dims, keepdim=keepdim), shape)


@pytest.mark.parametrize(
    "name", ["prod", "cumsum", "cumprod", "softmax", "log_softmax", "logcumsumexp", "sum"]
)
@some_examples
@given(asked=reductions())
def test_along_one_axis(name, asked):
    shape, dims, _ = asked
    agree(lambda torch, x: getattr(torch, name)(x, dim=dims[0]), shape)


# Movement ------------------------------------------------------------------------------------


@some_examples
@given(shape=SHAPES, data=st.data())
def test_permutations(shape, data):
    dims = data.draw(st.permutations(range(len(shape))))
    agree(lambda torch, x: x.permute(tuple(dims)).contiguous() * 2, shape)


@some_examples
@given(shape=SHAPES, data=st.data())
def test_reshapes(shape, data):
    """To any order of the sizes, with ones between them, and one size left open."""
    wanted = [*data.draw(st.permutations(shape)), 1]
    if 0 not in wanted:
        wanted[data.draw(st.integers(0, len(wanted) - 1))] = -1
    agree(lambda torch, x: x.reshape(wanted).sin(), shape)


@st.composite
def slices(draw: Any, size: int) -> Any:
    whole = slice(draw(st.none() | st.integers(-4, 4)), draw(st.none() | st.integers(-4, 4)),
                  draw(st.none() | st.integers(1, 3)))  # fmt: skip
    return draw(st.sampled_from([whole, draw(st.integers(-size, size - 1))] if size else [whole]))


@some_examples
@given(shape=SHAPES, data=st.data())
def test_slices(shape, data):
    index = [data.draw(slices(size)) for size in shape[: data.draw(st.integers(0, len(shape)))]]
    if data.draw(st.booleans()):
        index.insert(data.draw(st.integers(0, len(index))), None)
    if data.draw(st.booleans()):
        index.append(...)
    agree(lambda torch, x: x[tuple(index)] * 3, shape)


@some_examples
@given(shape=AXES, data=st.data())
def test_indexing_by_tensors(shape, data):
    """Positions that repeat, in one or two axes, beside slices."""
    count = data.draw(st.integers(1, min(2, len(shape))))
    chosen = sorted(data.draw(st.permutations(range(len(shape))))[:count])
    index: list[Any] = [slice(None)] * len(shape)
    for axis in chosen:
        size = shape[axis]
        index[axis] = data.draw(st.lists(st.integers(-size, size - 1), min_size=2, max_size=2))

    def function(torch: Any, x: Any) -> Any:
        made = [torch.tensor(part) if isinstance(part, list) else part for part in index]
        return x[tuple(made)].exp()

    agree(function, shape)


@some_examples
@given(shape=AXES, data=st.data())
def test_flip_roll_narrow(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    start = data.draw(st.integers(0, shape[dim]))
    length = data.draw(st.integers(0, shape[dim] - start))
    shift = data.draw(st.integers(-4, 4))

    def function(torch: Any, x: Any) -> Any:
        turned = x.flip(dim).roll(shift, dim)
        return turned.narrow(dim, start, length).movedim(dim, 0) * x.sum()

    agree(function, shape)


# Several tensors -----------------------------------------------------------------------------


@st.composite
def factors(draw: Any) -> tuple[Shape, Shape]:
    """The shapes of two matrices, or batches of them that broadcast, or vectors."""
    n, k, m = draw(SIZES), draw(SIZES), draw(SIZES)
    first, second = draw(broadcast_pairs())
    left = (k,) if draw(st.integers(0, 4)) == 0 else (*first[-2:], n, k)
    right = (k,) if draw(st.integers(0, 4)) == 0 else (*second[-2:], k, m)
    return left, right


@some_examples
@given(shapes=factors())
def test_products(shapes):
    try:
        np.broadcast_shapes(*(shape[:-2] for shape in shapes))
    except ValueError:
        return
    agree(lambda torch, a, b: torch.matmul(a, b), *shapes)


@some_examples
@given(shape=AXES, data=st.data())
def test_cat_and_stack(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    sizes = data.draw(st.lists(SIZES, min_size=1, max_size=3))
    shapes = [tuple(size if axis == dim % len(shape) else n for axis, n in enumerate(shape))
              for size in sizes]  # fmt: skip
    agree(lambda torch, *tensors: torch.cat(tensors, dim) * 2, *shapes)
    agree(
        lambda torch, *tensors: torch.stack(tensors, dim) * 2, *itertools.repeat(shape, len(sizes))
    )


@some_examples
@given(shape=AXES, data=st.data())
def test_gather_and_scatter(shape, data):
    dim = data.draw(st.integers(0, len(shape) - 1))
    positions = data.draw(st.lists(st.integers(0, shape[dim] - 1), min_size=1, max_size=4))

    def function(torch: Any, x: Any) -> Any:
        line = [1] * len(shape)
        line[dim] = len(positions)
        sizes = [len(positions) if axis == dim else size for axis, size in enumerate(shape)]
        index = torch.tensor(positions).reshape(line).expand(sizes).contiguous()
        picked = torch.gather(x, dim, index)
        return torch.scatter_add(x, dim, index, picked.sin()) + x.index_select(
            dim, torch.tensor(positions)
        ).sum(dim, keepdim=True)

    agree(function, shape)
