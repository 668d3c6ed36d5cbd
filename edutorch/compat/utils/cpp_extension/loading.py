"""`load_inline`: a string of C++ becomes a module whose functions take and return tensors."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.tensor import Tensor, wrap
from ...errors import GradientError
from ...modes import current
from ...utils._pytree import tree_flatten, tree_map
from .build import ExtensionError, build_extension

__all__ = ["ExtensionError", "load_inline"]

PRELUDE = Path(__file__).with_name("prelude.hpp")


def load_inline(
    name: str, cpp_sources: str | Sequence[str], cuda_sources: Any = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None, *,
    extra_cflags: Sequence[str] | None = None, extra_ldflags: Sequence[str] | None = None,
    build_directory: str | os.PathLike[str] | None = None, verbose: bool = False,
    **settings: Any,
) -> types.ModuleType:  # fmt: skip
    """Compile C++ source, and return a module with some of its functions.

    A function takes and returns `Array` (a dense array of floats), `ArrayOf<double>`, numbers,
    strings, and vectors and tuples of these; `zeros_like(x)` makes a new array. Tensors come in as
    arrays, and arrays come back as tensors. They have no derivative: an `autograd.Function` gives
    them one.

    Args:
        name: the name of the module.
        cpp_sources: the source, or several.
        functions: the names of the functions, or their docstrings by name.
        extra_cflags, extra_ldflags: further arguments of the compiler and the linker.
        build_directory: where the module is built; the user's cache if None.
        verbose: whether the compiler's commands are printed.
        cuda_sources, settings: none for CUDA; others are accepted.

    Raises:
        MissingExtraError: nanobind is not installed.
        ExtensionError: there is no compiler, and what to install; or its messages.
    """
    if cuda_sources:
        raise ExtensionError("load_inline", "sources for CUDA cannot be compiled here")
    sources = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    names = [functions] if isinstance(functions, str) else functions or []
    docs = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, "")
    check_names(name, docs)
    flags = list(extra_cflags or []), list(extra_ldflags or [])
    path = build_extension(
        name, module_source(name, sources, docs), flags, build_directory, verbose
    )
    return wrapped(name, imported(name, path), docs)


def check_names(name: str, functions: Mapping[str, str]) -> None:
    """Raise ExtensionError unless the module and its functions have names of C++."""
    for word in (name, *functions):
        if not re.fullmatch(r"[A-Za-z_]\w*", word, re.ASCII):
            raise ExtensionError("load_inline", f"{word!r} is no name in C++")
    if not functions:
        raise ExtensionError("load_inline", "functions= names none: the module would be empty")


def module_source(name: str, sources: Sequence[str], functions: Mapping[str, str]) -> str:
    """Return the whole source: the prelude, the user's, and the list of functions."""
    parts = [PRELUDE.read_text(encoding="utf-8")]
    for number, source in enumerate(sources):  # messages of the compiler name lines of this text
        parts.append(f'#line 1 "{name}{number or ""}.cpp"\n{source}\n')
    lines = [f"  module.def({quoted(f)}, &{f}, {quoted(doc)});" for f, doc in functions.items()]
    parts.append(
        f'#line 1 "functions"\nNB_MODULE({name}, module) {{\n' + "\n".join(lines) + "\n}\n"
    )
    return "\n".join(parts)


def quoted(text: str) -> str:
    """Return a string of C++."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def imported(name: str, path: Path) -> types.ModuleType:
    """Import a compiled module."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ExtensionError("load_inline", f"{path} is no module of this Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Calls --------------------------------------------------------------------------------------------


def wrapped(
    name: str, compiled: types.ModuleType, functions: Mapping[str, str]
) -> types.ModuleType:
    """Return a module whose functions take tensors and return tensors."""
    module = types.ModuleType(name, compiled.__doc__)
    module.__file__ = compiled.__file__
    for function, doc in functions.items():
        setattr(module, function, on_tensors(name, function, getattr(compiled, function), doc))
    return module


def on_tensors(
    module: str, name: str, function: Callable[..., Any], doc: str
) -> Callable[..., Any]:
    """Return a function of arrays as one of tensors.

    It raises GradientError where a tensor requires gradients, which would be lost silently.
    """

    @functools.wraps(function, assigned=())
    def call(*args: Any) -> Any:
        if current().grad:
            check_gradients(f"{module}.{name}", args)
        return tree_map(as_tensor, function(*tree_map(as_array, args)))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc or function.__doc__
    call.__module__ = module
    return call


def check_gradients(name: str, args: Any) -> None:
    """Raise GradientError if a tensor of a call requires gradients."""
    for index, leaf in enumerate(tree_flatten(args)[0]):
        if isinstance(leaf, Tensor) and leaf.requires_grad:
            raise GradientError(
                name, f"argument {index} requires grad, and C++ has no derivative",
                {"argument": tuple(leaf.shape)},
                hint="call it in the forward of an autograd.Function, or in no_grad()",
            )  # fmt: skip


def as_array(value: Any) -> Any:
    """Return the array of a tensor, and anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    return np.ascontiguousarray(value.detach().cpu().numpy())


def as_tensor(value: Any) -> Any:
    """Return an array as a tensor, and anything else as it is."""
    return wrap(value) if isinstance(value, np.ndarray) else value
