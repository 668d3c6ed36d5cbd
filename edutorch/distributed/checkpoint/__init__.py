"""`torch.distributed.checkpoint`: checkpoints that all ranks write and read together.

They can be loaded on another number of ranks, and into tensors that are divided in another way.
"""

from __future__ import annotations

from .errors import CheckpointException
from .filesystem import FileSystemReader, FileSystemWriter, StorageReader, StorageWriter
from .metadata import (
    BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorProperties, TensorStorageMetadata,
)  # fmt: skip
from .default_planner import DefaultLoadPlanner, DefaultSavePlanner
from .resume import StopRequest, latest_checkpoint
from .state_dict_loader import load, load_state_dict
from .state_dict_saver import async_save, save, save_state_dict
from .stateful import Stateful

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "DefaultLoadPlanner",
    "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "Metadata", "Stateful",
    "StopRequest", "StorageReader", "StorageWriter", "TensorProperties", "TensorStorageMetadata",
    "async_save", "latest_checkpoint", "load", "load_state_dict", "save", "save_state_dict",
]  # fmt: skip
