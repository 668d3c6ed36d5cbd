"""Pruning: switching off a part of a parameter's numbers.

A pruned parameter `weight` is kept as `weight_orig`, with a buffer `weight_mask` of zeros and
ones beside it; before each call weight = weight_mask · weight_orig. The methods that choose
what to switch off are in `prune_methods.py`.
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
    """Give a parameter a mask, and prune nothing."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Switch off a number (int) or part (float) of a parameter at random.

    >>> layer = random_unstructured(nn.Linear(4, 2), "weight", amount=0.25)
    >>> layer.weight_mask.sum().item()
    6.0
    """
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(
    module: Any, name: str, amount: float, importance_scores: Tensor | None = None
) -> Any:
    """Switch off the numbers closest to 0 (or with the lowest scores).

    >>> layer = l1_unstructured(nn.Linear(4, 2), "weight", amount=3)
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_mask']
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Switch off channels along `dim` at random."""
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int,
    importance_scores: Tensor | None = None,
) -> Any:  # fmt: skip
    """Switch off the channels along `dim` whose Lₙ norms are smallest."""
    LnStructured.apply(
        module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
    )
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Switch off what a mask of zeros and ones says."""
    CustomFromMask.apply(module, name, mask=mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prune several parameters as if they were one.

    Args:
        parameters: modules, with the names of their parameters.
        pruning_method: an unstructured one; `kwargs` are its settings.
        importance_scores: by module and name.

    Raises: TypeError: these are no such things.

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
    """Make a pruned parameter an ordinary one again; what is off stays 0.

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
    """Say whether a parameter of the module, or of one below, is pruned.

    >>> is_pruned(nn.Sequential(nn.Linear(2, 2)))
    False
    """
    return any(find_hook(child) is not None for child in module.modules())
