"""Finds gradients that nobody clears between two updates.

Adding up is what `backward` is for: over parts of a batch, over several losses, over the networks
of a GAN. So it is no trouble that a gradient meets another one, but that the same `.grad` lives on
from one update of its parameter to the next. A few parameters are watched for that: one of each
optimizer.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from ... import backends
from ...core.tensor import Tensor
from .non_finite_causes import as_plain_array

UNCLEARED = 3
"""After so many updates in a row with the gradient of the one before."""

MOST_WITNESSES = 8

FEW = 65_536
"""A gradient is compared by so many of its numbers at most."""


class WatchedGradient:
    """One parameter, and what was known of its gradient when a step had ended.

    Attributes:
        leaf: the parameter.
        held: its gradient then; None if it had none.
        written: how often that gradient had been written to.
        updated: how often the parameter had been.
        step: the number of that step.
        each: how often a step writes to the gradient, from the last one that was looked at in full.
        count: after how many updates in a row the gradient was still there.
        uncleared: whether it was after the last one that was looked at in full.
    """

    __slots__ = ("count", "each", "held", "leaf", "step", "uncleared", "updated", "written")

    def __init__(self, leaf: Tensor) -> None:
        self.leaf = weakref.ref(leaf)
        self.held: weakref.ref[Tensor] | None = None
        self.written = self.updated = self.step = self.each = self.count = 0
        self.uncleared = False

    def note(self, leaf: Tensor, step: int) -> None:
        """Note how things are at the end of a step."""
        held = leaf._grad
        self.held = None if held is None else weakref.ref(held)
        self.written = 0 if held is None else held._version
        self.updated, self.step = leaf._version, step

    def lives_on(self, leaf: Tensor) -> bool:
        """Whether the parameter was updated since, and its gradient is the same object."""
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
        self._added: dict[int, bool] = {}  # by leaf: its first gradient met another one
        self._received: list[weakref.ref[Tensor]] = []

    def received(self, leaf: Tensor, gradient: Any) -> None:
        """Hear of a gradient in a step that is looked at in full."""
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
            full: it was looked at in full; else it is one like the last of which that is true.
        """
        found = []
        for key, witness in list(self._witnesses.items()):
            leaf = witness.leaf()
            if leaf is None:
                del self._witnesses[key]
                continue
            if self._updates(witness, leaf, full, step) and self._is_large(leaf):
                found.append(witness)
            witness.note(leaf, step)
        if full:
            self._choose(optimizers, step)
        return found

    def note(self, step: int) -> None:
        """Hear of the end of a step that was not looked at."""
        for witness in self._witnesses.values():
            leaf = witness.leaf()
            if leaf is not None:
                witness.note(leaf, step)

    def _updates(self, witness: WatchedGradient, leaf: Tensor, full: bool, step: int) -> bool:
        """Count an update; say whether there were too many with the gradient of the one before."""
        lives_on = witness.lives_on(leaf)
        writes = 0 if leaf._grad is None else leaf._grad._version - witness.written
        if full and id(leaf) in self._added:
            added = self._added[id(leaf)]
            if leaf._version != witness.updated:
                witness.uncleared = lives_on and added
                witness.count = witness.count + 1 if witness.uncleared else 0
                witness.each = writes
        elif not full and witness.uncleared:
            if not lives_on:
                witness.count, witness.uncleared = 0, False
            elif writes == witness.each * (step - witness.step):  # nothing has cleared it in place
                witness.count += 1
        return witness.uncleared and witness.count >= UNCLEARED

    def _is_large(self, leaf: Tensor) -> bool:
        assert leaf._grad is not None
        held = as_plain_array(leaf._grad._array)
        return bool(backends.of(held).xp.any(held).item())

    def _choose(self, optimizers: Iterable[Any], step: int) -> None:
        """Let the first parameter of each optimizer that got a gradient be a witness."""
        watched = set(self._witnesses)
        received = {
            id(leaf): leaf for leaf in (each() for each in self._received) if leaf is not None
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
    """Say whether there was a gradient other than 0 when this one came."""
    assert leaf._grad is not None
    held = as_plain_array(leaf._grad._array)
    if held is gradient or held.size == 0:
        return False
    a, b = held.ravel()[:FEW], gradient.ravel()[:FEW]
    return not bool((a == b).all().item())
