"""Models of others, from the wheels that carry them, agree with onnxruntime in every value.

`make test-export` installs the wheels: silero-vad, rapidocr-onnxruntime, magika.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edutorch as torch
from tests.wheels import wheel_folder

pytestmark = pytest.mark.slow

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

TOLERANCE = 1e-3
"""Of the largest value of a tensor."""


FILES = [
    *(f"silero_vad/data/silero_vad{name}.onnx" for name in (
        "", "_16k_op15", "_16k_sequence", "_half", "_op18_ifless", "_openvino_16k",
    )),
    *(f"rapidocr_onnxruntime/models/ch_{name}_infer.onnx" for name in (
        "PP-OCRv4_det", "PP-OCRv4_rec", "ppocr_mobile_v2.0_cls",
    )),
    "magika/models/standard_v3_3/model.onnx",
]  # fmt: skip
"""All models of three wheels."""


def picture(*shape: int) -> np.ndarray:
    """Return dark bars on white, normalized: something that a text detector looks at."""
    image = np.ones(shape, np.float32)
    image[:, :, shape[2] // 3 : shape[2] // 2, 8:-8] = -1
    image[:, :, :, 20:24] = 1
    return image


SHAPES = {"_rec_": (1, 3, 48, 160), "_det_": (1, 3, 96, 160), "_cls_": (1, 3, 48, 192)}
SIZES = {"input": (1, 576), "state": (2, 1, 128), "bytes": (2, 2048)}


def feed(session: Any, path: Path) -> dict[str, np.ndarray]:
    """Return inputs of a model: pictures, bytes, a signal."""
    rng, values = np.random.default_rng(0), {}
    for entry in session.get_inputs():
        images = [shape for part, shape in SHAPES.items() if part in path.name]
        shape = SIZES.get(entry.name, [n if isinstance(n, int) else 1 for n in entry.shape])
        if entry.name == "sr":
            values["sr"] = np.array(16000, np.int64)
        elif images:
            values[entry.name] = picture(*images[0])
        elif "int" in entry.type:
            values[entry.name] = rng.integers(0, 256, shape).astype(np.int32)
        else:
            values[entry.name] = rng.standard_normal(shape).astype(np.float32)
    return values


def with_all_outputs(path: Path) -> Any:
    """Return a model that returns every tensor that its nodes compute."""
    model = onnx.load(path)
    known = {value.name for value in model.graph.output}
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {value.name: value for value in inferred.graph.value_info}
    for node in model.graph.node:
        for name in node.output:
            if name in types and name not in known:
                model.graph.output.append(types[name])
    return model


@pytest.mark.parametrize("file", FILES)
def test_every_value_agrees_with_onnxruntime(file: str):
    package, _, name = file.partition("/")
    path = wheel_folder(package) / name
    model = with_all_outputs(path)
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options)
    values = feed(session, path)
    expected = session.run(None, values)
    module = torch.onnx.load(model)
    assert sum(parameter.numel() for parameter in module.parameters()) > 100_000
    with torch.no_grad():
        results = module(**{name: torch.from_numpy(value) for name, value in values.items()})
    wrong = []
    for name, actual, right in zip(module.output_names, results, expected, strict=True):
        error = np.abs(actual.detach().numpy().astype(np.float64) - right).max(initial=0)
        if not error <= TOLERANCE * max(np.abs(right).max(initial=0), 1e-6):
            wrong.append(f"{name}: {error} of {np.abs(right).max(initial=0)}")
    assert not wrong, "\n".join(wrong)


def test_five_seconds_of_sound_agree():
    """silero_vad.onnx hears a signal window by window; its state is carried by the caller."""
    path = wheel_folder("silero_vad") / "data" / "silero_vad.onnx"
    rng, count = np.random.default_rng(0), 5 * 16000
    time = np.arange(count) / 16000
    tone = 0.3 * np.sin(2 * np.pi * 220 * time) * (np.sin(3 * np.pi * time) > 0)
    signal = (tone + 0.02 * rng.standard_normal(count)).astype(np.float32)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    module, rate = torch.onnx.load(str(path)), np.array(16000, np.int64)
    first, context = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32)
    second = torch.from_numpy(first.copy())
    for start in range(0, count - 511, 512):
        window = np.concatenate([context, signal[None, start : start + 512]], 1)
        context = window[:, -64:]
        right, first = session.run(None, {"input": window, "state": first, "sr": rate})
        with torch.no_grad():
            heard, second = module(torch.from_numpy(window), second, torch.tensor(16000))
        np.testing.assert_allclose(heard.numpy(), right, rtol=0, atol=1e-5)
        np.testing.assert_allclose(second.numpy(), first, rtol=0, atol=1e-4)
