"""`torch.onnx.symbolic_opset11`: the ops of an export, of which there are none."""

from __future__ import annotations

from typing import NoReturn

from edutorch.errors import NotHereError


def __getattr__(name: str) -> NoReturn:
    """Raise an error: there is no exporter.

    Raises: AttributeError, NotHereError.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotHereError(f"torch.onnx.symbolic_opset11.{name}", "there is no exporter to ONNX here")
