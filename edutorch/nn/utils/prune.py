"""Pruning: setting elements or channels of parameters to zero by a mask.

A pruned parameter `weight` is stored as `weight_orig`, with a buffer `weight_mask` of zeros and
ones; before each call weight = weight_mask · weight_orig. The methods that compute masks are in
`prune_methods.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core.tensor import Tensor
from ...modes import no_grad
from ...ops import ones_like, reshape
from ..modules.module import Module
from .convert_parameters import parameters_to_vector
from .prune_methods import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    find_hook,
)  # fmt: skip

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


def identity(module: Any, name: str) -> Any:
    """Register a mask of ones: nothing is pruned."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune random elements of a parameter: a count (int) or a fraction (float).

    >>> layer = random_unstructured(nn.Linear(4, 2), "weight", amount=0.25)
    >>> layer.weight_mask.sum().item()
    6.0
    """
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(
    module: Any, name: str, amount: float, importance_scores: Tensor | None = None
) -> Any:
    """Prune the elements with the smallest absolute values (or the lowest scores).

    >>> layer = l1_unstructured(nn.Linear(4, 2), "weight", amount=3)
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_mask']
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune random channels along `dim`."""
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int,
    importance_scores: Tensor | None = None,
) -> Any:  # fmt: skip
    """Prune the channels along `dim` with the smallest Lₙ norms."""
    LnStructured.apply(
        module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
    )
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune the elements where a mask is 0."""
    CustomFromMask.apply(module, name, mask=mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prune several parameters together, as if concatenated into one.

    Args:
        parameters: pairs of a module and the name of a parameter.
        pruning_method: an unstructured method; `kwargs` are its arguments.
        importance_scores: scores by module and name.

    Raises: TypeError: an argument has the wrong type, or the method is structured.

    >>> layer = nn.Linear(4, 2)
    >>> global_unstructured([(layer, "weight"), (layer, "bias")], L1Unstructured, amount=5)
    >>> (layer.weight_mask.sum() + layer.bias_mask.sum()).item()
    5.0
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    if not isinstance(importance_scores, dict | None):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    targets, scores_by_target = list(parameters), importance_scores or {}
    tensors = [getattr(module, name) for module, name in targets]
    scores: Any = [
        scores_by_target.get(target, tensor)
        for target, tensor in zip(targets, tensors, strict=True)
    ]
    masks: Any = [
        getattr(module, f"{name}_mask", ones_like(tensor))
        for (module, name), tensor in zip(targets, tensors, strict=True)
    ]
    with no_grad():
        mask = PruningContainer(method).compute_mask(
            parameters_to_vector(scores), parameters_to_vector(masks)
        )
    start = 0
    for (module, name), tensor in zip(targets, tensors, strict=True):
        part = mask[start : start + tensor.numel()]
        custom_from_mask(module, name, reshape(part, tensor.shape))
        start += tensor.numel()


def remove(module: Any, name: str) -> Any:
    """Turn a pruned parameter into an ordinary one; pruned elements stay 0.

    Raises: ValueError: it is not pruned.
    """
    hook_id = find_hook(module, name)
    if hook_id is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    module._forward_pre_hooks.pop(hook_id).function.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Return True if a parameter of the module or of a submodule is pruned.

    >>> is_pruned(nn.Sequential(nn.Linear(2, 2)))
    False
    """
    return any(find_hook(child) is not None for child in module.modules())
