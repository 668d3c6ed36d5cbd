"""A step for all parameters of a group at once, by a kernel, to the same bits.

The kernel gets a table of where the numbers lie. Parameters and what is remembered about them
stay where they are from step to step, so the table is kept, and each step only asks whether the
arrays are still the same ones. Gradients are new each time; small ones are copied into one row,
which takes less time than asking each of them for its address.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..backends.numpy import Array
from ..backends.reference_mode import slot
from ..core.source_location import Place
from ..core.tensor import Tensor

__all__ = ["AtOnce"]

LEAST = 8192
"""With fewer numbers in a group, the definition is as fast."""

SMALL = 4096
"""Gradients with fewer numbers on average are copied into one row."""

COLUMNS = 5
COUNT = slot("optimizers.step_count", least=0)


class AtOnce:
    """The kernel of one optimizer, and what it wants to know.

    Args:
        name: of its maker in `kernels/cpu/optimizers.py`.
        settings: (group, number of this step, what is remembered of each parameter) → the
            numbers that the kernel gets; None if it cannot.
        counted: whether the optimizer counts its steps.
        columns: what is remembered about a parameter, by name, and the setting of the group
            without which it is not (None: it always is).
    """

    def __init__(
        self, name: str, settings: Callable[..., tuple[float, ...] | None], *,
        counted: bool = True, **columns: str | None,
    ) -> None:  # fmt: skip
        self.slot = slot(f"optimizers.{name}", LEAST)
        self.settings, self.counted, self.columns = settings, counted, columns
        self.tables: WeakKeyDictionary[Any, dict[Any, Table]] = WeakKeyDictionary()

    def step(
        self, optimizer: Any, key: Any, group: dict[str, Any], params: list[Tensor], place: Place
    ) -> bool:
        """Update these parameters of a group. False: nothing was done, the definition has to.

        Args:
            key: names the group, so that its table is found again.
        """
        if sum([param._array.size for param in params]) < LEAST or group.get("differentiable"):
            return False
        run = self.slot.run
        if run is None or COUNT.run is None:
            self.slot.ask()
            COUNT.ask()
            run = self.slot.run  # there already, where the asking waits for it
            if run is None or COUNT.run is None:
                return False
        tables = self.tables.setdefault(optimizer, {})
        table = tables.get(key)
        wanted = [each for each, need in self.columns.items() if need is None or group[need]]
        if table is None or not table.still(params, optimizer.state, wanted):
            table = tables[key] = Table(self, params, optimizer.state, wanted)
        if not table.fits:
            return False
        grads = table.gradients(params, group.get("maximize", False))
        if grads is None:
            return False
        steps = COUNT.run(table.steps, 0.0, table.one) if self.counted else 0.0
        if steps < 0:  # some have had fewer gradients so far
            return self._by_steps(optimizer, key, group, params, place)
        settings = self.settings(group, steps + 1, table.states)
        if settings is None:
            return False
        if self.counted:
            COUNT.run(table.steps, 1.0, table.one)
        run(table.count, table.ends, table.addresses, np.array(settings, table.kind))
        for param in params:
            param._bump(place)
        return True

    def _by_steps(
        self, optimizer: Any, key: Any, group: dict[str, Any], params: list[Tensor], place: Place
    ) -> bool:
        """Update parameters that have had different numbers of steps, those of each together."""
        alike: dict[float, list[Tensor]] = {}
        for param in params:
            alike.setdefault(optimizer.state[param]["step"].item(), []).append(param)
        for number, some in enumerate(alike.values()):
            if not self.step(optimizer, (key, number), group, some, place):
                optimizer.step_each(group, some, place)
        return True


class Table:
    """Where the numbers of some parameters lie, and of what is remembered about them.

    Attributes:
        fits: whether a kernel can take them: one kind of numbers, no gaps, nothing twice.
        ends: how many numbers there are up to the end of each parameter.
    """

    def __init__(self, plan: AtOnce, params: list[Tensor], state: Any, wanted: list[str]) -> None:
        self.params, self.arrays = params, [param._array for param in params]
        self.states = [state.get(param, {}) for param in params]
        self.wanted = wanted
        self.names = (*wanted, "step") if plan.counted else tuple(wanted)
        self.held = [[array_of(state, name) for state in self.states] for name in self.names]
        self.count = sum(array.size for array in self.arrays)
        self.kind = self.arrays[0].dtype
        self.fits = self._fit(len(wanted))
        if not self.fits:
            return
        self.one = np.ones(1)
        self.addresses = np.zeros((len(params), COLUMNS), np.int64)
        self.addresses[:, 0] = [address(array) for array in self.arrays]
        for name, arrays in zip(wanted, self.held, strict=False):
            column = 2 + list(plan.columns).index(name)
            self.addresses[:, column] = [address(array) for array in arrays]
        if plan.counted:
            self.one = np.ones(1, self.held[-1][0].dtype)
            self.steps = np.array([address(each) for each in self.held[-1]])
        sizes = [array.size for array in self.arrays]
        self.ends = np.cumsum(sizes).astype(np.uint64)
        self.places: Array | None = None  # in one row of all gradients, if they are small
        if self.count < SMALL * len(params):
            before = (self.ends - np.array(sizes, np.uint64)).astype(np.int64)
            self.places = before * self.kind.itemsize

    def _fit(self, wanted: int) -> bool:
        arrays = [*self.arrays, *(each for held in self.held[:wanted] for each in held)]
        if self.kind not in (np.float32, np.float64) or not all(
            array.__class__ is np.ndarray and array.dtype == self.kind and array.flags.c_contiguous
            and array.flags.writeable for array in arrays
        ):  # fmt: skip
            return False
        steps = self.held[wanted] if len(self.held) > wanted else []
        if not all(
            step.__class__ is np.ndarray and step.dtype == steps[0].dtype and step.dtype.kind == "f"
            and step.itemsize > 2 and not step.ndim for step in steps
        ):  # fmt: skip
            return False
        places = sorted((address(array), array.nbytes) for array in (*arrays, *steps))
        return all(a + size <= b for (a, size), (b, _) in pairwise(places))

    def still(self, params: list[Tensor], state: Any, wanted: list[str]) -> bool:
        """Say whether the parameters, and their arrays, are those of the last step."""
        if len(params) != len(self.params) or not all(map(is_, params, self.params)):
            return False
        if wanted != self.wanted:
            return False
        if not all(map(is_, [param._array for param in params], self.arrays)):
            return False
        try:
            self.states = [state.get(param) for param in params] if self.names else []
            for name, arrays in zip(self.names, self.held, strict=True):
                if not all(map(is_, [state[name]._array for state in self.states], arrays)):
                    return False
        except (KeyError, TypeError, AttributeError):  # nothing is remembered yet
            return not self.fits
        return True

    def gradients(self, params: list[Tensor], maximize: bool) -> list[Array] | None:
        """Write down where the gradients are. Their arrays must live until the step is taken."""
        grads = [param._grad._array for param in params]  # type: ignore[union-attr]
        kind = self.kind
        for grad in grads:
            if grad.__class__ is not np.ndarray or grad.dtype != kind:
                return None
        if self.places is not None:
            row = np.concatenate(grads, axis=None)
            if maximize:
                np.negative(row, out=row)
            self.addresses[:, 1] = address(row) + self.places
            return [row]
        grads = [np.ascontiguousarray(-grad if maximize else grad) for grad in grads]
        self.addresses[:, 1] = [address(grad) for grad in grads]
        return grads


def array_of(state: dict[str, Any], name: str) -> Any:
    """Return the array of this name that is remembered about a parameter; None without one."""
    return getattr(state.get(name), "_array", None)


def address(array: Array) -> int:
    """Return where the first number of an array is."""
    return array.__array_interface__["data"][0]
