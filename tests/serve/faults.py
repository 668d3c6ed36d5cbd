"""The board of faults: each sends a request that is wrong, and returns the status of the answer.

The name of each is its row in the table of docs/serving.md.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from tests.serve.running import Running

FAULTS: dict[str, Callable[[Running, Running], int | str]] = {}
"""Called with a server that is open (--allow-control, tight limits), and one as it comes."""

MLP, PAIR = "/v2/models/mlp/infer", "/v2/models/pair/infer"


def fault(name: str) -> Callable:
    """Return a decorator: the function is the fault of that row."""

    def register(function: Callable) -> Callable:
        FAULTS[name] = function
        return function

    return register


def entry(**changes: Any) -> dict:
    """Return a good input of the network, with changes; None takes a key away."""
    good = {"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [0.5] * 64}
    return {key: value for key, value in (good | changes).items() if value is not None}


def input_fault(row: str, /, model: str = "mlp", **changes: Any) -> None:
    """Add a fault of an input's entry."""

    @fault(row)
    def send(server: Running, _: Running) -> int:
        path = f"/v2/models/{model}/infer"
        return server.client.post(path, json={"inputs": [entry(**changes)]}).status_code


def body_fault(name: str, content: Any, path: str = MLP) -> None:
    """Add a fault of a whole body: bytes, or what becomes JSON."""

    @fault(name)
    def send(server: Running, _: Running) -> int:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return server.client.post(path, content=body).status_code


def raw(server: Running, data: bytes, shut: bool = False) -> int | str:
    """Send bytes, and return the status of what comes back, or "closed"."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
        with suppress(OSError):  # the answer may come before all is sent
            connection.sendall(data)
            if shut:
                connection.shutdown(socket.SHUT_WR)
        head = b""
        with suppress(ConnectionResetError):
            while b"\r\n" not in head and (received := connection.recv(4096)):
                head += received
    return int(head[9:12]) if head else "closed"


def request(method: str, path: str, *headers: str) -> bytes:
    """Return the head of a request."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]).encode()


# Bodies ------------------------------------------------------------------------------

two = {"datatype": "FP32", "shape": [1, 2], "data": [1, 2]}

body_fault("a body that is not JSON", b"{inputs: 1}")
body_fault("an empty body", b"")
body_fault("JSON that is not UTF-8", b'{"id": "\xff"}')
body_fault("JSON that is nested 100,000 deep", b'{"inputs": ' + b"[" * 90_000)
body_fault("NaN in JSON", b'{"inputs": [NaN]}')
body_fault("JSON that is a list", [entry()])
body_fault("no `inputs`", {"outputs": []})
body_fault("an input twice", {"inputs": [entry(), entry()]})
body_fault("one of two inputs", {"inputs": [{"name": "x", **two}]}, PAIR)
body_fault(
    "an output that the model does not have", {"inputs": [entry()], "outputs": [{"name": "z"}]}
)
body_fault(
    "inputs of different numbers of rows",
    {"inputs": [{"name": "x", **two}, {"name": "y", **two, "shape": [2, 2], "data": [1] * 4}]},
    PAIR,
)
body_fault("a timeout of 0", {"inputs": [entry()], "parameters": {"timeout": 0}})
body_fault("a sequence", {"inputs": [entry()], "parameters": {"sequence_id": 7}})
shared = {"parameters": {"shared_memory_region": "a", "shared_memory_byte_size": 256}}
body_fault("shared memory", {"inputs": [entry(data=None, **shared)]})

input_fault("an input without a name", name=None)
input_fault("an input that the model does not have", name="z")
input_fault("another datatype", datatype="FP64")
input_fault("BYTES", datatype="BYTES", data=["a"] * 64)
input_fault("an unknown datatype", datatype="FP12")
input_fault("another rank", shape=[64])
input_fault("another size", shape=[1, 63], data=[0.5] * 63)
input_fault("a negative size", shape=[-1, 64])
input_fault("sizes whose product is huge", shape=[10**30, 64])
input_fault("fewer elements than the shape says", data=[0.5] * 63)
input_fault("ragged lists", data=[[0.5] * 32, [0.5] * 31])
input_fault("a string among the numbers", data=[0.5] * 63 + ["1"])
input_fault("no rows", shape=[0, 64], data=[])
index = {"model": "table", "name": "index", "datatype": "INT64", "shape": [1, 1]}
input_fault("a fraction for INT64", data=[0.5], **index)
input_fault("a number too large for INT64", data=[2**64], **index)
input_fault("an index beyond a table", data=[10], **index)


# Binary data -------------------------------------------------------------------------


def send_binary(
    server: Running, model: str, tail: bytes, header: str | None = None, **changes: Any
) -> int:
    """Send an input as binary data, with another size of the JSON in front if one is given."""
    text = json.dumps({"inputs": [entry(data=None, **changes)]}).encode()
    headers = {"Inference-Header-Content-Length": header or str(len(text))}
    path = f"/v2/models/{model}/infer"
    return server.client.post(path, content=text + tail, headers=headers).status_code


def binary_fault(row: str, /, size: int, tail: bytes, **changes: Any) -> None:
    """Add a fault of binary data."""

    @fault(row)
    def send(server: Running, _: Running) -> int:
        parameters = {"binary_data_size": size}
        return send_binary(server, tail=tail, parameters=parameters, **{"model": "mlp", **changes})


binary_fault("a JSON size that is no number", 256, bytes(256), header="1e3")
binary_fault("a JSON size beyond the body", 256, bytes(256), header="99999")
binary_fault("a binary size that does not fit the shape", 252, bytes(252))
binary_fault("binary data that no input takes", 256, bytes(300))
binary_fault("a BOOL of 2", 4, b"\0\1\2\0", model="not", datatype="BOOL", shape=[1, 4])


# Paths, headers, connections ---------------------------------------------------------


@fault("a picture for a model without a handler")
def _(server: Running, _: Running) -> int:
    headers = {"Content-Type": "image/png"}
    return server.client.post("/predictions/mlp", content=b"\x89PNG", headers=headers).status_code


@fault("a compressed body")
def _(server: Running, _: Running) -> int:
    headers = {"Content-Encoding": "gzip"}
    return server.client.post(MLP, content=b"\x1f\x8b", headers=headers).status_code


for name, path in {
    "an unknown model": "/v2/models/none",
    "an unknown version": "/v2/models/mlp/versions/7",
    "a version that is no number": "/v2/models/mlp/versions/latest",
    "an unknown path": "/v3",
    "GET for an inference": MLP,
    "a model name with `..`": "/v2/models/..%2F..%2Fsecret",
}.items():
    FAULTS[name] = lambda server, _, path=path: raw(server, request("GET", path))


@fault("a body that is too large")
def _(server: Running, _: Running) -> int:
    return server.client.post(MLP, content=bytes(300_000)).status_code


@fault("a body that is too large, in chunks")
def _(server: Running, _: Running) -> int:
    return server.client.post(MLP, content=(bytes(50_000) for _ in range(6))).status_code


FAULTS |= {
    "a body that stops half way": lambda server, _: raw(
        server, request("POST", MLP, "Content-Length: 100") + b'{"inputs"'
    ),
    "headers that stop half way": lambda server, _: raw(server, b"GET /v2 HTTP/1.1\r\nHost: a"),
    "headers that are too large": lambda server, _: raw(
        server, b"GET /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 600_000
    ),
    "what is not HTTP": lambda server, _: raw(server, b"\x16\x03\x01 hello\r\n\r\n"),
    "another Host": lambda server, _: (
        server.client.get("/v2", headers={"Host": "attacker.example"}).status_code
    ),
    "a page of another origin": lambda server, _: (
        server.client.post(MLP, json={"inputs": [entry()]}, headers={"Origin": "null"}).status_code
    ),
}


# The repository ----------------------------------------------------------------------


def control_fault(name: str, path: str, on_default: bool = False, content: bytes = b"") -> None:
    """Add a fault of a request for the repository."""

    @fault(name)
    def send(server: Running, default: Running) -> int:
        length = f"Content-Length: {len(content)}"
        target = default if on_default else server
        return raw(target, request("POST", f"/v2/repository/{path}", length) + content)


control_fault("index without `--allow-control`", "index", on_default=True)
control_fault("load without `--allow-control`", "models/mlp/load", on_default=True)
control_fault("unload without `--allow-control`", "models/mlp/unload", on_default=True)
control_fault("load of a folder outside MODELS", "models/..%2Fsecret/load")
control_fault("load with a configuration", "models/mlp/load", content=b'{"parameters": {"a": 1}}')
control_fault("load of a model that fails", "models/broken/load")
control_fault("unload of an unknown model", "models/none/unload")


@fault("a model that was unloaded")
def _(server: Running, _: Running) -> int:
    assert server.client.post("/v2/repository/models/spare/unload").status_code == 200
    return server.client.post("/v2/models/spare/infer", json={}).status_code


for name, model in {
    "a model that failed its warm-up": "broken",
    "a model file that is damaged": "damaged",
    "a model file that would run a program": "hostile",
    "a handler that is not trusted": "untrusted",
    "a link that leaves MODELS": "linked",
}.items():
    FAULTS[name] = lambda server, _, model=model: (
        server.client.post(f"/v2/models/{model}/infer", json={"inputs": [entry()]}).status_code
    )


# What the model does -----------------------------------------------------------------


def send_mood(server: Running, mood: float, **parameters: Any) -> Any:
    """Ask the model that does what its first number says."""
    x = entry(shape=[2], data=[mood, 0])
    body = {"inputs": [x], "parameters": parameters}
    return server.client.post("/v2/models/moods/infer", json=body)


@fault("a full queue")
def _(server: Running, _: Running) -> int:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: send_mood(server, 1), range(8)))
    refused = [answer for answer in answers if answer.status_code != 200]
    assert all(answer.headers["Retry-After"] == "1" for answer in refused)
    return refused[0].status_code


@fault("a deadline that passes")
def _(server: Running, _: Running) -> int:
    start = time.monotonic()
    status = send_mood(server, 1, timeout=20_000).status_code
    assert time.monotonic() - start < 60
    return status


FAULTS |= {
    "a model that raises": lambda server, _: send_mood(server, 2).status_code,
    "a model that returns something else": lambda server, _: send_mood(server, 3).status_code,
}
