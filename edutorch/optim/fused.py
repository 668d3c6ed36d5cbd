"""Fused optimizer steps: one kernel call for all parameters of a group, with identical results.

The kernel gets a table of pointers. Parameters and state stay in place from step to step, so the
table is cached, and each step only checks that the arrays are still the same objects. Gradients are
new in each step; small ones are concatenated, which is faster than reading each one's address.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..backends.kernel_registry import slot
from ..backends.numpy import Array
from ..core.source_location import CodeLocation
from ..core.tensor import Tensor

__all__ = ["FusedKernel"]

MIN_FUSED_SIZE = 8192
"""Groups with fewer elements are not fused: the plain `update` is as fast."""

SMALL_GRADIENT_SIZE = 4096
"""Gradients with fewer elements on average are concatenated into one array."""

TABLE_COLUMNS = 5
STEP_COUNT = slot("STEP_COUNT")


class FusedKernel:
    """The fused kernel of an optimizer, with its pointer tables.

    Args:
        settings: (group, step number, state of each parameter) → the scalars for the kernel;
            None if this step cannot be fused.
        counted: whether the optimizer counts its steps.
        columns: the names of the state's arrays, each with the setting of the group that
            enables it (None: always there).
    """

    def __init__(
        self, settings: Callable[..., tuple[float, ...] | None], *, counted: bool = True,
        **columns: str | None,
    ) -> None:  # fmt: skip
        self.settings, self.counted, self.columns = settings, counted, columns
        self.tables: WeakKeyDictionary[Any, dict[Any, PointerTable]] = WeakKeyDictionary()

    def __set_name__(self, optimizer: type, attribute: str) -> None:
        self.slot = slot(f"{optimizer.__name__}.{attribute}")

    def kernel(self, device: str) -> Callable[..., Any]:
        """Attach the kernel that makes a whole step: `@optim.Adam.fused_kernel.kernel("cpu")`."""
        return self.slot.kernel(device)

    def step(
        self,
        optimizer: Any,
        key: Any,
        group: dict[str, Any],
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
            return False
        run = self.slot.run
        if run is None or STEP_COUNT.run is None:
            self.slot.request()
            STEP_COUNT.request()
            run = self.slot.run  # set by now where kernels are compiled synchronously
            if run is None or STEP_COUNT.run is None:
                return False
        tables = self.tables.setdefault(optimizer, {})
        table = tables.get(key)
        columns = [
            name for name, setting in self.columns.items() if setting is None or group[setting]
        ]
        if table is None or not table.is_current(params, optimizer.state, columns):
            table = tables[key] = PointerTable(self, params, optimizer.state, columns)
        if not table.can_fuse:
            return False
        grads = table.gradients(params, group.get("maximize", False))
        if grads is None:
            return False
        steps = STEP_COUNT.run(table.steps, 0.0, table.one) if self.counted else 0.0
        if steps < 0:  # the step counts differ
            return self._step_by_count(optimizer, key, group, params, location)
        settings = self.settings(group, steps + 1, table.states)
        if settings is None:
            return False
        if self.counted:
            STEP_COUNT.run(table.steps, 1.0, table.one)
        run(table.count, table.ends, table.addresses, np.array(settings, table.dtype))
        for param in params:
            param._bump(location)
        return True

    def _step_by_count(
        self,
        optimizer: Any,
        key: Any,
        group: dict[str, Any],
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


class PointerTable:
    """The addresses of parameters, gradients and state for one group.

    Attributes:
        can_fuse: whether a kernel can take them: one dtype, contiguous, no overlap.
        ends: the cumulative number of elements at the end of each parameter.
    """

    def __init__(
        self, kernel: FusedKernel, params: list[Tensor], state: Any, columns: list[str]
    ) -> None:
        self.params, self.arrays = params, [param._array for param in params]
        self.states = [state.get(param, {}) for param in params]
        self.columns = columns
        self.names = (*columns, "step") if kernel.counted else tuple(columns)
        self.state_arrays = [
            [array_of(state, name) for state in self.states] for name in self.names
        ]
        self.count = sum(array.size for array in self.arrays)
        self.dtype = self.arrays[0].dtype
        self.can_fuse = self._can_fuse(len(columns))
        if not self.can_fuse:
            return
        self.one = np.ones(1)
        self.addresses = np.zeros((len(params), TABLE_COLUMNS), np.int64)
        self.addresses[:, 0] = [address(array) for array in self.arrays]
        for name, arrays in zip(columns, self.state_arrays, strict=False):
            column = 2 + list(kernel.columns).index(name)
            self.addresses[:, column] = [address(array) for array in arrays]
        if kernel.counted:
            self.one = np.ones(1, self.state_arrays[-1][0].dtype)
            self.steps = np.array([address(step) for step in self.state_arrays[-1]])
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
        ranges = sorted((address(array), array.nbytes) for array in (*arrays, *steps))
        return all(a + size <= b for (a, size), (b, _) in pairwise(ranges))

    def is_current(self, params: list[Tensor], state: Any, columns: list[str]) -> bool:
        """Whether the parameters and their arrays are those of the last step."""
        if len(params) != len(self.params) or not all(map(is_, params, self.params)):
            return False
        if columns != self.columns:
            return False
        if not all(map(is_, [param._array for param in params], self.arrays)):
            return False
        try:
            self.states = [state.get(param) for param in params] if self.names else []
            for name, arrays in zip(self.names, self.state_arrays, strict=True):
                if not all(map(is_, [state[name]._array for state in self.states], arrays)):
                    return False
        except (KeyError, TypeError, AttributeError):  # there is no state yet
            return not self.can_fuse
        return True

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
            self.addresses[:, 1] = address(row) + self.row_offsets
            return [row]
        grads = [np.ascontiguousarray(-grad if maximize else grad) for grad in grads]
        self.addresses[:, 1] = [address(grad) for grad in grads]
        return grads


def array_of(state: dict[str, Any], name: str) -> Any:
    """Return the array of this name in a parameter's state, or None where absent."""
    return getattr(state.get(name), "_array", None)


def address(array: Array) -> int:
    """Return the address of the first element of an array."""
    return array.__array_interface__["data"][0]
