"""Finds parameters that a module holds where `parameters()` does not look.

A module knows the modules and parameters that are its attributes. What lies in a plain list, tuple
or dict, and a tensor that is no `nn.Parameter`, it does not know: no optimizer is given them, and
`state_dict` leaves them out. To hide a module so may be meant (a teacher). So only those are spoken
of that the loss depends on, and that no optimizer has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...core.tensor import LEAF, Tensor
from ..graph.names import Names
from .messages import Finding, finding, join_names

MOST_ITEMS = 1000
"""Of a container no more items than this are looked at."""


class HiddenParameter(NamedTuple):
    """A parameter that its module does not know: its path, and what holds it."""

    path: str
    tensor: Tensor
    holder: str  # `layers`, or `body.layers`
    thing: str
    model: Any
    advice: str


def hidden_parameters(names: Names) -> Iterator[HiddenParameter]:
    """Yield the parameters that the modules of all models hold without knowing them."""
    for model in names.models:
        known = {id(parameter) for parameter in model.parameters()}
        for path, module in model.named_modules():
            for name, value in vars(module).items():
                holder = f"{path}.{name}" if path else name
                for place, tensor, thing, advice in hidden_in(value, name):
                    if id(tensor) not in known:
                        yield HiddenParameter(holder + place, tensor, holder, thing, model, advice)


def hidden_in(value: Any, name: str) -> Iterator[tuple[str, Tensor, str, str]]:
    """Yield what an attribute hides: where in it, the tensor, what the attribute is, what helps."""
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
        place = f"[{key!r}]"
        if isinstance(item, Module):
            kind = "ModuleDict" if keyed else "ModuleList"
            advice = f"Write self.{name} = nn.{kind}(…): it registers what is in it."
            for path, parameter in item.named_parameters():
                yield f"{place}.{path}", parameter, thing, advice
        elif isinstance(item, Tensor) and is_learned(item):
            kind = "ParameterDict" if keyed else "ParameterList"
            advice = f"Write self.{name} = nn.{kind}(…): it registers what is in it."
            yield place, item, thing, advice


def is_learned(tensor: Tensor) -> bool:
    """Whether a tensor is a leaf that wants a gradient."""
    return tensor._node is LEAF and tensor.requires_grad


def find_unregistered(names: Names, got: set[int], optimized: set[int], line: str) -> list[Finding]:
    """Return a finding for each attribute that hides parameters which a loss depends on.

    Args:
        got: the ids of the leaves that got a gradient, or would.
        optimized: of those that an optimizer holds.
        line: of the user's code that ran backward.
    """
    groups: dict[str, list[HiddenParameter]] = {}
    for hidden_parameter in hidden_parameters(names):
        if id(hidden_parameter.tensor) in got and id(hidden_parameter.tensor) not in optimized:
            groups.setdefault(hidden_parameter.holder, []).append(hidden_parameter)
    return [
        finding("unregistered", names=join_names(list(dict.fromkeys(each.path for each in hidden))),
                model=type(hidden[0].model).__name__, holder=f"`{holder}`", thing=hidden[0].thing,
                advice=hidden[0].advice, line=line, subject=f"unregistered {holder}")
        for holder, hidden in groups.items()
    ]  # fmt: skip
