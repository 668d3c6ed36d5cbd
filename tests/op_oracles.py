"""How the ops whose names or arguments differ are called, here and in PyTorch, and
results that come from neither: the reference of an op's block."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from edutorch.core.op import REGISTRY, Op


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


class NoTwinError(NotImplementedError):
    """PyTorch has no such op: its block's `reference` is the oracle."""


def theirs(torch: Any, name: str) -> Callable[..., Any]:
    """Return the PyTorch function that corresponds to the op `name`.

    Raises: NoTwinError: there is none.
    """
    if name in THEIRS:
        return THEIRS[name](torch)
    special = _special(torch)
    if name in special:
        return special[name]
    op = REGISTRY[name]
    if op.options.torch_name:
        return attrgetter(op.options.torch_name)(torch)
    for twin in (name, op.public_name):
        for module in (torch, torch.nn.functional, torch.special):
            if hasattr(module, twin):
                return getattr(module, twin)
    raise NoTwinError(name)


def _special(torch: Any) -> dict[str, Callable[..., Any]]:
    functional = torch.nn.functional
    return {
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
        "to_device": torch.clone,
        "scatter": _scatter,
        "vector_norm": lambda input, ord=2, dim=None, keepdim=False: torch.linalg.vector_norm(
            input, ord, dim, keepdim
        ),
        "xlogy": lambda input, other: torch.xlogy(input, other),
        "view": lambda input, shape: input.view(shape),
        "expand": lambda input, size: input.expand(size),
        "repeat": lambda input, repeats: input.repeat(repeats),
        "where": lambda condition, input, other: torch.where(condition, input, other),
        "pow": lambda input, exponent: torch.pow(input, exponent),
        "amax": lambda input, dim=(), keepdim=False: torch.amax(input, dim, keepdim),
        "amin": lambda input, dim=(), keepdim=False: torch.amin(input, dim, keepdim),
        "constant_pad": lambda input, pads, value: functional.pad(
            input, [pad for pair in reversed(pads) for pad in pair], value=value
        ),
        "bce_with_logits_grad": lambda input, target: functional.logsigmoid(input).exp() - target,
        "kl_div_forward": lambda input, target: functional.kl_div(input, target, reduction="none"),
        "bce_with_logits_forward": lambda input, target: (
            functional.binary_cross_entropy_with_logits(input, target, reduction="none")
        ),
    }


def by_reference(op: Op, case: dict[str, Any]) -> np.ndarray | None:
    """Return what the reference of an op's block says of a case; None where it says nothing."""
    reference = op.options.reference
    if reference is None or "only_values" in case:
        return None
    settings = {name: value for name, value in case.items() if name not in op.inputs}
    if settings and not settings.keys() <= inspect.signature(reference).parameters.keys():
        return None
    if not op.family.broadcasts:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the mean of no elements
            return np.asarray(reference(**case))
    operands = np.broadcast_arrays(*(case[name] for name in op.inputs))
    rows = zip(*(operand.ravel().tolist() for operand in operands), strict=True)
    values = [_or_nan(reference, row, settings) for row in rows]
    return np.array(values, float).reshape(operands[0].shape)


def _or_nan(function: Callable[..., float], row: tuple[float, ...], settings: Any) -> float:
    """Python raises an error where NumPy returns NaN."""
    try:
        return function(*map(float, row), **settings)
    except (ValueError, OverflowError):
        return math.nan
