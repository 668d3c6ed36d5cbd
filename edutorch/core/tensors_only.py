"""Composed functions say it when they are given something else than a tensor.

An op looks at its operands itself. A function that is composed of ops would begin with
`input.shape`, and Python would complain that None has no shape. So the functions of a
module's face are wrapped: where one fails for such a reason, its arguments are compared
with its signature. A call that succeeds pays for one more Python call and nothing else.
The same wrapper lets autocast convert the arguments of such a function as a whole.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..errors import EdutorchError
from ..modes import current
from .complaints import no_tensor
from .tensor import Tensor

TENSOR = ("Tensor", "Tensor | None")


def complain(name: str, parameters: list[inspect.Parameter], args: Any, named: Any) -> None:
    """Raise ArgumentError if an argument that has to be a tensor is none."""
    given = dict(zip((each.name for each in parameters), args, strict=False)) | named
    for parameter in parameters:
        if parameter.name not in given or str(parameter.annotation) not in TENSOR:
            continue
        value = given[parameter.name]
        if not isinstance(value, Tensor) and (
            value is not None or parameter.annotation == "Tensor"
        ):
            raise no_tensor(name, parameter.name, value)


def tensors_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a composed function so that it names an argument that is no tensor."""
    parameters = list(inspect.signature(function).parameters.values())
    name = function.__name__

    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        autocast = current().autocast
        try:
            if autocast is not None:
                return autocast.call(function, name, args, named)
            return function(*args, **named)
        except (AttributeError, TypeError, LookupError) as error:
            if not isinstance(error, EdutorchError):
                complain(name, parameters, args, named)
            raise

    return called


def guard(face: dict[str, Any]) -> None:
    """Wrap the composed functions among the names of a module that take a tensor."""
    for name, value in face.items():
        if name.startswith("_") or value.__class__ is not FunctionType or hasattr(value, "op"):
            continue
        parameters = inspect.signature(value).parameters.values()
        if any(str(each.annotation) in TENSOR for each in parameters):
            face[name] = tensors_only(value)
            face[name].__module__ = face["__name__"]  # where pickle finds it again
