"""Steps of a trace as PyTorch's operators, where these take other arguments than our ops."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

from ..core.registry import REGISTRY
from ..fx.node import Node

LOAD = ast.Load()
Values = dict[str, ast.expr]
Form = Callable[[Node, Values], ast.expr]


def named_values(name: str, args: list[ast.expr], named: Values) -> Values:
    """Return the arguments of a step by the names of the op's parameters, in their order.

    Positions in a graph are those of the op's tensors: of `masked_fill` input and value, while its
    mask, which has no gradient, is named.
    """
    op = REGISTRY[name]
    values = dict(zip(op.inputs, args, strict=False)) | named
    if len(args) > len(op.inputs):  # settings by position
        names = [key for key in inspect.signature(op.function).parameters if key not in op.inputs]
        values |= dict(zip(names, args[len(op.inputs) :], strict=False))
    parameters = inspect.signature(op.function).parameters
    return {key: values[key] for key in parameters if key in values}


def operator(name: str, args: list[ast.expr], **named: ast.expr) -> ast.Call:
    """Return `torch.name(args)`."""
    keywords = [ast.keyword(key, value) for key, value in named.items()]
    return ast.Call(ast.Attribute(ast.Name("torch", LOAD), name, LOAD), args, keywords)


def constants(values: Any) -> ast.List:
    return ast.List([ast.Constant(value) for value in values], LOAD)


def as_list(node: ast.expr) -> ast.expr:
    """Return a tuple of sizes as a list."""
    return ast.List(node.elts, LOAD) if isinstance(node, ast.Tuple) else node


def masked_fill(node: Node, values: Values) -> ast.expr:
    return operator("masked_fill", [values["input"], values["mask"], values["value"]])


def masked_scatter(node: Node, values: Values) -> ast.expr:
    return operator("masked_scatter", [values["input"], values["mask"], values["source"]])


def view(node: Node, values: Values) -> ast.expr:
    return operator("view", [values["input"], as_list(values["shape"])])


def expand(node: Node, values: Values) -> ast.expr:
    return operator("expand", [values["input"], as_list(values["size"])])


def hardswish(node: Node, values: Values) -> ast.expr:
    return operator("hardswish", [values["input"]])


def hardtanh(node: Node, values: Values) -> ast.expr:
    return operator("hardtanh", [values["input"], values["min_val"], values["max_val"]])


def layer_norm(node: Node, values: Values) -> ast.expr:
    """The normalized sizes are those of the value's last axes."""
    axes = values.get("axes")
    count = axes.value if isinstance(axes, ast.Constant) else 1
    sizes = constants(node.meta["shape"][-count:])
    none = ast.Constant(None)
    affine = [values.get("weight", none), values.get("bias", none)]
    return operator("layer_norm", [values["input"], sizes, *affine, values["eps"]])


def attention(node: Node, values: Values) -> ast.expr:
    tensors = [values[name] for name in ("query", "key", "value")]
    causal = values.get("is_causal", ast.Constant(False))
    settings = [ast.Constant(None), ast.Constant(0.0), causal]
    return operator("scaled_dot_product_attention", [*tensors, *settings], scale=values["scale"])


def embedding(node: Node, values: Values) -> ast.expr:
    return operator("embedding", [values["weight"], values["index"]])


def conv_transpose(node: Node, values: Values) -> ast.expr:
    """What our op is given as a size, PyTorch's is given as rows beyond the least size."""
    input, weight = node.args[:2]
    assert isinstance(input, Node) and isinstance(weight, Node)
    size, stride, pads, dilation = (
        ast.literal_eval(values[name]) for name in ("size", "stride", "pads", "dilation")
    )
    count, kernel = input.meta["shape"][2:], weight.meta["shape"][2:]
    least = [
        (n - 1) * s + d * (k - 1) + 1 - sum(pad)
        for n, s, d, k, pad in zip(count, stride, dilation, kernel, pads, strict=True)
    ]
    extra = [total - part for total, part in zip(size, least, strict=True)]
    settings = [constants(stride), constants([pad[0] for pad in pads]), constants(extra)]
    name = f"conv_transpose{len(kernel)}d"
    tensors = [values["input"], values["weight"], ast.Constant(None)]
    return operator(name, [*tensors, *settings, values["groups"], constants(dilation)])


TRACE_FORMS: dict[str, Form] = {
    "masked_fill": masked_fill, "view": view, "expand": expand, "hardswish_forward": hardswish,
    "hardtanh_forward": hardtanh, "masked_scatter": masked_scatter,
    "native_layer_norm": layer_norm, "attention_forward": attention, "embedding_rows": embedding,
    "conv_transpose_nd": conv_transpose,
}  # fmt: skip
"""By the name of our op."""
