"""Hooks of optimizers, called before and after `step`, `state_dict` and `load_state_dict`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from ..core.autograd.graph import RemovableHandle

__all__ = [
    "OptimizerHooks", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
]  # fmt: skip

Hook = Callable[..., Any]

GLOBAL_HOOKS: dict[str, dict[int, Hook]] = {"step_pre": {}, "step_post": {}}


class OptimizerHooks:
    """The part of `Optimizer` that holds hooks, by the time at which they are called."""

    def __init__(self) -> None:
        self._hooks: dict[str, OrderedDict[int, Hook]] = {}

    def add_hook(self, when: str, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Add a hook after the others, or before them."""
        hooks = self._hooks.setdefault(when, OrderedDict())
        handle = RemovableHandle(hooks, hook)
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def hooks_for(self, when: str) -> Iterator[Hook]:
        """Yield the hooks to call. The global ones are the outermost."""
        own, global_ = self._hooks.get(when, ()), GLOBAL_HOOKS.get(when, ())
        layers = (own, global_) if when == "step_post" else (global_, own)
        for hooks in layers:
            yield from tuple(hooks.values()) if hooks else ()

    def run_state_dict_hooks(self, when: str, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Return a state_dict as the hooks have left it; each may replace it."""
        for hook in self.hooks_for(when):
            replacement = hook(self, state_dict)
            state_dict = state_dict if replacement is None else replacement
        return state_dict

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new ones."""
        return self.add_hook("step_pre", hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self.add_hook("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` (before the other hooks: prepend)."""
        return self.add_hook("save_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` with what `state_dict` made; it may return another."""
        return self.add_hook("save_post", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`; it may return another."""
        return self.add_hook("load_pre", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict` (before the other hooks: prepend)."""
        return self.add_hook("load_post", hook, prepend)


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)])
    >>> calls = []
    >>> with optim.optimizer.register_optimizer_step_pre_hook(lambda *args: calls.append("step")):
    ...     optimizer.step()
    >>> calls
    ['step']
    """
    return RemovableHandle(GLOBAL_HOOKS["step_pre"], hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)])
    >>> calls = []
    >>> with optim.optimizer.register_optimizer_step_post_hook(lambda *args: calls.append("step")):
    ...     optimizer.step()
    >>> calls
    ['step']
    """
    return RemovableHandle(GLOBAL_HOOKS["step_post"], hook)
