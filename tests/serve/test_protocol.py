"""Bytes to arrays and back: whatever is sent, the parser returns a request or raises BadRequest."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edutorch.serve import predictions
from edutorch.serve.errors import BadRequest, RequestError
from edutorch.serve.protocol import encode_infer, parse_infer
from edutorch.serve.served import DATATYPES, Served, TensorSpec, datatype_of


def identity(datatype: str, shape: tuple[int, ...] = (-1, 3)) -> Served:
    """Return a model with one input and one output."""
    x, y = TensorSpec("x", datatype, shape), TensorSpec("y", datatype, shape)
    return Served((x,), (y,), lambda arrays: {"y": arrays["x"]})


PAIR = Served(
    (TensorSpec("x", "FP32", (-1, 2)), TensorSpec("mask", "BOOL", (-1, 2))),
    (TensorSpec("y", "FP32", (-1, 2)),),
    lambda arrays: {"y": np.where(arrays["mask"], arrays["x"], 0)},
)


def answer(served: Served, body: bytes, length: str | None = None) -> tuple[dict, bytes]:
    """Return the JSON and the binary data of what a model answers."""
    request = parse_infer(body, length, served)
    body, size = encode_infer("m", "1", request, served.call(request.arrays), served)
    size = len(body) if size is None else size
    return json.loads(body[:size]), body[size:]


VALUES = {"b": [True, False, True], "i": [-1, 0, 3], "u": [1, 0, 3], "f": [-1.5, 0.0, 3.0]}


@pytest.mark.parametrize("datatype", DATATYPES)
def test_each_datatype_goes_in_and_out_as_json(datatype):
    data = VALUES.get(DATATYPES[datatype].kind, VALUES["f"])
    entry = {"name": "x", "datatype": datatype, "shape": [1, 3], "data": data}
    got, _ = answer(identity(datatype), json.dumps({"id": "7", "inputs": [entry]}).encode())
    assert got == {
        "model_name": "m", "model_version": "1", "id": "7",
        "outputs": [{"name": "y", "datatype": datatype, "shape": [1, 3], "data": data}],
    }  # fmt: skip


@pytest.mark.parametrize("datatype", DATATYPES)
def test_each_datatype_goes_in_and_out_as_binary_data(datatype):
    array = np.array([[1, 0, 1], [0, 1, 1]]).astype(DATATYPES[datatype])
    entry = {
        "name": "x", "datatype": datatype, "shape": [2, 3],
        "parameters": {"binary_data_size": array.nbytes},
    }  # fmt: skip
    text = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    got, binary = answer(identity(datatype), text + array.tobytes(), str(len(text)))
    assert binary == array.tobytes()
    assert got["outputs"][0]["parameters"] == {"binary_data_size": array.nbytes}


def test_json_and_binary_data_mix():
    x = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[1.5, 2.5]]}
    mask = {"name": "mask", "datatype": "BOOL", "shape": [1, 2]}
    mask["parameters"] = {"binary_data_size": 2}
    outputs = [{"name": "y", "parameters": {"binary_data": True}}]
    text = json.dumps({"inputs": [mask, x], "outputs": outputs}).encode()
    got, binary = answer(PAIR, text + b"\1\0", str(len(text)))
    assert np.frombuffer(binary, "<f4").tolist() == [1.5, 0]
    assert "data" not in got["outputs"][0]


def test_nan_and_infinity_are_null_in_json_and_themselves_as_binary_data():
    served = identity("FP32", (3,))
    array = np.array([np.nan, np.inf, 1], "<f4")
    entry = {"name": "x", "datatype": "FP32", "shape": [3], "parameters": {"binary_data_size": 12}}
    text = json.dumps({"inputs": [entry]}).encode()
    got, _ = answer(served, text + array.tobytes(), str(len(text)))
    assert got["outputs"][0]["data"] == [None, None, 1.0]
    # NumPy reads null as NaN, so a client that knows nothing of this sees the right kind of thing.
    assert np.isnan(np.array(got["outputs"][0]["data"], np.float32)[0])


def test_the_deadline_of_a_request_counts_microseconds():
    entry = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}
    body = {"inputs": [entry], "parameters": {"timeout": 250_000}}
    assert parse_infer(json.dumps(body).encode(), None, identity("FP32", (1,))).timeout == 0.25


def test_a_type_that_the_protocol_lacks_is_named():
    assert datatype_of(np.dtype(ml_dtypes.bfloat16)) == "BF16"
    with pytest.raises(RuntimeError, match="no datatype for complex64"):
        datatype_of("complex64")


# Properties --------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)
SIZES = st.integers(-2, 4) | st.integers() | JSON
PARAMETERS = st.dictionaries(
    st.sampled_from(["binary_data_size", "binary_data", "timeout", "binary_data_output", "a"]),
    st.integers(-1, 30) | SCALARS,
)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["x", "mask", "y"]) | JSON,
        "datatype": st.sampled_from([*DATATYPES, "BYTES"]) | JSON,
        "shape": st.lists(SIZES, max_size=3) | st.just([1, 2]) | JSON,
        "data": st.lists(st.floats() | st.booleans(), max_size=6) | JSON,
        "parameters": PARAMETERS | JSON,
    },
)
GOOD = st.sampled_from(
    [
        {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]},
        {"name": "mask", "datatype": "BOOL", "shape": [1, 2], "data": [True, False]},
    ]
)
REQUEST = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text(max_size=3) | JSON,
        "inputs": st.lists(GOOD | ENTRY, max_size=3) | JSON,
        "outputs": st.lists(ENTRY, max_size=2) | JSON,
        "parameters": PARAMETERS | JSON,
    },
)


@settings(max_examples=250, deadline=None)
@given(REQUEST | JSON, st.binary(max_size=12), st.none() | st.integers(-1, 400) | st.text())
def test_any_json_is_parsed_or_refused(request, tail, length):
    text = json.dumps(request).encode()
    length = str(len(text)) if isinstance(length, int) and length > 200 else length
    try:
        parsed = parse_infer(text + tail, None if length is None else str(length), PAIR)
    except BadRequest as error:
        assert len(str(error)) < 2000  # noqa: PT017
    else:
        assert [spec.accepts(parsed.arrays[spec.name].shape) for spec in PAIR.inputs] == [True] * 2
        assert [parsed.arrays[spec.name].dtype == spec.dtype for spec in PAIR.inputs] == [True] * 2


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.none() | st.text(max_size=4))
def test_any_bytes_are_parsed_or_refused(body, length):
    with pytest.raises(BadRequest):
        parse_infer(body, length, PAIR)


@settings(max_examples=150, deadline=None)
@given(JSON | st.lists(st.lists(st.floats(-9, 9), min_size=2, max_size=2)), st.text(max_size=8))
def test_any_prediction_is_parsed_or_refused(value, content_type):
    for served in (PAIR, identity("FP32", (-1, 2)), identity("INT8", ())):
        try:
            arrays, is_single = predictions.read(json.dumps(value).encode(), content_type, served)
        except RequestError as error:
            assert error.status in (400, 415)  # noqa: PT017
        else:
            assert json.loads(predictions.write(served.call(arrays), is_single, served)) is not ...
