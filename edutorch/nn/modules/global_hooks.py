"""Global module hooks, called for every module of the program.

PyTorch has them in `torch.nn.modules.module`. With none registered they cost one truth test per
call of a module.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...core.autograd.graph import RemovableHandle

__all__ = [
    "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]  # fmt: skip


@dataclass(frozen=True)
class Hook:
    """A user's function, and how to call it."""

    function: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the function: `hook._tensor_name` of a pruning method."""
        if name == "function" or name.startswith("__"):  # not set yet while being copied
            raise AttributeError(name)
        return getattr(self.function, name)


CALL_HOOKS: OrderedDict[int, tuple[str, Hook]] = OrderedDict()
"""(type, hook) pairs for the calls of all modules."""

REGISTRATION_HOOKS: OrderedDict[int, tuple[str, Callable[..., Any]]] = OrderedDict()
"""(type, hook) pairs for the registration of members of all modules."""


def global_call_hooks(hook_type: str) -> dict[int, Hook]:
    """Return the global hooks of one type for calls."""
    return (
        {
            hook_id: hook
            for hook_id, (registered_type, hook) in CALL_HOOKS.items()
            if registered_type == hook_type
        }
        if CALL_HOOKS
        else {}
    )


def run_registration_hooks(hook_type: str, module: Any, name: str, member: Any) -> Any:
    """Return a new member of a module as the hooks have left it; each may replace it."""
    for registered_type, hook in tuple(REGISTRATION_HOOKS.values()):
        if registered_type == hook_type:
            replacement = hook(module, name, member)
            member = member if replacement is None else replacement
    return member


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before `forward` of every module; it may return other args.

    >>> from edutorch.nn.modules.module import register_module_forward_pre_hook
    >>> with register_module_forward_pre_hook(lambda module, args: print(module)):
    ...     _ = nn.Sequential(nn.ReLU())(ones(1))
    Sequential(
      (0): ReLU()
    )
    ReLU()
    """
    return RemovableHandle(CALL_HOOKS, ("forward_pre", Hook(hook)))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after `forward` of every module.

    What it returns replaces the output. With `with_kwargs` it is called as
    `hook(module, args, kwargs, output)`, with `always_call` also when `forward` raised.
    """
    return RemovableHandle(CALL_HOOKS, ("forward", Hook(hook, with_kwargs, always_call)))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` before the backward of every module."""
    return RemovableHandle(CALL_HOOKS, ("backward_pre", Hook(hook)))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` after the backward of every module.

    Raises: RuntimeError: there are hooks by `register_module_backward_hook`.
    """
    refuse_mixed_backward_hooks(not global_call_hooks("old_backward"))
    return RemovableHandle(CALL_HOOKS, ("backward", Hook(hook)))


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook on the last op of every module (deprecated: it may not see all inputs).

    Raises: RuntimeError: there are hooks by `register_module_full_backward_hook`.
    """
    refuse_mixed_backward_hooks(not global_call_hooks("backward"))
    return RemovableHandle(CALL_HOOKS, ("old_backward", Hook(hook)))


def refuse_mixed_backward_hooks(condition: bool) -> None:
    """Raise RuntimeError unless all backward hooks are full ones, or none is."""
    if not condition:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks. Please use only one "
            "of them: register_full_backward_hook sees all gradients of a module"
        )


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, param)` whenever a module gets a parameter; it may return another.

    >>> from edutorch.nn.modules.module import register_module_parameter_registration_hook
    >>> with register_module_parameter_registration_hook(lambda module, name, p: print(name)):
    ...     _ = nn.Linear(2, 1)
    weight
    bias
    """
    return RemovableHandle(REGISTRATION_HOOKS, ("parameter", hook))


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever a module gets a buffer; it may return another."""
    return RemovableHandle(REGISTRATION_HOOKS, ("buffer", hook))


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, child)` whenever a module gets a child; it may return another."""
    return RemovableHandle(REGISTRATION_HOOKS, ("module", hook))
