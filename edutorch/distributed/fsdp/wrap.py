"""Which submodules `FullyShardedDataParallel` divides by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...nn.modules.module import Module

__all__ = [
    "ModuleWrapPolicy", "always_wrap_policy", "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]  # fmt: skip

DEFAULT_MIN_PARAMS = int(1e8)


class ModuleWrapPolicy:
    """The modules of some classes.

    >>> policy = distributed.fsdp.wrap.ModuleWrapPolicy({nn.Linear})
    >>> policy(nn.Linear(1, 1), recurse=False)
    True
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self.module_classes = tuple(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **named: Any) -> bool:
        return recurse or isinstance(module, self.module_classes)


def always_wrap_policy(*args: Any, **named: Any) -> bool:
    """Every module."""
    return True


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int,
    transformer_layer_cls: Iterable[type[Module]],
) -> bool:  # fmt: skip
    """The modules of some classes: the blocks of a transformer."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = DEFAULT_MIN_PARAMS,
    force_leaf_modules: Any = None, exclude_wrap_modules: Any = None,
) -> bool:  # fmt: skip
    """The modules with at least `min_num_params` parameters that inner ones do not have."""
    return nonwrapped_numel >= min_num_params


def select_modules(root: Module, policy: Callable[..., bool]) -> list[Module]:
    """Return the modules inside of `root` that a policy chooses, inner ones first."""
    chosen: list[Module] = []

    def visit(module: Module, is_root: bool) -> int:
        """Return how many parameters the chosen ones inside of a module have."""
        total = sum(p.numel() for p in module.parameters())
        inside = 0
        if policy(module=module, recurse=True, nonwrapped_numel=total):
            inside = sum(visit(child, False) for child in module.children())
        is_chosen = policy(module=module, recurse=False, nonwrapped_numel=total - inside)
        if is_root or not is_chosen or module in chosen:
            return inside
        chosen.append(module)
        return total

    visit(root, True)
    return chosen
