"""The errors of `torch.jit`: of a program that runs, of a source outside the subset, of a file."""

from __future__ import annotations

import functools

from ..errors import EdutorchError
from ..serialization import CheckpointError


class Error(EdutorchError, RuntimeError):
    """A TorchScript program raised an error: PyTorch's `torch.jit.Error`."""


class NotSupportedError(EdutorchError, RuntimeError):
    """A function is outside of the subset of Python that `torch.jit.script` understands."""


class ArchiveError(CheckpointError):
    """A TorchScript archive is damaged, or asks for something other than ops on its data.

    Nothing in it was executed.
    """


RAISED = {
    error.__name__: error
    for error in (
        ValueError, TypeError, IndexError, KeyError, AssertionError, NotImplementedError,
        ArithmeticError, ZeroDivisionError, LookupError,
    )
}  # fmt: skip
"""The exceptions that a program may raise by name; any other name is a plain `Error`."""


@functools.cache
def error_class(name: str) -> type[Error]:
    """Return the class of an error that a program raises: also of the class that it names.

    >>> issubclass(error_class("builtins.ValueError"), ValueError)
    True
    """
    base = RAISED.get(name.rpartition(".")[2])
    if base is None:
        return Error
    return type("Error", (Error, base), {"__module__": __name__, "__doc__": Error.__doc__})
