"""Composed functions say it when they are given something else than a tensor.

An op looks at its operands itself. A function that is composed of ops would begin with
`input.shape`, and Python would complain that None has no shape. So the functions of a
module's face are wrapped: where one fails for such a reason, its arguments are compared
with its signature. A call that succeeds pays for one more Python call and nothing else.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..errors import ArgumentError, EdutorchError
from .tensor import Tensor

TENSOR = ("Tensor", "Tensor | None")


def complain(name: str, parameters: list[inspect.Parameter], args: Any, named: Any) -> None:
    """Raise ArgumentError if an argument that has to be a tensor is none."""
    given = dict(zip((each.name for each in parameters), args, strict=False)) | named
    for position, parameter in enumerate(parameters, 1):
        if parameter.name not in given or str(parameter.annotation) not in TENSOR:
            continue
        value = given[parameter.name]
        if isinstance(value, Tensor) or (value is None and parameter.annotation != "Tensor"):
            continue
        raise ArgumentError(
            name,
            f"argument '{parameter.name}' (position {position}) must be Tensor, "
            f"not {type(value).__name__}",
            hint=hint_for(value),
        )


def hint_for(value: Any) -> str | None:
    if isinstance(value, list | tuple | int | float):
        return "make a tensor of it: torch.tensor(…)"
    if hasattr(value, "__array__"):
        return "torch.from_numpy(…) makes a tensor of a NumPy array"
    return None


def tensors_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a composed function so that it names an argument that is no tensor."""
    parameters = list(inspect.signature(function).parameters.values())
    name = function.__name__

    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except (AttributeError, TypeError, IndexError) as error:
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
