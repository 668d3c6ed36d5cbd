"""Messages between stages: first what comes (dtypes and shapes), then the tensors themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import empty, tensor, zeros
from ..point_to_point import irecv, isend
from ..process_group import ProcessGroup
from ..work import Work

__all__ = ["Mailbox"]

NAMES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
    "complex64", "complex128",
)  # fmt: skip
"""The dtypes by their number in a message."""

HEADER = 128
FORWARD, BACKWARD = 0, 1


class Mailbox:
    """Sends tensors to other stages beside the program, and waits for theirs.

    Messages from one stage to another arrive in the order in which they were sent, and each
    direction has a tag of its own, so nothing is taken for something else.

    Args:
        group: the ranks of the stages.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group
        self.sent: list[tuple[Work, Tensor]] = []

    def tag(self, stage: int, direction: int) -> int:
        """Return the tag of messages to a stage."""
        return 2 * stage + direction

    def send(self, tensors: Sequence[Tensor], rank: int, stage: int, direction: int) -> None:
        """Send tensors to a stage on another rank, without waiting.

        Args:
            tensors: what to send.
            rank: of the group, where the stage is.
            stage: its number.
            direction: FORWARD or BACKWARD.
        """
        tag = self.tag(stage, direction)
        for message in (describe(tensors), *(value.detach().contiguous() for value in tensors)):
            work = isend(message, group=self.group, group_dst=rank, tag=tag)
            assert work is not None
            self.sent.append((work, message))  # its memory must stay until it is sent

    def receive(self, rank: int, stage: int, direction: int) -> list[tuple[Tensor, bool]]:
        """Wait for tensors from a stage on another rank.

        Args:
            rank: of the group, where they come from.
            stage: the number of the stage that they are for.
            direction: FORWARD or BACKWARD.

        Returns: each with whether it needs a gradient.
        """
        tag = self.tag(stage, direction)
        header = zeros(HEADER, dtype=dtypes.int64)
        self._wait(header, rank, tag)
        result = []
        for dtype, needs_grad, shape in read_header(header.tolist()):
            value = empty(shape, dtype=dtype)
            self._wait(value, rank, tag)
            result.append((value, needs_grad))
        return result

    def _wait(self, target: Tensor, rank: int, tag: int) -> None:
        work = irecv(target, group=self.group, group_src=rank, tag=tag)
        assert work is not None
        work.wait()

    def finish(self) -> None:
        """Wait until everything is sent."""
        for work, _ in self.sent:
            work.wait()
        self.sent.clear()


def describe(tensors: Sequence[Tensor]) -> Tensor:
    """Return dtypes and shapes of tensors as numbers: how many, then dtype, needs_grad, sizes."""
    header: list[int] = [len(tensors)]
    for value in tensors:
        number = NAMES.index(value.dtype.name)
        header += [number, int(value.requires_grad), value.dim(), *map(int, value.shape)]
    if len(header) > HEADER:
        raise ShapeError(
            "pipelining", f"a stage returns {len(tensors)} tensors: too many to describe",
            hint="return fewer of them, for example by concatenating them",
        )  # fmt: skip
    return tensor(header + [0] * (HEADER - len(header)), dtype=dtypes.int64)


def read_header(header: Sequence[int]) -> list[tuple[Any, bool, tuple[int, ...]]]:
    """Return dtype, whether a gradient is needed, and shape of all tensors of a message."""
    result, at = [], 1
    for _ in range(header[0]):
        number, needs_grad, dims = header[at : at + 3]
        at += 3
        shape = tuple(header[at : at + dims])
        result.append((getattr(dtypes, NAMES[number]), bool(needs_grad), shape))
        at += dims
    return result
