"""`torch.backends.cuda`: switches of matrix products and attention, kept so that scripts can
set them. Attention has one definition here, whichever kernels are allowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

PRECISIONS = ("highest", "high", "medium")


class MatmulSettings:
    """How exact matrix products have to be: `torch.backends.cuda.matmul`."""

    precision = "highest"
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """Whether a float32 product may use TensorFloat-32: any precision but "highest"."""
        return self.precision != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        self.precision = "high" if value else "highest"


matmul = MatmulSettings()
_allowed = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Say whether the parts for NVIDIA GPUs are installed; a GPU need not be there."""
    return find_spec("cupy") is not None


def enable_flash_sdp(enabled: bool) -> None:
    """Allow attention by the kernel called flash."""
    _allowed["flash"] = bool(enabled)


def flash_sdp_enabled() -> bool:
    """Say whether it is allowed."""
    return _allowed["flash"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow attention by the kernel that saves memory."""
    _allowed["mem_efficient"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Say whether it is allowed."""
    return _allowed["mem_efficient"]


def enable_math_sdp(enabled: bool) -> None:
    """Allow attention by its formula."""
    _allowed["math"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """Say whether it is allowed."""
    return _allowed["math"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow attention by cuDNN."""
    _allowed["cudnn"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Say whether it is allowed."""
    return _allowed["cudnn"]


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Allow some kinds of attention only, inside a `with` block."""
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
