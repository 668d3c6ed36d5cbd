"""Parametrizations: parameters that are computed from others at each access.

    layer = nn.Linear(3, 3)
    register_parametrization(layer, "weight", Symmetric())
    layer.weight            # Symmetric() of layer.parametrizations.weight.original

The trained parameter is `original`; the layer itself is unchanged. The module gets a dynamic
subclass, whose attribute `weight` is a property.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...core.tensor import Tensor
from ...errors import EdutorchError
from ...modes import no_grad
from ..common_types import DTypeLike
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip

CACHE: ContextVar[dict[tuple[int, str], Tensor] | None] = ContextVar("CACHE", default=None)
"""The tensors computed inside `cached`, by module and name; None outside of it."""


class ParametrizationError(EdutorchError, ValueError):
    """A parametrization is invalid, or returns a tensor of the wrong shape or dtype."""


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor only once inside the `with` block.

    >>> layer = register_parametrization(nn.Linear(2, 2), "weight", nn.Tanh())
    >>> with cached():
    ...     layer.weight is layer.weight
    True
    """
    if CACHE.get() is not None:
        yield
        return
    # A context variable: other threads and tasks compute their own.
    token = CACHE.set({})
    try:
        yield
    finally:
        CACHE.reset(token)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order to the original tensors.

    Args:
        modules: the parametrizations.
        original: the tensor to be parametrized.
        unsafe: do not check that shape and dtype are kept.

    Raises: ParametrizationError (a ValueError): shape or dtype would change.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ParametrizationError(None, "ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        # The inverses in reverse order, as f(g(x)) = y needs g⁻¹(f⁻¹(y)).
        with no_grad():
            new: Any = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    new = apply_right_inverse(module, new)
        if not isinstance(new, Tensor | Sequence):
            raise ParametrizationError(
                None, "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                f"tuple...). Got {type(new).__name__}",
            )  # fmt: skip
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            if new.dtype is not dtype:
                raise ParametrizationError(
                    None, "When `right_inverse` outputs one tensor, it may not change the dtype.",
                    {"original": dtype, "right_inverse(original)": new.dtype},
                )  # fmt: skip
            # The same object, so that an optimizer made before still trains it.
            original.data = new.detach()
            register_tensor(self, "original", original)
        else:
            for index, part in enumerate(new):
                self.register_part(index, part, original)
        if not unsafe:
            check_unchanged(self(), shape, dtype, "Registering a parametrization")

    def register_part(self, index: int, part: object, original: Tensor) -> None:
        """Register one of several original tensors."""
        if not isinstance(part, Tensor):
            raise ParametrizationError(
                None, "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                f"tuple...). Got element {index} of the sequence with type {type(part).__name__}.",
            )  # fmt: skip
        tensor = part.detach().clone()
        if isinstance(original, Parameter):
            tensor = Parameter(tensor, original.requires_grad)
        register_tensor(self, f"original{index}", tensor)

    def right_inverse(self, value: Tensor) -> None:
        """Set the original tensors so that the parametrized tensor becomes `value`.

        Raises: RuntimeError: a parametrization has no `right_inverse`.
        """
        new: Any = value
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
            parts = [new] if self.is_tensor else list(new)
            if len(parts) != self.ntensors:
                raise ParametrizationError(
                    None, "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(parts)}.",
                )  # fmt: skip
            for current, part in zip(self.originals(), parts, strict=True):
                if current.dtype is not part.dtype:
                    raise ParametrizationError(
                        None, f"The tensor returned by `right_inverse` has dtype {part.dtype} "
                        f"while `original` has dtype {current.dtype}",
                    )  # fmt: skip
                current.data = part.detach().clone()

    def originals(self) -> list[Any]:
        """Return the original tensors."""
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{index}") for index in range(self.ntensors)]

    def forward(self) -> Any:
        """Compute the parametrized tensor."""
        first, *others = self
        value = first(*self.originals())
        for module in others:
            value = module(value)
        return value


def apply_right_inverse(module: Module, value: Tensor) -> Any:
    """Return `module.right_inverse(value)`, or `value` if it is not implemented."""
    try:
        return module.right_inverse(value)
    except NotImplementedError:
        return value


def check_unchanged(value: object, shape: Sequence[int], dtype: DTypeLike, what: str) -> None:
    """Raise ParametrizationError unless a computed tensor has the given shape and dtype."""
    if not isinstance(value, Tensor):
        raise ParametrizationError(
            None, f"A parametrization must return a tensor. Got {type(value).__name__}."
        )
    for name, old, new in (("dtype", dtype, value.dtype), ("shape", shape, value.shape)):
        if old != new:
            raise ParametrizationError(
                None, f"{what} may not change the {name} of the tensor, unless `unsafe` flag is "
                "enabled.", {f"unparametrized {name}": old, f"parametrized {name}": new},
            )  # fmt: skip


def register_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Register a tensor as a parameter if it is one, else as a buffer."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def inject_class(module: Module) -> None:
    """Give a module a dynamic subclass, which can have its own properties."""

    def refuse(self: Module) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict()."
        )

    def deepcopy(self: Module, memo: dict[int, Any]) -> Module:
        if id(self) not in memo:
            copied = memo[id(self)] = object.__new__(type(self))
            copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return memo[id(self)]

    # Properties belong to classes, and other instances of this class must not get them.
    cls = type(module)
    members = {"__getstate__": refuse, "__deepcopy__": deepcopy, "__module__": cls.__module__}
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def add_property(module: Module, name: str) -> None:
    """Add a property that computes the tensor to the module's class."""

    def get(self: Module) -> Tensor:
        computed, key = CACHE.get(), (id(self), name)
        if computed is None:
            return self.parametrizations[name]()
        if key not in computed:
            computed[key] = self.parametrizations[name]()
        return computed[key]

    def set(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, set))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Register a parametrization of a parameter or buffer.

    With a `right_inverse` the value is kept at first, and the tensor can be assigned to. Several
    parametrizations of one tensor are chained.

    Args:
        unsafe: do not check that shape and dtype are kept.

    Raises: ValueError: there is no such tensor, or shape or dtype would change.

    >>> layer = register_parametrization(nn.Linear(2, 2), "weight", nn.Tanh())
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original']
    """
    # Spectral norm iterates only in training.
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            old = getattr(module, tensor_name)
            new = parametrization(old)
            check_unchanged(new, old.shape, old.dtype, "Registering a parametrization")
            if hasattr(parametrization, "right_inverse"):
                restored = apply_right_inverse(parametrization, new)
                check_unchanged(restored, old.shape, old.dtype, "parametrization.right_inverse")
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            inject_class(module)
            module.parametrizations = ModuleDict()
        module.parametrizations[tensor_name] = parametrizations
        add_property(module, tensor_name)
    else:
        raise ParametrizationError(
            None, f"Module '{module}' does not have a parameter, a buffer, or a parametrized "
            f"element with name '{tensor_name}'",
        )  # fmt: skip
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return True if a tensor of a module (or any of its tensors) is parametrized.

    >>> is_parametrized(nn.Linear(2, 2))
    False
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Turn a parametrized tensor into an ordinary one.

    Args:
        leave_parametrized: keep the computed value; False: keep the original tensor.

    Raises: ValueError: it is not parametrized, or has several original tensors.
    """
    if not is_parametrized(module, tensor_name):
        raise ParametrizationError(
            None, f"Module {module} does not have a parametrization on {tensor_name}"
        )
    parametrizations = module.parametrizations[tensor_name]
    if not parametrizations.is_tensor and not leave_parametrized:
        raise ParametrizationError(
            None, "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors.",
        )  # fmt: skip
    value = getattr(module, tensor_name)
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            original.data = value.detach().clone()
    else:
        original = Parameter(value.detach().clone()) if value.requires_grad else value
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    register_tensor(module, tensor_name, original)
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the module's class without the dynamic subclass for parametrizations.

    >>> layer = register_parametrization(nn.Linear(2, 2), "weight", nn.Tanh())
    >>> type_before_parametrizations(layer) is nn.Linear
    True
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copy the parametrizations of a module, and their tensors, to another module."""
    if is_parametrized(from_module):
        names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
        for name in names:
            parametrizations = from_module.parametrizations[name]
            if not hasattr(to_module, name):
                value = getattr(from_module, name).detach().clone()
                setattr(to_module, name, Parameter(value))
            for parametrization in parametrizations:
                register_parametrization(to_module, name, parametrization)
            for part, tensor in parametrizations._parameters.items():
                setattr(to_module.parametrizations[name], part, tensor)
    return to_module
