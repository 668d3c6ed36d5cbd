"""Files for other places: they are read as those places read them."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from edutorch import nn
from edutorch.__main__ import main
from edutorch.serve.errors import ModelError
from edutorch.serve.manifests import LIMITS, triton_config, write_manifest
from edutorch.serve.served import Served, TensorSpec, from_module
from edutorch.serve.settings import Settings
from tests.serve.running import ROOT, wait_until, write_mlp
from tests.serve.test_formats import write_network

# Containers --------------------------------------------------------------------------


def instructions(folder: Path) -> dict[str, str]:
    """Return the instructions of a Containerfile by their words; each is there once."""
    lines = (folder / "Containerfile").read_text().splitlines()
    pairs = [line.partition(" ")[::2] for line in lines if not line.startswith("#")]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def test_a_containerfile(tmp_path):
    folder = write_mlp(tmp_path / "my models")
    limits = {"max_body": 100_000_000, "batch_delay": 0.001, "workers": 2, "reload": 1.0}
    settings = Settings(
        tmp_path / "my models", trusted=(folder / "handler.py",), allow_control=True, **limits
    )
    paths = write_manifest("container", settings, tmp_path / "out")
    assert [path.name for path in paths] == ["Containerfile"]
    parsed = instructions(tmp_path / "out")
    assert json.loads(parsed["COPY"]) == ["my models", "/models"]
    assert parsed["USER"] == "1000:1000" and parsed["STOPSIGNAL"] == "SIGTERM"
    assert json.loads(parsed["CMD"]) == [
        "python", "-m", "edutorch", "serve", "/models", "--host", "0.0.0.0", "--allow-host", "*",
        "--batch-delay", "0.001", "--workers", "2", "--max-body", "100000000", "--reload", "1.0",
        "--allow-control", "--trust-handler", "/models/mlp/1/handler.py",
    ]  # fmt: skip
    context = (tmp_path / "out" / "Containerfile").read_text().splitlines()[0]
    assert shlex.split(context)[-1] == str(tmp_path)


def test_every_limit_of_the_command_line_reaches_the_container():
    from edutorch.cli.serve import NUMBERS

    assert {name for name, _, _ in NUMBERS} | {"reload"} == set(LIMITS)


@pytest.mark.slow
def test_what_a_containerfile_says_runs_and_its_health_check_passes(tmp_path):
    folder = write_mlp(tmp_path / "models")
    trusted = ["--trust-handler", str(folder / "handler.py")]
    words = [str(tmp_path / "models"), "--manifest", "container", "--max-body", "100000000"]
    assert main(["serve", *words, "-o", str(tmp_path / "out"), *trusted]) == 0
    parsed = instructions(tmp_path / "out")
    command = [
        word.replace("/models", str(tmp_path / "models"), 1) if word[:7] == "/models" else word
        for word in json.loads(parsed["CMD"])
    ]
    # PORT is 0 here, so that the test takes a free one; the check asks the one that was taken.
    process = subprocess.Popen(
        [sys.executable, *command[1:]], cwd=ROOT, env={"PORT": "0"}, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        port = process.stdout.readline().strip().rstrip("/").rpartition(":")[2]
        _, _, code = json.loads(parsed["HEALTHCHECK"].removeprefix("CMD "))
        check = [sys.executable, "-c", code]
        wait_until(lambda: subprocess.run(check, env={"PORT": port}).returncode == 0)
    finally:
        process.terminate()
        assert process.wait(60) == 0
    assert subprocess.run(check, env={"PORT": port}, stderr=subprocess.DEVNULL).returncode == 1


def test_a_handler_outside_is_not_forgotten(tmp_path):
    (tmp_path / "handler.py").write_text("")
    (tmp_path / "models").mkdir()
    settings = Settings(tmp_path / "models", trusted=(tmp_path / "handler.py",))
    with pytest.raises(ModelError, match=r"handler\.py is outside .*models: it is not copied"):
        write_manifest("container", settings, tmp_path / "out")


@pytest.mark.parametrize(
    ("queue", "timeout", "expected"), [(9, 0.2, (9, 1)), (5000, 1e6, (1000, 3600))]
)
def test_a_service_of_cloud_run(tmp_path, queue, timeout, expected):
    (tmp_path / "models").mkdir()
    settings = Settings(tmp_path / "models", queue=queue, timeout=timeout)
    paths = write_manifest("cloudrun", settings, tmp_path / "out")
    assert [path.name for path in paths] == ["Containerfile", "service.yaml"]
    service = yaml.safe_load(paths[1].read_text())
    assert (service["apiVersion"], service["kind"]) == ("serving.knative.dev/v1", "Service")
    template = service["spec"]["template"]["spec"]
    assert (template["containerConcurrency"], template["timeoutSeconds"]) == expected
    container = template["containers"][0]
    assert container["ports"] == [{"containerPort": 8080}]
    assert container["startupProbe"]["httpGet"] == {"path": "/v2/health/ready", "port": 8080}
    assert container["livenessProbe"]["httpGet"] == {"path": "/v2/health/live", "port": 8080}


# KServe ------------------------------------------------------------------------------


def onnx_folder(models: Path, name: str) -> None:
    """Make the folder of a model that is an ONNX file; nothing reads it."""
    (models / name / "3").mkdir(parents=True)
    (models / name / "3" / "model.onnx").write_bytes(b"")


def test_kserve(tmp_path):
    models = tmp_path / "models"
    write_mlp(models, name="My_Net")
    onnx_folder(models, "onnx")
    paths = write_manifest("kserve", Settings(models), tmp_path / "out")
    assert [path.name for path in paths] == ["My_Net.yaml", "onnx.yaml", "Containerfile"]
    own, onnx = (yaml.safe_load(path.read_text()) for path in paths[:2])
    for service in (own, onnx):
        assert service["apiVersion"] == "serving.kserve.io/v1beta1"
        assert service["kind"] == "InferenceService"
    assert own["metadata"]["name"] == "my-net"
    container = own["spec"]["predictor"]["containers"][0]
    assert container["name"] == "kserve-container"
    assert container["readinessProbe"]["httpGet"] == {"path": "/v2/health/ready", "port": 8080}
    assert onnx["spec"]["predictor"]["model"] == {
        "modelFormat": {"name": "onnx"}, "runtime": "kserve-tritonserver", "protocolVersion": "v2",
        "storageUri": "pvc://models/onnx",
    }  # fmt: skip


def test_models_that_kubernetes_could_not_tell_apart(tmp_path):
    for name in ("a_b", "a.b"):
        onnx_folder(tmp_path, name)
    with pytest.raises(ModelError, match=r"'a\.b' and 'a_b' are both 'a-b' in Kubernetes"):
        write_manifest("kserve", Settings(tmp_path), tmp_path / "out")


# Triton ------------------------------------------------------------------------------


def parse(text: str):
    """Read a config.pbtxt with Triton's own description of it.

    It is in the wheel of tritonclient, whose package would import gRPC.
    """
    from google.protobuf import text_format

    package = Path(importlib.util.find_spec("tritonclient").submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location(
        "model_config_pb2", package / "grpc" / "model_config_pb2.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return text_format.Parse(text, module.ModelConfig())


def tensors(entries) -> list[tuple]:
    """Return name, type and sizes of inputs or outputs."""
    return [(entry.name, entry.data_type, list(entry.dims)) for entry in entries]


FP32, INT64 = 11, 9


def test_the_configuration_that_is_written_for_a_file(tmp_path):
    write_network(tmp_path / "models" / "net" / "1", ".onnx")
    paths = write_manifest("triton", Settings(tmp_path / "models"), tmp_path / "out")
    assert paths == [tmp_path / "out" / "net" / "config.pbtxt"]
    config = parse(paths[0].read_text())
    assert (config.name, config.platform) == ("net", "onnxruntime_onnx")
    assert config.max_batch_size == 32
    assert tensors(config.input) == [("x", FP32, [64])]
    assert tensors(config.output) == [("scores", FP32, [10])]
    batching = config.dynamic_batching
    assert batching.max_queue_delay_microseconds == 2000
    assert batching.default_queue_policy.max_queue_size == 256


def test_a_configuration_without_batching():
    served = from_module(nn.Linear(64, 10), [TensorSpec("x", "FP32", (-1, 64))])
    for config in (
        parse(triton_config("net", served, Settings(ROOT, max_batch=1))),
        parse(triton_config("net", replace(served, batching=False), Settings(ROOT))),
    ):
        assert config.max_batch_size == 0 and not config.HasField("dynamic_batching")
        assert tensors(config.input) == [("x", FP32, [-1, 64])]


def test_a_configuration_of_odd_names_and_empty_shapes():
    x, y = TensorSpec('a "b"\\', "FP32", (-1, 3)), TensorSpec("ü", "INT64", (-1,))
    config = parse(triton_config("net", Served((x,), (y,), dict), Settings(ROOT)))
    assert tensors(config.input) == [('a "b"\\', FP32, [3])]
    assert tensors(config.output) == [("ü", INT64, [1])]
    assert config.output[0].HasField("reshape") and not config.output[0].reshape.shape


def test_triton_reads_onnx_alone(tmp_path):
    write_mlp(tmp_path)
    with pytest.raises(ModelError, match=r"Triton cannot read mlp/1: there is no model\.onnx"):
        write_manifest("triton", Settings(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()
