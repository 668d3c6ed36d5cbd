"""Whatever a client sends, the server has an answer, and it is not that the server is at fault."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from edutorch.serve.app import Server
from edutorch.serve.settings import Settings
from tests.serve.faulty_models import NOT, PAIR, TABLE
from tests.serve.running import wait_until, write_handler
from tests.serve.test_protocol import JSON, REQUEST

NAMES = ("not", "pair", "table")


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Iterator[TestClient]:
    """A server in this process, which is asked without a network."""
    models = tmp_path_factory.mktemp("any") / "models"
    for name, text in zip(NAMES, (NOT, PAIR, TABLE), strict=True):
        write_handler(models, name, text)
    trusted = tuple(models.rglob("handler.py"))
    server = Server(Settings(models, trusted=trusted, max_body=2000, batch_delay=0))
    with TestClient(server, base_url="http://127.0.0.1:8000") as client:
        wait_until(lambda: client.get("/v2/health/ready").status_code == 200)
        yield client


def ask(client: TestClient, method: str, path: str, content: bytes, headers: dict) -> None:
    """Send a request: its answer is no fault of the server, and says what is wrong."""
    url = f"http://127.0.0.1:8000{path}"
    answer = client.request(method, url, content=content, headers=headers, follow_redirects=False)
    assert answer.status_code < 500, answer.text
    assert answer.headers["x-request-id"]
    if answer.status_code >= 400 and method != "HEAD" and "/ready" not in path:
        assert answer.json()["error"]


TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Content-Type": st.sampled_from(["application/json", "image/png", ""]) | TEXT,
        "Content-Encoding": st.sampled_from(["identity", "gzip"]) | TEXT,
        "Inference-Header-Content-Length": st.integers(-1, 300).map(str) | TEXT,
        "X-Request-Id": TEXT,
        "Origin": st.sampled_from(["null", "http://127.0.0.1:8000"]) | TEXT,
        "Accept-Encoding": TEXT,
    },
)
BODY = st.binary(max_size=100) | (REQUEST | JSON).map(lambda value: json.dumps(value).encode())
INFERENCES = st.sampled_from(NAMES).flatmap(
    lambda name: st.sampled_from([f"/v2/models/{name}/infer", f"/predictions/{name}"])
)
PATHS = st.lists(
    st.sampled_from(
        "v2 models versions 1 2 infer ready health live repository index load unload predictions "
        "ping metrics graph.svg page.js pair not .. %2e%2e %00 %ff".split()
    )
    | TEXT,
    max_size=6,
).map(lambda parts: "/" + "/".join(part.replace("?", "").replace("#", "") for part in parts))
METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])


@settings(max_examples=150, deadline=None)
@given(path=INFERENCES, content=BODY, headers=HEADERS)
def test_any_inference_is_answered(client, path, content, headers):
    ask(client, "POST", path, content, headers)


@settings(max_examples=100, deadline=None)
@given(method=METHODS, path=PATHS, content=BODY, headers=HEADERS)
def test_any_path_is_answered(client, method, path, content, headers):
    ask(client, method, path, content, headers)
