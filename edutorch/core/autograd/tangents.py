"""Tangents: what forward mode keeps beside the elements of a tensor.

A tensor has a tangent for each open level of forward mode that it depends on. `forward_mode.py`
computes those of results.
"""

from __future__ import annotations

from typing import Any

from ... import backends
from ...modes import override_modes
from ..registry import op_function
from ..tensor import Tensor, fill, wrap
from .graph import LEAF


class Level:
    """One open level of forward mode: the key of the tangents of tensors."""


def tangent_of(value: object, level: Level) -> Tensor | None:
    """Return the tangent of a tensor, None if it has none (or is not a tensor)."""
    # In `__dict__`, not a slot: almost no tensor has tangents.
    tangents = value.__dict__.get("_tangents") if isinstance(value, Tensor) else None
    return None if tangents is None else tangents.get(level)


def set_tangent(tensor: Tensor, level: Level, tangent: Tensor | None) -> None:
    """Set or remove a tensor's tangent. Its node keeps it as well: see `restore_result`."""
    if tangent is None:
        tensor.__dict__.get("_tangents", {}).pop(level, None)
        return
    tangents = tensor.__dict__.setdefault("_tangents", {})
    tangents[level] = tangent
    if tensor._node is not None and tensor._node is not LEAF:
        tensor._node.notes["tangents"] = tangents


def with_tangents(tensor: Tensor, of: Tensor) -> Tensor:
    """Copy the tangents of another tensor to `tensor`."""
    tangents = of.__dict__.get("_tangents")
    if tangents:
        tensor.__dict__["_tangents"] = dict(tangents)
    return tensor


def tangents_of(tensor: Tensor) -> list[Tensor]:
    """Return the tangents of a tensor, the tangents of these, and so on."""
    tangents = list(tensor.__dict__.get("_tangents", {}).values())
    return tangents + [further for tangent in tangents for further in tangents_of(tangent)]


def detach_with_tangents(tensor: Tensor) -> Tensor:
    """Return a tensor that is detached from the graph, as are its tangents."""
    output = tensor.detach()
    for level, tangent in tensor.__dict__.get("_tangents", {}).items():
        set_tangent(output, level, detach_with_tangents(tangent))
    return output


def make_alias(tensor: Tensor) -> Tensor:
    """Return a tensor with the same memory, history and tangents."""
    with override_modes(levels=(), listeners=(), saving=None):
        alias = op_function("getitem")(tensor, (...,))
    return with_tangents(alias, tensor)


def zeros_as(tensor: Tensor) -> Tensor:
    return wrap(backends.of(tensor._array).xp.zeros_like(tensor._array))


def zero_tangent(moves: bool, value: object) -> Any:
    """Return the tangent of a constant input of a linear op; indices stay as they are."""
    if not moves or value is None:
        return value
    return zeros_as(value) if isinstance(value, Tensor) else 0


def differentiation_input(tensor: Tensor, connected: bool) -> Tensor:
    """Return a tensor to differentiate with respect to: a node in its graph, or else a leaf."""
    if connected and tensor._node is not None:
        # Its own node: the gradient of this use alone is asked for.
        return op_function("clone")(tensor)  # not tensor + 0, which turns -0.0 into 0.0
    leaf = fill(object.__new__(Tensor), tensor._array)
    leaf._node, leaf._writes = LEAF, tensor._writes
    return with_tangents(leaf, tensor)


def match_output(tangent: Tensor, output: Tensor) -> Tensor:
    """Convert a tangent to the shape and the dtype of its tensor."""
    if tangent._array.shape != output._array.shape:
        tangent = op_function("expand")(tangent, output._array.shape)
    if tangent._array.dtype != output._array.dtype:
        if tangent.is_complex() and not output.is_complex():
            tangent = op_function("real")(tangent)
        tangent = tangent.to(output.dtype)
    return tangent
