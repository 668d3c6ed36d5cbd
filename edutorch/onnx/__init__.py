"""`torch.onnx`: models leave for other runtimes, and others come in as graphs."""

from __future__ import annotations

from .dtypes import TensorProtoDataType
from .export import ONNXProgram, OnnxExportError, VerificationError, export
from .load import ImportedModule, ModelFileError, UnsupportedOpError, load
from .placeholders import is_in_onnx_export, register_custom_op_symbolic

__all__ = [
    "ImportedModule", "ModelFileError", "ONNXProgram", "OnnxExportError", "TensorProtoDataType",
    "UnsupportedOpError", "VerificationError", "export", "is_in_onnx_export", "load",
    "register_custom_op_symbolic",
]  # fmt: skip
