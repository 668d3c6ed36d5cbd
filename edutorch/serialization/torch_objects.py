"""Whole objects in PyTorch's files: its classes are mapped to ours of the same name.

`torch.nn.modules.linear.Linear` is `edutorch.nn.modules.linear.Linear` here. A class of the user
is imported: it must have been written for edutorch (`import edutorch as torch`).
"""

from __future__ import annotations

import importlib
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING  # names of Python 2, as protocol 2 has them
from collections import OrderedDict
from collections.abc import Callable, MutableMapping, MutableSequence, MutableSet
from typing import Any

from ..nn.modules.hooks import Hook
from ..nn.modules.module import HOOKS, Module
from .allowed_globals import ALLOWED_GLOBALS, AllowedGlobal, set_state
from .errors import CheckpointError
from .restricted_unpickler import RestrictedUnpickler
from .torch_file import find_global
from .unpickle import construction_error, missing_class_error, refuse_harmful


class TorchObjectUnpickler(RestrictedUnpickler):
    """Runs a pickle that makes objects of any class that can be imported.

    Args:
        persistent: resolves a persistent id: a storage, which is stored outside the pickle.
        name: the file name, for errors.
    """

    def __init__(self, persistent: Callable[[Any], Any], name: str) -> None:
        super().__init__(self.find_object, persistent, name)

    def failure(self, error: Exception) -> CheckpointError:
        return construction_error(self.name, error)

    def find_object(self, module: str, name: str) -> Any:
        """Return what stands for a global: an allowed function, a class of ours, or a user's."""
        if module.partition(".")[0] == "torch":
            known = ALLOWED_GLOBALS.get(f"{module}.{name}")
            return self.find_counterpart(module, name) if known is None else known
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        module = module.replace("numpy.core", "numpy._core")
        refuse_harmful(module, name, self.name)
        try:
            value: Any = importlib.import_module(module)
            for part in name.split("."):
                value = getattr(value, part)
        except (AttributeError, ImportError) as error:
            raise missing_class_error(f"{module}.{name}", self.name) from error
        if isinstance(value, type) and any(base.__module__[:6] == "torch." for base in value.mro()):
            raise CheckpointError(
                "load", f"{self.name} holds an object of the class {module}.{name}, which is "
                "PyTorch's here as well", hint="let its file say `import edutorch as torch`",
            )  # fmt: skip
        return value

    def find_counterpart(self, module: str, name: str) -> Any:
        """Return our counterpart of a class or function of PyTorch.

        Raises: CheckpointError: there is none.
        """
        find_global(module, name)  # says what it is that edutorch has not, such as a quantized type
        try:
            module, name = BUILTIN_HOMES.get(
                f"{module}.{name}", (BUILTIN_HOMES.get(module, module), name)
            )
            value = importlib.import_module(f"edu{module}")
            for part in name.split("."):
                value = getattr(value, part)
        except (AttributeError, ImportError) as error:
            raise CheckpointError(
                "load", f"{self.name} holds an object of {module}.{name}, which edutorch has not",
                hint="in PyTorch: torch.save(model.state_dict(), path)",
            ) from error  # fmt: skip
        return value

    # Opcodes that the restricted unpickler limits to data ------------------------------------

    def extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, MutableSequence):
            target.extend(values)
        else:
            super().extend(values)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, MutableMapping):
            for key, value in zip(items[::2], items[1::2], strict=True):
                target[key] = value
        else:
            super().set_items(items)

    def add_items(self, arg: Any) -> None:
        values = self.take_to_mark()
        target = self.stack[-1]
        if isinstance(target, MutableSet):
            for value in values:
                target.add(value)
        else:
            super().add_items(arg)

    def call(self, arg: Any) -> None:
        self.make(lambda function, args: function(*args))

    def new_object(self, arg: Any) -> None:
        self.make(lambda cls, args: cls.__new__(cls, *args))

    def new_object_with_kwargs(self, arg: Any) -> None:
        named = self.stack.pop()
        self.make(lambda cls, args: cls.__new__(cls, *args, **named))

    def make(self, apply: Callable[[Any, Any], Any]) -> None:
        """Replace the topmost (function, arguments) by `apply(function, arguments)`."""
        args, function = self.stack.pop(), self.stack.pop()
        if isinstance(function, AllowedGlobal):
            function, apply = function.make, lambda function, args: function(*args)
        self.stack.append(apply(function, args))

    def build(self, arg: Any) -> None:
        target = self.stack[-2]
        if isinstance(target, Module) and isinstance(self.stack[-1], dict):
            self.stack[-1] = convert_module_state(self.stack[-1], self.name)
        set_state(target, self.stack.pop())


BUILTIN_HOMES: dict[str, Any] = {
    "torch._C._VariableFunctionsClass": ("torch", "ops"),
    "torch._C.TensorBase": ("torch", "Tensor"),
    "torch._C._nn": "torch.nn.functional",
}
"""The modules of our counterparts of PyTorch's built-in functions."""


def convert_module_state(state: dict[str, Any], file: str) -> dict[str, Any]:
    """Convert the attributes of a PyTorch module to ours, where hooks carry their own flags.

    Raises: CheckpointError: there are hooks on its state_dict.
    """
    state = dict(state)
    with_kwargs = {**state.pop("_forward_hooks_with_kwargs", {}),
                   **state.pop("_forward_pre_hooks_with_kwargs", {})}  # fmt: skip
    always = state.pop("_forward_hooks_always_called", {})
    for name in HOOKS:
        hooks = state.get(name)
        if not hooks:
            continue
        if "state_dict" in name:
            raise CheckpointError(
                "load", f"{file} holds a module with `{name}`, which cannot be taken over",
                hint="in PyTorch: torch.save(model.state_dict(), path)",
            )  # fmt: skip
        state[name] = OrderedDict(
            (index, Hook(hook, bool(with_kwargs.get(index)), bool(always.get(index))))
            for index, hook in hooks.items()
        )
    return state
