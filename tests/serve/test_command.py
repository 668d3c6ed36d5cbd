"""The command line, the files for other places, and what is said where something is missing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from edutorch.__main__ import main
from edutorch.serve.errors import ModelError
from edutorch.serve.loaders import TrustedHandlers, load_folder, register_loader
from edutorch.serve.served import Served, TensorSpec
from tests.serve.running import ROOT, running, write_handler
from tests.serve.test_formats import write_network


@pytest.fixture
def refusal(monkeypatch, capsys):
    """Return a function that runs the command in this process; it is to refuse, and say why."""

    def run(*arguments: object, port: str = "") -> str:
        monkeypatch.setenv("PORT", port)
        monkeypatch.setattr("edutorch.serve.run.start_logging", lambda level: None)
        assert main(["serve", *map(str, arguments)]) == 1
        return capsys.readouterr().err

    return run


def test_a_folder_that_is_not_there(refusal, tmp_path):
    assert "there is no folder" in refusal(tmp_path / "none")


@pytest.mark.parametrize(
    ("words", "text"),
    [(["--queue", "0"], "--queue is 0"), (["--timeout", "nan"], "--timeout is nan")],
)
def test_a_number_that_makes_no_sense(refusal, tmp_path, words, text):
    assert text in refusal(tmp_path, *words)


def test_a_port_that_makes_no_sense(refusal, tmp_path):
    assert "$PORT is 'http'" in refusal(tmp_path, port="http")
    assert "cannot listen on 127.0.0.1:70000" in refusal(tmp_path, "--port", "70000")


def test_a_handler_that_is_not_there(refusal, tmp_path):
    words = ("--port", "0", "--trust-handler", tmp_path / "handler.py")
    assert "--trust-handler" in refusal(tmp_path, *words)


def test_the_port_of_the_environment_is_taken(tmp_path):
    words = [sys.executable, "-m", "edutorch", "serve", str(tmp_path)]
    env = {**os.environ, "PORT": "0"}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env)
    try:
        line = process.stdout.readline()
    finally:
        process.terminate()
        assert process.wait(60) == 0
    assert line.startswith(f"serving {tmp_path} on http://127.0.0.1:")


def test_it_starts_with_a_model_in_three_seconds(tmp_path):
    write_network(tmp_path / "models" / "net" / "1", ".onnx")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with running(tmp_path / "models") as server:
        assert server.infer("net", "x", "FP32", [1, 64], [0] * 64).status_code == 200
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Its processor time, to its end: the clock would count what else the machine does.
    assert after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime <= 3


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "prometheus_client"])
def test_without_the_extra_it_is_named(tmp_path, missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from edutorch.__main__ import main; "
    code += f"sys.exit(main(['serve', {str(tmp_path)!r}]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert f"{missing} is not installed" in done.stderr
    assert 'pip install "edutorch[serve]"' in done.stderr


# Loaders -----------------------------------------------------------------------------


def test_a_loader_is_a_function(tmp_path, monkeypatch):
    monkeypatch.setattr("edutorch.serve.loaders.LOADERS", {})
    spec = TensorSpec("x", "FP32", (-1, 2))

    @register_loader(".txt")
    def load_text(path, config) -> Served:
        return Served((spec,), (spec,), lambda arrays: arrays, path.read_text())

    (tmp_path / "model.txt").write_text("mine")
    assert load_folder(tmp_path, TrustedHandlers([])).platform == "mine"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[]", "the file is list, not an object"),
        ('{"input": []}', "unknown key 'input'; known: inputs"),
        ('{"inputs": [{"name": "x"}]}', "datatype is None, not one of BOOL"),
        ('{"inputs": [{"name": "x", "datatype": "FP32", "shape": [-2]}]}', "a negative size"),
        ('{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1.5]}]}', "not an integer"),
    ],
)
def test_a_model_json_that_is_wrong(tmp_path, text, error):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ModelError, match=error):
        load_folder(tmp_path, TrustedHandlers([]))


def test_a_handler_that_was_not_named_is_not_run(tmp_path):
    folder = write_handler(tmp_path, "a", "raise SystemExit")
    with pytest.raises(ModelError, match=r"--trust-handler .*handler\.py runs the handler"):
        load_folder(folder, TrustedHandlers([]))
