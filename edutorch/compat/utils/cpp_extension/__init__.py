"""`torch.utils.cpp_extension.load_inline`: functions in C++, compiled and called from Python.

The source is compiled with nanobind (extra `cpp`) by the compiler of the machine, and kept in the
user's cache. See README.md for an op with a derivative.
"""

from __future__ import annotations

from .loading import ExtensionError, load_inline

__all__ = ["ExtensionError", "load_inline"]
