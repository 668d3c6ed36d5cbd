"""The state of one capture: the graph so far, the memory of traced arrays, and failures.

Each node knows where it comes from: the user's line, the module, and the phase.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from .. import backends
from ..backends import Backend
from ..backends.numpy import Array, as_plain_array
from ..core.autograd.engine import Engine
from ..core.op import Op
from ..core.registry import REGISTRY
from ..core.tensor import Tensor
from ..optim.optimizer import Optimizer
from . import primitives, traced_array, traced_backend, traced_namespace
from .graph import Graph, array_meta
from .node import Argument, Node, map_aggregate
from .traced_array import (
    TracedArray,
    TracedMemory,
    TracedNumber,
    covers_whole,
    is_device_array,
    may_share_memory,
    memory_layout,
    memory_owner,
    same_view,
    to_held,
)
from .traced_backend import TracedBackend

__all__ = ["DEFAULT_OPTIONS", "CaptureOptions", "Tracer"]


@dataclass(frozen=True)
class CaptureOptions:
    """What a capture records beyond the usual.

    Args:
        keeps_creations: `zeros`, `arange` and others become nodes; otherwise, constants.
        keeps_branches: `cond`, `while_loop` and `scan` become nodes; otherwise they run.
        expands: whether an op is recorded by what its definition calls, not as one node. Where
            this is asked, derivative rules are, too.
    """

    keeps_creations: bool = False
    keeps_branches: bool = False
    expands: Callable[[Op], bool] | None = None


DEFAULT_OPTIONS = CaptureOptions()


class Tracer:
    """Records one capture: the graph, the memory of arrays, and the reasons why it failed."""

    def __init__(self, options: CaptureOptions = DEFAULT_OPTIONS) -> None:
        self.options = options
        self.graph = Graph()
        self.backend = TracedBackend(self, backends.CPU)
        self.backends: dict[Backend, TracedBackend] = {backends.CPU: self.backend}  # by device
        self.thread = threading.get_ident()
        self.done = False
        self.reasons: list[tuple[str, str]] = []  # (what happened, at which line)
        # Two views of one array from outside share it.
        self.memories: dict[Any, TracedMemory] = {}  # by `memory_owner`
        self.keep_alive: list[Any] = []  # so that no id is reused
        self.module_names: dict[int, str] = {}
        self.inputs: list[tuple[Node, TracedArray | None]] = []
        self.original_values: dict[int, tuple[Any, Any]] = {}  # copies of arrays from outside
        self.last_input: Node | None = None
        self.last_constant: Node | None = None
        self.forward_depth = 0  # nesting of op forwards, which run on the held arrays
        self.draw_count = 0  # draws from random generators inside op forwards

    def backend_of(self, array: Array) -> TracedBackend:
        """Return the backend of this capture for the device of an array."""
        if isinstance(array, np.ndarray | np.generic):
            return self.backend
        if not is_device_array(array):  # of a level of `vmap` inside: the function runs as it is
            raise TypeError(f"no graph has arrays of the class {type(array).__name__}")
        device = backends.of(array)
        if device not in self.backends:
            # Made later than the CPU's, so that it computes what both are operands of.
            self.backends[device] = TracedBackend(self, device)
        return self.backends[device]

    def is_running(self) -> bool:
        """Return True if this thread is capturing, outside of an op's forward."""
        # Other threads see ordinary arrays.
        return not self.done and not self.forward_depth and threading.get_ident() == self.thread

    def poison(self, what: str) -> None:
        """Record why the graph cannot represent the function, and the user's line."""
        if self.is_running():
            self.reasons.append((what, find_provenance(self)[0]))

    # Nodes --------------------------------------------------------------------------------

    def record(
        self, target: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], **meta: Any
    ) -> Node:
        """Add a call to the graph."""
        node = self.graph.call_function(target, self.as_nodes(args), self.as_nodes(kwargs))
        line, module, phase = find_provenance(self)
        node.meta.update(
            line=None if line == "?" else line, module=module, phase=phase, **meta
        )  # fmt: skip
        return node

    def as_nodes(self, value: Argument) -> Any:
        """Replace traced arrays by their nodes, at any depth."""
        return map_aggregate(value, self.as_node)

    def as_node(self, value: object) -> Any:
        """Return the node of an array; other values unchanged."""
        if isinstance(value, Tensor):
            value = value._array
        if isinstance(value, TracedArray | TracedNumber):
            if value.backend.tracer is not self:  # a tensor that outlived its capture
                self.poison("an array is used that is left from an earlier capture")
                return to_held(value)
            return value.node
        if isinstance(value, np.ndarray) or is_device_array(value):
            return self.backend_of(value).lift(value).node
        return value

    def constant(self, array: TracedArray) -> Node:
        """Add an array that depends on no input."""
        with self.graph.inserting_after(self.last_constant or self.last_input):
            # A copy: the array may be written later.
            held = array.held
            is_host = isinstance(held, np.ndarray)
            copied = np.array(held, order="K") if is_host else held.copy()
            node = self.graph.constant(copied)
        self.last_constant = node
        return node

    def add_input(self, name: str, **meta: Any) -> Node:
        """Add a placeholder behind the existing ones."""
        # Inputs come first, in the order in which they are read.
        with self.graph.inserting_after(self.last_input):
            node = self.graph.placeholder(name)
        node.meta.update(line=None, module="", phase="forward", **meta)
        self.last_input = node
        return node

    def placeholder(self, name: str, array: Array) -> TracedArray:
        """Add an array from outside: an argument, a parameter, …"""
        held = as_plain_array(array)
        memory = self.memories.get(memory_owner(held))
        if memory is not None:
            for entry in memory.entries:
                if same_view(entry.held, held):
                    return entry
        node = self.add_input(name, **array_meta(held))
        traced = TracedArray(self.backend_of(held), held, node)
        self.inputs.append((node, traced))
        if memory is None:
            self.memories[memory_owner(held)] = traced.memory
        else:
            memory.entries.append(traced)
        self.keep_alive.append(held)
        return traced

    def number(self, name: str, value: int | float) -> TracedNumber:
        """Add a Python number from outside, such as a learning rate."""
        node = self.add_input(name, number=True)
        self.inputs.append((node, None))
        return TracedNumber(self.backend, value, node)

    # Memory --------------------------------------------------------------------------------

    def array(
        self, held: Array, node: Node | None, sources: Sequence[TracedArray] = ()
    ) -> TracedArray:
        """Return a result as a traced array; a view of a source shares its memory."""
        for source in sources:
            if held is source.held:  # NumPy returned its argument
                return source
        if node is not None:
            node.meta.update(array_meta(held))
        traced = TracedArray(self.backend_of(held), held, node)
        is_view = held.base is not None or any(source.held.base is held for source in sources)
        if is_view or not isinstance(held, np.ndarray):  # views in CuPy may have no base
            whole = memory_owner(held)
            for source in sources:
                if memory_owner(source.held) == whole:
                    traced.memory, traced.seen_version = source.memory, source.memory.version
                    return traced
        return traced

    def write(self, target: TracedArray, value: Node) -> None:
        """Record a write into `target`, whose new value is the node `value`.

        The held array has been written already.
        """
        memory = target.memory
        root, held = memory.root, target.held
        known = self.memories.get(memory_owner(held))
        others = [] if known is None else known.entries
        if any(
            entry.memory is not memory and may_share_memory(entry.held, held) for entry in others
        ):
            self.poison("two inputs show the same memory, and one of them is written")
        if memory.has_moving_views:  # which elements are written is decided by a value
            self.poison("memory is written that x[i] shows, where i is a tensor")
        if target is root:
            root._node = value
        else:
            root_node, whole = root.node, root.held
            order, offset, laid = memory_layout(whole, held)
            if offset is None:
                self.poison("a view is written whose memory has gaps")
                return
            if covers_whole(whole, held, offset):
                node = self.record(REGISTRY["reshape"].function, (value,), {"shape": whole.shape})
            else:
                node = self.record(
                    primitives.with_region,
                    (root_node, value, order, offset, tuple(held.shape), tuple(held.strides)), {},
                )  # fmt: skip
            node.meta.update(array_meta(laid))
            root._node = node
        memory.version += 1  # every other view asks for its node again
        root.seen_version = memory.version
        if target is not root:
            target._node, target.seen_version = value, memory.version

    def save_before_write(self, target: TracedArray) -> None:
        """Save a copy of what is about to be overwritten, if it came from outside."""
        memory = target.memory
        for array in (memory.root, *memory.entries):
            if id(array) not in self.original_values:
                self.original_values[id(array)] = (array, array.held.copy())
            if array._node is None:
                array._node = self.constant(array)

    def read_view(self, memory: TracedMemory, held: Array) -> Node:
        """Return a node for the view `held` of memory that was written."""
        root = memory.root
        order, offset, _ = memory_layout(root.held, held)
        if offset is None:
            self.poison("a view is read whose memory was written and has gaps")
            offset = 0
        if covers_whole(root.held, held, offset):
            node = self.record(REGISTRY["reshape"].function, (root.node,), {"shape": held.shape})
        else:
            node = self.record(
                primitives.region,
                (root.node, order, offset, tuple(held.shape), tuple(held.strides), held.dtype), {},
            )  # fmt: skip
        node.meta.update(array_meta(held))
        return node

    def restore(self) -> None:
        """Undo every write into arrays from outside."""
        for traced, saved in self.original_values.values():
            if any(traced is entry for _, entry in self.inputs):
                traced.held[...] = saved


# Where a node comes from -------------------------------------------------------------------------

PHASES = {Engine.run.__code__: "backward", Optimizer.step_param.__code__: "optimizer"}
"""Code objects that tell the phase of the ops that run inside them."""


def find_provenance(tracer: Tracer) -> tuple[str, str, str]:
    """Return the user's line as "file.py:12", the path of the module, and the phase."""
    frame: Any = sys._getframe(2)  # the caller of `record`
    line, module, phase = "", None, ""
    while frame is not None:
        code = frame.f_code
        own = frame.f_globals.get("__name__", "").startswith("edutorch.")
        if own:
            if not phase and code in PHASES:
                phase = PHASES[code]
            elif not phase and code.co_name in ("step", "step_param") and is_step(frame):
                phase = "optimizer"
            if code.co_name == "capture_run":
                break
        elif not line:
            name = os.path.basename(code.co_filename)
            line = f"{name}:{frame.f_lineno}"
            SEEN_FILES.setdefault(name, set()).add(code.co_filename)
        if module is None and code.co_name == "forward" and code.co_varnames[:1] == ("self",):
            module = tracer.module_names.get(id(frame.f_locals.get("self")))
        frame = frame.f_back
    return line or "?", module or "", phase or "forward"


SEEN_FILES: dict[str, set[str]] = {}
"""The paths of the files that captured nodes come from, by their names."""


def source_text(line: str) -> str:
    """Return the text of a node's line, "file.py:12"; "" if no file, or several, have the name."""
    name, _, number = line.rpartition(":")
    paths = SEEN_FILES.get(name, set())
    return linecache.getline(*paths, int(number)).strip() if len(paths) == 1 else ""


def is_step(frame: FrameType) -> bool:
    return isinstance(frame.f_locals.get("self"), Optimizer)


# Their annotations name these: `typing.get_type_hints` looks them up in their globals.
traced_array.TracedBackend = TracedBackend  # type: ignore[attr-defined]
traced_namespace.TracedBackend = TracedBackend  # type: ignore[attr-defined]
traced_backend.Tracer = Tracer  # type: ignore[attr-defined]
