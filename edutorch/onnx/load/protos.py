"""The messages of ONNX's format, as names for annotations: the package is imported when used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        TensorProto,
        TypeProto,
        ValueInfoProto,
    )
else:
    AttributeProto = FunctionProto = GraphProto = ModelProto = Any
    NodeProto = TensorProto = TypeProto = ValueInfoProto = Any

__all__ = [
    "AttributeProto", "FunctionProto", "GraphProto", "ModelProto", "NodeProto", "TensorProto",
    "TypeProto", "ValueInfoProto",
]  # fmt: skip
