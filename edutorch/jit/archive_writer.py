"""Writes TorchScript archives, in the layout that `archive_reader.py` describes."""

from __future__ import annotations

import ast
import io
import zipfile
from pathlib import PurePath
from typing import Any, Protocol

from ..errors import NotHereError
from ..nn.modules.module import Module
from ..utils.atomic_files import write_atomically
from .code_text import file_texts
from .objects import ScriptObject, ScriptTuple, script_class_of
from .pickle_writer import Instance, PickleWriter
from .program import Function, Program, ScriptClass

VERSION = b"10\n"  # of the operators: below it PyTorch takes `div` and `gelu` as they once were
DATE = (1980, 1, 1, 0, 0, 0)  # so that equal modules make equal files


class ClassTable(Protocol):
    """What a compiler knows of the modules that it has compiled."""

    classes: dict[int, ScriptClass]

    def class_name(self, cls: type) -> str | None:
        """Return the full name of a class in the program, or None."""


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Write a scripted or traced function or module to a file; the write is atomic."""
    name = PurePath(str(f)).stem if isinstance(f, str) or hasattr(f, "__fspath__") else "archive"
    write_atomically(f, encode(m, _extra_files, name))


def encode(m: Any, extra_files: Any = None, name: str = "archive") -> bytes:
    """Return the bytes of an archive.

    Raises: NotHereError: `m` is not a script.
        NotSupportedError: it holds something that has no place in an archive.
    """
    if not hasattr(m, "pack_program"):
        raise NotHereError(
            "jit.save", f"a {type(m).__name__} is not a script",
            hint="script it first: torch.jit.script(model), or torch.jit.trace(model, inputs); "
            "to save only the weights: torch.save(model.state_dict(), path)",
        )  # fmt: skip
    program, data = m.pack_program()
    storages: dict[str, bytes] = {}
    constants: dict[str, bytes] = {}
    members = {
        "data.pkl": PickleWriter(storages).dump(data),
        **{f"code/{path}": text.encode() for path, text in program.files.items()},
        "constants.pkl": PickleWriter(constants).dump(program.constants),
        **{f"data/{key}": content for key, content in storages.items()},
        **{f"constants/{key}": content for key, content in constants.items()},
        "version": VERSION, "byteorder": b"little",
    }  # fmt: skip
    for key, text in (extra_files or {}).items():
        members[f"extra/{key}"] = text.encode() if isinstance(text, str) else text
    return write_zip(name or "archive", members)


def write_zip(root: str, members: dict[str, bytes]) -> bytes:
    """Return a zip file; code is compressed, tensors are not."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(f"{root}/{name}", DATE)
            packed = name.startswith("code/") and len(content) > 400
            info.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            archive.writestr(info, content)
    return file.getvalue()


def placeholder(program: Program, function: Function) -> ScriptClass:
    """Return the class of a module whose forward is a function; it becomes part of the program."""
    name = "__torch__.PlaceholderModule"
    cls = ScriptClass(name, "Module", {"training": ast.Name("bool", ast.Load())})
    arguments = function.node.args
    own = ast.arg("self", ast.parse(name, mode="eval").body)
    names: list[ast.expr] = [ast.Name(part.arg, ast.Load()) for part in arguments.args]
    call = ast.Call(ast.parse(function.name, mode="eval").body, names, [])
    parameters = ast.arguments([], [own, *arguments.args], None, [], [], None, arguments.defaults)
    body: list[ast.stmt] = [ast.Return(call)]
    definition = ast.FunctionDef("forward", parameters, body, [], function.node.returns)
    ast.fix_missing_locations(definition)
    file = "__torch__.py"
    cls.methods["forward"] = Function(f"{name}.forward", definition, file, cls, function.source)
    program.classes[name] = cls
    program.files = file_texts(program)
    return cls


class Packer:
    """Turns modules and objects into instances of the program's classes.

    Args:
        compiler: that has the classes of Python's modules; None for a loaded program.
    """

    def __init__(self, compiler: ClassTable | None = None) -> None:
        self.compiler = compiler
        self.instances: dict[int, Instance] = {}

    def class_of(self, module: Module) -> ScriptClass:
        own = script_class_of(module)
        if own is not None:
            return own
        assert self.compiler is not None
        return self.compiler.classes[id(module)]

    def module(self, module: Module) -> Instance:
        """Return a module with the attributes that its class declares."""
        if id(module) in self.instances:
            return self.instances[id(module)]
        cls = self.class_of(module)
        instance = self.instances[id(module)] = Instance(cls.name, {})
        assert instance.state is not None
        for name in cls.attributes:
            if name not in cls.constants:
                instance.state[name] = self.value(getattr(module, name, None))
        return instance

    def value(self, value: Any) -> Any:
        """Return an attribute's value as it is written."""
        if isinstance(value, Module):
            return self.module(value)
        if isinstance(value, ScriptObject):
            cls = value.script_class
            return Instance(cls.name, {key: self.value(vars(value)[key]) for key in cls.attributes})
        if isinstance(value, ScriptTuple):
            return Instance(value.script_class.name, None, tuple(map(self.value, value)))
        if isinstance(value, tuple) and hasattr(value, "_fields") and self.compiler is not None:
            name = self.compiler.class_name(type(value))
            return Instance(str(name), None, tuple(map(self.value, value)))
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value
