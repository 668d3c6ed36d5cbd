"""The meta device: tensors with a shape and a dtype, and no elements.

A network on it takes no memory and no time, whatever its size, and yet tells the shape of every
result and the bytes of every parameter:

    with torch.device("meta"):
        model = nn.Linear(10**6, 10**6)
    model(torch.empty(8, 10**6, device="meta")).shape

The definitions of the ops run as on any other device, but on arrays that have no elements
(`meta_array.py`) and with functions that only compute shapes (`meta_rules.py`). Elementwise ops
take a shorter way: they run on a probe of at most two elements per axis, on the CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import MetaTensorError, running_function
from .array_surface import NamespaceSurface
from .meta_array import (
    MetaArray,
    header_of,
    like,
    new,
)
from .meta_matrix_rules import BY_OP
from .meta_rules import PLAIN, RULES, elementwise
from .numpy import Array, Backend

__all__ = ["MetaArray", "MetaBackend", "MetaRandom", "xp"]


def answer(function: Callable[..., Any], arguments: Sequence[Any], settings: Any) -> Any:
    """Answer the call of a function of NumPy with meta arrays by its rule.

    Raises: MetaTensorError: it has none.
    """
    name = function.__name__
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.ufunc):  # a method of a ufunc, such as `np.add.reduce`
        return RULES[f"ufunc.{name}"](owner, *arguments, **settings)
    rule = RULES.get(full_name(function))
    if rule is None and isinstance(function, np.ufunc) and function.signature is None:
        rule = elementwise
    if rule is None:
        raise MetaTensorError(name, "there is no rule for its shape on the meta device")
    return rule(function, *arguments, **settings)


def full_name(function: Any) -> str:
    """Return the name by which `xp` has a function: "sum", "linalg.inv"."""
    module = getattr(function, "__module__", None) or ""
    part = module.removeprefix("numpy.")
    return f"{part}.{function.__name__}" if part in ("linalg", "fft") else function.__name__


MetaArray.answer = staticmethod(answer)


class MetaFunction:
    """A function of `xp`, with the methods of a ufunc."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__name__ = function.__name__

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        return answer(self._function, arguments, settings)

    def __getattr__(self, name: str) -> Any:
        return MetaFunction(getattr(self._function, name))


class MetaNamespace(NamespaceSurface):
    """The module `xp` of the meta device."""

    ndarray = MetaArray
    allocates = False

    def _member(self, name: str) -> Any:
        member: Any = np
        for part in name.split("."):
            member = getattr(member, part)
        is_function = callable(member) and not isinstance(member, type)
        return MetaFunction(member) if is_function and name not in PLAIN else member


xp = MetaNamespace()


class MetaRandom:
    """The generator of the meta device: its samples have a shape and a dtype, and no values."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def uniform(self, shape: tuple[int, ...], dtype: np.dtype) -> MetaArray:
        """Samples of any distribution."""
        return new(shape, dtype)

    normal = uniform

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> MetaArray:
        """Integers, as int64."""
        return new(shape, np.int64)

    def permutation(self, n: int) -> MetaArray:
        """A permutation of n integers."""
        return new((n,), np.int64)

    def get_state(self) -> np.ndarray:
        """Return 16 bytes, as every generator does: its seed, and that nothing has been drawn."""
        return np.array([self.seed, 0], "<u8").view(np.uint8)

    def set_state(self, state: np.ndarray) -> None:
        """Take the seed of another generator's state."""
        self.seed = int(np.ascontiguousarray(state).view("<u8")[0])


class MetaBackend(Backend):
    """The device called "meta"; see the module's docstring."""

    name = "meta"
    has_elements = False
    checks_access = False
    array_type = MetaArray
    xp = xp

    def run_op(self, op: Any, inputs: dict[str, Any], settings: dict[str, Any]) -> Any:
        rule = BY_OP.get(op.name)
        if rule is not None:
            return rule(**inputs, **settings)
        if not op.family.broadcasts:
            return self.run(op.forward, inputs, settings)
        definition = functools.partial(op.forward, np)
        return elementwise(definition, **inputs, **settings)

    def from_numpy(self, array: np.ndarray) -> MetaArray:
        return array if isinstance(array, MetaArray) else like(array)

    def to_numpy(self, array: Array) -> np.ndarray:
        raise MetaTensorError(running_function(("to", "tolist", "numpy", "copy_", "save")))

    def scatter_add(self, target: MetaArray, index: Any, values: Array) -> None:
        """Do nothing: there are no elements."""

    def as_strided(
        self, array: MetaArray, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> MetaArray:
        start = self.address(array) - self.storage(array)[0] + offset
        first = self.memory(array).header[start : start + array.itemsize].view(array.dtype)
        return array.view_of(header_of(first, tuple(shape), tuple(strides)))

    def storage(self, array: MetaArray) -> tuple[int, int]:
        whole = array if array.base is None else array.base
        return whole.header.ctypes.data, whole.nbytes

    def memory(self, array: MetaArray) -> MetaArray:
        whole = array if array.base is None else array.base
        first = header_of(whole.header, (1,), (whole.itemsize,)).view(np.uint8)
        flat = header_of(first, (whole.nbytes,), (1,))
        return whole.view_of(flat)

    def address(self, array: MetaArray) -> int:
        return array.header.ctypes.data

    def generator(self, seed: int) -> MetaRandom:
        return MetaRandom(seed)
