"""The kernels that may replace a definition, and the mode that switches them off.

A kernel is attached to what it speeds up where it is written, by one line above its maker:

    @activation.gelu.kernel("cpu", "input", min_size=256)
    def gelu_input(): ...

This is the kernel of the rule of `gelu` for `input`; without "input" it would be that of the
forward, and for fewer elements than `min_size` in its first array it is not called. Called with the
arguments of the definition after `xp`, a kernel returns the result, or None for a case that it does
not handle: then the definition runs, as it does as long as there is no kernel.

The files in `kernels/` import a compiler, so they are imported only when an array is large enough.
Before that, their decorators are read here as text, which takes a millisecond.

Kernels of another device than the CPU have slots of their own, which are asked only for arrays of
that device (`run_on_device`), and only once there is such a device (`activate`).
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from numpy import ndarray

__all__ = [
    "GeneratedSlot", "Slot", "activate", "as_ndarray", "attach", "declarations",
    "reference_only", "run_on_device", "slot", "slot_for", "slot_of",
]  # fmt: skip

Maker = TypeVar("Maker", bound=Callable[[], Any])

# A module, then what has the slot: `pooling.max_pool`, `numpy.ADD_AT`, `optim.Adam.fused_kernel`.
DECORATOR = re.compile(
    r"(?:[a-z_]\w*\.)*?((?:[A-Z]\w*\.)?\w+)"
    r'\.kernel\("(\w+)"(?:, "(\w+)")?(?:, min_size=([\d_]+))?\)'
)


class Declaration(NamedTuple):
    """A kernel as its decorator declares it: the function `maker` of a file makes it."""

    file: str
    maker: str
    min_size: int


FOLDERS = {"cpu": "cpu", "cuda": "gpu"}
"""The folder in `kernels/` with the kernels of each device."""


@functools.cache
def declarations(device: str = "cpu") -> dict[str, Declaration]:
    """Return all kernels of a device, by what they replace: `gelu`, or `gelu/input` for a rule."""
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "kernels", FOLDERS[device])
    declared = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".py"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            chunks = file.read().split("\n@")
        above: list[tuple[str, int]] = []  # decorators of one function, the first ones of several
        for chunk in chunks[1:]:
            decorator, _, rest = chunk.partition("\n")
            if match := DECORATOR.fullmatch(decorator):
                owner, _, rule, min_size = match.groups()
                above.append((f"{owner}/{rule}" if rule else owner, int(min_size or 0)))
            if above and rest.startswith("def "):
                maker = rest[4 : rest.index("(")]
                declared |= {key: Declaration(name[:-3], maker, size) for key, size in above}
                above = []
    return declared


def attach(key: str, device: str, min_size: int = 0) -> Callable[[Maker], Maker]:
    """Return the decorator that attaches a kernel's maker to the slot of this key.

    Raises: TypeError: `declarations` has read something else.
    """

    def decorate(maker: Maker) -> Maker:
        place = Declaration(maker.__module__.rpartition(".")[2], maker.__name__, min_size)
        if declarations(device).get(key) != place:
            raise TypeError(f"{key}: write @….kernel(…) in one line of its own above {place.maker}")
        # One that takes an argument makes several kernels, and is told which one.
        takes_key = maker.__code__.co_argcount > 0  # type: ignore[attr-defined]
        made = functools.wraps(maker)(lambda: maker(key)) if takes_key else maker
        slot(key, device).maker = made
        maker.replaces = (*getattr(maker, "replaces", ()), key)  # type: ignore[attr-defined]
        return maker

    return decorate


class Slot:
    """The slot of one kernel. `run` is None until it is compiled, and in reference mode.

    Attributes:
        name: what it replaces: an op, a rule (`op/input`), or a slot's own name.
        min_size: for fewer elements than this, a kernel is not worth its call.
        file: the file that has it, in the device's folder: `edutorch/kernels/cpu/`.
        device: the device of its arrays.
        maker: the function that makes it, once that file has been imported.
    """

    __slots__ = ("_filled", "device", "file", "maker", "min_size", "name", "requested", "run")

    def __init__(self, name: str, min_size: int, file: str = "", device: str = "cpu") -> None:
        self.name, self.min_size, self.file, self.device = name, min_size, file, device
        self.run: Callable[..., Any] | None = None
        self.maker: Callable[[], Any] | None = None
        self.requested = False
        self._filled: Callable[..., Any] | None = None

    def request(self) -> None:
        """Request the kernel, which is compiled in the background; done at its first use."""
        if not self.requested and not _references:
            self.requested = True
            request_kernel(self)

    def __call__(self, *arguments: Any) -> Any:
        """Compute by the kernel. None: it is not ready, or does not handle the case."""
        run = self.run
        if run is None:
            if self.requested:
                return None
            self.request()
            run = self.run  # ready already, where the request waits for it
        return None if run is None else run(*arguments)

    def size_test(
        self, name: str, first: str, others: Sequence[str], are_arrays: bool = True
    ) -> str:
        """Return the test, as code, that the kernel is worth its call.

        Args:
            name: of the slot in that code.
            first, others: the arrays.
            are_arrays: False where `others` may be numbers.
        """
        return f"{first}.size >= {self.min_size}"

    def fill(self, kernel: Callable[..., Any]) -> None:
        """Set the kernel."""
        self._filled = kernel
        if not _references:
            self.run = kernel

    def kernel(self, device: str, *, min_size: int = 0) -> Callable[[Maker], Maker]:
        """Attach the kernel of this slot, as a decorator of its maker."""
        return attach(self.name, device, min_size)


class GeneratedSlot(Slot):
    """The slot of a kernel that is written from a formula: every elementwise op and rule has one.

    From which size on it pays depends on the formula, which is looked at when the first array of
    some size comes. Until then, `min_size` is that size. An operand may be smaller than the result:
    the first of several has at least `min_first` elements.
    """

    __slots__ = ("is_estimated", "min_first", "op")

    def __init__(self, name: str, op: Any) -> None:
        super().__init__(name, MIN_GENERATED_SIZE, "elementwise")
        self.is_estimated, self.min_first, self.op = False, MIN_GENERATED_SIZE, op

    def __call__(self, *arguments: Any) -> Any:
        """Compute by the kernel. None: it is not ready, does not pay, or the case is another."""
        if not self.is_estimated:
            self.request()  # which estimates it
        if not self.is_worthwhile([value for value in arguments if isinstance(value, ndarray)]):
            return None
        return super().__call__(*arguments)

    def is_worthwhile(self, arrays: Sequence[Any]) -> bool:
        """Say what `size_test` says in later calls: two equal calls are computed alike."""
        if any(array.size >= self.min_size for array in arrays):
            return True
        if "/" in self.name or not arrays:  # in a rule, g has the shape of the result
            return False
        first, *others = arrays
        return any(
            other.shape != first.shape and first.size * other.size >= self.min_size
            for other in others
        )

    def size_test(
        self, name: str, first: str, others: Sequence[str], are_arrays: bool = True
    ) -> str:
        """Return the test; arrays may broadcast, so that the result is larger than each of them."""
        if not others:
            return f"{first}.size >= {name}.min_size"
        tests = [f"size_ >= {name}.min_size"]
        for other in others:
            test = f"{other}.shape != {first}.shape and "
            test += f"size_ * {other}.size >= {name}.min_size"
            tests += [test if are_arrays else f"{other}.__class__ is ndarray and {test}"]
        return f"(size_ := {first}.size) >= {name}.min_first and ({' or '.join(tests)})"

    def set_min_size(self, size: int) -> None:
        """Set from which size on the kernel pays: from now on it can be requested."""
        self.min_size, self.is_estimated, self.requested = size, True, False
        self.min_first = sys.maxsize if size == sys.maxsize else MIN_GENERATED_SIZE

    def give_up(self) -> None:
        """Let calls not ask for a kernel that will not come."""
        self.min_size = self.min_first = sys.maxsize


MIN_GENERATED_SIZE = 256
"""For fewer elements, no kernel that is written from a formula is worth its call."""


def slot_for(op: Any, rule: str = "") -> Slot | None:
    """Return the slot of an op or of a rule; None if it has no kernel and no formula.

    A loss is elementwise, too, before its `reduction`. An op of the same name, such as one that is
    written anew at a prompt, gets a slot of its own.
    """
    key = f"{op.name}/{rule}" if rule else op.name
    if key in declarations():
        return slot(key)
    has_formula = op.family.broadcasts or "reduction" in op.settings
    if rule and has_formula:
        has_formula = rule in op.rules and not any(
            parameter.endswith("_shape") for parameter in op.rules[rule].parameters
        )
    if not has_formula:
        return None
    existing = _slots.get((key, "cpu"))
    if not isinstance(existing, GeneratedSlot) or existing.op is not op:
        existing = _slots[key, "cpu"] = GeneratedSlot(key, op)
    return existing


def slot(key: str, device: str = "cpu") -> Slot:
    """Return the only slot of this key; it stays empty if no kernel is declared for it."""
    existing = _slots.get((key, device))
    if existing is None:
        declared = declarations(device).get(key) or Declaration("", "", sys.maxsize)
        made = Slot(key, declared.min_size, declared.file, device)
        existing = _slots.setdefault((key, device), made)
    return existing


def slot_of(key: str, device: str = "cpu") -> Slot | None:
    """Return the slot of an op or of a rule (`op/input`), or None if it has no kernel."""
    return slot(key, device) if key in declarations(device) else None


# Other devices than the CPU --------------------------------------------------------------------


def activate(device: str) -> None:
    """Let ops ask for the kernels of this device: there are arrays of it from now on.

    Until then the code of a rule asks for those of the CPU alone, which costs it nothing.
    """
    if device not in active:
        active.append(device)
        for function in on_activation:
            function()


def is_declared(key: str) -> bool:
    """Return True if an active device has a kernel for this."""
    return any(key in declarations(device) for device in active)


def run_on_device(device: str, key: str, size: int, values: Iterable[Any]) -> Any:
    """Compute by the kernel of a device. None: there is none, or it does not handle the case.

    Args:
        device: "" for a device without kernels.
        size: the size of its first array.
        values: the arguments of the definition after `xp`.
    """
    if not device or key not in declarations(device):
        return None
    place = slot(key, device)
    result = place(*values) if size >= place.min_size else None
    if result is not None:
        runs[key] += 1
    return result


runs: Counter[str] = Counter()
"""How often the kernel of a device has computed something, by what it replaces."""

active: list[str] = []
on_activation: list[Callable[[], None]] = []
"""What has to know that a device has become active."""


def as_ndarray(value: Any) -> Any:
    """Return an array as `numpy.ndarray`, the class that numba supports: the memory is the same."""
    return value.view(ndarray) if isinstance(value, ndarray) else value


def slots() -> tuple[Slot, ...]:
    """Return all slots that have been asked for."""
    return tuple(_slots.values())


@contextmanager
def reference_only() -> Iterator[None]:
    """Compute by definitions alone inside the block, in all threads.

    No kernel runs, an op call takes its general path (`core/dispatch.py`), and backward is that of
    the textbook (`core/autograd/reference.py`). So a breakpoint in a definition is hit.

    >>> with backends.reference_only():
    ...     ones(2).exp()
    tensor([2.7183, 2.7183])
    """
    global _references
    _references += 1
    try:
        if _references == 1:
            switch(True)
        yield
    finally:
        _references -= 1
        if not _references:
            switch(False)


def is_reference_only() -> bool:
    """Return True inside `reference_only()`."""
    return _references > 0


def switch(reference: bool) -> None:
    """Take the kernels out of their slots, or put them back, and tell the ops."""
    for slot in slots():
        slot.run = None if reference else slot._filled
    for function in on_switch:
        function(reference)


on_switch: list[Callable[[bool], None]] = []
"""What else has a fast form: called with True at the beginning of reference mode, else False."""


def no_kernels(slot: Slot) -> None:
    """Make no kernel: `edutorch.kernels` replaces it by its own maker."""


_slots: dict[tuple[str, str], Slot] = {}
_references = 0
request_kernel: Callable[[Slot], None] = no_kernels
