"""`torch.backends.cuda`: switches of matrix products and attention.

They are stored so that scripts can set them. Attention has one implementation here, whichever
kernels are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

PRECISIONS = ("highest", "high", "medium")


class MatmulSettings:
    """The precision of matrix products: `torch.backends.cuda.matmul`."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False

    def __init__(self) -> None:
        self._precision = "highest"
        self._listeners: list[Callable[[str], None]] = []

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call a device's function with the precision, now and at each change."""
        self._listeners.append(listener)
        listener(self._precision)

    @property
    def precision(self) -> str:
        """How exact float32 products are: "highest", "high" or "medium"."""
        return self._precision

    @precision.setter
    def precision(self, value: str) -> None:
        self._precision = value
        for listener in self._listeners:
            listener(value)

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 products may use TensorFloat-32: any precision but "highest"."""
        return self.precision != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        self.precision = "high" if value else "highest"


matmul = MatmulSettings()
_allowed = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Return True if the libraries for NVIDIA GPUs are installed, with or without a GPU."""
    return find_spec("cupy") is not None


def enable_flash_sdp(enabled: bool) -> None:
    """Allow flash attention."""
    _allowed["flash"] = bool(enabled)


def flash_sdp_enabled() -> bool:
    """Return True if it is allowed."""
    return _allowed["flash"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow memory-efficient attention."""
    _allowed["mem_efficient"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Return True if it is allowed."""
    return _allowed["mem_efficient"]


def enable_math_sdp(enabled: bool) -> None:
    """Allow attention by matrix products."""
    _allowed["math"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """Return True if it is allowed."""
    return _allowed["math"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow attention by cuDNN."""
    _allowed["cudnn"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Return True if it is allowed."""
    return _allowed["cudnn"]


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Allow only some attention kernels inside a `with` block."""
    before = dict(_allowed)
    _allowed.update(
        flash=enable_flash,
        math=enable_math,
        mem_efficient=enable_mem_efficient,
        cudnn=enable_cudnn,
    )
    try:
        yield
    finally:
        _allowed.update(before)
