"""Checkpoints of several ranks as one file, and back."""

from __future__ import annotations

import os
from typing import Any

from ...core.tensor import Tensor
from ...ops import empty
from ...serialization import load as load_file
from ...serialization import save as save_file
from .filesystem import FileSystemReader
from .metadata import TensorStorageMetadata, to_metadata
from .nested import Path, unflatten
from .state_dict_loader import decode_value, load_here
from .state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Write a checkpoint of several ranks into one file, which `torch.load` reads.

    >>> import os, tempfile
    >>> from edutorch.distributed import checkpoint
    >>> from edutorch.distributed.checkpoint.format_utils import dcp_to_torch_save
    >>> _ = checkpoint.save({"w": ones(2), "n": {"m": 1}}, checkpoint_id="memory://doc/format")
    >>> file = os.path.join(tempfile.mkdtemp(), "all.pt")
    >>> dcp_to_torch_save("memory://doc/format", file); load(file)
    {'w': tensor([1., 1.]), 'n': {'m': 1}}
    """
    save_file(read_whole(FileSystemReader(dcp_checkpoint_dir)), torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Write what `torch.save` has written as a checkpoint that several ranks can load."""
    save(load_file(torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)


def read_whole(reader: FileSystemReader) -> dict[Any, Any]:
    """Return all that a checkpoint holds, with whole tensors."""
    index = reader.read_index()
    metadata = to_metadata(index)
    tensors: dict[str, Any] = {}
    values: dict[Path, Any] = {}
    for key, facts in metadata.state_dict_metadata.items():
        if isinstance(facts, TensorStorageMetadata):
            tensor: Tensor = empty(tuple(facts.size), dtype=facts.properties.dtype)
            tensors[key] = values[metadata.planner_data[key]] = tensor
        else:
            values[metadata.planner_data[key]] = decode_value(index["entries"][key]["value"])
    load_here(tensors, reader, is_partial=False)
    return unflatten(values)
