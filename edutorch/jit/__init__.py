"""`torch.jit`: programs that leave Python.

    scripted = torch.jit.script(model)      checked: it is in the subset of TorchScript
    print(scripted.code)                    the program
    scripted.save("model.pt")               the program with its weights
    loaded = torch.jit.load("model.pt")     runs without the model's source, ours and PyTorch's

The files are PyTorch's. A program is read as data: its code is parsed, checked and interpreted, so
it can compute and nothing else. README.md has the subset and the order of reading.
"""

from __future__ import annotations

from typing import Any, Final

from ..serialization.decode import MapLocation
from ..utils.atomic_files import read_bytes
from .archive_reader import read_archive
from .archive_writer import save as _save
from .errors import ArchiveError, Error, NotSupportedError
from .freezing import freeze, optimize_for_inference
from .markers import (
    _overload_method, _script_if_tracing, annotate, export, fork, ignore, is_scripting, is_tracing,
    isinstance, optimized_execution, script_if_tracing, script_method, unused, wait,
)  # fmt: skip
from .script_module import RecursiveScriptModule, ScriptModule
from .scripting import ScriptFunction, script
from .tracing import TracedModule, TracerWarning, TracingCheckError, trace

__all__ = [
    "ArchiveError", "Error", "Final", "NotSupportedError", "RecursiveScriptModule",
    "ScriptFunction", "ScriptModule", "TracedModule", "TracerWarning", "TracingCheckError",
    "annotate", "export", "fork", "freeze", "ignore", "is_scripting", "is_tracing", "isinstance",
    "load", "optimize_for_inference", "optimized_execution", "save", "script",
    "script_if_tracing", "script_method", "trace", "unused", "wait",
]  # fmt: skip


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Write a scripted or traced function or module to a file, in PyTorch's format.

    Args:
        m: what `script`, `trace` or `load` returned.
        f: a path, or a file opened for writing bytes.
        _extra_files: texts or bytes by name, which are stored beside it.

    Raises: NotHereError: `m` is neither scripted nor traced.

    >>> import io; file = io.BytesIO()
    >>> edutorch.jit.save(edutorch.jit.script(nn.Linear(2, 1)), file)
    >>> edutorch.jit.load(io.BytesIO(file.getvalue()))
    RecursiveScriptModule(original_name=Linear)
    """
    _save(m, f, _extra_files)


def load(
    f: Any, map_location: MapLocation = None, _extra_files: Any = None,
    _restore_shapes: bool = False,
) -> RecursiveScriptModule:  # fmt: skip
    """Read a TorchScript archive that `save`, or PyTorch, has written.

    Nothing in it is executed while it is read; its code can only call ops on its own data and on
    what it is given.

    Args:
        f: a path, or a file opened for reading bytes.
        map_location: the device for the tensors, as for `torch.load`.
        _extra_files: a dict whose values are replaced by the files of these names.
        _restore_shapes: accepted; it means nothing here.

    Raises: ArchiveError: damaged, no archive, or more than a program on its own data.
    """
    data = read_bytes(f)
    is_path = hasattr(f, "__fspath__") or type(f) is str
    reader = read_archive(data, str(f if is_path else getattr(f, "name", "the file")), map_location)
    for name in _extra_files or ():
        _extra_files[name] = reader.entries.get(f"{reader.root}extra/{name}", b"")
    for module in reader.module.modules():
        module.__dict__["program"] = reader.program
    return reader.module
