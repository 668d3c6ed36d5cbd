"""Checks a program before anything of it runs, and resolves its names.

Every node must be one of `ALLOWED`; every name must be a variable, an operator of `operators.py`, a
function or class of the program, or a constant. So code that imports, opens, evaluates, or reaches
for `__class__` is refused when the file is loaded. TorchScript has no recursion: a function that
calls itself is refused as well.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .errors import ArchiveError
from .operators import find_operator
from .program import SPECIAL_NUMBERS, Function, Program, ScriptClass, problem
from .type_expressions import dotted_name, type_problem

ALLOWED = (
    ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For,
    ast.While, ast.If, ast.With, ast.withitem, ast.Assert, ast.Expr, ast.Pass, ast.Break,
    ast.Continue, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call,
    ast.Constant, ast.Attribute, ast.Subscript, ast.Name, ast.List, ast.Tuple, ast.Dict, ast.Slice,
    ast.ListComp, ast.comprehension, ast.expr_context, ast.boolop, ast.operator, ast.unaryop,
    ast.cmpop, ast.keyword,
)  # fmt: skip
"""The parts of Python that a program may consist of."""

BUILTINS = frozenset(
    """
    annotate unchecked_cast uninitialized isinstance getattr hasattr int float bool str complex
    print range len min max abs sum any all round sorted enumerate zip list dict tuple pow divmod
    ord chr rangelist
    """.split()
)
"""The names without a dot that a program may call."""

TYPE_FORMS = ("annotate", "unchecked_cast", "uninitialized", "isinstance")
"""Calls one of whose arguments is a type."""

RESERVED = ("torch", "ops", "__torch__", "CONSTANTS")
CONSTRUCTORS = ("__new__", "__init__")


class Resolver:
    """Checks and resolves one function.

    Args:
        program: all of the program, for the names of its functions and classes.
        function: the function.
    """

    def __init__(self, program: Program, function: Function) -> None:
        self.program, self.function = program, function
        self.types: dict[str, ScriptClass] = {}
        self.variables = {parameter.arg for parameter in function.parameters()} | {
            part.id
            for part in ast.walk(function.node)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        self.calls: set[str] = set()
        """The functions that it calls, as far as that is known before it runs."""

    def fail(self, node: ast.AST, what: str) -> ArchiveError:
        """Return the error for a place in this function."""
        return problem(self.function.file, node, what)

    def run(self) -> set[str]:
        """Check all of the function, and return the full names of the functions that it calls.

        Raises: ArchiveError: it is more than a program on data.
        """
        node = self.function.node
        arguments = node.args
        if node.decorator_list or arguments.vararg or arguments.kwarg or arguments.posonlyargs:
            raise self.fail(node, "decorators, *args and **kwargs are not supported")
        for parameter in arguments.args:
            self.check_variable(parameter, parameter.arg)
            self.check_type(parameter.annotation)
        self.check_type(node.returns)
        if self.function.owner is not None and arguments.args:
            self.types[arguments.args[0].arg] = self.function.owner
        for default in arguments.defaults:
            self.visit(default)
        for statement in node.body:
            self.visit(statement)
        return self.calls

    def check_type(self, node: ast.expr | None) -> None:
        """Raise ArchiveError if a type is none."""
        wrong = type_problem(node)
        if wrong and node is not None:
            raise self.fail(node, wrong)

    def check_variable(self, node: ast.AST, name: str) -> None:
        """Raise ArchiveError for the name of a variable that means something else."""
        if name in RESERVED or (name.startswith("__") and name.endswith("__")):
            raise self.fail(node, f"{name} is not the name of a variable")

    # Nodes ----------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        """Check a node and those in it."""
        if not isinstance(node, ALLOWED):
            raise self.fail(node, f"{type(node).__name__} is not TorchScript")
        if isinstance(node, ast.Attribute):
            self.visit_attribute(node)
        elif isinstance(node, ast.Call):
            self.visit_call(node)
        elif isinstance(node, ast.Name):
            self.visit_name(node)
        elif isinstance(node, ast.AnnAssign):
            self.check_type(node.annotation)
            self.visit(node.target)
            if node.value is not None:
                self.visit(node.value)
        else:
            self.track_type(node)
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    def visit_name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.check_variable(node, node.id)
        elif node.id in SPECIAL_NUMBERS:
            self.function.resolved[node] = SPECIAL_NUMBERS[node.id]
        elif node.id not in self.variables:
            raise self.fail(node, f"{node.id} is not a variable of the function")

    def visit_attribute(self, node: ast.Attribute) -> None:
        """Resolve `__torch__.a.f` and `CONSTANTS.c0`; refuse names with two underscores."""
        name = dotted_name(node) or ""
        root = name.partition(".")[0]
        if root in RESERVED:
            value = self.resolve(node, name)
            self.function.resolved[node] = value
            if isinstance(value, Function):
                self.calls.add(value.name)
            return
        if node.attr.startswith("__"):
            raise self.fail(node, f"{node.attr} cannot be reached from a program")
        self.visit(node.value)

    def resolve(self, node: ast.AST, name: str) -> Any:
        """Return what a name with a reserved beginning stands for."""
        root, _, rest = name.partition(".")
        if root == "CONSTANTS":
            index = rest.removeprefix("c")
            if index.isdecimal() and int(index) < len(self.program.constants):
                return self.program.constants[int(index)]
            raise self.fail(node, f"there is no constant {rest}")
        if root == "__torch__":
            value = self.program.functions.get(name) or self.program.classes.get(name)
            if value is None:
                raise self.fail(node, f"{name} is not in the archive")
            return value
        operator = find_operator(name)
        if operator is None and self.function.file.startswith(LIBRARY):
            return missing_operator(name)
        if operator is None:
            raise self.fail(node, f"{name} is not an operator that a program may call here")
        return operator

    def visit_call(self, node: ast.Call) -> None:
        """Check a call: of an operator, a builtin, a function, a method, or a class."""
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.fail(node, "**kwargs is not TorchScript")
            self.visit(keyword.value)
        target = node.func
        arguments = list(node.args)
        if isinstance(target, ast.Name):
            if target.id in TYPE_FORMS:
                self.visit_type_form(node, target.id)
                return
            if target.id not in BUILTINS and target.id not in self.variables:
                raise self.fail(node, f"{target.id} is not a function of TorchScript")
            if target.id == "getattr":
                self.check_getattr(node)
        elif isinstance(target, ast.Attribute):
            self.visit_target(node, target)
        else:
            raise self.fail(node, "a call of something without a name")
        for argument in arguments:
            self.visit(argument)

    def visit_target(self, node: ast.Call, target: ast.Attribute) -> None:
        """Check what is called by a name with a dot."""
        name = dotted_name(target) or ""
        if target.attr == "__new__":
            cls = self.program.classes.get(name.removesuffix(".__new__"))
            if cls is None or len(node.args) != 1 or node.keywords:
                raise self.fail(node, f"{name} does not make an object of this program")
            self.function.resolved[target] = cls
            return
        if name.partition(".")[0] in RESERVED:
            self.visit_attribute(target)
            return
        receiver = self.type_of(target.value)
        if receiver is not None:
            method = receiver.methods.get(target.attr)
            if method is not None:
                self.calls.add(method.name)
            elif receiver.base != "NamedTuple" and target.attr not in receiver.attributes:
                raise self.fail(node, f"{receiver.name} has no method {target.attr}")
        elif target.attr.startswith("__") and target.attr not in CONSTRUCTORS + SCOPES:
            raise self.fail(node, f"{target.attr} cannot be called from a program")
        self.visit(target.value)

    def visit_type_form(self, node: ast.Call, name: str) -> None:
        """Check `annotate(type, value)`, `isinstance(value, type)` and their kin."""
        count = 1 if name == "uninitialized" else 2
        if len(node.args) != count or node.keywords:
            raise self.fail(node, f"{name} takes {count} arguments")
        types, values = node.args[:1], node.args[1:]
        if name == "isinstance":
            values, types = types, values
        for part in types:
            options = part.elts if isinstance(part, ast.Tuple | ast.List) else [part]
            for option in options:
                if dotted_name(option) not in ("list", "tuple"):
                    self.check_type(option)
        for value in values:
            self.visit(value)

    def check_getattr(self, node: ast.Call) -> None:
        """Raise ArchiveError unless it is `getattr(value, "name")` of a plain name."""
        name = node.args[1] if len(node.args) == 2 else None
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            raise self.fail(node, "getattr needs a value and a name")
        if name.value.startswith("__"):
            raise self.fail(node, f"{name.value[:40]} cannot be reached from a program")

    # Types of variables ------------------------------------------------------------------------

    def track_type(self, node: ast.AST) -> None:
        """Remember which class of the program a variable is of."""
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                cls = self.type_of(node.value)
                if cls is None:
                    self.types.pop(target.id, None)
                else:
                    self.types[target.id] = cls

    def type_of(self, node: ast.expr) -> ScriptClass | None:
        """Return the class of the program that a value is of, where that is known."""
        if isinstance(node, ast.Name):
            return self.types.get(node.id)
        name = None
        if isinstance(node, ast.Attribute):
            owner, name = self.type_of(node.value), node.attr
        elif (
            isinstance(node, ast.Call)
            and dotted_name(node.func) == "getattr"
            and len(node.args) == 2
        ):
            owner, key = self.type_of(node.args[0]), node.args[1]
            name = key.value if isinstance(key, ast.Constant) else None
        else:
            return None
        annotation = None if owner is None else owner.attributes.get(str(name))
        return self.program.classes.get(dotted_name(annotation) or "") if annotation else None


SCOPES = ("__enter__", "__exit__")
LIBRARY = "__torch__/torch/"
"""The folder of PyTorch's own functions, whose branches name ops that most programs never reach."""


def missing_operator(name: str) -> Callable[..., Any]:
    """Return what is called in place of an operator that does not exist here: an error."""

    def refuse(*args: Any, **named: Any) -> Any:
        raise ArchiveError("jit", f"{name} is not an operator that a program may call here")

    return refuse


def resolve_program(program: Program) -> None:
    """Check and resolve every function of a program.

    Raises: ArchiveError: the program is more than ops on its own data, or recursive.
    """
    graph: dict[str, set[str]] = {}
    for cls in program.classes.values():
        for name, annotation in cls.attributes.items():
            if wrong := type_problem(annotation):
                raise ArchiveError("jit.load", f"{cls.name}.{name}: {wrong}")
    try:
        for function in program.all_functions():
            function.resolved.clear()
            function.program = program
            graph[function.name] = Resolver(program, function).run()
    except RecursionError as error:
        raise ArchiveError("jit.load", "an expression is nested too deeply") from error
    refuse_recursion(program, graph)


def refuse_recursion(program: Program, graph: dict[str, set[str]]) -> None:
    """Raise ArchiveError if a function calls itself, directly or through others."""
    done: set[str] = set()
    for start in graph:
        # Depth first, with a stack of our own: a file may chain thousands of functions.
        stack, path = [(start, iter(sorted(graph[start])))], [start]
        while stack and start not in done:
            target = next(stack[-1][1], None)
            if target is None:
                stack.pop()
                done.add(path.pop())
            elif target in path:
                function = next(f for f in program.all_functions() if f.name == target)
                text = f"{target} calls itself; TorchScript has no recursion"
                raise problem(function.file, function.node, text)
            elif target not in done and target in graph:
                stack.append((target, iter(sorted(graph[target]))))
                path.append(target)
