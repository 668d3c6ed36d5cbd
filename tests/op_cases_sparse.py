"""PyTorch's functions for the ops of sparse tensors, which are halves of public functions."""

from __future__ import annotations

from typing import Any

from edutorch.ops.sparse.pattern import Pattern
from tests.op_cases import INTERNAL
from tests.op_oracles import THEIRS


def _sparse_mm(torch: Any) -> Any:
    def multiply(values: Any, dense: Any, pattern: Pattern, transposed: bool = False) -> Any:
        indices = torch.from_numpy(pattern.indices)
        matrix = torch.sparse_coo_tensor(indices, values, pattern.shape).to_dense()
        return (matrix.T if transposed else matrix) @ dense

    return multiply


def _sampled_mm(torch: Any) -> Any:
    return lambda rows, columns, pattern: (rows @ columns.T)[tuple(pattern.indices)]


THEIRS["sparse_mm"], THEIRS["sampled_mm"] = _sparse_mm, _sampled_mm
THEIRS["embedding_rows"] = lambda torch: lambda weight, index: weight[index]
INTERNAL |= {
    "sparse_mm": "products in sparse/test_parity.py", "sampled_mm": "the derivative of sparse_mm",
    "embedding_rows": "nn.Embedding(sparse=True) in sparse/test_embedding.py",
}  # fmt: skip
