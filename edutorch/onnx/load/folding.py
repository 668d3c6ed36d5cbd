"""Sizes that are computed from constants are constants: they are worked out when a model is loaded.

Exporters write `x.view(-1, 8)` as a dozen nodes that compute the shape. Only small constants that
are not trained take part, and only ops that cannot make them large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.tensor import Tensor
from ...errors import EdutorchError
from ...modes import no_grad
from .attributes import attribute_value
from .constants import Constant
from .protos import NodeProto
from .reader import import_onnx, read_tensor
from .table import parameters_of
from .values import torch

if TYPE_CHECKING:
    from .importer import GraphImporter
else:  # which imports this file
    GraphImporter = Any

LARGEST = 64
"""Constants with more elements are left as they are."""

FOLDED = frozenset({
    "Abs", "Add", "And", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Flatten",
    "Floor", "Gather", "Greater", "Identity", "Less", "Max", "Min", "Mod", "Mul", "Neg", "Not",
    "Or", "ReduceProd", "ReduceSum", "Reshape", "Slice", "Sqrt", "Squeeze", "Sub", "Transpose",
    "Unsqueeze", "Where",
})  # fmt: skip
"""Ops whose result is at most as large as what they get; the last one but for its argument."""


def fold(importer: GraphImporter, node: NodeProto, entry: Callable[..., Any]) -> bool:
    """Compute a node now, if all it needs is known; return whether it was."""
    if node.domain not in ("", "ai.onnx") or len(node.output) != 1 or not node.input:
        return False
    constants = [importer.values.get(name) for name in node.input]
    if node.op_type == "Shape" and isinstance(constants[0], Constant):
        bounds = {entry.name: entry.i for entry in node.attribute}
        sizes = constants[0].array.shape[bounds.get("start", 0) : bounds.get("end")]
        add_result(importer, node, np.array(sizes, np.int64))
        return True
    if node.op_type not in FOLDED or not all(map(is_small, constants)):
        return False
    if node.op_type == "ConstantOfShape" and math.prod(constants[0].array.tolist()) > LARGEST:
        return False
    parameters = parameters_of(entry)
    attributes = {
        attribute.name: folded_attribute(importer, node, attribute)
        for attribute in node.attribute if attribute.name in parameters.attributes
    }  # fmt: skip
    try:
        with no_grad():
            inputs = [torch.from_numpy(constant.array.copy()) for constant in constants]
            result = entry(*inputs, **attributes)
    # What fails now fails when the model runs, with its own error.
    except (EdutorchError, ValueError, TypeError, IndexError, ArithmeticError):
        return False
    if not isinstance(result, Tensor) or result.numel() > LARGEST:
        return False
    add_result(importer, node, result.numpy())
    return True


def is_small(value: object) -> bool:
    """Return True for a small constant that is not trained."""
    if not isinstance(value, Constant) or value.array.size > LARGEST:
        return False
    return value.array.dtype.kind in "iub" or not value.is_weight


def folded_attribute(importer: GraphImporter, node: NodeProto, attribute: Any) -> Any:
    """Return an attribute, a tensor as a tensor."""
    if attribute.type == import_onnx().AttributeProto.TENSOR:
        return torch.from_numpy(read_tensor(attribute.t, importer.program.folder))
    return attribute_value(attribute, node)


def add_result(importer: GraphImporter, node: NodeProto, array: np.ndarray) -> None:
    """Enter a result as a constant."""
    name = node.output[0]
    importer.values[name] = importer.constants.add_array(name, array, False)
