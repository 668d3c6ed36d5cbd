"""Batch norm of 16-bit images without a cast to float32 before it, and back after it.

`F.batch_norm` computes 16-bit images in float32, as they add up; cuDNN does so by itself. The pass
looks for the casts around the op, and its rule, in the program of a device, and takes them away.
Where cuDNN has no graph for the images, the functions below cast as before.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .. import backends
from ..backends.kernel_registry import run_on_device
from ..backends.numpy import Array
from ..core.precision import is_half
from ..core.registry import REGISTRY
from .product_epilogues import Patterns, become, is_cast, op_of, rule_of
from .values import Program, Value

__all__ = ["half_batch_norm", "half_batch_norm_gradients", "narrow_norms"]


def half_batch_norm(
    input: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Any, ...]:
    """Return batch norm in the dtype of a 16-bit input, and mean and variance in float32."""
    from ..kernels.gpu.cudnn_norms import batch_norm

    made: Any = batch_norm(input, weight, bias, eps)
    if made is None:
        backend, name = backends.of(input), "native_batch_norm"
        wide = input.astype("float32"), weight, bias, eps
        made = run_on_device(backend.kernels, name, input.size, wide)
        made = REGISTRY[name].forward(backend.xp, *wide) if made is None else made
    return made[0].astype(input.dtype, copy=False), *made[1:]


def half_batch_norm_gradients(
    g: Array, input: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Any, ...]:
    """Return the gradients of input, in its dtype, weight and bias."""
    key = "native_batch_norm/joint_vjp"
    kernels = backends.of(input).kernels
    made: Any = run_on_device(kernels, key, g.size, (g, input, weight, bias, eps))
    if made is None:
        wide = g.astype("float32"), input.astype("float32"), weight, bias, eps
        made = run_on_device(kernels, key, g.size, wide)
        rule = REGISTRY["native_batch_norm"].joint_vjp
        made = rule(*wide) if made is None and rule is not None else made
    return made[0].astype(input.dtype, copy=False), *made[1:]


def narrow_norms(program: Program) -> None:
    """Take away the casts around batch norm of 16-bit images.

    The program is that of a device that has cuDNN.
    """
    patterns = Patterns(program)
    changed = False
    for value in program.values:
        if op_of(value) == "native_batch_norm":
            changed |= narrow(value, 1, half_batch_norm, patterns)
        elif rule_of(value) == "native_batch_norm/joint_vjp":
            changed |= narrow(value, 2, half_batch_norm_gradients, patterns)
    if changed:
        program.remove_unused_values()
        program.assign_names()


def narrow(value: Value, count: int, function: Callable[..., Any], patterns: Patterns) -> bool:
    """Let a call take its first arguments, and return its first result, without a cast.

    Args:
        count: how many arguments are casts of 16-bit floats.
    """
    *arguments, settings = value.operands
    sources = [argument.operands[0] for argument in arguments[:count] if is_cast(argument)]
    if len(sources) != count or {source.dtype for source in sources} != {sources[0].dtype}:
        return False
    results = [user for user in value.users if user.kind == "part" and user.operands[1] == 0]
    cast = patterns.only_user(results[0]) if len(results) == 1 else None
    dtype = sources[0].dtype
    if cast is None or not is_cast(cast) or cast.dtype != dtype or not is_half(dtype):
        return False
    parameters = [*arguments[count:], *settings.values()]
    value.function, value.operands = function, (*sources, *parameters, {})
    become(cast, "part", operator.getitem, (value, 0, {}))
    return True
