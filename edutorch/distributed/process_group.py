"""Process groups: which processes work together, and which of them this one is."""

from __future__ import annotations

import atexit
import itertools
import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from importlib import import_module
from typing import Any

from .. import backends
from ..backends.device import Device
from ..errors import EdutorchError, InvalidValueError, warn
from . import recorder as records
from .availability import default_pg_timeout, is_nccl_available
from .engines.mpi import MpiEngine, import_mpi
from .environment import placement
from .errors import DistBackendError
from .init_methods import resolve
from .recorder import Recorder
from .stores import Store

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "destroy_process_group", "get_backend",
    "get_backend_config", "get_global_rank", "get_group_rank", "get_node_local_rank",
    "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_process_group", "is_initialized", "is_torchelastic_launched", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "split_group",
]  # fmt: skip


class UnknownBackendError(EdutorchError, ValueError):
    """There is no backend of this name."""


class Backend(str):
    """The name of a backend: "gloo" and "mpi" are MPI, "nccl" is NCCL."""

    GLOO, MPI, NCCL, UNDEFINED = "gloo", "mpi", "nccl", "undefined"


class ProcessGroup:
    """Some processes that call the same collectives in the same order.

    Attributes:
        engine: what moves the data.
        ranks: the global ranks of its members; the index is the rank in this group.
        number: 0 for the group of all processes; the same on all members.
        calls: how many collectives this process has called in it.
    """

    def __init__(
        self, engine: MpiEngine, ranks: Sequence[int], backend: str, number: int,
        description: str = "",
    ) -> None:  # fmt: skip
        self.engine, self.ranks, self.backend = engine, list(ranks), backend
        self.number, self.calls = number, 0
        self.group_desc = description or ("default_pg" if number == 0 else "undefined")
        self.group_name = str(number)
        self.timeout = default_pg_timeout

    def rank(self) -> int:
        """Return the rank of this process in the group."""
        return self.engine.rank

    def size(self) -> int:
        """Return how many processes the group has."""
        return self.engine.size

    def name(self) -> str:
        """Return the name of the backend."""
        return self.backend

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name}: ranks {self.ranks}, {self.backend}>"


class GroupMember:
    """The group of all processes, and what stands for a group that this process is not in."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


class group:
    """`group.WORLD`: the group of all processes."""

    class _World:
        def __get__(self, instance: object, owner: type) -> ProcessGroup | None:
            return GroupMember.WORLD

    WORLD: Any = _World()


class World:
    """What this process knows of its job, from `init_process_group` on."""

    recorder: Recorder | None = None
    store: Store | None = None
    groups: list[ProcessGroup]  # those that are alive here
    group_ids: Any  # counts groups, on all ranks alike


world = World()
world.groups = []


def is_initialized() -> bool:
    """Whether there is a process group.

    >>> distributed.is_initialized()
    False
    """
    return GroupMember.WORLD is not None


def is_torchelastic_launched() -> bool:
    """Whether `torchrun` has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None,
    world_size: int = -1, rank: int = -1, store: Any = None, group_name: str = "",
    pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Form the group of all processes of this job.

    Args:
        backend: "gloo" or "mpi" for tensors on the CPU, "nccl" for those on GPUs; None: both.
        init_method: "env://", "tcp://HOST:PORT" or "file:///PATH". The launcher has connected the
            processes already, so only its numbers are used.
        store: instead of an init_method.
        timeout: after so long in one collective, the job is ended.
        world_size, rank: by default the launcher's.
        group_name, pg_options: accepted.
        device_id: the GPU of this process, which is connected at once.

    Raises:
        ValueError: an unknown backend, a missing variable, or it is there already.
        DistBackendError: the processes disagree, or were not started together.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> distributed.get_world_size()
    1
    >>> distributed.destroy_process_group()
    """
    if is_initialized():
        raise InvalidValueError(
            "init_process_group", "trying to initialize the default process group twice!",
            hint="call destroy_process_group first",
        )  # fmt: skip
    name = check_backend(backend)
    rank, world_size, world.store = resolve(init_method, rank, world_size, store, timeout)
    communicator = join(rank, world_size, name)
    world.recorder = Recorder(rank, world_size)
    world.group_ids = itertools.count()
    engine = make_engine(communicator, name, device_id)
    GroupMember.WORLD = ProcessGroup(engine, range(world_size), name, next(world.group_ids))
    GroupMember.WORLD.timeout = timeout or default_pg_timeout
    world.groups = [GroupMember.WORLD]
    atexit.register(mark_as_left)


def check_backend(backend: str | None) -> str:
    """Return the name of a backend in small letters; None chooses.

    Raises: UnknownBackendError, DistBackendError: there is none, or it needs a GPU.
    """
    wanted = str(backend or "undefined").lower()
    names = {part.rpartition(":")[2] for part in wanted.split(",")}  # "cpu:gloo,cuda:nccl"
    unknown = names - {"gloo", "mpi", "nccl", "undefined"}
    if unknown:
        raise UnknownBackendError(
            "init_process_group", f"unknown backend {', '.join(sorted(unknown))}",
            hint="there are 'gloo' and 'mpi' (MPI, for CPUs) and 'nccl' (for GPUs)",
        )  # fmt: skip
    if names == {"nccl"} and not is_nccl_available():
        raise DistBackendError(
            "init_process_group", "'nccl' needs a GPU, and there is none here",
            hint="use backend='gloo', which works on CPUs; or start with --cuda-as-cpu",
        )  # fmt: skip
    return wanted


def make_engine(communicator: Any, backend: str, device_id: Any = None) -> MpiEngine:
    """Return what moves the data: NCCL for real GPUs, where it is wanted, else MPI.

    Simulated cards have the memory of the host, so that MPI answers for "nccl" as well.
    """
    has_gpu = not backends.simulated_cards() and is_nccl_available()
    if not has_gpu or not (backend == "undefined" or "nccl" in backend):
        return MpiEngine(communicator)
    nccl = import_module(f"{__package__}.engines.nccl")
    if backend == "undefined" and not nccl.is_usable():
        return MpiEngine(communicator)
    nccl.import_nccl()  # raises, if it is asked for and not installed
    engine = nccl.NcclEngine(communicator)
    if device_id is not None:
        engine.connect(Device(device_id).index or 0)
    return engine


def join(rank: int, world_size: int, backend: str) -> Any:
    """Return MPI's communicator of all processes, ordered by rank.

    Raises: DistBackendError: the processes were not started together, or disagree.
    """
    everyone = import_mpi().COMM_WORLD
    if everyone.size != world_size and everyone.size == 1:
        raise DistBackendError(
            "init_process_group",
            f"this process was started alone, but world_size is {world_size}",
            {"rank": rank, "world_size": world_size},
            "processes that were started one by one cannot join: start all of them together, by "
            f"`torchrun --nproc-per-node {world_size} SCRIPT` "
            "(python -m edutorch.distributed.run), "
            f"or from a program by multiprocessing.spawn(fn, nprocs={world_size})",
        )
    told = everyone.allgather((world_size, rank, backend))
    for what, values in zip(
        ("world_size", "rank", "backend"), zip(*told, strict=True), strict=True
    ):
        wrong = len(set(values)) != (everyone.size if what == "rank" else 1)
        if wrong or (what == "world_size" and world_size != everyone.size):
            raise DistBackendError(
                "init_process_group",
                f"{what} does not fit: {everyone.size} processes were started",
                {f"{what} of process {index}": value for index, value in enumerate(values)},
                "each process has its own rank, and all have the same world_size and backend",
            )
    return everyone if rank == everyone.rank else everyone.Split(0, rank)


def mark_as_left() -> None:
    """Record that this process takes part no longer."""
    if world.recorder is not None and world.recorder.state == records.RUNNING:
        world.recorder.set_state(records.LEFT)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave a group, or (None) all of them.

    Raises: ValueError: there is none.
    """
    if GroupMember.WORLD is None:
        raise no_group("destroy_process_group")
    if group is None or group is GroupMember.WORLD:
        mark_as_left()
        GroupMember.WORLD, world.recorder = None, None
        leaving, world.groups = world.groups, []
        for member in reversed(leaving):
            member.engine.free()
    elif isinstance(group, ProcessGroup) and group in world.groups:
        world.groups.remove(group)
        group.engine.free()


class NoGroupError(EdutorchError, ValueError, RuntimeError):
    """There is no process group yet."""


def no_group(what: str) -> NoGroupError:
    """Return PyTorch's error where there is no process group."""
    return NoGroupError(
        what, "Default process group has not been initialized",
        hint="please make sure to call init_process_group first",
    )  # fmt: skip


def group_of(group: Any, what: str) -> ProcessGroup | None:
    """Return the group of an argument `group`; None: this process is not in it.

    Raises: NoGroupError: there is none yet.
    """
    if GroupMember.WORLD is None:
        raise no_group(what)
    if group is None:
        return GroupMember.WORLD
    if group == GroupMember.NON_GROUP_MEMBER:
        warn(
            f"Running {what} on global rank {get_rank()} which does not belong to the given group."
        )
        return None
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"{what}: group is a ProcessGroup, not {type(group).__name__}")
    return group


def get_rank(group: Any = None) -> int:
    """Return the rank of this process in a group; -1 if it is not in it."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    chosen = group_of(group, "get_rank")
    return -1 if chosen is None else chosen.rank()


def get_world_size(group: Any = None) -> int:
    """Return how many processes a group has; -1 if this one is not in it."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    chosen = group_of(group, "get_world_size")
    return -1 if chosen is None else chosen.size()


def get_backend(group: Any = None) -> str:
    """Return the name of the backend of a group.

    Raises: ValueError: this process is not in it.
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        raise InvalidValueError("get_backend", "Invalid process group specified")
    chosen = group_of(group, "get_backend")
    assert chosen is not None
    return Backend(chosen.backend)


def get_backend_config(group: Any = None) -> str:
    """Return which backend moves the tensors of which device, such as "cpu:gloo,cuda:nccl"."""
    name = get_backend(group)
    if ":" in name:
        return name
    return "cpu:gloo,cuda:nccl" if name == "undefined" else f"cpu:{name},cuda:{name}"


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Return the global ranks of the members of a group."""
    chosen = group_of(group, "get_process_group_ranks")
    return [] if chosen is None else list(chosen.ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the rank in a group of a global rank.

    Raises: ValueError: it is not in the group.
    """
    if global_rank not in group.ranks:
        raise InvalidValueError(
            "get_group_rank", f"Global rank {global_rank} is not part of group {group}"
        )
    return group.ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the global rank of a rank in a group.

    Raises: ValueError: there is none.
    """
    if not 0 <= group_rank < len(group.ranks):
        raise InvalidValueError(
            "get_global_rank", f"Group rank {group_rank} is not part of group {group}"
        )
    return group.ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the rank of this process among those of its computer.

    Raises: RuntimeError: no launcher has said it, and there is no fallback.
    """
    place = placement()
    if place is not None and "LOCAL_RANK" in os.environ:
        return place.local_rank
    if fallback_rank is not None:
        return int(fallback_rank)
    raise DistBackendError("get_node_local_rank", "LOCAL_RANK is not in the environment")


def get_pg_count() -> int:
    """Return how many groups this process is in."""
    return len(world.groups)


# Groups of some ranks ----------------------------------------------------------------------------


def new_group(
    ranks: Iterable[int] | None = None, timeout: timedelta | None = None,
    backend: str | None = None, pg_options: Any = None, use_local_synchronization: bool = False,
    group_desc: str | None = None, device_id: Any = None,
) -> Any:  # fmt: skip
    """Make a group of some ranks. All processes call it, in the same order.

    Args:
        ranks: global ranks; None: all.
        timeout, backend: by default those of the group of all.
        pg_options, use_local_synchronization, device_id: accepted.
        group_desc: a description.

    Returns: the group, or `GroupMember.NON_GROUP_MEMBER` on other ranks.

    Raises: ValueError: a rank that does not exist, or that occurs twice.
    """
    everyone = group_of(None, "new_group")
    assert everyone is not None
    members = list(range(everyone.size())) if ranks is None else sorted(ranks)
    check_ranks(members, everyone.size())
    number = next(world.group_ids)
    engine = everyone.engine.subgroup(members)
    if engine is None:
        return GroupMember.NON_GROUP_MEMBER
    name = check_backend(backend) if backend else everyone.backend
    if backend:
        engine = make_engine(engine.comm, name)
    made = ProcessGroup(engine, members, name, number, group_desc or "")
    made.timeout = timeout or everyone.timeout
    world.groups.append(made)
    return made


def check_ranks(ranks: Sequence[int], size: int) -> None:
    """Raise ValueError for ranks that do not exist, or occur twice."""
    wrong = [rank for rank in ranks if not 0 <= rank < size]
    if wrong or len(set(ranks)) != len(ranks) or not ranks:
        raise InvalidValueError(
            "new_group", "the new group's rank should be within the world_size set by "
            "init_process_group, and each rank can be in it once",
            {"ranks": list(ranks), "world_size": size},
        )  # fmt: skip


def new_subgroups(
    group_size: int | None = None, group: ProcessGroup | None = None,
    timeout: timedelta | None = None, backend: str | None = None, pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Divide all ranks into groups of `group_size` neighbours, by default those of each computer.

    Returns: the group of this process, and all of them.

    Raises: ValueError: the size does not divide the number of processes.
    """
    size = get_world_size(group)
    place = placement()
    width = group_size or (place.local_world_size if place else size)
    if width <= 0 or size % width:
        raise InvalidValueError(
            "new_subgroups", f"the world size ({size}) must be divisible by group_size={width}"
        )
    parts = [list(range(first, first + width)) for first in range(0, size, width)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: timedelta | None = None,
    backend: str | None = None, pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Make several groups that have no rank in common.

    Returns: the group of this process (None: it is in none), and all of them.

    Raises: ValueError: a rank occurs twice.
    """
    flat = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    check_ranks(flat, get_world_size())
    groups = [
        new_group(ranks, timeout, backend, group_desc=group_desc)
        for ranks in ranks_per_subgroup_list
    ]
    own = [made for made in groups if isinstance(made, ProcessGroup)]
    return (own[0] if own else None), groups


def split_group(
    parent_pg: ProcessGroup | None = None, split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None, pg_options: Any = None, group_desc: str | None = None,
) -> ProcessGroup | None:  # fmt: skip
    """Divide a group into parts, and return the part that this process is in, or None.

    Raises: ValueError: no parts, or a rank that occurs twice.
    """
    parent = group_of(parent_pg, "split_group")
    if not split_ranks or parent is None:
        raise InvalidValueError("split_group", "split_ranks cannot be None or empty")
    parts = [[parent.ranks[rank] for rank in ranks] for ranks in split_ranks]
    return new_subgroups_by_enumeration(parts, timeout, group_desc=group_desc)[0]
