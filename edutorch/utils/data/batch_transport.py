"""How a batch travels from a worker to the process that asked for it.

A batch is pickled, but the numbers of its tensors and arrays stay outside of the pickle. Few
numbers go through the pipe behind it. Many are written into memory that both processes see: a
file without a name, whose descriptor goes through the pipe. As it never has a name, nothing
can be left behind in /dev/shm, whoever is killed when, and a /dev/shm that is small or missing
does not matter. Where there is no such memory (other systems than Linux, none left) the
numbers go through the pipe, which is slower; on Linux a warning says so.
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
from typing import Any

import numpy as np

from ...backends.aliased_array import as_plain_array
from ...core.pickling import rebuild, rebuild_part
from ...core.tensor import Tensor
from ..deferred_interrupts import defer_interrupts

MIN_BUFFER_BYTES = 4096
"""Arrays of more bytes stay outside of the pickle."""

MIN_SHARED_BYTES = 64 * 1024
"""Batches of more bytes go through shared memory."""

ALIGNMENT = 64
"""Each array starts at a multiple of so many bytes: a line of the processor's cache."""

MAX_MAPPED_BATCHES = 64
"""So many batches may lie in shared memory. Each keeps a file descriptor, of which a process
has about a thousand; a batch beyond these is copied into memory of its own."""

HAS_MEMORY_FILES = hasattr(os, "memfd_create") and hasattr(socket, "send_fds")

_mapped: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


class BatchPickler(pickle.Pickler):
    """Pickles a batch; of a tensor that shows a part of some memory only that part."""

    def reducer_override(self, obj: Any) -> Any:
        """Say how to pickle an object; `NotImplemented`: as usual."""
        if not isinstance(obj, Tensor):
            return reduce_array(obj) if type(obj) is np.ndarray else NotImplemented
        reduced = obj.__reduce_ex__(5)
        if reduced[0] is not rebuild_part:
            return reduced
        cls, _, _, _, requires_grad = reduced[1]
        array = np.asarray(as_plain_array(obj._array), order="C")
        return rebuild, (cls, array, requires_grad, "cpu"), *reduced[2:]


def reduce_array(array: np.ndarray) -> Any:
    """Pickle an array of a type that Python's buffers do not know, such as bfloat16, as bytes."""
    if array.dtype.kind != "V" or array.dtype.fields or not array.size:
        return NotImplemented
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return array_from_bytes, (raw, array.dtype, array.shape)


def array_from_bytes(raw: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Make an array of its bytes again."""
    return raw.view(dtype).reshape(shape)


class Batch:
    """A batch that has arrived and is not unpacked yet."""

    __slots__ = ("body", "buffers")

    def __init__(self, body: bytes, buffers: Sequence[Any]) -> None:
        self.body, self.buffers = body, buffers

    def unpack(self) -> Any:
        """Make the batch again. Its arrays lie where the bytes are: nothing is copied."""
        return pickle.loads(self.body, buffers=self.buffers)


def pack(value: Any) -> tuple[bytes, list[memoryview]]:
    """Pickle `value`; its larger arrays are returned as they lie in memory."""
    buffers: list[memoryview] = []

    def stays_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes > MIN_BUFFER_BYTES:
            buffers.append(raw)
        return raw.nbytes <= MIN_BUFFER_BYTES

    file = io.BytesIO()
    BatchPickler(file, 5, buffer_callback=is_in_band).dump(value)
    return file.getvalue(), buffers


# Sending -----------------------------------------------------------------------------------------


def send(pipe: Any, head: Any, body: bytes, buffers: list[memoryview]) -> None:
    """Send what `pack` returned, under a short `head`."""
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
    """Return where arrays of such sizes begin, and how many bytes they need together."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return offsets, end


def write_memory_file(buffers: list[memoryview], offsets: list[int], total: int) -> int:
    """Write arrays into memory that another process can see; returns its file descriptor.

    `write` reports that memory is full. Writing through a mapping would kill the process.
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
def as_socket(pipe: Any) -> Iterator[socket.socket]:
    """Use a pipe as the socket that it is: it can carry file descriptors."""
    connection = socket.socket(fileno=pipe.fileno())
    try:
        yield connection
    finally:
        connection.detach()


# Receiving ---------------------------------------------------------------------------------------


def receive(pipe: Any) -> tuple[Any, Batch, str]:
    """Return the head, the parcel, and why shared memory was not used ("" if it was).

    Raises: EOFError, OSError: the worker is gone.
    """
    head, body, sizes, in_memory, problem = pipe.recv()
    if in_memory:
        return head, Batch(body, map_buffers(pipe, sizes)), problem
    buffers = [bytearray(size) for size in sizes]
    for buffer in buffers:
        pipe.recv_bytes_into(buffer)
    return head, Batch(body, buffers), problem


def map_buffers(pipe: Any, sizes: list[int]) -> list[memoryview]:
    """Take a file descriptor out of the pipe and return the arrays that lie in its memory."""
    pipe.poll(None)  # to wait can be interrupted; between taking it and closing it nothing can
    with defer_interrupts():
        with as_socket(pipe) as connection:
            _, files, _, _ = socket.recv_fds(connection, 1, 1, socket.MSG_CMSG_CLOEXEC)
        if not files:
            raise EOFError
        offsets, total = buffer_offsets(sizes)
        try:
            if len(_mapped) < MAX_MAPPED_BATCHES:
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
    """Copy the bytes of a file into memory."""
    view, copied = memoryview(memory), 0
    while copied < len(memory):
        copied += os.preadv(file, [view[copied:]], copied)
