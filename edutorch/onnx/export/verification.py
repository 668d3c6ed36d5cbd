"""Compares an ONNX model in onnxruntime with the program, and finds the first node that differs."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ...errors import EdutorchError
from ...export.program import ExportedProgram
from ...export.samples import run_at
from ...fx.interpreter import Interpreter
from ...fx.node import Node
from ...utils._pytree import tree_flatten
from .model import ONNXProgram, flat_arrays, make_session

__all__ = ["VerificationError", "verify_program"]

RELATIVE, ABSOLUTE = 1e-3, 1e-4
"""The largest difference, and that of numbers near 0."""


class VerificationError(EdutorchError, RuntimeError):
    """A model computes something else than the program it was made from."""


def verify_program(onnx_program: ONNXProgram) -> None:
    """Compare the model with the program, at the example's inputs.

    Raises: VerificationError: they differ; the first node where they do is named.
    """
    program = onnx_program.exported_program
    if program.example_inputs is None:
        return
    args, kwargs = program.example_inputs
    leaves = tree_flatten((args, kwargs))[0]
    expected = flat_arrays(run_at(program.module(), leaves, program.call_spec.in_spec))
    computed = flat_arrays(onnx_program(*args, **kwargs))
    errors = [difference(a, b) for a, b in zip(expected, computed, strict=True)]
    if all(error is None for error in errors):
        return
    node = first_difference(onnx_program, program)
    text = next(error for error in errors if error is not None)
    where = f"; the first node that differs is {node.name}, {node.meta.get('line')}" if node else ""
    raise VerificationError("onnx.export", f"onnxruntime computes something else: {text}{where}")


def difference(expected: np.ndarray, computed: np.ndarray) -> str | None:
    """Return how two arrays differ, or None if they are close."""
    if expected.shape != computed.shape:
        return f"shape {computed.shape} for {expected.shape}"
    if expected.dtype.kind not in "fc":
        same = np.array_equal(expected, computed)
        return None if same else "other integers or bools"
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    close = np.allclose(computed, expected, RELATIVE, ABSOLUTE * max(scale, 1), equal_nan=True)
    return None if close else f"off by {np.abs(computed - expected).max():.2g}"


def first_difference(onnx_program: ONNXProgram, program: ExportedProgram) -> Node | None:
    """Return the first node whose value differs, or None if none is found."""
    values = all_values(onnx_program)
    for node, array in program_values(program):
        if node.name in values and difference(array, values[node.name]) is not None:
            return node
    return None


def all_values(onnx_program: ONNXProgram) -> dict[str, np.ndarray]:
    """Return the value of each node of the program as onnxruntime computes it."""
    import onnx

    proto = copy.deepcopy(onnx_program.model_proto)
    produced = {name for node in proto.graph.node for name in node.output}
    names = {n: v.name for n, v in onnx_program.by_node.items() if v.name in produced}
    known = {value.name for value in proto.graph.output}
    for name in set(names.values()) - known:
        proto.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    session = make_session(proto)
    args, kwargs = onnx_program.exported_program.example_inputs or ((), {})
    arrays = flat_arrays((args, kwargs))
    inputs = [value.name for value in onnx_program.model.graph.inputs]
    results = session.run(list(names.values()), dict(zip(inputs, arrays, strict=True)))
    return dict(zip(names, results, strict=True))


def program_values(program: ExportedProgram) -> list[tuple[Node, np.ndarray]]:
    """Return each node of a program with the value that it has for the example's inputs."""
    recorded: list[tuple[Node, np.ndarray]] = []

    class Recorder(Interpreter):
        """Runs a graph, and keeps what each node computes."""

        def run_node(self, n: Node) -> Any:
            value = super().run_node(n)
            if n.op == "call_function" and hasattr(value, "detach"):
                recorded.append((n, value.detach().numpy()))
            return value

    module = program.module()
    tensors = [t for t in tree_flatten(program.example_inputs)[0] if hasattr(t, "detach")]
    Recorder(module).run(*tensors)
    return recorded
