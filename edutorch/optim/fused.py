"""Fused optimizer steps: one kernel call for all parameters of a group, with identical results.

The kernel is generated from the optimizer's own rule. This runs once with an `Element` in place of
each array, which writes down what is computed with it; `if` has been decided by the settings then.
So each combination of settings has a kernel of its own. The scalars of a trace, such as the factor
of the bias correction, differ from step to step: the rule is traced in each, which takes a few µs,
and its scalars are passed to the kernel.

The kernel gets a table of pointers. Parameters and state stay in place from step to step, so the
table is cached, and each step only checks that the arrays are still the same objects. Gradients are
new in each step; small ones are concatenated, which is faster than reading each one's address.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from itertools import pairwise
from operator import is_
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from .. import backends
from ..backends import kernel_registry
from ..backends.addresses import address_of
from ..backends.element_trace import ElementNamespace, Trace
from ..backends.kernel_registry import Slot, declarations, slot
from ..backends.numpy import Array
from ..core.tensor import Tensor, array_of
from ..errors import CodeLocation
from ..ops import ones
from .update_rule import Group, State

if TYPE_CHECKING:
    from .optimizer import Optimizer

__all__ = ["FusedKernel", "KernelSource"]

MIN_FUSED_SIZE = 8192
"""Groups with fewer elements are not fused: the plain `update` is as fast."""

SMALL_GRADIENT_SIZE = 4096
"""Gradients with fewer elements on average are concatenated into one array."""

TABLE_COLUMNS = 5
STEP_COUNT = slot("STEP_COUNT")
FUSED_STEP = slot("FUSED_STEP")
"""The step of a group on a device with kernels of its own."""

# The trace of a rule ---------------------------------------------------------------------------


class KernelSource(NamedTuple):
    """What a kernel does with one element.

    Attributes:
        columns: the names of the state's arrays.
        scalars: the number of scalars, which it calls s0, s1 …
        lines: the computation; the element of an array `m` is `m[i]`.
    """

    columns: tuple[str, ...]
    scalars: int
    lines: tuple[str, ...]


class UpdateTrace(Trace):
    """What an optimizer's rule computes.

    Attributes:
        results: what has become of `param` and of the state's arrays.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        super().__init__(("param", "grad", *columns))

    def run(self, optimizer: Optimizer, group: Group, host_state: State) -> None:
        """Trace the rule of an optimizer, which changes the scalars in `host_state`."""
        param, grad, *arrays = self.arrays
        columns = self.names[2:]
        state = {**host_state, **dict(zip(columns, arrays, strict=True))}
        optimizer.update(ElementNamespace, group, param, grad, state)
        self.results = [param, *[state[name] for name in columns]]

    def program(self) -> tuple[Any, ...]:
        """Return the operations, and the values that the arrays have at the end."""
        return (self.names, *self.operations, *[element.index for element in self.results])

    def source(self) -> KernelSource:
        """Return the source of the kernel."""
        scalars = [f"s{index}" for index in range(len(self.scalars))]
        lines, results = self.write(self.results, scalars)
        # All results are stored at the end: a load right after a store to the same cache line
        # would defeat store forwarding, and make a step take twice as long.
        stored = (self.names[0], *self.names[2:])  # the gradient is not changed
        stores = [
            f"{array}s[i] = {result}"
            for array, result in zip(stored, results, strict=True)
            if result != array
        ]
        used = set(re.findall(r"\w+", " ".join((*lines, *stores))))
        loads = [f"{name} = {name}s[i]" for name in self.names if name in used]
        return KernelSource(self.names[2:], len(scalars), (*loads, *lines, *stores))


# The kernel ------------------------------------------------------------------------------------

Maker = Callable[[KernelSource], Callable[..., None]]


class FusedKernel:
    """The kernels of an optimizer's rule, one for each combination of settings in use.

    Args:
        scalars: the names of scalars in the state besides "step". They are the same for all
            parameters, and the rule may change them.

    Attributes:
        slot: the slot of the kernel for the default settings, if it is declared. Those for other
            settings have a hash of their source in their names.
        maker: makes a kernel of its source; it is set when `kernels/cpu/optimizers.py` is imported.
    """

    maker: ClassVar[Maker]

    def __init__(self, *, scalars: tuple[str, ...] = ()) -> None:
        self.scalars = scalars
        self.slots: dict[tuple[Any, ...], Slot] = {}
        self.tables: WeakKeyDictionary[Any, dict[Any, PointerTable]] = WeakKeyDictionary()

    def __set_name__(self, owner: type[Optimizer], name: str) -> None:
        self.owner = owner
        key = f"{owner.__name__}.{name}"
        self.slot, self.is_declared = self.slot_of(key, self.default_source), key in declarations()

    @staticmethod
    def slot_of(key: str, source: Callable[[], KernelSource]) -> Slot:
        """Return a slot whose kernel is made from a source."""
        made = slot(key)
        made.file, made.maker = "optimizers", lambda: FusedKernel.maker(source())
        return made

    def kernel(self, device: str) -> Callable[[Maker], Maker]:
        """Declare a kernel, so that `warmup` makes it: `@optim.Adam.fused_kernel.kernel("cpu")`."""

        def attach(maker: Maker) -> Maker:
            FusedKernel.maker = staticmethod(maker)  # type: ignore[assignment]
            self.slot.kernel(device)(functools.wraps(maker)(lambda: maker(self.default_source())))
            return maker

        return attach

    def step(
        self,
        optimizer: Optimizer,
        key: object,
        group: Group,
        params: list[Tensor],
        location: CodeLocation,
    ) -> bool:
        """Update parameters of a group; return False if nothing was done and `update` has to.

        Args:
            key: identifies the group, for its cached table.
        """
        if sum([param._array.size for param in params]) < MIN_FUSED_SIZE or group.get(
            "differentiable"
        ):
            return self.step_on_device(optimizer, key, group, params, location)
        table = self.current_table(optimizer, key, group, params)
        if not table.can_fuse:
            return self.step_on_device(optimizer, key, group, params, location)
        if (count_step := ready_kernel(STEP_COUNT)) is None:
            return False
        steps = count_step(table.steps, 0.0, table.one) if table.counted else 0.0
        if steps < 0:  # the step counts differ
            return self._step_by_count(optimizer, key, group, params, location)
        host_state = table.host_scalars(self.scalars)
        if host_state is None:
            return False
        host_state["step"] = steps + 1
        try:
            slot, scalars = self.trace(optimizer, group, table.columns, host_state)
        except KeyError:  # a changed setting needs more state than there is
            return False
        if (run := ready_kernel(slot)) is None:
            return False
        grads = table.gradients(params, group.get("maximize", False))
        if grads is None:
            return False
        if table.counted:
            count_step(table.steps, 1.0, table.one)
        for name in self.scalars:
            for state in table.states:
                state[name]._array[...] = host_state[name]
        run(table.count, table.ends, table.addresses, np.array(scalars, table.dtype))
        for param in params:
            param._bump(location)
        return True

    def step_on_device(
        self, optimizer: Optimizer, key: object, group: Group, params: list[Tensor],
        location: CodeLocation,
    ) -> bool:  # fmt: skip
        """Update parameters on a device that has kernels of its own; False: it has none for it."""
        if not kernel_registry.active or self.scalars or group.get("differentiable"):
            return False
        backend = backends.backend_of_type(type(params[0]._array))
        if backend is None or not backend.kernels:
            return False
        arguments = (self, optimizer, key, group, params)
        if not kernel_registry.run_on_device(backend.kernels, "FUSED_STEP", 1, arguments):
            return False
        for param in params:
            param._bump(location)
        return True

    def current_table(
        self, optimizer: Optimizer, key: object, group: Group, params: list[Tensor]
    ) -> PointerTable:
        """Return the table of a group: that of the last step, if it still holds."""
        tables = self.tables.setdefault(optimizer, {})
        table = tables.get(key)
        if table is None or not table.is_current(params, optimizer.state):
            columns, host_state = self.first_state(optimizer, group, params[0])
            table = tables[key] = PointerTable(columns, params, optimizer.state)
            if not optimizer.state.get(params[0]):  # the first step: have it ready for the second
                self.trace(optimizer, group, columns, host_state)[0].request()
                STEP_COUNT.request()
        return table

    def trace(
        self, optimizer: Optimizer, group: Group, columns: tuple[str, ...], host_state: State
    ) -> tuple[Slot, list[float]]:
        """Trace the rule; return the slot of its kernel, and the scalars of this step.

        Args:
            host_state: the scalars of the state, which the rule changes.
        """
        trace = UpdateTrace(columns)
        trace.run(optimizer, group, host_state)
        program = trace.program()
        if program not in self.slots:
            source = trace.source()
            if self.is_declared and source == self.default_source():
                self.slots[program] = self.slot
            else:
                import hashlib  # only here: OpenSSL takes 6 ms to load

                digest = hashlib.sha256(repr(source).encode()).hexdigest()[:12]
                self.slots[program] = self.slot_of(f"{self.slot.name}.{digest}", lambda: source)
        return self.slots[program], trace.scalars

    def default_source(self) -> KernelSource:
        """Return the source of the kernel for the default settings."""
        optimizer = self.owner([ones(1, requires_grad=True)])  # type: ignore[call-arg]
        group = optimizer.param_groups[0]
        columns, host_state = self.first_state(optimizer, group, group["params"][0])
        trace = UpdateTrace(columns)
        trace.run(optimizer, group, host_state)
        return trace.source()

    def first_state(
        self, optimizer: Optimizer, group: Group, param: Tensor
    ) -> tuple[tuple[str, ...], State]:
        """Return the names of the arrays in a state, and the scalars that it begins with."""
        state = optimizer.state.get(param) or optimizer.init_state(group, param)
        return tuple(sorted(state.keys() - {"step", *self.scalars})), {
            "step": 1.0, **{name: array_of(state[name]) for name in self.scalars}
        }  # fmt: skip

    def _step_by_count(
        self,
        optimizer: Optimizer,
        key: object,
        group: Group,
        params: list[Tensor],
        location: CodeLocation,
    ) -> bool:
        """Update parameters whose step counts differ: one call for each step count."""
        by_count: dict[float, list[Tensor]] = {}
        for param in params:
            by_count.setdefault(optimizer.state[param]["step"].item(), []).append(param)
        for index, same_count in enumerate(by_count.values()):
            if not self.step(optimizer, (key, index), group, same_count, location):
                optimizer.step_params(group, same_count, location)
        return True


def ready_kernel(slot: Slot) -> Callable[..., Any] | None:
    """Return a compiled kernel; if there is none, request it."""
    if slot.run is None:
        slot.request()
    return slot.run  # there may be one by now, where kernels are compiled synchronously


class PointerTable:
    """The addresses of parameters, gradients and state for one group.

    Attributes:
        can_fuse: whether a kernel can take them: one dtype, contiguous, no overlap.
        ends: the cumulative number of elements at the end of each parameter.
    """

    def __init__(
        self, columns: tuple[str, ...], params: list[Tensor], state: dict[Tensor, State]
    ) -> None:
        self.params, self.arrays = params, [param._array for param in params]
        self.states = [state.get(param, {}) for param in params]
        self.columns, self.state_size = columns, len(self.states[0])
        self.counted = "step" in self.states[0]
        self.names = (*columns, "step") if self.counted else columns
        self.state_arrays: list[list[Any]] = [
            [getattr(state.get(name), "_array", None) for state in self.states]
            for name in self.names
        ]
        self.count = sum(array.size for array in self.arrays)
        self.dtype = self.arrays[0].dtype
        self.can_fuse = self._can_fuse(len(columns))
        if not self.can_fuse:
            return
        self.one = np.ones(1)
        self.addresses = np.zeros((len(params), TABLE_COLUMNS), np.int64)
        self.addresses[:, 0] = [address_of(array) for array in self.arrays]
        for column in range(len(columns)):
            self.addresses[:, 2 + column] = [
                address_of(array) for array in self.state_arrays[column]
            ]
        if self.counted:
            self.one = np.ones(1, self.state_arrays[-1][0].dtype)
            self.steps = np.array([address_of(step) for step in self.state_arrays[-1]])
        sizes = [array.size for array in self.arrays]
        self.ends = np.cumsum(sizes).astype(np.uint64)
        # Byte offsets in the concatenated gradients, if these are small.
        self.row_offsets: Array | None = None
        if self.count < SMALL_GRADIENT_SIZE * len(params):
            offsets = (self.ends - np.array(sizes, np.uint64)).astype(np.int64)
            self.row_offsets = offsets * self.dtype.itemsize

    def _can_fuse(self, column_count: int) -> bool:
        arrays = [
            *self.arrays,
            *(
                column_array
                for column in self.state_arrays[:column_count]
                for column_array in column
            ),
        ]
        if self.dtype not in (np.float32, np.float64) or not all(
            array.__class__ is np.ndarray and array.dtype == self.dtype and array.flags.c_contiguous
            and array.flags.writeable for array in arrays
        ):  # fmt: skip
            return False
        if any(
            [array.size for array in column] != [array.size for array in self.arrays]
            for column in self.state_arrays[:column_count]
        ):
            return False
        steps = self.state_arrays[column_count] if len(self.state_arrays) > column_count else []
        if not all(
            step.__class__ is np.ndarray
            and step.dtype == steps[0].dtype
            and step.dtype.kind == "f"
            and step.itemsize > 2
            and not step.ndim
            for step in steps
        ):
            return False
        ranges = sorted((address_of(array), array.nbytes) for array in (*arrays, *steps))
        return all(a + size <= b for (a, size), (b, _) in pairwise(ranges))

    def is_current(self, params: list[Tensor], state: dict[Tensor, State]) -> bool:
        """Whether the parameters and their arrays are those of the last step."""
        if len(params) != len(self.params) or not all(map(is_, params, self.params)):
            return False
        if not all(map(is_, [param._array for param in params], self.arrays)):
            return False
        try:
            if not self.state_size and not state:
                return True
            self.states = [state.get(param, {}) for param in params]
            if any(len(state) != self.state_size for state in self.states):
                return False
            for name, arrays in zip(self.names, self.state_arrays, strict=True):
                if not all(map(is_, [state[name]._array for state in self.states], arrays)):
                    return False
        except (KeyError, AttributeError):  # a state without this array
            return not self.can_fuse
        return True

    def host_scalars(self, names: tuple[str, ...]) -> State | None:
        """Return copies of scalars of the state; None where the parameters' differ."""
        if not names:
            return {}
        copies = {name: self.states[0][name]._array.copy() for name in names}
        for state in self.states[1:]:
            if any(state[name]._array != copy for name, copy in copies.items()):
                return None
        return copies

    def gradients(self, params: list[Tensor], maximize: bool) -> list[Array] | None:
        """Fill in the addresses of the gradients; return the arrays, to keep alive for the step."""
        grads = [param._grad._array for param in params]  # type: ignore[union-attr]
        dtype = self.dtype
        for grad in grads:
            if grad.__class__ is not np.ndarray or grad.dtype != dtype:
                return None
        if self.row_offsets is not None:
            row = np.concatenate(grads, axis=None)
            if maximize:
                np.negative(row, out=row)
            self.addresses[:, 1] = address_of(row) + self.row_offsets
            return [row]
        grads = [np.ascontiguousarray(-grad if maximize else grad) for grad in grads]
        self.addresses[:, 1] = [address_of(grad) for grad in grads]
        return grads
