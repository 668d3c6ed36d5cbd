"""Translates a Python function of the subset into TorchScript, statement by statement.

What a name means is resolved while translating (`statics.py`), so the result holds only variables,
operators (`torch.relu`), attributes of `self`, and functions of the program (`__torch__.model.f`).
Everything else is refused with its file and line. `STATEMENTS` and `EXPRESSIONS` at the end list
what is understood.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .. import dtypes
from ..backends.device import Device
from ..core.tensor import Tensor
from ..errors import EdutorchError
from ..nn.modules.module import Module
from .calls import translate_call
from .comprehensions import Comprehensions, flat_targets, torch_call
from .dtype_numbers import DTYPE_NUMBERS
from .known_tests import known_answer
from .python_types import named_type
from .refusals import REFUSED, word_of
from .rewriting import as_list_comprehension
from .statics import AttributeOf, Static
from .type_expressions import parse_type

LOAD = ast.Load()


class Translator(Comprehensions):
    """Translates one function; see `Translation` for what it is given."""

    unrolling = 0

    def run(self) -> ast.FunctionDef:
        """Return the function as TorchScript.

        Raises: NotSupportedError: it is outside of the subset.
        """
        node = self.source.node
        arguments = self.translate_arguments(node.args)
        body = self.block(node.body)
        returns = self.returns(node.returns)
        result = ast.FunctionDef(node.name, arguments, body or [ast.Pass()], [], returns)
        return ast.fix_missing_locations(result)

    def translate_arguments(self, arguments: ast.arguments) -> ast.arguments:
        """Return the parameters with their types; without an annotation it is a tensor."""
        if arguments.vararg or arguments.kwarg:
            wrong = arguments.vararg or arguments.kwarg
            assert wrong is not None
            raise self.fail(
                wrong, "a function of TorchScript has a fixed number of arguments",
                "replace *args by a List, **kwargs by a Dict or by arguments with defaults",
            )  # fmt: skip
        if any(default is not None for default in arguments.kw_defaults):
            raise self.fail(
                arguments.kwonlyargs[0], "keyword-only arguments with defaults are not supported",
                "leave out the `*` before them",
            )  # fmt: skip
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        function = self.source.function
        translated = []
        for index, parameter in enumerate(parameters):
            is_self = index == 0 and self.module is not None
            hint = parameter.annotation
            annotation = None if is_self else self.type(hint) if hint else parse_type("Tensor")
            translated.append(ast.arg(parameter.arg, annotation))
        defaults = [
            self.constant(default, value)
            for default, value in zip(arguments.defaults, function.__defaults__ or (), strict=True)
        ]
        return ast.arguments([], translated, None, [], [], None, defaults)

    def returns(self, node: ast.expr | None) -> ast.expr | None:
        """Return the type of what is returned; `tuple[Tensor, ...]` is left to the reader."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            last = node.slice.elts[-1]
            if isinstance(last, ast.Constant) and last.value is Ellipsis:
                return None
        return None if node is None else self.type(node)

    # Types and constants ----------------------------------------------------------------------

    def type(self, node: ast.expr) -> ast.expr:
        """Return an annotation as a type of TorchScript."""
        text = named_type(self.annotation(node), self.compiler.class_name)
        if text is None:
            raise self.fail(
                node, f"{ast.unparse(node)} is not a type of TorchScript",
                "use Tensor, int, float, bool, str, List, Dict, Tuple, Optional or a NamedTuple",
            )  # fmt: skip
        return parse_type(text)

    def annotation(self, node: ast.expr) -> Any:
        """Return the object that an annotation stands for, without evaluating it."""
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                return self.annotation(ast.parse(node.value, mode="eval").body)
            return type(None) if node.value is None else node.value
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self.annotation(node.left) | self.annotation(node.right)
        if isinstance(node, ast.Subscript):
            origin = self.annotation(node.value)
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            parts = tuple(self.annotation(part) for part in inner)
            try:
                return origin[parts if len(parts) != 1 else parts[0]]
            except TypeError as error:
                raise self.fail(node, f"{ast.unparse(node)} is not a type") from error
        resolved = self.statics.find(node)
        if not isinstance(resolved, Static):
            raise self.fail(node, f"the type {ast.unparse(node)} is not known here")
        return resolved.value

    def constant(self, node: ast.AST, value: Any) -> ast.expr:
        """Return a value of Python as a constant of the program."""
        if isinstance(value, dtypes.dtype) and value in DTYPE_NUMBERS:
            return ast.Constant(DTYPE_NUMBERS[value])
        if isinstance(value, Device):
            name = ast.Attribute(ast.Name("torch", LOAD), "device", LOAD)
            return ast.Call(name, [ast.Constant(str(value))], [])
        if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
            name = ast.Name("nan" if value != value else "inf", LOAD)
            return ast.UnaryOp(ast.USub(), name) if value < 0 else name
        if isinstance(value, bool | int | float | str) or value is None:
            return ast.Constant(value)
        if isinstance(value, list | tuple):
            cls = ast.List if isinstance(value, list) else ast.Tuple
            return cls([self.constant(node, item) for item in value], LOAD)
        if isinstance(value, dict):
            parts = [
                [self.constant(node, item) for item in items] for items in (value, value.values())
            ]
            return ast.Dict(parts[0], parts[1])  # type: ignore[arg-type]
        if isinstance(value, Tensor):
            raise self.fail(
                node, "a tensor from outside of the function",
                "give it as an argument, or register it as a buffer of the module",
            )  # fmt: skip
        raise self.fail(
            node, f"a {type(value).__name__} from outside of the function is not a constant",
            "numbers, texts, dtypes, devices, and lists and tuples of these are",
        )  # fmt: skip

    # Statements -------------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return statements translated; docstrings are left out."""
        result: list[ast.stmt] = []
        for statement in statements:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue
            translate = STATEMENTS.get(type(statement))
            if translate is None:
                what, hint = REFUSED.get(type(statement), ("is not TorchScript", None))
                raise self.fail(statement, f"`{word_of(statement)}` {what}", hint)
            before, self.hoisted = self.hoisted, []
            translated = translate(self, statement)
            result += [*self.hoisted, *translated]
            self.hoisted = before
            if isinstance(statement, ast.Return):
                break
        return result

    def assign(self, node: ast.Assign) -> list[ast.stmt]:
        if len(node.targets) > 1:
            raise self.fail(node, "several assignments in one statement", "write one per line")
        target = self.target(node.targets[0])
        source = node.value
        if isinstance(target, ast.Tuple) and isinstance(source, ast.GeneratorExp):
            source = as_list_comprehension(source)
        value = self.expression(source)
        return [ast.copy_location(ast.Assign([target], value), node)]

    def target(self, node: ast.expr) -> ast.expr:
        """Return what is assigned to."""
        if isinstance(node, ast.Name):
            self.statics.known.pop(node.id, None)
            if node.id in ("torch", "ops", "__torch__", "CONSTANTS", "inf", "nan"):
                raise self.fail(node, f"a variable cannot be called {node.id} in TorchScript")
            return ast.Name(node.id, ast.Store())
        if isinstance(node, ast.Tuple | ast.List):
            return ast.Tuple([self.target(part) for part in node.elts], ast.Store())
        if isinstance(node, ast.Subscript):
            value = self.expression(node.value)
            return ast.Subscript(value, self.expression(node.slice), ast.Store())
        if isinstance(node, ast.Attribute):
            resolved = self.statics.find(node)
            if isinstance(resolved, AttributeOf):
                self.compiler.use_attribute(resolved, self, node)
                return ast.Attribute(resolved.node.value, node.attr, ast.Store())  # type: ignore[attr-defined]
            raise self.fail(
                node, "an attribute that the module does not have yet",
                "set it in __init__: a program cannot add attributes",
            )  # fmt: skip
        raise self.fail(node, "this cannot be assigned to")

    def typed_assign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        annotation = self.type(node.annotation)
        if node.value is None:
            return []
        value = ast.Call(ast.Name("annotate", LOAD), [annotation, self.expression(node.value)], [])
        return [ast.copy_location(ast.Assign([self.target(node.target)], value), node)]

    def augmented(self, node: ast.AugAssign) -> list[ast.stmt]:
        target, value = self.target(node.target), self.expression(node.value)
        if isinstance(node.op, ast.Pow | ast.LShift | ast.RShift):
            raise self.fail(node, "this operator in place", "write x = x ** y")
        return [ast.copy_location(ast.AugAssign(target, node.op, value), node)]  # type: ignore[arg-type]

    def if_(self, node: ast.If) -> list[ast.stmt]:
        """Translate `if`; where the answer is known, only the branch that is taken."""
        known = self.truth(node.test)
        if known is not None:
            return self.block(node.body if known else node.orelse)
        test = self.expression(node.test)
        before = dict(self.statics.known)
        body = self.block(node.body) or [ast.Pass()]
        self.statics.known = dict(before)
        orelse = self.block(node.orelse)
        self.statics.known = {k: v for k, v in before.items() if k in self.statics.known}
        return [ast.copy_location(ast.If(test, body, orelse), node)]

    def for_(self, node: ast.For) -> list[ast.stmt]:
        if node.orelse:
            raise self.fail(node, "`else` behind a loop is not supported", "use a flag")
        rounds = self.statics.members(node.iter)
        if rounds is not None:
            return self.unroll(node, rounds)
        values = self.expression(node.iter)
        return [
            ast.copy_location(ast.For(self.target(node.target), values, self.loop(node), []), node)
        ]

    def loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        """Return the body of a loop that is not unrolled."""
        before, self.unrolling = self.unrolling, 0
        body = self.block(node.body) or [ast.Pass()]
        self.unrolling = before
        return body

    def unroll(self, node: ast.For, rounds: list[tuple[Static, ...]]) -> list[ast.stmt]:
        """Return the body once per module of a loop over modules."""
        result: list[ast.stmt] = []
        targets = flat_targets(node.target)
        self.unrolling += 1
        for statics in rounds:
            if len(targets) != len(statics):
                raise self.fail(node, f"{len(statics)} values for {len(targets)} variables")
            for target, static in zip(targets, statics, strict=True):
                if not isinstance(target, ast.Name):
                    raise self.fail(target, "a loop over modules needs plain variables")
                self.statics.known[target.id] = static
            result += self.block(node.body)
        self.unrolling -= 1
        return result

    def while_(self, node: ast.While) -> list[ast.stmt]:
        if node.orelse:
            raise self.fail(node, "`else` behind a loop is not supported", "use a flag")
        return [ast.copy_location(ast.While(self.expression(node.test), self.loop(node), []), node)]

    def leave_loop(self, node: ast.Break | ast.Continue) -> list[ast.stmt]:
        if self.unrolling:
            raise self.fail(
                node, "a loop over modules is unrolled, and cannot be left early",
                "put the rest of the body under an `if`",
            )  # fmt: skip
        return [node]

    def return_(self, node: ast.Return) -> list[ast.stmt]:
        value = None if node.value is None else self.expression(node.value)
        return [ast.copy_location(ast.Return(value), node)]

    def raise_(self, node: ast.Raise) -> list[ast.stmt]:
        """Translate `raise ValueError("…")`; of an error of ours, the op and the message."""
        error, args = node.exc, []
        if isinstance(error, ast.Call):
            error, args = error.func, error.args
        resolved = None if error is None else self.statics.find(error)
        cls = resolved.value if isinstance(resolved, Static) else None
        is_class = isinstance(cls, type) and issubclass(cls, Exception)
        is_ours = is_class and issubclass(cls, EdutorchError) and len(args) > 1
        if not is_class or (len(args) > 1 and not is_ours):
            raise self.fail(node, "`raise` needs an exception's class and one text")
        texts = [self.expression(part) for part in args[: 2 if is_ours else 1]]
        text = torch_call("format", [ast.Constant("{}: {}"), *texts]) if is_ours else None
        if is_ours:  # a reader elsewhere has only Python's own classes
            cls = next(base for base in cls.__mro__ if base.__module__ == "builtins")
        name = ast.Constant(f"{cls.__module__}.{cls.__qualname__}")
        call = prim_call("RaiseException", [text or (texts or [ast.Constant("")])[0], name])
        # The compiler of PyTorch does not know that the call never returns.
        end = ast.Assert(ast.Constant(False), ast.Constant(""))
        return [ast.copy_location(ast.Expr(call), node), ast.copy_location(end, node)]

    def assert_(self, node: ast.Assert) -> list[ast.stmt]:
        if self.truth(node.test) is True:
            return []
        text = None if node.msg is None else self.expression(node.msg)
        return [ast.copy_location(ast.Assert(self.expression(node.test), text), node)]

    def with_(self, node: ast.With) -> list[ast.stmt]:
        """Translate `with torch.no_grad():`."""
        call = node.items[0].context_expr
        resolved = self.statics.find(call.func) if isinstance(call, ast.Call) else None
        name = getattr(resolved.value, "__name__", "") if isinstance(resolved, Static) else ""
        if len(node.items) > 1 or name not in ("no_grad", "enable_grad") or call.args:  # type: ignore[attr-defined]
            raise self.fail(
                node, "only `with torch.no_grad():` and `enable_grad` are supported",
                "switch other modes outside of the scripted function",
            )  # fmt: skip
        context = ast.Call(self.compiler.grad_mode(name), [], [])
        return [ast.copy_location(ast.With([ast.withitem(context)], self.block(node.body)), node)]

    def expression_statement(self, node: ast.Expr) -> list[ast.stmt]:
        return [ast.copy_location(ast.Expr(self.expression(node.value)), node)]

    # Expressions ------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> ast.expr:
        """Return an expression translated."""
        resolved = self.statics.find(node)
        if resolved is not None:
            return ast.copy_location(self.known(node, resolved), node)
        translate = EXPRESSIONS.get(type(node))
        if translate is None:
            what, hint = REFUSED.get(type(node), ("is not TorchScript", None))
            raise self.fail(node, f"`{word_of(node)}` {what}", hint)
        return ast.copy_location(translate(self, node), node)

    def known(self, node: ast.expr, resolved: Static | AttributeOf) -> ast.expr:
        """Return the expression of a value that is known, or of an attribute of a module."""
        if isinstance(resolved, AttributeOf):
            self.compiler.use_attribute(resolved, self, node)
            return resolved.node
        if isinstance(resolved.value, Module):
            if resolved.node is not None:
                return resolved.node
            raise self.fail(node, "a module from outside of the function", "make it a submodule")
        if callable(resolved.value) and not isinstance(resolved.value, dtypes.dtype):
            raise self.fail(node, "a function or class as a value", "call it where it is named")
        return self.constant(node, resolved.value)

    def truth(self, node: ast.expr) -> bool | None:
        """Return the answer of a test that is known before the function runs, or None."""
        return known_answer(self.statics, node)

    def attribute(self, node: ast.Attribute) -> ast.expr:
        """Translate `x.shape`, or the field of a named tuple."""
        if node.attr.startswith("__"):
            raise self.fail(node, "names with two underscores are not TorchScript")
        owner = self.statics.find(node.value)
        if isinstance(owner, Static) and isinstance(owner.value, Module):
            raise self.fail(
                node, f"{type(owner.value).__name__} has no attribute {node.attr} that a program "
                "can read", "a property is not supported: call a method",
            )  # fmt: skip
        if owner is not None and isinstance(owner, Static):
            raise self.fail(node, f"{ast.unparse(node)} does not exist")
        return ast.Attribute(self.expression(node.value), node.attr, LOAD)

    def subscript(self, node: ast.Subscript) -> ast.expr:
        return ast.Subscript(self.expression(node.value), self.expression(node.slice), LOAD)

    def slice(self, node: ast.Slice) -> ast.expr:
        parts = [
            None if part is None else self.expression(part)
            for part in (node.lower, node.upper, node.step)
        ]
        return ast.Slice(*parts)

    def format(self, node: ast.JoinedStr) -> ast.expr:
        """Translate an f-string: `torch.format("{} of {}", a, b)`."""
        text, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
                continue
            assert isinstance(part, ast.FormattedValue)
            if part.conversion != -1 or part.format_spec is not None:
                raise self.fail(
                    node, "an f-string with a format", "leave out what follows `:` or `!`"
                )
            text += "{}"
            values.append(self.expression(part.value))
        return torch_call("format", [ast.Constant(text), *values]) if values else ast.Constant(text)

    def choice(self, node: ast.IfExp) -> ast.expr:
        known = self.truth(node.test)
        if known is not None:
            return self.expression(node.body if known else node.orelse)
        test = self.expression(node.test)
        return ast.IfExp(test, self.maybe(node.body), self.maybe(node.orelse))

    def bool_op(self, node: ast.BoolOp) -> ast.expr:
        first, *others = node.values
        values = [self.expression(first), *(self.maybe(part) for part in others)]
        return ast.BoolOp(node.op, values)

    def constant_node(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, bytes | complex):
            raise self.fail(node, f"a constant of type {type(node.value).__name__}")
        return node if node.value is Ellipsis else self.constant(node, node.value)

    def name(self, node: ast.Name) -> ast.expr:
        if node.id in self.statics.locals:
            return ast.Name(node.id, LOAD)
        raise self.fail(node, f"the name {node.id} is not defined")

    def children(self, node: ast.expr) -> ast.expr:
        """Translate an expression whose parts are all expressions."""
        fields = {}
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                value = self.expression(value)
            elif isinstance(value, list):
                value = [self.expression(v) if isinstance(v, ast.expr) else v for v in value]
            fields[name] = value
        return type(node)(**fields)

    def dict(self, node: ast.Dict) -> ast.expr:
        if None in node.keys:
            raise self.fail(node, "`**` in a dict is not supported", "use update")
        return self.children(node)


def prim_call(name: str, args: list[ast.expr]) -> ast.Call:
    """Return `ops.prim.name(args)`."""
    space = ast.Attribute(ast.Name("ops", LOAD), "prim", LOAD)
    return ast.Call(ast.Attribute(space, name, LOAD), args, [])


Translate = Callable[[Translator, Any], Any]
STATEMENTS: dict[type, Translate] = {
    ast.Assign: Translator.assign, ast.AnnAssign: Translator.typed_assign,
    ast.AugAssign: Translator.augmented, ast.If: Translator.if_, ast.For: Translator.for_,
    ast.While: Translator.while_, ast.Return: Translator.return_, ast.Raise: Translator.raise_,
    ast.Assert: Translator.assert_, ast.With: Translator.with_,
    ast.Expr: Translator.expression_statement, ast.Pass: lambda self, node: [],
    ast.Break: Translator.leave_loop, ast.Continue: Translator.leave_loop,
}  # fmt: skip
EXPRESSIONS: dict[type, Translate] = {
    ast.Constant: Translator.constant_node, ast.Name: Translator.name,
    ast.Attribute: Translator.attribute, ast.Subscript: Translator.subscript,
    ast.Slice: Translator.slice, ast.JoinedStr: Translator.format, ast.IfExp: Translator.choice,
    ast.ListComp: Translator.comprehension, ast.Call: translate_call, ast.Dict: Translator.dict,
    ast.BinOp: Translator.children, ast.BoolOp: Translator.bool_op,
    ast.UnaryOp: Translator.children, ast.Compare: Translator.children,
    ast.List: Translator.children, ast.Tuple: Translator.children,
}  # fmt: skip
