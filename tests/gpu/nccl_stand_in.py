"""A stand-in for `cupy.cuda.nccl`: ranks are threads, and NumPy moves and reduces their memory.

CuPy's module needs the library libnccl.so.2, 200 MB that are of no use without a GPU. So that its
classes can be imported nevertheless, `real_nccl` builds an empty library of this name, whose
functions do nothing. Names, signatures and the enumeration are those of CuPy's module.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import threading
from importlib import util
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.gpu.cupy_stand_in import signature_of

CODES = {
    "UINT8": np.uint8, "INT8": np.int8, "INT32": np.int32, "UINT32": np.uint32, "INT64": np.int64,
    "UINT64": np.uint64, "FLOAT16": np.float16, "FLOAT32": np.float32, "FLOAT64": np.float64,
    "BFLOAT16": ml_dtypes.bfloat16,
}  # fmt: skip


def real_nccl(folder: Path) -> Any:
    """Import CuPy's module, over an empty library that is built in `folder`."""
    member = util.find_spec("cupy_backends.cuda.libs.nccl")
    assert member is not None
    assert member.origin is not None
    told = subprocess.run(
        ["nm", "-D", "--undefined-only", member.origin], capture_output=True, text=True, check=True
    ).stdout
    names = re.findall(r"\bU (nccl\w+)", told)
    text, library = folder / "empty.c", folder / "libnccl.so.2"
    text.write_text("\n".join(f"int {name}(void) {{ return 0; }}" for name in names))
    flags = ["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-o", str(library)]
    subprocess.run(["gcc", "-w", str(text), *flags], check=True)
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    from cupy_backends.cuda.libs import nccl

    return nccl


class World:
    """Where the threads of all ranks meet. Args: size: how many there are."""

    def __init__(self, size: int) -> None:
        self.size, self.meeting = size, threading.Barrier(size, timeout=20)
        self.told: list[Any] = [None] * size
        self.mail: dict[Any, list[bytes]] = {}
        self.changed = threading.Condition()

    def share(self, rank: int, value: Any) -> list[Any]:
        """Return the values of all ranks."""
        self.told[rank] = value
        self.meeting.wait()
        values = list(self.told)
        self.meeting.wait()
        return values


class Mpi:
    """MPI's communicator of a thread, as far as it is asked."""

    def __init__(self, world: World, rank: int) -> None:
        self.world, self.rank, self.size = world, rank, world.size

    def bcast(self, value: Any, root: int) -> Any:
        """Return the value of the root."""
        return self.world.share(self.rank, value)[root]

    def Barrier(self) -> None:
        """Wait for all."""
        self.world.share(self.rank, None)


def memory(pointer: int, count: int, dtype: Any) -> np.ndarray:
    """Return the memory at an address as an array."""
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(pointer), np.uint8).view(dtype)


class NcclStandIn:
    """The module, in all threads the same. Args: real: CuPy's. world: where the ranks meet."""

    available = True

    def __init__(self, real: Any, world: World) -> None:
        self.real, self.world, self.mine = real, world, threading.local()
        self.calls: list[str] = []
        self.dtypes = {getattr(real, f"NCCL_{name}"): dtype for name, dtype in CODES.items()}

    def __getattr__(self, name: str) -> Any:
        assert name.startswith("NCCL_"), name
        return getattr(self.real, name)  # AttributeError: CuPy has no such name

    def get_unique_id(self) -> tuple[int, ...]:
        """Return a number that the ranks share."""
        return (7,) * 128

    def NcclCommunicator(self, ndev: int, commId: tuple[int, ...], rank: int) -> Any:
        """Return a communicator whose calls fit CuPy's signatures."""
        assert (ndev, commId) == (self.world.size, (7,) * 128)
        return Communicator(self, rank)

    def groupStart(self) -> None:
        """Collect messages from now on."""
        self.mine.depth = getattr(self.mine, "depth", 0) + 1
        self.mine.waiting = getattr(self.mine, "waiting", [])

    def groupEnd(self) -> None:
        """Send all that was collected, then receive."""
        self.mine.depth -= 1
        if not self.mine.depth:
            waiting, self.mine.waiting = self.mine.waiting, []
            for is_receipt in (False, True):
                for message in waiting:
                    if message[0] is is_receipt:
                        message[1]()


class Communicator:
    """One rank's communicator."""

    def __init__(self, module: NcclStandIn, rank: int) -> None:
        self.module, self.world, self.rank = module, module.world, rank

    def __getattribute__(self, name: str) -> Any:
        member = object.__getattribute__(self, name)
        if name in ("module", "world", "rank") or name.startswith("_") or not callable(member):
            return member
        module = object.__getattribute__(self, "module")
        signature = signature_of(getattr(module.real.NcclCommunicator, name))

        def call(*args: Any) -> Any:
            signature.bind(*args)
            assert all(isinstance(argument, int) for argument in args), (name, args)
            module.calls.append(name)
            return member(*args)

        return call

    def destroy(self) -> None:
        """Nothing to free."""

    def allReduce(self, sent: int, got: int, count: int, dtype: int, op: int, on: int) -> None:
        """Reduce on all ranks."""
        memory(got, count, self.module.dtypes[dtype])[...] = _reduced(self, sent, count, dtype, op)

    def reduce(
        self, sent: int, got: int, count: int, dtype: int, op: int, root: int, on: int
    ) -> None:
        """Reduce on the root."""
        result = _reduced(self, sent, count, dtype, op)
        if self.rank == root:
            memory(got, count, self.module.dtypes[dtype])[...] = result

    def reduceScatter(self, sent: int, got: int, count: int, dtype: int, op: int, on: int) -> None:
        """Reduce; each rank gets its part."""
        result = _reduced(self, sent, count * self.world.size, dtype, op)
        part = result[self.rank * count : (self.rank + 1) * count]
        memory(got, count, self.module.dtypes[dtype])[...] = part

    def broadcast(self, sent: int, got: int, count: int, dtype: int, root: int, on: int) -> None:
        """Copy from the root."""
        parts = self.world.share(self.rank, memory(sent, count, np.uint8).copy())
        memory(got, count, np.uint8)[...] = parts[root]

    def allGather(self, sent: int, got: int, count: int, dtype: int, on: int) -> None:
        """Collect on all ranks."""
        parts = self.world.share(self.rank, memory(sent, count, np.uint8).copy())
        memory(got, count * self.world.size, np.uint8)[...] = np.concatenate(parts)

    def send(self, sent: int, count: int, dtype: int, peer: int, on: int) -> None:
        """Put a message into the mail."""

        def post() -> None:
            with self.world.changed:
                message = memory(sent, count, np.uint8).tobytes()
                self.world.mail.setdefault((self.rank, peer), []).append(message)
                self.world.changed.notify_all()

        _now_or_later(self, False, post)

    def recv(self, got: int, count: int, dtype: int, peer: int, on: int) -> None:
        """Take a message from the mail."""
        key = (peer, self.rank)

        def take() -> None:
            with self.world.changed:
                assert self.world.changed.wait_for(lambda: self.world.mail.get(key), timeout=20)
                message = self.world.mail[key].pop(0)
            assert len(message) == count, "the sender's count differs"
            memory(got, count, np.uint8)[...] = np.frombuffer(message, np.uint8)

        _now_or_later(self, True, take)


def _now_or_later(communicator: Communicator, is_receipt: bool, message: Any) -> None:
    mine = communicator.module.mine
    if getattr(mine, "depth", 0):
        mine.waiting.append((is_receipt, message))
    else:
        message()


def _reduced(communicator: Communicator, sent: int, count: int, dtype: int, op: int) -> np.ndarray:
    """Return the reduction of the memory of all ranks."""
    module = communicator.module
    own = memory(sent, count, module.dtypes[dtype]).copy()
    parts = communicator.world.share(communicator.rank, own)
    names = {getattr(module.real, f"NCCL_{n}"): n for n in ("SUM", "PROD", "MAX", "MIN", "AVG")}
    function = {"PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}.get(names[op], np.add)
    result = parts[0]
    for part in parts[1:]:
        result = function(result, part)
    return (result / len(parts)).astype(own.dtype) if names[op] == "AVG" else result
