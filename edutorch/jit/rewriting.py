"""Changes to expressions: variables are replaced, forms are written into their caller."""

from __future__ import annotations

import ast
import copy
import inspect
from typing import Any

from .source import read_source
from .statics import AttributeOf
from .translation import Translation

LOAD = ast.Load()


class Replace(ast.NodeTransformer):
    """Replaces variables by expressions.

    Args:
        values: the expression of each variable, by its name.
    """

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the expression of a variable."""
        return copy.deepcopy(self.values.get(node.id, node))


def as_list_comprehension(node: ast.GeneratorExp) -> ast.ListComp:
    """Return `[… for …]` for a `(… for …)` all of which is used at once."""
    return ast.copy_location(ast.ListComp(node.elt, node.generators), node)


def parts_of(target: ast.expr, node: ast.expr) -> dict[str, ast.expr]:
    """Return where the variables of `for i, (a, b) in …` are in an item: `item[1][0]`.

    >>> names = ast.parse("i, (a, b)", mode="eval").body
    >>> ast.unparse(parts_of(names, ast.Name("item"))["b"])
    'item[1][1]'
    """
    if isinstance(target, ast.Name):
        return {target.id: node}
    assert isinstance(target, ast.Tuple | ast.List)
    parts: dict[str, ast.expr] = {}
    for index, part in enumerate(target.elts):
        parts |= parts_of(part, ast.Subscript(node, ast.Constant(index), LOAD))
    return parts


def inline_form(
    translator: Translation, node: ast.Call, form: Any, args: list[ast.expr],
    keywords: list[ast.keyword],
) -> ast.expr:  # fmt: skip
    """Return the one expression of a form with the arguments of a call in it.

    Sizes may be an int or a list there, which an operator takes, and a function of TorchScript
    does not.

    Raises: NotSupportedError: the arguments do not fit, or ask for indices.
    """
    named = {str(keyword.arg): keyword.value for keyword in keywords}
    signature = inspect.signature(form)
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        raise translator.fail(node, f"{form.__name__}: {error}") from error
    values: dict[str, ast.expr] = {"aten": ast.Name("torch", LOAD)}
    for name, parameter in signature.parameters.items():
        value = bound.arguments.get(name)
        value = translator.constant(node, parameter.default) if value is None else value
        is_none = isinstance(value, ast.Constant) and value.value is None
        values[name] = ast.List([], LOAD) if name == "stride" and is_none else value
    indices = values.get("return_indices")
    if indices is not None and not (isinstance(indices, ast.Constant) and indices.value is False):
        raise translator.fail(node, "return_indices=True in a program", "use argmax of the windows")
    result = read_source(form).node.body[-1]
    assert isinstance(result, ast.Return) and result.value is not None
    return Replace(values).visit(result.value)


def for_one_size(translator: Translation, node: ast.Call, form: Any) -> ast.Call | None:
    """Return a call for the form that takes one number for all dimensions, if one is given.

    An int that stands for a factor becomes a float. None if there is no such form or number.
    """
    if not hasattr(form, "for_one_size"):
        return None
    try:
        bound = inspect.signature(form).bind(*node.args, **{str(k.arg): k.value
                                                            for k in node.keywords})  # fmt: skip
    except TypeError as error:
        raise translator.fail(node, f"{form.__name__}: {error}") from error
    is_there = False
    for name in ("size", "scale_factor"):
        value = bound.arguments.get(name)
        number = None if value is None else known_number(translator, value)
        is_there = is_there or number is not None
        if type(number) is int and name == "scale_factor":
            bound.arguments[name] = ast.Call(ast.Name("float", LOAD), [value], [])  # type: ignore[list-item]
    keywords = [ast.keyword(name, value) for name, value in bound.arguments.items()]
    call = ast.Call(node.func, [], keywords)
    return ast.fix_missing_locations(ast.copy_location(call, node)) if is_there else None


def known_number(translator: Translation, node: ast.expr) -> int | float | None:
    """Return the number that an expression is, where that is known."""
    resolved = translator.statics.find(node)
    value: Any = resolved.value if isinstance(resolved, AttributeOf) else None
    if isinstance(node, ast.Constant):
        value = node.value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
