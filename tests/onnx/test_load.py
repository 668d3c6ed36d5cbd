"""Models come in as programs: to read, to call, to train."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import edutorch as torch
from edutorch.errors import ArgumentError, DTypeError, ShapeError
from edutorch.onnx import UnsupportedOpError

pytest.importorskip("onnx")

from tests.onnx.models import network, parse


def test_code_is_a_program():
    module = torch.onnx.load(network())
    lines = [line for line in module.code.splitlines() if "#" not in line]
    assert lines[0] == "def forward(self, x):"
    assert any("torch.nn.functional.linear(x, layers_0_weight, layers_0_bias)" in s for s in lines)
    assert any("a = torch.relu(h)" in line for line in lines)
    assert list(module.state_dict()) == [
        "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"
    ]  # fmt: skip


@pytest.mark.parametrize("batch", [1, 3, 7])
def test_same_as_a_module_with_these_weights(batch: int):
    module = torch.onnx.load(network())
    twin = torch.nn.ModuleDict({
        "layers": torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    })  # fmt: skip
    twin.load_state_dict(module.state_dict())
    x = torch.randn(batch, 4)
    first, second = twin["layers"]
    torch.testing.assert_close(module(x), second(torch.relu(first(x))))


def test_training_goes_on():
    module = torch.onnx.load(network())
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    x = torch.randn(32, 4)
    target, losses = x[:, :2] * 2 + 1, []
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((module(x) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0] / 4


def test_copies_compute_the_same(tmp_path):
    module = torch.onnx.load(network())
    x = torch.randn(3, 4)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(x), module(x)) and twin.input_names == ["x"]
    path = tmp_path / "net.onnx"
    path.write_bytes(network().SerializeToString())
    assert torch.equal(torch.onnx.load(str(path))(x), module(x))


def test_the_picture_of_a_loaded_model():
    """Without inputs its graph is drawn, with the names of its sizes; with them, its values."""
    viz = pytest.importorskip("edutorch.viz")
    module = torch.onnx.load(network())
    rows = viz.draw(module).table().splitlines()
    cells = {row.split()[1]: row for row in rows[1:]}
    assert set(cells) == {"x", "h", "a", "y", *module.state_dict()}
    assert "batch×8 float32" in cells["a"] and "8×4 float32" in cells["layers.0.weight"]
    assert "batch×4 float32" in viz.draw(module).svg
    called = viz.draw(module, torch.randn(3, 4)).svg
    assert "3×8 float32" in called and "relu" in called


def test_the_live_picture_of_a_loaded_model(tmp_path):
    pytest.importorskip("anywidget")
    from edutorch import viz

    module = torch.onnx.load(network())
    with viz.live(module) as view:
        for _ in range(3):
            module(torch.randn(2, 4)).sum().backward()
    view.export(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "relu" in page and "[2,8]" in page.replace(" ", "")


SIDES = "model = float32[batch, 4]"


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"x": torch.zeros(2, 5)}, ShapeError, "axis 1 of input 'x' is 5, not 4"),
        ({"x": torch.zeros(4)}, ShapeError, "has 1 dimensions, not 2"),
        ({"x": torch.zeros(2, 4, dtype=torch.int64)}, DTypeError, "has another dtype"),
        ({"y": torch.zeros(2, 4)}, ArgumentError, "'y' is no input of the model"),
        ({"x": [1.0]}, ArgumentError, "must be a tensor, got a list"),
        ({}, ArgumentError, "input 'x' is missing"),
    ],
)
def test_wrong_inputs_name_both_sides(inputs, error, message):
    with pytest.raises(error) as raised:
        torch.onnx.load(network())(**inputs)
    assert message in str(raised.value) and "float32[batch, 4]" in str(raised.value)


def test_named_sizes_must_agree():
    model = parse("g (float[n] a, float[n] b) => (float[n] c) { c = Add(a, b) }")
    with pytest.raises(ShapeError, match="axis 0 of 'a' is 2"):
        torch.onnx.load(model)(torch.zeros(2), torch.zeros(3))


def test_unknown_ops_name_the_nearest():
    model = parse("g (float[n] a) => (float[n] c) { c = Sigmoit(a) }")
    model.graph.node[0].name = "act1"
    with pytest.raises(UnsupportedOpError, match=r"(?s)Sigmoit \(node 'act1'\).*Sigmoid"):
        torch.onnx.load(model)


@pytest.mark.parametrize("opset", [6, 29])
def test_unknown_opsets_name_the_highest(opset: int):
    with pytest.raises(UnsupportedOpError, match="opsets 7 to 28"):
        torch.onnx.load(parse("g (float[n] a) => (float[n] c) { c = Relu(a) }", opset))


def test_if_and_loop_are_modules():
    model = parse(
        """g (bool c, float[n] x, int64 times) => (float[n] y, float[m, n] rows) {
            y = If (c) <
                then_branch = yes () => (float[n] a) { a = Mul(x, x) },
                else_branch = no () => (float[n] b) { b = Neg(x) }
            >
            last, rows = Loop (times, , x) <
                body = step (int64 i, bool on, float[n] h) => (bool going, float[n] k, float[n] r)
                { going = Identity(on)  k = Add(h, x)  r = Identity(k) }
            >
        }"""
    )
    module = torch.onnx.load(model)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for condition, expected in ((True, [1.0, 4.0]), (False, [-1.0, -2.0])):
        y, rows = module(torch.tensor(condition), x, torch.tensor(3))
        assert y.tolist() == expected
        assert rows.tolist() == [[2.0, 4.0], [3.0, 6.0], [4.0, 8.0]]
    rows.sum().backward()
    assert x.grad.tolist() == [9.0, 9.0]
    assert "torch.mul(x, x)" in dict(module.named_modules())["y_then_branch"].code


def test_shape_arithmetic_becomes_numbers():
    model = parse(
        """g (float[n, 2, 3] x) => (float[n, 6] y) {
            a = Constant <value = int64[1] {-1}> ()
            two = Constant <value = int64[1] {2}> ()
            three = Constant <value = int64[1] {3}> ()
            six = Mul(two, three)
            shape = Concat <axis = 0> (a, six)
            y = Reshape(x, shape)
        }"""
    )
    assert "torch.reshape(x, [-1, 6])" in torch.onnx.load(model).code


def test_functions_of_the_model_are_expanded():
    from onnx import parser

    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
        g (float[n] x) => (float[n] y) { y = own.twice <times = 3.0> (x) }
        <domain: "own", opset_import: ["" : 21]>
        twice <times> (a) => (b) { c = Constant <value_float: float = @times> () b = Mul(a, c) }
        """
    )
    assert torch.onnx.load(model)(torch.tensor([2.0])).tolist() == [6.0]


def test_unsigned_division_is_exact():
    """uint64 is for storage only: it is computed in int64."""
    model = parse("g (uint64[n] a, uint64[n] b) => (uint64[n] q, uint64[n] r) "
                  "{ q = Div(a, b)  r = Mod(a, b) }")  # fmt: skip
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2**64, 500, dtype=np.uint64)
    b = rng.integers(1, 2**64, 500, dtype=np.uint64) >> rng.integers(0, 64, 500).astype(np.uint64)
    b = np.maximum(b, 1).astype(np.uint64)
    quotient, rest = torch.onnx.load(model)(torch.from_numpy(a), torch.from_numpy(b))
    assert np.array_equal(quotient.numpy(), a // b) and np.array_equal(rest.numpy(), a % b)
