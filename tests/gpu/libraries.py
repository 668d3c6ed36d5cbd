"""The strict device with the libraries and kernels of a GPU: stand-ins, and fibers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

import edutorch as torch
from edutorch.backends.cards import CardRandom
from edutorch.backends.philox_device import DeviceRandom
from edutorch.backends.strict import StrictBackend
from edutorch.kernels.gpu.cudnn import use_cudnn
from edutorch.kernels.gpu.matmul import use_bindings
from edutorch.kernels.gpu.module import use_launcher
from tests.gpu.fibers import FiberLauncher
from tests.gpu.recording import RecordedLauncher
from tests.gpu.stand_ins import CublasLt

__all__ = ["use_device_random", "use_libraries"]


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
