"""TorchServe's way: `POST /predictions/{name}` with nested lists, or what a handler reads."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from .errors import BadRequest, RequestError
from .protocol import as_array, check_rows, expect, parse_json
from .served import Arrays, Served, TensorSpec

TEXTS = ("application/json", "application/x-www-form-urlencoded", "text/plain", "")
"""Types that are read as JSON: curl sends the second unless told otherwise."""


def read(body: bytes, content_type: str, served: Served) -> tuple[Arrays, bool]:
    """Return the inputs in a body, and True if they are one row without an axis for it.

    Raises: BadRequest: they do not fit the model.
        RequestError: the type is not JSON, and the model has no handler that reads others (415).
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if served.preprocess is not None:
        return check(served.preprocess(body, media_type), served), False
    if media_type not in TEXTS:
        raise RequestError(415, f"{media_type[:80]!r} needs a handler with `preprocess`; send JSON")
    value = parse_json(body)
    names = ", ".join(spec.name for spec in served.inputs)
    if not isinstance(value, dict):
        if len(served.inputs) != 1:
            raise BadRequest(f"the model has several inputs: send an object with {names}")
        value = {served.inputs[0].name: value}
    if set(value) != {spec.name for spec in served.inputs}:
        raise BadRequest(f"the object has {', '.join(value)[:200]}, but the model takes {names}")
    arrays = {spec.name: read_input(value[spec.name], spec) for spec in served.inputs}
    is_single = served.row_limits() is not None and all(
        arrays[spec.name].ndim == len(spec.shape) - 1 for spec in served.inputs
    )
    if is_single:
        arrays = {name: array[None] for name, array in arrays.items()}
    return check(arrays, served), is_single


def read_input(value: Any, spec: TensorSpec) -> np.ndarray:
    """Return nested lists, or a single value, as an array."""
    what = f"input {spec.name!r}"
    if isinstance(value, list):
        return as_array(value, spec, what)
    if isinstance(value, bool | int | float):
        return as_array([value], spec, what).reshape(())
    return as_array(expect(value, list, what), spec, what)


def check(arrays: Arrays, served: Served) -> Arrays:
    """Return the arrays if they fit the model.

    Raises: BadRequest: a shape or dtype differs; both sides are named.
    """
    for spec in served.inputs:
        array = np.asarray(arrays.get(spec.name))
        if array.dtype != spec.dtype or not spec.accepts(array.shape):
            raise BadRequest(
                f"input {spec.name!r} is {array.dtype} {list(array.shape)[:12]}, "
                f"but the model takes {spec.datatype} {list(spec.shape)}"
            )
    check_rows(arrays, served)
    return arrays


def write(arrays: Arrays, is_single: bool, served: Served) -> bytes:
    """Return an answer as JSON: the output, or an object if there are several."""
    if is_single:
        arrays = {name: array[0] for name, array in arrays.items()}
    if served.postprocess is not None:
        return json.dumps(served.postprocess(arrays)).encode()
    values = {name: without_nan(array) for name, array in arrays.items()}
    answer = next(iter(values.values())) if len(values) == 1 else values
    return json.dumps(answer, allow_nan=False).encode()


def without_nan(array: np.ndarray) -> Any:
    """Return nested lists. JSON has no NaN and no infinity: they are null."""
    if array.dtype.kind in "biu":
        return array.tolist()
    floats = array.astype(np.float64)
    if np.isfinite(floats).all():
        return floats.tolist()
    return np.vectorize(lambda x: x if math.isfinite(x) else None, otypes=[object])(floats).tolist()
