"""How the ops whose names or arguments differ are called, here and in PyTorch, and
results that come from neither: Python's own `math`, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def _set(input: Any, value: Any, index: Any) -> Any:
    y = input.clone()
    y[index] = value
    return y


# Ops that users reach under another name.
OURS: dict[str, Callable[..., Any]] = {
    "to_device": lambda input: input.to("cpu", copy=True),
    "getitem": lambda input, index: input[index],
}


def _scatter(input: Any, dim: int, index: Any, src: Any = None, value: Any = None) -> Any:
    return input.scatter(dim, index, value if src is None else src)


def _extreme(torch: Any) -> Callable[..., Any]:
    def find(input: Any, dim: int, keepdim: bool, largest: bool) -> Any:
        return tuple((torch.max if largest else torch.min)(input, dim, keepdim))

    return find


def _plain_einsum(torch: Any, equation: str, operands: Any) -> Any:
    """Without the package opt_einsum, which has errors of its own where it is installed."""
    with torch.backends.opt_einsum.flags(enabled=False):
        return torch.einsum(equation, *operands)


THEIRS: dict[str, Callable[[Any], Callable[..., Any]]] = {}
"""For an op, a function of the module `torch` that returns what does the same there.
The files `op_cases_<family>.py` add those of their ops."""


def theirs(torch: Any, name: str) -> Callable[..., Any]:
    """Return the PyTorch function that corresponds to the op `name`."""
    if name in THEIRS:
        return THEIRS[name](torch)
    special: dict[str, Callable[..., Any]] = {
        "getitem": lambda input, index: input[index],
        "setitem": _set,
        "index_put_forward": lambda input, index, shape: (
            torch.zeros(shape, dtype=input.dtype).index_put(index, input, accumulate=True)
            if all(isinstance(part, torch.Tensor) for part in index)
            else _set(torch.zeros(shape, dtype=input.dtype), input, index)
        ),
        "sort_forward": lambda input, dim=-1, descending=False: tuple(
            torch.sort(input, dim=dim, descending=descending, stable=True)
        ),
        "minmax_dim": _extreme(torch),
        "scatter_reduce": lambda input, **rest: input.scatter_reduce(**rest),
        "mode_dim": lambda input, **rest: tuple(torch.mode(input, **rest)),
        "cum_minmax": lambda input, dim, largest: tuple(
            (torch.cummax if largest else torch.cummin)(input, dim)
        ),
        "einsum_forward": lambda operands, equation: _plain_einsum(torch, equation, operands),
        "convert_dtype": lambda input, dtype: input.to(dtype),
        "safe_sqrt": torch.sqrt,
        "to_device": torch.clone,
        "scatter": _scatter,
        "vector_norm": lambda input, ord=2, dim=None, keepdim=False: torch.linalg.vector_norm(
            input, ord, dim, keepdim
        ),
        "xlogy": lambda input, other: torch.xlogy(input, other),
        "view": lambda input, shape: input.view(shape),
        "expand": lambda input, size: input.expand(size),
        "repeat": lambda input, repeats: input.repeat(repeats),
        "relu": torch.nn.functional.relu,
        "softplus": torch.nn.functional.softplus,
        "where": lambda condition, input, other: torch.where(condition, input, other),
        "pow": lambda input, exponent: torch.pow(input, exponent),
        "amax": lambda input, dim=(), keepdim=False: torch.amax(input, dim, keepdim),
        "amin": lambda input, dim=(), keepdim=False: torch.amin(input, dim, keepdim),
    }
    if name in special:
        return special[name]
    return getattr(torch, name, None) or layers(torch, name)


def layers(torch: Any, name: str) -> Callable[..., Any]:
    """Return the function of torch.nn.functional behind an op of ours."""
    functional = torch.nn.functional
    special: dict[str, Callable[..., Any]] = {
        "constant_pad": lambda input, pads, value: functional.pad(
            input, [pad for pair in reversed(pads) for pad in pair], value=value
        ),
        "max_pool": functional.max_pool2d,
        "leaky_relu_forward": functional.leaky_relu,
        "elu_forward": functional.elu,
        "silu_forward": functional.silu,
        "mish_forward": functional.mish,
        "hardswish_forward": functional.hardswish,
        "bce_with_logits_grad": lambda input, target: functional.logsigmoid(input).exp() - target,
        "bce_with_logits_forward": lambda input, target: (
            functional.binary_cross_entropy_with_logits(input, target, reduction="none")
        ),
    }
    return special.get(name) or getattr(functional, name)


def _guarded(function: Callable[..., float]) -> Callable[..., float]:
    def answer(*values: float) -> float:
        try:
            return function(*values)
        except (ValueError, OverflowError):
            return math.nan

    return answer


# What Python's float64 says of single numbers.
NUMBERS: dict[str, Callable[..., Any]] = {
    name: _guarded(function)
    for name, function in {
        "neg": lambda x: -x, "positive": lambda x: x, "abs": abs, "square": lambda x: x**2,
        "sign": lambda x: math.copysign(1.0, x) if x else 0.0, "reciprocal": lambda x: 1 / x,
        "sqrt": math.sqrt, "rsqrt": lambda x: x**-0.5, "exp": math.exp, "expm1": math.expm1,
        "log": math.log, "log2": math.log2, "log10": math.log10, "log1p": math.log1p,
        "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos,
        "atan": math.atan, "tanh": math.tanh, "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
        "relu": lambda x: max(x, 0.0), "exp2": lambda x: 2.0**x, "erf": math.erf, "erfc": math.erfc,
        "sinh": math.sinh, "cosh": math.cosh, "asinh": math.asinh, "acosh": math.acosh,
        "atanh": math.atanh, "frac": lambda x: math.fmod(x, 1),
            "logit": lambda x: math.log(x / (1 - x)),
        "sinc": lambda x: math.sin(math.pi * x) / (math.pi * x), "deg2rad": math.radians,
        "rad2deg": math.degrees, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc,
        "softplus": lambda x: math.log(1 + math.exp(x)),
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b, "floor_divide": lambda a, b: a // b,
        "remainder": lambda a, b: a % b, "maximum": max, "minimum": min, "atan2": math.atan2,
        "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
        "pow": math.pow, "lerp": lambda a, b, w: a + w * (b - a), "fmod": math.fmod,
            "hypot": math.hypot,
        "logaddexp": lambda a, b: math.log(math.exp(a) + math.exp(b)),
        "xlogy": lambda a, b: a * math.log(b), "addcmul": lambda a, b, c: a + b * c,
        "addcdiv": lambda a, b, c: a + b / c,
    }.items()
}  # fmt: skip
