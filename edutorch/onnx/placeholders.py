"""`torch.onnx`, as far as libraries import it: there is no exporter (yet).

Libraries register how their own ops are exported; that is accepted, and nobody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from edutorch.errors import NotHereError

__all__ = ["export", "is_in_onnx_export", "register_custom_op_symbolic"]


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Accept how an op is exported; it is not used."""


def is_in_onnx_export() -> bool:
    """Return False: nothing is exported."""
    return False


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise an error: a module cannot be exported.

    Raises: NotHereError: always.
    """
    raise NotHereError(
        "torch.onnx.export",
        "there is no exporter to ONNX here",
        hint="save the weights, load them in PyTorch, and export there",
    )
