"""Hooks for every module of the program, for tools that watch or change whole networks.

PyTorch offers them in `torch.nn.modules.module`. With none registered they cost the call of
a module one truth test.
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
    """A user's function and how it wants to be called."""

    function: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return what the function has: `hook._tensor_name` of a pruning method."""
        if name == "function" or name.startswith("__"):  # while a copy is being made
            raise AttributeError(name)
        return getattr(self.function, name)


CALLS: OrderedDict[int, tuple[str, Hook]] = OrderedDict()
"""(kind, hook) around the calls of all modules."""

REGISTRATIONS: OrderedDict[int, tuple[str, Callable[..., Any]]] = OrderedDict()
"""(kind, hook) for whatever is registered in any module."""


def around_calls(kind: str) -> dict[int, Hook]:
    """Return the hooks of a kind for the calls of all modules."""
    return {number: hook for number, (its, hook) in CALLS.items() if its == kind} if CALLS else {}


def registered(kind: str, module: Any, name: str, member: Any) -> Any:
    """Show a new member of a module to the hooks, each of which may return another."""
    for its, hook in tuple(REGISTRATIONS.values()):
        if its == kind:
            found = hook(module, name, member)
            member = member if found is None else found
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
    return RemovableHandle(CALLS, ("forward_pre", Hook(hook)))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` behind `forward` of every module.

    What it returns takes the place of the output. With `with_kwargs` it is called as
    `hook(module, args, kwargs, output)`, with `always_call` also when `forward` raised.
    """
    return RemovableHandle(CALLS, ("forward", Hook(hook, with_kwargs, always_call)))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` before backward passes any module."""
    return RemovableHandle(CALLS, ("backward_pre", Hook(hook)))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when backward has passed any module.

    Raises: RuntimeError: there are hooks by `register_module_backward_hook`.
    """
    only_one_kind(not around_calls("old_backward"))
    return RemovableHandle(CALLS, ("backward", Hook(hook)))


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook on the last op of every module (out of use: it may not see all inputs).

    Raises: RuntimeError: there are hooks by `register_module_full_backward_hook`.
    """
    only_one_kind(not around_calls("backward"))
    return RemovableHandle(CALLS, ("old_backward", Hook(hook)))


def only_one_kind(condition: bool) -> None:
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
    return RemovableHandle(REGISTRATIONS, ("parameter", hook))


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever a module gets a buffer; it may return another."""
    return RemovableHandle(REGISTRATIONS, ("buffer", hook))


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, child)` whenever a module gets a child; it may return another."""
    return RemovableHandle(REGISTRATIONS, ("module", hook))
