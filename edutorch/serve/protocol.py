"""The Open Inference Protocol, version 2: bytes of a request to arrays, arrays to bytes.

Nothing here knows of HTTP or of a running server, so that a test can hand it any bytes. All that is
wrong with a request becomes a `BadRequest` that names both sides.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from .errors import BadRequest
from .served import DATATYPES, Arrays, Served, TensorSpec
from .sizes import ANY

HEADER_LENGTH = "inference-header-content-length"
"""The header with the size of the JSON in front of binary data."""

MOST_AXES = 32

NOT_HERE = {
    "sequence_id": "sequences", "shared_memory_region": "shared memory",
    "classification": "the classification extension", "sequence_start": "sequences",
}  # fmt: skip
"""Parameters that would change the answer, of extensions that are not implemented."""


@dataclass(frozen=True)
class InferRequest:
    """A request that fits its model.

    Args:
        arrays: by the names of the inputs.
        outputs: the names of the outputs to answer with, each with True if binary.
        id: what the client calls the request; the answer has the same.
        timeout: seconds that the client is ready to wait, or None.
    """

    arrays: Arrays
    outputs: dict[str, bool]
    id: str | None = None
    timeout: float | None = None


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text, as RFC 8259 has it: there is no NaN in it."""

    def refuse(constant: str) -> NoReturn:
        raise BadRequest(f"{constant} is no JSON; send such numbers as binary data")

    try:
        return json.loads(body.decode(), parse_constant=refuse)
    except RecursionError:
        raise BadRequest("the JSON is nested too deep") from None
    except UnicodeDecodeError as error:
        raise BadRequest(f"the JSON is not UTF-8: {error.reason} at byte {error.start}") from None
    except BadRequest:
        raise
    except ValueError as error:
        raise BadRequest(f"malformed JSON: {error}") from None


def expect(value: Any, expected: type, name: str) -> Any:
    """Return a value of a JSON text if it has the expected type.

    Raises: BadRequest: it has another; both are named.
    """
    if isinstance(value, expected) and not (expected is int and isinstance(value, bool)):
        return value
    words = {dict: "an object", list: "an array", str: "a string", int: "an integer"}
    raise BadRequest(f"{name} is {type(value).__name__}, not {words[expected]}")


def parse_infer(body: bytes, header_length: str | None, served: Served) -> InferRequest:
    """Read the body of an infer request, with or without binary data.

    Args:
        header_length: the value of the header `Inference-Header-Content-Length`, or None.

    Raises: BadRequest: it is malformed, or does not fit the model.
    """
    text, binary = split_body(body, header_length)
    request = expect(parse_json(text), dict, "the request")
    identifier = request.get("id")
    if identifier is not None:
        expect(identifier, str, "`id`")
    parameters = read_parameters(request, "the request")
    arrays = parse_inputs(request, binary, served)
    outputs = parse_outputs(request, parameters.get("binary_data_output") is True, served)
    return InferRequest(arrays, outputs, identifier, read_timeout(parameters))


def split_body(body: bytes, header_length: str | None) -> tuple[bytes, memoryview]:
    """Return the JSON of a body, and the binary data behind it."""
    if header_length is None:
        return body, memoryview(b"")
    if not (header_length.isascii() and header_length.isdigit() and len(header_length) < 20):
        raise BadRequest(f"Inference-Header-Content-Length is {header_length!r}, not a size")
    length = int(header_length)
    if length > len(body):
        raise BadRequest(
            f"Inference-Header-Content-Length is {length}, but the body has {len(body)} bytes"
        )
    return body[:length], memoryview(body)[length:]


def read_parameters(holder: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the `parameters` of a request, an input or an output."""
    parameters = expect(holder.get("parameters", {}), dict, f"`parameters` of {name}")
    for key, feature in NOT_HERE.items():
        if parameters.get(key):
            raise BadRequest(f"`{key}` of {name}: {feature} is not implemented here")
    return parameters


def read_timeout(parameters: Mapping[str, Any]) -> float | None:
    """Return the seconds of the parameter `timeout`, which counts microseconds as in Triton."""
    if "timeout" not in parameters:
        return None
    timeout = expect(parameters["timeout"], int, "`timeout` (in microseconds)")
    if timeout <= 0:
        raise BadRequest(f"`timeout` is {str(timeout)[:20]}, not a positive number of microseconds")
    return min(timeout, 10**15) / 1e6


def parse_inputs(request: Mapping[str, Any], binary: memoryview, served: Served) -> Arrays:
    """Return the arrays of all inputs, in the order of the model."""
    if "inputs" not in request:
        raise BadRequest("the request has no `inputs`")
    specs = {spec.name: spec for spec in served.inputs}
    arrays: Arrays = {}
    offset = 0
    for position, entry in enumerate(expect(request["inputs"], list, "`inputs`")):
        expect(entry, dict, f"input {position}")
        name = expect(entry.get("name"), str, f"`name` of input {position}")
        if name not in specs:
            raise BadRequest(f"there is no input {name[:80]!r}; the model has {', '.join(specs)}")
        if name in arrays:
            raise BadRequest(f"input {name!r} is there twice")
        shape = check_shape(entry, specs[name])
        size = read_parameters(entry, f"input {name!r}").get("binary_data_size")
        if size is None:
            arrays[name] = from_json(entry, specs[name], shape)
        else:
            arrays[name] = from_binary(entry, binary[offset:], specs[name], shape)
            offset += size
    missing = [name for name in specs if name not in arrays]
    if missing:
        raise BadRequest(f"input {missing[0]!r} is missing; the model has {', '.join(specs)}")
    if offset != len(binary):
        raise BadRequest(f"{len(binary)} bytes of binary data, but the inputs take {offset}")
    check_rows(arrays, served)
    return {name: arrays[name] for name in specs}


def check_shape(entry: Mapping[str, Any], spec: TensorSpec) -> tuple[int, ...]:
    """Return the shape of an input that fits the model, of the datatype that it takes."""
    what = f"input {spec.name!r}"
    datatype = expect(entry.get("datatype"), str, f"`datatype` of {what}")
    if datatype == "BYTES":
        raise BadRequest(
            f"{what}: BYTES (strings) cannot be a tensor here; it takes {spec.datatype}"
        )
    if datatype not in DATATYPES:
        raise BadRequest(f"{what}: unknown datatype {datatype[:40]!r}; it takes {spec.datatype}")
    if datatype != spec.datatype:
        raise BadRequest(f"{what} is {datatype}, but the model takes {spec.datatype}")
    shape = expect(entry.get("shape"), list, f"`shape` of {what}")
    for size in shape:
        if expect(size, int, f"a size of {what}") < 0:
            raise BadRequest(f"{what}: shape {shown(shape)} has a negative size")
    if not spec.accepts(shape):
        raise BadRequest(f"{what} has shape {shown(shape)}, but the model takes {list(spec.shape)}")
    return tuple(shape)


def shown(shape: list[Any]) -> str:
    """Return a shape as text, shortened if someone sent nonsense."""
    sizes = [readable(size) for size in shape[:12]]
    return f"[{', '.join(sizes if len(shape) <= 12 else [*sizes, f'… {len(shape)} sizes'])}]"


def readable(number: int) -> str:
    """Return a number as text, unless it is so long that Python refuses to write it."""
    return str(number) if abs(number) < 10**18 else "a huge number"


def from_json(entry: Mapping[str, Any], spec: TensorSpec, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array of an input whose elements are in the JSON, flat or nested."""
    what = f"input {spec.name!r}"
    if "data" not in entry:
        raise BadRequest(f"{what} has no `data` and no `binary_data_size`")
    array = as_array(expect(entry["data"], list, f"`data` of {what}"), spec, what)
    count = math.prod(shape)
    if array.shape not in (shape, (count,)):
        raise BadRequest(
            f"{what}: `data` has shape {shown(list(array.shape))}, but `shape` is "
            f"{shown(list(shape))}: {readable(count)} elements"
        )
    return array.reshape(shape)


def as_array(data: Any, spec: TensorSpec, what: str) -> np.ndarray:
    """Return nested lists of JSON as an array of the input's dtype.

    Raises: BadRequest: the lists are ragged, or an element is no value of that dtype.
    """
    types = element_types(data, what)
    wanted = {"b": {bool}, "i": {int}, "u": {int}}.get(spec.dtype.kind, {int, float})
    if not types <= wanted:
        raise BadRequest(f"{what}: `data` holds what is no {spec.datatype}")
    try:
        array = np.array(data)
    except (ValueError, OverflowError):
        raise BadRequest(f"{what}: the lists of `data` have different lengths") from None
    if array.size == 0:
        return array.astype(spec.dtype)
    if array.dtype.kind == "O":
        raise BadRequest(f"{what}: a number of `data` is too large for {spec.datatype}")
    if spec.dtype.kind in "iu":
        limits = np.iinfo(spec.dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise BadRequest(f"{what}: a number of `data` is outside {limits.min} to {limits.max}")
    with np.errstate(all="ignore"):
        result = array.astype(spec.dtype)
    if spec.dtype.kind not in "biu" and not np.isfinite(result.astype(np.float64)).all():
        raise BadRequest(f"{what}: a number of `data` is too large for {spec.datatype}")
    return result


def element_types(data: list[Any], what: str, depth: int = 0) -> set[type]:
    """Return the types of the elements of nested lists.

    They are asked before NumPy sees them: an array of strings takes the longest times their number.
    """
    types = set(map(type, data))
    if list not in types:
        return types
    if depth == MOST_AXES or types != {list}:
        raise BadRequest(f"{what}: the lists of `data` are nested too deep, or unevenly")
    return set().union(*(element_types(row, what, depth + 1) for row in data))


def from_binary(
    entry: Mapping[str, Any], binary: memoryview, spec: TensorSpec, shape: tuple[int, ...]
) -> np.ndarray:
    """Return the array of an input whose elements stand behind the JSON, little-endian."""
    what = f"input {spec.name!r}"
    size = expect(entry["parameters"]["binary_data_size"], int, f"`binary_data_size` of {what}")
    if "data" in entry:
        raise BadRequest(f"{what} has both `data` and `binary_data_size`")
    expected = math.prod(shape) * spec.dtype.itemsize
    if size != expected:
        raise BadRequest(
            f"{what}: `binary_data_size` is {readable(size)}, but shape {shown(list(shape))} of "
            f"{spec.datatype} takes {readable(expected)}"
        )
    if size > len(binary):
        raise BadRequest(f"{what}: {size} bytes of binary data expected, {len(binary)} are left")
    array = np.frombuffer(binary[:size], spec.dtype.newbyteorder("<")).reshape(shape)
    if spec.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise BadRequest(f"{what}: a byte of BOOL is neither 0 nor 1")
    return array


def check_rows(arrays: Arrays, served: Served) -> None:
    """Refuse inputs whose numbers of rows differ, or that have too few or too many.

    Nothing is checked where the first axes are no rows.
    """
    limits = served.row_limits()
    if limits is None:
        return
    rows = {name: len(array) for name, array in arrays.items()}
    if len(set(rows.values())) > 1:
        raise BadRequest(f"the inputs have different numbers of rows: {rows}")
    if 0 in rows.values():
        raise BadRequest("the inputs have no rows: the first size is 0")
    low, high = limits
    count = max(rows.values(), default=low)
    if not low <= count <= high:
        takes = f"{low} to {high}" if high < ANY[1] else f"at least {low}"
        raise BadRequest(f"the inputs have {count} rows; the model takes {takes}")


def parse_outputs(request: Mapping[str, Any], binary: bool, served: Served) -> dict[str, bool]:
    """Return the names of the outputs that are asked for, each with True if it is to be binary."""
    known = [spec.name for spec in served.outputs]
    if not request.get("outputs"):
        expect(request.get("outputs", []), list, "`outputs`")
        return dict.fromkeys(known, binary)
    outputs: dict[str, bool] = {}
    for position, entry in enumerate(expect(request["outputs"], list, "`outputs`")):
        expect(entry, dict, f"output {position}")
        name = expect(entry.get("name"), str, f"`name` of output {position}")
        if name not in known:
            raise BadRequest(f"there is no output {name[:80]!r}; the model has {', '.join(known)}")
        if name in outputs:
            raise BadRequest(f"output {name!r} is asked for twice")
        parameters = read_parameters(entry, f"output {name!r}")
        outputs[name] = parameters.get("binary_data", binary) is True
    return outputs


# Answers -----------------------------------------------------------------------------


def encode_infer(
    model: str, version: str, request: InferRequest, arrays: Arrays, served: Served
) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the size of the JSON in it if binary data follows."""
    answer: dict[str, Any] = {"model_name": model, "model_version": version}
    if request.id is not None:
        answer["id"] = request.id
    answer["outputs"] = outputs = []
    specs = {spec.name: spec for spec in served.outputs}
    buffers = []
    for name, is_binary in request.outputs.items():
        array = arrays[name]
        entry = {"name": name, "datatype": specs[name].datatype, "shape": list(array.shape)}
        if is_binary:
            buffers.append(little_endian(array))
            entry["parameters"] = {"binary_data_size": len(buffers[-1])}
        else:
            entry["data"] = flat_list(array)
        outputs.append(entry)
    text = json.dumps(answer, allow_nan=False).encode()
    return (text + b"".join(buffers), len(text)) if buffers else (text, None)


def little_endian(array: np.ndarray) -> bytes:
    """Return the bytes of an array's elements, row by row."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def flat_list(array: np.ndarray) -> list[Any]:
    """Return the elements row by row. JSON has no NaN and no infinity: they are null."""
    if array.dtype.kind in "biu":
        return array.ravel().tolist()
    floats = array.ravel().astype(np.float64)
    if np.isfinite(floats).all():
        return floats.tolist()
    return [value if math.isfinite(value) else None for value in floats.tolist()]
