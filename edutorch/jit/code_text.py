"""Writes a program as text: the files of an archive, and what `.code` shows."""

from __future__ import annotations

import ast
from typing import Any

from .program import Function, Program, ScriptClass

INDENT = "  "  # as PyTorch writes


def function_text(function: Function) -> str:
    """Return a function as TorchScript."""
    text = ast.unparse(ast.fix_missing_locations(function.node))
    return (
        text.replace("    ", INDENT) + "\n" if '"' not in text and "'" not in text else indent(text)
    )


def indent(text: str) -> str:
    """Return code with two blanks instead of four at the beginning of each line."""
    lines = []
    for line in text.splitlines():
        stripped = line.lstrip(" ")
        lines.append(" " * ((len(line) - len(stripped)) // 2) + stripped)
    return "\n".join(lines) + "\n"


def class_text(cls: ScriptClass) -> str:
    """Return a class as TorchScript: its attributes with their types, then its methods."""
    base = f"({cls.base})" if cls.base else ""
    lines = [f"class {cls.short_name or 'unnamed'}{base}:"]
    if cls.base == "Module":
        lines += [
            f"  __parameters__ = {names(cls.parameters)}",
            f"  __buffers__ = {names(cls.buffers)}",
        ]
    for name, annotation in cls.attributes.items():
        text = ast.unparse(annotation)
        default = f" = {constant(cls.defaults[name])}" if name in cls.defaults else ""
        if name.isidentifier():
            lines.append(f"  {name} : {text}{default}")
        else:
            lines.append(f'  __annotations__["{name}"] = {text}')
    for name, value in cls.constants.items():
        if name not in cls.attributes:
            lines.append(f"  {name} : Final[{type(value).__name__}] = {constant(value)}")
    for method in cls.methods.values():
        lines += [f"  {line}" for line in function_text(method).splitlines()]
    return "\n".join(lines) + "\n"


def names(values: list[str]) -> str:
    return "[" + "".join(f'"{value}", ' for value in values) + "]"


def constant(value: Any) -> str:
    """Return a constant as TorchScript."""
    return "inf" if value == float("inf") else repr(value)


def file_texts(program: Program) -> dict[str, str]:
    """Return the text of each file of a program, by its path below `code/`."""
    files: dict[str, str] = {}
    for cls in program.classes.values():
        path = cls.name.rpartition(".")[0].replace(".", "/") + ".py"
        files[path] = files.get(path, "") + class_text(cls)
    for function in program.functions.values():
        files[function.file] = files.get(function.file, "") + function_text(function)
    return files
