"""Collectives: all ranks of a group call the same function, and each gets its result.

Each function checks its arguments, hands contiguous memory to the group's engine, and records the
call (`recorder.py`). With `async_op=True` it returns a `Work` at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from ..core.tensor import Tensor
from ..errors import InvalidValueError, ShapeError
from ..events import MessageArrived, MessageSent, emit, work
from ..modes import current
from .engines.buffers import Buffer, Joined, check_same
from .errors import DistBackendError
from .process_group import ProcessGroup, get_group_rank, group_of, world
from .reduce_op import ReduceOp
from .work import Work

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single",
    "barrier", "broadcast", "gather", "monitored_barrier", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter",
]  # fmt: skip


MESSAGES = itertools.count()
"""Numbers the messages of this process, for listeners."""


def run(
    name: str, group: ProcessGroup, call: Callable[[], Any], finish: Callable[[], object],
    about: Tensor | None = None, is_async: bool = False, result: Sequence[Tensor] = (),
) -> Work | None:  # fmt: skip
    """Run one collective: record it, tell listeners, call the engine, and write the result.

    Args:
        name: the function, for the record and for errors.
        group: who takes part.
        call: starts it and returns MPI's request, several of them, or None.
        finish: writes the result.
        about: a tensor whose dtype and size are recorded.
        is_async: return a `Work` instead of waiting.
        result: the tensors that are written.

    Raises: DistBackendError: MPI has failed.
    """
    if not current().listeners:
        return begin(name, group, call, finish, about, is_async, result)
    engine = group.backend if group.backend in ("gloo", "nccl") else group.engine.name
    label, inputs = f"{engine}:{name}", () if about is None else (about,)
    with work("collective", label, inputs, str(group.number)):
        if not is_async:
            return begin(name, group, call, finish, about, is_async, result)
        number = next(MESSAGES)
        size = 0 if about is None else about.numel() * about.element_size()
        emit(MessageSent(number, label, size))

        def arrive() -> None:
            finish()
            emit(MessageArrived(number, label))

        return begin(name, group, call, arrive, about, is_async, result)


def begin(
    name: str, group: ProcessGroup, call: Callable[[], Any], finish: Callable[[], object],
    about: Tensor | None = None, is_async: bool = False, result: Sequence[Tensor] = (),
) -> Work | None:  # fmt: skip
    """Run one collective, without listeners: see `run`."""
    recorder, number = world.recorder, group.calls
    group.calls = number + 1
    dtype = "" if about is None else about._array.dtype.name
    size = 0 if about is None else about.numel()
    place = 0
    if recorder is not None:
        is_mpi_async = is_async and group.engine.name == "mpi"
        place = recorder.begin(name, group.number, number, dtype, size, is_mpi_async)

    def complete() -> None:
        finish()
        if recorder is not None:
            recorder.end(place)

    try:
        requests = call()
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("mpi4py", "cupy_backends"):
            if recorder is not None:
                recorder.end(place)  # it was refused before it began: nobody waits
            raise
        raise failed(name, group, about, error) from error
    if is_async:
        listed = [] if requests is None else [requests]
        return Work(listed, complete, result, name)
    complete()
    return None


def failed(name: str, group: ProcessGroup, about: Tensor | None, error: Exception) -> Exception:
    """Return the error for a failure of MPI, with what this rank has called."""
    is_truncated = "TRUNCATE" in str(error).upper()
    message = (
        "another rank has sent more elements than this one expects"
        if is_truncated
        else f"MPI has failed: {error}"
    )
    mine = "nothing" if about is None else f"{tuple(about.shape)} {about.dtype}"
    return DistBackendError(
        name, message,
        {"rank": group.ranks[group.rank()], "call": group.calls - 1, "tensor here": mine},
        "all ranks call the same collectives in the same order, with the same shape and dtype",
    )  # fmt: skip


def root_of(
    group: ProcessGroup, name: str, rank: int | None, group_rank: int | None,
    default: int | None = None,
) -> int:  # fmt: skip
    """Return the rank in the group of an argument `src` or `dst`, which is a global rank.

    Args:
        default: the global rank where neither is given; None: one has to be.

    Raises: ValueError: both are given, or none, or there is no such rank.
    """
    if rank is not None and group_rank is not None:
        raise InvalidValueError(name, "give the global rank or the rank in the group, not both")
    if group_rank is None:
        rank = default if rank is None else rank
        if rank is None:
            raise InvalidValueError(name, "the rank of the source or destination is missing")
        return get_group_rank(group, rank)
    if not 0 <= group_rank < group.size():
        raise InvalidValueError(
            name, f"group rank {group_rank} is not in a group of {group.size()}"
        )
    return group_rank


def check_list(name: str, argument: str, tensors: Any, group: ProcessGroup) -> None:
    """Raise if a list has not one tensor for each rank of the group."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{name}: {argument} is a list of tensors, one for each rank")
    if len(tensors) != group.size():
        raise InvalidValueError(
            name, f"{argument} has one tensor for each rank of the group",
            {"tensors": len(tensors), "ranks": group.size()},
        )  # fmt: skip


def check_times(name: str, large: Tensor, small: Tensor, group: ProcessGroup) -> None:
    """Raise ShapeError unless `large` has `small` once for each rank, in the same dtype."""
    check_same(name, [large, small], sizes=False)
    if large.numel() != small.numel() * group.size():
        raise ShapeError(
            name, f"the large tensor has {group.size()} times the elements of the small one",
            {"large": tuple(large.shape), "small": tuple(small.shape), "ranks": group.size()},
        )  # fmt: skip


# Reductions --------------------------------------------------------------------------------------


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce `tensor` over all ranks, in place: afterwards all ranks have the result.

        tensor ← Σ over ranks r of tensor_r      (op = SUM)

    Args:
        tensor: of any shape, the same on all ranks.
        op: see `ReduceOp`.
        group: by default all ranks.
        async_op: return a `Work` at once.

    Raises: DTypeError: the op is not defined for this dtype. DistBackendError: MPI has failed.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> x = tensor([1.0, 2.0])
    >>> distributed.all_reduce(x)
    >>> x
    tensor([1., 2.])
    >>> distributed.destroy_process_group()
    """
    chosen = group_of(group, "all_reduce")
    if chosen is None:
        return None
    buffer = Buffer(tensor, "all_reduce", chosen)
    after: list[Callable[[], object]] = []

    def call() -> Any:
        request, finish = chosen.engine.all_reduce(buffer.elements, op, async_op)
        after.append(finish)
        return request

    def finish() -> None:
        after[0]()
        buffer.finish()

    return run("all_reduce", chosen, call, finish, tensor, async_op, [tensor])


def reduce(
    tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Reduce `tensor` over all ranks, in place on the rank `dst`.

    Args:
        tensor: of any shape, the same on all ranks.
        dst, group_dst: a global rank, or one of the group.
        op, group, async_op: as in `all_reduce`.
    """
    chosen = group_of(group, "reduce")
    if chosen is None:
        return None
    root = root_of(chosen, "reduce", dst, group_dst)
    buffer = Buffer(tensor, "reduce", chosen)
    after: list[Callable[[], object]] = []

    def call() -> Any:
        request, finish = chosen.engine.reduce(buffer.elements, op, root, async_op)
        after.append(finish)
        return request

    def finish() -> None:
        after[0]()
        if chosen.rank() == root:
            buffer.finish()

    return run("reduce", chosen, call, finish, tensor, async_op, [tensor])


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Reduce `input` over all ranks; rank i gets part i of the result.

    Args:
        output: of n elements.
        input: of n elements for each rank.
        op, group, async_op: as in `all_reduce`.

    Raises: ShapeError: the sizes do not fit.
    """
    chosen = group_of(group, "reduce_scatter_tensor")
    if chosen is None:
        return None
    check_times("reduce_scatter_tensor", input, output, chosen)
    return _reduce_scatter(
        "reduce_scatter_tensor", output, Buffer(input, "input", chosen), op, chosen, async_op
    )


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Reduce each tensor of a list over all ranks; rank i gets the i-th result.

    Args:
        output: of the shape of each.
        input_list: a tensor for each rank.
        op, group, async_op: as in `all_reduce`.
    """
    chosen = group_of(group, "reduce_scatter")
    if chosen is None:
        return None
    check_list("reduce_scatter", "input_list", input_list, chosen)
    check_same("reduce_scatter", [output, *input_list])
    source = Joined(input_list, "reduce_scatter", chosen, filled=True)
    return _reduce_scatter("reduce_scatter", output, source, op, chosen, async_op)


def _reduce_scatter(
    name: str, output: Tensor, source: Buffer | Joined, op: ReduceOp, group: ProcessGroup,
    async_op: bool,
) -> Work | None:  # fmt: skip
    target = Buffer(output, name, group)
    after: list[Callable[[], object]] = []

    def call() -> Any:
        request, finish = group.engine.reduce_scatter(
            target.elements, source.elements, op, async_op
        )
        after.append(finish)
        return request

    def finish() -> None:
        after[0]()
        target.finish()

    return run(name, group, call, finish, output, async_op, [output])


# Movement ----------------------------------------------------------------------------------------


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy the tensor of rank `src` into those of all others.

    Args:
        tensor: of the same shape on all ranks.
        src, group_src: a global rank, or one of the group.
        group, async_op: as in `all_reduce`.
    """
    chosen = group_of(group, "broadcast")
    if chosen is None:
        return None
    root = root_of(chosen, "broadcast", src, group_src)
    buffer = Buffer(tensor, "broadcast", chosen)
    return run(
        "broadcast", chosen, lambda: chosen.engine.broadcast(buffer.elements, root, async_op),
        lambda: chosen.rank() == root or buffer.finish(), tensor, async_op, [tensor],
    )  # fmt: skip


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Collect the tensors of all ranks in one, on all ranks.

    Args:
        output_tensor: of n elements for each rank: they are concatenated, or stacked.
        input_tensor: of n elements.
        group, async_op: as in `all_reduce`.

    Raises: ShapeError: the sizes do not fit.
    """
    name = "all_gather_into_tensor"
    chosen = group_of(group, name)
    if chosen is None:
        return None
    check_times(name, output_tensor, input_tensor, chosen)
    source, target = Buffer(input_tensor, name, chosen), Buffer(output_tensor, name, chosen)
    return run(
        name, chosen,
        lambda: chosen.engine.all_gather(target.elements, source.elements, async_op),
        target.finish, input_tensor, async_op, [output_tensor],
    )  # fmt: skip


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Collect the tensors of all ranks in a list, on all ranks.

    Args:
        tensor_list: a tensor for each rank, which is written.
        tensor: of the same shape on all ranks.
        group, async_op: as in `all_reduce`.
    """
    chosen = group_of(group, "all_gather")
    if chosen is None:
        return None
    check_list("all_gather", "tensor_list", tensor_list, chosen)
    check_same("all_gather", [tensor, *tensor_list])
    source, target = (
        Buffer(tensor, "all_gather", chosen),
        Joined(tensor_list, "all_gather", chosen, filled=False),
    )
    return run(
        "all_gather", chosen,
        lambda: chosen.engine.all_gather(target.elements, source.elements, async_op),
        target.finish, tensor, async_op, tensor_list,
    )  # fmt: skip


def gather(
    tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int | None = None,
    group: Any = None, async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Collect the tensors of all ranks in a list on the rank `dst`.

    Args:
        tensor: of the same shape on all ranks.
        gather_list: on `dst` a tensor for each rank, None elsewhere.
        dst, group_dst: a global rank, or one of the group; by default global rank 0.
        group, async_op: as in `all_reduce`.

    Raises: ValueError: `gather_list` is missing on `dst`, or given elsewhere.
    """
    chosen = group_of(group, "gather")
    if chosen is None:
        return None
    root = root_of(chosen, "gather", dst, group_dst, default=0)
    is_root = check_only_at_root("gather", "gather_list", gather_list, chosen.rank() == root)
    target = joined_like("gather", tensor, gather_list, chosen, filled=False) if is_root else None
    source = Buffer(tensor, "gather", chosen)
    elements = None if target is None else target.elements
    return run(
        "gather", chosen, lambda: chosen.engine.gather(elements, source.elements, root, async_op),
        lambda: target is None or target.finish(), tensor, async_op, gather_list or (),
    )  # fmt: skip


def scatter(
    tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int | None = None,
    group: Any = None, async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Give each rank one tensor of a list on the rank `src`.

    Args:
        tensor: receives it; of the same shape on all ranks.
        scatter_list: on `src` a tensor for each rank, None elsewhere.
        src, group_src: a global rank, or one of the group; by default global rank 0.
        group, async_op: as in `all_reduce`.

    Raises: ValueError: `scatter_list` is missing on `src`, or given elsewhere.
    """
    chosen = group_of(group, "scatter")
    if chosen is None:
        return None
    root = root_of(chosen, "scatter", src, group_src, default=0)
    is_root = check_only_at_root("scatter", "scatter_list", scatter_list, chosen.rank() == root)
    source = joined_like("scatter", tensor, scatter_list, chosen, filled=True) if is_root else None
    target = Buffer(tensor, "scatter", chosen)
    elements = None if source is None else source.elements
    return run(
        "scatter", chosen, lambda: chosen.engine.scatter(target.elements, elements, root, async_op),
        target.finish, tensor, async_op, [tensor],
    )  # fmt: skip


def joined_like(
    name: str, tensor: Tensor, tensors: Any, group: ProcessGroup, filled: bool
) -> Joined:
    """Return the root's list, one tensor like `tensor` for each rank, as one piece of memory."""
    check_list(name, f"{name}_list", tensors, group)
    check_same(name, [tensor, *tensors])
    return Joined(tensors, name, group, filled=filled)


def check_only_at_root(name: str, argument: str, tensors: Any, is_root: bool) -> bool:
    """Return `is_root`. Raise ValueError if a list is missing at the root, or given elsewhere."""
    if is_root and not tensors:
        raise InvalidValueError(name, f"argument {argument} must be specified on the root rank")
    if not is_root and tensors:
        raise InvalidValueError(
            name, f"argument {argument} must NOT be specified on ranks that are not the root"
        )
    return is_root


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send part i of `input` to rank i; `output` gets a part from each rank.

    Args:
        output, input: divided along their first axis.
        output_split_sizes, input_split_sizes: the lengths of the parts; by default equal ones.
        group, async_op: as in `all_reduce`.

    Raises: ShapeError: the lengths do not add up, or the axis cannot be divided.
    """
    name = "all_to_all_single"
    chosen = group_of(group, name)
    if chosen is None:
        return None
    check_same(name, [output, input], sizes=False)
    counts = (
        split_counts(name, output, output_split_sizes, chosen.size()),
        split_counts(name, input, input_split_sizes, chosen.size()),
    )
    source, target = Buffer(input, name, chosen), Buffer(output, name, chosen)
    return run(
        name, chosen,
        lambda: chosen.engine.all_to_all(target.elements, source.elements, counts, async_op),
        target.finish, input, async_op, [output],
    )  # fmt: skip


def split_counts(
    name: str, tensor: Tensor, sizes: Sequence[int] | None, parts: int
) -> list[int]:  # fmt: skip
    """Return how many elements each part of a tensor has, which is divided along its first axis."""
    length = tensor.shape[0] if tensor.ndim else 1
    lengths = [length // parts] * parts if not sizes else list(sizes)
    if sum(lengths) != length or len(lengths) != parts:
        raise ShapeError(
            name, f"the first axis of a tensor cannot be divided into {parts} parts so",
            {"tensor": tuple(tensor.shape), "lengths": lengths},
            "the lengths add up to that of the axis, and there is one for each rank",
        )  # fmt: skip
    row = tensor.numel() // length if length else 0
    return [part * row for part in lengths]


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send the i-th tensor of a list to rank i; receive one from each rank.

    Args:
        output_tensor_list, input_tensor_list: a tensor for each rank; shapes may differ.
        group, async_op: as in `all_reduce`.
    """
    chosen = group_of(group, "all_to_all")
    if chosen is None:
        return None
    check_list("all_to_all", "output_tensor_list", output_tensor_list, chosen)
    check_list("all_to_all", "input_tensor_list", input_tensor_list, chosen)
    check_same("all_to_all", [*output_tensor_list, *input_tensor_list], sizes=False)
    source = Joined(input_tensor_list, "all_to_all", chosen, filled=True)
    target = Joined(output_tensor_list, "all_to_all", chosen, filled=False)
    counts = (
        [part.numel() for part in output_tensor_list],
        [part.numel() for part in input_tensor_list],
    )
    return run(
        "all_to_all", chosen,
        lambda: chosen.engine.all_to_all(target.elements, source.elements, counts, async_op),
        target.finish, input_tensor_list[0], async_op, output_tensor_list,
    )  # fmt: skip


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all ranks of a group are here."""
    chosen = group_of(group, "barrier")
    if chosen is None:
        return None
    return run(
        "barrier", chosen, lambda: chosen.engine.barrier(async_op), lambda: None,
        is_async=async_op,
    )  # fmt: skip


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all ranks are here, and say which of them do not come.

    Args:
        group: by default all ranks.
        timeout: by default the group's.
        wait_all_ranks: name all that are missing, not only the first.

    Raises: DistBackendError: some rank did not come in time.
    """
    from .barrier import wait_for_all

    chosen = group_of(group, "monitored_barrier")
    if chosen is not None:
        wait_for_all(chosen, timeout or chosen.timeout, wait_all_ranks)
