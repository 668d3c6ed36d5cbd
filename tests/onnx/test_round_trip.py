"""A model that leaves comes in again: the same values, at all sizes, and it can be trained."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.export import Dim
from edutorch.utils._pytree import tree_flatten
from tests.export.branching import PAIRS, Function, samples
from tests.export.networks import NETWORKS, arguments_at, network

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx_ir")
pytest.importorskip("onnxruntime")

LARGE = ("resnet18", "unet", "mobilenet_v3")
TOLERANCE = 1e-4


def arrays(tree):
    return [leaf.detach().numpy() for leaf in tree_flatten(tree)[0] if hasattr(leaf, "detach")]


def largest_error(first, second) -> float:
    pairs = zip(arrays(first), arrays(second), strict=True)
    return max(float(np.abs(a - b).max(initial=0)) for a, b in pairs)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in NETWORKS]
)
def test_one_file_serves_all_sizes(tmp_path, name):
    """One file: at three batch sizes and three lengths here, in onnxruntime, and loaded again."""
    module, args, shapes = made = network(name)
    path = tmp_path / f"{name}.onnx"
    model = torch.onnx.export(module, args, path, dynamic_shapes=shapes)
    onnx.checker.check_model(str(path), full_check=True)
    loaded = torch.onnx.load(str(path)).eval()
    for number in range(3):
        inputs = arguments_at(made, number)
        with torch.no_grad():
            expected = module(*inputs)
            assert largest_error(expected, model(*inputs)) <= TOLERANCE
            assert largest_error(expected, loaded(*inputs)) <= TOLERANCE


@pytest.mark.parametrize("name", PAIRS)
def test_control_flow_comes_in_and_leaves_again(name):
    """If, Loop and Scan become `torch.cond`, `while_loop` and `scan` of the loaded module."""
    module, rows = Function(PAIRS[name].rewritten), samples()
    shapes = ([{0: Dim("rows", min=1, max=16)}],)
    example = torch.randn(3, 4) + 0.3
    model = torch.onnx.export(module, (example,), dynamic_shapes=shapes)
    loaded = torch.onnx.load(model.model_proto)
    for x in rows:
        assert largest_error(module(x), loaded(x)) <= 1e-5
    again = torch.onnx.export(loaded, (example,))
    operators = [node.op_type for node in again.model_proto.graph.node]
    assert PAIRS[name].operator in operators
    assert largest_error(module(example), again(example)) <= 1e-5


def test_training_goes_on_where_it_stopped():
    """Two steps here, and one here and one in the loaded model, end at the same weights."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x, target = torch.randn(16, 4), torch.randn(16, 1)

    def step(model):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        ((model(x) - target) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    step(module)
    shapes = ({0: Dim("batch")},)
    loaded = torch.onnx.load(torch.onnx.export(module, (x,), dynamic_shapes=shapes).model_proto)
    assert set(loaded.state_dict()) == set(module.state_dict())
    step(module)
    step(loaded)
    for key, value in module.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[key], value, rtol=1e-6, atol=1e-7)
