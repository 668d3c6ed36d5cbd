"""Models in ONNX's format, brought in as graphs of torch calls."""

from __future__ import annotations

from .errors import ModelFileError, UnsupportedOpError
from .importer import load
from .module import ImportedModule

__all__ = ["ImportedModule", "ModelFileError", "UnsupportedOpError", "load"]
