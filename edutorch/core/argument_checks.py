"""Argument checks of composed functions: errors that name the wrong argument.

An op checks its operands itself. A function that is composed of ops would begin with
`input.shape`, and Python would raise that None has no shape. So where the public form of such a
function (`composed.py`) fails, its arguments are compared with its signature. Before it runs, only
their classes are: what it would silently accept, such as a string for a flag, is refused.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, DimError, EdutorchError, InvalidValueError, unknown_keyword
from .error_messages import (
    is_flag,
    is_library_message,
    is_too_large,
    matches_annotation,
    no_tensor,
    wrong_argument,
)
from .shapes import Size
from .tensor import Tensor

if TYPE_CHECKING:
    from .op import Op

TENSOR = ("Tensor", "Tensor | None")
FAILURES = (
    AttributeError, TypeError, ValueError, LookupError, StopIteration, ArithmeticError,
)  # fmt: skip
"""What Python raises inside a function whose arguments are not what it takes for granted."""


def check_arguments(
    name: str,
    parameters: Sequence[inspect.Parameter],
    args: Sequence[Any],
    named: Mapping[str, Any],
    settings_only: bool = False,
) -> None:
    """Raise ArgumentError if a keyword is unknown, or an argument is of a wrong type.

    Args:
        settings_only: check only the settings: an op inside has already checked the tensors.
    """
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        for keyword in named:
            known = [parameter.name for parameter in parameters]
            if keyword not in known:
                raise unknown_keyword(name, keyword, known)
    passed = arguments_by_name(parameters, args, named)
    for parameter in parameters:
        if parameter.name not in passed or parameter.annotation is parameter.empty:
            continue
        value, wanted = passed[parameter.name], str(parameter.annotation)
        if wanted in TENSOR:
            if (
                not settings_only
                and not isinstance(value, Tensor)
                and (value is not None or wanted == "Tensor")
            ):
                raise no_tensor(name, parameter.name, value)
        # A default may be of another type than its annotation, as a sentinel is.
        elif value is not parameter.default and not matches_annotation(value, wanted):
            raise wrong_argument(name, parameter.name, value, wanted)


def explain_failure(
    name: str,
    error: Exception,
    parameters: Sequence[inspect.Parameter],
    args: Sequence[Any],
    named: Mapping[str, Any],
) -> EdutorchError | None:
    """Turn an error of Python or NumPy inside a function into one that names the function.

    None: the error is clear as it is, or came from a function of the user that was called there.
    """
    message = str(error)
    # An error in a function of the user, called from here, is the user's own.
    if isinstance(error, EdutorchError) or is_too_large(error) or not is_inside(error):
        return None
    # We raised it ourselves, in words: only the name is missing.
    if type(error) is ValueError and not is_library_message(message):
        return InvalidValueError(name, message.removeprefix(f"{name}: "))
    if type(error) is TypeError and error.__traceback__.tb_next is None:  # of the call itself
        return ArgumentError(name, message.removeprefix(f"{name}() "))
    passed = arguments_by_name(parameters, args, named)
    rows = {label: describe(value) for label, value in passed.items()}
    if isinstance(error, ZeroDivisionError):
        return InvalidValueError(name, "a size or a setting of 0 makes no sense here", rows)
    if isinstance(error, OverflowError):
        return InvalidValueError(name, "a number is too large for its type", rows)
    if isinstance(error, IndexError):
        headline = "a dimension or an index is missing" if is_library_message(message) else message
        return DimError(name, headline, rows)
    # "'int' object has no …" is Python's word about our code, not about the user's call.
    if type(error) is TypeError and not is_library_message(message) and "' object " not in message:
        return ArgumentError(name, message.removeprefix(f"{name}: "))
    return ArgumentError(name, "the arguments do not fit together", rows)


def call_as(
    name: str, function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> Any:
    """Call a function on behalf of its in-place form, whose name is put into unclear errors.

    Raises: ArgumentError: an argument is of a wrong type.
    """
    try:
        return function(*args, **named)
    except FAILURES as error:
        if isinstance(error, EdutorchError):
            raise
        # Only now: a call that succeeds must not pay for the search.
        parameters = list(inspect.signature(function).parameters.values())
        check_arguments(name, parameters, args, named)
        better = explain_failure(name, error, parameters, args, named)
        if better is None:
            raise
        raise better from error


@functools.cache
def settings_of(init: Callable[..., None]) -> tuple[tuple[str, str, Any], ...]:
    """Return the name, annotation and default of each setting of a constructor."""
    parameters = list(inspect.signature(init).parameters.values())[1:]
    ordinary = itertools.takewhile(
        lambda parameter: parameter.kind is not parameter.VAR_POSITIONAL, parameters
    )
    return tuple(
        (parameter.name, str(parameter.annotation), parameter.default) for parameter in ordinary
    )


def check_settings(
    name: str, init: Callable[..., None], args: Sequence[Any], named: Mapping[str, Any]
) -> None:
    """Raise ArgumentError for a setting of a wrong type, such as a string for a number.

    Args:
        name: of the class whose constructor is called.
    """
    settings = settings_of(init)
    passed = dict(zip((setting for setting, _, _ in settings), args, strict=False)) | dict(named)
    for setting, wanted, default in settings:
        if setting in passed:
            value = passed[setting]
            if value is not default and not matches_annotation(value, wanted):
                raise wrong_argument(name, setting, value, wanted)


def describe(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {value.dtype}"
    text = repr(value)
    # A long list would hide the other rows of the message.
    return text if len(text) <= 60 else type(value).__name__


def is_inside(error: Exception) -> bool:
    """Return True if only functions of this library and of NumPy ran below its caller."""
    traceback: TracebackType | None = error.__traceback__
    # The first frame is the wrapper's own.
    traceback = traceback and traceback.tb_next
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("edutorch", "numpy"):
            return False
        traceback = traceback.tb_next
    return True


# Classes of arguments -----------------------------------------------------------------

# An op computes with its arguments and fails on those that it cannot take. A function that only
# passes an argument on, or tests its truth, accepts anything. So the classes of the arguments are
# compared with those that the signature names, before the call. Usually they are among the
# ordinary classes, and nothing more is done; a value of another class may be valid, too (a NumPy
# integer for an int).

Classes = frozenset[type] | None
"""The ordinary classes of a parameter; None: it takes any value."""


def classes_of(
    parameters: Sequence[inspect.Parameter],
) -> tuple[tuple[Classes, ...], dict[str, frozenset[type]]]:
    """Return the ordinary classes of the arguments by position and by name."""
    positional = itertools.takewhile(lambda parameter: parameter.kind in POSITIONAL, parameters)
    named = {parameter.name: ordinary_classes(parameter) for parameter in parameters}
    return (
        tuple(named[parameter.name] for parameter in positional),
        {name: classes for name, classes in named.items() if classes is not None},
    )


POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def ordinary_classes(parameter: inspect.Parameter) -> Classes:
    """Return the classes of which a parameter accepts every value; None: any class.

    A value of another class may be valid, too: a NumPy integer for an int.
    """
    words = set(re.findall(r"\w+", str(parameter.annotation)))
    if parameter.kind is parameter.VAR_POSITIONAL:  # `size=(2, 3)` stands for `2, 3`
        return None
    if not words <= CLASSES.keys() or ("bool" in words and not is_flag(parameter)):
        return None
    classes = {cls for word in words for cls in CLASSES[word]}
    if parameter.default is not parameter.empty:
        classes.add(type(parameter.default))
    return frozenset(classes)


SEVERAL = (int, tuple, list, Size)


CLASSES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (float, int, bool), "bool": (bool,), "None": (type(None),),
    "Size": SEVERAL, "Dims": SEVERAL,
}  # fmt: skip
"""The ordinary classes by a word of an annotation. Tensors are checked by the op they go to."""


def check_unusual(name: str, parameter: inspect.Parameter, value: object) -> None:
    """Raise ArgumentError for a value that is not what a parameter's annotation names."""
    wanted = str(parameter.annotation)
    if is_flag(parameter):
        if value.__class__ is not bool and not (value is None and "None" in wanted):
            raise wrong_argument(name, parameter.name, value, "bool")
    elif not (
        matches_annotation(value, wanted)
        or is_factor(parameter, value)
        or has_torch_function(value)
    ):
        raise wrong_argument(name, parameter.name, value, wanted)


def is_factor(parameter: inspect.Parameter, value: object) -> bool:
    """Return True for a complex number where PyTorch takes a number of any type."""
    return value.__class__ is complex and parameter.name in FACTORS


FACTORS = {"alpha", "beta", "value", "fill_value", "other", "input", "self", "exponent"}


def has_torch_function(value: object) -> bool:
    """Return True for an object that overrides calls: a proxy during tracing."""
    return hasattr(type(value), "__torch_function__")


def refuse_unusual(
    name: str,
    parameters: Sequence[inspect.Parameter],
    args: Sequence[Any],
    named: Mapping[str, Any],
) -> None:
    """Raise ArgumentError for the first argument that is not what its annotation names."""
    passed = arguments_by_name(parameters, args, named)
    for parameter in parameters:
        if parameter.name in passed and ordinary_classes(parameter) is not None:
            value = passed[parameter.name]
            if value is not parameter.default:
                check_unusual(name, parameter, value)


def arguments_by_name(
    parameters: Sequence[inspect.Parameter], args: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name, without those that go to `*args`."""
    ordinary = itertools.takewhile(
        lambda parameter: parameter.kind is not parameter.VAR_POSITIONAL, parameters
    )
    return dict(zip((parameter.name for parameter in ordinary), args, strict=False)) | dict(named)


# Arguments of an op, bound by name ----------------------------------------------------


ALIASES = {"axis": "dim", "keepdims": "keepdim"}
"""NumPy's names for two settings, which PyTorch accepts as well."""


def missing(op: Op, name: str) -> ArgumentError:
    return ArgumentError(op.title, f"missing 1 required positional argument: '{name}'")


def unknown_setting(op: Op, unknown: dict[str, object]) -> ArgumentError:
    known = [*op.signature.parameters, *(["out"] if op.has_out else [])]
    return unknown_keyword(op.title, next(iter(unknown)), known)


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a rule's parameters: those of its code take 1 µs, its signature 30."""
    code = inspect.unwrap(function).__code__  # type: ignore[attr-defined]
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
