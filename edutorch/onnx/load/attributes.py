"""The attributes of nodes as Python values."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import unsupported
from .protos import AttributeProto, NodeProto
from .reader import import_onnx


def attribute_value(attribute: AttributeProto, node: NodeProto) -> Any:
    """Return an attribute as numbers, texts, or lists of these.

    Raises: UnsupportedOpError: graphs and types where none are expected.
    """
    types = import_onnx().AttributeProto
    stated = attribute.type
    if stated == types.INT:
        return attribute.i
    if stated == types.FLOAT:
        return shortest(attribute.f)
    if stated == types.STRING:
        return attribute.s.decode("utf-8", "replace")
    if stated == types.INTS:
        return list(attribute.ints)
    if stated == types.FLOATS:
        return [shortest(value) for value in attribute.floats]
    if stated == types.STRINGS:
        return [value.decode("utf-8", "replace") for value in attribute.strings]
    what = f"its attribute {attribute.name!r} has a type that cannot be brought in"
    raise unsupported(node.op_type, node.name, what)


def shortest(value: float) -> float:
    """Return the shortest decimal that is this float32: 0.1 instead of 0.10000000149011612."""
    return float(str(np.float32(value)))
