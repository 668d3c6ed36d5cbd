"""The targets of the fuzzer, read from the signatures of edutorch's public functions."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

import edutorch

from .calls import resolve
from .known import UNTRIED

NAMESPACES = ("", "nn.functional", "linalg", "fft", "special", "Tensor", "nn", "optim")
QUESTIONS = "log_prob cdf icdf entropy mean variance stddev mode".split()
"""What a distribution is asked."""

VARIADIC = {
    "size": "Sequence[int]", "tensors": "Sequence[Tensor]", "matrices": "Sequence[Tensor]",
    "operands": "Sequence[Tensor]",
}  # fmt: skip
"""What `*size` and the like take."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a target, as its signature tells."""

    name: str
    annotation: str
    required: bool
    keyword_only: bool
    default: Any = None
    variadic: bool = False

    @property
    def is_tensor(self) -> bool:
        return self.annotation.split(" |")[0] in ("Tensor", "Array", "Index")

    @property
    def is_tensor_list(self) -> bool:
        return "Sequence[Tensor" in self.annotation or "Sequence[Array" in self.annotation


@dataclass(frozen=True)
class Target:
    """A public function, method or class, and its parameters."""

    path: str
    parameters: tuple[Parameter, ...]

    @property
    def leaf(self) -> str:
        """The name without the namespace, and without the underscore of the in-place form."""
        name = self.path.rpartition(".")[2]
        return name.rstrip("_") or name

    @property
    def is_distribution(self) -> bool:
        return self.path.startswith("distributions.")

    @property
    def is_module(self) -> bool:
        return self.path.startswith("nn.") and self.path.count(".") == 1

    @property
    def is_optimizer(self) -> bool:
        return self.path.startswith("optim.")

    @property
    def is_class(self) -> bool:
        return self.is_distribution or self.is_module or self.is_optimizer

    @property
    def has_out(self) -> bool:
        op = getattr(resolve(edutorch, self.path), "op", None)
        return "out" in {p.name for p in self.parameters} or bool(op is not None and op.has_out)


def parameters_of(function: Any) -> tuple[Parameter, ...]:
    """Return the parameters in a signature; of an in-place form, those of the plain form."""
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind == parameter.VAR_KEYWORD:
            continue
        if parameter.kind == parameter.VAR_POSITIONAL:
            if parameter.name in VARIADIC:
                note = VARIADIC[parameter.name]
                parameters.append(Parameter(parameter.name, note, True, False, variadic=True))
            continue
        required = parameter.default is parameter.empty
        annotation = str(parameter.annotation).strip("'\"")
        keyword_only = parameter.kind == parameter.KEYWORD_ONLY
        default = None if required else parameter.default
        parameters.append(Parameter(parameter.name, annotation, required, keyword_only, default))
    return tuple(parameters)


def reason_untried(path: str) -> str | None:
    """Return why a name is no target, or None."""
    return next((reason for pattern, reason in UNTRIED if re.fullmatch(pattern, path)), None)


def public_paths(torch: Any) -> dict[str, Any]:
    """Return the public callables that both libraries have, by path."""
    paths = {}
    for namespace in NAMESPACES:
        here = resolve(edutorch, namespace) if namespace else edutorch
        there = resolve(torch, namespace) if namespace else torch
        for name in dir(here):
            value = getattr(here, name)
            path = f"{namespace}.{name}".lstrip(".")
            if name.startswith("_") or not callable(value) or not hasattr(there, name):
                continue
            if isinstance(value, type) == (namespace in ("nn", "optim")):
                paths[path] = value
    for name in dir(edutorch.distributions):
        value = getattr(edutorch.distributions, name)
        is_distribution = isinstance(value, type) and issubclass(
            value, edutorch.distributions.Distribution
        )
        if is_distribution and hasattr(torch.distributions, name):
            paths[f"distributions.{name}"] = value
    return paths


def all_targets(torch: Any) -> list[Target]:
    """Return the targets in a fixed order: one per function, however many names it has.

    A method that is the same function as one of the names above it is left to that name, but for
    the in-place forms.
    """
    targets, seen = [], set()
    for path, value in public_paths(torch).items():
        is_plain = not path.startswith("distributions.")
        if reason_untried(path) or (is_plain and id(value) in seen):
            continue
        seen.add(id(value))
        source = value
        if path.endswith("_") and "args" in inspect.signature(value).parameters:
            source = getattr(edutorch.Tensor, path.rpartition(".")[2][:-1], value)
        targets.append(Target(path, parameters_of(source)))
    return targets
