"""Models change under load, and the server ends under load: no request is lost."""

from __future__ import annotations

import os
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from tests.serve.faulty_models import BROKEN
from tests.serve.load import Load, infer_request
from tests.serve.running import running, wait_until, write_handler, write_mlp

# The version is what stands in a file, so that a test sees which one has answered.
LEVEL = """
    import numpy as np
    from edutorch.serve.served import Served, TensorSpec
    def load(folder):
        level = float((folder / "level.txt").read_text())
        x, y = TensorSpec("x", "FP32", (-1, 64)), TensorSpec("y", "FP32", (-1, 1))
        return Served((x,), (y,), lambda a: {"y": np.full((len(a["x"]), 1), level, "f4")})
"""
ONE = infer_request("level", np.zeros((1, 64)), "127.0.0.1")


def write_level(models, level: object) -> None:
    """Write the file of a version, as one writes a file that others read: by renaming."""
    folder = models / "level" / "1"
    if level == 0:
        write_handler(models, "level", LEVEL)
    (folder / "new").write_text(str(level))
    os.replace(folder / "new", folder / "level.txt")


def level_of(server) -> float:
    answer = server.infer("level", "x", "FP32", [1, 64], [0] * 64)
    assert answer.status_code == 200, answer.text
    return answer.json()["outputs"][0]["data"][0]


@pytest.fixture
def models(tmp_path):
    write_level(tmp_path / "models", 0)
    return tmp_path / "models"


def test_reloads_under_load_drop_no_request(models):
    with running(models, "--allow-control", "--log-level", "warning") as server:
        load = Load(server.url, ONE, 2, 4)
        end = time.monotonic() + 1.5
        reloads = 0
        while time.monotonic() < end or reloads < 2:
            reloads += 1
            write_level(models, reloads)
            assert server.client.post("/v2/repository/models/level/load").status_code == 200
            assert level_of(server) == reloads
        report = load.result()
    assert set(report.statuses) == {200} and not report.broken and not report.refused


def test_what_changes_in_the_folder_is_loaded(models):
    with running(models, "--reload", "0.05") as server:
        write_level(models, 7)
        wait_until(lambda: level_of(server) == 7)
        # What does not load leaves the old one where it is.
        write_level(models, "seven")
        wait_until(lambda: any(line["event"] == "not loaded" for line in server.logs()))
        assert level_of(server) == 7
        failed = [line for line in server.logs() if line["event"] == "not loaded"]
        assert "could not convert string to float" in failed[0]["reason"]
        time.sleep(0.2)
        assert len([line for line in server.logs() if line["event"] == "not loaded"]) == 1
        write_level(models, 8)
        wait_until(lambda: level_of(server) == 8)


def test_versions_come_and_go(models, tmp_path):
    # A handler that comes later is not trusted; one above the versions is that of all.
    shutil.move(models / "level" / "1" / "handler.py", models / "level" / "handler.py")
    with running(models, "--reload", "0.05") as server:
        assert level_of(server) == 0
        shutil.copytree(models / "level" / "1", tmp_path / "2")
        (tmp_path / "2" / "level.txt").write_text("2")
        (tmp_path / "2").rename(models / "level" / "2")
        wait_until(lambda: level_of(server) == 2)
        first = server.client.get("/v2/models/level").json()
        assert first["versions"] == ["1", "2"]
        shutil.rmtree(models / "level" / "2")
        wait_until(lambda: level_of(server) == 0)
        write_handler(models, "late", BROKEN)
        wait_until(lambda: "--trust-handler" in server.client.get("/v2/models/late").text)
        assert server.client.get("/v2/models/late").status_code == 503
        assert server.client.get("/v2/health/ready").status_code == 200
        shutil.rmtree(models / "late")
        wait_until(lambda: server.client.get("/v2/models/late").status_code == 404)


def test_a_handler_that_was_changed_is_not_run(models):
    with running(models, "--allow-control") as server:
        path = models / "level" / "1" / "handler.py"
        path.write_text(path.read_text() + "\nopen('ran', 'w')\n")
        answer = server.client.post("/v2/repository/models/level/load")
        assert (answer.status_code, "has changed since" in answer.text) == (400, True)
        assert level_of(server) == 0


def test_a_model_that_fails_its_warm_up_is_never_served(models):
    write_handler(models, "broken", BROKEN)
    with running(models, wait=False) as server:
        wait_until(lambda: server.client.get("/v2/models/broken").status_code == 503)
        answer = server.infer("broken", "x", "FP32", [1, 2], [0, 0])
        assert answer.status_code == 503 and "warm-up failed" in answer.json()["error"]
        wait_until(lambda: server.client.get("/v2/models/level/ready").status_code == 200)
        assert level_of(server) == 0
        assert server.client.get("/v2/health/ready").status_code == 400
        assert server.client.get("/ping").status_code == 503


def answers_of(server) -> int:
    """Return how many requests the server has answered with 200."""
    counted = re.findall(r'^edutorch_requests_total.*status="200".* (\S+)$',
                         server.client.get("/metrics").text, re.MULTILINE)  # fmt: skip
    return int(sum(map(float, counted)))


def end(server, seconds: float = 30) -> None:
    """Send SIGTERM: the server ends with 0 within the time that is promised."""
    start = time.monotonic()
    server.process.terminate()
    assert server.process.wait(60) == 0
    assert time.monotonic() - start < seconds


def test_sigterm_under_load_answers_all_that_was_accepted(tmp_path):
    write_mlp(tmp_path / "models")
    with running(tmp_path / "models", "--drain", "0.5") as server:
        request = infer_request("mlp", np.zeros((1, 64)), "127.0.0.1")
        load = Load(server.url, request, 30, 16)
        wait_until(lambda: answers_of(server) > 100)  # however fast the machine is
        end(server)
        report = load.result()
    refused = [line for line in server.logs() if line.get("status") == 503]
    assert set(report.statuses) == {200} and report.statuses[200] > 100, refused
    assert report.broken == [] and report.refused == 16


# Sleeps as many seconds as its input says.
SLEEP = """
    import time
    from edutorch.serve.served import Served, TensorSpec
    def load(folder):
        x = TensorSpec("x", "FP32", (1,))
        def call(arrays):
            time.sleep(float(arrays["x"][0]))
            return {"y": arrays["x"]}
        return Served((x,), (x._replace(name="y"),), call)
"""


def ask_in_the_background(server, threads, seconds: float):
    """Send a request that takes so long."""
    entry = {"name": "x", "datatype": "FP32", "shape": [1], "data": [seconds]}
    url = f"{server.url}/v2/models/sleep/infer"
    return threads.submit(httpx.post, url, json={"inputs": [entry]}, timeout=60, trust_env=False)


@pytest.mark.slow
def test_sigterm_waits_for_a_queue_of_slow_requests(tmp_path):
    write_handler(tmp_path / "models", "sleep", SLEEP)
    with running(tmp_path / "models") as server, ThreadPoolExecutor(4) as threads:
        answers = [ask_in_the_background(server, threads, 0.5) for _ in range(4)]
        waiting = 'edutorch_queue{model="sleep",version="1"} 3.0'
        wait_until(lambda: waiting in server.client.get("/metrics").text)
        end(server)
        assert [answer.result().status_code for answer in answers] == [200] * 4


@pytest.mark.slow
def test_sigterm_does_not_wait_for_ever(tmp_path):
    write_handler(tmp_path / "models", "sleep", SLEEP)
    with running(tmp_path / "models") as server, ThreadPoolExecutor(1) as threads:
        answer = ask_in_the_background(server, threads, 40)
        batch = 'edutorch_queue_seconds_count{model="sleep",version="1"} 1.0'
        wait_until(lambda: batch in server.client.get("/metrics").text)
        end(server)
        assert answer.result().status_code == 503
        assert "the server ends" in answer.result().json()["error"]
        assert any(line["event"] == "a model still runs, and is left" for line in server.logs())
