"""Type checks for arguments that a composed function would silently accept: a float for an int.

An op computes with its arguments and fails on those that it cannot take. A function that only
passes an argument on, or tests its truth, accepts anything. So the classes of the arguments are
compared with those that the signature names, before the call. Usually they are among the ordinary
classes, and nothing more is done; a value of another class may be valid, too (a NumPy integer for
an int).
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .error_messages import is_flag, matches_annotation, wrong_argument
from .shapes import Size

Classes = frozenset[type] | None
"""The ordinary classes of a parameter; None: it takes any value."""


class AnyClass:
    """The classes of a parameter that takes any value."""

    def __contains__(self, cls: type) -> bool:
        return True


ANY = AnyClass()


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


def check_unusual(name: str, parameter: inspect.Parameter, value: Any) -> None:
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


def is_factor(parameter: inspect.Parameter, value: Any) -> bool:
    """Return True for a complex number where PyTorch takes a number of any type."""
    return value.__class__ is complex and parameter.name in FACTORS


FACTORS = {"alpha", "beta", "value", "fill_value", "other", "input", "self", "exponent"}


def has_torch_function(value: Any) -> bool:
    """Return True for an object that overrides calls: a proxy during tracing."""
    return hasattr(type(value), "__torch_function__")


def refuse_unusual(
    name: str, parameters: Sequence[inspect.Parameter], args: Any, named: Mapping[str, Any]
) -> None:
    """Raise ArgumentError for the first argument that is not what its annotation names."""
    passed = arguments_by_name(parameters, args, named)
    for parameter in parameters:
        if parameter.name in passed and ordinary_classes(parameter) is not None:
            value = passed[parameter.name]
            if value is not parameter.default:
                check_unusual(name, parameter, value)


def arguments_by_name(
    parameters: Sequence[inspect.Parameter], args: Any, named: Any
) -> dict[str, Any]:
    """Return the arguments of a call by name, without those that go to `*args`."""
    ordinary = itertools.takewhile(
        lambda parameter: parameter.kind is not parameter.VAR_POSITIONAL, parameters
    )
    return dict(zip((parameter.name for parameter in ordinary), args, strict=False)) | dict(named)
