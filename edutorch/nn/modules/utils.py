"""Helpers for settings of layers, under the names that code written for PyTorch imports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from ...ops import empty
from ..common_types import DeviceLike, DTypeLike
from ..parameter import Parameter
from .module import Module

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that repeats a single value n times, and makes a tuple of several.

    >>> _ntuple(3)(5), _ntuple(3)([1, 2, 3])
    ((5, 5, 5), (1, 2, 3))
    """

    def parse(x: object) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """Repeat each value n times, in reverse order: the order of the widths for `F.pad`.

    >>> _reverse_repeat_tuple((1, 2), 2)
    (2, 2, 1, 1)
    """
    return tuple(value for value in reversed(t) for _ in range(n))


def _list_with_default(out_size: int | Sequence[int | None], defaults: Sequence[int]) -> Any:
    """Replace each None of an output size by the input's size.

    >>> _list_with_default((None, 3), (1, 8, 9))
    [8, 3]
    """
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    pairs = zip(out_size, defaults[-len(out_size) :], strict=True)
    return [size if size is not None else default for size, default in pairs]


def register_empty(
    module: Module, shapes: Mapping[str, tuple[int, ...] | None], device: DeviceLike,
    dtype: DTypeLike,
) -> None:  # fmt: skip
    """Register an uninitialized parameter of each name and shape, or None where there is none.

    The order is that of the `state_dict`, and of the random numbers of `reset_parameters`.
    """
    for name, shape in shapes.items():
        parameter = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
        module.register_parameter(name, parameter)


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a prefix from the keys of a state_dict in place, such as DataParallel's `module.`.

    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module."); state
    {'bias': 2, 'weight': 1}
    """
    for key in [name for name in state_dict if name.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in list(metadata or ()):
        if metadata is not None and key and (key + ".").startswith(prefix):
            metadata[(key + ".").removeprefix(prefix).removesuffix(".")] = metadata.pop(key)
