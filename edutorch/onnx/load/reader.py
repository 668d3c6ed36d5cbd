"""Reads model files. Nothing is executed, and nothing outside the model's folder is read."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...errors import ArgumentError, missing_extra
from ..dtypes import dtype_name, from_onnx
from .errors import HIGHEST_OPSET, LOWEST_OPSET, ModelFileError, UnsupportedOpError, damaged
from .protos import ModelProto, TensorProto

Source = Any
"""A path, bytes, or a ModelProto."""


def import_onnx() -> ModuleType:
    """Return the package `onnx`. Raises: MissingExtraError."""
    try:
        import onnx
        import onnx.defs
        import onnx.numpy_helper
        import onnx.shape_inference
    except ImportError as error:
        raise missing_extra("onnx", "onnx.load", "onnx is not installed") from error
    return onnx


def read_model(source: Source) -> tuple[ModelProto, Path | None]:
    """Return the model of a path, of bytes or of a ModelProto, and its folder if it has one.

    Raises: ModelFileError: it is no model, or damaged. FileNotFoundError.
    """
    onnx = import_onnx()
    if isinstance(source, onnx.ModelProto):
        return check_model(source), None
    folder = None
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        source, folder = path.read_bytes(), path.resolve().parent
    if not isinstance(source, bytes | bytearray | memoryview):
        raise ArgumentError(
            "onnx.load", f"cannot load a {type(source).__name__}",
            hint="give a path, the bytes of a file, or an onnx.ModelProto",
        )  # fmt: skip
    from google.protobuf.message import DecodeError

    model = onnx.ModelProto()
    try:
        model.ParseFromString(bytes(source))
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise damaged(f"not an ONNX file, or damaged: {error}", bytes=len(source)) from error
    return check_model(model), folder


def check_model(model: ModelProto) -> ModelProto:
    """Return a model that has a graph, and opsets that are known here.

    Raises: ModelFileError: it has no graph. UnsupportedOpError: its opset is not known.
    """
    if not model.HasField("graph") or not model.opset_import:
        raise damaged("the file holds no graph, or does not say which opset it uses")
    opset = opsets_of(model.opset_import).get("", LOWEST_OPSET)
    if not LOWEST_OPSET <= opset <= HIGHEST_OPSET:
        raise UnsupportedOpError(
            "onnx.load", f"the model uses opset {opset}", {"model": f"opset {opset}",
            "known here": f"opsets {LOWEST_OPSET} to {HIGHEST_OPSET}"},
            f"onnx.version_converter.convert_version(model, {HIGHEST_OPSET}) may bring it here",
        )  # fmt: skip
    return model


def opsets_of(imports: Any) -> dict[str, int]:
    """Return the opset of each domain; ONNX's own domain is ""."""
    return {canonical_domain(entry.domain): entry.version for entry in imports}


def canonical_domain(domain: str) -> str:
    """Return "" for ONNX's own domain, which has two names."""
    return "" if domain == "ai.onnx" else domain


def read_tensor(tensor: TensorProto, folder: Path | None) -> np.ndarray:
    """Return the elements of a tensor of a model.

    Args:
        folder: of the model; the only one that data outside the file may lie in.

    Raises: ModelFileError: sizes and data do not fit, or the data lies elsewhere.
        UnsupportedOpError: a dtype that there is none of here.
    """
    onnx = import_onnx()
    if from_onnx(tensor.data_type) is None:
        raise UnsupportedOpError(
            "onnx.load", f"tensor {tensor.name!r} has dtype {dtype_name(tensor.data_type)}",
            hint="strings, and floats and integers of 4 bits or less, do not exist here",
        )  # fmt: skip
    if any(size < 0 for size in tensor.dims):
        raise damaged(f"tensor {tensor.name!r} has a negative size", shape=list(tensor.dims))
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return read_external(tensor, folder)
    try:
        return np.array(onnx.numpy_helper.to_array(tensor))
    except (ValueError, TypeError, MemoryError) as error:
        raise damaged(
            f"tensor {tensor.name!r}: its data does not fit its shape: {error}",
            shape=list(tensor.dims), dtype=dtype_name(tensor.data_type),
        ) from error  # fmt: skip


def read_external(tensor: TensorProto, folder: Path | None) -> np.ndarray:
    """Return the elements of a tensor whose data lies in a file beside the model."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = external_path(tensor.name, entries.get("location", ""), folder)
    own = from_onnx(tensor.data_type)
    assert own is not None  # `read_tensor` has checked it
    length = math.prod(tensor.dims) * own.itemsize
    try:
        offset = int(entries.get("offset", 0))
        stated = int(entries.get("length", length))
    except ValueError as error:
        raise damaged(f"tensor {tensor.name!r}: {error}") from error
    size = path.stat().st_size
    if stated != length or offset < 0 or offset + length > size:
        raise damaged(
            f"tensor {tensor.name!r}: its data does not fit the file {path.name!r}",
            tensor=f"{length} bytes", stated=f"{stated} bytes from {offset}", file=f"{size} bytes",
        )  # fmt: skip
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(length)
    array = np.frombuffer(bytearray(data), own.numpy.newbyteorder("<"))
    return array.astype(own.numpy, copy=False).reshape(tuple(tensor.dims))


def external_path(name: str, location: str, folder: Path | None) -> Path:
    """Return the file of a tensor's data.

    Raises: ModelFileError: it lies outside the model's folder, also by way of a link.
    """
    if folder is None:
        raise ModelFileError(
            "onnx.load", f"the data of tensor {name!r} lies in the file {location!r}, and the "
            "model came without a folder", hint="load the model by its path",
        )  # fmt: skip
    relative = Path(location)
    path = (folder / relative).resolve() if "\0" not in location else folder
    inside = path.is_relative_to(folder.resolve()) and path != folder
    if not location or relative.is_absolute() or ".." in relative.parts or not inside:
        raise ModelFileError(
            "onnx.load", f"the data of tensor {name!r} is outside the model's folder",
            {"location": repr(location), "folder": folder},
            "nothing was read; a model may only refer to files beside it",
        )  # fmt: skip
    if not path.is_file():
        raise ModelFileError(
            "onnx.load", f"the file with the data of tensor {name!r} is missing",
            {"location": repr(location), "folder": folder}, "copy it beside the model",
        )  # fmt: skip
    return path


def readable_name(name: str) -> str:
    """Return a name to read in code: of a path the last two parts, without its bookkeeping.

    >>> from edutorch.onnx.load.reader import readable_name
    >>> readable_name("/encoder/layer.0/attention/MatMul_output_0")
    'attention_MatMul'
    """
    base = name.partition(":")[0]
    if "/" in base:
        base = "_".join([part for part in base.split("/") if part][-2:])
    return base.removesuffix("_output_0")[-60:] or "value"


def plain(text: str, longest: int = 60) -> str:
    """Return a name of the file as text that is safe in a comment of the generated code."""
    return re.sub(r"[^\w./:\- ]", "_", text, flags=re.ASCII)[:longest]
