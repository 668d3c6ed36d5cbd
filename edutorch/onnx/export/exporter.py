"""`torch.onnx.export`: an exported program as an ONNX model.

    module → torch.export.export → each node by its entry in the table → onnx_ir → file

An op without an entry is taken apart: the module is exported again, with that op recorded by what
its definition calls.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import NotHereError
from ...export.dims import Dim
from ...export.exporting import export as export_program
from ...export.program import ExportedProgram
from ...export.samples import argument_names
from ...export.signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from ...export.translation import Unsupported, function_name, take_apart
from ...fx.graph_module import GraphModule
from ...fx.node import Node, map_aggregate
from ...nn import Module
from . import (
    composites,
    elementwise,
    matrices,
    movement,
    networks,
    ordering,
    polynomials,
    pooling,
    reductions,
)  # fmt: skip
from .builder import Builder, is_value, require_onnx
from .control import CONTROL, symbolic
from .model import ONNXProgram
from .table import TABLE
from .verification import verify_program

__all__ = ["export"]

OPSETS = range(18, 24)
IR_VERSION = 11
FAMILIES = (
    composites, elementwise, matrices, movement, networks, ordering, polynomials, pooling,
    reductions,
)  # fmt: skip
"""The modules whose import fills the table."""


class OnnxExportError(NotHereError):
    """An op without a translation: its name and its line are given."""


def export(
    model: Module | ExportedProgram, args: Any = (), f: str | os.PathLike[str] | None = None, *,
    kwargs: dict[str, Any] | None = None, verbose: bool | None = None,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    opset_version: int | None = None, dynamo: bool = True, external_data: bool = True,
    dynamic_shapes: Any = None, dynamic_axes: Any = None, verify: bool = False,
    optimize: bool = True, **settings: Any,
) -> ONNXProgram:  # fmt: skip
    """Return a module as an ONNX model, and write it to a file.

    Args:
        model: a module in its mode, or an exported program.
        args, kwargs: example arguments; a single tensor may stand alone.
        f: the path of the file, or None.
        input_names, output_names: names in place of those of the arguments.
        opset_version: 18 to 23; 23 if None.
        external_data: whether weights may be written beside a file that becomes too large.
        dynamic_shapes: as for `torch.export.export`.
        dynamic_axes: the older form: {"x": {0: "batch"}} or {"x": [0]}.
        verify: whether onnxruntime computes the same as the program.
        verbose, dynamo, optimize, settings: accepted.

    Raises:
        MissingExtraError: onnx-ir is not installed.
        OnnxExportError: an op has no translation; its line is named.
    """
    require_onnx("onnx.export")
    opset = 23 if opset_version is None else opset_version
    if opset not in OPSETS:
        raise ValueError(
            f"onnx.export: opset_version={opset}: models are written in opsets "
            f"{OPSETS[0]} to {OPSETS[-1]}"
        )
    arguments = (args,) if not isinstance(args, tuple | list) else tuple(args)
    program = as_program(model, arguments, kwargs, (dynamic_shapes, dynamic_axes, input_names))
    onnx_program = translate_program(program, opset, input_names, output_names)
    if verify:
        verify_program(onnx_program)
    if f is not None:
        onnx_program.save(f, external_data=external_data)
    return onnx_program


def as_program(
    model: Module | ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any] | None,
    dynamic: tuple[Any, Any, Any],
) -> ExportedProgram:  # fmt: skip
    """Return the program of a module."""
    if isinstance(model, ExportedProgram):
        return model
    dynamic_shapes, dynamic_axes, input_names = dynamic
    if dynamic_shapes is None and dynamic_axes:
        names = list(input_names or [])
        dynamic_shapes = shapes_of_axes(model, args, kwargs or {}, dynamic_axes, names)
    return export_program(model, args, kwargs, dynamic_shapes=dynamic_shapes)


def shapes_of_axes(
    model: Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_axes: Mapping[str, Any],
    input_names: Sequence[str],
) -> list[Any]:  # fmt: skip
    """Return `dynamic_axes` in the form of `dynamic_shapes`, by the arguments' order."""
    names = argument_names(model, args, kwargs)
    dims: dict[str, Dim] = {}
    shapes: list[Any] = []
    for position, name in enumerate(names):
        label_of = input_names[position] if position < len(input_names) else name
        axes = dynamic_axes.get(label_of, dynamic_axes.get(name))
        if axes is None:
            shapes.append(None)
            continue
        labelled = axes.items() if isinstance(axes, Mapping) else ((a, f"{name}_{a}") for a in axes)
        shapes.append({axis: dims.setdefault(label, Dim(label)) for axis, label in labelled})
    return shapes


# Translation --------------------------------------------------------------------------------------


def translate_program(
    program: ExportedProgram, opset: int, input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> ONNXProgram:  # fmt: skip
    """Return a program as a model; ops without an entry are taken apart, once."""
    return Translation(take_apart(program, TABLE), opset).run(program, input_names, output_names)


class Translation:
    """The translation of one program."""

    def __init__(self, program: ExportedProgram, opset: int) -> None:
        self.program, self.opset = program, opset
        self.builder = Builder(opset)
        self.by_node: dict[str, Any] = {}  # for `verify`: the value of each node

    def run(
        self, original: ExportedProgram, input_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
    ) -> ONNXProgram:  # fmt: skip
        """Translate the graph."""
        b, signature = self.builder, self.program.graph_signature
        values: dict[str, Any] = {}
        inputs: list[Any] = []
        nodes = {n.name: n for n in self.program.graph.nodes if n.op == "placeholder"}
        for spec in signature.input_specs:
            if isinstance(spec.arg, ConstantArgument):
                continue
            node = nodes[spec.arg.name]
            if spec.kind is InputKind.USER_INPUT:
                names = list(input_names or [])
                name = names[len(inputs)] if len(inputs) < len(names) else node.name
                shape = symbolic(node.meta["shape"])
                values[node.name] = b.value(name, node.meta["dtype"], shape)
                inputs.append(values[node.name])
            elif node.users:
                tensor = self.state(str(spec.target))
                values[node.name] = b.initializer(str(spec.target), tensor.detach().numpy())
        results = self.translate(b, self.program.graph_module, values)
        outputs = self.outputs(results, output_names)
        graph = b.graph(inputs, outputs, "program")
        return ONNXProgram.of(graph, IR_VERSION, original, self.by_node)

    def state(self, target: str) -> Any:
        """Return a parameter, buffer or constant."""
        state = self.program.state_dict
        return state[target] if target in state else self.program.constants[target]

    def outputs(self, results: Sequence[Any], output_names: Sequence[str] | None) -> list[Any]:
        """Return the outputs of the model: what the user gets, each with a name and a type."""
        b, outputs = self.builder, []
        names = list(output_names or [])
        specs = self.program.graph_signature.output_specs
        nodes = self.program.graph.output_node().args[0]
        for spec, value, node in zip(specs, results, nodes, strict=True):
            if spec.kind is not OutputKind.USER_OUTPUT or node is None:
                continue
            if hasattr(value, "whole"):  # all states of an LSTM
                value = value.whole(b)
            output = b.op("Identity", value if is_value(value) else b.const(value))
            if isinstance(node, Node) and "shape" in node.meta:
                b.like(output, node.meta["dtype"], symbolic(node.meta["shape"]))
            fallback = spec.arg.name if isinstance(spec.arg, TensorArgument) else "value"
            wanted = names[len(outputs)] if len(outputs) < len(names) else fallback
            output.name = b.unique(wanted or "value")
            outputs.append(output)
        return outputs

    def translate(self, b: Builder, module: GraphModule, values: Mapping[str, Any]) -> list[Any]:
        """Translate a graph into a builder, and return its results.

        Args:
            values: the values of its inputs, by name.
        """
        known: dict[Node, Any] = {}
        for node in module.graph.nodes:
            if node.op == "placeholder":
                known[node] = values.get(node.name)
            elif node.op == "get_attr":
                known[node] = getattr(module, str(node.target))
            elif node.op == "output":
                return list(map_aggregate(node.args[0], lambda leaf: known.get(leaf, leaf)))
            else:
                known[node] = self.translate_node(b, node, known)
        return []

    def translate_node(self, b: Builder, node: Node, known: Mapping[Node, Any]) -> Any:
        """Translate one node."""

        name = function_name(node.target)

        def lookup(leaf: Any) -> Any:
            value = known[leaf] if isinstance(leaf, Node) else leaf
            picks = name in ("op:getitem", "python:getitem")
            return value.whole(b) if hasattr(value, "whole") and not picks else value

        args = map_aggregate(node.args, lookup)
        kwargs = map_aggregate(dict(node.kwargs), lookup)
        self.refuse_complex(node)
        if name == "python:getitem":
            return typed(b, args[0][args[1]], node)
        b.line, b.comes_from = node.meta.get("line"), node.name
        if name in CONTROL:
            return CONTROL[name](b, self.translate, *args, **kwargs)
        translation = TABLE.get(name)
        if translation is None:
            raise self.refused(node, f"{name.partition(':')[2]} has no translation")
        try:
            value = translation(b, node, *args, **kwargs)
        except Unsupported as error:
            raise self.refused(node, f"{name.partition(':')[2]}: {error}") from None
        if is_value(value) and "shape" in node.meta and b.parent is None:
            self.by_node[node.name] = value
        return typed(b, value, node)

    def refuse_complex(self, node: Node) -> None:
        """Raise OnnxExportError for a complex value, with which no op of ONNX computes."""
        leaves = (node, *node.all_input_nodes)
        if any(np.dtype(leaf.meta.get("dtype", bool)).kind == "c" for leaf in leaves):
            name = function_name(node.target).partition(":")[2]
            raise self.refused(node, f"{name} of complex numbers has no translation")

    def refused(self, node: Node, message: str) -> OnnxExportError:
        line = node.meta.get("line") or "?"
        return OnnxExportError(
            "onnx.export", f"{line}: {message} to ONNX",
            hint="edutorch.export keeps such a program; ONNX lacks it",
        )  # fmt: skip


def typed(b: Builder, value: Any, node: Node) -> Any:
    """Note the dtype and the shape of a node's value, and return it."""
    if is_value(value) and "shape" in node.meta:
        b.like(value, node.meta["dtype"], symbolic(node.meta["shape"]))
    return value
