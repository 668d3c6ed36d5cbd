"""Errors that name what is wrong, where, with which shapes, and what to do.

All of them are laid out the same way:

    conv2d: axis c is 5 in `input` but 3 in `weight`
      input   (n c h w) = (2, 5, 32, 32)
      weight  (o c i j) = (8, 3, 3, 3)
      hint: the filters expect 3 input channels

Each class derives from the type that PyTorch raises in the same place, so code
written for PyTorch catches it. The parts are kept as fields of the error, for
notebooks, which lay them out in their own way.
"""

from __future__ import annotations

import inspect
import linecache
import sys
import warnings
from collections.abc import Iterable, Mapping
from types import CodeType, FrameType
from typing import Any, NamedTuple


def layout(
    op: str | None, message: str, arguments: Mapping[str, object] | None, hint: str | None
) -> str:
    """Format the text of an error: a headline, one aligned line per argument, a hint.

    An argument's value is shown as it stands. A key may be a bare name or carry
    the contract's axis names, `"weight (o c i j)"`: names and axes each get a
    column of their own.

    >>> from edutorch.errors import layout
    >>> print(layout("add", "the shapes do not fit", {"a": (2, 3), "other": (4,)}, "try b.T"))
    add: the shapes do not fit
      a      = (2, 3)
      other  = (4,)
      hint: try b.T
    """
    lines = [f"{op}: {message}" if op else message]
    rows = [(*label.partition(" "), value) for label, value in (arguments or {}).items()]
    name_width = max((len(name) for name, _, _, _ in rows), default=0)
    axes_width = max((len(axes) for _, _, axes, _ in rows), default=0)
    for name, _, axes, value in rows:
        axes_column = f"{axes:<{axes_width}} " if axes_width else ""
        lines.append(f"  {name:<{name_width}}  {axes_column}= {value}")
    if hint:
        lines.append(f"  hint: {hint}")
    return "\n".join(lines)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's own code that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("edutorch."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class EdutorchError(Exception):
    """The base class of all errors of this library, which also derive from a builtin one.

    Args:
        op: where it happened: an op's, a method's or a module's name.
        message: what is wrong, in one sentence.
        arguments: the arguments by name: shapes, dtypes, values.
        hint: what to do about it.
    """

    def __init__(
        self,
        op: str | None,
        message: str,
        arguments: Mapping[str, object] | None = None,
        hint: str | None = None,
    ) -> None:
        self.op = op
        self.message = message
        self.arguments = {name: str(value) for name, value in (arguments or {}).items()}
        self.hint = hint
        super().__init__(layout(op, message, self.arguments, hint))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parts, not the text, so that a worker's error arrives complete."""
        return type(self), (self.op, self.message, self.arguments, self.hint), self.__dict__


def running_function(names: tuple[str, ...]) -> str:
    """Return the public function that the user called and in which an error happened.

    It is the outermost one that runs without user code in between. If it is none of `names`, it is
    composed of ops, of which one failed: "kl_div: sub".

    Args:
        names: the possible functions; the first is returned if none of them is running.
    """
    short = {name.rpartition(".")[2]: name for name in reversed(names)}
    known = called = None
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("edutorch."):
        here = frame.f_code.co_name
        known = short.get(here, known)
        called = here if is_public(here) else called
        frame = frame.f_back
    inner = known or names[0]
    return inner if called is None or called in short else f"{called}: {inner}"


def is_public(name: str) -> bool:
    """Return True if there is a public function or method of this name."""
    package: Any = sys.modules.get("edutorch")
    if name.startswith("_") or not hasattr(package, "linalg"):
        return False
    modules = (package, package.Tensor, package.nn.functional, package.linalg, package.special)
    return any(callable(getattr(module, name, None)) for module in modules)


class ShapeError(EdutorchError, RuntimeError):
    """Shapes do not match each other, or the arguments.

    >>> raise ShapeError("mm", "axis k is 3 in `input` but 4 in `mat2`",
    ...     {"input (n k)": (2, 3), "mat2 (k m)": (4, 5)}, "did you mean mat2.T?")
    Traceback (most recent call last):
    edutorch.errors.ShapeError: mm: axis k is 3 in `input` but 4 in `mat2`
      input  (n k) = (2, 3)
      mat2   (k m) = (4, 5)
      hint: did you mean mat2.T?
    """


class RaggedError(ShapeError, ValueError):
    """Nested lists do not all have the same length, or depth."""


class ShapeValueError(ShapeError, ValueError):
    """Shapes do not match, where PyTorch raises a ValueError."""


class DTypeError(EdutorchError, RuntimeError):
    """An unsuitable dtype: the op cannot compute with it, or cannot return it."""


class NotForTypesError(DTypeError, NotImplementedError):
    """An op is not defined for these dtypes."""


class ArgumentError(EdutorchError, TypeError):
    """An argument of a wrong type: a string for a number, a list for a tensor."""


def unknown_keyword(name: str, keyword: str, known: Iterable[str]) -> ArgumentError:
    """Make the error for a keyword argument that a function does not have.

    Args:
        known: the names of those that it has; the nearest is suggested.

    >>> raise unknown_keyword("Linear", "biass", ["in_features", "out_features", "bias"])
    Traceback (most recent call last):
    edutorch.errors.ArgumentError: Linear: got an unexpected keyword argument 'biass'
      hint: did you mean `bias`?
    """
    from difflib import get_close_matches

    known = [parameter for parameter in known if parameter not in ("self", "args", "unknown")]
    near = get_close_matches(keyword, known, 1, 0.6)
    hint = f"did you mean `{near[0]}`?" if near else f"it takes {', '.join(known) or 'none'}"
    return ArgumentError(name, f"got an unexpected keyword argument {keyword!r}", hint=hint)


def refuse_unknown_keywords(init: Any, name: str, named: Iterable[str]) -> None:
    """Raise ArgumentError for a keyword that a constructor does not have.

    Args:
        init: the `__init__`.
        name: of the class.
    """
    code = getattr(init, "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARKEYWORDS:
        return
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    for keyword in named:
        if keyword not in known:
            raise unknown_keyword(name, keyword, known)


def refuse_complex(op: str, **arguments: Any) -> None:
    """Raise DTypeError for a complex tensor, array or dtype, where an order is needed."""
    for name, argument in arguments.items():
        # Of a tensor the array's dtype, which is there without a property.
        dtype = getattr(getattr(argument, "_array", argument), "dtype", argument)
        if getattr(getattr(dtype, "numpy", dtype), "kind", "") == "c":
            raise DTypeError(
                op, "not implemented for complex numbers", {name: str(dtype)},
                "they have no order; take x.real, x.imag or x.abs()",
            )  # fmt: skip


class DeviceError(EdutorchError, RuntimeError):
    """A device is missing, or tensors of one op are on different devices."""


class GradientError(EdutorchError, RuntimeError):
    """A gradient cannot be computed: nothing was recorded, or the graph was freed."""


class StaleValueError(GradientError):
    """A value that backward needs was overwritten after it was saved."""


class DimError(EdutorchError, IndexError, RuntimeError):
    """A dimension or an index is out of range.

    PyTorch raises an IndexError in some cases and a RuntimeError in others; this is both.
    """


class ValueRangeError(EdutorchError, RuntimeError):
    """Values are outside the range that the op is defined for."""


class TooLargeError(ValueRangeError, OverflowError):
    """A Python number is too large for the dtype it is converted to."""


class InvalidValueError(EdutorchError, ValueError, RuntimeError):
    """An argument has an invalid value: a negative size, an unknown option.

    PyTorch raises a ValueError in some cases and a RuntimeError in others; this is both.
    """


class ZeroDivisorError(EdutorchError, ZeroDivisionError, RuntimeError):
    """A division of integers by 0, or by a setting that is 0."""


class OutOfMemory(EdutorchError, MemoryError, RuntimeError):
    """A tensor needs more memory than available. (PyTorch raises a RuntimeError here.)"""


class LinAlgError(EdutorchError, RuntimeError):
    """A matrix lacks what was asked for: an inverse, a Cholesky factor."""


class CudaCompileError(EdutorchError, RuntimeError):
    """A CUDA kernel does not compile: with the line, and what the compiler says."""


class NotHereError(EdutorchError, NotImplementedError):
    """A feature of PyTorch that edutorch lacks; the hint names an alternative."""


NO_ELEMENTS = "a meta tensor has a shape and a dtype, but no elements; compute on device='cpu'"


class MetaTensorError(EdutorchError, NotImplementedError):
    """Something needs the elements of a tensor on the device `meta`, which has none.

    >>> empty(2, device="meta").to("cpu")
    Traceback (most recent call last):
    edutorch.errors.MetaTensorError: to: Cannot copy out of meta tensor; no data!
      hint: a meta tensor has a shape and a dtype, but no elements; compute on device='cpu'
    """

    def __init__(
        self,
        op: str | None,
        message: str = "Cannot copy out of meta tensor; no data!",
        arguments: Mapping[str, object] | None = None,
        hint: str | None = NO_ELEMENTS,
    ) -> None:
        super().__init__(op, message, arguments, hint)


class MissingExtraError(EdutorchError, ImportError):
    """An optional library is not installed; the hint names the extra to install."""


def missing_extra(extra: str, purpose: str, reason: str) -> MissingExtraError:
    """Make the error for an optional library that is missing.

    Args:
        extra: the name in `pip install "edutorch[extra]"`.
        purpose: the feature that needs it, `"viz.live"`.
        reason: why it is unavailable, `"anywidget is not installed"`.

    >>> raise missing_extra("lab", "viz.live", "anywidget is not installed")
    Traceback (most recent call last):
    edutorch.errors.MissingExtraError: viz.live: anywidget is not installed
      hint: pip install "edutorch[lab]"
    """
    return MissingExtraError(purpose, reason, hint=f'pip install "edutorch[{extra}]"')


# Locations in the user's code ---------------------------------------------------------
#
# Errors, pictures and anomaly mode show the line that led to a call. Finding the location is cheap,
# reading its text is not. So locations are kept, and their text is read only on demand.

CodeLocation = tuple[CodeType, int]
"""A code object and the index of an instruction in it; `read_line` returns its line."""


class Source(NamedTuple):
    """A line of code: the file it is in, its number and its text."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.text}".rstrip()


def user_frame(depth: int = 1) -> FrameType:
    """Return the innermost frame outside this library (or the outermost, if all are inside).

    Args:
        depth: how many frames above this one to begin.
    """
    frame = sys._getframe(depth)
    while frame.f_globals.get("__name__", "").startswith("edutorch.") and frame.f_back:
        frame = frame.f_back
    return frame


def user_location() -> CodeLocation:
    """Return the location in the user's code of the current call."""
    frame = user_frame(2)
    return frame.f_code, frame.f_lasti


def read_line(location: CodeLocation) -> Source:
    """Return the line of a location, with its text if the file can still be read.

    >>> read_line(user_location()).line > 0
    True
    """
    code, instruction = location
    file, line = code.co_filename, code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    return Source(file, line, linecache.getline(file, line).strip())
