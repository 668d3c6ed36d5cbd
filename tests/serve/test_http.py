"""The running server, asked as the examples of the specification do, and as a browser does."""

from __future__ import annotations

import json
import re
import socket
import time
from urllib.parse import urlsplit

import numpy as np
import pytest

import edutorch
from edutorch import nn
from tests.serve.faulty_models import MOODS, NOT, PAIR, TABLE
from tests.serve.running import Running, running, wait_until, write_handler, write_mlp

SHOUT = """
    from edutorch import nn
    INPUTS = [("x", "FP32", (-1, 3))]
    def preprocess(body, content_type):
        import numpy as np
        return {"x": np.array([[len(body), body.count(b"a"), 1]], "f4")}
    def postprocess(outputs):
        return {"letters": int(outputs["output0"][0, 0])}
    def load(folder):
        return nn.Identity()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    models = tmp_path_factory.mktemp("http") / "models"
    write_mlp(models, seed=1)
    write_mlp(models, seed=2, version=2)
    for name, text in {
        "pair": PAIR, "table": TABLE, "not": NOT, "moods": MOODS, "shout": SHOUT,
    }.items():  # fmt: skip
        write_handler(models, name, text)
    with running(models, "--allow-control") as server:
        yield server


def expected(rows: np.ndarray, seed: int) -> np.ndarray:
    """Return what the network of a seed computes."""
    edutorch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return model(edutorch.from_numpy(rows)).detach().numpy()


ROWS = np.random.default_rng(3).standard_normal((2, 64)).astype("f4")


def test_health_and_metadata(server: Running):
    client = server.client
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2").json() == {
        "name": "edutorch", "version": edutorch.__version__,
        "extensions": ["binary_tensor_data", "model_repository"],
    }  # fmt: skip
    metadata = {
        "name": "mlp", "versions": ["1", "2"], "platform": "edutorch",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 64]}],
        "outputs": [{"name": "output0", "datatype": "FP32", "shape": [-1, 10]}],
    }  # fmt: skip
    assert client.get("/v2/models/mlp").json() == metadata
    assert client.get("/v2/models/mlp/versions/1").json() == metadata
    assert client.get("/v2/models/mlp/ready").json() == {"name": "mlp", "ready": True}
    assert client.get("/v2/models/mlp/versions/2/ready").status_code == 200


def test_inference_as_json(server: Running):
    body = {
        "id": "42",
        "inputs": [
            {"name": "x", "shape": [2, 64], "datatype": "FP32", "data": ROWS.ravel().tolist()}
        ],
        "outputs": [{"name": "output0"}],
    }
    answer = server.client.post("/v2/models/mlp/infer", json=body)
    assert answer.headers["content-type"] == "application/json"
    got = answer.json()
    output = got.pop("outputs")[0]
    assert got == {"model_name": "mlp", "model_version": "2", "id": "42"}
    assert (output["name"], output["datatype"], output["shape"]) == ("output0", "FP32", [2, 10])
    assert np.allclose(np.reshape(output["data"], (2, 10)), expected(ROWS, 2), atol=1e-6)
    body["inputs"][0]["data"] = ROWS.tolist()  # nested is as good as flat
    answer = server.client.post("/v2/models/mlp/versions/1/infer", json=body)
    data = answer.json()["outputs"][0]["data"]
    assert np.allclose(np.reshape(data, (2, 10)), expected(ROWS, 1), atol=1e-6)


def test_inference_with_binary_data(server: Running):
    entry = {"name": "x", "shape": [2, 64], "datatype": "FP32"}
    entry["parameters"] = {"binary_data_size": ROWS.nbytes}
    outputs = [{"name": "output0", "parameters": {"binary_data": True}}]
    text = json.dumps({"inputs": [entry], "outputs": outputs}).encode()
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(text)),
    }
    answer = server.client.post(
        "/v2/models/mlp/infer", content=text + ROWS.tobytes(), headers=headers
    )
    size = int(answer.headers["Inference-Header-Content-Length"])
    output = json.loads(answer.content[:size])["outputs"][0]
    assert output["parameters"] == {"binary_data_size": 80}
    data = np.frombuffer(answer.content[size:], "<f4").reshape(2, 10)
    assert np.allclose(data, expected(ROWS, 2), atol=1e-6)


def test_integers_and_booleans(server: Running):
    answer = server.infer("table", "index", "INT64", [1, 2], [0, 9])
    assert answer.json()["outputs"][0]["shape"] == [1, 2, 3]
    answer = server.infer("not", "x", "BOOL", [1, 4], [True, False, True, True])
    assert answer.json()["outputs"][0]["data"] == [False, True, False, False]


def test_the_repository(server: Running):
    client = server.client
    index = client.post("/v2/repository/index", json={"ready": True}).json()
    assert {"name": "mlp", "version": "2", "state": "READY", "reason": ""} in index
    assert client.post("/v2/repository/models/pair/unload").status_code == 200
    assert client.get("/v2/models/pair/ready").status_code == 400
    states = {entry["name"]: entry for entry in client.post("/v2/repository/index").json()}
    assert (states["pair"]["state"], states["pair"]["reason"]) == ("UNAVAILABLE", "unloaded")
    assert client.get("/v2/health/ready").status_code == 200  # a user wanted it so
    assert client.post("/v2/repository/models/pair/load", json={}).status_code == 200
    assert client.get("/v2/models/pair/ready").status_code == 200


def test_as_torchserve(server: Running):
    client = server.client
    assert client.get("/ping").json() == {"status": "Healthy"}
    single = client.post("/predictions/mlp", json=ROWS[0].tolist()).json()
    rows = client.post("/predictions/mlp/1", json=ROWS.tolist()).json()
    assert np.allclose(single, expected(ROWS, 2)[0], atol=1e-6)
    assert np.allclose(rows, expected(ROWS, 1), atol=1e-6)
    both = {"x": [[1, 2]], "y": [[3, 4]]}
    assert client.post("/predictions/pair", json=both).json() == [[4, 6]]
    assert client.put("/predictions/mlp", json=ROWS[0].tolist()).json() == single  # curl -T
    # A model with a handler reads what it likes.
    assert client.post("/predictions/shout", content=b"banana").json() == {"letters": 6}


def test_metrics(server: Running):
    server.infer("not", "x", "BOOL", [2, 4], [True] * 8)
    server.client.get("/v2/models/none")
    text = server.client.get("/metrics").text
    assert re.search(r'edutorch_requests_total{model="not",status="200",version="1"} [1-9]', text)
    assert re.search(r'edutorch_errors_total{status="404"} [1-9]', text)
    for name in ("request_seconds", "queue_seconds", "compute_seconds", "batch_rows"):
        assert f'edutorch_{name}_bucket{{le="1.0",model="not",version="1"}}' in text
    assert 'edutorch_queue{model="not",version="1"} 0.0' in text
    assert "none" not in text  # what clients invent makes no series


def test_the_page(server: Running):
    page = server.client.get("/")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert '<form data-model="mlp">' in page.text and "version 2" in page.text
    assert "fetch(" in server.client.get("/page.js").text
    assert server.client.get("/page.css").headers["content-type"].startswith("text/css")
    picture = server.client.get("/models/mlp/graph.svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert picture.text.startswith("<svg") and "script" not in picture.text
    assert "no graph to show" in server.client.get("/models/pair/graph.svg").text


def test_hosts_and_origins(server: Running):
    get, port = server.client.get, urlsplit(server.url).port
    assert get("/v2", headers={"Host": f"localhost:{port}"}).status_code == 200
    assert get("/v2", headers={"Host": f"[::1]:{port}"}).status_code == 200
    assert get("/v2", headers={"Host": f"rebound.example:{port}"}).status_code == 421
    same = {"Host": f"127.0.0.1:{port}", "Origin": f"http://127.0.0.1:{port}"}
    assert get("/v2", headers=same).status_code == 200


def test_who_goes_away_is_not_waited_for(server: Running):
    entry = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 0]}
    body = json.dumps({"inputs": [entry]}).encode()
    head = "POST /v2/models/moods/infer HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: gone\r\n"
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.1)
    wait_until(lambda: any(line.get("request") == "gone" for line in server.logs()))
    line = next(line for line in server.logs() if line.get("request") == "gone")
    assert (line["event"], line["status"]) == ("client went away", 0)
    assert "edutorch_cancelled_total 1.0" in server.client.get("/metrics").text
