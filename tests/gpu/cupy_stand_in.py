"""A stand-in for CuPy that knows its names and signatures, for machines without a GPU.

CuPy can be imported without a GPU, but not called. The stand-in has exactly the attributes of the
installed CuPy; each call has to fit the signature, and is answered by a function of the test, or by
an object with the attributes of the class. All calls are written down.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any


def signature_of(member: Any) -> inspect.Signature:
    """Return the signature of a function, also of one in C, whose docstring begins with it."""
    try:
        return inspect.signature(member)
    except ValueError:
        pass
    doc = (member.__init__.__doc__ if isinstance(member, type) else member.__doc__) or ""
    line = re.match(r"[\w.]+\((.*?)\)", doc, re.DOTALL)
    if line is not None:
        texts = re.split(r",\s*", line[1])
    else:  # a class in C: the arguments that its own text describes
        section = (member.__doc__ or "").partition("Args:")[2].partition("Attributes:")[0]
        texts = [f"{name}=None" for name in re.findall(r"^ +(\w+) \(", section, re.MULTILINE)]
        assert texts, f"CuPy does not say what {member!r} takes"
    parameters = []
    for text in filter(None, texts):
        name, has_default, _ = text.partition("=")
        word = name.split()[-1]
        if word not in ("self", "cls"):
            parameters.append(
                inspect.Parameter(
                    word, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=None if has_default else inspect.Parameter.empty,
                )
            )  # fmt: skip
    return inspect.Signature(parameters)


class StandIn:
    """A module, or an object of a class, of CuPy.

    Args:
        real: the module or class.
        path: its name.
        answers: what calls and attributes return, by their names.
        calls: where calls are written down, as (name, arguments).
        fields: attributes of an object, which its class does not name.
    """

    def __init__(
        self, real: Any, path: str, answers: dict[str, Any], calls: list[Any], **fields: Any
    ) -> None:
        self.__dict__.update(_real=real, _path=path, _answers=answers, _calls=calls, **fields)

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}"
        if not hasattr(self._real, name):
            raise AttributeError(f"CuPy has no {path}")
        member = getattr(self._real, name)
        if isinstance(member, type) and issubclass(member, BaseException):
            return member
        if isinstance(member, ModuleType):
            return StandIn(member, path, self._answers, self._calls)
        if not callable(member):
            answer = self._answers.get(path, member)
            return answer() if callable(answer) else answer
        function = self._function(member, path)
        if not isinstance(member, type):
            return function
        return StandInClass(member, path, self._answers, self._calls, make=function)

    def _function(self, member: Any, path: str) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            signature = signature_of(member)
            if isinstance(self._real, type) and "self" in signature.parameters:
                args_for = (self, *args)
            else:
                args_for = args
            signature.bind(*args_for, **keywords)
            self._calls.append((path, args, keywords))
            answer = self._answers.get(path)
            if answer is not None:
                return answer(*args, **keywords) if callable(answer) else answer
            if isinstance(member, type):
                return StandIn(member, path, self._answers, self._calls, ptr=64, device_id=0)
            return None

        return call

    def __enter__(self) -> StandIn:
        assert hasattr(self._real, "__enter__"), self._path
        return self

    def __exit__(self, *exception: object) -> None:
        assert hasattr(self._real, "__exit__"), self._path


class StandInClass(StandIn):
    """A class of CuPy: it can be called, and its attributes asked for."""

    make: Callable[..., Any]

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.make(*args, **keywords)
