"""Sample arguments for views that depend on the memory, and for 0-d tensors as vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

import edutorch
from tests.op_cases import CASES, LAYOUT_MATTERS, OTHER_TYPES, index, some
from tests.op_oracles import OURS, THEIRS

# fmt: off
CASES["as_strided"] += [
    {"input": some(6), "size": (), "stride": (), "storage_offset": 3},
    {"input": some(2, 3), "size": (2, 2), "stride": (1, 3)},
    {"input": some(4), "size": (0, 3), "stride": (1, 1)},
]
CASES["as_strided_scatter"] += [
    {"input": some(2, 3), "src": some(3, seed=1), "size": (3,), "stride": (2,)},
]
CASES["view_dtype"] = [{"input": some(2, 4), "dtype": dtype} for dtype in
    ("float64", "float32", "int64", "uint8")]
ZERO = np.array(0)
CASES["gather"] += [{"input": some(), "dim": 0, "index": ZERO}, {"input": some(), "dim": -1,
    "index": index(0)}]
CASES["scatter"] += [{"input": some(), "src": some(seed=1), "dim": 0, "index": ZERO}]
CASES["scatter_add"] += [{"input": some(), "src": some(seed=1), "dim": 0, "index": ZERO}]
CASES["index_select"] += [{"input": some(), "dim": 0, "index": index(0)}, {"input": some(3),
    "dim": 0, "index": np.array(2)}]
CASES["index_copy"] += [{"input": some(), "dim": 0, "index": index(0), "source": some(seed=1)}]
CASES["index_add"] += [{"input": some(), "dim": 0, "index": index(0), "source": some(seed=1)}]
CASES["index_fill"] += [{"input": some(3), "dim": 0, "index": np.array(-1), "value": 2.5}]
CASES["clone"] += [{"input": some(2, 3).T}]
CASES["split"] = [
    {"input": some(2, 3), "split_size": 2, "dim": 1}, {"input": some(4), "split_size": 2},
    {"input": some(2, 0, 3), "split_size": 0, "dim": 1}, {"input": some(3, 2), "split_size": 5},
    {"input": some(2, 3, 2), "split_size": 1, "dim": -2},
]
CASES["split_with_sizes"] = [
    {"input": some(2, 3), "split_sizes": (1, 0, 2), "dim": 1},
    {"input": some(4), "split_sizes": (1, 3)},
    {"input": some(3, 2), "split_sizes": (2,), "dim": -1},
]
CASES["unbind"] = [
    {"input": some(2, 3)}, {"input": some(2, 3), "dim": -1}, {"input": some(3)},
    {"input": some(2, 0, 1), "dim": 2},
]
# fmt: on

LAYOUT_MATTERS["view_dtype"] = "reads the bytes as they lie"
OTHER_TYPES["view_dtype", "int"] = "the bytes of other types are other numbers"


def _as_strided(input: Any, size: Any, stride: Any, storage_offset: int = 0) -> Any:
    return edutorch.as_strided(input, size, stride, storage_offset)


def _as_strided_scatter(
    input: Any, src: Any, size: Any, stride: Any, storage_offset: int = 0
) -> Any:
    return edutorch.as_strided_scatter(input, src, size, stride, storage_offset)


OURS["as_strided"], OURS["as_strided_scatter"] = _as_strided, _as_strided_scatter
THEIRS["view_dtype"] = lambda torch: lambda input, dtype: input.view(dtype)
THEIRS["split"] = lambda torch: lambda input, split_size, dim=0: torch.split(input, split_size, dim)
