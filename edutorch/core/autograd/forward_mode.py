"""Forward-mode differentiation: each tensor carries its tangent.

A dual tensor is a tensor with a tangent, and an op computes both: the tangent of y = f(x) is J t
for the tangent t of x. While a level is open (`Modes.levels`) ops take the general path, `apply`,
which calls `propagate`. Three rules give J t for every op:

* a linear op: J t = f(t);
* an elementwise op: its Jacobian is its own transpose, so the rule of backward is used;
* any other op: v ↦ vᵀ J is linear in v, and its derivative along t is J t. So backward is
  run once, and then differentiated with respect to the gradient that it started from.

Levels nest: the tangents of an inner level are computed by ops that the outer levels differentiate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import dtypes
from ...modes import current, override_modes
from ..registry import REGISTRY
from ..tensor import Tensor, node_of
from .backward import grad
from .tangents import (
    Level,
    differentiation_input,
    match_output,
    set_tangent,
    tangent_of,
    zero_tangent,
    zeros_as,
)
from .versions import VersionCounter
from .view_tracking import layout_of, region

if TYPE_CHECKING:
    from ..op import Op


# Tangents of tensors --------------------------------------------------------------------


# Tangents of results --------------------------------------------------------------------


def propagate(op: Op, inputs: Sequence[Any], settings: dict[str, Any], output: Tensor) -> None:
    """Set the tangents of an op's output, level by level from the outermost on."""
    levels = current().levels
    if output._array.dtype not in dtypes.DIFFERENTIABLE or not (op.rules or op.linear):
        return
    for depth, level in enumerate(levels):
        tangents = [tangent_of(value, level) for value in inputs]
        if any(tangent is not None for tangent in tangents):
            with override_modes(levels=levels[:depth], listeners=(), saving=None):
                tangent = push(op, inputs, tangents, settings, output)
            set_tangent(output, level, match_output(tangent, output))


def push(
    op: Op, inputs: Sequence[Any], tangents: Sequence[Any], settings: dict[str, Any], output: Any
) -> Tensor:
    """Return J t of one op; None among the tangents means a constant input."""
    # J t = f(t): the tangent goes the way of the value.
    if (op.linear and op.name not in BY_MEMORY) or op.name in LINEAR_BY_INDEX:
        if settings.get("value") is not None:
            settings = {**settings, "value": 0}  # a number that is written is constant
        names = op.inputs * len(inputs) if op.variadic else op.inputs
        moving = [
            zero_tangent(name in op.rules, value) if tangent is None else tangent
            for name, value, tangent in zip(names, inputs, tangents, strict=False)
        ]
        return call_op(op, moving, settings)
    input_tensors = [value for value in inputs if isinstance(value, Tensor)]
    if op.family.broadcasts and not any(number.is_complex() for number in input_tensors):
        return elementwise_jvp(op, inputs, tangents, settings, output)
    return double_backward_jvp(op, inputs, tangents, settings)


def call_op(op: Op, inputs: Sequence[Any], settings: dict[str, Any]) -> Any:
    """Call an op, with its inputs in the order of `op.inputs`."""
    named = {op.inputs[0]: inputs} if op.variadic else zip(op.inputs, inputs, strict=True)
    return op.function(**dict(named), **settings)


BY_MEMORY = {"as_strided"}
"""Ops that depend on the strides of their input: those of a tangent may differ."""

LINEAR_BY_INDEX = set(
    "gather scatter scatter_add index_select index_add index_copy index_put".split()
)
"""Linear in all but their indices. Where a position is written twice, the last write counts: the
rule of backward, which gives both the gradient, does not express that."""


def elementwise_jvp(
    op: Op, inputs: Sequence[Any], tangents: Sequence[Any], settings: dict[str, Any], output: Any
) -> Tensor:
    """Sum the contribution of each input, by the rules of backward with the tangent as `g`."""
    values = {**settings, **dict(zip(op.inputs, inputs, strict=False)), "y": output, "node": None}
    values |= {f"{name}_shape": getattr(values.get(name), "shape", ()) for name in op.inputs}
    total = None
    for name, tangent in zip(op.inputs, tangents, strict=False):
        if tangent is None or name not in op.rules:
            continue
        rule = op.rules[name]
        part = rule.function(
            *({**values, "g": tangent}[parameter] for parameter in rule.parameters)
        )
        total = part if total is None else total + part
    return zeros_as(output) if total is None else total


def double_backward_jvp(
    op: Op, inputs: Sequence[Any], tangents: Sequence[Any], settings: dict[str, Any]
) -> Tensor:
    """Return J t as the derivative of v ↦ vᵀ J along the tangents."""
    values = (*inputs, *tangents)
    recorded = current().grad and any(node_of(value) is not None for value in values)
    with override_modes(grad=True):
        primals = [
            value if tangent is None else differentiation_input(value, recorded)
            for value, tangent in zip(inputs, tangents, strict=True)
        ]
        result = call_op(op, primals, settings)
        y = result[0] if isinstance(result, tuple) else result
        # v itself does not matter: v ↦ vᵀ J is linear, and only its derivative is taken.
        start = zeros_as(y).requires_grad_()
        pairs = [(x, t) for x, t in zip(primals, tangents, strict=True) if t is not None]
        leaves = [x for x, _ in pairs]
        if y._node is None or not leaves:
            return zeros_as(y)
        backs = grad(y, leaves, start, create_graph=True, allow_unused=True)
        used = [
            (back, tangent)
            for back, (_, tangent) in zip(backs, pairs, strict=True)
            if back is not None and back._node is not None
        ]
        if not used:
            return zeros_as(y)
        (result_tangent,) = grad(
            [back for back, _ in used], start, [t.to(back.dtype) for back, t in used],
            create_graph=recorded, materialize_grads=True,
        )  # fmt: skip
    assert result_tangent is not None
    return result_tangent


# In-place writes -----------------------------------------------------------------------


def update_tangents(target: Tensor, result: Tensor) -> None:
    """Set the tangents of `target` and its views after `result` was written into it."""
    levels = current().levels
    # A write into a view moves the base, and through it all other views.
    base = target if target._base is None else target._base
    for depth, level in enumerate(levels):
        tangent, base_tangent = tangent_of(result, level), tangent_of(base, level)
        if tangent is None and base_tangent is None:
            continue
        with override_modes(levels=levels[:depth], listeners=(), saving=None):
            tangent = zeros_as(target) if tangent is None else match_output(tangent, target)
            if base is not target:
                base_tangent = zeros_as(base) if base_tangent is None else base_tangent
                tangent = scatter_tangent(base_tangent, tangent, base, target)
            set_tangent(base, level, tangent)
            update_view_tangents(base, level, tangent)


def scatter_tangent(base_tangent: Tensor, tangent: Tensor, base: Tensor, view: Tensor) -> Tensor:
    """Return the tangent of a base after a write into one of its views."""
    scatter = REGISTRY["as_strided_scatter"].function
    return scatter(base_tangent, tangent, *region(view), layout_of(base))


def update_view_tangents(base: Tensor, level: Level, tangent: Tensor) -> None:
    """Set the tangent of each existing view of `base` to the same view of the base's tangent."""
    op = REGISTRY["as_strided"]
    for reference in tuple((base._writes or VersionCounter()).views):
        view = reference()
        if view is not None and view is not base and view._base is base:
            names = ("size", "stride", "storage_offset", "layout")
            values = (*region(view), layout_of(base))
            settings: dict[str, Any] = dict(zip(names, values, strict=True))
            set_tangent(view, level, push(op, (base,), (tangent,), settings, view))
