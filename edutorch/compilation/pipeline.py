"""From a captured graph to a function of arrays: passes, then a backend.

The backend of this library makes straight-line Python of it, with fused kernels and planned memory:

    graph  →  program (lowering.py)  →  units (fusion.py)  →  buffers (memory_planning.py)  →  code

Each step can be inspected: `print(lowered.code)`, `print(lowered.explain())`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backends import blas, kernel_registry
from ..backends.device import Device
from ..core.tensor import Tensor, wrap
from ..errors import EdutorchError, warn
from ..fx import Graph, GraphModule, Node
from ..fx.interpreter import run_on_arrays
from ..fx.passes import standard
from ..settings import are_deterministic_algorithms_enabled
from . import kernel_cache
from .explain import Explanation, Steps, Timing, explain_steps, instrument
from .fusion import group_values, has_own_kernel, nodes_with_own_kernel
from .lowering import build_program
from .memory_planning import ALIGNMENT, plan_memory
from .program_codegen import Fused, program_text
from .xla import Xla, require_jax

__all__ = ["BACKENDS", "BackendError", "Lowered", "graph_compiler", "lower"]

Run = Callable[[list[Any]], list[Any]]
"""A compiled graph: a function of arrays, and of numbers that change from call to call."""


SMALL_WORK = 16_384
"""With so many elements in all NumPy calls together, kernels save less than the guards cost."""


class BackendError(EdutorchError, RuntimeError):
    """There is no such backend, mode or option."""


class Lowered:
    """A graph as a function: `outputs = lowered(inputs)`, both lists of arrays (and numbers).

    Attributes:
        code: the Python code that runs, followed by the kernels that it calls.
        graph: the graph that it was compiled from.
    """

    def __init__(self, graph: Graph, wait: bool = False, fuse: bool = True) -> None:
        self.graph, self._fuse = graph, fuse
        self.program = build_program(graph)
        self.units, self.reasons = group_values(self.program, fuse)
        if fuse and (kept := nodes_with_own_kernel(self.units)):
            self.program = build_program(graph, kept=kept)
            self.units, self.reasons = group_values(self.program)
        self.plan = plan_memory(self.program, self.units)
        text = program_text(self.program, self.units, self.plan)
        self.source, self.fused = text.source, text.fused
        self._arrays = text.arrays
        self._kernels: dict[str, kernel_cache.Kernel] = {}
        scope = text.scope
        # The generated code finds its helpers here; a compiled kernel is put here as well.
        scope |= {
            "spaces": [], "new_workspace": self._new_workspace, "before_gradients": lambda: None,
        }  # fmt: skip
        for fused in self.fused:
            exec(
                compile(fused.fallback, f"<edutorch.compile: {fused.name}, not compiled>", "exec"),
                scope,
            )
        exec(compile(self.source, "<edutorch.compile>", "exec"), scope)
        self._scope = scope
        self._run: Callable[[Sequence[Any]], list[Any]] = scope["run"]
        self._make_kernels(wait)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Compute the outputs, each a separate array."""
        return self._run(inputs)  # looked up in each call: `timed` exchanges it

    def call_before_gradients(self, function: Callable[[], None]) -> None:
        """Register a function that each run calls before it allocates gradients."""
        self._scope["before_gradients"] = function

    @property
    def run(self) -> Callable[[Sequence[Any]], list[Any]]:
        """The generated function itself, which saves a call."""
        return self._run

    def _new_workspace(self) -> tuple[np.ndarray, ...]:
        """Allocate the buffers of intermediate results; each concurrent call has its own."""
        buffers = [np.empty(size + ALIGNMENT, np.uint8) for size in self.plan.buffers]
        arrays = []
        for buffer, shape, dtype, first in self._arrays:
            memory = buffers[buffer]
            # The first multiple of the alignment.
            start = first + -memory.__array_interface__["data"][0] % ALIGNMENT
            arrays.append(np.ndarray(shape, dtype, memory, start))
        return tuple(arrays)

    # Kernels --------------------------------------------------------------------------------

    def _make_kernels(self, wait: bool) -> None:
        if self._fuse:
            blas.limit_threads()  # its threads would compete with those of the kernels
        for fused_kernel in self.fused:
            kernel = kernel_cache.kernel_for(fused_kernel.text, wait)
            self._kernels[fused_kernel.name] = kernel
            kernel.add_listener(
                lambda kernel, fused=fused_kernel: self._install_kernel(fused, kernel)
            )

    def _install_kernel(self, fused: Fused, kernel: kernel_cache.Kernel) -> None:
        """Replace the NumPy fallback by the compiled kernel from now on."""
        run = kernel.run
        if run is None:
            return
        # numba, which takes a second to import, is loaded by now: it has compiled the kernel.
        from ..kernels.cpu.parallel import MIN_WORK_PER_THREAD, parallel_for

        work = fused.text.work
        # Each part has to be worth waking a thread.
        if work >= 2 * MIN_WORK_PER_THREAD and fused.text.count > 1:

            def run_parallel(start: int, stop: int, *arguments: Any) -> None:
                parallel_for(run, stop, *arguments, work=work)

            # The program looks the name up in each call, so it finds the new one.
            self._scope[fused.name] = run_parallel
        else:
            self._scope[fused.name] = run

    def has_own_kernels(self, of_any_size: bool = False) -> bool:
        """Whether no generated kernel computes what the op's own one or one NumPy call does not."""
        nodes = {value.node for unit in self.fused for value in unit.group.values}
        return all(has_own_kernel(node, of_any_size) for node in nodes)

    @property
    def is_small(self) -> bool:
        """Whether its kernels save less time than the checks before a call take."""
        work = sum(fused.text.work * len(fused.group.values) for fused in self.fused)
        return work <= SMALL_WORK

    @property
    def ready(self) -> bool:
        """Whether all kernels are compiled: until then, NumPy fallbacks run."""
        return all(kernel.done.is_set() for kernel in self._kernels.values())

    def wait(self) -> Lowered:
        """Wait until all kernels are compiled."""
        kernel_cache.compiler.hurry()
        for kernel in self._kernels.values():
            kernel.done.wait()
        return self

    # Inspection -------------------------------------------------------------------------------

    @property
    def code(self) -> str:
        """The code that runs, and the kernels that it calls."""
        parts = [self.source]
        for fused in self.fused:
            parts.append(fused.text.body.replace("def kernel(", f"def {fused.name}(", 1))
        return "\n\n".join(parts)

    def explain(self) -> Explanation:
        """Explain what was fused, what was not and why, and what that saves."""
        return explain_steps(
            Steps(self.program, self.units, self.plan, self.fused, self._kernels, self.reasons)
        )

    @contextmanager
    def timed(self, title: str = "run") -> Iterator[Timing]:
        """Measure how long each step takes in all calls inside the block."""
        usual = self._run
        self._run, timing = instrument(self.source, self._scope, title)
        try:
            yield timing
        finally:
            self._run = usual

    def __repr__(self) -> str:
        return f"<lowered: {len(self.units)} steps, {len(self.fused)} of them fused kernels>"


def lower(graph: Graph, wait: bool | None = None, fuse: bool | None = None) -> Lowered:
    """Generate the code of a graph.

    Args:
        graph: flat and functional, with shapes and dtypes (`edutorch.fx.Graph`).
        wait: compile the kernels before the first call. Otherwise they are compiled in the
            background, and NumPy computes until then. None: by `use_deterministic_algorithms` and
            EDUTORCH_KERNELS.
        fuse: False leaves everything to NumPy; None fuses if numba is installed.

    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> x.meta.update(shape=(2,), dtype=np.dtype("float32"))
    >>> y = graph.call_function(mul, (x, 2.0), {})
    >>> y.meta.update(x.meta)
    >>> _ = graph.output((y,))
    >>> lower(graph)([np.array([1, 2], "float32")])
    [array([2., 4.], dtype=float32)]
    """
    mode = os.environ.get("EDUTORCH_KERNELS", "beside")
    if fuse is None:
        fuse = (
            mode != "off"
            and kernel_cache.is_available()
            and not kernel_registry.is_reference_only()
        )
    if wait is None:
        # Kernel and NumPy may differ in the last bit: then from the first call on.
        wait = mode == "wait" or are_deterministic_algorithms_enabled()
    return Lowered(graph, wait, fuse)


# Backends by name ------------------------------------------------------------------------------


def edutorch_backend(graph: Graph, replays: bool = True) -> Run:
    """Generate kernels and straight-line code; if that fails, warn, and run op by op.

    Args:
        replays: whether a graph of a device is replayed as one CUDA graph, where there are any.
    """
    try:
        if not is_on_device(graph):
            return lower(graph)
        from .device_program import lower_on_device  # what few need

        return lower_on_device(graph, replays)
    except Exception as error:  # noqa: BLE001  (the graph is right, only slower)
        warn(f"compile: no code can be generated ({type(error).__name__}: {error}); ops run singly")
        return eager_backend(graph)


def is_on_device(graph: Graph) -> bool:
    """Whether a graph has arrays on another device than the CPU."""
    return any(str(node.meta.get("device", "cpu")) != "cpu" for node in graph.nodes)


def eager_backend(graph: Graph) -> Run:
    """Run the definitions, one node after the other."""
    if is_on_device(graph):
        from .device_program import run_definitions

        return run_definitions(graph)
    return run_on_arrays(graph)


BACKENDS: dict[str, Callable[..., Run]] = {
    "edutorch": edutorch_backend,
    "inductor": edutorch_backend,
    "eager": eager_backend,
    "aot_eager": eager_backend,
    "jax": Xla,
}
"""The backends by name: each turns a graph into a function of arrays."""

MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def graph_compiler(settings: dict[str, Any]) -> Callable[[Graph], Run]:
    """Return the function that compiles a captured graph to a function of arrays.

    Raises: BackendError: the backend or the mode is unknown.
    """
    backend, mode = settings.get("backend", "inductor"), settings.get("mode")
    if mode is not None and settings.get("options") is not None:
        raise BackendError(
            "compile",
            "Either mode or options can be specified, but both can't be specified at the same time",
        )
    if mode not in MODES:
        known = ", ".join(str(mode) for mode in MODES[1:])
        raise BackendError("compile", f"Unrecognized mode={mode}, should be one of: {known}")
    if isinstance(backend, str):
        if backend not in BACKENDS:
            raise BackendError(
                "compile", f"Invalid backend: {backend!r}",
                hint=f"the backends are {', '.join(BACKENDS)}; or give a function of "
                "(graph_module, example_inputs)",
            )  # fmt: skip
        if backend == "jax":
            return xla_compiler(settings.get("options"))
        if BACKENDS[backend] is edutorch_backend and not uses_graphs(settings):
            return lambda graph: edutorch_backend(standard(graph), replays=False)
        return lambda graph: BACKENDS[backend](standard(graph))
    if not callable(backend):
        raise BackendError(
            "compile", f"`backend` must be a name or a function, got {type(backend).__name__}"
        )
    return lambda graph: compile_by_user_backend(backend, standard(graph))


def xla_compiler(options: dict[str, Any] | None) -> Callable[[Graph], Run]:
    """Return the function that compiles a captured graph by XLA.

    Raises: BackendError: an option is unknown. MissingExtraError: JAX is not there.
    """
    unknown = sorted(set(options or {}) - {"data_parallel"})
    if unknown:
        raise BackendError(
            "compile",
            f'Unexpected optimization option {unknown[0]}, backend="jax" has data_parallel',
        )
    require_jax()
    return lambda graph: BACKENDS["jax"](standard(graph), options)


def uses_graphs(settings: dict[str, Any]) -> bool:
    """Whether a training step on a GPU may become one CUDA graph, by the mode and the options."""
    options = settings.get("options") or {}
    is_off = settings.get("mode") == "max-autotune-no-cudagraphs"
    return not is_off and options.get("triton.cudagraphs", True) is not False


class CapturedModule(GraphModule):
    """A captured graph as a module: its inputs and outputs are tensors, its ops see arrays."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph op by op, as it is now."""
        arrays = [
            argument._array if isinstance(argument, Tensor) else argument for argument in args
        ]
        return tuple(
            wrap(result) if hasattr(result, "dtype") else result
            for result in eager_backend(self.graph)(arrays)
        )


def compile_by_user_backend(backend: Callable[..., Any], graph: Graph) -> Run:
    """Compile by the user's backend: `backend(graph_module, example_inputs)`."""
    # A backend may change the graph, and return the module itself.
    module = CapturedModule({}, graph)
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    examples = [example_input(node) for node in inputs]
    compiled = backend(module, examples)
    if not callable(compiled):
        raise BackendError(
            "compile", f"the backend returned a {type(compiled).__name__}, not a function"
        )

    def run(arrays: list[Any]) -> list[Any]:
        inputs_ = [wrap(array) if hasattr(array, "dtype") else array for array in arrays]
        results = compiled(*inputs_)
        # A graph with one output may return it alone.
        results = results if isinstance(results, tuple | list) else (results,)
        return [result._array if isinstance(result, Tensor) else result for result in results]

    return run


def example_input(node: Node) -> Any:
    """Return an example of an input: zeros of its shape and dtype."""
    if node.meta.get("number"):
        return 0.0
    device = Device(str(node.meta.get("device", "cpu"))).backend
    return wrap(device.xp.zeros(node.meta["shape"], node.meta["dtype"]))
