"""Inputs and outputs of modules: from plain tensors to distributed ones, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.tensor import Tensor
from ...device_mesh import DeviceMesh
from ..dtensor import DTensor
from ..placement_types import Placement

__all__ = ["Layouts", "as_dtensor", "as_tuple", "move_all"]

Layouts = Placement | Sequence[Placement | None] | None


def as_tuple(layouts: Layouts) -> tuple[Placement | None, ...] | None:
    """Return layouts as a tuple: one placement is that of the only tensor."""
    if layouts is None:
        return None
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


def as_dtensor(value: Tensor, mesh: DeviceMesh, layouts: Sequence[Placement]) -> DTensor:
    """Return a tensor as a distributed one: a plain one is this rank's part."""
    if isinstance(value, DTensor):
        return value
    return DTensor.from_local(value, mesh, layouts, run_check=False)


def move_all(
    values: Sequence[Any], now: Any, wanted: Any, mesh: DeviceMesh, is_local: bool, what: str
) -> tuple[Any, ...]:
    """Return tensors where they shall be; what has no layout stays as it is.

    Args:
        now, wanted: a layout for each.
        is_local: return the parts of this rank.
        what: "inputs" or "outputs", for the error.

    Raises: ValueError: there are not as many layouts as tensors.
    """
    if len(values) != len(now):
        raise ValueError(
            f"module {what} and {what[:-1]}_layouts should have same length! "
            f"There are {len(values)} {what} and {len(now)} layouts"
        )
    moved = []
    for value, layout, target in zip(values, now, wanted, strict=True):
        if layout is not None:
            value = as_dtensor(value, mesh, (layout,))
            if target is not None:
                value = value.redistribute(placements=(target,))
            value = value.to_local() if is_local else value
        moved.append(value)
    return tuple(moved)
