"""Runs TorchScript: walks over the `ast` of a function, statement by statement.

There is no `exec` and no `eval`. A function has been checked before (`resolution.py`), which also
wrote down what its names stand for; here a name is a variable, or is looked up in that table.
`EVALUATE` and `EXECUTE` at the end list every kind of node with the function that handles it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from typing import Any

from ..core.tensor import Tensor
from .errors import ArchiveError, Error, error_class
from .objects import ScriptObject, get_attribute, make_object, script_class_of
from .operators import PRIM, check_size, find_operator, minmax, over_lists, wrap_int
from .program import Function, ScriptClass
from .type_expressions import convert, dotted_name, matches

MAX_DEPTH = 60
"""Calls inside of calls: networks need some ten, and Python's own stack bears this many."""


class Uninitialized:
    """The value of a variable that is set in another branch."""

    def __repr__(self) -> str:
        return "uninitialized"


UNINITIALIZED = Uninitialized()


class Signal:
    """What ends a block early: `break`, `continue`, or `return` with its value."""

    def __init__(self, name: str, value: Any = None) -> None:
        self.name, self.value = name, value


BREAK, CONTINUE = Signal("break"), Signal("continue")


class Frame:
    """A call in progress: its variables, the line that runs, and how deep it lies."""

    __slots__ = ("depth", "function", "line", "variables")

    def __init__(self, function: Function, variables: dict[str, Any], depth: int) -> None:
        self.function, self.variables, self.depth = function, variables, depth
        self.line = function.node.lineno


def call_function(
    function: Function, args: tuple[Any, ...], named: dict[str, Any], depth: int = 0
) -> Any:
    """Call a function of a program.

    Args:
        depth: how many calls it lies in; 0 is a call from outside, whose arguments are checked.

    Raises: Error: an argument does not fit, or the program raises.
        ArchiveError: it calls itself without end.
    """
    if depth > MAX_DEPTH:
        raise ArchiveError("jit", f"{function.name}: {depth} calls inside of each other")
    frame = Frame(function, bind(function, args, named, depth), depth)
    try:
        signal = run_block(function.node.body, frame)
    except Exception as error:
        if len(getattr(error, "__notes__", ())) < 8:
            error.add_note(f"in {function.file}:{frame.line}, {function.short_name}")
        raise
    return None if signal is None else signal.value


def bind(
    function: Function, args: tuple[Any, ...], named: dict[str, Any], depth: int
) -> dict[str, Any]:
    """Return the variables that a call begins with: its arguments.

    Raises: Error: one is missing, unknown, or of another type.
    """
    parameters, defaults = function.parameters(), function.defaults()
    if len(args) > len(parameters):
        raise Error(function.short_name, f"takes {len(parameters)} arguments, not {len(args)}")
    variables = dict(zip((parameter.arg for parameter in parameters), args, strict=False))
    known = {parameter.arg for parameter in parameters}
    for name, value in named.items():
        if name not in known or name in variables:
            text = "is unknown" if name not in known else "is there twice"
            raise Error(function.short_name, f"the argument {name!r} {text}")
        variables[name] = value
    frame = Frame(function, variables, depth)
    for parameter in parameters:
        if parameter.arg not in variables:
            if parameter.arg not in defaults:
                raise Error(function.short_name, f"the argument {parameter.arg!r} is missing")
            variables[parameter.arg] = evaluate(defaults[parameter.arg], frame)
        elif depth == 0 or parameter.annotation is not None:
            variables[parameter.arg] = adapt(function, parameter, variables[parameter.arg], depth)
    return variables


def adapt(function: Function, parameter: ast.arg, value: Any, depth: int) -> Any:
    """Return an argument as its type; inside of a program only numbers need that."""
    if depth == 0:
        return convert(parameter.annotation, value, function.short_name, parameter.arg)
    is_float = type(value) is int and dotted_name(parameter.annotation or ast.Name("")) == "float"
    return float(value) if is_float else value


# Statements -----------------------------------------------------------------------------------


def run_block(statements: list[ast.stmt], frame: Frame) -> Signal | None:
    """Run statements until one of them ends the block."""
    for statement in statements:
        frame.line = statement.lineno
        signal = EXECUTE[type(statement)](statement, frame)
        if signal is not None:
            return signal
    return None


def run_assign(node: ast.Assign, frame: Frame) -> None:
    value = evaluate(node.value, frame)
    for target in node.targets:
        assign(target, value, frame)


def run_typed_assign(node: ast.AnnAssign, frame: Frame) -> None:
    if node.value is not None:
        value = evaluate(node.value, frame)
        if type(value) is int and dotted_name(node.annotation) == "float":
            value = float(value)
        assign(node.target, value, frame)


def assign(target: ast.expr, value: Any, frame: Frame) -> None:
    """Assign to a name, an attribute, an element, or several of these."""
    if isinstance(target, ast.Name):
        frame.variables[target.id] = value
    elif isinstance(target, ast.Tuple | ast.List):
        values = list(value)
        if len(values) != len(target.elts):
            raise Error(None, f"{len(values)} values for {len(target.elts)} names")
        for part, item in zip(target.elts, values, strict=True):
            assign(part, item, frame)
    elif isinstance(target, ast.Attribute):
        owner = evaluate(target.value, frame)
        cls = script_class_of(owner)
        if cls is None or target.attr not in cls.attributes:
            raise Error(None, f"{target.attr} is not an attribute of {describe(owner)}")
        setattr(owner, target.attr, value)
    elif isinstance(target, ast.Subscript):
        container = evaluate(target.value, frame)
        container[evaluate(target.slice, frame)] = value


def run_augmented(node: ast.AugAssign, frame: Frame) -> None:
    """Run `x += y`: a tensor or a list is changed in place, as in Python."""
    if isinstance(node.target, ast.Subscript):
        container = evaluate(node.target.value, frame)
        key = evaluate(node.target.slice, frame)
        value = IN_PLACE[type(node.op)](container[key], evaluate(node.value, frame))
        container[key] = wrap_int(value)
        return
    before = evaluate(node.target, frame)
    assign(
        node.target, wrap_int(IN_PLACE[type(node.op)](before, evaluate(node.value, frame))), frame
    )


def run_return(node: ast.Return, frame: Frame) -> Signal:
    return Signal("return", None if node.value is None else evaluate(node.value, frame))


def run_if(node: ast.If, frame: Frame) -> Signal | None:
    return run_block(node.body if evaluate(node.test, frame) else node.orelse, frame)


def run_while(node: ast.While, frame: Frame) -> Signal | None:
    while evaluate(node.test, frame):
        signal = run_block(node.body, frame)
        if signal is BREAK:
            break
        if signal is not None and signal is not CONTINUE:
            return signal
    return None


def run_for(node: ast.For, frame: Frame) -> Signal | None:
    for item in iterate(evaluate(node.iter, frame)):
        assign(node.target, item, frame)
        signal = run_block(node.body, frame)
        if signal is BREAK:
            break
        if signal is not None and signal is not CONTINUE:
            return signal
    return None


def iterate(value: Any) -> Iterator[Any]:
    """Return an iterator over a list, a range, a dict's keys, or the rows of a tensor."""
    if not isinstance(value, list | tuple | range | dict | str | Tensor | enumerate | zip):
        raise Error(None, f"{describe(value)} cannot be iterated over")
    return iter(list(value) if isinstance(value, dict) else value)


def run_with(node: ast.With, frame: Frame) -> Signal | None:
    """Run a block inside of an object with `__enter__` and `__exit__`, such as `no_grad`."""
    item, *others = node.items
    owner = evaluate(item.context_expr, frame)
    cls = script_class_of(owner)
    if cls is None or others or not {"__enter__", "__exit__"} <= cls.methods.keys():
        raise Error(None, f"{describe(owner)} cannot stand behind `with`")
    entered = call_function(cls.methods["__enter__"], (owner,), {}, frame.depth + 1)
    if item.optional_vars is not None:
        assign(item.optional_vars, entered, frame)
    try:
        return run_block(node.body, frame)
    finally:
        call_function(cls.methods["__exit__"], (owner, None, None, None), {}, frame.depth + 1)


def run_assert(node: ast.Assert, frame: Frame) -> None:
    if not evaluate(node.test, frame):
        text = "" if node.msg is None else str(evaluate(node.msg, frame))
        raise error_class("AssertionError")(None, text or "an assertion failed")


def run_expression(node: ast.Expr, frame: Frame) -> None:
    evaluate(node.value, frame)


# Expressions ----------------------------------------------------------------------------------


def evaluate(node: ast.AST, frame: Frame) -> Any:
    """Return the value of an expression."""
    return EVALUATE[type(node)](node, frame)


def read_name(node: ast.Name, frame: Frame) -> Any:
    if node.id in frame.variables:
        return frame.variables[node.id]
    if node in frame.function.resolved:
        return frame.function.resolved[node]
    raise Error(None, f"the variable {node.id} has no value")


def read_attribute(node: ast.Attribute, frame: Frame) -> Any:
    resolved = frame.function.resolved
    if node in resolved:
        return resolved[node]
    owner = evaluate(node.value, frame)
    if isinstance(owner, Tensor):
        return tensor_attribute(owner, node.attr)
    return get_attribute(owner, node.attr)


def tensor_attribute(tensor: Tensor, name: str) -> Any:
    """Return `x.shape`, `x.T`, …: the attributes are operators."""
    attribute = PRIM.get(name) or {"ndim": lambda x: x.ndim, "real": lambda x: x.real,
                                   "imag": lambda x: x.imag}.get(name)  # fmt: skip
    if attribute is None:
        raise Error(None, f"a tensor has no attribute {name} in TorchScript")
    return attribute(tensor)


def read_element(node: ast.Subscript, frame: Frame) -> Any:
    container = evaluate(node.value, frame)
    key = evaluate(node.slice, frame)
    if not isinstance(container, list | tuple | dict | str | Tensor):
        raise Error(None, f"{describe(container)} has no elements")
    try:
        return container[key]
    except KeyError as error:
        raise error_class("KeyError")(None, f"no key {key!r}") from error


def make_slice(node: ast.Slice, frame: Frame) -> slice:
    parts = (node.lower, node.upper, node.step)
    return slice(*(None if part is None else evaluate(part, frame) for part in parts))


def run_boolean(node: ast.BoolOp, frame: Frame) -> Any:
    value: Any = None
    for part in node.values:
        value = evaluate(part, frame)
        if bool(value) is isinstance(node.op, ast.Or):
            return value
    return value


def run_binary(node: ast.BinOp, frame: Frame) -> Any:
    left, right = evaluate(node.left, frame), evaluate(node.right, frame)
    if isinstance(node.op, ast.Mult | ast.Pow | ast.LShift) and not (
        isinstance(left, Tensor | float) or isinstance(right, Tensor | float)
    ):
        return checked_binary(node.op, left, right)
    return wrap_int(BINARY[type(node.op)](left, right))


def checked_binary(op: ast.operator, left: Any, right: Any) -> Any:
    """Multiply, shift or raise ints to a power without making a huge number or list."""
    if isinstance(op, ast.Pow) and right >= 0 and type(left) is int:
        return wrap_int(pow(left, right, 2**64))
    name = {ast.Mult: "mul", ast.Pow: "pow", ast.LShift: "__lshift__"}[type(op)]
    run: Any = find_operator(f"torch.{name}")
    return run(left, right)


def run_unary(node: ast.UnaryOp, frame: Frame) -> Any:
    return UNARY[type(node.op)](evaluate(node.operand, frame))


def run_choice(node: ast.IfExp, frame: Frame) -> Any:
    return evaluate(node.body if evaluate(node.test, frame) else node.orelse, frame)


def run_comparison(node: ast.Compare, frame: Frame) -> Any:
    left, result = evaluate(node.left, frame), True
    for op, part in zip(node.ops, node.comparators, strict=True):
        right = evaluate(part, frame)
        result = COMPARE[type(op)](left, right)
        if len(node.ops) > 1 and not result:
            return result
        left = right
    return result


def make_comprehension(node: ast.ListComp, frame: Frame) -> list[Any]:
    """Return `[f(x) for x in values if …]`, whose variables are its own."""
    (loop,) = node.generators
    inner = Frame(frame.function, dict(frame.variables), frame.depth)
    result = []
    for item in iterate(evaluate(loop.iter, frame)):
        assign(loop.target, item, inner)
        if all(evaluate(test, inner) for test in loop.ifs):
            result.append(evaluate(node.elt, inner))
    return result


def make_dict(node: ast.Dict, frame: Frame) -> dict[Any, Any]:
    keys = [evaluate(key, frame) for key in node.keys if key is not None]
    return dict(zip(keys, [evaluate(value, frame) for value in node.values], strict=True))


# Calls ----------------------------------------------------------------------------------------


def run_call(node: ast.Call, frame: Frame) -> Any:
    """Call an operator, a builtin, a function of the program, a method, or a class."""
    target = node.func
    if isinstance(target, ast.Name) and target.id in FORMS and target.id not in frame.variables:
        return FORMS[target.id](node, frame)
    resolved = frame.function.resolved.get(target)
    if isinstance(target, ast.Attribute) and target.attr == "__new__":
        return make_object(resolved)
    args = tuple([evaluate(argument, frame) for argument in node.args])
    named = {str(keyword.arg): evaluate(keyword.value, frame) for keyword in node.keywords}
    if isinstance(resolved, Function | ScriptClass):
        return call_value(resolved, args, named, frame)
    if resolved is not None:
        return resolved(*args, **named)
    if isinstance(target, ast.Name):
        if target.id in frame.variables:
            return call_value(frame.variables[target.id], args, named, frame)
        return BUILTINS[target.id](*args, **named)
    assert isinstance(target, ast.Attribute)
    return call_method(evaluate(target.value, frame), target.attr, args, named, frame)


def call_value(value: Any, args: tuple[Any, ...], named: dict[str, Any], frame: Frame) -> Any:
    """Call a function, a class or a module of the program."""
    if isinstance(value, Function):
        return call_function(value, args, named, frame.depth + 1)
    if isinstance(value, ScriptClass):
        result = make_object(value, args, named)
        if isinstance(result, ScriptObject) and "__init__" in value.methods:
            call_function(value.methods["__init__"], (result, *args), named, frame.depth + 1)
        return result
    if script_class_of(value) is not None:
        return call_method(value, "forward", args, named, frame)
    raise Error(None, f"{describe(value)} cannot be called")


def call_method(
    owner: Any, name: str, args: tuple[Any, ...], named: dict[str, Any], frame: Frame
) -> Any:
    """Call a method: of the program's own objects, or an operator with the value as its first."""
    cls = script_class_of(owner)
    if cls is not None:
        if name not in cls.methods:
            raise Error(None, f"{cls.name} has no method {name}")
        return call_function(cls.methods[name], (owner, *args), named, frame.depth + 1)
    run = None if name.startswith("_") else find_operator(f"torch.{name}")
    if run is None or not isinstance(owner, Tensor | list | dict | str):
        raise Error(None, f"{describe(owner)} has no method {name}")
    return run(owner, *args, **named)


def describe(value: Any) -> str:
    """Return what a value is, for an error."""
    cls = script_class_of(value)
    return f"a {cls.short_name if cls else type(value).__name__}"


def run_annotate(node: ast.Call, frame: Frame) -> Any:
    """Return the value of `annotate(type, value)`, as a number where the type is one."""
    value = evaluate(node.args[1], frame)
    wanted = dotted_name(node.args[0])
    if isinstance(value, Tensor) and wanted in ("int", "float", "bool"):
        return {"int": int, "float": float, "bool": bool}[wanted](value)
    if wanted == "float" and type(value) is int:
        return float(value)
    return value


def run_isinstance(node: ast.Call, frame: Frame) -> bool:
    value, wanted = evaluate(node.args[0], frame), node.args[1]
    options = wanted.elts if isinstance(wanted, ast.Tuple | ast.List) else [wanted]
    return any(is_of_type(option, value) for option in options)


def is_of_type(option: ast.expr, value: Any) -> bool:
    name = dotted_name(option) or ""
    if name in ("list", "tuple"):
        return isinstance(value, list if name == "list" else tuple)
    if name.startswith("__torch__."):
        cls = script_class_of(value) or getattr(value, "script_class", None)
        return cls is not None and cls.name == name
    return matches(option, value)


def run_getattr(node: ast.Call, frame: Frame) -> Any:
    name = node.args[1]
    assert isinstance(name, ast.Constant)
    return get_attribute(evaluate(node.args[0], frame), str(name.value))


def make_range(*bounds: int) -> range:
    """Return `range(…)`, of ints only."""
    values = range(*(int(bound) for bound in bounds))
    check_size(len(values))
    return values


def as_int(value: Any, *base: int) -> int:
    return wrap_int(int(value, *base))


FORMS: dict[str, Callable[[ast.Call, Frame], Any]] = {
    "annotate": run_annotate,
    "unchecked_cast": lambda node, frame: evaluate(node.args[1], frame),
    "uninitialized": lambda node, frame: UNINITIALIZED,
    "isinstance": run_isinstance,
    "getattr": run_getattr,
}
"""Calls whose arguments are not all values."""

BUILTINS: dict[str, Callable[..., Any]] = {
    "int": as_int, "float": float, "bool": bool, "str": str, "complex": complex, "print": print,
    "range": make_range, "len": len, "min": minmax("min"), "max": minmax("max"), "abs": abs,
    "sum": over_lists("sum", sum), "any": over_lists("any", any), "all": over_lists("all", all),
    "round": round, "sorted": sorted, "enumerate": enumerate, "zip": zip, "list": list,
    "dict": dict, "tuple": tuple, "divmod": divmod, "ord": ord, "chr": chr,
    "pow": lambda a, b: a**b if isinstance(a, Tensor) else checked_binary(ast.Pow(), a, b),
    "rangelist": PRIM["rangelist"], "hasattr": lambda owner, name: has_attribute(owner, name),
}  # fmt: skip


def has_attribute(owner: Any, name: str) -> bool:
    cls = script_class_of(owner)
    return cls is not None and (name in cls.attributes or name in cls.constants)


BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.MatMult: operator.matmul, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}  # fmt: skip
IN_PLACE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.iadd, ast.Sub: operator.isub, ast.Mult: operator.imul,
    ast.Div: operator.itruediv, ast.FloorDiv: operator.ifloordiv, ast.Mod: operator.imod,
    ast.BitAnd: operator.iand, ast.BitOr: operator.ior, ast.BitXor: operator.ixor,
    ast.MatMult: operator.imatmul,
}  # fmt: skip
UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_,
    ast.Invert: operator.invert,
}  # fmt: skip
COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}  # fmt: skip

EXECUTE: dict[type, Callable[[Any, Frame], Signal | None]] = {
    ast.Assign: run_assign, ast.AnnAssign: run_typed_assign, ast.AugAssign: run_augmented,
    ast.Return: run_return, ast.If: run_if, ast.While: run_while, ast.For: run_for,
    ast.With: run_with, ast.Assert: run_assert, ast.Expr: run_expression,
    ast.Pass: lambda node, frame: None, ast.Break: lambda node, frame: BREAK,
    ast.Continue: lambda node, frame: CONTINUE,
}  # fmt: skip
EVALUATE: dict[type, Callable[[Any, Frame], Any]] = {
    ast.Constant: lambda node, frame: node.value, ast.Name: read_name,
    ast.Attribute: read_attribute, ast.Subscript: read_element, ast.Slice: make_slice,
    ast.Call: run_call, ast.BoolOp: run_boolean, ast.BinOp: run_binary, ast.UnaryOp: run_unary,
    ast.IfExp: run_choice, ast.Compare: run_comparison, ast.ListComp: make_comprehension,
    ast.Dict: make_dict,
    ast.List: lambda node, frame: [evaluate(item, frame) for item in node.elts],
    ast.Tuple: lambda node, frame: tuple([evaluate(item, frame) for item in node.elts]),
}  # fmt: skip
