"""Generates the Python source of a composed function's public form, at its first call.

Such a function is called with the arguments that its signature names, nearly always of ordinary
classes and without autocast. The source has one test for all of this, and then calls the function;
all other calls take the general path, `Composition.call`. Read the source of one with

    print(edutorch.core.composed.composition_of(edutorch.nn.functional.pad).source)
"""

from __future__ import annotations

import inspect
import keyword
from typing import TYPE_CHECKING, Any

from ..argument_checks import POSITIONAL, ordinary_classes

if TYPE_CHECKING:
    from ..composed import Composition

Parameters = list[inspect.Parameter]

RENAMED = (
    "type_ = NODE_TYPES.get(node_.__class__)",
    "if type_ is None:",
    "    renamed_type(node_, NODE_NAME, NODE_TYPES)",
    "else:",
    "    node_.__class__ = type_",
)
"""The naming of a node: what type it gets is kept."""

NOT_WIDE = (
    "{name}.__class__ not in TENSORS or {name}._array.__class__ is not ndarray"
    " or {name}._array.itemsize == 2"
)
"""The test that a tensor may have 16 bits."""


def composed_source(composition: Composition) -> tuple[str, dict[str, Any]]:
    """Return the source of a public form, and the objects that its tests name."""
    parameters, name = composition.body_parameters, composition.name
    usable = {*POSITIONAL, inspect.Parameter.KEYWORD_ONLY}
    is_plain = all(parameter.kind in usable for parameter in parameters) and parameters
    if not is_plain or composition.is_wrapped or not is_name(name):
        source = CHECKED if composition.checks and not composition.aliases else UNCHECKED
        test = "modes().autocast is not None" if composition.autocasts else "False"
        return source.format(name=name if is_name(name) else "composed", test=test), {}
    scope = {f"default_{p.name}": p.default for p in parameters if p.default is not p.empty}
    tests = []
    if composition.checks or composition.aliases:
        tests.append("unknown_")
    if composition.checks:
        tests.append("extra_")
    for parameter in parameters:
        classes = ordinary_classes(parameter) if composition.checks else None
        scope[f"classes_{parameter.name}"] = classes
        tests += _tests_of(parameter, composition.is_loose, bool(classes))
    if composition.has_out and not composition.is_loose:
        tests.append("out is not None")
    if composition.widening is not None:
        tests.append(NOT_WIDE.format(name=parameters[0].name))
    if composition.autocasts:
        tests.append("modes().autocast is not None")
    values = "".join(f"{parameter.name}, " for parameter in parameters)
    rest = f"({values}), {'extra_' if composition.checks else '()'}"
    unknown = "unknown_" if composition.is_loose else "{}"
    if composition.has_out and not composition.is_loose:
        unknown = "{'out': out}"
    lines = [f"def {name}({_header(composition, parameters)}):"]
    if tests:
        lines += [f"    if {' or '.join(tests)}:"]
        lines += [f"        return COMPOSITION.call(*COMPOSITION.as_passed({rest}, {unknown}))"]
    if not composition.checks:
        return "\n".join([*lines, *_body_lines(composition, parameters, "    "), ""]), scope
    lines += ["    try:", *_body_lines(composition, parameters, "        ")]
    lines += ["    except FAILURES as error_:"]
    lines += [f"        COMPOSITION.explain(error_, *COMPOSITION.as_passed({rest}, {{}}))"]
    return "\n".join([*lines, "        raise", ""]), scope


def is_name(text: str) -> bool:
    """Return True for what can be the name of a function in a source."""
    return text.isidentifier() and not keyword.iskeyword(text)


UNCHECKED = """\
def {name}(*args, **named):
    return COMPOSITION.call(args, named)
"""
CHECKED = """\
def {name}(*args, **named):
    by_position, by_name = COMPOSITION.classes
    for value, classes in zip(args, by_position):
        if classes is not None and value.__class__ not in classes:
            return COMPOSITION.call(args, named)
    for name, value in named.items():
        classes = by_name.get(name)
        if classes is not None and value.__class__ not in classes:
            return COMPOSITION.call(args, named)
    if {test}:
        return COMPOSITION.call(args, named)
    try:
        return COMPOSITION.inner(*args, **named)
    except FAILURES as error:
        COMPOSITION.explain(error, args, named)
        raise
"""
"""The sources of functions with any number of arguments, and of wrappers, which take all."""


def _tests_of(parameter: inspect.Parameter, is_loose: bool, has_classes: bool) -> list[str]:
    """Return the tests that an argument is missing or not of an ordinary class."""
    name = parameter.name
    if parameter.default is parameter.empty:
        if has_classes:
            return [f"{name}.__class__ not in classes_{name}"]
        return [f"{name} is REQUIRED"] if is_loose else []
    if not has_classes:
        return []
    default = parameter.default
    is_constant = default is None or default is True or default is False
    text = repr(default) if is_constant else f"default_{name}"
    return [f"({name} is not {text} and {name}.__class__ not in classes_{name})"]


def _header(composition: Composition, parameters: Parameters) -> str:
    """Return the parameters; what may be left out or be unknown is looked at by the tests."""
    texts, star = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            texts.append("*extra_" if composition.checks else "*")
            star = True
        if parameter.default is not parameter.empty:
            texts.append(f"{parameter.name}=default_{parameter.name}")
        else:
            texts.append(f"{parameter.name}=REQUIRED" if composition.is_loose else parameter.name)
    if composition.checks and not star:
        texts.append("*extra_")
    if composition.is_loose:
        texts.append("**unknown_")
    elif composition.has_out:
        texts += ["out=None"] if star else ["*", "out=None"]
    return ", ".join(texts)


def _body_lines(composition: Composition, parameters: Parameters, indent: str) -> list[str]:
    """Return the call of the function, and the naming of the node that it has recorded."""
    call = f"BODY({_arguments(parameters)})"
    if composition.finish is not None:
        call = f"finish({call}, {parameters[0].name})"
    if composition.node_name is None:
        return [f"{indent}return {call}"]
    is_text = composition.node_name.__class__ is str
    name = "NODE_NAME" if is_text else f"NODE_NAME({_arguments(parameters, by_name=True)})"
    lines = [
        "start_ = clock()",
        f"result_ = {call}",
        "if result_.__class__ is Tensor:",
        "    node_ = result_._node",
        "    if node_ is not None and node_ is not LEAF and node_._order > start_:",
        *(
            [f"        {line}" for line in RENAMED]
            if is_text
            else [f"        name_node(node_, {name})"]
        ),
        "else:",
        f"    name_results(result_, start_, {name}, (), {{}})",
        "return result_",
    ]
    return [indent + line for line in lines]


def _arguments(parameters: Parameters, by_name: bool = False) -> str:
    """Return the arguments of a call with these parameters, as text.

    Args:
        by_name: pass by name what has a default.
    """
    texts = []
    for parameter in parameters:
        named = parameter.kind is parameter.KEYWORD_ONLY
        named = named or (by_name and parameter.default is not parameter.empty)
        texts.append(f"{parameter.name}={parameter.name}" if named else parameter.name)
    return ", ".join(texts)
