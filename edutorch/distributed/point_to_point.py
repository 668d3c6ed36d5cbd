"""Messages from one rank to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from ..core.tensor import Tensor
from ..errors import InvalidValueError
from .collectives import root_of, run
from .engines.buffers import Buffer
from .process_group import ProcessGroup, group_of
from .work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Send a tensor to the rank `dst`, and wait until it may be written again.

    Args:
        tensor: of any shape.
        dst, group_dst: a global rank, or one of the group.
        group: by default all ranks.
        tag: the receiver names the same one.

    Raises: ValueError: the rank is this one, or not in the group.
    """
    _send("send", tensor, group, tag, (dst, group_dst), is_async=False)


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Send a tensor beside the program: `send` that returns a `Work`."""
    return _send("isend", tensor, group, tag, (dst, group_dst), is_async=True)


def _send(
    name: str, tensor: Tensor, group: Any, tag: int, ranks: tuple[int | None, int | None],
    is_async: bool,
) -> Work | None:  # fmt: skip
    chosen = group_of(group, name)
    if chosen is None:
        return None
    to = other_rank(chosen, name, ranks)
    buffer = Buffer(tensor, name, chosen)
    return run_message(
        name, chosen, lambda: chosen.engine.send(buffer.elements, to, tag, is_async),
        lambda: buffer.elements.size, tensor, is_async,
    )  # fmt: skip


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receive a tensor from the rank `src`, or from any.

    Args:
        tensor: is written.
        src, group_src: a global rank, or one of the group; None: any.
        group: by default all ranks.
        tag: the same as the sender's.

    Returns: the global rank of the sender, -1 if this process is not in the group.
    """
    chosen = group_of(group, "recv")
    if chosen is None:
        return -1
    source = None
    if src is not None or group_src is not None:
        source = other_rank(chosen, "recv", (src, group_src))
    buffer = Buffer(tensor, "recv", chosen)
    status: list[Any] = []

    def call() -> None:
        status.append(chosen.engine.receive(buffer.elements, source, tag, is_async=False)[1])

    run_message("recv", chosen, call, buffer.finish, tensor, is_async=False)
    return chosen.ranks[status[0].source]


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Receive a tensor beside the program: `recv` that returns a `Work`."""
    chosen = group_of(group, "irecv")
    if chosen is None:
        return None
    source = None
    if src is not None or group_src is not None:
        source = other_rank(chosen, "irecv", (src, group_src))
    buffer = Buffer(tensor, "irecv", chosen)
    return run_message(
        "irecv", chosen,
        lambda: chosen.engine.receive(buffer.elements, source, tag, is_async=True)[0],
        buffer.finish, tensor, is_async=True,
    )  # fmt: skip


def other_rank(
    group: ProcessGroup, name: str, ranks: tuple[int | None, int | None]
) -> int:  # fmt: skip
    """Return the rank in the group of another process.

    Raises: ValueError: it is this one.
    """
    other = root_of(group, name, *ranks)
    if other == group.rank():
        raise InvalidValueError(
            name, "a rank cannot send to, or receive from, itself",
            {"rank": group.ranks[other]}, "use y.copy_(x) where it is the same process",
        )  # fmt: skip
    return other


def run_message(
    name: str, group: ProcessGroup, call: Callable[[], Any], finish: Callable[[], object],
    tensor: Tensor, is_async: bool,
) -> Work | None:  # fmt: skip
    """Run a message as a collective is run, but do not count it: only two ranks take part."""
    calls = group.calls
    work = run(name, group, call, finish, tensor, is_async, [tensor])
    group.calls = calls
    return work


class P2POp:
    """One message of `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`.
        tensor: is sent, or written.
        peer, group_peer: the other rank: a global one, or one of the group.
        group: by default all ranks.
        tag: the same on both sides.

    Raises: ValueError: another op.
    """

    def __init__(
        self, op: Callable[..., Any], tensor: Tensor, peer: int | None = None, group: Any = None,
        tag: int = 0, group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise InvalidValueError(
                "P2POp", "Invalid op. Expected op to be of type distributed.isend or irecv"
            )
        self.op, self.tensor, self.peer, self.group = op, tensor, peer, group
        self.tag, self.group_peer = tag, group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start several messages, and return a `Work` for each.

    Raises: ValueError: an empty list, or something else in it.
    """
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise InvalidValueError(
            "batch_isend_irecv", "Invalid p2p_op_list. Each op is expected to be of type P2POp"
        )
    works = []
    group = group_of(p2p_op_list[0].group, "batch_isend_irecv")
    with nullcontext() if group is None else group.engine.batch():
        for message in p2p_op_list:
            work = message.op(
                message.tensor, message.peer, message.group, message.tag, message.group_peer
            )
            works += [] if work is None else [work]
    return works
