"""Builds an ONNX graph: values, constants and sizes, with types where they are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import missing_extra
from ...export.translation import take_name
from ..dtypes import to_onnx

try:
    import onnx_ir as ir
except ImportError:
    ir = None  # type: ignore[assignment]

__all__ = ["Builder", "Value", "require_onnx"]

Value = Any
"""An `onnx_ir.Value`; the package may be absent."""


def require_onnx(purpose: str) -> None:
    """Raise MissingExtraError where onnx or onnx-ir is not installed."""
    if ir is None:
        raise missing_extra("onnx", purpose, "onnx-ir is not installed")


class Builder:
    """Adds nodes to one ONNX graph. A branch of `If` has a builder of its own, inside another.

    Args:
        opset: the version of the operators.
        parent: the builder of the graph around.
    """

    def __init__(self, opset: int, parent: Builder | None = None) -> None:
        self.opset, self.parent = opset, parent
        self.nodes: list[Any] = []
        self.initializers: list[Value] = []
        self.names: set[str] = set() if parent is None else parent.names
        self.constants: dict[Any, Value] = {}
        self.vectors: dict[int, Value] = {}  # by the id of a 0-d size: the same with one axis
        self.line: str | None = None  # where the node in translation comes from
        self.comes_from = ""  # the name of that node

    # Values -------------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """Return an unused name."""
        return take_name(name, self.names)

    def value(self, name: str, dtype: Any = None, shape: Sequence[Any] | None = None) -> Value:
        """Return a new value: an input, or the output of a node to come."""
        made = ir.Value(name=self.unique(name))
        if dtype is not None:
            made.type = ir.TensorType(data_type(dtype))
        if shape is not None:
            made.shape = ir.Shape(list(shape))
        return made

    def initializer(self, name: str, array: np.ndarray) -> Value:
        """Add an array that the file holds."""
        tensor = ir.Tensor(np.array(array, order="C"), dtype=data_type(array.dtype))
        made = self.value(name, array.dtype, array.shape)
        made.const_value = tensor
        self.initializers.append(made)
        return made

    def const(self, value: Any, dtype: Any = None) -> Value:
        """Return a constant; equal ones are one value."""
        array = np.asarray(value, dtype)
        key = array.dtype.str, array.dtype.name, array.shape, array.tobytes()
        root = self
        while root.parent is not None:  # constants belong to the outermost graph
            root = root.parent
        if key not in root.constants:
            root.constants[key] = root.initializer("constant", array)
        return root.constants[key]

    def op(self, op_type: str, *inputs: Value | None, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; return its output, or a tuple of several.

        An attribute that is None or empty is left out. An input that is None is an empty one.
        """
        operands = list(inputs)
        while operands and operands[-1] is None:
            operands.pop()
        name = self.unique(f"{self.comes_from or 'node'}_{op_type}")
        values = [ir.Value(name=self.unique(f"{name}_{i}" if i else name)) for i in range(outputs)]
        # An empty list, such as the order of no axes, has no type.
        named = {key: v for key, v in attributes.items() if v is not None and v != []}
        node = ir.node(op_type, operands, named, outputs=values, name=name)
        if self.line:
            node.metadata_props["line"] = self.line
        self.nodes.append(node)
        return values[0] if outputs == 1 else tuple(values)

    # Conversions --------------------------------------------------------------------------------

    def cast(self, value: Value, dtype: Any) -> Value:
        """Return a value in another dtype."""
        if value.dtype is not None and value.dtype == data_type(dtype):
            return value
        made = self.op("Cast", value, to=int(data_type(dtype)))
        made.type, made.shape = ir.TensorType(data_type(dtype)), value.shape
        return made

    def tensor(self, value: Any, dtype: Any) -> Value:
        """Return a value, or a number of Python, in this dtype."""
        if isinstance(value, ir.Value):
            return self.cast(value, dtype)
        return self.const(value, dtype)

    def vector(self, sizes: Sequence[Any]) -> Value:
        """Return sizes, numbers or 0-d values, as one axis of integers."""
        if not any(isinstance(size, ir.Value) for size in sizes):
            return self.const(np.array(list(sizes), np.int64))
        parts = [self.one_axis(size) for size in sizes]
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def one_axis(self, size: Any) -> Value:
        """Return a size as a tensor with one element and one axis."""
        if not isinstance(size, ir.Value):
            return self.const([int(size)], np.int64)
        if id(size) not in self.vectors:
            if self.parent is not None and id(size) in self.parent.vectors:
                return self.parent.vectors[id(size)]
            self.vectors[id(size)] = self.op("Reshape", size, self.const([1], np.int64))
        return self.vectors[id(size)]

    def shape(self, value: Value) -> Value:
        """Return the sizes of a value as one axis of integers."""
        return self.op("Shape", value)

    def size(self, value: Value, axis: int) -> Value:
        """Return one size of a value as a 0-d integer."""
        end = axis + 1 if axis != -1 else None
        vector = self.op("Shape", value, start=axis, end=end)
        size = self.squeeze(vector, 0)
        size.type = ir.TensorType(ir.DataType.INT64)
        size.shape = ir.Shape([])
        self.vectors[id(size)] = vector
        return size

    def reshape(self, value: Value, sizes: Sequence[Any]) -> Value:
        """Return a value in another shape; a single unknown size is left to ONNX."""
        dynamic = [i for i, size in enumerate(sizes) if isinstance(size, ir.Value)]
        if len(dynamic) == 1 and -1 not in sizes and 0 not in sizes:
            sizes = [-1 if i == dynamic[0] else size for i, size in enumerate(sizes)]
        zero = 1 if any(not isinstance(size, ir.Value) and size == 0 for size in sizes) else None
        return self.op("Reshape", value, self.vector(sizes), allowzero=zero)

    def unsqueeze(self, value: Value, *axes: int) -> Value:
        """Return a value with further axes of size 1."""
        made = self.op("Unsqueeze", value, self.const(list(axes), np.int64))
        if value.shape is not None and value.dtype is not None:
            shape = list(value.shape)
            for axis in sorted(axis % (len(shape) + len(axes)) for axis in axes):
                shape.insert(axis, 1)
            made.type, made.shape = value.type, ir.Shape(shape)
        return made

    def squeeze(self, value: Value, *axes: int) -> Value:
        """Return a value without some axes of size 1."""
        return self.op("Squeeze", value, self.const(list(axes), np.int64))

    def slice(self, value: Value, axis: int, start: Any, end: Any, step: int = 1) -> Value:
        """Return a range of an axis."""
        ends = self.one_axis(end) if isinstance(end, ir.Value) else self.const([end], np.int64)
        return self.op(
            "Slice", value, self.one_axis(start), ends, self.const([axis], np.int64),
            self.const([step], np.int64),
        )  # fmt: skip

    def like(self, value: Value, dtype: Any, shape: Sequence[Any] | None = None) -> Value:
        """Note the dtype and the shape of a value, and return it."""
        value.type = ir.TensorType(data_type(dtype))
        if shape is not None:
            value.shape = ir.Shape(list(shape))
        return value

    def graph(self, inputs: Sequence[Value], outputs: Sequence[Value], name: str) -> Any:
        """Return what was added as a graph."""
        opsets = {"": self.opset} if self.parent is None else None
        for node in self.nodes:
            for value in node.outputs:
                if value.type is None:  # a file has no shape without a dtype
                    value.shape = None
        return ir.Graph(
            inputs, outputs, nodes=self.nodes, initializers=self.initializers, name=name,
            opset_imports=opsets,
        )  # fmt: skip


def data_type(dtype: Any) -> Any:
    """Return the dtype of onnx_ir for a dtype of NumPy or of tensors."""
    own = dtype if isinstance(dtype, dtypes.dtype) else dtypes.of(np.dtype(dtype))
    return ir.DataType(int(to_onnx(own)))


def is_value(value: object) -> bool:
    """Return True for a value of an ONNX graph."""
    return isinstance(value, ir.Value)


def numpy_type(value: Value) -> np.dtype[Any]:
    """Return the NumPy dtype of a value."""
    return value.dtype.numpy()
