"""Modules that run a TorchScript program: what `torch.jit.load` returns.

A `RecursiveScriptModule` is a `Module`: its parameters and buffers are found, moved and trained as
those of any other. Its methods are the program's, and run by the interpreter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from .archive_writer import Packer, encode, save
from .code_text import function_text
from .graph_text import Graph
from .interpreter import call_function
from .pickle_writer import Instance
from .program import Function, Program, ScriptClass

__all__ = ["RecursiveScriptModule", "ScriptMethod", "ScriptModule"]


class ScriptMethod:
    """A method of a module, or a function, of a TorchScript program: it can be called, and read.

    Args:
        function: the program's function.
        owner: the module of a method.
    """

    def __init__(self, function: Function, owner: Any = None) -> None:
        self.function, self.owner = function, owner
        self.__name__ = self.name = function.short_name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        own = () if self.owner is None else (self.owner,)
        root = sys.modules["edutorch"]
        # A program may switch gradients off and forget to switch them on.
        with root.set_grad_enabled(root.is_grad_enabled()):
            return call_function(self.function, (*own, *args), kwargs)

    @property
    def code(self) -> str:
        """The method as TorchScript."""
        return function_text(self.function)

    @property
    def graph(self) -> Any:
        """The method as a list of operations."""
        return Graph(self.function)

    @property
    def inlined_graph(self) -> Any:
        """The method as a list of operations, with those of the functions that it calls."""
        return Graph(self.function, inlined=True)

    def __repr__(self) -> str:
        return f"<ScriptMethod {self.function.name}>"


class ScriptModule(Module):
    """Base of the modules that are TorchScript: `torch.jit.ScriptModule`."""

    script_class: ScriptClass
    program: Any = None

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write the module to a file; see `torch.jit.save`."""
        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """Return the bytes of the file that `save` writes."""
        return encode(self, _extra_files)

    @property
    def code(self) -> str:
        """The forward method as TorchScript."""
        return self._script_method("forward").code

    @property
    def graph(self) -> Any:
        """The forward method as a list of operations."""
        return self._script_method("forward").graph

    @property
    def inlined_graph(self) -> Any:
        """The forward method as a list of operations, with those of everything that it calls."""
        return self._script_method("forward").inlined_graph

    def pack_program(self) -> tuple[Program, Instance]:
        """Return the program, and the module as it is written to a file."""
        raise NotImplementedError

    def _script_method(self, name: str) -> ScriptMethod:
        raise NotImplementedError


class RecursiveScriptModule(ScriptModule):
    """A module of an archive: its attributes are loaded, its methods are the program's."""

    def __init__(self, script_class: ScriptClass) -> None:
        super().__init__()
        self.__dict__["script_class"] = script_class

    @property
    def original_name(self) -> str:
        """The name of the class that the module was made from."""
        return self.script_class.short_name

    def set_loaded(self, name: str, value: Any) -> None:
        """Set an attribute from a file: a parameter, a buffer, a submodule or a value."""
        cls = self.script_class
        if name == "training":
            self.__dict__["training"] = value is True
        elif name in cls.parameters:
            plain = value.detach() if isinstance(value, Tensor) else None
            self.register_parameter(
                name, None if plain is None else Parameter(plain, value.requires_grad)
            )
        elif name in cls.buffers:
            self._buffers[name] = value
        elif isinstance(value, Module):
            self._modules[name] = value
        else:
            self.__dict__[name] = value

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program's `forward`."""
        return self._script_method("forward")(*args, **kwargs)

    def pack_program(self) -> tuple[Program, Instance]:
        """Return the program, and the module as it is written to a file."""
        return self.program, Packer().module(self)

    def _script_method(self, name: str) -> ScriptMethod:
        methods = self.script_class.methods
        if name not in methods:
            raise AttributeError(
                f"{self.original_name} has no method {name!r} in TorchScript; it has "
                f"{', '.join(methods) or 'none'}", name=name, obj=self,
            )  # fmt: skip
        return ScriptMethod(methods[name], self)

    def __getattr__(self, name: str) -> Any:
        cls = self.__dict__.get("script_class")
        if cls is not None and not name.startswith("__"):
            if name in cls.constants:
                return cls.constants[name]
            if name in cls.methods:
                return self._script_method(name)
        return super().__getattr__(name)

    def __len__(self) -> int:
        return self._script_method("__len__")() if self._has("__len__") else len(self._modules)

    def __bool__(self) -> bool:
        return True

    def _has(self, name: str) -> bool:
        return name in self.script_class.methods

    def _get_name(self) -> str:
        return "RecursiveScriptModule"

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


def make_module(cls: ScriptClass) -> RecursiveScriptModule:
    """Return an empty module of a class of a program; its attributes are set next."""
    return RecursiveScriptModule(cls)


Method = Callable[..., Any]
