"""`torch.nn.attention`: the choice of attention kernels, which has no effect here.

`flex_attention.py` is attention with a mask or a bias that a function describes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from ...backends import cuda
from ...errors import ArgumentError

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """PyTorch's kernels for `scaled_dot_product_attention`."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Allow only these kernels inside a `with` block; the results do not depend on it.

    Args:
        backends: one `SDPBackend`, or several.
        set_priority: accepted; has no effect.

    Raises: TypeError: a value is not an `SDPBackend`.

    >>> with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
    ...     nn.functional.scaled_dot_product_attention(*ones(3, 1, 2, 4)).shape
    torch.Size([1, 2, 4])
    """
    enabled = {backends} if isinstance(backends, SDPBackend) else set(backends)
    invalid = [backend for backend in enabled if not isinstance(backend, SDPBackend)]
    if invalid:
        raise ArgumentError(
            "sdpa_kernel", f"argument `backends` must hold SDPBackend values, got {invalid[0]!r}",
            hint="for instance nn.attention.SDPBackend.MATH",
        )  # fmt: skip
    with cuda.sdp_kernel(
        enable_flash=SDPBackend.FLASH_ATTENTION in enabled,
        enable_math=SDPBackend.MATH in enabled,
        enable_mem_efficient=SDPBackend.EFFICIENT_ATTENTION in enabled,
        enable_cudnn=SDPBackend.CUDNN_ATTENTION in enabled,
    ):
        yield


def __getattr__(name: str) -> ModuleType:
    """Load `flex_attention` when it is first asked for."""
    if name == "flex_attention":
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
