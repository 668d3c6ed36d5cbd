"""Programs of a simulated card: the CPU's, on the arrays behind the card's.

A simulated card is NumPy in disguise, so a graph that was captured on one is compiled as if it had
been captured on the CPU. A lesson written for a GPU is then as fast as it is on the CPU.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from ..backends.simulated import SimulatedArray, SimulatedBackend
from ..fx import Graph, primitives
from ..ops.random import Generator

__all__ = ["SimulatedLowered"]


class HostSource:
    """A generator of a card as one of the host: the same stream, in NumPy's arrays."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    @property
    def random(self) -> Any:
        """The CPU's generator behind the card's, also after a new seed or state."""
        return self._generator.random.on_host


def graph_of_cpu(graph: Graph, backend: SimulatedBackend) -> Graph:
    """Return a copy of a graph as if it had been captured on the CPU."""
    copied = copy.deepcopy(graph)
    constants = graph.constants.items()
    copied.constants = {name: backend.lower(value, numpy_too=True) for name, value in constants}
    for node in copied.nodes:
        node.meta = {key: value for key, value in node.meta.items() if key != "device"}
        if node.target is primitives.draw:
            generator: Any = node.args[0]
            if generator.device == backend.device_name:
                node.args = (HostSource(generator), *node.args[1:])
    return copied


class SimulatedLowered:
    """A graph of a simulated card as a function: `outputs = lowered(inputs)`, lists of arrays."""

    def __init__(self, graph: Graph, backend: SimulatedBackend) -> None:
        from .pipeline import lower

        self.backend = backend
        self.program: Any = lower(graph_of_cpu(graph, backend))
        outputs = graph.output_node().args[0]
        self.is_on_card = [str(node.meta.get("device", "cpu")) != "cpu" for node in outputs]  # type: ignore[union-attr]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Compute the outputs."""
        backend = self.backend
        plain = [x._values if x.__class__ is SimulatedArray else x for x in inputs]
        outputs = backend.execute(lambda: self.program(plain), plain)
        return [
            backend.lift(output, inputs) if on_card else output
            for output, on_card in zip(outputs, self.is_on_card, strict=True)
        ]

    def call_before_gradients(self, function: Callable[[], None]) -> None:
        """Register a function that each run calls before gradients are written."""
        self.program.call_before_gradients(function)

    @property
    def code(self) -> str:
        """The code that runs."""
        return self.program.code

    def explain(self) -> Any:
        """Return what the CPU's program consists of."""
        return self.program.explain()
