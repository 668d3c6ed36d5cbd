"""Weight norm by a forward pre-hook, which computes the weight before each call.

`parametrizations.weight_norm` is the newer form; older models use this one.
"""

from __future__ import annotations

import math
from typing import Any

from ...core.tensor import Tensor
from ...errors import GradientError, ShapeValueError
from ...ops import norm, reshape, transpose
from ..modules.module import Module
from ..parameter import Parameter, is_lazy

__all__ = ["norm_except_dim", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """Hook that sets weight = g · v / |v| before each call of a module."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the weight for the current g and v."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except_dim(v, 2, self.dim))

    def __call__(self, module: Module, inputs: tuple[Any, ...]) -> None:
        setattr(module, self.name, self.compute_weight(module))

    def remove(self, module: Module) -> None:
        """Turn the weight into an ordinary parameter."""
        weight = self.compute_weight(module).detach()
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"], module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight))


def find_hook(module: Module, hook_class: type, name: str) -> int | None:
    """Return the id of the hook of this class for this parameter, or None."""
    for hook_id, hook in module._forward_pre_hooks.items():
        if isinstance(hook.function, hook_class) and hook.function.name == name:  # type: ignore[attr-defined]
            return hook_id
    return None


def refuse_duplicate(module: Module, hook_class: type, what: str, name: str) -> None:
    """Raise RuntimeError if there is such a hook already."""
    if find_hook(module, hook_class, name) is not None:
        raise GradientError(None, f"Cannot register two {what} hooks on the same parameter {name}")


def remove_hook(module: Module, hook_class: type, what: str, name: str) -> Module:
    """Remove a hook, which makes the weight an ordinary parameter. Raise ValueError without one."""
    hook_id = find_hook(module, hook_class, name)
    if hook_id is None:
        raise ValueError(f"{what} of '{name}' not found in {module}")
    module._forward_pre_hooks.pop(hook_id).function.remove(module)  # type: ignore[attr-defined]
    return module


def refuse_lazy(weight: object, what: str) -> None:
    """Raise ValueError for an uninitialized (lazy) parameter."""
    if is_lazy(weight):
        raise ShapeValueError(
            None, f"The module passed to `{what}` can't have uninitialized parameters. Make sure "
            "to run the dummy forward before applying it",
        )  # fmt: skip


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Any:
    """Separate the norm and the direction of a weight: weight = g · v / |v|.

    Args:
        dim: the axis whose slices have a norm each; None for a single norm.

    Raises: RuntimeError: it is registered already.

    Paper: Salimans and Kingma, Weight normalization, 2016.

    >>> list(nn.utils.weight_norm(nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_g', 'weight_v']
    """
    refuse_duplicate(module, WeightNorm, "weight_norm", name)
    hook, weight = WeightNorm(name, dim), getattr(module, name)
    refuse_lazy(weight, "WeightNorm")
    del module._parameters[name]
    length = norm_except_dim(weight.detach(), 2, hook.dim)
    module.register_parameter(f"{name}_g", Parameter(length))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    # Once now, so that the weight can be read before the first call.
    hook(module, ())
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Any:
    """Turn the weight into an ordinary parameter.

    Raises: ValueError: it has no weight norm.

    >>> layer = nn.utils.weight_norm(nn.Linear(3, 2))
    >>> list(nn.utils.remove_weight_norm(layer).state_dict())
    ['bias', 'weight']
    """
    return remove_hook(module, WeightNorm, "weight_norm", name)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms of a tensor's slices along `dim`, for weight normalisation.

    Args:
        pow: the p of the norm.
        dim: the axis that is kept; -1 for a single norm.

    >>> norm_except_dim(tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[5.],
            [2.]])
    """
    if dim == -1:
        return norm(v, pow)
    if dim == 0:
        rows = reshape(v, (v.shape[0], math.prod(v.shape[1:])))
        return reshape(norm(rows, pow, 1), (-1,) + (1,) * (v.ndim - 1))
    return transpose(norm_except_dim(transpose(v, 0, dim), pow, 0), 0, dim)
