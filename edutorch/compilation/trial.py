"""Which is faster, a compiled version or the function as it is written: measured in real calls.

What a graph is compiled to may lose against eager: a composed function may have a kernel that it
chooses by the elements, an op one that is better than a program of its parts. What it costs is
known only where it runs. So once all kernels are there, some calls run the function, and others the
program. The time from one call to the next is compared, which includes backward: what the caller
does besides is the same in both. A call that comes after a pause runs the program and is not
measured: somebody may want to see what it returns, with the graph of the compiled function.

Either result is right, and they differ in the last digits at most; after
`use_deterministic_algorithms(True)` nothing is measured, and the program is used.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .. import events
from ..fx.capture_patches import current_tracer
from ..modes import DEFAULT, NO_GRAD, current
from ..settings import are_deterministic_algorithms_enabled
from ..utils.process import compiler
from .pipeline import Lowered

if TYPE_CHECKING:
    from .compiled_function import Compiled
    from .compiled_version import CompiledVersion

__all__ = ["Trial"]

WARM_CALLS = 8
"""So many calls come first: kernels are requested, and an argument may become another one."""

TURNS = ((False,) * 10 + (True,) * 10) * 2
"""Whether each of the measured calls runs the function as it is written. Of ten in a row the first
are slower than the others: the caches have what the other way reads."""

GAIN = 1.02
"""The function is preferred where the program takes so much more time: a call has to be guarded."""

LONG_SECONDS = 0.002
"""A function that takes so long is given up after two calls, if the program is much faster."""

PAUSE = 0.02
"""A call that comes so many seconds later than the others, beyond four times the shortest time, is
not one in a loop."""

MAX_SECONDS = 60
"""Then there is no result, because kernels are still being compiled: the program is used."""


class Trial:
    """The calls of a new version in which it is timed.

    Attributes:
        version: the version that is timed.
        calls, begin: how many there were, and when the first was.
        turn: the index in `TURNS` of the current call, or -1 before the first.
        start: when the current call began.
        best: the shortest time of a turn, by whether the function ran as it is written.
    """

    def __init__(self) -> None:
        self.version: CompiledVersion | None = None
        self.calls, self.begin = 0, 0.0
        self.restart()

    def restart(self) -> None:
        """Measure from the beginning."""
        self.turn, self.start = -1, 0.0
        self.best = {False: math.inf, True: math.inf}

    def call(self, compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a compiled function, one way or the other."""
        now = perf_counter()
        version = compiled.entries[0] if compiled.entries else None
        if version is not self.version:
            self.version, self.calls, self.begin = version, 0, now
            self.restart()
        self.calls += 1
        if self.calls <= WARM_CALLS:
            return compiled.call_version(args, kwargs)
        if version is None or not can_be_timed(version) or now - self.begin > MAX_SECONDS:
            compiled.end_trial()
            return compiled.call_version(args, kwargs)
        if compiler.is_busy or not is_ordinary_call():
            self.restart()
            return compiled.call_version(args, kwargs)
        if self.turn >= 0:
            if now - self.start > PAUSE + 4 * min(self.best.values()):
                self.start = now
                return compiled.call_version(args, kwargs)
            way = TURNS[self.turn]
            self.best[way] = min(self.best[way], now - self.start)
        self.turn += 1
        if self.turn == len(TURNS) or self.is_hopeless():
            self.decide(version)
            compiled.end_trial()
            return compiled.call_version(args, kwargs)
        if TURNS[self.turn] and compiled.fits(version, args, kwargs):
            self.start = perf_counter()
            return compiled.function(*args, **kwargs)
        self.start = perf_counter()
        return compiled.call_version(args, kwargs)

    def is_hopeless(self) -> bool:
        """Whether the function takes so long that no more calls are spent on it.

        Not by its first call alone, which may write code for its ops.
        """
        program, written = self.best[False], self.best[True]
        has_two = sum(TURNS[: self.turn]) > 1
        return has_two and written > LONG_SECONDS and written > 1.5 * program

    def decide(self, version: CompiledVersion) -> None:
        """Let the function run as it is written where that is faster."""
        written, program = self.best[True], self.best[False]
        if written * GAIN < program:
            version.runs_function, version.entry = True, None
            version.verdict = (
                f"runs as it is written: {written * 1e6:.1f} µs, compiled {program * 1e6:.1f} µs"
            )


def can_be_timed(version: CompiledVersion) -> bool:
    """Whether a version is a program of this library that writes nothing, and is not decided on."""
    is_decided = version.runs_function or bool(version.reasons)
    if is_decided or not isinstance(version.forward, Lowered) or version.writes or version.grads:
        return False
    return not version.captured.dropped and not are_deterministic_algorithms_enabled()


def is_ordinary_call() -> bool:
    """Whether neither a mode nor a listener nor a capture wants to see the ops of a call."""
    mode = current()
    is_plain = mode is DEFAULT or mode is NO_GRAD
    return is_plain and not current_tracer() and not events._STEP_LISTENERS.get()
