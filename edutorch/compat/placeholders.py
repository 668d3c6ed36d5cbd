"""Names of PyTorch that libraries import and that mean nothing here.

timm or transformers import a class only to write it in an annotation, or to ask `isinstance`; most
programs never call it. Under the alias each name in the tables below is a class without instances.
Calling it raises an error that says what is missing. What is an answer rather than a class is in
`small_modules.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

from edutorch.errors import NotHereError

NO_SCRIPTS = "programs are read and written by torch.jit.load and save"
NO_SYMBOLS = "sizes are numbers: there are no symbolic ones"

NAMES = (
    ("", NO_SCRIPTS, "PyTorchFileReader PyTorchFileWriter"),
    ("", NO_SYMBOLS, "SymInt SymFloat SymBool"),
    ("", "there are no complex numbers of 32 bits", "complex32 chalf"),
)
"""Modules, without "edutorch.", what is missing, and the names."""


class Placeholder(type):
    """The class of the placeholders: `isinstance` is False, a call raises an error."""

    sentence: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotHereError(f"{cls.__module__}.{cls.__name__}", cls.sentence)

    def __instancecheck__(cls, instance: object) -> bool:
        return False


def placeholder(module: str, name: str, sentence: str) -> type:
    """Return a class that stands for a name of PyTorch.

    >>> from edutorch.placeholders import placeholder
    >>> graph = placeholder("torch.cuda", "CUDAGraph", "there are no graphs")
    >>> isinstance(1, graph), graph | None
    (False, torch.cuda.CUDAGraph | None)
    >>> graph()
    Traceback (most recent call last):
    edutorch.errors.NotHereError: torch.cuda.CUDAGraph: there are no graphs
    """
    return Placeholder(name, (), {"__module__": module, "sentence": sentence})


def install() -> None:
    """Put the placeholders into their modules, where these have no such name of their own."""
    package, jit = import_module("edutorch"), import_module("edutorch.jit")
    for name in ("ScriptModule", "ScriptFunction"):
        setattr(package, name, getattr(jit, name))
    for path, sentence, names in NAMES:
        theirs = f"torch.{path}".rstrip(".")
        module = import_module(f"edutorch.{path}".rstrip("."))
        for name in names.split():
            if not hasattr(module, name):
                setattr(module, name, placeholder(theirs, name, sentence))
