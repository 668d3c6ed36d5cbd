"""`torch.onnx.export`: programs become ONNX models."""

from __future__ import annotations

from .exporter import OnnxExportError, export
from .model import ONNXProgram
from .verification import VerificationError

__all__ = ["ONNXProgram", "OnnxExportError", "VerificationError", "export"]
