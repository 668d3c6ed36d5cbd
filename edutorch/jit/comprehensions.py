"""Translates list comprehensions; the parser of PyTorch knows only plain ones."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .rewriting import Replace, parts_of
from .statics import Static
from .translation import Translation

LOAD = ast.Load()


class Comprehensions(Translation):
    """The part of the translation that has to do with comprehensions.

    `hoisted` holds statements that have to run before the one being translated; `conditional` says
    how deep an expression is in parts that may not run, as `b` in `a and b`.
    """

    hoisted: Sequence[ast.stmt] = ()
    conditional = 0

    def target(self, node: ast.expr) -> ast.expr:
        """Return what is assigned to."""
        raise NotImplementedError

    def maybe(self, node: ast.expr) -> ast.expr:
        """Return an expression that may not run."""
        self.conditional += 1
        result = self.expression(node)
        self.conditional -= 1
        return result

    def comprehension(self, node: ast.ListComp) -> ast.expr:
        """Translate `[f(x) for x in values]`; over modules, once for each."""
        loop = node.generators[0]
        if len(node.generators) > 1 or loop.is_async:
            raise self.fail(node, "a comprehension with several loops", "write a loop")
        rounds = self.statics.members(loop.iter)
        if rounds is not None and not loop.ifs:
            return ast.List([self.one_round(node, loop.target, part) for part in rounds], LOAD)
        values = self.expression(loop.iter)
        target = self.target(loop.target)
        tests = [self.maybe(test) for test in loop.ifs]
        element = self.maybe(node.elt)
        if not isinstance(target, ast.Name):
            name = ast.Name(self.free_name("item"), LOAD)
            parts = parts_of(target, name)
            element, *tests = (Replace(parts).visit(part) for part in (element, *tests))
            target = ast.Name(name.id, ast.Store())
        if tests and not self.conditional:
            return self.filtered(element, target, values, tests)
        return ast.ListComp(element, [ast.comprehension(target, values, tests, 0)])

    def filtered(
        self, element: ast.expr, target: ast.Name, values: ast.expr, tests: list[ast.expr]
    ) -> ast.expr:
        """Write a comprehension with `if` as a loop before the statement.

        The parser of PyTorch has no `if` there. A comprehension over nothing gives the empty list
        its type.
        """
        name = self.free_name("kept")
        values, nothing = self.looped(values)
        empty = ast.ListComp(element, [ast.comprehension(target, nothing, [], 0)])
        add = ast.Expr(torch_call("append", [ast.Name(name, LOAD), element]))
        test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
        self.hoisted = [
            *self.hoisted,
            ast.Assign([ast.Name(name, ast.Store())], empty),
            ast.For(target, values, [ast.If(test, [add], [])], []),
        ]
        return ast.Name(name, LOAD)

    def looped(self, values: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return what a loop runs over, evaluated once, and the same without its items."""
        function = values.func if isinstance(values, ast.Call) else None
        if isinstance(values, ast.Call) and isinstance(function, ast.Name):
            if function.id == "range":
                return values, ast.Call(function, [ast.Constant(0)], [])
            if function.id in ("zip", "enumerate"):
                pairs = [self.looped(part) for part in values.args]
                full, nothing = ([pair[index] for pair in pairs] for index in (0, 1))
                return ast.Call(function, full, []), ast.Call(function, nothing, [])
        name = self.free_name("values")
        self.hoisted = [*self.hoisted, ast.Assign([ast.Name(name, ast.Store())], values)]
        variable = ast.Name(name, LOAD)
        return variable, ast.Subscript(variable, ast.Slice(None, ast.Constant(0)), LOAD)

    def free_name(self, name: str) -> str:
        """Return the name of a new variable."""
        count = 0
        while f"_{name}{count}" in self.statics.locals:
            count += 1
        self.statics.locals.add(f"_{name}{count}")
        return f"_{name}{count}"

    def one_round(
        self, node: ast.ListComp, target: ast.expr, statics: tuple[Static, ...]
    ) -> ast.expr:
        for part, static in zip(flat_targets(target), statics, strict=True):
            self.statics.known[part.id] = static  # type: ignore[attr-defined]
        return self.expression(node.elt)


def flat_targets(node: ast.expr) -> list[ast.expr]:
    """Return the variables of `for i, (a, b) in …` in order."""
    if isinstance(node, ast.Tuple | ast.List):
        return [part for item in node.elts for part in flat_targets(item)]
    return [node]


def torch_call(name: str, args: list[ast.expr], keywords: Sequence[ast.keyword] = ()) -> ast.Call:
    """Return `torch.name(args)`."""
    return ast.Call(ast.Attribute(ast.Name("torch", LOAD), name, LOAD), args, list(keywords))
