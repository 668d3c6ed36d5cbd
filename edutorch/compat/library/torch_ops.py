"""`torch.ops` itself: namespaces by name, and libraries of operators.

`edutorch.ops` is the package of all ops. What it does not have is asked of this file, by the
function `__getattr__` that `edutorch/__init__.py` puts there.
"""

from __future__ import annotations

import os
import warnings
from pathlib import PurePath
from typing import Any

from edutorch.errors import EdutorchError

from .operators import namespace

loaded_libraries: set[str] = set()
"""The paths that `load_library` has accepted."""

PROVIDED = {"torchvision": ("_C", "image"), "torchaudio": ("_torchaudio", "libtorchaudio")}
"""Packages whose compiled operators edutorch has itself, and the names of those files."""


class LibraryLoadError(EdutorchError, OSError):
    """A compiled library of operators cannot be loaded."""


def load_library(path: str | os.PathLike[str]) -> None:
    """Accept a compiled library if edutorch has the operators in it; nothing is loaded.

    Raises: OSError: it is another library, compiled for PyTorch.
    """
    file = PurePath(path)
    name = file.name.partition(".")[0]
    if any(package in file.parts and name in names for package, names in PROVIDED.items()):
        loaded_libraries.add(os.path.realpath(path))
        return
    raise LibraryLoadError(
        "ops.load_library", f"Could not load this library: {path}", {
            "why": "it is compiled for PyTorch, whose C++ interface edutorch does not have",
            "provided": ", ".join(PROVIDED),
        }, "write the operator in Python: torch.library.custom_op",
    )  # fmt: skip


def import_module(module: str) -> None:
    """Import a Python module that registers operators."""
    import importlib

    warnings.warn(
        "torch.ops.import_module: a plain `import` does the same", DeprecationWarning, stacklevel=2
    )
    importlib.import_module(module)


FUNCTIONS = {"load_library": load_library, "loaded_libraries": loaded_libraries,
             "import_module": import_module}  # fmt: skip


def ops_attribute(name: str) -> Any:
    """Return `torch.ops.<name>`: a namespace, unless the package `ops` has such a name itself.

    Raises: AttributeError: a private name, which is no namespace.
    """
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name.startswith("_") and name != "_torchaudio" and not is_namespace(name):
        raise AttributeError(f"module 'edutorch.ops' has no attribute {name!r}", name=name)
    return namespace(name)


def is_namespace(name: str) -> bool:
    """Return True if something is registered in a namespace of this name."""
    from .operators import NAMESPACES

    return name in NAMESPACES
