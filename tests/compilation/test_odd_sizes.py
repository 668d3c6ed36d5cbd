"""Compiled rows of any length, and graphs of mixed types: the last element counts too."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch

pytest.importorskip("numba")

REDUCTIONS = {
    "amax": lambda x: (x * 2).amax(-1), "amin": lambda x: (x * 2).amin(-1),
    "sum": lambda x: (x * 2).sum(-1), "mean": lambda x: (x + 1).mean(-1),
    "logsumexp": lambda x: (x * 2).logsumexp(-1), "softmax": lambda x: (x * 2).softmax(-1),
    "norm": lambda x: (x * x).sum(-1).sqrt(), "all of them": lambda x: (x * 2).amax(),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_last_element_of_a_row_counts(name):
    """The largest is the last one, in rows that are no multiple of a block."""
    compiled = torch.compile(REDUCTIONS[name])
    for width in (1, 2, 3, 31, 63, 64, 65, 127, 129, 200):
        values = np.linspace(-1, 1, 7 * width).reshape(7, width).astype("float32")
        values[:, -1] = 5 + np.arange(7)
        x = torch.tensor(values)
        np.testing.assert_allclose(compiled(x).numpy(), REDUCTIONS[name](x).numpy(), rtol=1e-5)


@pytest.mark.parametrize("dtypes", [
    ("int32", "float32"), ("float32", "int32"), ("int64", "float64"), ("bool", "uint8"),
    ("float16", "float32"), ("float32", "float64"),
])  # fmt: skip
def test_another_dtype_of_the_same_size_is_another_version(dtypes):
    """An int32 and a float32 have four bytes each: neither may be read as the other."""
    function = torch.compile(lambda x: (x * 3 + 1).sum())
    first, second = (torch.arange(2).to(getattr(torch, dtype)) for dtype in dtypes)
    for x in (first, second, first, second):
        result = function(x)
        expected = (x * 3 + 1).sum()
        assert (result.item(), result.dtype) == (expected.item(), expected.dtype)
