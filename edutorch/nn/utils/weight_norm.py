"""Weight norm as it was first: a hook computes the weight before each call.

`parametrizations.weight_norm` is the newer form; this one is in many older models.
"""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...errors import GradientError, ShapeValueError
from ..modules.module import Module
from ..parameter import Parameter, is_lazy
from ..torch_level.layers import norm_except_dim

__all__ = ["remove_weight_norm", "weight_norm"]


class WeightNorm:
    """Before each call of a module: weight = g · v / |v|."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the weight for the g and v of now."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except_dim(v, 2, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))

    def remove(self, module: Module) -> None:
        """Make the weight an ordinary parameter again."""
        weight = self.compute_weight(module).detach()
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"], module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight))


def find_hook(module: Module, hook_class: type, name: str) -> int | None:
    """Return the number of the hook of this kind for this parameter, None if there is none."""
    for hook_id, hook in module._forward_pre_hooks.items():
        if isinstance(hook.function, hook_class) and hook.function.name == name:  # type: ignore[attr-defined]
            return hook_id
    return None


def refuse_duplicate(module: Module, hook_class: type, what: str, name: str) -> None:
    """Raise RuntimeError if there is such a hook already."""
    if find_hook(module, hook_class, name) is not None:
        raise GradientError(None, f"Cannot register two {what} hooks on the same parameter {name}")


def refuse_lazy(weight: Any, what: str) -> None:
    """Raise ValueError for a parameter without a shape."""
    if is_lazy(weight):
        raise ShapeValueError(
            None, f"The module passed to `{what}` can't have uninitialized parameters. Make sure "
            "to run the dummy forward before applying it",
        )  # fmt: skip


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Train length and direction of a weight apart: weight = g · v / |v|.

    Args:
        dim: the axis along which each slice has a length of its own; None: one for all.

    Raises: RuntimeError: it is done already.

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
    hook(module, ())
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight an ordinary parameter again.

    Raises: ValueError: there is no weight norm on it.

    >>> layer = nn.utils.weight_norm(nn.Linear(3, 2))
    >>> list(nn.utils.remove_weight_norm(layer).state_dict())
    ['bias', 'weight']
    """
    hook_id = find_hook(module, WeightNorm, name)
    if hook_id is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    module._forward_pre_hooks.pop(hook_id).function.remove(module)
    return module
