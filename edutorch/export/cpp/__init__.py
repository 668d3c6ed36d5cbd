"""A program as C++: `edutorch.export.cpp(program, folder)`."""

from __future__ import annotations

from .project import cpp
from .writer import CppExportError

__all__ = ["CppExportError", "cpp"]
