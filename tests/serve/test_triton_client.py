"""Triton's own client talks to the server: nobody has told it that this is another one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.serve.faulty_models import NOT, TABLE
from tests.serve.running import running, write_handler, write_mlp

triton = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")

HALF = """
    from edutorch.serve.served import Served, TensorSpec
    def load(folder):
        x = TensorSpec("x", "FP16", (-1, 4))
        return Served((x,), (x._replace(name="y"),), lambda arrays: {"y": arrays["x"] * 2})
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    models = tmp_path_factory.mktemp("triton") / "models"
    write_mlp(models)
    for name, text in {"not": NOT, "table": TABLE, "half": HALF}.items():
        write_handler(models, name, text)
    with running(models, "--allow-control") as server:
        client = triton.InferenceServerClient(server.url.removeprefix("http://"), concurrency=4)
        yield client
        client.close()


def infer(
    client, model: str, name: str, array: np.ndarray, binary: bool, output: str
) -> np.ndarray:
    """Send an array, as binary data or as JSON, and return the output in the same way."""
    tensor = triton.InferInput(name, list(array.shape), triton.np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(array, binary_data=binary)
    wanted = triton.InferRequestedOutput(output, binary_data=binary)
    return client.infer(model, [tensor], outputs=[wanted], request_id="9").as_numpy(output)


def test_health_and_metadata(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("mlp")
    assert not client.is_model_ready("none")
    assert client.get_server_metadata()["name"] == "edutorch"
    assert client.get_model_metadata("mlp")["inputs"][0]["shape"] == [-1, 64]


def test_binary_data_and_json_agree(client):
    rows = np.random.default_rng(0).standard_normal((3, 64)).astype("f4")
    results = [infer(client, "mlp", "x", rows, binary, "output0") for binary in (True, False)]
    assert results[0].shape == (3, 10)
    assert np.array_equal(*results)


def test_datatypes(client):
    halves = np.array([[0.5, 1, 2, 3]], np.float16)
    assert infer(client, "half", "x", halves, True, "y").tolist() == [[1, 2, 4, 6]]
    flags = np.array([[True, False, True, False]])
    for binary in (True, False):
        assert np.array_equal(infer(client, "not", "x", flags, binary, "y"), ~flags)
        index = np.array([[1, 2]], np.int64)
        assert infer(client, "table", "index", index, binary, "output0").shape == (1, 2, 3)


def test_strings_are_refused_clearly(client):
    texts = np.array([["a"] * 64], object)
    with pytest.raises(triton.InferenceServerException, match=r"BYTES .* takes FP32"):
        infer(client, "mlp", "x", texts, True, "output0")


def test_a_wrong_shape_names_both_sides(client):
    rows = np.zeros((1, 63), "f4")
    with pytest.raises(triton.InferenceServerException, match=r"\[1, 63\].*\[-1, 64\]"):
        infer(client, "mlp", "x", rows, True, "output0")


def test_many_at_once(client):
    tensor = triton.InferInput("x", [1, 64], "FP32")
    tensor.set_data_from_numpy(np.zeros((1, 64), "f4"))
    waiting = [client.async_infer("mlp", [tensor]) for _ in range(20)]
    results = [item.get_result().as_numpy("output0") for item in waiting]
    assert all(np.allclose(result, results[0], atol=1e-6) for result in results)


def test_the_repository(client):
    index = client.get_model_repository_index()
    assert {"name": "half", "version": "1", "state": "READY", "reason": ""} in index
    client.unload_model("half")
    assert not client.is_model_ready("half")
    client.load_model("half")
    assert client.is_model_ready("half")
