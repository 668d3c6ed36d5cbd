"""`torch.onnx`: models of other frameworks come in as graphs."""

from __future__ import annotations

from .dtypes import TensorProtoDataType
from .load import ImportedModule, ModelFileError, UnsupportedOpError, load
from .placeholders import export, is_in_onnx_export, register_custom_op_symbolic

__all__ = [
    "ImportedModule", "ModelFileError", "TensorProtoDataType", "UnsupportedOpError", "export",
    "is_in_onnx_export", "load", "register_custom_op_symbolic",
]  # fmt: skip
