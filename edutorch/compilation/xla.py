"""`backend="jax"`: a captured graph, compiled and run by XLA.

The definitions of the ops run once on arrays of a trace (`backends/xla.py`), and XLA compiles what
they compute. What the function writes (parameters, the state of an optimizer) stays in XLA's memory
from call to call, and is updated there in place; the tensors get a copy of it after each call.
Random numbers are drawn by the program itself, from the seed and the offset of the generator.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..backends.philox import PhiloxRandom
from ..backends.xla import LEAST_VERSION, XlaBackend, XlaRandom, import_jax
from ..backends.xla_array import XlaArray, XlaError, XlaNumber, unwrap
from ..core.autograd.versions import VersionCounter
from ..core.tensor import Tensor
from ..errors import missing_extra
from ..fx import Graph, Node, map_aggregate, map_arg, primitives
from ..fx.interpreter import arguments_in_order
from .xla_functions import LOWERINGS, function_for

__all__ = ["Xla", "XlaCheckError", "XlaError", "require_jax"]


class XlaCheckError(XlaError):
    """A check that a compiled program makes has failed; nothing has been written."""


def require_jax() -> None:
    """Do nothing if JAX can be used here. It is not imported, which would take half a second.

    Raises: MissingExtraError: it is not installed, or too old.
    """
    if importlib.util.find_spec("jax") is None:
        raise missing_extra("jax", 'compile(backend="jax")', "jax is not installed")
    version = importlib.metadata.version("jax")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise missing_extra("jax", 'compile(backend="jax")', f"jax {version} is older than {least}")


class Kept(NamedTuple):
    """An input that is in XLA's memory already, and what must be unchanged for it to be right."""

    array: np.ndarray
    version: int
    value: Any


def refuse_other_devices(graph: Graph) -> None:
    """Raise XlaError for arrays that are on another device than the CPU."""
    for node in graph.nodes:
        device = str(node.meta.get("device", "cpu"))
        if device != "cpu":
            raise XlaError(
                "compile", f"`{node.name}` is on the device {device}; XLA takes the CPU's",
                {"backend": "jax"}, 'use backend="edutorch", which compiles for that device',
            )  # fmt: skip


class Xla:
    """A graph as a function that XLA has compiled: `outputs = lowered(inputs)`.

    Args:
        graph: flat and functional, with shapes and dtypes.
        options: `data_parallel=True` splits the arguments over all devices, along axis 0.

    Raises: MissingExtraError: JAX is not installed. XlaError: an op cannot be traced.
    """

    def __init__(self, graph: Graph, options: dict[str, Any] | None = None) -> None:
        require_jax()
        refuse_other_devices(graph)
        self.jax, self.graph = import_jax(), graph
        self.inputs = [node for node in graph.nodes if node.op == "placeholder"]
        self.outputs: list[Node] = list(graph.output_node().args[0])  # type: ignore[arg-type]
        self.draws = [node for node in graph.nodes if node.target is primitives.draw]
        self.generators = list({id(node.args[0]): node.args[0] for node in self.draws}.values())
        self.blocks: list[int] = []  # how many blocks of Philox a call draws of each
        self.writes = dict(graph.writes)  # the input that an output is written into
        self.donated = sorted(set(self.writes.values()))
        self.others = [i for i in range(len(self.inputs)) if i not in self.writes.values()]
        self.tensors: list[Tensor | None] = [None] * len(self.inputs)
        self.kept: dict[int, Kept] = {}
        self.is_parallel = bool((options or {}).get("data_parallel"))
        self._lock = threading.Lock()
        self._compile()

    def bind(self, tensors: Sequence[Tensor | None]) -> None:
        """Tell which inputs are the same tensor in every call: they stay in XLA's memory."""
        self.tensors = list(tensors)

    # Compiling ------------------------------------------------------------------------------

    def _compile(self) -> None:
        start = time.perf_counter()
        with enable_x64(self.jax):  # or JAX would convert float64 to float32
            jitted = self.jax.jit(self._traced, donate_argnums=0, **self._placement())
            self.lowered = jitted.lower(*self._examples())
            self._run = self.lowered.compile()
        self.seconds = time.perf_counter() - start

    def _examples(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the shapes and dtypes of the program's three arguments."""
        examples = [
            np.float64(0) if node.meta.get("number")
            else self.jax.ShapeDtypeStruct(node.meta["shape"], node.meta["dtype"])
            for node in self.inputs
        ]  # fmt: skip
        states = [self.jax.ShapeDtypeStruct((2,), np.uint64)] * len(self.generators)
        return [examples[i] for i in self.donated], [examples[i] for i in self.others], states

    def _placement(self) -> dict[str, Any]:
        """Return where the arguments are: on one device, or split over all of them."""
        if not self.is_parallel:
            return {}
        shard = self.jax.sharding
        self.mesh = shard.Mesh(np.array(self.jax.devices()), ("batch",))
        count = self.mesh.size
        whole = shard.NamedSharding(self.mesh, shard.PartitionSpec())
        rows = shard.NamedSharding(self.mesh, shard.PartitionSpec("batch"))
        self.whole = whole
        shardings = []
        for node in self.inputs:
            shape = node.meta.get("shape") or ()
            is_split = "argument" in node.meta and bool(shape)
            if is_split and shape[0] % count:
                raise XlaError(
                    "compile", f"{shape[0]} examples cannot be split over {count} devices",
                    {"input": f"{node.name}, of shape {shape}"},
                    f"give batches of a multiple of {count}, or leave out data_parallel=True",
                )  # fmt: skip
            shardings.append(rows if is_split else whole)
        arguments = (
            [shardings[i] for i in self.donated], [shardings[i] for i in self.others],
            [whole] * len(self.generators),
        )  # fmt: skip
        return {"in_shardings": arguments, "out_shardings": whole}

    def _traced(self, donated: list[Any], others: list[Any], states: list[Any]) -> Any:
        """Run the graph's definitions once, on JAX's tracers."""
        backend = XlaBackend()
        sources = [XlaRandom(backend, state) for state in states]
        source_of = {id(g): source for g, source in zip(self.generators, sources, strict=True)}
        values_in = dict(zip((*self.donated, *self.others), (*donated, *others), strict=True))
        values: dict[Node, Any] = {
            node: XlaNumber(values_in[i]) if node.meta.get("number") else values_in[i]
            for i, node in enumerate(self.inputs)
        }
        for node in self.graph.nodes:
            if node.op == "get_attr":
                values[node] = self.jax.numpy.asarray(self.graph.constants[str(node.target)])
            elif node.target is primitives.draw:
                generator, how, *args = node.args
                values[node] = getattr(source_of[id(generator)], str(how))(*args).values
            elif node.op == "call_function":
                values[node] = self._node(backend, node, values)
        failures = backend.failures
        failed = self.jax.numpy.stack(failures).any() if failures else None
        self.checks, self.blocks = len(failures), [source.reserved for source in sources]
        outputs = [values[node] for node in self.outputs]
        return [value.value if isinstance(value, XlaNumber) else value for value in outputs], failed

    def _node(self, backend: XlaBackend, node: Node, values: dict[Node, Any]) -> Any:
        """Trace one node; its result as arrays of JAX."""

        def operand(used: Node) -> Any:
            # A new array for each reader: what it writes into its operands is its own business.
            return backend.wrap_all(values[used])

        args, kwargs = map_arg(node.args, operand), map_arg(node.kwargs, operand)
        target: Any = node.target
        op = getattr(target, "op", None)
        try:
            if op is None:
                result = function_for(target, backend)(*args, **kwargs)
            else:
                args, kwargs = arguments_in_order(op, args, kwargs)
                own = LOWERINGS.get(op.name)
                result = None if own is None else own(*args, **kwargs)
                if result is None:
                    result = op.forward(backend.xp, *args, **kwargs)
            return self._checked(node, unwrap_result(result))
        except (*TRACE_ERRORS, self.jax.errors.JAXTypeError) as error:
            if isinstance(error, XlaError) and error.arguments.get("backend"):
                raise
            raise untraceable(node, error) from error

    def _checked(self, node: Node, value: Any) -> Any:
        """Return a node's value, in the dtype that the captured call had.

        Raises: XlaError: it has another shape.
        """
        shape, dtype = node.meta.get("shape"), node.meta.get("dtype")
        if shape is None or not hasattr(value, "dtype"):
            return value
        if tuple(value.shape) != tuple(shape):
            raise XlaError("compile", f"XLA gives the shape {tuple(value.shape)}, not {shape}")
        return value if value.dtype == dtype else value.astype(dtype)

    # Running --------------------------------------------------------------------------------

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Compute the outputs, as NumPy arrays; what is written is written into its input.

        Raises: XlaCheckError: a check of the program fails; nothing is written.
        """
        with self._lock, enable_x64(self.jax):
            sources = [self._source(generator) for generator in self.generators]
            before = [source.get_state() for source in sources]
            states = [
                np.array(source.reserve(4 * count), np.uint64)
                for source, count in zip(sources, self.blocks, strict=True)
            ]
            values_in = [self._input(i, array) for i, array in enumerate(inputs)]
            outputs, failed = self._run(
                [values_in[i] for i in self.donated], [values_in[i] for i in self.others], states
            )
            if failed is not None and failed:
                for source, state in zip(sources, before, strict=True):
                    source.set_state(state)
                for i in self.donated:  # their memory is gone
                    self.kept.pop(i, None)
                raise XlaCheckError("compile", "a check of the compiled function fails")
            return [self._output(i, value, inputs) for i, value in enumerate(outputs)]

    run = __call__

    @staticmethod
    def _source(generator: Any) -> PhiloxRandom:
        """Return the source of a generator, from which the program goes on.

        Raises: XlaCheckError: it goes on in an old stream (`legacy_random.py`), by NumPy only.
        """
        source = generator.random
        if not isinstance(source, PhiloxRandom):
            raise XlaCheckError("compile", "a generator has a state from before Philox4x32")
        return source

    def _input(self, position: int, array: Any) -> Any:
        """Return what the program gets for an input: what XLA has already, if it is unchanged."""
        tensor = self.tensors[position]
        if self.inputs[position].meta.get("number"):
            return np.float64(array)
        if tensor is None or tensor._array is not array:
            return array
        version = version_of(tensor)
        kept = self.kept.get(position)
        if kept is not None and kept.array is array and kept.version == version:
            return kept.value
        place = (self.whole,) if self.is_parallel else ()
        value = self.jax.device_put(np.array(array), *place)
        if version is not None:
            self.kept[position] = Kept(array, version, value)
        return value

    def _output(self, position: int, value: Any, inputs: Sequence[Any]) -> Any:
        """Return an output as a NumPy array, and keep what the next call needs."""
        number = self.writes.get(position)
        if number is None:
            if self.outputs[position].meta.get("number"):
                return value.item()
            return np.array(value)  # a copy, because JAX's memory is read-only
        array, tensor = inputs[number], self.tensors[number]
        np.copyto(array, np.asarray(value))
        self.kept.pop(number, None)
        if tensor is not None and tensor._array is array:
            version = version_of(tensor)
            if version is not None:  # the caller counts this write
                self.kept[number] = Kept(array, version + 1, value)
        return array

    # Inspection -----------------------------------------------------------------------------

    @property
    def code(self) -> str:
        """The program that XLA was given (StableHLO)."""
        return self.lowered.as_text()

    def explain(self) -> str:
        """Return what was compiled: XLA decides itself what to fuse."""
        shapes = ", ".join(
            f"{node.name} {tuple(node.meta['shape'])}"
            for node in self.inputs if "argument" in node.meta
        )  # fmt: skip
        lines = [
            f"compiled by XLA in {self.seconds:.2f} s for {shapes or 'its inputs'}; "
            "XLA fuses by itself, `code` is what it was given",
            f"{len(self.donated)} inputs are updated in XLA's memory, "
            f"{self.checks} checks are made by the program, {len(self.draws)} draws of numbers",
        ]
        if self.is_parallel:
            lines.append(f"the arguments are split over {self.mesh.size} devices, along axis 0")
        return "\n".join(lines)


TRACE_ERRORS = (
    TypeError, AttributeError, NotImplementedError, LookupError, ValueError, XlaError, RuntimeError,
)  # fmt: skip
"""What definitions and JAX raise while a node is traced."""


def untraceable(node: Node, error: Exception) -> XlaError:
    """Return the error for a node that cannot be traced, with its op and the user's line."""
    reason = getattr(error, "message", None) or str(error).splitlines()[0]
    target: Any = node.target
    name = getattr(getattr(target, "op", None), "public_name", None) or node.name
    return XlaError(
        "compile",
        f"`{name}` cannot be run by XLA: {reason}",
        {"backend": "jax", "line": node.meta.get("line") or "unknown"},
        'leave it out of the compiled function, or use backend="edutorch"',
    )


def unwrap_result(result: Any) -> Any:
    """Return a node's result with JAX's arrays; numbers stay what they are."""
    return map_aggregate(result, lambda leaf: unwrap(leaf) if isinstance(leaf, XlaArray) else leaf)


def version_of(tensor: Tensor) -> int | None:
    """Return how often a tensor's memory was written; None: nobody counts that."""
    writes = tensor._writes
    if tensor._array.__class__ is not np.ndarray:  # NumPy may write into it, too
        return None
    if writes is None:
        return 0
    return writes.count if writes.__class__ is VersionCounter else None


def enable_x64(jax: ModuleType) -> AbstractContextManager[Any]:
    """Enable float64 and int64 in JAX inside the block."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    import jax.experimental as experimental  # where it was before JAX 0.8

    return experimental.enable_x64(True)
