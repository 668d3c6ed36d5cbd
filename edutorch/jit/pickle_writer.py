"""Writes the pickles of an archive: the objects of a program, protocol 2.

Only what TorchScript's own reader understands is written: numbers, texts, lists, dicts, tuples,
tensors, and objects of the program's classes. (Python's pickler would have to import the classes.)
"""

from __future__ import annotations

import struct
from typing import Any

from ..backends.device import Device
from ..core.tensor import Tensor
from ..dtypes import dtype
from ..serialization.tensors import STORAGES
from .dtype_numbers import DTYPE_NUMBERS
from .errors import NotSupportedError

STORAGE_NAMES = {storage.dtype: f"{name}Storage" for name, storage in STORAGES.items()}


class Instance:
    """An object of a class of the program, to be written.

    Args:
        name: the full name of its class.
        state: its attributes.
        fields: the values of a named tuple, which is written as a call.
    """

    def __init__(
        self, name: str, state: dict[str, Any] | None = None, fields: tuple[Any, ...] = ()
    ) -> None:
        self.name, self.state, self.fields = name, state, fields


class PickleWriter:
    """Writes one pickle; the tensors' elements are collected in `storages`.

    Args:
        storages: by key, the bytes of each storage, in the order of their first use.
    """

    def __init__(self, storages: dict[str, bytes]) -> None:
        self.storages = storages
        self.parts: list[bytes] = []
        self.memo: dict[int, int] = {}
        self.kept: list[Any] = []  # an id is a name only as long as its object lives
        self.keys: dict[int, str] = {}

    def dump(self, value: Any) -> bytes:
        """Return the pickle of a value."""
        self.parts = [b"\x80\x02"]
        self.write(value)
        return b"".join([*self.parts, b"."])

    def write(self, value: Any) -> None:
        """Write a value of any type that is known.

        Raises: NotSupportedError: the value is of another type.
        """
        if value is None or isinstance(value, bool):
            self.parts.append({None: b"N", True: b"\x88", False: b"\x89"}[value])
        elif isinstance(value, int):
            self.write_int(value)
        elif isinstance(value, float):
            self.parts.append(b"G" + struct.pack(">d", value))
        elif isinstance(value, str):
            self.write_text(value)
        elif isinstance(value, dtype):
            self.write_int(DTYPE_NUMBERS[value])
        elif isinstance(value, Tensor):
            self.write_shared(value, self.write_tensor)
        elif isinstance(value, Instance):
            self.write_shared(value, self.write_instance)
        elif isinstance(value, Device):
            self.write_call("torch", "device", (str(value),))
        elif isinstance(value, tuple):
            self.write_tuple(value)
        elif isinstance(value, list):
            self.write_shared(value, self.write_list)
        elif isinstance(value, dict):
            self.write_shared(value, self.write_dict)
        else:
            raise NotSupportedError(
                "jit.save", f"a {type(value).__name__} cannot be saved in a TorchScript archive"
            )

    def write_shared(self, value: Any, write: Any) -> None:
        """Write an object once, and refer to it afterwards."""
        if id(value) in self.memo:
            self.parts.append(b"j" + struct.pack("<I", self.memo[id(value)]))
            return
        self.kept.append(value)
        write(value)
        self.memo[id(value)] = len(self.memo)
        self.parts.append(b"r" + struct.pack("<I", self.memo[id(value)]))

    def write_int(self, value: int) -> None:
        if -(2**31) <= value < 2**31:
            self.parts.append(b"J" + struct.pack("<i", value))
        else:
            data = value.to_bytes(9, "little", signed=True)
            self.parts.append(b"\x8a" + bytes([len(data)]) + data)

    def write_text(self, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        self.parts.append(b"X" + struct.pack("<I", len(data)) + data)

    def write_tuple(self, values: tuple[Any, ...]) -> None:
        self.parts.append(b"(")
        for value in values:
            self.write(value)
        self.parts.append(b"t")

    def write_list(self, values: list[Any]) -> None:
        self.parts.append(b"](")
        for value in values:
            self.write(value)
        self.parts.append(b"e")

    def write_dict(self, values: dict[Any, Any]) -> None:
        self.parts.append(b"}(")
        for key, value in values.items():
            self.write(key)
            self.write(value)
        self.parts.append(b"u")

    def write_global(self, module: str, name: str) -> None:
        self.parts.append(f"c{module}\n{name}\n".encode())

    def write_call(self, module: str, name: str, args: tuple[Any, ...]) -> None:
        """Write the call of a function that the reader knows."""
        self.write_global(module, name)
        self.write_tuple(args)
        self.parts.append(b"R")

    def write_instance(self, value: Instance) -> None:
        module, _, name = value.name.rpartition(".")
        if value.state is None:
            self.write_call(module, name, value.fields)
            return
        self.write_global(module, name)
        self.parts.append(b")\x81")
        self.write_dict(value.state)
        self.parts.append(b"b")

    def write_tensor(self, tensor: Tensor) -> None:
        """Write a tensor: a call with its storage, which lies in a file of its own."""
        if tensor.dtype not in STORAGE_NAMES:
            raise NotSupportedError("jit.save", f"a tensor of {tensor.dtype} cannot be saved")
        plain = tensor.detach().cpu().contiguous()
        data = (
            plain.numpy().tobytes() if str(tensor.dtype) != "torch.bfloat16" else raw_bytes(plain)
        )
        key = str(len(self.storages))
        self.storages[key] = data
        self.write_global("torch._utils", "_rebuild_tensor_v2")
        self.parts.append(b"((")
        self.write_text("storage")
        self.write_global("torch", STORAGE_NAMES[tensor.dtype])
        for text in (key, "cpu"):
            self.write_text(text)
        self.write_int(plain.numel())
        self.parts.append(b"tQ")
        self.write_int(0)
        self.write_tuple(tuple(plain.shape))
        self.write_tuple(tuple(plain.stride()))
        self.write(bool(tensor.requires_grad))
        self.write_call("collections", "OrderedDict", ())
        self.parts.append(b"tR")


def raw_bytes(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor whose dtype NumPy does not know."""
    array: Any = tensor._array
    return array.tobytes()
