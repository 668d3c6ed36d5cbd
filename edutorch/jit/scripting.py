"""`torch.jit.script`: functions and modules that are also TorchScript programs.

A scripted function runs as Python when it is called, with Python's speed, errors and debugger, and
is a program where it leaves Python: `code`, `graph`, `save`. So both have to say the same, and
`script` checks at once that the function lies in the subset.

One exception: functions of installed libraries. These are scripted while the library is imported,
whether anybody saves them or not; they are compiled when their code is asked for.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..nn.modules.module import Module
from .archive_writer import Packer, encode, placeholder, save
from .compiler import Compiler
from .errors import NotSupportedError
from .pickle_writer import Instance
from .program import Function, Program, ScriptClass
from .script_module import ScriptMethod, ScriptModule
from .source import is_installed

__all__ = ["ScriptFunction", "script"]


class ScriptFunction:
    """A function that is also a TorchScript program.

    Args:
        function: the Python function, which is what a call runs.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.python_function = function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.python_function(*args, **kwargs)

    def compile(self) -> tuple[Program, Function]:
        """Return the program, and the function in it.

        Raises: NotSupportedError: the function is outside of the subset.
        """
        compiler = Compiler()
        function = compiler.function(self.python_function)
        return compiler.complete(), function

    @property
    def name(self) -> str:
        """The function's name."""
        return self.python_function.__name__

    @property
    def code(self) -> str:
        """The function as TorchScript."""
        return ScriptMethod(self.compile()[1]).code

    @property
    def graph(self) -> Any:
        """The function as a list of operations."""
        return ScriptMethod(self.compile()[1]).graph

    @property
    def inlined_graph(self) -> Any:
        """The function as a list of operations, with those of the functions that it calls."""
        return ScriptMethod(self.compile()[1]).inlined_graph

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write the function to a file, as the `forward` of a module."""
        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """Return the bytes of the file that `save` writes."""
        return encode(self, _extra_files)

    def pack_program(self) -> tuple[Program, Instance]:
        """Return the program, and a module whose forward is the function."""
        program, function = self.compile()
        return program, Instance(placeholder(program, function).name, {"training": True})

    def __deepcopy__(self, memo: object) -> ScriptFunction:
        return self

    def __reduce__(self) -> str:
        return self.python_function.__qualname__

    def __repr__(self) -> str:
        return f"<torch.jit.ScriptFunction {self.python_function.__qualname__}>"


class ScriptedModule(ScriptModule):
    """Base of scripted modules: the module itself, and a program."""

    def compile_program(self) -> tuple[Compiler, ScriptClass]:
        """Return the compiler with the program, and the module's class in it.

        Raises: NotSupportedError: the module is outside of the subset.
        """
        compiler = Compiler()
        return compiler, compiler.module(self)

    @property
    def original_name(self) -> str:
        """The name of the class that was scripted."""
        return self.original_class.__name__

    original_class: type

    def pack_program(self) -> tuple[Program, Instance]:
        """Return the program, and the module as it is written to a file."""
        compiler, _ = self.compile_program()
        return compiler.program, Packer(compiler).module(self)

    def _script_method(self, name: str) -> ScriptMethod:
        return ScriptMethod(self.compile_program()[1].methods[name], self)


@functools.cache
def scripted_class(cls: type) -> type:
    """Return the class of a scripted module: of the module's class, and a `ScriptModule`."""
    body = {"__module__": cls.__module__, "__doc__": cls.__doc__, "original_class": cls,
            "__qualname__": cls.__qualname__}  # fmt: skip
    return type(cls.__name__, (ScriptedModule, cls), body)


def script_module(module: Module) -> Module:
    """Return a module that is also a program; it shares all attributes with the one that is given.

    Raises: NotSupportedError: the module is outside of the subset.
    """
    if isinstance(module, ScriptModule):
        return module
    cls = scripted_class(type(module))
    scripted = cls.__new__(cls)
    object.__setattr__(scripted, "__dict__", vars(module))
    if not is_installed(type(module)):
        scripted.compile_program()
    return scripted


def script(
    obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:  # fmt: skip
    """Check that a function or module is in the subset of TorchScript, and make it a program too.

    It still runs as Python when it is called. `edutorch/jit/README.md` describes the subset.

    Args:
        obj: a function or a module; a class is returned as it is.
        optimize, _frames_up, _rcb, example_inputs: PyTorch's arguments, which mean nothing here.

    Raises: NotSupportedError: the function is outside of the subset; the error says where. For the
        functions of installed libraries it is raised when their code is asked for.
    """
    if isinstance(obj, Module):
        return script_module(obj)
    if inspect.isclass(obj) or isinstance(obj, ScriptFunction):
        return obj
    if not callable(obj):
        raise NotSupportedError(
            "jit.script", f"cannot script a {type(obj).__name__}",
            hint="give a function or a module",
        )  # fmt: skip
    scripted = ScriptFunction(obj)
    if not is_installed(obj):
        scripted.compile()
    return scripted
