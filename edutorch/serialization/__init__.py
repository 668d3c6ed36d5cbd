"""Checkpoints: tensors and containers of them, saved and loaded without running any code.

Our own files are safetensors with JSON metadata (see `safetensors_file.py`). PyTorch's files are
read as well, by an unpickler that can only build data (see `restricted_unpickler.py`). Whole
objects, such as a module, are pickled (see `objects.py`), and loaded with `weights_only=False`.
"""

from __future__ import annotations

from typing import Any

from ..utils.atomic_files import File, read_bytes, write_atomically
from . import safetensors_file
from .decode import MapLocation
from .safe_classes import CheckpointError, RefusedError
from .safe_classes import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals

__all__ = [
    "CheckpointError", "RefusedError", "add_safe_globals", "clear_safe_globals",
    "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "safe_globals", "save",
]  # fmt: skip

MAP_LOCATION = MapLocation  # PyTorch's name of the type


def save(
    obj: object,
    f: File,
    pickle_module: object = None,
    pickle_protocol: object = None,
    **ignored: Any,
) -> None:
    """Save a state_dict, nested containers of tensors, numbers and strings, or an object.

    The write is atomic: an interrupt, a crash or a full disk leaves the old file as it was.
    The format is safetensors: `safetensors.torch.load_file` reads the tensors in PyTorch,
    whatever the file is called. Tensors that share memory share it again after loading.
    Attributes that were set on a tensor are not saved.

    A whole module, optimizer or scheduler is pickled: the file holds the names of its classes
    and not their code, so it can be loaded only where they are defined, and only with
    `load(f, weights_only=False)`. A model's `state_dict()` needs neither.

    Args:
        obj: what to save. For a model, better its `state_dict()`.
        f: a path, a URL that fsspec knows ("s3://…", "memory://…"), or a file opened for writing
            bytes.
        pickle_module, pickle_protocol, ignored: PyTorch's pickle settings, which mean nothing here.

    Raises: CheckpointError: the object holds what cannot be pickled, such as a lambda. Nothing
            is written.
        OSError: the disk is full, or the folder is missing.

    >>> import io; file = io.BytesIO()
    >>> save({"w": tensor([1.0, 2.0]), "epoch": 3}, file)
    >>> load(io.BytesIO(file.getvalue()))
    {'w': tensor([1., 2.]), 'epoch': 3}
    >>> file = io.BytesIO(); save(nn.Linear(2, 1), file)
    >>> load(io.BytesIO(file.getvalue()), weights_only=False)
    Linear(in_features=2, out_features=1, bias=True)
    """
    write_atomically(f, safetensors_file.encode_file(obj))


def load(
    f: File,
    map_location: MapLocation = None,
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **ignored: Any,
) -> Any:
    """Load files that `save` has written, PyTorch's `.pt` and `.pth` files, and safetensors files.

    Only data is loaded. A file that needs more (a whole module, a user-defined class) is
    refused, and the error lists the names that it refers to. With `weights_only=False` its
    classes are imported and instantiated, which can run any code: use it only for files whose
    author you trust.

    Args:
        f: a path, a URL that fsspec knows, or a file opened for reading bytes.
        map_location: the device for the tensors instead of the one they were saved from: a
            name, a dict of names, or a function of (tensor, name).
        weights_only: True, the default: data only. False: whole objects as well.
        pickle_module, mmap, ignored: accepted; they change nothing.

    Raises: CheckpointError: damaged, cut short, or another kind of file; a class that it needs
            is not defined here.
        RefusedError: it asks for classes or functions that nobody has allowed.
        DeviceError: the device that the tensors were saved from is not available.
    """
    data = read_bytes(f)
    is_path = isinstance(f, str) or hasattr(f, "__fspath__")
    name = str(f if is_path else getattr(f, "name", "the file"))
    only_data = weights_only is None or bool(weights_only)
    if is_torch_file(data, name):
        from . import torch_file  # the unpickler is needed for PyTorch's files only

        return torch_file.read(data, name, map_location, only_data)
    return safetensors_file.read(data, name, map_location, only_data)


def get_unsafe_globals_in_checkpoint(f: File) -> list[str]:
    """Return the names of classes and functions for which `load` would refuse a file.

    >>> import io, pickle; file = io.BytesIO(); save({}, file)
    >>> get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue()))
    []
    """
    data = read_bytes(f)
    from . import torch_file

    reader = torch_file if is_torch_file(data, "the file") else safetensors_file
    try:
        reader.read(data, "the file", "cpu")
    except RefusedError as error:
        return error.arguments["refused"].split(", ")
    return []


LEGACY_MAGIC = (0x1950A86A20F9469CFC6C).to_bytes(10, "little")


def is_torch_file(data: bytes, name: str) -> bool:
    """Return True if PyTorch has written a file.

    Raises: CheckpointError: it is a pickle of something else.
    """
    if data[8:9] == b"{" and int.from_bytes(data[:8], "little") <= len(data):
        return False  # a safetensors file, whose length field may look like another format's magic
    if data[:4] == b"PK\x03\x04":
        return True
    pickled = data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    if pickled and LEGACY_MAGIC in data[:32]:
        return True
    if pickled or data[257:262] == b"ustar":
        what = "a bare pickle" if pickled else "a tar archive, as PyTorch 0.1 wrote it"
        raise CheckpointError(
            "load", f"{name} is {what}; reading it could run any code",
            hint="load it where you trust it, and save it again with torch.save",
        )  # fmt: skip
    return False
