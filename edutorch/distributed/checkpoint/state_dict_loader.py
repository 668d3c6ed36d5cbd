"""Loading: each rank reads the parts that it holds, wherever they were when they were saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import dtypes
from ...core.tensor import Tensor, wrap
from ...errors import InvalidValueError
from ...modes import no_grad
from ...serialization.decode import Decoder
from .chunk_file import ChunkFile
from .chunks import Chunk, local_chunk, local_tensor, overlap
from .default_planner import DefaultLoadPlanner
from .errors import mismatch_error
from .filesystem import FileSystemReader, StorageReader
from .metadata import chunk_of
from .nested import flatten, is_tensor, set_at
from .ranks import Ranks
from .stateful import Stateful

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None, planner: Any = None, process_group: Any = None,
    no_dist: bool = False,
) -> None:  # fmt: skip
    """Load a checkpoint into the tensors of `state_dict`, and replace its other values.

    Only the keys in `state_dict` are loaded. How many ranks there are, and which part of a tensor
    each of them holds, may differ from what was saved: each reads what it needs.

    Args:
        state_dict: nested dicts and lists; what has a `load_state_dict` gets what was saved.
        checkpoint_id: the folder, or a URL that fsspec knows.
        storage_reader: instead of it, a `FileSystemReader`.
        planner: a `DefaultLoadPlanner`.
        process_group: which ranks load; by default all.
        no_dist: this process loads alone.

    Raises: CheckpointError: no checkpoint, a damaged one, or one of another model: then the keys
        that are missing, those that are unexpected, and differing shapes are listed.

    >>> from edutorch.distributed import checkpoint
    >>> _ = checkpoint.save({"w": ones(3)}, checkpoint_id="memory://doc/load")
    >>> state = {"w": zeros(3)}
    >>> checkpoint.load(state, checkpoint_id="memory://doc/load"); state["w"]
    tensor([1., 1., 1.])
    >>> try:
    ...     checkpoint.load({"v": zeros(3)}, checkpoint_id="memory://doc/load")
    ... except RuntimeError as error:
    ...     print(error)
    load: memory://doc/load is the checkpoint of another model
      missing     = v
      unexpected  = w
      hint: build the model as it was then, or pass DefaultLoadPlanner(allow_partial_load=True)
    """
    if planner is not None and not isinstance(planner, DefaultLoadPlanner):
        raise TypeError("load: planner is a DefaultLoadPlanner")
    if storage_reader is None and checkpoint_id is None:
        raise InvalidValueError("load", "checkpoint_id= is missing: the folder of the checkpoint")
    reader = (
        FileSystemReader(checkpoint_id)
        if checkpoint_id is not None
        else FileSystemReader(storage_reader.folder.name)  # type: ignore[union-attr]
    )
    is_partial = planner is not None and planner.allow_partial_load
    ranks = Ranks(process_group, no_dist)
    ranks.together("load", lambda: load_here(state_dict, reader, is_partial))


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: StorageReader, process_group: Any = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: Any = None,
) -> None:  # fmt: skip
    """Load as `load` does: PyTorch's earlier name."""
    load(
        state_dict, storage_reader=storage_reader, process_group=process_group, no_dist=no_dist,
        planner=planner,
    )  # fmt: skip


def load_here(state_dict: dict[str, Any], reader: FileSystemReader, is_partial: bool) -> None:
    """Load what this process asks for."""
    index = reader.read_index()
    asked = {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }
    flat = flatten(asked)
    check_fits(flat, index["entries"], reader.folder.name, is_partial)
    files = [ChunkFile(reader.folder, file["name"]) for file in index["files"]]
    for key, (path, value) in flat.items():
        entry = index["entries"].get(key)
        if entry is None:
            continue
        if is_tensor(value):
            fill(value, key, entry, files)
        else:
            set_at(asked, path, decode_value(entry["value"]))
    for key, value in state_dict.items():
        if isinstance(value, Stateful):
            value.load_state_dict(asked[key])
        else:
            state_dict[key] = asked[key]


def check_fits(
    flat: Mapping[str, Any], entries: Mapping[str, Any], name: str, is_partial: bool
) -> None:
    """Raise CheckpointException if a checkpoint has not what is asked for, or in other shapes."""
    missing, shapes = [], []
    for key, (_, value) in flat.items():
        entry = entries.get(key)
        if entry is None:
            missing.append(key)
        elif is_tensor(value) != ("shape" in entry):
            shapes.append(f"{key} is {'no' if is_tensor(value) else 'a'} tensor in the checkpoint")
        elif is_tensor(value) and list(value.shape) != entry["shape"]:
            saved = tuple(entry["shape"])
            shapes.append(f"{key} is {saved} in the checkpoint, {tuple(value.shape)} here")
    if shapes or (missing and not is_partial):
        asked = {path[0] for path, _ in flat.values()}
        unexpected = [
            key
            for key, entry in entries.items()
            if key not in flat and (len(entry["path"]) == 1 or entry["path"][0] in asked)
        ]  # nobody has to load the optimizer
        raise mismatch_error(name, missing, unexpected, shapes)


def decode_value(saved: Mapping[str, Any]) -> Any:
    """Return a value that is no tensor."""
    arrays, table = {}, {}
    for name, facts in saved.get("arrays", {}).items():
        dtype = getattr(dtypes, facts["dtype"]).numpy
        data = np.frombuffer(bytes.fromhex(facts["hex"]), dtype)
        arrays[name] = data.reshape(facts["shape"]).copy()
        table[name] = {key: facts[key] for key in facts if key != "hex"}
    return Decoder(table, arrays, None).decode(saved["tree"])


def fill(value: Any, key: str, entry: Mapping[str, Any], files: list[ChunkFile]) -> None:
    """Write into a tensor what this rank holds of it."""
    mine = local_chunk(value, key)
    if mine is None:
        return
    with no_grad():
        target = local_tensor(value)
        for part in entry["chunks"]:
            box = chunk_of(part)
            shared = box if box == mine else overlap(box, mine)
            if shared is not None:
                source = read_box(files[part["file"]], part["name"], box, shared, entry["dtype"])
                region = target[shared.slices(mine.offsets)] if shared.sizes else target
                region.copy_(source)


def read_box(file: ChunkFile, name: str, box: Chunk, wanted: Chunk, dtype: str) -> Tensor:
    """Read a box of a tensor, of which the file has a larger one: only the rows that it is in.

    Args:
        file, name: where the larger box is.
        box, wanted: the two boxes.
        dtype: of the tensor.
    """
    element = getattr(dtypes, dtype).numpy
    rest = box.sizes[1:]
    row = Chunk((), rest).numel() * element.itemsize
    first = wanted.offsets[0] - box.offsets[0] if box.sizes else 0
    count = wanted.sizes[0] if box.sizes else 1
    data = file.read(name, first * row, (first + count) * row)
    array = np.frombuffer(data, element).reshape(count, *rest) if data else np.empty(box.sizes)
    if not box.sizes:
        return wrap(array.reshape(()).copy())
    if not data:
        return wrap(array.astype(element))
    columns = wanted.slices(box.offsets)[1:]
    return wrap(array[(slice(None), *columns)].copy())
