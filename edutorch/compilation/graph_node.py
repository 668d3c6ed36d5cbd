"""The autograd node of a compiled function: one node for the whole call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.function_node import output_node
from ..core.autograd.graph import Node, edge_of, second_backward, stale_value
from ..core.autograd.multi_output import Description
from ..core.autograd.versions import clock
from ..core.fast.lazy_gradients import OutputGradients
from ..core.tensor import Tensor
from ..errors import GradientError

__all__ = ["CompiledNode", "attach_node"]


class CompiledNode(Node):
    """A call of a compiled function, whose gradients are a compiled graph, too."""

    __slots__ = ("gathers", "op", "output_types", "place", "positions", "run", "tensors", "title")

    holds = True
    run: Callable[[list[Any]], list[Any]]
    positions: list[int | None]  # for each edge the index of its gradient
    output_types: list[tuple[Any, Any]]  # shape and dtype of each output
    tensors: list[tuple[Any, Any]]  # saved inputs, and their versions
    place: int
    title: str

    def name(self) -> str:
        """Return the node's name."""
        return "CompiledFunctionBackward"

    def backward(self, g: Any, edges: tuple[Any, ...], recording: bool) -> Sequence[Any]:
        """Run the compiled gradients.

        Raises: GradientError: with `create_graph=True`, or in a second backward pass.
        """
        if recording:
            raise GradientError(
                "backward",
                "torch.compile with aot_autograd does not currently support double backward: "
                "the gradients of a compiled function cannot be recorded",
                hint="leave out create_graph=True, or call the function that is not compiled",
            )
        if self.saved is None:
            raise second_backward(self)
        for tensor, count in self.tensors:
            if tensor._version != count:
                raise stale_value(self, "a tensor", tensor._writes)
        by_output = g.by_output if g.__class__ is OutputGradients else {self.place: g}
        starts = [by_output.get(i) for i in range(len(self.output_types))]
        for index, (shape, dtype) in enumerate(self.output_types):
            if starts[index] is None:
                starts[index] = np.zeros(shape, dtype)
        gradients = self.run([*self.saved, *starts])
        seen_ids = {id(start) for start in starts}
        for index, gradient in enumerate(gradients):
            if id(gradient) in seen_ids:  # gradients accumulate in place
                gradients[index] = gradient.copy()
            seen_ids.add(id(gradient))
        return [
            None if index is None or edge is None else gradients[index]
            for index, edge in zip(self.positions, edges, strict=True)
        ]

    def maker(self, index: int, array: Any) -> Node:
        """Return a new node for an output whose own was freed with its tensor."""
        return output_node(self, index, array)  # type: ignore[arg-type]


def attach_node(
    title: str, run: Callable[[list[Any]], list[Any]], saved: list[Any] | None,
    inputs: Sequence[Tensor], positions: list[int | None], outputs: Sequence[Tensor],
    tensors: Sequence[Tensor],
) -> None:  # fmt: skip
    """Make one node the `grad_fn` of all `outputs`.

    Args:
        positions: for each of `inputs`, the index of its gradient.
    """
    node = CompiledNode()
    node.title, node.run, node.saved, node.positions = title, run, saved, positions  # type: ignore[assignment]
    node.edges = tuple(edge_of(input_) for input_ in inputs)
    node.output_types = [(output._array.shape, output._array.dtype) for output in outputs]
    node.tensors = [(tensor, tensor._version) for tensor in tensors]
    node.place, node.gathers = 0, len(outputs) > 1
    node.shape, node.dtype = node.output_types[0]
    node.hooks = node.writes = None
    node._order = clock()
    node.op = Description(f"compiled {title}", tuple(f"input{i}" for i in range(len(inputs))))  # type: ignore[assignment]
    for index, output in enumerate(outputs):
        output._node = output_node(node, index, output._array)  # type: ignore[arg-type]
        if output._writes is not None:
            output._node.writes = output._writes
