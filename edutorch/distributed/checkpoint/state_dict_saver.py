"""Saving: each rank writes one file, and at the end rank 0 the index.

    1. all ranks tell what they have, and make the same plan;
    2. each rank writes its file, under a name that no earlier checkpoint has used;
    3. when all have done so, rank 0 replaces the index in one step;
    4. then the files of the checkpoint that was there before are removed.

Whenever a process ends, the index names files that are complete: the old ones or the new ones.
"""

from __future__ import annotations

import atexit
import os
import re
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ... import backends
from ...errors import InvalidValueError
from ...serialization import CheckpointError
from ..engines.mpi import import_mpi
from .chunk_file import seal_chunks
from .chunks import local_tensor
from .default_planner import DefaultSavePlanner, merge_proposals, propose
from .filesystem import FileSystemWriter, StorageWriter
from .folder import Folder
from .metadata import INDEX_NAME, Metadata, encode_index, to_metadata
from .ranks import Ranks
from .stateful import Stateful

__all__ = ["async_save", "save", "save_state_dict"]

FILE_NAME = re.compile(r"__\d+_[0-9a-f]{12}\.safetensors$")


def save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None, planner: Any = None, process_group: Any = None,
    no_dist: bool = False, use_collectives: bool = True,
) -> Metadata:  # fmt: skip
    """Save tensors, whole or in parts, and other data, from all ranks.

    A tensor that is whole is the same on all ranks, and one of them writes it. When it returns, on
    any rank, the checkpoint is complete. If something fails before, the one that was there stays.

    Args:
        state_dict: nested dicts and lists; what has a `state_dict` is asked for it.
        checkpoint_id: the folder, or a URL that fsspec knows ("s3://…").
        storage_writer: instead of it, a `FileSystemWriter`.
        planner: a `DefaultSavePlanner`.
        process_group: which ranks save; by default all.
        no_dist: this process saves alone.
        use_collectives: accepted.

    Raises: CheckpointException: a rank has failed: it is named, on all ranks.
        CheckpointError: the same for one process.

    >>> from edutorch.distributed import checkpoint
    >>> model = nn.Linear(2, 1)
    >>> _ = checkpoint.save({"model": model, "step": 3}, checkpoint_id="memory://doc/save")
    >>> state = {"model": nn.Linear(2, 1), "step": 0}
    >>> checkpoint.load(state, checkpoint_id="memory://doc/save")
    >>> state["step"], bool((state["model"].weight == model.weight).all())
    (3, True)
    """
    folder, overwrite = target_of(checkpoint_id, storage_writer)
    ranks = Ranks(process_group, no_dist)
    return prepare(state_dict, folder, planner, ranks, overwrite).write(ranks)


def async_save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None, planner: Any = None, process_group: Any = None,
    no_dist: bool = False, **ignored: Any,
) -> Future[Metadata]:  # fmt: skip
    """Copy the tensors, and save them beside the program.

    The program may change the tensors at once. Saves follow each other in the order of the calls.

    Args:
        state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist: as in `save`.
        ignored: PyTorch's choice of stager and checkpointer.

    Returns: a future, whose `result()` waits until the checkpoint is complete, and raises what
        `save` raises.

    >>> from edutorch.distributed import checkpoint
    >>> x = ones(2)
    >>> future = checkpoint.async_save({"x": x}, checkpoint_id="memory://doc/async")
    >>> _ = x.fill_(5.0); _ = future.result(); y = {"x": zeros(2)}
    >>> checkpoint.load(y, checkpoint_id="memory://doc/async"); y["x"]
    tensor([1., 1.])
    """
    folder, overwrite = target_of(checkpoint_id, storage_writer)
    ranks = Ranks(process_group, no_dist)
    prepared = prepare(state_dict, folder, planner, ranks, overwrite)
    twin = ranks.twin()
    if twin.group is not None and import_mpi().Query_thread() < import_mpi().THREAD_MULTIPLE:
        done: Future[Metadata] = Future()  # this MPI allows no second thread: save now
        done.set_result(prepared.write(ranks))
        return done
    return background().submit(prepared.write, twin)


def save_state_dict(
    state_dict: dict[str, Any], storage_writer: StorageWriter, process_group: Any = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: Any = None,
) -> Metadata:  # fmt: skip
    """Save as `save` does: PyTorch's earlier name."""
    return save(
        state_dict, storage_writer=storage_writer, process_group=process_group, no_dist=no_dist,
        planner=planner,
    )  # fmt: skip


_background: list[ThreadPoolExecutor] = []


def background() -> ThreadPoolExecutor:
    """Return the thread that saves; at its end the process waits for it."""
    if not _background:
        _background.append(ThreadPoolExecutor(1, "edutorch-checkpoint"))
        atexit.register(_background[0].shutdown)
    return _background[0]


def target_of(checkpoint_id: Any, writer: StorageWriter | None) -> tuple[Folder, bool]:
    """Return the folder to write, and whether a checkpoint that is there may be replaced.

    Raises: ValueError: neither is there.
    """
    if writer is None and checkpoint_id is None:
        raise InvalidValueError("save", "checkpoint_id= is missing: the folder of the checkpoint")
    chosen = FileSystemWriter(checkpoint_id) if writer is None else writer
    folder = Folder(checkpoint_id) if checkpoint_id is not None else chosen.folder
    return folder, getattr(chosen, "overwrite", True)


class Prepared:
    """A checkpoint that only has to be written: the tensors of this rank are copied.

    Args:
        folder: where to.
        entries: of the index.
        arrays: what this rank writes, by the names in its file.
        save_id: a text that no other save has.
    """

    def __init__(
        self, folder: Folder, entries: dict[str, Any], arrays: dict[str, np.ndarray], save_id: str
    ) -> None:
        self.folder, self.entries, self.arrays = folder, entries, arrays
        self.save_id = save_id

    def file_name(self, rank: int) -> str:
        """Return the name of the file of a rank."""
        return f"__{rank}_{self.save_id}.safetensors"

    def write(self, ranks: Ranks) -> Metadata:
        """Write the file of this rank, and then the index. All ranks call it."""
        sizes = ranks.exchange("save", lambda: self.write_chunks(ranks.rank))
        files = [{"name": self.file_name(rank), "bytes": size} for rank, size in enumerate(sizes)]
        index = {
            "save_id": self.save_id, "time_ns": time.time_ns(), "world_size": ranks.size,
            "files": files, "entries": self.entries,
        }  # fmt: skip
        ranks.exchange("save", lambda: self.write_index(index) if ranks.rank == 0 else 0)
        return to_metadata(index)

    def write_chunks(self, rank: int) -> int:
        """Write the file of this rank, if it has something to write. Returns its size."""
        if not self.arrays:
            return 0
        data = seal_chunks(self.arrays)
        self.arrays = {}
        self.folder.write(self.file_name(rank), data)
        return len(data)

    def write_index(self, index: dict[str, Any]) -> int:
        """Replace the index, and remove the files that it does not name."""
        self.folder.write(INDEX_NAME, encode_index(index))
        named = {file["name"] for file in index["files"] if file["bytes"]}
        for name in self.folder.sizes():
            if FILE_NAME.match(name) and name not in named:
                self.folder.remove(name)
        return 1


def prepare(
    state_dict: dict[str, Any], folder: Folder, planner: Any, ranks: Ranks, overwrite: bool
) -> Prepared:
    """Agree with all ranks on who writes what, and copy what this rank writes.

    Raises: CheckpointException: a rank has something that cannot be saved.
    """
    if planner is not None and not isinstance(planner, DefaultSavePlanner):
        raise TypeError("save: planner is a DefaultSavePlanner")
    tensors: dict[str, Any] = {}

    def describe() -> tuple[dict[str, Any], str]:
        folder.make()
        if not overwrite and INDEX_NAME in folder.sizes():
            raise CheckpointError("save", f"there is a checkpoint in {folder.name} already")
        asked = {
            key: value.state_dict() if isinstance(value, Stateful) else value
            for key, value in state_dict.items()
        }
        described, mine = propose(asked)
        tensors.update(mine)
        return described, uuid.uuid4().hex[:12]

    told = ranks.together("save", describe)
    is_lowest = planner is not None and planner.dedup_save_to_lowest_rank
    entries, written = merge_proposals([described for described, _ in told], is_lowest)
    arrays = {name: copy_to_host(tensors[key]) for name, key in written[ranks.rank]}
    return Prepared(folder, entries, arrays, told[0][1])


def copy_to_host(value: Any) -> np.ndarray:
    """Return a copy of the part of a tensor that this rank holds."""
    array = local_tensor(value)._array
    return np.array(backends.of(array).to_numpy(array), copy=True, order="C", subok=False)
