"""`torch.functional`: the module that PyTorch defines these functions in; all are `torch.…`."""

from __future__ import annotations

from edutorch.core.shapes import broadcast_shapes
from edutorch.ops import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_tensors,
    cartesian_prod,
    cdist,
    chain_matmul,
    einsum,
    lu,
    meshgrid,
    norm,
    pca_lowrank,
    split,
    svd_lowrank,
    tensordot,
    unique,
    unique_consecutive,
    unravel_index,
)  # fmt: skip
from edutorch.signal.spectrogram import istft, stft

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
    "broadcast_tensors", "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "lu",
    "meshgrid", "norm", "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot", "unique",
    "unique_consecutive", "unravel_index",
]  # fmt: skip
