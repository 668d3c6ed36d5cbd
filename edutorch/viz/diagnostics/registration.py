"""Finds parameters that a module holds where `parameters()` does not look.

A module knows the modules and parameters that are its attributes. It does not know what is in a
plain list, tuple or dict, or a tensor that is no `nn.Parameter`: no optimizer gets them, and
`state_dict` leaves them out. Hiding a module like this may be intended (a teacher). So only those
are reported that the loss depends on, and that no optimizer has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...core.tensor import LEAF, Tensor
from ..graph.names import Names
from .messages import Finding, finding, join_names

MOST_ITEMS = 1000
"""How many items of a container are searched at most."""


class HiddenParameter(NamedTuple):
    """A parameter that its module does not know: its path, and what holds it."""

    path: str
    tensor: Tensor
    holder: str  # `layers`, or `body.layers`
    thing: str
    model: Any
    advice: str


def hidden_parameters(names: Names) -> Iterator[HiddenParameter]:
    """Yield the parameters that the modules of all models hold without registering them."""
    for model in names.models:
        known = {id(parameter) for parameter in model.parameters()}
        for path, module in model.named_modules():
            for name, value in vars(module).items():
                holder = f"{path}.{name}" if path else name
                for subpath, tensor, thing, advice in hidden_in(value, name):
                    if id(tensor) not in known:
                        yield HiddenParameter(
                            holder + subpath, tensor, holder, thing, model, advice
                        )


def hidden_in(value: Any, name: str) -> Iterator[tuple[str, Tensor, str, str]]:
    """Yield what an attribute hides: its subpath, the tensor, what the attribute is, what helps."""
    from ...nn import Module

    if name.startswith("_") or isinstance(value, Module):
        return
    if isinstance(value, Tensor):
        if is_learned(value):
            advice = f"Write self.{name} = nn.Parameter(…)."
            yield "", value, "a plain tensor", advice
        return
    if not isinstance(value, list | tuple | dict):
        return
    keyed = isinstance(value, dict)
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value))[:MOST_ITEMS]
    thing = f"a plain {type(value).__name__}"
    for key, item in pairs:
        subpath = f"[{key!r}]"
        if isinstance(item, Module):
            container = "ModuleDict" if keyed else "ModuleList"
            advice = f"Write self.{name} = nn.{container}(…): it registers what is in it."
            for path, parameter in item.named_parameters():
                yield f"{subpath}.{path}", parameter, thing, advice
        elif isinstance(item, Tensor) and is_learned(item):
            container = "ParameterDict" if keyed else "ParameterList"
            advice = f"Write self.{name} = nn.{container}(…): it registers what is in it."
            yield subpath, item, thing, advice


def is_learned(tensor: Tensor) -> bool:
    """Return True for a leaf that requires a gradient."""
    return tensor._node is LEAF and tensor.requires_grad


def find_unregistered(names: Names, got: set[int], optimized: set[int], line: str) -> list[Finding]:
    """Return a finding for each attribute that hides parameters which a loss depends on.

    Args:
        got: the ids of the leaves that got a gradient, or would.
        optimized: the ids of those that an optimizer holds.
        line: the line of the user's code that ran backward.
    """
    groups: dict[str, list[HiddenParameter]] = {}
    for hidden_parameter in hidden_parameters(names):
        if id(hidden_parameter.tensor) in got and id(hidden_parameter.tensor) not in optimized:
            groups.setdefault(hidden_parameter.holder, []).append(hidden_parameter)
    return [
        finding("unregistered",
                names=join_names(list(dict.fromkeys(parameter.path for parameter in hidden))),
                model=type(hidden[0].model).__name__, holder=f"`{holder}`", thing=hidden[0].thing,
                advice=hidden[0].advice, line=line, subject=f"unregistered {holder}")
        for holder, hidden in groups.items()
    ]  # fmt: skip
