"""The result of an export: an ONNX model that can be saved, run and compared."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.tensor import Tensor, wrap
from ...errors import missing_extra
from ...export.program import ExportedProgram, flatten_call
from ...fx.node import Node
from ...utils._pytree import tree_flatten, tree_unflatten
from .builder import ir

__all__ = ["ONNXProgram"]

LARGEST_FILE = 2**31 - 2**20
"""In bytes: protobuf reads no more than 2 GB from one file."""


class ONNXProgram:
    """An ONNX model, and the program that it was made from.

    Args:
        model: the model, of onnx_ir.
        exported_program: the program.
        by_node: the value of each node of the program, by the node's name.
    """

    def __init__(
        self, model: Any, exported_program: ExportedProgram, by_node: Mapping[str, Any]
    ) -> None:
        self.model, self.exported_program, self.by_node = model, exported_program, by_node
        self._session: Any = None

    @classmethod
    def of(
        cls, graph: Any, ir_version: int, program: ExportedProgram, by_node: Mapping[str, Any]
    ) -> ONNXProgram:
        """Return the program with a graph as its model."""
        used = {id(value) for node in ir.traversal.RecursiveGraphIterator(graph)
                for value in node.inputs}  # fmt: skip
        used |= {id(value) for value in graph.outputs}
        for name, value in list(graph.initializers.items()):
            if id(value) not in used:
                del graph.initializers[name]
        remove_unused(graph)
        return cls(
            ir.Model(graph, ir_version=ir_version, producer_name="edutorch"), program, by_node
        )

    @property
    def model_proto(self) -> Any:
        """The model as a protobuf message of the package onnx."""
        return ir.serde.serialize_model(self.model)

    def save(
        self, destination: str | os.PathLike[str], *, include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False, external_data: bool | None = None,
    ) -> None:  # fmt: skip
        """Write the model to a file.

        Args:
            destination: the path.
            include_initializers, keep_initializers_as_inputs: accepted.
            external_data: whether the weights may be written to a file beside it, which is done
                from 2 GB on; True also writes smaller ones there where the name ends in ".data".
        """
        size = sum(value.const_value.nbytes for value in self.model.graph.initializers.values())
        beside = None
        if size > LARGEST_FILE:
            if external_data is False:
                raise ValueError(
                    f"onnx.export: the weights have {size:,} bytes, and one file holds "
                    f"{LARGEST_FILE:,}; external_data=True writes them beside it"
                )
            beside = f"{os.path.basename(destination)}.data"
        ir.save(self.model, destination, external_data=beside)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model with onnxruntime, and return what the module returns.

        Raises: MissingExtraError: onnxruntime is not installed.
        """
        spec = self.exported_program.call_spec
        leaves = flatten_call(spec, args, kwargs)
        tensors = [leaf.detach().numpy() for leaf in leaves if isinstance(leaf, Tensor)]
        names = [value.name for value in self.model.graph.inputs]
        session = self.session()
        wanted = {value.name for value in session.get_inputs()}
        feeds = {n: array for n, array in zip(names, tensors, strict=True) if n in wanted}
        results = iter(session.run(None, feeds))
        returned = []
        for node in self.output_nodes():
            if not isinstance(node, Node):
                returned.append(node)
                continue
            array = np.asarray(next(results))
            returned.append(array.item() if node.meta.get("number") else wrap(array))
        return tree_unflatten(returned, spec.out_spec)

    def output_nodes(self) -> list[Any]:
        """Return what the program returns: nodes, and values of Python."""
        program = self.exported_program
        nodes = program.graph.output_node().args[0]
        count = len(program.graph_signature.user_outputs)
        return list(nodes[len(nodes) - count :])

    def session(self) -> Any:
        """Return an onnxruntime session of the model."""
        if self._session is None:
            self._session = make_session(self.model_proto)
        return self._session


def make_session(proto: Any) -> Any:
    """Return an onnxruntime session.

    Raises: MissingExtraError: onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        raise missing_extra("onnx", "onnx", "onnxruntime is not installed") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def remove_unused(graph: Any) -> None:
    """Remove nodes whose outputs nothing reads."""
    outputs = {id(value) for value in graph.outputs}
    for node in reversed(list(graph)):
        read = any(value.uses() or id(value) in outputs for value in node.outputs)
        if not read:
            graph.remove(node, safe=True)


def flat_arrays(values: Sequence[Any] | Any) -> list[np.ndarray]:
    """Return the arrays of the tensors in a tree."""
    return [leaf.detach().numpy() for leaf in tree_flatten(values)[0] if isinstance(leaf, Tensor)]
