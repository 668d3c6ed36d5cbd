"""Ties: which index is returned, and which element gets the gradient."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch

NAN, INF = float("nan"), float("inf")

ROWS = {
    "all equal": [1.0] * 19,
    "several": [1.0, 2.0, 1.0, 2.0, 0.0, 2.0, 1.0, 0.0, 0.0],
    "with NaN": [1.0, NAN, 2.0, NAN, 1.0],
    "both zeros": [0.0, -0.0, 0.0, -0.0],
    "infinite": [INF, -INF, INF, -INF, -INF],
    "one": [3.0],
}
DTYPES = "float64 float32 float16 bfloat16".split()

CHOICES = {
    "topk": lambda x: edutorch.topk(x, min(3, x.numel())),
    "topk of the smallest": lambda x: edutorch.topk(x, min(2, x.numel()), largest=False),
    "kthvalue": lambda x: edutorch.kthvalue(x, (x.numel() + 1) // 2),
    "mode": lambda x: edutorch.mode(x),
    "median": lambda x: edutorch.median(x, 0),
    "nanmedian": lambda x: edutorch.nanmedian(x, 0),
    "sort": lambda x: edutorch.sort(x),
    "max": lambda x: edutorch.max(x, 0),
    "min": lambda x: edutorch.min(x, 0),
    "cummax": lambda x: edutorch.cummax(x, 0),
    "cummin": lambda x: edutorch.cummin(x, 0),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", CHOICES)
def test_an_index_leads_to_its_value_and_gets_its_gradient(name, row, dtype):
    x = edutorch.tensor(ROWS[row], dtype=getattr(edutorch, dtype), requires_grad=True)
    values, indices = CHOICES[name](x)
    np.testing.assert_array_equal(x[indices].double().detach(), values.double().detach())
    if not name.startswith("cum"):
        assert indices.unique().numel() == indices.numel()
    weights = edutorch.arange(1.0, values.numel() + 1).reshape(values.shape).to(x.dtype)
    (g,) = edutorch.autograd.grad(values, x, weights)
    expected = edutorch.zeros_like(x).index_add(0, indices.reshape(-1), weights.reshape(-1))
    assert g.tolist() == expected.tolist()


SHARED = {
    "median": [[0, 1, 0, 1], [1, 0, 0, 0]],
    "nanmedian": [[0, 1, 0, 1], [1, 0, 0, 1]],
    "max": [[1, 0, 0, 0], [0, 1, 1, 0]],
    "min": [[0, 0, 1, 0], [0, 1, 1, 0]],
    "amax": [[1, 0, 0, 0], [0, 1, 1, 0]],
    "amin": [[0, 0, 1, 0], [0, 1, 1, 0]],
}
"""Who shares the gradient: of 3, 2, 0, 2, and of 1, NaN, NaN, 1 (of the median 1, NaN, 0, 1)."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHARED)
def test_equal_numbers_share_the_gradient_evenly(name, dtype):
    median = name.endswith("median")
    rows = [[3.0, 2.0, 0.0, 2.0], [1.0, NAN, 0.0 if median else NAN, 1.0]]
    hits = SHARED[name]
    if name == "median":
        hits = [hits[0], [0, 1, 0, 0]]
    for row, hit in zip(rows, hits, strict=True):
        x = edutorch.tensor(row, dtype=getattr(edutorch, dtype), requires_grad=True)
        (g,) = edutorch.autograd.grad(getattr(edutorch, name)(x), x)
        assert g.tolist() == [h / sum(hit) for h in hit]


@pytest.mark.parametrize("name", SHARED)
def test_so_many_share_it_that_float16_cannot_count_them(name):
    x = edutorch.ones(70_000, dtype=edutorch.float16, requires_grad=True)
    (g,) = edutorch.autograd.grad(getattr(edutorch, name)(x), x, x.new_tensor(7.0))
    assert g.unique().tolist() == [edutorch.tensor(1e-4, dtype=edutorch.float16).item()]


@pytest.mark.parametrize("name", SHARED)
def test_shares_in_forward_mode_and_second_derivatives(name):
    x = edutorch.tensor([1.0, 1.0, 1.0])
    function = getattr(edutorch, name)
    moved = edutorch.func.jvp(function, (x,), (edutorch.tensor([3.0, 6.0, 0.0]),))[1]
    assert moved.item() == 3
    assert edutorch.func.hessian(lambda x: function(x) ** 2)(x).sum().item() == pytest.approx(2)


@pytest.mark.parametrize("dtype", DTYPES + ["int64", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.oracle
def test_the_median_of_all_is_pytorchs(torch, name, dtype):
    for row in (*ROWS.values(), []):
        if any(value != value or abs(value) == INF for value in row) and "int" in dtype:
            continue
        values = []
        for library in (edutorch, torch):
            x = library.tensor(row, dtype=getattr(library, dtype))
            if "int" not in dtype:
                x.requires_grad_()
            y = getattr(library, name)(x)
            assert y.requires_grad == x.requires_grad
            values.append([y.item()])
            if y.requires_grad:
                values[-1] += library.autograd.grad(y, x)[0].tolist()
        np.testing.assert_array_equal(*values)
