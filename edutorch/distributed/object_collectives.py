"""Collectives on Python objects. They travel as pickles between the ranks of one user's job."""

from __future__ import annotations

import pickle
from collections.abc import Callable, MutableSequence
from typing import Any

import numpy as np

from ..errors import InvalidValueError
from .collectives import check_only_at_root, root_of, run
from .point_to_point import other_rank
from .process_group import ProcessGroup, group_of

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list",
    "scatter_object_list", "send_object_list",
]  # fmt: skip


def _run_on_objects(name: str, group: ProcessGroup, call: Callable[[], Any]) -> Any:
    """Call mpi4py's method for objects, with a record of it, and return its result."""
    result: list[Any] = []
    run(name, group, lambda: result.append(call()), lambda: None)
    return result[0]


def all_gather_object(object_list: MutableSequence[Any], obj: Any, group: Any = None) -> None:
    """Collect the objects of all ranks in a list, on all ranks.

    Args:
        object_list: one place for each rank, which is written.
        obj: can be pickled.
        group: by default all ranks.

    Raises: ValueError: the list has another length.
    """
    chosen = group_of(group, "all_gather_object")
    if chosen is None:
        return
    check_places("all_gather_object", object_list, chosen.size())
    comm = chosen.engine.comm
    object_list[:] = _run_on_objects("all_gather_object", chosen, lambda: comm.allgather(obj))


def gather_object(
    obj: Any, object_gather_list: MutableSequence[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None,
) -> None:  # fmt: skip
    """Collect the objects of all ranks in a list on the rank `dst`, by default global rank 0."""
    chosen = group_of(group, "gather_object")
    if chosen is None:
        return
    root = root_of(chosen, "gather_object", dst, group_dst, default=0)
    is_root = check_only_at_root(
        "gather_object", "object_gather_list", object_gather_list, chosen.rank() == root
    )
    comm = chosen.engine.comm
    values = _run_on_objects("gather_object", chosen, lambda: comm.gather(obj, root))
    if is_root:
        assert object_gather_list is not None
        check_places("gather_object", object_gather_list, chosen.size())
        object_gather_list[:] = values


def broadcast_object_list(
    object_list: MutableSequence[Any], src: int | None = None, group: Any = None,
    device: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Copy the objects of a list from rank `src`, by default 0, into the lists of all others."""
    chosen = group_of(group, "broadcast_object_list")
    if chosen is None:
        return
    root = root_of(chosen, "broadcast_object_list", src, group_src, default=0)
    comm = chosen.engine.comm
    values = _run_on_objects(
        "broadcast_object_list", chosen, lambda: comm.bcast(list(object_list), root)
    )
    check_places("broadcast_object_list", object_list, len(values))
    object_list[:] = values


def scatter_object_list(
    scatter_object_output_list: MutableSequence[Any],
    scatter_object_input_list: MutableSequence[Any] | None = None, src: int | None = None,
    group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Give each rank one object of a list on rank `src`, by default 0.

    Args:
        scatter_object_output_list: its first element is written.
        scatter_object_input_list: on `src` an object for each rank.
        src, group_src: a global rank, or one of the group.
        group: by default all ranks.
    """
    name = "scatter_object_list"
    chosen = group_of(group, name)
    if chosen is None:
        return
    root = root_of(chosen, name, src, group_src, default=0)
    if len(scatter_object_output_list) < 1:
        raise InvalidValueError(
            name, "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    values = scatter_object_input_list if chosen.rank() == root else None
    if chosen.rank() == root:
        check_places(name, values or [], chosen.size())
    comm = chosen.engine.comm
    value = _run_on_objects(name, chosen, lambda: comm.scatter(values, root))
    scatter_object_output_list[0] = value


def send_object_list(
    object_list: MutableSequence[Any], dst: int | None = None, group: Any = None,
    device: Any = None, group_dst: int | None = None, use_batch: bool = False,
) -> None:  # fmt: skip
    """Send the objects of a list to the rank `dst`."""
    chosen = group_of(group, "send_object_list")
    if chosen is None:
        return
    to = other_rank(chosen, "send_object_list", (dst, group_dst))
    data = np.frombuffer(pickle.dumps(list(object_list)), np.uint8)
    chosen.engine.send(np.array([data.size], np.int64), to, 0, is_async=False)
    chosen.engine.send(data.copy(), to, 0, is_async=False)


def recv_object_list(
    object_list: MutableSequence[Any], src: int | None = None, group: Any = None,
    device: Any = None, group_src: int | None = None, use_batch: bool = False,
) -> int:  # fmt: skip
    """Receive the objects of a list, from the rank `src` or from any.

    Returns: the global rank of the sender, -1 if this process is not in the group.
    """
    chosen = group_of(group, "recv_object_list")
    if chosen is None:
        return -1
    source = None
    if src is not None or group_src is not None:
        source = other_rank(chosen, "recv_object_list", (src, group_src))
    size = np.zeros(1, np.int64)
    status = chosen.engine.receive(size, source, 0, is_async=False)[1]
    data = np.empty(int(size[0]), np.uint8)
    chosen.engine.receive(data, status.source, 0, is_async=False)
    values = pickle.loads(data.tobytes())
    check_places("recv_object_list", object_list, len(values))
    object_list[:] = values
    return chosen.ranks[status.source]


def check_places(name: str, objects: MutableSequence[Any], wanted: int) -> None:
    """Raise ValueError unless a list has the wanted number of places."""
    if len(objects) != wanted:
        raise InvalidValueError(
            name, f"the list has {len(objects)} places, and there are {wanted} objects"
        )
