"""The engine for CPUs: MPI, through mpi4py. Imported only when a process group is made.

Collectives that only move elements move bytes, of any dtype. Reductions of float16 and bfloat16,
which MPI does not know, are computed in float32 and rounded once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ...errors import DTypeError
from ..errors import missing_mpi
from ..reduce_op import ReduceOp

__all__ = ["MpiEngine", "import_mpi"]

_BOOL_OPS = {
    "SUM": "LOR", "MAX": "LOR", "BOR": "LOR", "PRODUCT": "LAND", "MIN": "LAND", "BAND": "LAND",
    "BXOR": "LXOR",
}  # fmt: skip
_OPS = {
    "SUM": "SUM", "AVG": "SUM", "PREMUL_SUM": "SUM", "PRODUCT": "PROD", "MIN": "MIN", "MAX": "MAX",
    "BAND": "BAND", "BOR": "BOR", "BXOR": "BXOR",
}  # fmt: skip
_BITWISE = ("BAND", "BOR", "BXOR")
_SHORT_FLOATS = ("float16", "bfloat16")


@functools.cache
def import_mpi() -> Any:
    """Return mpi4py's module MPI, which starts MPI in this process.

    Raises: MissingExtraError: it is not installed, or there is no MPI library.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise missing_mpi("torch.distributed", error) from None
    return MPI


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Return the memory of a contiguous array as bytes."""
    return array.reshape(-1).view(np.uint8)


def check_op(op: ReduceOp, dtype: np.dtype) -> None:
    """Raise DTypeError if a reduction is not defined for a dtype, as the maximum of complex."""
    allowed = _BOOL_OPS if dtype.kind == "b" else _OPS
    is_float = dtype.kind not in "bui"
    refused = (
        op.name not in allowed
        or (is_float and op.name in _BITWISE)
        or (dtype.kind == "c" and op.name in ("MIN", "MAX"))
        or (dtype.kind in "ui" and op.name in ("AVG", "PREMUL_SUM"))
    )
    if refused or dtype.itemsize == 0 or dtype.name.startswith("float8"):
        raise DTypeError(
            "reduce", f"ReduceOp.{op.name} is not defined for {dtype.name}",
            hint="convert the tensor first, for example with x.float()",
        )  # fmt: skip


def mpi_op(op: ReduceOp, dtype: np.dtype) -> Any:
    """Return MPI's op for elements of a dtype.

    Raises: DTypeError: there is none.
    """
    check_op(op, dtype)
    return getattr(import_mpi(), (_BOOL_OPS if dtype.kind == "b" else _OPS)[op.name])


class MpiEngine:
    """Collectives on NumPy arrays, among the processes of an MPI communicator.

    Each method starts a collective and returns MPI's request, or None if it is complete already:
    if not `is_async`. All arrays are contiguous.
    """

    name = "mpi"

    def __init__(self, communicator: Any) -> None:
        self.comm = communicator
        self.rank: int = communicator.rank
        self.size: int = communicator.size

    def takes(self, array: Any) -> bool:
        """Whether the elements of an array are handed over where they are, on a GPU."""
        return False

    def batch(self) -> AbstractContextManager[Any]:
        """Return a context whose messages go together: with MPI each one goes for itself."""
        return nullcontext()

    def call(self, name: str, *arguments: Any, is_async: bool = False, **named: Any) -> Any:
        """Call a method of the communicator, or its non-blocking twin, which begins with I."""
        method = getattr(self.comm, f"I{name.lower()}" if is_async else name)
        return method(*arguments, **named)

    def subgroup(self, ranks: Sequence[int]) -> MpiEngine | None:
        """Return the engine of some ranks, on these ranks; None on others."""
        if self.rank not in ranks:
            return None
        members = self.comm.group.Incl(list(ranks))
        return type(self)(self.comm.Create_group(members, tag=hash(tuple(ranks)) % 32_768))

    def free(self) -> None:
        """Free the communicator, unless it is MPI's own."""
        if self.comm not in (import_mpi().COMM_WORLD, import_mpi().COMM_SELF):
            self.comm.Free()

    # Reductions ---------------------------------------------------------------------------------

    def begin_reduction(
        self, array: np.ndarray, op: ReduceOp
    ) -> tuple[np.ndarray, Any, Callable[[np.ndarray, np.ndarray], None]]:
        """Prepare a reduction of `array`.

        Returns: what is sent, MPI's op, and a function that writes what arrives into an array.
        """
        operation = mpi_op(op, array.dtype)
        is_short = array.dtype.name in _SHORT_FLOATS
        sent = array.astype(np.float32) if is_short else array
        if op.name == "PREMUL_SUM":
            sent = sent * sent.dtype.type(op.factor)

        def finish(arrived: np.ndarray, target: np.ndarray) -> None:
            if op.name == "AVG":
                arrived = np.divide(arrived, self.size, out=arrived)
            if arrived is not target:
                target[...] = arrived

        return sent, operation, finish

    def all_reduce(self, array: np.ndarray, op: ReduceOp, is_async: bool) -> tuple[Any, Any]:
        """Reduce in place. Returns a request, and what to do when it is complete."""
        sent, operation, finish = self.begin_reduction(array, op)
        request = self.call(
            "Allreduce", import_mpi().IN_PLACE, sent, op=operation, is_async=is_async
        )
        return request, lambda: finish(sent, array)

    def reduce(self, array: np.ndarray, op: ReduceOp, root: int, is_async: bool) -> tuple[Any, Any]:
        """Reduce into the array of `root`, in place there."""
        sent, operation, finish = self.begin_reduction(array, op)
        if self.rank == root:
            request = self.call(
                "Reduce", import_mpi().IN_PLACE, sent, op=operation, root=root, is_async=is_async
            )
            return request, lambda: finish(sent, array)
        request = self.call("Reduce", sent, None, op=operation, root=root, is_async=is_async)
        return request, lambda: sent.size  # keeps what is sent alive

    def reduce_scatter(
        self, output: np.ndarray, array: np.ndarray, op: ReduceOp, is_async: bool
    ) -> tuple[Any, Any]:
        """Reduce `array`, `size` times as long as `output`; each rank gets its part of it."""
        sent, operation, finish = self.begin_reduction(array, op)
        arrived = output if sent.dtype == output.dtype else np.empty(output.shape, sent.dtype)
        request = self.call("Reduce_scatter_block", sent, arrived, op=operation, is_async=is_async)
        return request, lambda: (sent, finish(arrived, output))

    # Movement -----------------------------------------------------------------------------------

    def broadcast(self, array: np.ndarray, root: int, is_async: bool) -> Any:
        """Copy the array of `root` into those of all others."""
        return self.call("Bcast", as_bytes(array), root=root, is_async=is_async)

    def all_gather(self, output: np.ndarray, array: np.ndarray, is_async: bool) -> Any:
        """Collect the arrays of all ranks, one after the other, in `output`."""
        return self.call("Allgather", as_bytes(array), as_bytes(output), is_async=is_async)

    def gather(
        self, output: np.ndarray | None, array: np.ndarray, root: int, is_async: bool
    ) -> Any:
        """Collect the arrays of all ranks in the `output` of `root`."""
        target = None if output is None else as_bytes(output)
        return self.call("Gather", as_bytes(array), target, root=root, is_async=is_async)

    def scatter(
        self, output: np.ndarray, array: np.ndarray | None, root: int, is_async: bool
    ) -> Any:
        """Divide the `array` of `root` among all ranks."""
        source = None if array is None else as_bytes(array)
        return self.call("Scatter", source, as_bytes(output), root=root, is_async=is_async)

    def all_to_all(
        self, output: np.ndarray, array: np.ndarray, counts: tuple[Sequence[int], Sequence[int]],
        is_async: bool,
    ) -> Any:  # fmt: skip
        """Send part i of `array` to rank i, and receive a part from each.

        Args:
            counts: how many elements come from each rank, and how many go to each.
        """
        received, sent = ([count * array.itemsize for count in part] for part in counts)
        return self.call(
            "Alltoallv", [as_bytes(array), sent], [as_bytes(output), received], is_async=is_async
        )

    def send(self, array: np.ndarray, to: int, tag: int, is_async: bool) -> Any:
        """Send an array to one rank."""
        return self.call("Send", as_bytes(array), dest=to, tag=tag, is_async=is_async)

    def receive(
        self, array: np.ndarray, source: int | None, tag: int, is_async: bool
    ) -> tuple[Any, Any]:
        """Receive an array from one rank, or (None) from any.

        Returns: a request, or None; and MPI's status, or None.
        """
        mpi = import_mpi()
        origin = mpi.ANY_SOURCE if source is None else source
        if is_async:
            return self.comm.Irecv(as_bytes(array), source=origin, tag=tag), None
        status = mpi.Status()
        self.comm.Recv(as_bytes(array), source=origin, tag=tag, status=status)
        return None, status

    def barrier(self, is_async: bool) -> Any:
        """Wait until all ranks are here."""
        return self.call("Barrier", is_async=is_async)

    # Python objects -----------------------------------------------------------------------------

    def all_gather_object(self, value: Any) -> list[Any]:
        """Return the objects of all ranks. They travel as pickles, from ranks of one job only."""
        return self.comm.allgather(value)


def parts_of(length: int, parts: int) -> list[int]:
    """Return the sizes of `parts` parts of `length` elements.

    >>> from edutorch.distributed.engines.mpi import parts_of
    >>> parts_of(7, 3)
    [3, 2, 2]
    """
    return [math.ceil((length - part) / parts) for part in range(parts)]
