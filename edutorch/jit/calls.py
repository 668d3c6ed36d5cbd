"""Translates a call: of an operator, a function, a method, a submodule, or a class."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import Any

from .. import dtypes
from ..nn.modules.module import Module
from .dtype_numbers import DTYPE_NUMBERS
from .operators import find_operator
from .resolution import BUILTINS
from .rewriting import for_one_size, inline_form
from .statics import CONTAINERS, AttributeOf, Static
from .translation import Translation

LOAD = ast.Load()
CREATORS = {"zeros", "ones", "empty", "rand", "randn"}
VARARGS = {"view", "reshape", "permute", "expand", "repeat", "flip", "tile", "new_zeros",
           "new_ones", "new_empty"}  # fmt: skip
"""Functions, and methods, whose sizes Python may write one by one; TorchScript has a list."""

MATH = frozenset(
    """
    sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh floor ceil trunc
    erf erfc gamma lgamma isnan isinf isfinite degrees radians factorial pow fmod atan2 gcd copysign
    hypot
    """.split()
)


def modifier(function: Any) -> str:
    """Return what a decorator said of a function: "export", "ignore", "unused" or ""."""
    return getattr(function, "_torchscript_modifier", "")


def translate_call(translator: Translation, node: ast.Call) -> ast.expr:
    """Return a call translated."""
    known = translator.truth(node)
    if known is not None:
        return ast.Constant(known)
    resolved = translator.statics.find(node.func)
    if isinstance(resolved, AttributeOf):
        raise translator.fail(node, f"a {type(resolved.value).__name__} is called")
    if isinstance(resolved, Static):
        return call_known(translator, node, resolved)
    if isinstance(node.func, ast.Attribute):
        return call_method(translator, node, node.func)
    raise translator.fail(node, "what is called here is not known before the function runs")


def arguments(translator: Translation, node: ast.Call) -> tuple[list[ast.expr], list[ast.keyword]]:
    """Return the arguments translated."""
    for keyword in node.keywords:
        if keyword.arg is None:
            raise translator.fail(node, "`**` in a call", "write the arguments one by one")
    args = [translator.expression(argument) for argument in node.args]
    keywords = [
        ast.keyword(keyword.arg, translator.expression(keyword.value)) for keyword in node.keywords
    ]
    return args, keywords


def call_known(translator: Translation, node: ast.Call, resolved: Static) -> ast.expr:
    """Translate the call of a function, class or module that is known."""
    value = resolved.value
    if isinstance(value, Module):
        return call_module(translator, node, resolved)
    if hasattr(value, "aten_operator"):
        return call_operator(translator, node, value.aten_operator)
    if hasattr(value, "expands_parameters"):
        return list_parameters(translator, node)
    if value is len and len(node.args) == 1:
        container = translator.statics.find(node.args[0])
        if isinstance(container, Static) and isinstance(container.value, CONTAINERS):
            return ast.Constant(len(container.value))
    special = SPECIAL.get(getattr(value, "__name__", "")) if is_jit(value) else None
    if value is isinstance or special is not None:
        return (special or translate_isinstance)(translator, node)
    if isinstance(value, types.BuiltinFunctionType | type) and is_builtin(value):
        args, keywords = arguments(translator, node)
        return ast.Call(ast.Name(value.__name__, LOAD), args, keywords)
    if getattr(value, "__module__", "") == "math" and value.__name__ in MATH:
        return call_operator(translator, node, value.__name__)
    if inspect.isclass(value):
        return call_class(translator, node, value)
    if isinstance(resolved.node, ast.Attribute) and is_method_of(translator, resolved):
        return call_own_method(translator, node, resolved)
    return call_function(translator, node, value)


def list_parameters(translator: Translation, node: ast.Call) -> ast.expr:
    """Return `[self.weight_ih_l0, …]`: all parameters of a module."""
    resolved = translator.statics.find(node.args[0])
    assert isinstance(resolved, Static) and resolved.node is not None
    named = [name for name, value in resolved.value._parameters.items() if value is not None]
    return ast.List([ast.Attribute(resolved.node, name, LOAD) for name in named], LOAD)


def is_jit(value: Any) -> bool:
    """Return True for a function of `torch.jit` itself."""
    return str(getattr(value, "__module__", "")).startswith("edutorch.jit.")


def is_builtin(value: Any) -> bool:
    name = getattr(value, "__name__", "")
    return getattr(value, "__module__", "") == "builtins" and name in BUILTINS


def call_module(translator: Translation, node: ast.Call, resolved: Static) -> ast.expr:
    """Translate `self.conv(x)`: `(self.conv).forward(x)`."""
    if resolved.node is None:
        raise translator.fail(node, "a module from outside of the function", "make it a submodule")
    translator.compiler.method(resolved.value, "forward", translator, node)
    args, keywords = arguments(translator, node)
    return ast.Call(ast.Attribute(resolved.node, "forward", LOAD), args, keywords)


def is_method_of(translator: Translation, resolved: Static) -> bool:
    """Return True if a known function is a method of a module that the program reaches."""
    assert isinstance(resolved.node, ast.Attribute)
    owner = translator.statics.find(resolved.node.value)
    if not isinstance(owner, Static) or not isinstance(owner.value, Module):
        return False
    static = inspect.getattr_static(type(owner.value), resolved.node.attr, None)
    return isinstance(static, types.FunctionType)


def call_own_method(translator: Translation, node: ast.Call, resolved: Static) -> ast.expr:
    """Translate `self.helper(x)`."""
    target = resolved.node
    assert isinstance(target, ast.Attribute)
    owner = translator.statics.find(target.value)
    assert isinstance(owner, Static)
    if modifier(resolved.value) == "ignore":
        raise ignored(translator, node)
    if modifier(resolved.value) == "unused":
        return never(node)
    translator.compiler.method(owner.value, target.attr, translator, node)
    args, keywords = arguments(translator, node)
    return ast.Call(ast.Attribute(target.value, target.attr, LOAD), args, keywords)


def ignored(translator: Translation, node: ast.Call) -> Exception:
    return translator.fail(
        node, "a function marked @torch.jit.ignore is called: it stays Python, and cannot be saved",
        "mark it @torch.jit.unused if the program never calls it",
    )  # fmt: skip


def never(node: ast.AST) -> ast.expr:
    """Return what stands for the call of a function marked `unused`: an error."""
    space = ast.Attribute(ast.Name("ops", LOAD), "prim", LOAD)
    text = ast.Constant("a function marked @torch.jit.unused was called")
    return ast.Call(ast.Attribute(space, "RaiseException", LOAD), [text], [])


def call_class(translator: Translation, node: ast.Call, value: type) -> ast.expr:
    """Translate the making of a named tuple."""
    name = translator.compiler.class_name(value)
    if name is None:
        raise translator.fail(
            node, f"the class {value.__name__} is not one that a program can make",
            "use a NamedTuple, a tuple or a dict",
        )  # fmt: skip
    args, keywords = arguments(translator, node)
    # The reader of PyTorch knows no defaults of named tuples.
    passed = {*value._fields[: len(args)], *(keyword.arg for keyword in keywords)}  # type: ignore[attr-defined]
    for field, default in value._field_defaults.items():  # type: ignore[attr-defined]
        if field not in passed:
            keywords.append(ast.keyword(field, translator.constant(node, default)))
    return ast.Call(dotted(name), args, keywords)


def dotted(name: str) -> ast.expr:
    """Return a name with dots as an expression."""
    return ast.parse(name, mode="eval").body


def call_function(translator: Translation, node: ast.Call, value: Any) -> ast.expr:
    """Translate the call of a function: one of ours, or the user's."""
    value = getattr(value, "python_function", value)  # a ScriptFunction
    name = translator.compiler.operator_name(value)
    if name is not None:
        return call_operator(translator, node, name)
    if modifier(value) == "ignore":
        raise ignored(translator, node)
    if modifier(value) == "unused":
        return never(node)
    form = translator.compiler.form(value)
    one_size = for_one_size(translator, node, form)
    if one_size is not None:
        node, value = one_size, form.for_one_size
    args, keywords = arguments(translator, node)
    if hasattr(form, "is_inlined"):
        return inline_form(translator, node, form, args, keywords)
    function = translator.compiler.function(value, translator, node)
    return ast.Call(dotted(function.name), args, keywords)


def call_operator(translator: Translation, node: ast.Call, name: str) -> ast.expr:
    """Translate the call of an operator: `torch.relu(x)`."""
    if find_operator(f"torch.{name}") is None:
        raise translator.fail(node, f"torch.{name} is not an operator of TorchScript here")
    args, keywords = arguments(translator, node)
    if name in CREATORS:
        args = as_list(args)
    return ast.Call(ast.Attribute(ast.Name("torch", LOAD), name, LOAD), args, keywords)


def as_list(sizes: list[ast.expr]) -> list[ast.expr]:
    """Return sizes as one list, if they are not one already."""
    single = len(sizes) == 1 and not isinstance(sizes[0], ast.Constant | ast.UnaryOp)
    return sizes if not sizes or single else [ast.List(sizes, LOAD)]


def call_method(translator: Translation, node: ast.Call, target: ast.Attribute) -> ast.expr:
    """Translate `x.view(2, -1)`, `values.append(x)`: a method of a value is an operator."""
    name, owner = target.attr, translator.expression(target.value)
    if name.startswith("__") or find_operator(f"torch.{name}") is None:
        hint = UNKNOWN_METHODS.get(name)
        raise translator.fail(node, f"there is no method `{name}` in TorchScript", hint)
    args, keywords = arguments(translator, node)
    if name in CONVERSIONS:  # PyTorch's operator for all of them
        name, args = "to", [ast.Constant(DTYPE_NUMBERS[getattr(dtypes, CONVERSIONS[name])])]
    if name in VARARGS:
        args = as_list(args)
    if name == "format" and (keywords or not is_plain_format(target.value)):
        raise translator.fail(node, "only plain `{}` are understood in a format")
    return ast.Call(ast.Attribute(ast.Name("torch", LOAD), name, LOAD), [owner, *args], keywords)


CONVERSIONS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
    "int": "int32", "long": "int64", "short": "int16", "bool": "bool",
}  # fmt: skip
"""Methods that convert, with the dtype."""

UNKNOWN_METHODS = {
    "numpy": "a program has no NumPy: compute with torch's functions",
    "backward": "call backward outside of the scripted function",
    "register_forward_hook": "hooks stay Python",
}


def is_plain_format(node: ast.expr) -> bool:
    """Return True unless a text has fields other than `{}`."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return True
    return node.value.replace("{}", "").count("{") == 0


def translate_annotate(translator: Translation, node: ast.Call) -> ast.expr:
    """Translate `torch.jit.annotate(List[int], [])`."""
    if len(node.args) != 2:
        raise translator.fail(node, "annotate takes a type and a value")
    parts = [translator.type(node.args[0]), translator.expression(node.args[1])]
    return ast.Call(ast.Name("annotate", LOAD), parts, [])


def translate_isinstance(translator: Translation, node: ast.Call) -> ast.expr:
    """Translate `isinstance(x, torch.Tensor)`."""
    if len(node.args) != 2:
        raise translator.fail(node, "isinstance takes a value and a type")
    wanted = node.args[1]
    if isinstance(wanted, ast.Tuple):
        types_: ast.expr = ast.Tuple([type_of(translator, part) for part in wanted.elts], LOAD)
    else:
        types_ = type_of(translator, wanted)
    call = ast.Name("isinstance", LOAD)
    return ast.Call(call, [translator.expression(node.args[0]), types_], [])


def type_of(translator: Translation, node: ast.expr) -> ast.expr:
    resolved = translator.statics.find(node)
    if isinstance(resolved, Static) and resolved.value in (list, tuple):
        return ast.Name(resolved.value.__name__, LOAD)
    return translator.type(node)


SPECIAL: dict[str, Callable[[Translation, ast.Call], ast.expr]] = {
    "annotate": translate_annotate, "isinstance": translate_isinstance,
}  # fmt: skip
