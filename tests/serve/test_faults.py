"""The table of docs/serving.md is true: each fault is sent, and its status is what stands there."""

from __future__ import annotations

import json
import re

import pytest

from tests.serve.faults import FAULTS, entry
from tests.serve.faulty_models import write_models
from tests.serve.running import ROOT, running, wait_until

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("<!-- faults -->")[2].partition("<!-- end of the faults -->")[0]
ROWS = dict(re.findall(r"^\| (.+?) \| (\d+|closed) \|$", TABLE, re.MULTILINE))


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    trusted = write_models(folder / "models")
    limits = ("--max-body", "200000", "--body-timeout", "1.5", "--queue", "2", "--allow-control")
    with (
        running(folder / "models", *trusted, *limits, wait=False) as tight,
        running(folder / "models", *trusted, wait=False) as default,
    ):
        for server in (tight, default):
            wait_until(lambda: "--trust-handler" in server.client.get("/v2/models/untrusted").text)  # noqa: B023
        yield tight, default
        assert not (folder / "ran").exists()


def test_the_table_and_the_board_have_the_same_rows():
    assert list(ROWS) and set(ROWS) == set(FAULTS)
    assert len(ROWS) >= 30


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_answered_as_documented(servers, name):
    assert str(FAULTS[name](*servers)) == ROWS[name]


def test_the_server_has_survived(servers):
    for server in servers:
        answer = server.client.post("/v2/models/mlp/infer", json={"inputs": [entry()]})
        assert answer.status_code == 200
        faults = [line for line in server.logs() if line["event"] == "fault"]
        assert all(
            "KeyError" in line["traceback"] or "ModelError" in line["traceback"] for line in faults
        )


def test_an_error_names_both_sides(servers):
    answer = servers[0].infer("mlp", "x", "FP32", [2, 63], [0.0] * 126)
    assert answer.json() == {"error": "input 'x' has shape [2, 63], but the model takes [-1, 64]"}
    answer = servers[0].infer("mlp", "x", "INT8", [1, 64], [0] * 64)
    assert answer.json() == {"error": "input 'x' is INT8, but the model takes FP32"}


def test_a_fault_of_the_model_says_where_it_is_logged(servers):
    from tests.serve.faults import send_mood

    answer = send_mood(servers[0], 2)
    identifier = answer.headers["x-request-id"]
    assert answer.json() == {"error": f"KeyError in the server; the log has it as {identifier}"}
    line = next(line for line in servers[0].logs() if line.get("request") == identifier)
    assert 'KeyError("a bug")' in line["traceback"] and "a bug" not in answer.text


def test_the_log_is_json(servers):
    servers[0].client.get("/v2", headers={"X-Request-Id": "mine"})
    line = next(line for line in servers[0].logs() if line.get("request") == "mine")
    assert (line["status"], line["path"], line["level"]) == (200, "/v2", "info")
    forged = servers[0].client.get("/v2", headers={"X-Request-Id": 'a" b'})
    assert re.fullmatch("[0-9a-f]{8}-[0-9]+", forged.headers["x-request-id"])
    assert json.dumps(line)
