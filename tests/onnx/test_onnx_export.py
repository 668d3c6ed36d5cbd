"""Programs as ONNX models, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.export import Dim
from edutorch.utils._pytree import tree_flatten
from tests.export.networks import network
from tests.export.test_control_flow import Branching

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx_ir")
pytest.importorskip("onnxruntime")


def arrays(tree):
    return [leaf.detach().numpy() for leaf in tree_flatten(tree)[0] if hasattr(leaf, "detach")]


def assert_close(module, model, args):
    with torch.no_grad():
        expected = arrays(module(*args))
    for a, b in zip(expected, arrays(model(*args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("opset", range(18, 24))
def test_opsets(opset):
    module, args, shapes = network("gpt")
    model = torch.onnx.export(module, args, dynamic_shapes=shapes, opset_version=opset, verify=True)
    assert model.model_proto.opset_import[0].version == opset
    assert model.model_proto.ir_version == 11


def test_control_flow_becomes_if_loop_and_scan():
    shapes = ({0: Dim("batch", min=1, max=16)},)
    module = Branching()
    model = torch.onnx.export(module, (torch.ones(3, 4),), dynamic_shapes=shapes, verify=True)
    types = {node.op_type for node in model.model_proto.graph.node}
    assert {"If", "Loop", "Scan"} <= types
    for sign in (1, -1):
        assert_close(module, model, (sign * torch.rand(5, 4),))


def test_names_files_and_axes(tmp_path):
    model = torch.onnx.export(
        nn.Linear(3, 2), torch.ones(4, 3), tmp_path / "model.onnx", input_names=["data"],
        output_names=["scores"], dynamic_axes={"data": {0: "batch"}},
    )  # fmt: skip
    read = onnx.load(tmp_path / "model.onnx")
    assert [value.name for value in read.graph.input] == ["data"]
    assert [value.name for value in read.graph.output] == ["scores"]
    assert read.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert model(torch.ones(7, 3)).shape == (7, 2)


def test_ops_without_an_entry_are_taken_apart():
    class Family(nn.Module):
        def forward(self, x):
            return torch.logaddexp(x, x * 2), torch.hypot(x, x), torch.sinc(x)

    model = torch.onnx.export(Family(), (torch.rand(3) + 0.5,), verify=True)
    assert model.model_proto.graph.node


def test_what_onnx_lacks_is_named_with_its_line():
    class Factors(nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x)

    with pytest.raises(NotImplementedError, match=r"test_onnx_export\.py:\d+: "):
        torch.onnx.export(Factors(), (torch.rand(3, 3),))


def test_another_opset_is_refused():
    with pytest.raises(ValueError, match="18 to 23"):
        torch.onnx.export(nn.ReLU(), (torch.ones(1),), opset_version=99)
