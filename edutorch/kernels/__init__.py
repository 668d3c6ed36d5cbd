"""Optional kernels that replace the definitions of ops, compiled by numba (the extra `fast`).

A kernel is compiled the first time that a large enough call requests it, in a background thread,
and cached on disk: the next process only loads it. Until it is ready the definition runs, whose
last digits may differ: it sums in another order. After `use_deterministic_algorithms(True)`, and
with EDUTORCH_KERNELS=wait, the caller waits instead. EDUTORCH_KERNELS=off compiles none.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from ..backends import blas, kernel_registry
from ..backends.kernel_registry import GeneratedSlot, Slot, declarations, slot
from ..core.registry import REGISTRY
from ..errors import warn
from ..settings import are_deterministic_algorithms_enabled
from ..utils.process import compiler, keep_freed_memory
from .formulas import NEVER, worthwhile_size

__all__ = ["KernelStatus", "is_available", "report", "source", "warm_up"]


def is_available() -> bool:
    """Whether numba is installed.

    >>> kernels.is_available() in (True, False)
    True
    """
    return importlib.util.find_spec("numba") is not None


def report(device: str = "cpu") -> str:
    """Return a table of a device's kernels: what each replaces, its file, its state.

    Raises: ValueError: there are none for this device.

    >>> "softmax" in kernels.report("cpu")
    True
    """
    from .kernel_report import report_text

    return report_text(device)


def source(key: str, device: str = "cuda", dtype: str = "float32") -> str:
    """Return the text of a kernel: CUDA for an op's formula on a GPU, else Python.

    Args:
        key: an op's name, such as "gelu", or "gelu/input" for its derivative.
        dtype: that of the arrays, where the text is written for it.

    Raises: ValueError: there is no such kernel.

    >>> print(kernels.source("square/input").splitlines()[0])
    // The derivative of square by input, as in edutorch/ops/elementwise.py:
    """
    from .kernel_report import source_text

    return source_text(key, device, dtype)


NOT_COMPILED = ("lapack",)
"""The files whose kernels only call a library: they are there without numba too."""


def request_kernel(slot: Slot) -> None:
    """Make the kernel of a slot in the background, or now where results must be reproducible."""
    mode = os.environ.get("EDUTORCH_KERNELS", "beside")
    if mode == "off":
        if isinstance(slot, GeneratedSlot):
            slot.give_up()
        return
    if slot.device != "cpu":
        make(slot)  # at once: its text is compiled at its first launch, in some 60 ms
        return
    if not is_available():
        if slot.file in NOT_COMPILED:
            make_or_warn(slot)
        elif isinstance(slot, GeneratedSlot):
            slot.give_up()
        return
    prepare_runtime()
    # Now: made beside the program, it would change the last digits in the middle of a run.
    if mode == "wait" or are_deterministic_algorithms_enabled():
        # Ctrl-C must not be raised within the compiler, which frees memory of its own.
        blas.interruptible(make_or_warn, slot)
    else:
        compiler.submit(partial(make_or_warn, slot))


def prepare_runtime() -> None:
    """Set up threads and memory for kernels: see `backends/blas.py`, `utils/process.py`."""
    blas.limit_threads()
    keep_freed_memory()


def make_or_warn(slot: Slot) -> None:
    """Make a kernel; if that fails, warn, and the definition stays in use."""
    if compiler.broken:  # in a forked process
        return
    try:
        make(slot)
    except Exception as error:  # noqa: BLE001 (compilers have errors of many kinds)
        reason = first_line(error)
        warn(f"no kernel for {slot.name} ({reason}): slower, the same results; try `doctor`")


def make(slot: Slot) -> None:
    """Make the kernel of a slot and fill the slot with it; estimate one that is not yet known."""
    if isinstance(slot, GeneratedSlot) and not slot.is_estimated:
        slot.set_min_size(worthwhile_size(slot.name))
        return
    slot.fill(kernel_maker(slot)())


def kernel_maker(slot: Slot) -> Callable[[], Any]:
    """Return the function that makes the kernel of a slot."""
    folder = kernel_registry.FOLDERS[slot.device]
    module = import_module(f".{folder}.{slot.file}", __name__)  # its decorators set the makers
    if isinstance(slot, GeneratedSlot):
        return partial(module.formula_kernel, slot.name)
    assert slot.maker is not None, slot.name
    return slot.maker


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class where it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# Warm-up -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KernelStatus:
    """The outcome for a kernel: "loaded" from disk, "compiled", "failed" or "not compiled"."""

    name: str
    state: str
    seconds: float
    detail: str = ""


def warm_up(*, compile: bool = True) -> Iterator[KernelStatus]:
    """Make all kernels, one after the other, and yield the outcome of each.

    Args:
        compile: False only loads cached kernels, and skips the rest.
    """
    if not is_available():
        return
    from numba.core.event import install_listener

    prepare_runtime()
    declared = [slot(key) for key in declarations()]
    for place in (*declared, *formula_slots()):
        # So an op that runs meanwhile does not request it a second time.
        place.requested = True
        start, listener, detail = time.perf_counter(), compilation_listener(compile), ""
        try:
            with install_listener("numba:compile", listener):
                make(place)
                if isinstance(place, GeneratedSlot):
                    import_module(f".cpu.{place.file}", __name__).compile_usual(place.name)
            state = "compiled" if listener.seen else "loaded"
        except CompilationForbidden:
            # It may still be requested, by an op that needs it.
            place.requested, state = False, "not compiled"
        except Exception as error:  # noqa: BLE001 (it is reported; the next one may do)
            state, detail = "failed", first_line(error)
        yield KernelStatus(place.name, state, time.perf_counter() - start, detail)


def formula_slots() -> list[GeneratedSlot]:
    """Return the slots of all kernels that are written from formulas and can pay."""
    slots = []
    for op in REGISTRY.values():
        for place in (op.slot, *op.rule_slots.values()):
            if isinstance(place, GeneratedSlot):
                if not place.is_estimated:
                    make(place)
                if place.min_size < NEVER:
                    slots.append(place)
    return slots


class CompilationForbidden(Exception):
    """A kernel would have to be compiled."""


def compilation_listener(allowed: bool) -> Any:
    """Return a listener that notes whether numba compiles, and raises if that is not allowed."""
    from numba.core.event import Listener

    class CompilationListener(Listener):
        seen = False

        def on_start(self, event: Any) -> None:
            self.seen = True
            if not allowed:
                raise CompilationForbidden

        def on_end(self, event: Any) -> None:
            """Nothing: `seen` is set when compilation starts."""

    return CompilationListener()


kernel_registry.request_kernel = request_kernel
