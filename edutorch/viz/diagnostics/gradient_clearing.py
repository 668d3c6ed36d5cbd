"""Finds gradients that are not cleared between two updates.

Accumulation is what `backward` is for: over parts of a batch, over several losses, over the
networks of a GAN. So it is no mistake that a gradient is added to another one, but that the same
`.grad` survives from one update of its parameter to the next. A few parameters are watched for
that: one of each optimizer.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from ... import backends
from ...core.tensor import Tensor
from .non_finite_causes import as_plain_array

UNCLEARED = 3
"""After this many updates in a row with the gradient of the one before, there is a finding."""

MOST_WITNESSES = 8

FEW = 65_536
"""How many elements of a gradient are compared at most."""


class WatchedGradient:
    """One parameter, and what was known of its gradient when a step had ended.

    Attributes:
        leaf: the parameter.
        held: its gradient then; None if it had none.
        written: how often that gradient had been written to.
        updated: how often the parameter had been.
        step: the number of that step.
        writes_per_step: how often a step writes to the gradient, from the last full sample.
        count: after how many updates in a row the gradient was still there.
        uncleared: whether it was after the last full sample.
    """

    __slots__ = (
        "count",
        "held",
        "leaf",
        "step",
        "uncleared",
        "updated",
        "writes_per_step",
        "written",
    )

    def __init__(self, leaf: Tensor) -> None:
        self.leaf = weakref.ref(leaf)
        self.held: weakref.ref[Tensor] | None = None
        self.written = self.updated = self.step = self.writes_per_step = self.count = 0
        self.uncleared = False

    def note(self, leaf: Tensor, step: int) -> None:
        """Record the state at the end of a step."""
        held = leaf._grad
        self.held = None if held is None else weakref.ref(held)
        self.written = 0 if held is None else held._version
        self.updated, self.step = leaf._version, step

    def is_uncleared(self, leaf: Tensor) -> bool:
        """Return True if the parameter was updated since, and its gradient is the same object."""
        held = leaf._grad
        kept = self.held is not None and held is not None and self.held() is held
        return kept and leaf._version != self.updated


class ClearingCheck:
    """Watches the gradients of some parameters from step to step."""

    def __init__(self) -> None:
        self._witnesses: dict[int, WatchedGradient] = {}
        self.forget()

    def forget(self) -> None:
        """Begin a new step."""
        self._added: dict[int, bool] = {}  # by leaf: its first gradient was added to another one
        self._received: list[weakref.ref[Tensor]] = []

    def record_gradient(self, leaf: Tensor, gradient: Any) -> None:
        """Record a gradient in a step that is sampled in full."""
        if id(leaf) in self._added:
            return
        self._received.append(weakref.ref(leaf))
        watched = id(leaf) in self._witnesses
        self._added[id(leaf)] = watched and was_added_to(leaf, gradient)

    def step_ended(self, step: int, optimizers: Iterable[Any], full: bool) -> list[WatchedGradient]:
        """Return the witnesses whose gradients are not cleared.

        Args:
            step: its number.
            optimizers: those that are known.
            full: it was sampled in full; else it is one like the last of which that is true.
        """
        uncleared = []
        for key, witness in list(self._witnesses.items()):
            leaf = witness.leaf()
            if leaf is None:
                del self._witnesses[key]
                continue
            if self._count_update(witness, leaf, full, step) and self._is_nonzero(leaf):
                uncleared.append(witness)
            witness.note(leaf, step)
        if full:
            self._choose(optimizers, step)
        return uncleared

    def note(self, step: int) -> None:
        """Record the end of a step that was not sampled."""
        for witness in self._witnesses.values():
            leaf = witness.leaf()
            if leaf is not None:
                witness.note(leaf, step)

    def _count_update(self, witness: WatchedGradient, leaf: Tensor, full: bool, step: int) -> bool:
        """Count an update; return True after too many with the gradient of the one before."""
        is_uncleared = witness.is_uncleared(leaf)
        writes = 0 if leaf._grad is None else leaf._grad._version - witness.written
        if full and id(leaf) in self._added:
            added = self._added[id(leaf)]
            if leaf._version != witness.updated:
                witness.uncleared = is_uncleared and added
                witness.count = witness.count + 1 if witness.uncleared else 0
                witness.writes_per_step = writes
        elif not full and witness.uncleared:
            if not is_uncleared:
                witness.count, witness.uncleared = 0, False
            elif writes == witness.writes_per_step * (
                step - witness.step
            ):  # nothing has cleared it in place
                witness.count += 1
        return witness.uncleared and witness.count >= UNCLEARED

    def _is_nonzero(self, leaf: Tensor) -> bool:
        assert leaf._grad is not None
        held = as_plain_array(leaf._grad._array)
        return bool(backends.of(held).xp.any(held).item())

    def _choose(self, optimizers: Iterable[Any], step: int) -> None:
        """Watch the first parameter of each optimizer that got a gradient."""
        watched = set(self._witnesses)
        received = {
            id(leaf): leaf
            for leaf in (reference() for reference in self._received)
            if leaf is not None
        }
        groups = [
            [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
            for optimizer in optimizers
        ]
        for keys in groups or [list(received)]:
            if watched.isdisjoint(keys) and len(self._witnesses) < MOST_WITNESSES:
                first = next((received[key] for key in keys if key in received), None)
                if first is not None:
                    witness = self._witnesses[id(first)] = WatchedGradient(first)
                    witness.note(first, step)


def was_added_to(leaf: Tensor, gradient: Any) -> bool:
    """Return True if there was a gradient other than 0 when this one came."""
    assert leaf._grad is not None
    held = as_plain_array(leaf._grad._array)
    if held is gradient or held.size == 0:
        return False
    a, b = held.ravel()[:FEW], gradient.ravel()[:FEW]
    return not bool((a == b).all().item())
