"""Minimisation of a finding: fewer settings, simpler layouts, smaller tensors, rounder values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .calls import Call
from .tensors import TensorSpec, storage_shape, values_of

MOST_TRIALS = 120
MOST_VALUES = 16
"""Of so many numbers each is made rounder by itself."""


def minimise(call: Call, still_fails: Callable[[Call], bool], trials: int = MOST_TRIALS) -> Call:
    """Return the smallest call found for which `still_fails` holds.

    Each change that keeps the fault is kept, and the search starts again from there.
    """
    left, changed = trials, True
    while changed and left > 0:
        changed = False
        for smaller in simpler(call):
            if smaller == call:
                continue
            left -= 1
            if still_fails(smaller):
                call, changed = smaller, True
                break
            if left <= 0:
                break
    return call


def simpler(call: Call) -> Iterator[Call]:
    """Yield simpler forms of a call, the greatest steps first."""
    for key in call.settings:
        yield replace(call, settings={k: v for k, v in call.settings.items() if k != key})
    if call.mode == "second" or call.mode in ("strict", "autocast", "compile"):
        yield replace(call, mode="backward")
    yield from map_specs(call, lambda s: replace(s, layout="contiguous"))
    yield from smaller_axes(call)
    yield from map_specs(call, lambda s: replace(s, grad=False))
    for fill in ("ones", "zeros", "ties", "normal"):
        yield from map_specs(call, lambda s, fill=fill: refill(s, fill))
    yield from map_specs(call, with_values)
    yield from rounder_values(call)


def map_specs(call: Call, function: Callable[[TensorSpec], TensorSpec]) -> Iterator[Call]:
    """Yield the call with all its tensors changed, then with each alone."""
    specs = list(call.specs())
    yield call.change(lambda v: function(v) if isinstance(v, TensorSpec) else v)
    for index in range(len(specs) if len(specs) > 1 else 0):
        yield change_one(call, index, function(specs[index]))


def change_one(call: Call, position: int, spec: TensorSpec) -> Call:
    """Return the call with another tensor at a position among its tensors."""
    count = iter(range(1000))

    def at_position(value: Any) -> Any:
        if not isinstance(value, TensorSpec):
            return value
        return spec if next(count) == position else value

    return call.change(at_position)


def refill(spec: TensorSpec, fill: str) -> TensorSpec:
    plain = ("ones", "zeros", "ties", "normal")
    if spec.values is not None or spec.fill in ("index", "mask", "spd", "simplex"):
        return spec
    if spec.fill in plain and plain.index(fill) >= plain.index(spec.fill):
        return spec
    return replace(spec, fill=fill)


def smaller_axes(call: Call) -> Iterator[Call]:
    """Yield the call with one size, wherever it occurs among the shapes, made smaller."""
    sizes = sorted({size for spec in call.specs() for size in spec.shape}, reverse=True)
    for size in sizes:
        for less in dict.fromkeys((1, 2, size // 2, size - 1)):
            if not 0 < less < size:
                continue

            def shrink(value: Any, size: int = size, less: int = less) -> Any:
                if not isinstance(value, TensorSpec) or value.values is not None:
                    return value
                return replace(value, shape=tuple(less if n == size else n for n in value.shape))

            yield call.change(shrink)
    if all(spec.shape for spec in call.specs()):
        yield from map_specs(
            call, lambda s: replace(s, shape=s.shape[1:]) if s.values is None else s
        )


def with_values(spec: TensorSpec) -> TensorSpec:
    """Return a spec with its numbers written out, so that they can be changed one by one."""
    count = int(np.prod(storage_shape(spec.shape, spec.layout)))
    if spec.values is not None or not 0 < count <= MOST_VALUES or spec.dtype == "bool":
        return spec
    values = values_of(spec).reshape(-1)
    if values.dtype.kind == "V" or spec.dtype == "bfloat16":
        values = values.astype(float)
    return replace(spec, values=tuple(values.tolist()))


def rounder_values(call: Call) -> Iterator[Call]:
    """Yield the call with single numbers made 1, 0 or rounded."""
    for position, spec in enumerate(call.specs()):
        for index, value in enumerate(spec.values or ()):
            for rounder in rounder_numbers(value):
                values = list(spec.values or ())
                values[index] = rounder
                yield change_one(call, position, replace(spec, values=tuple(values)))


def rounder_numbers(value: Any) -> list[Any]:
    """Return numbers that are plainer than one."""
    if isinstance(value, int) or value in (0, 1, -1):
        return []
    plain: list[Any] = [1.0, 0.0]
    if np.isfinite(value):
        if isinstance(value, complex):
            plain.append(complex(round(value.real), round(value.imag)))
        else:
            plain += [float(round(value)), round(value, 1)]
    return [number for number in plain if number != value]
