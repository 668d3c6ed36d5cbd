"""The strict device with the libraries and kernels of a GPU: stand-ins, and fibers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import edutorch as torch
from edutorch import backends
from edutorch.backends.cards import CardRandom
from edutorch.backends.philox_device import DeviceRandom
from edutorch.backends.strict import StrictBackend
from edutorch.cuda import graphs
from edutorch.cuda.cupy_driver import CupyDriver
from edutorch.cuda.streams import Stream
from edutorch.kernels.gpu.cudnn import use_cudnn
from edutorch.kernels.gpu.matmul import use_bindings
from edutorch.kernels.gpu.module import use_launcher
from tests.gpu.fibers import FiberLauncher
from tests.gpu.recording import ALLOCATORS, RecordedLauncher
from tests.gpu.stand_ins import CublasLt

__all__ = ["use_device_random", "use_libraries", "use_user_graphs"]


@contextmanager
def use_device_random() -> Iterator[None]:
    """Let the strict device draw as a GPU does: by kernels, from a state in its memory."""

    def generator(self: StrictBackend, seed: int) -> CardRandom:
        return CardRandom(DeviceRandom(self.xp, seed), self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StrictBackend, "generator", generator)
        torch.manual_seed(0)
        yield
    torch.manual_seed(0)


class Memory:
    """The private pools of CuPy's memory, for the allocator of the recording stream."""

    def __init__(self, cuda: Any) -> None:
        self.pools: dict[Any, Any] = {}
        self.cuda = cuda

    def use_private_pool(self, handle: Any) -> None:
        if handle is None:
            ALLOCATORS.pop()
        else:
            ALLOCATORS.append(self.pools.setdefault(handle, self.cuda.MemoryPool()).malloc)

    def drop_private_pool(self, handle: Any) -> None:
        self.pools.pop(handle).free_all_blocks()


@contextmanager
def use_user_graphs() -> Iterator[None]:
    """Let the strict device be the card that a `CUDAGraph` is captured on; it is recorded."""
    strict = backends.get("strict")
    cuda = strict.xp.cuda
    stream = object.__new__(Stream)
    stream._handle, stream.device_index = cuda.Stream(non_blocking=True), 0
    stream._driver = CupyDriver(SimpleNamespace(cuda=cuda), Memory(cuda))  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch, stream._handle:
        patch.setattr(graphs, "current_stream", lambda: stream)
        patch.setattr(graphs, "backend_of", lambda stream: strict)
        yield


@contextmanager
def use_libraries() -> Iterator[CublasLt]:
    """Compute by the stand-ins of cuBLASLt and cuDNN, and by kernels on fibers, inside a block.

    It is to be recorded (`recording.recording`).
    """
    from tests.gpu.cudnn_stand_in import cudnn
    from tests.gpu.stand_ins import cublas_lt

    bindings, library = cublas_lt()
    with ExitStack() as stack:
        stack.enter_context(use_device_random())
        stack.enter_context(use_bindings(bindings))
        stack.enter_context(use_cudnn(cudnn()))
        stack.enter_context(
            use_launcher(RecordedLauncher(FiberLauncher(orders=(0,), flags=("-O0",))))
        )
        yield library
