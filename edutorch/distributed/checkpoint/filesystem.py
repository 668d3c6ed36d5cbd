"""Where a checkpoint is: the objects that PyTorch's programs pass to `save` and `load`."""

from __future__ import annotations

import os
from typing import Any

from ...serialization import CheckpointError
from .folder import Folder
from .metadata import INDEX_NAME, Metadata, decode_index, to_metadata

__all__ = ["FileSystemReader", "FileSystemWriter", "StorageReader", "StorageWriter"]


class StorageWriter:
    """The base class of writers. `FileSystemWriter` is the one that there is."""

    folder: Folder


class StorageReader:
    """The base class of readers. `FileSystemReader` is the one that there is."""

    folder: Folder


class FileSystemWriter(StorageWriter):
    """Writes a checkpoint into a folder, or below a URL that fsspec knows.

    Args:
        path: the folder; it is made.
        single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead: accepted: each rank
            writes one file, and flushes it.
        cache_staged_state_dict: accepted.
        overwrite: replace a checkpoint that is there.

    >>> from edutorch.distributed.checkpoint import FileSystemWriter
    >>> FileSystemWriter("memory://doc/writer").path
    'memory://doc/writer'
    """

    def __init__(
        self, path: str | os.PathLike[str], single_file_per_rank: bool = True,
        sync_files: bool = True, thread_count: int = 1, per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False, overwrite: bool = True, **ignored: Any,
    ) -> None:  # fmt: skip
        self.folder, self.overwrite = Folder(path), overwrite

    @property
    def path(self) -> str:
        """The folder."""
        return self.folder.name

    checkpoint_id = path


class FileSystemReader(StorageReader):
    """Reads a checkpoint in a folder, or below a URL that fsspec knows.

    Args:
        path: the folder.

    >>> from edutorch.distributed import checkpoint
    >>> _ = checkpoint.save({"w": ones(2, 3), "step": 1}, checkpoint_id="memory://doc/reader")
    >>> checkpoint.FileSystemReader("memory://doc/reader").read_metadata().state_dict_metadata["w"].size
    torch.Size([2, 3])
    """

    def __init__(self, path: str | os.PathLike[str], **ignored: Any) -> None:
        self.folder = Folder(path)

    @property
    def path(self) -> str:
        """The folder."""
        return self.folder.name

    checkpoint_id = path

    def read_index(self) -> dict[str, Any]:
        """Return the index.

        Raises: CheckpointError: there is none, or it is damaged.
        """
        try:
            data = self.folder.read(INDEX_NAME)
        except (FileNotFoundError, NotADirectoryError):
            raise CheckpointError(
                "load", f"there is no complete checkpoint in {self.folder.name}",
                {"files there": len(self.folder.sizes())},
                f"a checkpoint has an index, `{INDEX_NAME}`, which is written last; "
                "checkpoint.latest_checkpoint(folder) returns the newest that has one",
            ) from None  # fmt: skip
        return decode_index(data, self.folder.join(INDEX_NAME))

    def read_metadata(self) -> Metadata:
        """Return what the checkpoint holds."""
        return to_metadata(self.read_index())
