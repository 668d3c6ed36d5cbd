"""Unpickling of whole objects: from our own files, and from PyTorch's.

With `weights_only=False` classes are imported by name and their code makes the objects. Otherwise
the pickle in one of our own files is read as data only.

In PyTorch's files its classes are mapped to ours of the same name: `torch.nn.modules.linear.Linear`
is `edutorch.nn.modules.linear.Linear` here. A class of the user is imported: it must have been
written for edutorch (`import edutorch as torch`).
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING  # names of Python 2, as protocol 2 has them
from collections import OrderedDict
from collections.abc import Callable, MutableMapping, MutableSequence, MutableSet
from typing import Any

from ..core.shapes import Size
from ..core.tensor import Tensor
from ..errors import EdutorchError
from ..nn.modules.hooks import Hook
from ..nn.modules.module import HOOKS, Module
from .allowed_globals import ALLOWED_GLOBALS, AllowedGlobal, set_state
from .restricted_unpickler import RestrictedUnpickler
from .safe_classes import FORBIDDEN, CheckpointError, RefusedError
from .torch_file import find_global, run_as_data

HARMFUL_BUILTINS = frozenset(
    "eval exec compile open input breakpoint __import__ globals locals vars".split()
)
"""Builtins that no honest pickle calls."""


def read_as_data(data: bytes, tensors: list[Tensor], name: str) -> Any:
    """Return what a pickle builds, without importing or calling anything.

    Raises: RefusedError: it refers to classes that nobody has allowed.
    """

    def find(module: str, called: str) -> Any:
        # Our dtypes and sizes are allowed under PyTorch's names.
        ours = module in ("edutorch.dtypes", Size.__module__)
        return find_global("torch" if ours else module, called)

    return run_as_data(io.BytesIO(data), find, tensors.__getitem__, name)


class ObjectUnpickler(pickle.Unpickler):
    """An unpickler for the pickles of `objects.py`.

    Args:
        data: the pickle.
        tensors: the tensors that its persistent ids refer to.
        name: the file name, for errors.
    """

    def __init__(self, data: bytes, tensors: list[Tensor], name: str) -> None:
        super().__init__(io.BytesIO(data))
        self.tensors, self.name = tensors, name

    def persistent_load(self, pid: int) -> Tensor:
        """Return the tensor with this index."""
        return self.tensors[pid]

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Import a module and return its attribute of this name."""
        refuse_harmful(module_name, global_name, self.name)
        try:
            return super().find_class(module_name, global_name)
        except (AttributeError, ImportError) as error:
            raise missing_class_error(f"{module_name}.{global_name}", self.name) from error

    def load(self) -> Any:
        """Return the object.

        Raises: CheckpointError: a class is not defined here, or an object cannot be made again.
        """
        try:
            return super().load()
        except EdutorchError:
            raise
        except Exception as error:
            raise construction_error(self.name, error) from error


def refuse_harmful(module: str, name: str, file: str) -> None:
    """Refuse the functions that attacks usually begin with. (A pickle can still run any code.)

    Raises: RefusedError: it is one of them.
    """
    package = module.partition(".")[0]
    if package in FORBIDDEN and (package != "builtins" or name in HARMFUL_BUILTINS):
        raise RefusedError(
            "load", f"{file} was not loaded: it runs functions that no checkpoint needs",
            {"refused": f"{module}.{name}"}, "delete the file: it was made to do harm",
        )  # fmt: skip


def missing_class_error(full: str, file: str) -> CheckpointError:
    """Return the error for a class that is not defined where the file is loaded."""
    module, _, name = full.rpartition(".")
    if module == "__main__":
        hint = f"define or import {name} in this program or notebook before loading"
    elif module.partition(".")[0] in sys.modules:
        hint = f"{module} has no {name} any more: bring it back, or load a state_dict instead"
    else:
        hint = f"put the file that defines it on the path, so that `import {module}` finds it"
    return CheckpointError(
        "load", f"{file} holds an object of the class {full}, which is not defined here", hint=hint
    )


def construction_error(file: str, error: Exception) -> CheckpointError:
    return CheckpointError(
        "load", f"{file}: an object in it cannot be made again ({type(error).__name__}: {error})",
        hint="its class is another one here than where it was saved: save its state_dict() there, "
        "and load that into a new object",
    )  # fmt: skip


# PyTorch's files ----------------------------------------------------------------------------------


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

    def add_items(self, arg: object) -> None:
        values = self.take_to_mark()
        target = self.stack[-1]
        if isinstance(target, MutableSet):
            for value in values:
                target.add(value)
        else:
            super().add_items(arg)

    def call(self, arg: object) -> None:
        self.make(lambda function, args: function(*args))

    def new_object(self, arg: object) -> None:
        self.make(lambda cls, args: cls.__new__(cls, *args))

    def new_object_with_kwargs(self, arg: object) -> None:
        named = self.stack.pop()
        self.make(lambda cls, args: cls.__new__(cls, *args, **named))

    def make(self, apply: Callable[[Any, Any], Any]) -> None:
        """Replace the topmost (function, arguments) by `apply(function, arguments)`."""
        args, function = self.stack.pop(), self.stack.pop()
        if isinstance(function, AllowedGlobal):
            function, apply = function.make, lambda function, args: function(*args)
        self.stack.append(apply(function, args))

    def build(self, arg: object) -> None:
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
