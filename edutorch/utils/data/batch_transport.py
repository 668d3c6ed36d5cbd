"""Transport of batches from a worker to the process that asked for them.

A batch is pickled with out-of-band buffers for its tensors and arrays. Small buffers follow the
pickle through the pipe. Large ones are written into shared memory: an anonymous file (memfd),
whose descriptor goes through the pipe. As the file has no name, nothing can be left behind in
/dev/shm, whichever process is killed when, and a small or missing /dev/shm does not matter. Where
there is no such memory (systems other than Linux, or none left) the buffers go through the pipe,
which is slower; on Linux a warning says so.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ...backends.numpy import as_plain_array
from ...core.pickling import rebuild, rebuild_part
from ...core.tensor import Tensor
from ..process import defer_interrupts

MIN_BUFFER_BYTES = 4096
"""Larger arrays stay outside of the pickle."""

MIN_SHARED_BYTES = 64 * 1024
"""Larger batches go through shared memory."""

ALIGNMENT = 64
"""The alignment of arrays in bytes: a cache line."""

MAX_MAPPED_BATCHES = 64
"""The most batches in shared memory at a time. Each keeps a file descriptor, of which a process
has about a thousand; further batches are copied into private memory."""

HAS_MEMORY_FILES = hasattr(os, "memfd_create") and hasattr(socket, "send_fds")

_mapped: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


class BatchPickler(pickle.Pickler):
    """Pickles a batch; of a view only its elements, not the whole storage."""

    def reducer_override(self, obj: object) -> Any:
        """Return the reduction of an object; `NotImplemented` for the default one."""
        if not isinstance(obj, Tensor):
            return reduce_array(obj) if type(obj) is np.ndarray else NotImplemented
        reduced = obj.__reduce_ex__(5)
        # The row of a dataset in memory is a view: as it stands its whole storage would be sent.
        if reduced[0] is not rebuild_part:
            return reduced
        cls, _, _, _, requires_grad = reduced[1]
        array = np.asarray(as_plain_array(obj._array), order="C")
        return rebuild, (cls, array, requires_grad, "cpu"), *reduced[2:]


def reduce_array(array: np.ndarray) -> Any:
    """Pickle an array of a dtype without buffer support, such as bfloat16, as bytes."""
    if array.dtype.kind != "V" or array.dtype.fields or not array.size:
        return NotImplemented
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return array_from_bytes, (raw, array.dtype, array.shape)


def array_from_bytes(raw: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Rebuild an array from its bytes."""
    return raw.view(dtype).reshape(shape)


class Batch:
    """A received batch that is still pickled."""

    __slots__ = ("body", "buffers")

    def __init__(self, body: bytes, buffers: Sequence[Any]) -> None:
        self.body, self.buffers = body, buffers

    def unpack(self) -> Any:
        """Unpickle the batch. Its arrays use the received buffers: nothing is copied."""
        return pickle.loads(self.body, buffers=self.buffers)


def pack(value: object) -> tuple[bytes, list[memoryview]]:
    """Pickle `value`; return the pickle, and the buffers of its larger arrays."""
    buffers: list[memoryview] = []

    def is_in_band(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes > MIN_BUFFER_BYTES:
            buffers.append(raw)
        return raw.nbytes <= MIN_BUFFER_BYTES

    file = io.BytesIO()
    BatchPickler(file, 5, buffer_callback=is_in_band).dump(value)
    return file.getvalue(), buffers


# Sending -----------------------------------------------------------------------------------------


def send(
    pipe: Connection, head: tuple[str, int, int], body: bytes, buffers: list[memoryview]
) -> None:
    """Send the result of `pack`, with a short header `head`."""
    sizes = [buffer.nbytes for buffer in buffers]
    offsets, total = buffer_offsets(sizes)
    file, problem = None, ""
    if total > MIN_SHARED_BYTES and HAS_MEMORY_FILES:
        try:
            file = write_memory_file(buffers, offsets, total)
        except OSError as error:
            problem = f"{total:,} bytes ({error.strerror})"
    try:
        pipe.send((head, body, sizes, file is not None, problem))
        if file is None:
            for buffer in buffers:
                pipe.send_bytes(buffer)
        else:
            with as_socket(pipe) as connection:
                socket.send_fds(connection, [b"m"], [file])
    finally:
        if file is not None:
            os.close(file)


def buffer_offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return the aligned offsets of arrays of these sizes, and the total size in bytes."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return offsets, end


def write_memory_file(buffers: list[memoryview], offsets: list[int], total: int) -> int:
    """Write arrays into an anonymous file, and return its descriptor.

    `pwrite` reports that memory is full, whereas writing to a mapping would raise SIGBUS.
    """
    file = os.memfd_create("edutorch batch", os.MFD_CLOEXEC)
    try:
        os.ftruncate(file, total)
        for buffer, place in zip(buffers, offsets, strict=True):
            written = 0
            while written < buffer.nbytes:  # Linux writes 2 GB at most at once
                written += os.pwrite(file, buffer[written:], place + written)
    except OSError:
        os.close(file)
        raise
    return file


@contextmanager
def as_socket(pipe: Connection) -> Iterator[socket.socket]:
    """Use a pipe as a Unix socket, which can carry file descriptors."""
    connection = socket.socket(fileno=pipe.fileno())
    try:
        yield connection
    finally:
        connection.detach()


# Receiving ---------------------------------------------------------------------------------------


def receive(pipe: Connection) -> tuple[Any, Batch, str]:
    """Return the header, the batch, and why shared memory was not used ("" if it was).

    Raises: EOFError, OSError: the worker has ended.
    """
    head, body, sizes, in_memory, problem = pipe.recv()
    if in_memory:
        return head, Batch(body, map_buffers(pipe, sizes)), problem
    buffers = [bytearray(size) for size in sizes]
    for buffer in buffers:
        pipe.recv_bytes_into(buffer)
    return head, Batch(body, buffers), problem


def map_buffers(pipe: Connection, sizes: list[int]) -> list[memoryview]:
    """Receive a file descriptor from the pipe, and return the buffers in its memory."""
    # Waiting can be interrupted; between receiving and closing the descriptor nothing can.
    pipe.poll(None)
    with defer_interrupts():
        with as_socket(pipe) as connection:
            _, files, _, _ = socket.recv_fds(connection, 1, 1, socket.MSG_CMSG_CLOEXEC)
        if not files:
            raise EOFError
        offsets, total = buffer_offsets(sizes)
        try:
            if len(_mapped) < MAX_MAPPED_BATCHES:
                # Copy on write: the batch may be changed in place, as any other.
                memory: Any = mmap.mmap(files[0], total, access=mmap.ACCESS_COPY)
                _mapped.add(memory)
            else:
                memory = bytearray(total)
                read_into(memory, files[0])
        finally:
            os.close(files[0])
    view = memoryview(memory)
    return [view[place : place + size] for place, size in zip(offsets, sizes, strict=True)]


def read_into(memory: bytearray, file: int) -> None:
    """Read the bytes of a file into memory."""
    view, copied = memoryview(memory), 0
    while copied < len(memory):
        copied += os.preadv(file, [view[copied:]], copied)
