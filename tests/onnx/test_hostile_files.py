"""Files that want more than to be a model: one error, nothing executed, nothing else read."""

from __future__ import annotations

import ast
import os
import random
from pathlib import Path

import numpy as np
import pytest

import edutorch as torch
from edutorch.errors import EdutorchError
from edutorch.onnx import ModelFileError, UnsupportedOpError

onnx = pytest.importorskip("onnx")

from tests.onnx.models import network, parse  # noqa: E402


@pytest.mark.parametrize("data", [b"", b"\x00" * 100, b"PK\x03\x04 a zip", b"\x80\x04pickle"])
def test_other_files(data: bytes):
    with pytest.raises(ModelFileError):
        torch.onnx.load(data)


def test_every_cut_is_refused():
    data = network().SerializeToString()
    for end in range(0, len(data) - 1, 7):
        with pytest.raises((ModelFileError, UnsupportedOpError)):
            torch.onnx.load(data[:end])


def test_changed_bytes_raise_one_error_or_load():
    """The model either loads, or is refused: no other error."""
    data, rng = network().SerializeToString(), random.Random(0)
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            torch.onnx.load(bytes(changed))
        except (ModelFileError, UnsupportedOpError):
            pass


def external_model(location: str, **entries: str):
    """Return a model whose only weight lies in another file."""
    model = parse("g (float[n] x) => (float[n] y) { y = Add(x, w) }")
    weight = model.graph.initializer.add()
    weight.name, weight.data_type, weight.data_location = "w", 1, 1
    weight.dims.append(4)
    for key, value in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=value)
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a model; a secret lies beside it."""
    (tmp_path / "secret").write_bytes(b"\x00" * 64)
    inside = tmp_path / "model"
    inside.mkdir()
    np.arange(4, dtype=np.float32).tofile(inside / "weights.bin")
    os.symlink(tmp_path / "secret", inside / "link")
    os.symlink(tmp_path, inside / "up")
    return inside


def load_in(folder: Path, model) -> torch.nn.Module:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return torch.onnx.load(path)


def test_external_data_beside_the_model(folder: Path):
    module = load_in(folder, external_model("weights.bin"))
    assert module(torch.zeros(4)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "location",
    ["../secret", "/etc/passwd", "link", "up/secret", "a/../../secret", "", ".", "no.bin",
     "weights.bin\0", "..\\secret", "/proc/self/environ"],
)  # fmt: skip
def test_external_data_elsewhere(folder: Path, location: str):
    with pytest.raises(ModelFileError):
        load_in(folder, external_model(location))


@pytest.mark.parametrize(
    "entries", [{"offset": "4"}, {"offset": "-1"}, {"length": "8"}, {"offset": "x"}]
)
def test_external_data_of_another_length(folder: Path, entries: dict[str, str]):
    with pytest.raises(ModelFileError):
        load_in(folder, external_model("weights.bin", **entries))


def test_external_data_without_a_folder():
    with pytest.raises(ModelFileError, match="came without a folder"):
        torch.onnx.load(external_model("weights.bin").SerializeToString())


EVIL = [
    'x\n    raise SystemExit("run")',
    'w"); raise SystemExit("run"); ("',
    "__class__", "forward", "class", "graph", "training", "None", "é\u2028raise SystemExit()", "'",
    "", "a.b.forward.__init__", "torch", "self",
]  # fmt: skip


@pytest.mark.parametrize("name", EVIL)
def test_names_are_not_code(name: str):
    """In nodes, values, weights, the graph and text attributes."""
    model = network()
    for node in model.graph.node:
        node.name = name
        node.input[:] = [f"{name}w" if text == "layers.0.weight" else text for text in node.input]
        node.input[:] = [f"{name}h" if text == "h" else text for text in node.input]
        node.output[:] = [f"{name}h" if text == "h" else text for text in node.output]
    model.graph.initializer[0].name = f"{name}w"
    model.graph.name = name or "g"
    module = torch.onnx.load(model)
    x = torch.ones(2, 4)
    torch.testing.assert_close(module(x), torch.onnx.load(network())(x))
    # Names may stand in comments; the statements are those of the network.
    statements = {type(line) for line in ast.parse(module.code).body[0].body}
    assert statements <= {ast.Assign, ast.Return}


def test_text_attributes_are_not_code():
    model = parse('g (float[n, 1] x) => (float[n, 1] y) { y = Gelu <approximate = "none"> (x) }')
    model.graph.node[0].attribute[0].s = b'"); raise SystemExit("run"); ("'
    with pytest.raises(EdutorchError):
        torch.onnx.load(model)(torch.ones(2, 1))


def function_model(count: int, own_name: bool) -> object:
    """Return a model whose functions call each other twice, or themselves."""
    calls = "".join(
        f"""<domain: "own", opset_import: ["" : 21, "own" : 1]>
        f{i} (a) => (b) {{ c = own.f{i if own_name else i + 1} (a)
                           b = own.f{i if own_name else i + 1} (c) }}
        """
        for i in range(count)
    )
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
        g (float[n] x) => (float[n] y) {{ y = own.f0 (x) }}
        {calls}<domain: "own", opset_import: ["" : 21]>
        f{count} (a) => (b) {{ b = Relu(a) }}
        """
    )


def test_functions_that_grow():
    with pytest.raises(ModelFileError, match="grow to more than"):
        torch.onnx.load(function_model(1, own_name=True))
    with pytest.raises(ModelFileError, match="grow to more than"):
        torch.onnx.load(function_model(40, own_name=False))


@pytest.mark.parametrize(
    "text",
    [
        "g (float[n] x) => (float[n] y) { y = Relu(z) }",
        "g (float[n] x) => (float[n] y) { z = Relu(y)  y = Relu(z) }",
        "g (float[n] x) => (float[n] y) { y = Relu(x, x, x) }",
        "g (float[n] x) => (float[n] y) { y, z = Relu(x) }",
        "g (float[n] x) => (float[n] y) { z = Relu(x) }",
        "g (float[n] x) => () { z = Relu(x) }",
        "g (bool c) => (float[n] y) { y = If(c) }",
        "g (float[n] x) => (float[n] y) { y = Concat(x, x) }",
    ],
)
def test_contradictions(text: str):
    model = parse(text)
    with pytest.raises((ModelFileError, UnsupportedOpError)):
        torch.onnx.load(model)


def test_sizes_that_do_not_fit_the_data():
    for dims in ([2**40, 2**30], [-1, 4], [3, 4]):
        model = network()
        model.graph.initializer[0].dims[:] = dims
        with pytest.raises(ModelFileError):
            torch.onnx.load(model)


def test_large_constants_are_not_made_when_loading():
    """The model says what to make; only running it makes it."""
    model = parse(
        """g (float[n] x) => (float[n] y) {
            shape = Constant <value = int64[2] {1000000, 1000000000}> ()
            z = ConstantOfShape(shape)
            r = ReduceSum(z)
            y = Add(x, r)
        }"""
    )
    assert "torch.zeros([1000000, 1000000000])" in torch.onnx.load(model).code
