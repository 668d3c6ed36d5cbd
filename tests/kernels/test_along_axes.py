"""Kernels along an axis equal their definitions, on any shape, axis and memory order."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

pytest.importorskip("numba", reason="needs numba: the extra `fast`")

import edutorch as torch
from edutorch.backends import reference_only
from edutorch.kernels.cpu import strided_copy

SHAPES = [(600,), (5, 130), (130, 5), (3, 9, 30), (2, 300, 1), (7, 40, 3), (300, 230)]


def index_like(x, dim):
    rng = np.random.default_rng(1)
    return torch.tensor(rng.integers(0, x.shape[dim], tuple(x.shape)))


SCANS = {
    "cumsum": torch.cumsum, "cumprod": torch.cumprod,
    "cummax": lambda x, d: torch.cummax(x, d)[0], "cummin": lambda x, d: torch.cummin(x, d)[0],
    "indices of cummax": lambda x, d: x + torch.cummax(x, d)[1], "prod": torch.prod,
    "prod of all": lambda x, d: x.prod(),
}  # fmt: skip
PICKS = {
    "gather": lambda x, d: x.gather(d, index_like(x, d)),
    "scatter": lambda x, d: x.scatter(d, index_like(x, d), x * 2),
    "scatter of a number": lambda x, d: x.scatter(d, index_like(x, d), 0.5),
    "scatter_add": lambda x, d: x.scatter_add(d, index_like(x, d), x * 2),
    "index_add": lambda x, d: x.index_add(d, index_like(x, d).select(1 - d, 0), x * 2)
    if x.ndim == 2 else x.index_add(0, index_like(x, 0).reshape(-1)[: x.shape[0]], x * 2),
    "index_select": lambda x, d: x.index_select(d, index_like(x, d).reshape(-1)[:40]),
    "take_along_dim": lambda x, d: torch.take_along_dim(x, index_like(x, d) - x.shape[d], d),
    "max": lambda x, d: x.max(d)[0], "min": lambda x, d: x.min(d, keepdim=True)[0],
    "x[..., index]": lambda x, d: x[(*[slice(None)] * d, index_like(x, d).reshape(-1)[:700] - 1)],
}  # fmt: skip
SORTS = {
    "sort": lambda x, d: x.sort(d)[0], "argsort": lambda x, d: x + x.argsort(d),
    "descending": lambda x, d: x + x.sort(d, descending=True)[1],
    "median": lambda x, d: x.median(d)[0],
    "index of median": lambda x, d: x + x.median(d, keepdim=True)[1],
    "nanmedian": lambda x, d: x.nanmedian(d)[0], "median of all": lambda x, d: x.median(),
    "kthvalue": lambda x, d: x.kthvalue(x.shape[d] // 2 + 1, d)[0],
    "index of kthvalue": lambda x, d: x + x.kthvalue(x.shape[d], d, keepdim=True)[1],
    "topk": lambda x, d: x.topk(min(3, x.shape[d]), d)[0],
    "indices of topk": lambda x, d: x.narrow(d, 0, 1) + x.topk(1, d, largest=False)[1],
    "quantile": lambda x, d: x.quantile(0.3, d),
}  # fmt: skip
OTHERS = {
    "argmax": lambda x, d: x + x.argmax(d, keepdim=True), "norm": lambda x, d: x.norm(dim=d),
    "flip": lambda x, d: x.flip(d), "roll": lambda x, d: x.roll((5, -3), (d, 0))
    if d else x.roll(7), "repeat": lambda x, d: x.repeat(2, *[3] * x.ndim),
    "tril": lambda x, d: torch.tril(x.reshape(-1, 10), 2 * d - 3),
    "triu": lambda x, d: torch.triu(x.reshape(-1, 10), 2 * d - 3),
    "transposed": lambda x, d: x.transpose(0, d).contiguous(),
    "pad": lambda x, d: torch.nn.functional.pad(x, (*[0, 0] * (x.ndim - 1 - d), 2, -1), value=3.0),
    "cat": lambda x, d: torch.cat((x, x.narrow(d, 0, 1), x), d),
    "stack": lambda x, d: torch.stack((x, x * 2), d - x.ndim),
    "reshaped": lambda x, d: x.transpose(0, d).reshape(-1),
}  # fmt: skip
FUNCTIONS = SCANS | PICKS | SORTS | OTHERS


def special(shape, dtype):
    """Return elements with NaN, infinities, zeros of both signs, and equal ones."""
    values = np.random.default_rng(0).standard_normal(shape)
    flat = values.reshape(-1)
    flat[::7], flat[3::50], flat[5::90], flat[11::130] = 0.5, -0.0, 0.0, np.inf
    flat[17::210], flat[400:410] = -np.inf, np.nan
    return torch.tensor(values.astype(dtype), requires_grad=True)


def value_and_gradient(function, x, dim):
    y = function(x, dim)
    weights = torch.linspace(-1, 2, y.numel(), dtype=x.dtype).reshape(y.shape)
    return [y, torch.autograd.grad(y, x, weights)[0]]


@pytest.mark.filterwarnings("ignore")  # of NaN, and of infinite gradients
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_kernel_equals_its_definition(name, shape, dtype):
    for dim in range(len(shape)):
        for x in (special(shape, dtype), torch.randn(shape, dtype=getattr(torch, dtype))):
            x = x.detach().requires_grad_()
            results = value_and_gradient(FUNCTIONS[name], x, dim)
            with reference_only():
                expected = value_and_gradient(FUNCTIONS[name], x, dim)
            for ours, definition in zip(results, expected, strict=True):
                assert ours.dtype is definition.dtype
                np.testing.assert_allclose(
                    ours.detach().numpy(), definition.detach().numpy(),
                    rtol=1e-4 if dtype == "float32" else 1e-10, atol=1e-6,
                )  # fmt: skip


@pytest.mark.parametrize("dim", [0, 1])
def test_an_index_out_of_range_is_refused_as_by_the_definition(dim):
    x, index = torch.randn(40, 40), torch.zeros(40, 40, dtype=torch.int64)
    index[3, 4] = 40
    for call in (
        lambda: x.gather(dim, index), lambda: x.scatter_add(dim, index, x),
        lambda: x.scatter(dim, index, x), lambda: x.index_select(dim, index[3]),
        lambda: x.gather(dim, -index), lambda: x[(slice(None),) * dim + (index,)],
    ):  # fmt: skip
        with pytest.raises(IndexError, match="out of bounds"):
            call()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(some.data())
def test_a_copy_between_any_strides(data):
    shape = data.draw(some.lists(some.integers(0, 70), max_size=3).map(tuple))
    order = data.draw(some.permutations(range(len(shape))))
    dtype = data.draw(some.sampled_from("fdBeqFD"))
    values = np.arange(4 ** len(shape) * np.prod(shape, dtype=int)) % 251
    source = values.astype(dtype).reshape([4 * size for size in shape])
    for axis, size in enumerate(shape):
        step = data.draw(some.sampled_from([1, 2, -1, -3, 0]))
        part = (slice(None),) * axis
        source = source[(*part, slice(None, None, step))] if step else source[(*part, slice(1))]
        source = source[(*part, slice(size))]
    source = np.broadcast_to(source, shape).transpose(order)
    target = (
        np.zeros(source.shape[::-1], dtype).T
        if data.draw(some.booleans())
        else np.zeros_like(source, order="C", subok=False)
    )
    with mock.patch.object(strided_copy, "SMALL", 0):
        np.testing.assert_array_equal(strided_copy.copy_into(target, source), source)
