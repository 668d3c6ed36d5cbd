"""The state that a function reads besides its arguments, and whether it has changed.

A captured graph represents a function as long as everything that Python code read during the
capture is unchanged: globals and closures, the settings of modules, which parameters they own.
`CapturedState` visits all of that once; `changed` compares it with the current values.
"""

from __future__ import annotations

import dis
import inspect
import random
import sys
import types
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..dtypes import dtype
from ..nn import Module
from ..optim.optimizer import Optimizer

__all__ = ["CapturedState"]

SIMPLE_TYPES = {int, float, bool, str, bytes, complex, type(None), dtype}
MAX_VALUES = 50_000
"""The most objects that a function may reach; beyond that it is not compiled."""

MUTABLE_SETTINGS = {"lr", "initial_lr"}
"""Settings of optimizers that may change from call to call."""

Holder = dict[Any, Any] | list[Any] | tuple[Any, ...]
"""What holds a value at a key or an index."""

RandomSource = np.random.Generator | np.random.RandomState | random.Random

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "nothing"})()


class CapturedState:
    """Everything that a function can reach.

    `tensors` and `modules` have paths, by id; `optimizers` is a list. `watched_items` holds what
    must not change: (holder, key, value, path).
    """

    def __init__(self, function: Callable[..., Any], others: Sequence[Any] = ()) -> None:
        self.tensors: dict[int, tuple[str, Tensor]] = {}
        self.modules: dict[int, str] = {}
        self.optimizers: list[Optimizer] = []
        self.watched_items: list[tuple[Any, Any, Any, str]] = []
        self.sizes: list[tuple[Any, int, str]] = []
        self.cells: list[tuple[Any, Any, str]] = []
        self.arrays: list[tuple[np.ndarray, int, str]] = []
        self.scopes: dict[int, dict[str, Any]] = {}  # the global names of the user's functions
        self.states: list[tuple[Callable[[], Any], Any, str]] = []  # of generators
        self.iterators: list[str] = []
        self.is_too_large = False
        self._seen: set[int] = set()
        self._keep: list[Any] = []
        waiting: list[tuple[Any, str]] = [*((other, "") for other in others), (function, "")]
        while waiting and not self.is_too_large:
            value, path = waiting.pop()
            waiting += reversed(list(self.visit(value, path)))
            self.is_too_large = len(self._seen) > MAX_VALUES

    def visit(self, value: object, path: str) -> Iterator[tuple[Any, str]]:
        """Record what must not change about a value; yield what it refers to."""
        if type(value) in SIMPLE_TYPES or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._keep.append(value)  # an id is given to another object once this one is gone
        if hasattr(type(value), "__next__"):  # the next call would go on where this one stopped
            self.iterators.append(path)
        elif isinstance(value, Tensor):
            self.tensors[id(value)] = (path or "tensor", value)
        elif isinstance(value, types.MethodType):
            yield value.__self__, "" if isinstance(value.__self__, Module) else "self"
            yield value.__func__, path
        elif isinstance(value, types.FunctionType):
            yield from self.visit_function(value)
        elif isinstance(value, partial):
            yield value.func, path
            yield value.args, path
            yield value.keywords, path
        elif isinstance(value, Module):
            yield from self.visit_module(value, path)
        elif isinstance(value, Optimizer):
            yield from self.visit_optimizer(value, path)
        elif isinstance(value, np.random.Generator | np.random.RandomState | random.Random):
            ask = state_getter(value)
            self.states.append((ask, ask(), path))
        elif isinstance(value, np.ndarray):
            self.arrays.append((value, checksum(value), path))  # its elements may change in place
        elif isinstance(value, list | tuple):
            if isinstance(value, list):
                self.sizes.append((value, len(value), path))
            for index, item in enumerate(value):
                yield from self.visit_item(value, index, item, f"{path}[{index}]")
        elif isinstance(value, dict):
            self.sizes.append((value, len(value), path))
            for key, item in value.items():
                yield from self.visit_item(value, key, item, f"{path}[{key!r}]")
        elif is_user_class(type(value)) and hasattr(value, "__dict__"):
            yield from self.visit_object(value, path)

    def visit_item(
        self, holder: Holder, key: object, value: object, path: str
    ) -> Iterator[tuple[Any, str]]:
        """Record that `holder[key]` must stay this value, and yield it."""
        if not isinstance(holder, tuple):
            self.watched_items.append((holder, key, value, path))
        yield value, path

    def visit_function(self, function: types.FunctionType) -> Iterator[tuple[Any, str]]:
        """Visit what a user's function refers to: closure, globals, defaults."""
        # This library does not change.
        if function.__module__ and function.__module__.split(".")[0] == "edutorch":
            return
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                value = cell.cell_contents
            except ValueError:  # a variable that is not set yet
                continue
            self.cells.append((cell, value, name))
            yield value, name
        scope = self.scopes[id(function.__globals__)] = function.__globals__
        for name in global_names(function.__code__):
            if name not in scope:
                continue
            value = scope[name]
            if isinstance(value, types.ModuleType):
                yield from self.visit_attributes(value, function.__code__, name)
            elif not name.startswith("__"):
                yield from self.visit_item(scope, name, value, name)
        for name, value in (function.__kwdefaults__ or {}).items():
            yield value, name
        for value in function.__defaults__ or ():
            yield value, "default"

    def visit_attributes(
        self, module: types.ModuleType, code: types.CodeType, path: str
    ) -> Iterator[tuple[Any, str]]:
        """Visit the attributes of a user's module that a function refers to: settings.RATE."""
        if module.__name__.split(".")[0] in ("edutorch", "numpy", "torch"):
            return
        for name in attribute_names(code):
            value = vars(module).get(name, MISSING)
            if value is sys.modules:  # it reaches everything, and grows with each import
                continue
            if value is not MISSING and not isinstance(value, types.ModuleType):
                yield from self.visit_item(vars(module), name, value, f"{path}.{name}")

    def visit_class(self, cls: type) -> Iterator[tuple[Any, str]]:
        """Visit the functions and settings of a user's class and its bases."""
        for base in cls.__mro__:
            if (base.__module__ or "").split(".")[0] in ("edutorch", "builtins", "typing", "abc"):
                continue
            for name, value in list(vars(base).items()):
                value_inside = getattr(value, "__func__", value)
                if isinstance(value, property):
                    yield from ((accessor, "") for accessor in (value.fget, value.fset) if accessor)
                # Methods, too: a class may be changed at run time.
                elif not name.startswith("__") or inspect.isfunction(value_inside):
                    path = f"{base.__name__}.{name}"
                    self.watched_items.append((vars(base), name, value, path))
                    yield value_inside, path

    def visit_module(self, module: Module, path: str) -> Iterator[tuple[Any, str]]:
        """Visit a module's settings, parameters, submodules, and the functions of its class."""
        self.modules[id(module)] = path
        self.sizes.append((vars(module), len(vars(module)), path or type(module).__name__))
        below = f"{path}." if path else ""
        for name, value in vars(module).items():
            if name in ("_parameters", "_buffers", "_modules"):
                self.sizes.append((value, len(value), f"{below}{name}"))
                for key, item in value.items():
                    yield from self.visit_item(value, key, item, f"{below}{key}")
            elif name.endswith("_hooks") or "hooks_" in name:
                self.sizes.append((value, len(value), f"{below}{name}"))
                for hook in value.values():
                    yield getattr(hook, "function", hook), f"{below}{name}"
            elif not name.startswith("_edutorch"):
                yield from self.visit_item(vars(module), name, value, f"{below}{name}")
        yield from self.visit_class(type(module))

    def visit_optimizer(self, optimizer: Optimizer, path: str) -> Iterator[tuple[Any, str]]:
        """Visit an optimizer's settings, parameters and state."""
        self.optimizers.append(optimizer)
        items = self.watched_items
        items.append((vars(optimizer), "state", optimizer.state, f"{path}.state"))
        items.append(
            (vars(optimizer), "param_groups", optimizer.param_groups, f"{path}.param_groups")
        )
        self.sizes.append((optimizer.state, len(optimizer.state), f"{path}.state"))
        for number, group in enumerate(optimizer.param_groups):
            for key, value in group.items():
                name = f"{path}.param_groups[{number}][{key!r}]"
                if key == "params":
                    self.sizes.append((value, len(value), name))
                    for index, parameter in enumerate(value):
                        yield parameter, f"{path}.params[{number}][{index}]"
                elif key not in MUTABLE_SETTINGS or isinstance(value, Tensor):
                    yield from self.visit_item(group, key, value, name)
        names = {
            id(p): n for n, p in enumerate(p for g in optimizer.param_groups for p in g["params"])
        }
        for param, state in optimizer.state.items():
            number = names.get(id(param), "?")
            for key, value in state.items():
                yield from self.visit_item(state, key, value, f"{path}.state[{number}][{key!r}]")
        yield from self.visit_class(type(optimizer))

    def visit_object(self, value: object, path: str) -> Iterator[tuple[Any, str]]:
        """Visit the attributes of an object, and the functions of its class."""
        below = f"{path}." if path else ""
        self.sizes.append((vars(value), len(vars(value)), path))
        for name, attribute in vars(value).items():
            yield from self.visit_item(vars(value), name, attribute, f"{below}{name}")
        yield from self.visit_class(type(value))

    # Comparing with the current state ------------------------------------------------------

    def has_state(self) -> bool:
        """Whether there is anything that `changed` compares."""
        return bool(self.watched_items or self.sizes or self.cells or self.states or self.arrays)

    def changed(self) -> str | None:
        """Return a description of the first change, or None."""
        for holder, key, value, path in self.watched_items:
            try:
                now = holder[key]
            except (KeyError, IndexError):
                return f"{path}: {describe_value(value)} before, now gone"
            # Identity first: it is nearly always the same object.
            if now is not value and not is_unchanged(now, value):
                return f"{path}: {describe_value(value)} before, now {describe_value(now)}"
        for holder, size, path in self.sizes:
            if len(holder) != size:
                return f"{path or 'something'} had {size} entries before, now {len(holder)}"
        for cell, value, name in self.cells:
            try:
                now = cell.cell_contents
            except ValueError:
                return f"{name}: {describe_value(value)} before, now gone"
            if now is not value and not is_unchanged(now, value):
                return f"{name}: {describe_value(value)} before, now {describe_value(now)}"
        for ask, state, path in self.states:
            if ask() != state:
                return f"random numbers were drawn from {path}"
        for array, number, path in self.arrays:
            if checksum(array) != number:
                return f"the numbers of the NumPy array {path} have changed"
        return None


def is_unchanged(now: object, before: object) -> bool:
    """Return True if a simple value has not changed."""
    cls = type(before)
    if type(now) is not cls:
        return False
    if cls in SIMPLE_TYPES:
        return now == before or (now != now and before != before)  # nan is nan
    if cls is tuple and isinstance(now, tuple) and isinstance(before, tuple):
        return len(now) == len(before) and all(map(is_same_or_unchanged, now, before))
    if isinstance(now, types.MethodType) and isinstance(before, types.MethodType):
        return now.__self__ is before.__self__ and now.__func__ is before.__func__
    return False


def is_same_or_unchanged(now: object, before: object) -> bool:
    return now is before or is_unchanged(now, before)


def describe_value(value: object) -> str:
    """Return a value as short text."""
    if type(value) in SIMPLE_TYPES or isinstance(value, tuple | list):
        text = repr(value)
        return text if len(text) < 60 else f"{text[:57]}…"
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def state_getter(generator: RandomSource) -> Callable[[], Any]:
    """Return a function that returns the state of a generator of Python or NumPy."""
    if isinstance(generator, random.Random):
        return generator.getstate
    if isinstance(generator, np.random.RandomState):
        return lambda: repr(generator.get_state())
    return lambda: repr(generator.bit_generator.state)


def checksum(array: np.ndarray) -> int:
    """Return a checksum of the values of an array."""
    if array.dtype.hasobject:
        return id(array)
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def is_user_class(cls: type) -> bool:
    """Return True for a user-defined class, whose objects may hold anything."""
    home = (cls.__module__ or "").split(".")[0]
    if home == "edutorch":
        return cls.__module__.startswith(("edutorch.optim", "edutorch.amp"))
    return home not in (
        "builtins",
        "numpy",
        "collections",
        "types",
        "functools",
        "threading",
        "_thread",
    )


def global_names(code: types.CodeType) -> list[str]:
    """Return the global names that code refers to, including its inner functions."""
    names = [
        instruction.argval for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    ]  # fmt: skip
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += global_names(constant)
    return list(dict.fromkeys(names))


def attribute_names(code: types.CodeType) -> set[str]:
    """Return the attribute names that code refers to, including its inner functions."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= attribute_names(constant)
    return names
