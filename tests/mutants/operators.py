"""Mutation operators for Python source: small faults that are typical of this field."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SMALL = 1e-3
"""A number below it, in a formula, is there to keep a division from going wrong."""

TOKENS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
}


class Mutant(NamedTuple):
    """A fault: `new` instead of `old`, at these bytes of a file.

    `scope` is the function around it; "": the module.
    """

    path: Path
    operator: str
    line: int
    start: int
    end: int
    old: str
    new: str
    scope: str

    def plant(self, source: bytes) -> bytes:
        """Return the source with the fault in it."""
        return source[: self.start] + self.new.encode() + source[self.end :]


class Finder(ast.NodeVisitor):
    """Finds the places of one file where a fault can be planted."""

    def __init__(self, path: Path, source: bytes) -> None:
        self.path, self.source = path, source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.scopes: list[str] = []
        self.mutants: list[Mutant] = []

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self.lines[node.lineno - 1] + node.col_offset
        return start, self.lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def add(self, operator: str, start: int, end: int, new: str) -> None:
        line = self.source.count(b"\n", 0, start) + 1
        old = self.source[start:end].decode()
        if old != new:
            scope = ".".join(self.scopes)
            self.mutants.append(Mutant(self.path, operator, line, start, end, old, new, scope))

    def replace(self, operator: str, node: ast.expr | ast.stmt, new: str) -> None:
        self.add(operator, *self.span(node), new)

    def swap_token(
        self, operator: str, operator_type: type, left: ast.expr, right: ast.expr
    ) -> None:
        """Replace the token that stands between two operands."""
        if operator_type not in TOKENS:
            return
        old, new = TOKENS[operator_type]
        begin, end = self.span(left)[1], self.span(right)[0]
        at = self.source.find(old.encode(), begin, end)
        if at >= 0 and b"#" not in self.source[begin:end]:
            self.add(operator, at, at + len(old), new)

    # What is visited ----------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.scopes.append(node.name)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scopes.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave errors as they are: their texts have tests of their own."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave assertions: they are for the type checker."""

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in self.text(node.test):
            return
        if isinstance(node.body[0], ast.Raise | ast.Return | ast.Continue):
            self.replace("missing guard", node.test, "False")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Call):
            self.replace("dropped statement", node, "None")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        right = node.right
        is_epsilon = isinstance(right, ast.Name | ast.Attribute) and "eps" in self.text(right)
        if isinstance(node.op, ast.Add) and is_epsilon:
            self.replace("eps", node, self.text(node.left))
        elif not any(isinstance(side, ast.JoinedStr) for side in (node.left, right)):
            self.swap_token("sign", type(node.op), node.left, right)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self.replace("sign", node, self.text(node.operand))
        elif isinstance(node.op, ast.Not):
            self.replace("negation", node, f"({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            self.swap_token("comparison", type(node.ops[0]), node.left, node.comparators[0])
        for operand in (node.left, *node.comparators):
            self.number(operand)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for value in node.values:
            others = [self.text(other) for other in node.values if other is not value]
            joined = (" and " if isinstance(node.op, ast.And) else " or ").join(others)
            self.replace("missing condition", node, f"({joined})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.settings(node)
        function = node.func
        if isinstance(function, ast.Attribute):
            if function.attr in ("copy", "clone") and not node.args:
                self.replace("missing copy", node, self.text(function.value))
        elif isinstance(function, ast.Name) and function.id == "range":
            last = node.args[min(1, len(node.args) - 1)]
            self.replace("off by one", last, f"({self.text(last)}) - 1")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":
            self.visit(node.value)

    def settings(self, node: ast.Call) -> None:
        """Drop a keyword, or let it name another axis."""
        for keyword in node.keywords:
            if keyword.arg == "strict":  # of zip: it is there for the reader, and never fails
                continue
            if keyword.arg in ("axis", "dim"):
                value = self.text(keyword.value)
                if value.lstrip("-").isdigit():
                    self.replace("axis", keyword.value, "0" if value != "0" else "-1")
            elif keyword.arg is not None:
                start, end = self.span(keyword)
                after = self.source[end:].lstrip()[:1]
                if after == b",":
                    end = self.source.index(b",", end) + 1
                self.add("dropped setting", start, end, "")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.number(node.slice)
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper):
                if bound is not None:
                    self.number(bound)
        self.visit(node.value)
        self.visit(node.slice)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            old, new = TOKENS[type(node.op)]
            begin, end = self.span(node.target)[1], self.span(node.value)[0]
            at = self.source.find(f"{old}=".encode(), begin, end)
            self.add("sign", at, at + 2, f"{new}=")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.replace("flag", node, str(not node.value))
        elif isinstance(node.value, float) and 0 < node.value < SMALL:
            self.replace("eps", node, "0.0")

    def number(self, node: ast.expr) -> None:
        """Let a bound or an index be off by one."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            self.replace("off by one", node, str(node.value + 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave what is written for people."""


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield the faults that can be planted in a Python file."""
    source = path.read_bytes()
    finder = Finder(path, source)
    for statement in ast.parse(source).body:
        finder.visit(statement)
    yield from finder.mutants


def is_valid(mutant: Mutant) -> bool:
    """Whether what it makes of its file is Python."""
    try:
        compile(mutant.plant(mutant.path.read_bytes()), str(mutant.path), "exec")
    except SyntaxError:
        return False
    return True
