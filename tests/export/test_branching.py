"""Programs that branch on data: refused as Python, kept with `cond`, `while_loop` and `scan`."""

from __future__ import annotations

import io

import numpy as np
import pytest

import edutorch as torch
from edutorch.export import Dim, ExportError, export, load, save
from tests.export.branching import PAIRS, Function, samples

SHAPES = ([{0: Dim("rows", min=1, max=16)}],)


@pytest.mark.parametrize("name", PAIRS)
def test_python_that_reads_data_is_refused_with_its_line(name):
    with pytest.raises(ExportError, match=r"branching\.py:\d+: ") as caught:
        export(Function(PAIRS[name].plain), (torch.randn(3, 4) + 0.3,), dynamic_shapes=SHAPES)
    assert "torch.scan" in str(caught.value)


@pytest.mark.parametrize("name", PAIRS)
def test_rewritten_it_is_a_program_and_a_model(name):
    plain, rewritten, operator = PAIRS[name]
    first, second = Function(plain), Function(rewritten)
    second.load_state_dict(first.state_dict())
    example = torch.randn(3, 4) + 0.3
    program, buffer = export(second, (example,), dynamic_shapes=SHAPES), io.BytesIO()
    save(program, buffer)
    buffer.seek(0)
    running = load(buffer).module()
    for x in samples():
        expected = first(x).detach().numpy()
        np.testing.assert_allclose(second(x).detach().numpy(), expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(running(x).detach().numpy(), second(x).detach().numpy())
    pytest.importorskip("onnxruntime")
    model = torch.onnx.export(program, (example,))
    assert operator in [node.op_type for node in model.model_proto.graph.node]
    for x in samples():
        expected, actual = second(x).detach().numpy(), model(x).detach().numpy()
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


OTHER_WAYS = {
    "int": lambda _, x: torch.zeros(int(x.sum())),
    "mask": lambda _, x: x[x > 0],
    "nonzero": lambda _, x: x.nonzero(),
    "tolist": lambda _, x: torch.tensor(x.tolist()),
    "max": lambda _, x: max(x[0, 0], x[0, 1]),
    "size": lambda _, x: sum(x[i] for i in range(x.shape[0])),
}


@pytest.mark.parametrize("name", OTHER_WAYS)
def test_other_ways_to_read_data(name):
    with pytest.raises(ExportError, match=r"test_branching\.py:\d+: "):
        export(Function(OTHER_WAYS[name]), (2 * torch.ones(3, 4),), dynamic_shapes=SHAPES)
