"""The engine for GPUs: NCCL, through CuPy. Arrays of the host go by MPI, as without it.

A communicator is made at the first collective of a group, on the GPU of its tensor, by all ranks of
the group; the unique id that it needs travels by MPI. Collectives run on a stream of their own: the
current stream waits for it, or the host asks its event, but no collective waits on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import backends
from ...cuda import Event, Stream, current_stream, device
from ...errors import DTypeError, missing_extra
from ..errors import DistBackendError
from ..reduce_op import ReduceOp
from .mpi import MpiEngine, check_op

__all__ = ["NcclEngine", "import_nccl", "is_usable"]

DTYPES = {
    "bool": ("UINT8", 1), "uint8": ("UINT8", 1), "int8": ("INT8", 1), "int32": ("INT32", 1),
    "uint32": ("UINT32", 1), "int64": ("INT64", 1), "uint64": ("UINT64", 1),
    "float16": ("FLOAT16", 1), "bfloat16": ("BFLOAT16", 1), "float32": ("FLOAT32", 1),
    "float64": ("FLOAT64", 1), "complex64": ("FLOAT32", 2), "complex128": ("FLOAT64", 2),
}  # fmt: skip
"""Per dtype the one of NCCL, and how many of it an element is: a complex number is a pair."""

BOOL_OPS = {
    "SUM": "MAX", "MAX": "MAX", "BOR": "MAX", "PRODUCT": "MIN", "MIN": "MIN", "BAND": "MIN",
}  # fmt: skip
"""Truth values are 0 and 1 in bytes: "or" is the larger one, "and" the smaller one."""

OPS = {
    "SUM": "SUM", "AVG": "AVG", "PREMUL_SUM": "SUM", "PRODUCT": "PROD", "MIN": "MIN", "MAX": "MAX",
}  # fmt: skip


def import_nccl() -> Any:
    """Return CuPy's module nccl.

    Raises: MissingExtraError: CuPy is not installed, or there is no NCCL library.
    """
    try:
        from cupy.cuda import nccl
    except ImportError as error:
        raise missing_nccl(str(error)) from None
    if not nccl.available:
        raise missing_nccl("there is no library libnccl.so.2")
    return nccl


def missing_nccl(reason: str) -> Exception:
    """Return the error for a computer without NCCL."""
    return missing_extra("dist-cuda", "torch.distributed", f"NCCL cannot be used ({reason})")


def is_usable() -> bool:
    """Whether there are a GPU, not a simulated one, and NCCL."""
    if backends.simulated_cards() or backends.is_unavailable("cuda"):
        return False
    try:
        return bool(import_nccl())
    except ImportError:
        return False


class Request:
    """A collective on its stream, with the methods of a request of MPI."""

    def __init__(self) -> None:
        self.event: Any = None  # None: its batch has not been started

    def Test(self) -> bool:
        """Whether it is complete."""
        return self.event is not None and self.event.query()

    def Wait(self) -> None:
        """Let the current stream wait for it: not the host."""
        current_stream().wait_event(self.event)


class NcclEngine(MpiEngine):
    """Collectives on the arrays of GPUs, among the processes of an MPI communicator."""

    name = "nccl"

    def __init__(self, communicator: Any) -> None:
        super().__init__(communicator)
        self.connection: Any = None
        self.stream: Any = None
        self.open_batch: list[Request] | None = None

    def takes(self, array: Any) -> bool:
        if isinstance(array, np.ndarray):
            return False
        backend = backends.of(array)
        return backend.is_accelerator and not backend.is_simulated

    # Connection ---------------------------------------------------------------------------------

    def connect(self, index: int) -> Any:
        """Return the communicator; the first call makes it, on all ranks together.

        Raises: DistBackendError: another GPU than that of the first call.
        """
        nccl = import_nccl()
        if self.connection is None:
            number = self.comm.bcast(nccl.get_unique_id() if self.rank == 0 else None, root=0)
            with device(index):
                self.connection = nccl.NcclCommunicator(self.size, number, self.rank)
                self.stream = Stream(index)
            self.card = index
        if index != self.card:
            raise DistBackendError(
                "distributed", "all tensors of a group are on the same GPU of a process",
                {"rank": self.rank, "first": f"cuda:{self.card}", "now": f"cuda:{index}"},
                "call torch.cuda.set_device(LOCAL_RANK) first, and move tensors to 'cuda'",
            )  # fmt: skip
        return self.connection

    def free(self) -> None:
        """Free the communicators."""
        if self.connection is not None:
            self.connection.destroy()
            self.connection = None
        super().free()

    def start(self, array: Any, call: Callable[[Any, int], None], is_async: bool) -> Request | None:
        """Run `call(communicator, stream)` behind what the current stream does.

        Returns: a request; None, if the current stream waits for it already.
        """
        index = backends.of(array).index
        connection = self.connect(index)
        request = Request()
        with device(index):
            if self.open_batch is not None:
                if not self.open_batch:
                    self.stream.wait_stream(current_stream())
                    import_nccl().groupStart()
                self.open_batch.append(request)
                call(connection, self.stream.cuda_stream)
                return request
            self.stream.wait_stream(current_stream())
            call(connection, self.stream.cuda_stream)
            request.event = self.record()
            if is_async:
                return request
            request.Wait()
        return None

    def record(self) -> Event:
        """Return an event that is complete when the stream has come as far as now."""
        event = Event()
        event.record(self.stream)
        return event

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Let messages start together: two ranks that both send first would wait for ever."""
        self.open_batch = []
        try:
            yield
        finally:
            started, self.open_batch = self.open_batch, None
            if started:
                import_nccl().groupEnd()
                with device(self.card):
                    event = self.record()
                for request in started:
                    request.event = event

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let the sends and receives of one collective start together."""
        nccl = import_nccl()
        nccl.groupStart()
        try:
            yield
        finally:
            nccl.groupEnd()

    # Reductions ---------------------------------------------------------------------------------

    def prepare(
        self, array: Any, op: ReduceOp
    ) -> tuple[Any, tuple[int, int, int], Callable[[Any, Any], None]]:
        """Prepare a reduction of `array`.

        Returns: what is sent; count, dtype and op as NCCL takes them, for these elements; and a
            function that writes what arrives into an array.
        """
        check_op(op, array.dtype)
        nccl = import_nccl()
        name = (BOOL_OPS if array.dtype.name == "bool" else OPS).get(op.name)
        if name is None or (array.dtype.kind == "c" and name == "PROD"):
            raise DTypeError(
                "reduce", f"NCCL has no ReduceOp.{op.name} for {array.dtype.name}",
                hint="reduce on the CPU: x.cpu(), in a group with backend 'cpu:gloo,cuda:nccl'",
            )  # fmt: skip
        sent = array if array.dtype.name in DTYPES else array.astype(np.int32)  # int16
        if op.name == "PREMUL_SUM":
            sent = sent * sent.dtype.type(op.factor)
        code, times = DTYPES[sent.dtype.name]
        figures = sent.size * times, getattr(nccl, f"NCCL_{code}"), getattr(nccl, f"NCCL_{name}")

        def finish(arrived: Any, target: Any) -> None:
            if arrived is not target:
                target[...] = arrived.astype(target.dtype)

        return sent, figures, finish

    def all_reduce(self, array: Any, op: ReduceOp, is_async: bool) -> tuple[Any, Any]:
        if not self.takes(array):
            return super().all_reduce(array, op, is_async)
        sent, figures, finish = self.prepare(array, op)
        at = address(sent)
        request = self.start(array, lambda to, on: to.allReduce(at, at, *figures, on), is_async)
        return request, lambda: finish(sent, array)

    def reduce(self, array: Any, op: ReduceOp, root: int, is_async: bool) -> tuple[Any, Any]:
        if not self.takes(array):
            return super().reduce(array, op, root, is_async)
        sent, figures, finish = self.prepare(array, op)
        at = address(sent)
        request = self.start(array, lambda to, on: to.reduce(at, at, *figures, root, on), is_async)
        return request, lambda: finish(sent, array if self.rank == root else sent)

    def reduce_scatter(
        self, output: Any, array: Any, op: ReduceOp, is_async: bool
    ) -> tuple[Any, Any]:
        if not self.takes(array):
            return super().reduce_scatter(output, array, op, is_async)
        sent, (count, code, number), finish = self.prepare(array, op)
        arrived = output
        if sent.dtype != output.dtype:
            arrived = backends.of(output).xp.empty(output.shape, sent.dtype)
        request = self.start(
            array,
            lambda to, on: to.reduceScatter(
                address(sent), address(arrived), count // self.size, code, number, on
            ),
            is_async,
        )
        return request, lambda: (sent, finish(arrived, output))

    # Movement: bytes of any dtype ---------------------------------------------------------------

    def broadcast(self, array: Any, root: int, is_async: bool) -> Any:
        if not self.takes(array):
            return super().broadcast(array, root, is_async)
        at = address(array)
        return self.start(
            array, lambda to, on: to.broadcast(at, at, array.nbytes, byte(), root, on), is_async
        )

    def all_gather(self, output: Any, array: Any, is_async: bool) -> Any:
        if not self.takes(array):
            return super().all_gather(output, array, is_async)
        return self.start(
            array,
            lambda to, on: to.allGather(
                address(array), address(output), array.nbytes, byte(), on
            ),
            is_async,
        )  # fmt: skip

    def gather(self, output: Any, array: Any, root: int, is_async: bool) -> Any:
        if not self.takes(array):
            return super().gather(output, array, root, is_async)
        sizes = [array.nbytes] * self.size if self.rank == root else [0] * self.size
        sent = [array.nbytes if rank == root else 0 for rank in range(self.size)]
        return self.exchange(array, (output, sizes), (array, sent), is_async)

    def scatter(self, output: Any, array: Any, root: int, is_async: bool) -> Any:
        if not self.takes(output):
            return super().scatter(output, array, root, is_async)
        sizes = [output.nbytes if rank == root else 0 for rank in range(self.size)]
        sent = [output.nbytes] * self.size if self.rank == root else [0] * self.size
        return self.exchange(output, (output, sizes), (array, sent), is_async)

    def all_to_all(self, output: Any, array: Any, counts: Any, is_async: bool) -> Any:
        if not self.takes(array):
            return super().all_to_all(output, array, counts, is_async)
        sizes, sent = ([count * array.itemsize for count in part] for part in counts)
        return self.exchange(array, (output, sizes), (array, sent), is_async)

    def exchange(
        self, array: Any, received: tuple[Any, list[int]], sent: tuple[Any, list[int]],
        is_async: bool,
    ) -> Any:  # fmt: skip
        """Receive so many bytes from each rank, one part after the other, and send to each."""

        def call(to: Any, on: int) -> None:
            with self.together():
                for (memory, sizes), move in ((sent, to.send), (received, to.recv)):
                    at = 0 if memory is None else address(memory)
                    for rank, size in enumerate(sizes):
                        if size:
                            move(at, size, byte(), rank, on)
                        at += size

        return self.start(array, call, is_async)

    def send(self, array: Any, to: int, tag: int, is_async: bool) -> Any:
        if not self.takes(array):
            return super().send(array, to, tag, is_async)
        at = address(array)
        return self.start(
            array, lambda link, on: link.send(at, array.nbytes, byte(), to, on), is_async
        )

    def receive(
        self, array: Any, source: int | None, tag: int, is_async: bool
    ) -> tuple[Any, Any]:  # fmt: skip
        if not self.takes(array):
            return super().receive(array, source, tag, is_async)
        if source is None:
            raise DistBackendError(
                "recv", "NCCL cannot receive from any rank", hint="name the sender: src=RANK"
            )
        at = address(array)
        request = self.start(
            array, lambda link, on: link.recv(at, array.nbytes, byte(), source, on), is_async
        )
        return request, SimpleNamespace(source=source)

    def barrier(self, is_async: bool) -> Any:
        """Wait for this GPU, and until all ranks are here."""
        if self.connection is not None:
            current_stream(self.card).synchronize()
        return super().barrier(is_async)


def address(array: Any) -> int:
    """Return where the memory of an array begins."""
    return backends.of(array).address(array)


def byte() -> int:
    """Return NCCL's number of bytes as a dtype."""
    return import_nccl().NCCL_UINT8
