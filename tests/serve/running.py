"""A running server for tests: a process of its own on a free port, and models for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

ROOT = Path(__file__).resolve().parents[2]

MLP = """
    from edutorch import nn
    INPUTS = [("x", "FP32", (-1, 64))]
    def load(folder):
        import edutorch
        model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        model.load_state_dict(edutorch.load(folder / "model.pt"))
        return model
"""


class Running(NamedTuple):
    """A server that answers.

    Args:
        url: its address, without the last slash.
        client: keeps a connection to it.
    """

    process: subprocess.Popen[str]
    url: str
    client: httpx.Client
    log_file: Path

    def logs(self) -> list[dict]:
        """Return what the server has logged."""
        return [json.loads(line) for line in self.log_file.read_text().splitlines()]

    def infer(
        self, model: str, name: str, datatype: str, shape: list, data: list
    ) -> httpx.Response:
        """Send a request with one input as JSON."""
        entry = {"name": name, "datatype": datatype, "shape": shape, "data": data}
        return self.client.post(f"/v2/models/{model}/infer", json={"inputs": [entry]})


# The rest of the tests waits for kernels to be compiled: a request would time out meanwhile.
AS_A_USER = {"EDUTORCH_KERNELS": "beside"}


@contextmanager
def running(models: Path, *arguments: str, wait: bool = True) -> Iterator[Running]:
    """Start a server, and end it with SIGTERM.

    Every handler in the folder is trusted unless the arguments say which are.

    Args:
        wait: until it is ready.
    """
    trusted = [] if "--trust-handler" in arguments else handlers(models)
    command = [
        sys.executable,
        "-m",
        "edutorch",
        "serve",
        str(models),
        "--port",
        "0",
        "--drain",
        "0.2",
    ]
    log_file = models.parent / f"{models.name}.{time.monotonic_ns()}.log"
    with log_file.open("w") as logs:
        process = subprocess.Popen(
            [*command, *trusted, *arguments], stdout=subprocess.PIPE, stderr=logs, text=True,
            cwd=ROOT, env={**os.environ, **AS_A_USER, "PORT": ""},
        )  # fmt: skip
    try:
        line = process.stdout.readline()  # type: ignore[union-attr]
        assert line.startswith("serving "), line + log_file.read_text()
        url = line.split()[-1].rstrip("/")
        with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
            if wait:
                wait_until(lambda: client.get("/v2/health/ready").status_code == 200)
            yield Running(process, url, client, log_file)
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()


def handlers(models: Path) -> list[str]:
    """Return the arguments that trust every handler in a folder."""
    return [text for path in models.rglob("handler.py") for text in ("--trust-handler", str(path))]


def wait_until(condition, seconds: float = 60) -> None:
    """Wait for what must come; a busy machine may take long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def write_handler(models: Path, name: str, text: str, version: int = 1) -> Path:
    """Write a model that is a handler.py, and return its folder."""
    folder = models / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "handler.py").write_text(textwrap.dedent(text))
    return folder


def write_mlp(models: Path, seed: int = 0, name: str = "mlp", version: int = 1) -> Path:
    """Write a checkpoint of a small network, with its handler."""
    import edutorch
    from edutorch import nn

    edutorch.manual_seed(seed)
    folder = write_handler(models, name, MLP, version)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    edutorch.save(model.state_dict(), folder / "model.pt")
    return folder
