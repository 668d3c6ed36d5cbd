"""A captured graph on a device: the host's numbers, the device's program, and how it is run.

    graph  →  host part, device part (device_split.py)  →  units  →  code (device_codegen.py)
           →  one CUDA graph (captured_step.py)

The host part is compiled like any graph of the CPU. The device's program is a function that
launches kernels; `CapturedStep` records it once, and replays it from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backends
from ..backends import Backend
from ..backends.kernel_registry import declarations, is_reference_only
from ..core.registry import REGISTRY
from ..fx import Graph, Node, map_arg, primitives
from ..fx.device_functions import function_on
from .captured_step import CapturedStep, GraphDriver, graph_driver
from .cuda_codegen import cuda_obstacle, write_fused
from .device_codegen import DeviceFunctions, DeviceProgramText, device_program_text
from .device_split import Split, device_of, split_by_device
from .fused_draws import can_draw_inside, draw_inside
from .fusion import fusion_obstacle, group_values
from .fusion_groups import Group
from .half_norms import narrow_norms
from .lowering import build_program
from .product_epilogues import fuse_epilogues
from .values import Value

__all__ = ["DeviceLowered", "DeviceProgram", "lower_on_device", "run_definitions"]

Run = Callable[[list[Any]], list[Any]]

FusedKernel = Callable[..., Any]
"""Launches the kernel of a group: takes its arrays and numbers, returns its results."""


class DeviceProgram:
    """The device's part of a graph as a function of arrays that launches kernels.

    Attributes:
        code: its Python code.
        draws_inside: whether random numbers are computed inside kernels (`fused_draws.py`).
        writes: by output, the input that it is written into.
        generators: what it draws random numbers from.
    """

    def __init__(
        self, graph: Graph, backend: Backend, fuse: bool = True, draws: bool = True
    ) -> None:
        self.graph, self.backend = graph, backend
        self.program = build_program(graph, on_device=True, kept=kept_ops(backend))
        has_cublas, has_cudnn = libraries_of(backend)
        if has_cublas:
            fuse_epilogues(self.program)
        if has_cudnn:
            narrow_norms(self.program)
        self.draws_inside = draws and fuse and bool(backend.kernels) and draw_inside(self.program)
        self.without: DeviceProgram | None = None
        self.units, self.reasons = group_values(
            self.program, fuse, cuda_obstacle if backend.kernels else fusion_obstacle
        )
        functions = DeviceFunctions(backend)
        self.text: DeviceProgramText = device_program_text(
            self.program, self.units, functions, self.kernel_of
        )
        self.code, self.writes = self.text.source, self.program.writes
        draws = (node for node in graph.nodes if node.target is primitives.draw)
        self.generators = list({id(node.args[0]): node.args[0] for node in draws}.values())
        exec(compile(self.code, "<edutorch.compile on a device>", "exec"), self.text.scope)
        self.launch: Run = self.text.scope["run"]

    def run(self, arrays: list[Any]) -> list[Any]:
        """Launch the kernels; return the outputs."""
        if self.draws_inside and not all(map(can_draw_inside, self.generators)):
            # A generator was set to a state of the old stream, which draws on the host.
            if self.without is None:
                self.without = DeviceProgram(self.graph, self.backend, draws=False)
            return self.without.run(arrays)
        return self.launch(arrays)

    def kernel_of(self, group: Group, results: list[Value]) -> FusedKernel | None:
        """Return the kernel of a group, or None where none can be written."""
        return write_fused(group, results) if self.backend.kernels else None


def libraries_of(backend: Backend) -> tuple[bool, bool]:
    """Return whether a device has cuBLASLt, and whether it has cuDNN."""
    if not backend.kernels:
        return False, False
    from ..kernels.gpu.cudnn import cudnn_for
    from ..kernels.gpu.matmul import bindings_for

    return bindings_for(backend) is not None, cudnn_for(backend) is not None


PRODUCTS = {"linear", "mm", "matmul"}
"""Ops that are decomposed all the same: small products of a loop become a large one."""


def kept_ops(backend: Backend) -> frozenset[str]:
    """Return the ops that are one call: what is not elementwise and has a kernel of its own."""
    if not backend.kernels:
        return frozenset()
    names = {key for key in declarations(backend.kernels) if key in REGISTRY} - PRODUCTS
    return frozenset(name for name in names if not REGISTRY[name].family.broadcasts)


class DeviceLowered:
    """A graph of a device as a function: `outputs = lowered(inputs)`, both lists of arrays.

    Attributes:
        code: the code of both parts.
        step: how the device's part is run: once launched, then captured, then replayed.
    """

    def __init__(self, graph: Graph, backend: Backend, driver: GraphDriver | None) -> None:
        from .pipeline import lower

        self.graph, self.backend = graph, backend
        self.split: Split = split_by_device(graph)
        self.count = len(graph.output_node().args[0])  # type: ignore[arg-type]
        has_host = bool(self.split.host_outputs or self.split.scalars)
        # Numbers and single elements: no kernel is worth it.
        self.host: Any = lower(self.split.host, fuse=False) if has_host else None
        self.device = DeviceProgram(self.split.device, backend)
        self.step = CapturedStep(self.device, backend, self.split.scalars, driver)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Compute the outputs."""
        split = self.split
        host: list[Any] = []
        if self.host is not None:
            host = self.host([inputs[number] for number in split.host_inputs])
        scalars = [float(value) for value in host[len(host) - split.scalars :]]
        device = self.step([inputs[number] for number in split.device_inputs], scalars)
        outputs: list[Any] = [None] * self.count
        for position, index in split.host_outputs.items():
            outputs[position] = host[index]
        for position, index in split.device_outputs.items():
            outputs[position] = device[index]
        return outputs

    def call_before_gradients(self, function: Callable[[], None]) -> None:
        """Register a function that each run calls before gradients are written."""
        self.step.before_gradients = function

    def hand_out_uncopied(self, positions: Sequence[int]) -> None:
        """Let some outputs be the program's own memory: gradients, which are replaced."""
        indices = self.split.device_outputs
        self.step.uncopied = {indices[place] for place in positions if place in indices}

    @property
    def code(self) -> str:
        """The code that runs."""
        host = "" if self.host is None else f"# the host's numbers\n\n{self.host.code}\n\n"
        return f"{host}# the device\n\n{self.device.code}"

    def explain(self) -> str:
        """Return what the program consists of, and how it runs."""
        kernels = len(self.device.text.kernels)
        lines = [
            f"on {self.backend.device_name}: {len(self.device.units)} steps, "
            f"{kernels} of them fused kernels; {self.split.scalars} numbers from the host",
            self.step.explain(),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<lowered on {self.backend.device_name}: {len(self.device.units)} steps>"


def lower_on_device(graph: Graph, replays: bool = True) -> Run:
    """Compile a graph that was captured on a device.

    Args:
        replays: whether to run it as one CUDA graph where the device has them.
    """
    name = device_of(graph)
    assert name is not None
    backend = backend_of_device(name)
    if is_reference_only():
        return run_definitions(graph)
    if backend.is_simulated:
        from .simulated_program import SimulatedLowered

        return SimulatedLowered(graph, backend)
    return DeviceLowered(graph, backend, graph_driver(backend) if replays else None)


def backend_of_device(name: str) -> Backend:
    """Return the backend of a device by the name that its arrays have: "cuda:0", "strict"."""
    from ..backends.device import Device

    return Device(name).backend


def run_definitions(graph: Graph) -> Run:
    """Return a function of arrays that runs a graph of a device by its definitions, one by one.

    It is the reference for programs of a device.
    """
    name = device_of(graph)
    device = backends.CPU if name is None else backend_of_device(name)
    inputs = [node for node in graph.nodes if node.op == "placeholder"]

    def run(arrays: list[Any]) -> list[Any]:
        values: dict[Node, Any] = dict(zip(inputs, arrays, strict=True))
        for node in graph.nodes:
            if node.op == "get_attr":
                values[node] = graph.constants[str(node.target)]
            elif node.op == "output":
                outputs: Any = node.args[0]
                return [values[argument] for argument in outputs]
            elif node.op == "call_function":
                values[node] = run_definition(node, values, device)
        return []

    return run


def run_definition(node: Node, values: dict[Node, Any], device: Backend) -> Any:
    """Run one node, on the device that its arrays are on."""
    args, kwargs = map_arg(node.args, values.__getitem__), map_arg(node.kwargs, values.__getitem__)
    sources = [input_ for input_ in node.all_input_nodes if "device" in input_.meta]
    positions = [node] if "device" in node.meta else sources
    on_device = any(str(place.meta["device"]) != "cpu" for place in positions)
    target: Any = node.target
    if hasattr(target, "rule"):
        return target.definition(*args, **kwargs)
    value = function_on(device if on_device else backends.CPU, target)(*args, **kwargs)
    return np.asarray(value) if isinstance(value, np.generic) else value
