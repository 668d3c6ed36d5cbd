"""Each format of a file: the same network is written in all, served, and answers the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.export import Dim, export, save
from tests.serve.running import running


def write_network(folder: Path, suffix: str) -> nn.Module:
    """Write a network to a folder in the format of a suffix, and return it."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).eval()
    x = torch.randn(2, 64)
    path = folder / f"model{suffix}"
    folder.mkdir(parents=True)
    if suffix == ".pt":
        torch.jit.save(torch.jit.trace(model, x), str(path))
        inputs = [{"name": "x", "datatype": "FP32", "shape": [-1, 64]}]
        (folder.parent / "model.json").write_text(json.dumps({"inputs": inputs}))
        return model
    sizes = ({0: Dim("batch", min=1, max=64)},)
    if suffix == ".edu":
        save(export(model, (x,), dynamic_shapes=sizes), path)
        return model
    torch.onnx.export(
        model, (x,), str(path), dynamic_shapes=sizes, input_names=["x"], output_names=["scores"]
    )
    return model


@pytest.mark.parametrize("suffix", [".edu", ".onnx", ".pt"])
def test_a_format_is_served(tmp_path, suffix):
    model = write_network(tmp_path / "models" / "net" / "1", suffix)
    rows = np.random.default_rng(0).standard_normal((3, 64)).astype("f4")
    expected = model(torch.from_numpy(rows)).detach().numpy()
    with running(tmp_path / "models") as server:
        answer = server.client.post("/predictions/net", json=rows.tolist())
        assert np.allclose(answer.json(), expected, atol=1e-5)
        metadata = server.client.get("/v2/models/net").json()
        assert metadata["inputs"][0]["shape"] == [-1, 64]
        assert metadata["outputs"][0]["shape"] == [-1, 10]
        loaded = next(line for line in server.logs() if line["event"] == "version loaded")
        assert loaded["batching"]
        assert server.client.get("/models/net/graph.svg").text.startswith("<svg")
