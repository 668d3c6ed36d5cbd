"""Who writes what: each rank tells what it has, and all come to the same plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...serialization import CheckpointError
from ...serialization.encode import Encoder
from .chunks import Chunk, local_chunk
from .nested import flatten, is_tensor

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner", "merge_proposals", "propose"]


class DefaultSavePlanner:
    """How a checkpoint is saved; all arguments are PyTorch's, and accepted.

    >>> from edutorch.distributed.checkpoint import DefaultSavePlanner
    >>> DefaultSavePlanner().flatten_state_dict
    True
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None, dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:  # fmt: skip
        self.flatten_state_dict = flatten_state_dict
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank


class DefaultLoadPlanner:
    """How a checkpoint is loaded.

    Args:
        flatten_state_dict, flatten_sharded_tensors: accepted.
        allow_partial_load: leave as they are what the checkpoint has not.

    >>> from edutorch.distributed.checkpoint import DefaultLoadPlanner
    >>> DefaultLoadPlanner(allow_partial_load=True).allow_partial_load
    True
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:  # fmt: skip
        self.allow_partial_load = allow_partial_load


def propose(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what this rank has, and its tensors by key.

    Returns: a description of each key, which travels to all ranks: path, dtype, shape and box of
        a tensor, or path and JSON of another value.

    Raises: CheckpointError: a value is not data.
    """
    described, tensors = {}, {}
    for key, (path, value) in flatten(state_dict).items():
        if not is_tensor(value):
            described[key] = {"path": path, "value": encode_value(value, key)}
            continue
        chunk = local_chunk(value, key)
        tensors[key] = value
        described[key] = {
            "path": path, "dtype": value.dtype.name, "shape": [int(n) for n in value.shape],
            "chunk": chunk, "bytes": 0 if chunk is None else chunk.numel() * value.element_size(),
        }  # fmt: skip
    return described, tensors


def encode_value(value: Any, key: str) -> Any:
    """Return a value that is no tensor as JSON.

    Raises: CheckpointError: it is not data.
    """
    encoder = Encoder()
    tree = encoder.encode(value, key)
    encoder.arrays.finish()
    arrays = {
        name: {**encoder.arrays.table[name], "hex": array.tobytes().hex()}
        for name, array in encoder.arrays.arrays.items()
    }
    return {"tree": tree, "arrays": arrays} if arrays else {"tree": tree}


def merge_proposals(
    proposals: Sequence[Mapping[str, Any]], lowest: bool = False
) -> tuple[dict[str, Any], list[list[tuple[str, str]]]]:
    """Make the entries of the index, and choose who writes which of them.

    What several ranks have is written by one of them: by the one that has least to write.

    Args:
        proposals: what each rank has.
        lowest: by the rank of the smallest number instead.

    Returns: the entries by key, and for each rank the (name in its file, key) that it writes.

    Raises: CheckpointError: ranks disagree about a tensor, or parts of it are missing.
    """
    holders: dict[str, dict[Chunk, list[int]]] = {}
    entries: dict[str, Any] = {}
    for rank, described in enumerate(proposals):
        for key, facts in described.items():
            entry = entries.setdefault(key, start_entry(facts))
            check_same_tensor(key, entry, facts, rank)
            if facts.get("chunk") is not None:
                boxes = holders.setdefault(key, {})
                boxes.setdefault(Chunk(*facts["chunk"]), []).append(rank)
    loads = [0] * len(proposals)
    written: list[list[tuple[str, str]]] = [[] for _ in proposals]
    listed = [(key, box, ranks) for key, boxes in holders.items() for box, ranks in boxes.items()]
    for key, box, ranks in sorted(listed, key=lambda item: len(item[2]) > 1):  # no choice: first
        chosen = min(ranks) if lowest else min(ranks, key=lambda rank: (loads[rank], rank))
        loads[chosen] += proposals[chosen][key]["bytes"]
        name = key if len(holders[key]) == 1 else f"{key}@{','.join(map(str, box.offsets))}"
        written[chosen].append((name, key))
        entries[key]["chunks"].append(
            {"offsets": box.offsets, "sizes": box.sizes, "file": chosen, "name": name}
        )
    for key, entry in entries.items():
        check_complete(key, entry)
    return entries, written


def start_entry(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of the index for a key, without its parts."""
    if "value" in facts:
        return {"path": facts["path"], "value": facts["value"]}
    return {"path": facts["path"], "dtype": facts["dtype"], "shape": facts["shape"], "chunks": []}


def check_same_tensor(
    key: str, entry: Mapping[str, Any], facts: Mapping[str, Any], rank: int
) -> None:
    """Raise CheckpointError if a rank has another tensor under this key than those before it."""
    differing = [name for name in ("dtype", "shape") if entry.get(name) != facts.get(name)]
    if differing:
        name = differing[0]
        raise CheckpointError(
            "save", f"{key} differs in {name} between ranks",
            {"a rank before": entry.get(name, "no tensor"),
             f"rank {rank}": facts.get(name, "no tensor")},
            "what belongs to one rank gets a key of its own, such as f'rank{rank}'",
        )  # fmt: skip


def check_complete(key: str, entry: Mapping[str, Any]) -> None:
    """Raise CheckpointError if the parts of all ranks are not the whole tensor."""
    if "value" in entry:
        return
    boxes = [Chunk(part["offsets"], part["sizes"]) for part in entry["chunks"]]
    whole = Chunk((), tuple(entry["shape"])).numel()
    have = sum(box.numel() for box in boxes)
    if have != whole:
        raise CheckpointError(
            "save", f"{key}: the ranks hold {have} of {whole} elements",
            {"shape": tuple(entry["shape"]), "parts": [tuple(box.offsets) for box in boxes]},
            "all ranks of the tensor's mesh call save",
        )  # fmt: skip
