"""The backend on which a function runs during a capture.

It computes with the arrays of `traced_array.py`, which hold those of a device: NumPy's, or those
of a GPU. Every op becomes one node of the graph. Array operations outside of ops, as in optimizers,
become a node of the equivalent op if there is one, otherwise of the NumPy function.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import backends, dtypes
from ..backends import Backend
from ..backends.batching import BatchedBackend
from ..backends.kernel_registry import declarations
from ..backends.numpy import Array, as_plain_array
from ..core.op import Op
from ..core.registry import REGISTRY
from ..core.tensor import Tensor
from ..errors import DeviceError
from ..ops.creation import CREATIONS
from ..ops.joining import single_view_ops
from . import primitives
from .device_functions import device_function
from .graph import array_meta
from .node import Node, map_aggregate
from .traced_array import (
    TracedArray,
    TracedNumber,
    as_array,
    flatten_arrays,
    is_device_array,
    memory_owner,
    same_view,
    to_held,
)
from .traced_namespace import (
    CREATION_FUNCTIONS,
    DATA_DEPENDENT_SIZE,
    NUMPY_TO_OP,
    QUERY_FUNCTIONS,
    WRITING_FUNCTIONS,
    Function,
    TracedNamespace,
)

if TYPE_CHECKING:
    from .capture_context import Tracer

__all__ = ["TracedBackend"]

Settings = dict[str, Any]
"""Arguments by name."""

FUSED_RULES = {
    "attention_forward/joint_vjp", "lstm_sequence/joint_vjp", "gru_sequence/joint_vjp",
    "rnn_sequence/joint_vjp", "native_batch_norm/joint_vjp", "native_group_norm/joint_vjp",
    "gelu/input",
}  # fmt: skip
"""Derivative rules that are one node: kernels are faster than the ops that they consist of."""


class TracedBackend(Backend):
    """The backend of one capture for the arrays of one device, `inner`."""

    array_type = TracedArray
    depth = 0

    def __init__(self, tracer: Tracer, inner: Backend) -> None:
        self.tracer = tracer
        # Captures count among the levels of `vmap`: the newest level computes.
        self.level = next(BatchedBackend._level_counter)
        self.inner = self.device = inner
        self.name, self.is_accelerator = inner.name, inner.is_accelerator
        self.library: Any = np if inner is backends.CPU else inner.xp
        self.xp = TracedNamespace(self)

    @property
    def device_name(self) -> str:
        """The name of the device, as `tensor.device` shows it."""
        return self.inner.device_name

    def function(self, function: Function) -> Function:
        """Return the device's function for one of NumPy."""
        return function if self.library is np else device_function(self.library, function)

    def is_array(self, value: object) -> bool:
        """Return True for an array, or a scalar, of the device."""
        if isinstance(value, np.ndarray | np.generic):
            return self.library is np
        return isinstance(value, self.inner.array_type)

    # Computing ---------------------------------------------------------------------------

    def run(self, forward: Function, inputs: Settings, settings: Settings) -> Any:
        """Run the forward of an op, and add it to the graph."""
        tracer = self.tracer
        held = {name: to_held(input_) for name, input_ in inputs.items()}
        fixed = {name: to_held(setting) for name, setting in settings.items()}
        if tracer.is_running():
            self.check_data_dependence(forward.__name__, fixed)
            self.mark_moving_view(forward.__name__, inputs, settings)
            if self.is_expanded(forward):
                result = self.run_expanded(forward, inputs, settings)
                if result is not None:
                    return result
        # Forwards run on the held arrays, unrecorded: the op is the node.
        drawn, tracer.forward_depth = tracer.draw_count, tracer.forward_depth + 1
        try:
            result = forward(self.library, **held, **fixed)
        finally:
            tracer.forward_depth -= 1
        if not tracer.is_running():
            return result
        op = REGISTRY.get(forward.__name__)
        if op is not None and op.family.makes_views:  # in a graph each piece is a view by itself
            (array,) = inputs.values()
            single_calls = single_view_ops(op.name, [part.shape for part in result], **fixed)
            return tuple(
                self.record_op(name, (array,), single, piece)
                for (name, single), piece in zip(single_calls, result, strict=True)
            )
        if op is None or op.forward is not forward:
            self.tracer.poison(f"{forward.__name__} is no op that is known by its name")
            return result
        meta = {"random": True} if tracer.draw_count != drawn else {}
        return self.record_node(op.function, tuple(inputs.values()), settings, result, **meta)

    def is_expanded(self, forward: Function) -> bool:
        """Return True if an op is to be recorded by what its definition calls."""
        expands, op = self.tracer.options.expands, REGISTRY.get(forward.__name__)
        return expands is not None and op is not None and op.forward is forward and expands(op)

    def run_expanded(self, forward: Function, inputs: Settings, settings: Settings) -> Any:
        """Run a definition on traced arrays, and return its result; None if that is no good.

        Then nothing of it stays in the graph, and the op becomes a node as usual.
        """
        tracer = self.tracer
        arguments = map_aggregate({**inputs, **settings}, self.as_traced)
        mark, count = tracer.graph._root.prev, len(tracer.reasons)
        try:
            result = forward(self.xp, **arguments)
        except Exception:  # noqa: BLE001  (a definition cannot know that it gets traced arrays)
            result = None
        parts = result if isinstance(result, tuple | list) else (result,)
        if len(tracer.reasons) == count and all(isinstance(part, TracedArray) for part in parts):
            return result
        del tracer.reasons[count:]
        while tracer.graph._root.prev is not mark:
            tracer.graph.erase_node(tracer.graph._root.prev)
        return None

    def as_traced(self, value: Any) -> Any:
        """Return a tensor or an array as a traced array, whose node exists already."""
        if isinstance(value, Tensor):
            value = value._array
        if isinstance(value, np.ndarray) or is_device_array(value):
            value = self.lift(value)
        if isinstance(value, TracedArray):
            value.node  # noqa: B018  (a view makes its node when it is first read)
        return value

    def gradients(self, op: Op, rule: str, values: tuple[Any, ...]) -> Any:
        """Add a derivative rule as one node; None if it is traced op by op."""
        key, kernels = f"{op.name}/{rule}", self.inner.kernels
        is_one_node = key in FUSED_RULES or (kernels and key in declarations(kernels))
        # What is recorded for another runtime is made of ops alone.
        if self.tracer.options.expands is not None or not is_one_node:
            return None
        target = primitives.gradients_of(op.name, rule)
        self.tracer.forward_depth += 1
        try:
            result = target(*to_held(values))
        finally:
            self.tracer.forward_depth -= 1
        return self.record_node(target, values, {}, result)

    def check_data_dependence(self, name: str, settings: Settings) -> None:
        """Poison the capture if a shape, or the elements of a view, depend on values."""
        if name in DATA_DEPENDENT_SIZE:
            self.tracer.poison(f"the size of what {name} returns depends on the numbers")
        if name != "getitem":
            return
        index = settings["index"]
        parts = list(index) if isinstance(index, tuple) else [index]
        if any(hasattr(part, "dtype") and part.dtype.kind == "b" and part.ndim for part in parts):
            self.tracer.poison("x[mask] has a size that depends on the numbers")
        for position, part in enumerate(parts):
            if getattr(part, "ndim", None) == 0 and part.dtype.kind in "iu":
                parts[position] = int(part)  # a view, whose offset depends on a value
        settings["index"] = tuple(parts) if isinstance(index, tuple) else parts[0]

    def mark_moving_view(self, name: str, inputs: Settings, settings: Settings) -> None:
        """Mark memory with a view whose offset a tensor determines: x[i], x.narrow(0, i, 1)."""
        op = REGISTRY.get(name)
        if op is None or not op.family.makes_view:
            return
        chosen = [x for x in flatten_arrays(settings) if isinstance(x, TracedArray | TracedNumber)]
        if any(getattr(setting, "ndim", 0) == 0 for setting in chosen):  # with axes: a copy
            for array in inputs.values():
                array.memory.has_moving_views = True

    def record_op(self, name: str, args: Sequence[Any], settings: Settings, result: object) -> Any:
        """Add a result to the graph as a call of the op of this name."""
        return self.record_node(REGISTRY[name].function, args, settings, result)

    def record_node(
        self, target: Function, args: Sequence[Any], kwargs: Settings,
        result: object, **meta: Any,
    ) -> Any:  # fmt: skip
        """Add a node for a call, and return its result as a traced array or a tuple of them."""
        if not self.tracer.is_running():
            return result
        node = self.tracer.record(target, args, kwargs, **meta)
        sources = [leaf for leaf in flatten_arrays((args, kwargs)) if isinstance(leaf, TracedArray)]
        if not isinstance(result, tuple | list):
            return self.tracer.array(as_array(result), node, sources)
        node.meta["tuple"] = True
        parts: list[Any] = list(result)  # None is the gradient of a weight that is not there
        for index, part in enumerate(result):
            if part is not None:
                item = self.tracer.record(operator.getitem, (node, index), {})
                parts[index] = self.tracer.array(as_array(part), item, sources)
        return tuple(parts) if isinstance(result, tuple) else parts

    def call(self, function: Function, args: Sequence[Any], kwargs: Settings) -> Any:
        """Run a NumPy function on traced arrays, by the device's function of that name."""
        name = getattr(function, "__name__", "")
        compute = self.function(function)
        if not self.tracer.is_running():
            return compute(*to_held(tuple(args)), **to_held(dict(kwargs)))
        if name in WRITING_FUNCTIONS:  # a graph has the new value instead
            return self.call_writing(function, args, kwargs)
        out = kwargs.get("out")
        keywords = {key: value for key, value in kwargs.items() if key != "out"}
        if name in DATA_DEPENDENT_SIZE or (name == "where" and len(args) == 1):
            self.tracer.poison(f"the size of what {name} returns depends on the numbers")
        result = compute(*to_held(tuple(args)), **to_held(keywords))
        if name in QUERY_FUNCTIONS:
            return result
        if name in CREATION_FUNCTIONS:
            if self.tracer.options.keeps_creations and name.removesuffix("_like") in CREATIONS:
                return self.created(name, args, kwargs, result)
            return self.lift_result(result)
        if not (isinstance(result, tuple | list) or self.is_array(result)):
            self.tracer.poison(f"{name} of arrays gives a value of Python")
            return result
        made = self.record_node(*self.as_op(function, name, args, keywords), result)
        if out is None:
            return made
        target = out[0] if isinstance(out, tuple) else out
        if not isinstance(target, TracedArray):
            self.tracer.poison("a result is written into an array from outside")
            target[...] = to_held(made)
            return target
        if not np.can_cast(made.dtype, target.dtype, "same_kind"):  # as NumPy refuses it
            raise TypeError(f"{name}: cannot write {made.dtype} into {target.dtype}")
        self.setitem(target, ..., made)
        return target

    def creation_node(
        self, name: str, args: Sequence[Any], settings: Settings, result: np.ndarray
    ) -> Node:
        """Add a call of a creation function, such as `zeros`, to the graph."""
        settings = {**settings, "dtype": dtypes.of(result.dtype)}
        node = self.tracer.record(CREATIONS[name], tuple(args), settings)
        node.meta.update(array_meta(result))
        return node

    def created(
        self, name: str, args: Sequence[Any], kwargs: Settings, result: np.ndarray
    ) -> TracedArray:
        """Return an array that a creation function of NumPy made, as the result of a node."""
        named = {key: value for key, value in kwargs.items() if key == "fill_value"}
        if name in ("arange", "linspace", "eye"):
            values, named = tuple(args), {}
        elif name.startswith("full"):
            value = named.pop("fill_value", args[1] if len(args) > 1 else None)
            values = (tuple(result.shape), to_held(value))
        else:
            values = (tuple(result.shape),)
        node = self.creation_node(name.removesuffix("_like"), values, named, result)
        return self.tracer.array(result, node)

    def as_op(
        self, function: Function, name: str, args: Sequence[Any], kwargs: Settings
    ) -> tuple[Any, Any, Any]:
        """Return the equivalent op, if there is one, with its arguments."""
        same = NUMPY_TO_OP.get(name)
        if same is None or kwargs or len(args) < len(REGISTRY[same].inputs):
            return function, args, kwargs
        op = REGISTRY[same]
        if not any(isinstance(argument, TracedArray) for argument in args):
            return function, args, kwargs
        if op.family.broadcasts and any(isinstance(argument, np.generic) for argument in args):
            return function, args, kwargs
        settings = {setting: op.signature.parameters[setting].default for setting in op.settings}
        return op.function, args, settings

    def call_writing(self, function: Function, args: Sequence[Any], kwargs: Settings) -> Any:
        """Run a NumPy function that writes into its first argument."""
        target, *others = args
        if not isinstance(target, TracedArray):
            self.tracer.poison("an array from outside is written")
            return self.function(function)(*to_held(tuple(args)), **to_held(dict(kwargs)))
        self.tracer.save_before_write(target)
        value = self.tracer.record(
            primitives.apply_to_copy, (function, target, *others), kwargs
        )  # fmt: skip
        value.meta.update(array_meta(target.held))
        self.function(function)(target.held, *to_held(tuple(others)), **to_held(dict(kwargs)))
        self.tracer.write(target, value)
        return None

    def method(self, name: str, array: TracedArray, args: Sequence[Any], kwargs: Settings) -> Any:
        """Run a method of an array."""
        out = kwargs.get("out")
        if name in ("sort", "partition", "put", "resize", "itemset", "setflags", "byteswap"):
            self.tracer.poison(f"an array is changed by its method {name!r}")
            return getattr(array.held, name)(*to_held(tuple(args)), **to_held(dict(kwargs)))
        if name in ("tobytes", "tofile", "dump", "dumps", "data"):
            self.tracer.poison(f"the numbers of a tensor are taken with {name!r}")
            return getattr(array.held, name)(*args, **kwargs)
        if out is not None:
            self.tracer.poison(f"a method writes into an array: {name!r}")
        result = getattr(array.held, name)(*to_held(tuple(args)), **to_held(dict(kwargs)))
        if not (isinstance(result, tuple) or self.is_array(result)):
            return result
        if name in ("sum", "mean") and not set(kwargs) - {"axis", "keepdims"} and len(args) < 2:
            axis = args[0] if args else kwargs.get("axis")
            if axis is None:
                axis = tuple(range(array.ndim))
            if name == "sum" and array.dtype.char in "fd":
                op = REGISTRY["sum"]
                # The op sums more precisely: only where both give the same bits. (A device
                # adds in an order of its own: there the op's result is the result.)
                same = op.forward(self.library, array.held, axis, kwargs.get("keepdims", False))
                on_device = self.library is not np
                if on_device or np.array_equal(same, result, equal_nan=True):
                    result = same
                    settings = {
                        "dim": axis,
                        "keepdim": kwargs.get("keepdims", False),
                        "dtype": None,
                    }
                    return self.record_op("sum", (array,), settings, result)
        return self.record_node(primitives.call_method, (name, array, *args), kwargs, result)

    def cast(self, array: TracedArray, dtype: np.dtype) -> TracedArray:
        """Convert to another dtype."""
        result = array.held.astype(dtype)
        target = next((candidate for candidate in dtypes.ALL if candidate.numpy == dtype), None)
        if target is None:
            return self.record_node(primitives.cast, (array, dtype), {}, result)
        return self.record_op("convert_dtype", (array,), {"dtype": target}, result)

    def number(self, function: Function, operands: Sequence[Any]) -> Any:
        """Compute with Python numbers, some of them traced."""
        value = function(*(getattr(operand, "value", operand) for operand in operands))
        if not self.tracer.is_running():
            return value
        return TracedNumber(self, value, self.tracer.record(function, operands, {}, number=True))

    # Indexing --------------------------------------------------------------------------------

    def getitem(self, array: TracedArray, index: object) -> Any:
        """Index an array."""
        result = as_array(array.held[to_held(index)])
        return self.record_node(primitives.take, (array, index), {}, result)

    def setitem(self, array: TracedArray, index: object, values: object) -> None:
        """Assign to elements of an array."""
        tracer = self.tracer
        if not tracer.is_running():
            array.held[to_held(index)] = to_held(values)
            return
        tracer.save_before_write(array)  # an error later in the function undoes the writes
        if index is ... or index == () or (index.__class__ is slice and index == slice(None)):
            value = self.overwritten_node(array, values)
        else:
            value = tracer.record(primitives.set_item, (array, index, values), {})
            value.meta.update(array_meta(array.held))
        array.held[to_held(index)] = to_held(values)
        tracer.write(array, value)

    def overwritten_node(self, array: TracedArray, values: Array) -> Node:
        """Return a node for an array after all its elements are set to `values`."""
        alike = isinstance(values, TracedArray) and values.shape == array.shape
        if alike and values.dtype == array.dtype:  # no copy of the old elements is needed
            return values.node
        node = self.tracer.record(primitives.fill_like, (array, values), {})
        node.meta.update(array_meta(array.held))
        return node

    # Arrays from elsewhere ---------------------------------------------------------------------

    def lift_result(self, result: object) -> Any:
        """Return arrays that depend on no input as traced ones."""
        if isinstance(result, tuple):
            return tuple(map(self.lift_result, result))
        return self.tracer.array(as_array(result), None)

    def lift(self, array: Array) -> TracedArray:
        """Return an array that was created in the captured function as a constant."""
        if isinstance(array, TracedArray):
            return array
        held = as_plain_array(array)
        known = self.tracer.memories.get(memory_owner(held))
        if known is not None:
            for entry in known.entries:
                if same_view(entry.held, held):
                    return entry
            self.tracer.poison("an array is used that shows the memory of a tensor")
        traced = self.tracer.array(held, None)
        self.tracer.memories.setdefault(memory_owner(held), traced.memory)
        self.tracer.keep_alive.append(held)
        return traced

    def enter(self, array: Array, dim: int | None) -> TracedArray:
        """Make an array from outside an array of this backend.

        Raises: DeviceError: it has several elements and is on another device.
        """
        if isinstance(array, TracedArray) and array.backend.inner is self.inner:
            return array
        held = to_held(array)
        if self.is_array(held):
            return self.lift(array)
        # As without a capture: a single number of the CPU may be combined with any device.
        if held.ndim or not isinstance(held, np.ndarray):
            raise DeviceError(
                "device", "the tensors are on several devices",
                {"devices": f"{backends.of(held).device_name} and {self.device_name}"},
                "move them to one of these with .to(device)",
            )  # fmt: skip
        target = self.inner.from_numpy(held)
        if not isinstance(array, TracedArray):
            return self.lift(target)
        return self.record_node(primitives.to_device, (array,), {}, target)

    def asarray(self, values: object, dtype: np.dtype | None = None) -> Any:
        """Make an array of this backend."""
        if isinstance(values, TracedArray):
            return values if dtype is None else values.astype(dtype, copy=False)
        if isinstance(values, TracedNumber):
            held = self.library.asarray(values.value, dtype)
            return self.record_node(primitives.as_array, (values, held.dtype), {}, held)
        return self.lift(self.library.asarray(values, dtype))

    def from_numpy(self, array: np.ndarray) -> TracedArray:
        return self.lift(self.inner.from_numpy(array))

    def to_numpy(self, array: TracedArray) -> np.ndarray:
        self.tracer.poison("the numbers of a tensor are read (printed, or taken by NumPy)")
        return self.inner.to_numpy(array.held)

    # The interface of every backend ------------------------------------------------------------

    def scatter_add(self, target: TracedArray, index: object, values: Array) -> None:
        self.tracer.save_before_write(target)
        value = self.tracer.record(primitives.scatter_add, (target, index, values), {})
        value.meta.update(array_meta(target.held))
        self.inner.scatter_add(target.held, to_held(index), to_held(values))
        self.tracer.write(target, value)

    def as_strided(
        self, array: TracedArray, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> TracedArray:
        held = self.inner.as_strided(array.held, shape, strides, offset)
        root = array.memory.root
        whole = self.tracer.array(held, None, [array])
        # Its node is made at its first use, from the whole memory.
        whole.memory, whole.seen_version = root.memory, -1
        return whole

    def storage(self, array: TracedArray) -> tuple[int, int]:
        return self.inner.storage(array.held)

    def memory(self, array: TracedArray) -> Any:
        self.tracer.poison("the bytes of a tensor are read")
        return self.inner.memory(array.held)

    def shares_memory(self, view: Array, of: Array) -> bool:
        return isinstance(view, TracedArray) and view is not of and view.memory is of.memory

    def broadcast_to(self, array: TracedArray, shape: tuple[int, ...]) -> TracedArray:
        held = self.inner.broadcast_to(array.held, shape)
        return self.record_op("expand", (array,), {"size": tuple(shape)}, held)

    def diagonal(self, array: TracedArray, offset: int, axis1: int, axis2: int) -> TracedArray:
        return self.call(np.diagonal, (array, offset, axis1, axis2), {})

    def address(self, array: TracedArray) -> int:
        return self.inner.address(array.held)

    def generator(self, seed: int) -> Any:
        return self.inner.generator(seed)

    def synchronize(self) -> None:
        """Poison the capture on a device; NumPy is done when it returns."""
        if self.inner is not backends.CPU:
            self.tracer.poison("the host waits for the device (synchronize)")
        self.inner.synchronize()


backends.register_type(TracedArray)
