"""Sparse tensors as text, as PyTorch prints them."""

from __future__ import annotations

from typing import Any

from ... import backends, dtypes
from ...core.formatting import elements_text, visible_part, with_suffixes
from ...core.storage import sparse_coo
from ...core.tensor import LEAF, Tensor


def sparse_text(tensor: Any) -> str:
    """Write a sparse tensor: its indices, its values, and what it is."""
    coo, csr = tensor._layout is sparse_coo, tensor.is_sparse_csr
    if coo:
        parts = {"indices": tensor._indices()}
    elif csr:
        parts = {"crow_indices": tensor.crow_indices(), "col_indices": tensor.col_indices()}
    else:
        parts = {"ccol_indices": tensor.ccol_indices(), "row_indices": tensor.row_indices()}
    parts["values"] = tensor.entries
    lines = [part_text(f"{name}=tensor(", part) for name, part in parts.items()]
    text = "tensor(" + (",\n" + " " * len("tensor(")).join(lines)
    device = backends.of(tensor.entries._array).device_name
    suffixes = [f"device='{device}'"] if device != "cpu" else []
    suffixes += [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    if tensor.dtype not in (dtypes.get_default_dtype(), dtypes.int64, dtypes.bool):
        suffixes.append(f"dtype=torch.{tensor.dtype.name}")
    suffixes.append(f"layout={tensor._layout}")
    if not tensor.is_leaf:
        suffixes.append(f"grad_fn=<{tensor._node.name()}>")
    elif tensor._node is LEAF:
        suffixes.append("requires_grad=True")
    return with_suffixes(text, suffixes, new_line=coo)


def part_text(prefix: str, tensor: Tensor) -> str:
    """Write one of the tensors inside a sparse one, without what its dtype would add."""
    array = tensor._array
    if not array.size:
        return f"{prefix}[], size={tuple(array.shape)})"
    backend = backends.of(array)
    part = backend.to_numpy(visible_part(array, backend.xp))
    return prefix + elements_text(part, tuple(array.shape), len("tensor(") + len(prefix)) + ")"
