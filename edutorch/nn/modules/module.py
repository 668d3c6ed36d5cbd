"""`Module`, the base class of all layers and networks: calls, hooks and modes.

Parameters, buffers and children are in `registration.py`; saving, loading and conversion to other
devices and dtypes in `state_dict.py`; what a call does beside `forward` in `hooks.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from numpy import ndarray

from ...core.argument_checks import FAILURES, check_settings
from ...core.autograd.graph import RemovableHandle
from ...errors import EdutorchError, refuse_unknown_keywords
from ...modes import current
from . import hooks, registration, state_dict
from .hooks import (
    CALL_HOOKS,
    Hook,
    add_module_path,
    call_with_events,
    explain_wrong_input,
    refuse_array,
    refuse_mixed_backward_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from .registration import ModuleTree
from .state_dict import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX  # PyTorch has both here
from .state_dict import ModuleConversions, ModuleState
from .state_dict import _IncompatibleKeys as _IncompatibleKeys

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]  # fmt: skip

T_destination = TypeVar("T_destination", bound=dict[str, Any])
HOOKS = (
    "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks",
    "_state_dict_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)  # fmt: skip


class Module(ModuleState, ModuleConversions):
    """Base class of all network modules: holds parameters, and computes in `forward`.

    Assigning a Parameter, a Buffer or another Module to an attribute registers it.

    >>> class Double(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(tensor(2.0))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> Double()(tensor(3.0)).item()
    6.0
    """

    call_super_init: ClassVar[bool] = False
    dump_patches: ClassVar[bool] = False
    T_destination: ClassVar[Any] = T_destination
    training: bool
    _is_full_backward_hook: bool | None
    _forward_pre_hooks: OrderedDict[int, Hook]
    _forward_hooks: OrderedDict[int, Hook]
    _backward_pre_hooks: OrderedDict[int, Hook]
    _backward_hooks: OrderedDict[int, Hook]

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """Create a module; a keyword that `__init__` lacks raises an error with a suggestion.

        For edutorch's own layers the types of the settings are checked as well.
        """
        if named:
            refuse_unknown_keywords(cls.__init__, cls.__name__, named)
        # A user's module may take what it likes under any name.
        if cls.__module__.startswith("edutorch."):
            check_settings(cls.__name__, cls.__init__, args, named)
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        is_cooperative = self.call_super_init  # pass the arguments on to further base classes
        if kwargs and not is_cooperative:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                f"'{next(iter(kwargs))}'"
            )
        if args and not is_cooperative:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but "
                f"{len(args) + 1} were given"
            )
        super().__init__()
        self.__dict__.update(training=True, _is_full_backward_hook=None)
        self.__dict__.update((name, OrderedDict()) for name in HOOKS)
        if is_cooperative:
            super(ModuleTree, self).__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled or copied module; one of an older version lacks some hooks."""
        self.__dict__.update(state)
        # A file of an older version lacks the newer registries.
        for name in HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # Computing ------------------------------------------------------------------------

    if TYPE_CHECKING:
        forward: Callable[..., Any]
    else:

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """Compute the output. Every subclass overrides it."""
            raise NotImplementedError(
                f'Module [{type(self).__name__}] is missing the required "forward" function'
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, with the hooks around it."""
        try:
            # Two identity tests, as a call of a small layer takes a few microseconds.
            if args and (args[0].__class__ is ndarray or args[-1].__class__ is ndarray):
                refuse_array(self, args)
            if (
                self._forward_hooks
                or self._forward_pre_hooks
                or self._backward_hooks
                or self._backward_pre_hooks
                or CALL_HOOKS
                or current().listeners
            ):
                return call_with_events(self, args, kwargs)
            # The usual case: no hooks, no listeners, one truth test each.
            return self.forward(*args, **kwargs)
        except EdutorchError as error:
            add_module_path(error, self)
            raise
        except FAILURES as error:
            better = explain_wrong_input(self, args, error)
            if better is None:
                raise
            raise better from error

    def extra_repr(self) -> str:
        """Return the settings shown in the module's repr."""
        return ""

    def __repr__(self) -> str:
        return nested_repr(self)

    def _get_name(self) -> str:
        return type(self).__name__

    # Whole trees of modules -----------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn(module)` for every module below and then this one, and return this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch to training mode, in which dropout and batch norm behave differently.

        Raises: ValueError: `mode` is not True or False.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: training mode is expected to be boolean, got {mode!r}")
        self.training = mode
        for child in self.children():
            child.train(mode)  # not `child.training = mode`: a subclass may override `train`
        return self

    def eval(self) -> Self:
        """Switch to evaluation mode: the same input always gives the same output."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether gradients are computed for the parameters (False freezes them)."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters to None, or to zeros."""
        for parameter in self.parameters():
            # None instead of zeros saves a pass over memory, and an optimizer skips the parameter.
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.detach_().zero_()  # in place: a CUDA graph knows its address

    # Hooks ------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`; what it returns replaces the args."""
        return add_module_hook(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:  # fmt: skip
        """Call `hook(module, args, output)` after `forward`; what it returns is the output.

        With `always_call` also when `forward` raised (with None as output).
        """
        return add_module_hook(self._forward_hooks, Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` after the module's backward.

        A tuple that it returns replaces `grad_input`.

        Raises: RuntimeError: there is a hook of `register_backward_hook`.
        """
        refuse_mixed_backward_hooks(self._is_full_backward_hook is not False)
        self._is_full_backward_hook = True
        return add_module_hook(self._backward_hooks, Hook(hook), prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the module's backward."""
        return add_module_hook(self._backward_pre_hooks, Hook(hook), prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` for the last op inside the module.

        Deprecated: of a module with several ops it sees the inputs of the last one only.
        `register_full_backward_hook` sees those of the module itself.

        Raises: RuntimeError: there is a hook of `register_full_backward_hook`.
        """
        refuse_mixed_backward_hooks(self._is_full_backward_hook is not True)
        self._is_full_backward_hook = False
        return add_module_hook(self._backward_hooks, Hook(hook), prepend=False)

    # Compiling ------------------------------------------------------------------------------

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's `forward` in place. The arguments are those of `edutorch.compile`.

        >>> layer = nn.Linear(2, 3)
        >>> layer.compile()
        >>> layer(ones(2)).shape
        torch.Size([3])
        """
        compiler = import_module("edutorch.compiler")  # above nn: loaded when it is needed
        # In the instance, so that other modules of this class are not compiled.
        self.__dict__["forward"] = compiler.compile(self.forward, *args, **kwargs)


def add_module_hook(hooks: OrderedDict[int, Any], hook: Hook, prepend: bool) -> RemovableHandle:
    """Add a hook after the others, or before them."""
    handle = RemovableHandle(hooks, hook)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


# Their annotations name `Module`, which `typing.get_type_hints` looks up in their globals.
for _user in (hooks, registration, state_dict):
    _user.Module = Module  # type: ignore[attr-defined]


# Repr -----------------------------------------------------------------------------------------


def nested_repr(module: Module) -> str:
    """Return the repr of a module: one line, or one indented line per child."""
    extra = module.extra_repr().split("\n") if module.extra_repr() else []
    children = [f"({name}): {indent_lines(repr(child))}" for name, child in module._modules.items()]
    return format_repr(module._get_name(), extra, children)


def format_repr(name: str, extra: list[str], children: list[str]) -> str:
    """Join the parts of a repr: on one line if it has at most one part and no children."""
    lines = extra + children
    if not lines:
        return f"{name}()"
    if len(extra) == 1 and not children:
        return f"{name}({extra[0]})"
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)"


def indent_lines(text: str) -> str:
    """Indent all lines but the first."""
    return text.replace("\n", "\n  ")
