"""Small models in ONNX's format, for the tests."""

from __future__ import annotations

from typing import Any

import numpy as np


def parse(text: str, opset: int = 21) -> Any:
    """Return a model of a graph in ONNX's text form."""
    from onnx import parser

    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


WEIGHTS = {
    "w0": ("layers.0.weight", (8, 4)), "b0": ("layers.0.bias", (8,)),
    "w1": ("layers.1.weight", (2, 8)), "b1": ("layers.1.bias", (2,)),
}  # fmt: skip
"""The weights of `network`: short name → name in the file, shape."""


def network() -> Any:
    """Return a network of two layers, 4 to 8 to 2, with PyTorch's names of weights."""
    from onnx import numpy_helper

    rng = np.random.default_rng(0)
    model = parse(
        """net (float[batch, 4] x) => (float[batch, 2] y) {
            h = Gemm <transB = 1> (x, w0, b0)
            a = Relu (h)
            y = Gemm <transB = 1> (a, w1, b1)
        }"""
    )
    for node in model.graph.node:  # the text form has no dots in names
        node.input[:] = [WEIGHTS.get(name, (name,))[0] for name in node.input]
    for name, shape in WEIGHTS.values():
        array = rng.standard_normal(shape).astype(np.float32) / 2
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model
