"""The base of everything that has parameters.

What a module holds, and how it is named, is in `registration.py`; how it is saved in `state_dict.py`, how
it is converted in `device_dtype.py`. Here is what it does: compute, with hooks around it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from numpy import ndarray

from ...core.argument_checks import FAILURES, check_settings
from ...core.autograd.graph import RemovableHandle
from ...errors import EdutorchError, refuse_unknown_keywords
from ...modes import current
from ...ops import zeros_like
from . import hooks, registration, repr, state_dict
from .device_dtype import ModuleMoves
from .global_hooks import (
    CALLS,
    Hook,
    only_one_kind,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from .hooks import call_watched
from .registration import ModuleTree
from .repr import located, nested_repr, not_a_tensor, refuse_array
from .state_dict import ModuleState
from .state_dict import _IncompatibleKeys as _IncompatibleKeys  # PyTorch has it in this file

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


class Module(ModuleState, ModuleMoves):
    """A part of a network: holds parameters, and computes in `forward`.

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
        """Make one; a keyword that `__init__` does not have is refused with a suggestion.

        A layer of ours is not made of settings of a wrong type either.
        """
        if named:
            refuse_unknown_keywords(cls.__init__, cls.__name__, named)
        if cls.__module__.startswith("edutorch."):
            check_settings(cls.__name__, cls.__init__, args, named)
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        further = self.call_super_init  # to the classes behind Module: cooperative inheritance
        if kwargs and not further:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                f"'{next(iter(kwargs))}'"
            )
        if args and not further:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but "
                f"{len(args) + 1} were given"
            )
        super().__init__()
        self.__dict__.update(training=True, _is_full_backward_hook=None)
        self.__dict__.update((name, OrderedDict()) for name in HOOKS)
        if further:
            super(ModuleTree, self).__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what was pickled or copied; a module of an older version lacks some hooks."""
        self.__dict__.update(state)
        for name in HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # Computing ------------------------------------------------------------------------

    if TYPE_CHECKING:
        forward: Callable[..., Any]
    else:

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """Compute the output. Every subclass writes its own."""
            raise NotImplementedError(
                f'Module [{type(self).__name__}] is missing the required "forward" function'
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, with the hooks around it."""
        try:
            if args and (args[0].__class__ is ndarray or args[-1].__class__ is ndarray):
                refuse_array(self, args)
            if (
                self._forward_hooks
                or self._forward_pre_hooks
                or self._backward_hooks
                or self._backward_pre_hooks
                or CALLS
                or current().listeners
            ):
                return call_watched(self, args, kwargs)
            return self.forward(*args, **kwargs)
        except EdutorchError as error:
            located(error, self)
            raise
        except FAILURES as error:
            better = not_a_tensor(self, args, error)
            if better is None:
                raise
            raise better from error

    def extra_repr(self) -> str:
        """Return the settings to show in the module's text."""
        return ""

    def __repr__(self) -> str:
        return nested_repr(self)

    def _get_name(self) -> str:
        return type(self).__name__

    # Everything it holds --------------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn(module)` for every module below and then this one, and return this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch to training: dropout drops, batch norm looks at the batch.

        Raises: ValueError: `mode` is not True or False.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: training mode is expected to be boolean, got {mode!r}")
        self.training = mode
        for child in self.children():
            child.train(mode)  # which a subclass may write in its own way
        return self

    def eval(self) -> Self:
        """Switch to evaluation: the same input always gives the same output."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say whether gradients are wanted for the parameters (False freezes them)."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or set them to zeros)."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad = zeros_like(parameter.grad)

    # Hooks ------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`; what it returns replaces the args."""
        return hang(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:  # fmt: skip
        """Call `hook(module, args, output)` behind `forward`; what it returns is the output.

        With `always_call` also when `forward` raised (with None as output).
        """
        return hang(self._forward_hooks, Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when backward has passed the module.

        A tuple that it returns takes the place of `grad_input`.

        Raises: RuntimeError: there is a hook of `register_backward_hook`.
        """
        only_one_kind(self._is_full_backward_hook is not False)
        self._is_full_backward_hook = True
        return hang(self._backward_hooks, Hook(hook), prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` before backward passes the module."""
        return hang(self._backward_pre_hooks, Hook(hook), prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` for the last op inside the module.

        Out of use: of a module with several ops it sees the inputs of the last one only.
        `register_full_backward_hook` sees the module's own.

        Raises: RuntimeError: there is a hook of `register_full_backward_hook`.
        """
        only_one_kind(self._is_full_backward_hook is not True)
        self._is_full_backward_hook = False
        return hang(self._backward_hooks, Hook(hook), prepend=False)

    # Compiling ------------------------------------------------------------------------------

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's `forward` in place. The arguments are those of `edutorch.compile`.

        >>> layer = nn.Linear(2, 3)
        >>> layer.compile()
        >>> layer(ones(2)).shape
        torch.Size([3])
        """
        import edutorch

        self.__dict__["forward"] = edutorch.compile(self.forward, *args, **kwargs)


def hang(hooks: OrderedDict[int, Any], hook: Hook, prepend: bool) -> RemovableHandle:
    """Add a hook behind the others, or in front of them."""
    handle = RemovableHandle(hooks, hook)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


for _user in (hooks, state_dict, repr, registration):  # their annotations name it: `get_type_hints`
    _user.Module = Module  # type: ignore[attr-defined]
