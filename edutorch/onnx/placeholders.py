"""What libraries import of `torch.onnx` besides the exporter.

They register how their own ops are exported; that is accepted, and nobody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["is_in_onnx_export", "register_custom_op_symbolic"]


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Accept how an op is exported; it is not used."""


def is_in_onnx_export() -> bool:
    """Return False: a module is exported as it runs."""
    return False
