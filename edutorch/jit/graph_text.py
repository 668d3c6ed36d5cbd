"""A function of a program as a list of operations: what `.graph` and `.inlined_graph` show.

    graph(%self, %x : Tensor):
      %0 = prim::GetAttr[name="conv"](%self)
      %1 = prim::CallMethod[name="forward"](%0, %x)  # __torch__/model.py:7
      %2 = aten::relu(%1)
      return (%2)

It is made to be read: the interpreter runs the `ast` itself.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .program import Function, ScriptClass
from .type_expressions import dotted_name

MAX_INLINED = 30


@dataclass
class Block:
    """The operations inside of an `if` or a loop.

    Args:
        nodes: the operations.
        inputs: the names of the values that a loop hands from round to round.
        outputs: the names of the values that leave the block.
    """

    nodes: list[GraphNode]
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


@dataclass
class GraphNode:
    """One operation.

    Args:
        operation: its name, "aten::relu".
        inputs, outputs: the names of the values that it takes and makes.
        place: where it stands, "file:line".
        blocks: of an `if` or a loop.
    """

    operation: str
    inputs: list[str]
    outputs: list[str]
    place: str = ""
    blocks: list[Block] = field(default_factory=list)

    def short_name(self) -> str:
        """Return the name of the operation, without attributes: "prim::GetAttr"."""
        return self.operation.partition("[")[0]

    def lines(self, depth: int) -> Iterator[str]:
        """Yield the node as text."""
        left = f"{', '.join(self.outputs)} = " if self.outputs else ""
        place = f"  # {self.place}" if self.place else ""
        yield f"{'  ' * depth}{left}{self.operation}({', '.join(self.inputs)}){place}"
        for number, block in enumerate(self.blocks):
            yield f"{'  ' * (depth + 1)}block{number}({', '.join(block.inputs)}):"
            for node in block.nodes:
                yield from node.lines(depth + 2)
            if block.outputs:
                yield f"{'  ' * (depth + 2)}-> ({', '.join(block.outputs)})"


@dataclass
class Value:
    """A value while the graph is made: its name, and the class of a module."""

    name: str
    cls: ScriptClass | None = None


class Graph:
    """The operations of a function.

    Args:
        function: the function.
        inlined: whether functions and methods of the program are replaced by what they do.
    """

    def __init__(self, function: Function, inlined: bool = False) -> None:
        self.function, self.inlined = function, inlined
        self.count, self.depth = 0, 0
        self.current: list[GraphNode] = []
        self.all = self.current
        parameters = function.parameters()
        self.inputs = [
            f"%{part.arg}" + (f" : {ast.unparse(part.annotation)}" if part.annotation else "")
            for part in parameters
        ]
        names = {part.arg: Value(f"%{part.arg}") for part in parameters}
        if function.owner is not None and parameters:
            names[parameters[0].arg].cls = function.owner
        self.result = self.block(function, names)

    def nodes(self) -> list[GraphNode]:
        """Return the operations in order; those of branches and loops are in their blocks."""
        return self.all

    def __str__(self) -> str:
        lines = [f"graph({', '.join(self.inputs)}):"]
        for node in self.all:
            lines += node.lines(1)
        return "\n".join([*lines, f"  return ({self.result.name})"]) + "\n"

    __repr__ = __str__

    # Making it ----------------------------------------------------------------------------------

    def add(self, operation: str, inputs: list[Value], place: str = "") -> Value:
        """Add an operation, and return its value."""
        value = Value(f"%{self.count}")
        self.count += 1
        node = GraphNode(operation, [item.name for item in inputs], [value.name], place)
        self.current.append(node)
        return value

    def block(self, function: Function, names: dict[str, Value]) -> Value:
        """Add the statements of a function, and return what it returns."""
        before = getattr(self, "scope", None)
        self.scope: tuple[Function, dict[str, Value]] = (function, names)
        self.returned: Value | None = None
        self.statements(function.node.body)
        result = self.returned or Value("")
        self.returned = None
        if before is not None:
            self.scope = before
        return result

    def statements(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """Add one statement."""
        if isinstance(node, ast.Assign):
            self.assign(node.targets[0], self.value(node.value))
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, self.value(node.value))
        elif isinstance(node, ast.AugAssign):
            operation = f"aten::{OPERATIONS[type(node.op)]}_"
            value = self.add(operation, [self.value(node.target), self.value(node.value)])
            self.assign(node.target, value)
        elif isinstance(node, ast.Expr):
            self.value(node.value)
        elif isinstance(node, ast.Return):
            value = Value("") if node.value is None else self.value(node.value)
            if self.current is self.all or self.depth:
                self.returned = value
            else:
                self.add("prim::Return", [value])
        elif isinstance(node, ast.If):
            self.nested("prim::If", [self.value(node.test)], [node.body, node.orelse])
        elif isinstance(node, ast.While):
            self.loop("prim::While", None, node.body, node.test)
        elif isinstance(node, ast.For):
            self.loop("prim::Loop", node.iter, node.body, node.target)
        elif isinstance(node, ast.With):
            context = self.value(node.items[0].context_expr)
            self.nested("prim::With", [context], [node.body])
        elif isinstance(node, ast.Assert):
            self.add("prim::Assert", [self.value(node.test)])
        elif isinstance(node, ast.Break | ast.Continue):
            self.add(f"prim::{type(node).__name__}", [])

    def nested(self, operation: str, inputs: list[Value], bodies: list[list[ast.stmt]]) -> None:
        """Add a statement with blocks; what they assign leaves them as outputs of the node."""
        node = GraphNode(operation, [value.name for value in inputs], [])
        self.current.append(node)
        function, before = self.scope
        ends = []
        for body in bodies:
            self.scope = (function, dict(before))
            node.blocks.append(Block(self.inside(lambda body=body: self.statements(body))))  # type: ignore[misc]
            ends.append(self.scope[1])
        self.scope = (function, before)
        for name in dict.fromkeys(name for end in ends for name in end):
            values = [end.get(name, Value("%uninitialized")) for end in ends]
            if any(value is not before.get(name) for value in values):
                before[name] = self.output(node, [value.name for value in values])

    def loop(
        self, operation: str, values: ast.expr | None, body: list[ast.stmt], head: ast.expr
    ) -> None:
        """Add a loop: what it assigns is handed from round to round."""
        inputs = [] if values is None else [self.value(values)]
        function, before = self.scope
        stored = {part.id for item in body for part in ast.walk(item)
                  if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}  # fmt: skip
        carried = [name for name in before if name in stored]
        node = GraphNode(operation, [value.name for value in inputs], [])
        node.inputs += [before[name].name for name in carried]
        self.current.append(node)
        rounds = {name: Value(f"%{name}.{self.count}") for name in carried}
        self.scope = (function, before | rounds)
        block = Block([], [rounds[name].name for name in carried])
        node.blocks.append(block)

        def run() -> None:
            if values is None:
                self.add("prim::While_test", [self.value(head)])
            else:
                item = Value(f"%item.{self.count}")
                block.inputs.insert(0, item.name)
                self.assign(head, item)
            self.statements(body)

        block.nodes = self.inside(run)
        ends = self.scope[1]
        self.scope = (function, before)
        for name in carried:
            before[name] = self.output(node, [ends[name].name])

    def inside(self, run: Callable[[], Any]) -> list[GraphNode]:
        """Return the operations that a function adds, as a block of their own."""
        outer, self.current = self.current, []
        run()
        nodes, self.current = self.current, outer
        return nodes

    def output(self, node: GraphNode, ends: list[str]) -> Value:
        """Add an output to a node with blocks, and return its value."""
        value = Value(f"%{self.count}")
        self.count += 1
        node.outputs.append(value.name)
        for block, name in zip(node.blocks, ends, strict=True):
            block.outputs.append(name)
        return value

    def choice(self, node: ast.IfExp) -> Value:
        """Add `a if test else b`, each in a block of its own."""
        branch = GraphNode("prim::If", [self.value(node.test).name], [])
        self.current.append(branch)
        ends: list[str] = []
        for part in (node.body, node.orelse):
            nodes = self.inside(lambda part=part: ends.append(self.value(part).name))  # type: ignore[misc]
            branch.blocks.append(Block(nodes))
        return self.output(branch, ends)

    def assign(self, target: ast.expr, value: Value) -> None:
        """Give names to a value, or to its parts."""
        names = self.scope[1]
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for index, part in enumerate(target.elts):
                self.assign(part, self.add(f"prim::TupleIndex[index={index}]", [value]))
        elif isinstance(target, ast.Attribute):
            self.add(f'prim::SetAttr[name="{target.attr}"]', [self.value(target.value), value])
        elif isinstance(target, ast.Subscript):
            inputs = [self.value(target.value), self.value(target.slice), value]
            self.add("aten::_set_item", inputs)

    def value(self, node: ast.expr) -> Value:
        """Add an expression, and return its value."""
        if isinstance(node, ast.Name):
            return self.scope[1].get(node.id) or self.constant(node.id)
        if isinstance(node, ast.Constant):
            return self.constant(repr(node.value))
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.BinOp):
            operation = f"aten::{OPERATIONS[type(node.op)]}"
            return self.add(operation, [self.value(node.left), self.value(node.right)])
        if isinstance(node, ast.Compare):
            operation = f"aten::{OPERATIONS[type(node.ops[0])]}"
            return self.add(operation, [self.value(node.left), self.value(node.comparators[0])])
        if isinstance(node, ast.UnaryOp):
            return self.add(f"aten::{OPERATIONS[type(node.op)]}", [self.value(node.operand)])
        if isinstance(node, ast.IfExp):
            return self.choice(node)
        return self.other(node)

    def other(self, node: ast.expr) -> Value:
        """Add an expression whose parts are all values: a list, an index, a choice."""
        name, parts = EXPRESSIONS.get(type(node), (None, None))
        if name is None or parts is None:
            return self.constant(ast.unparse(node))
        return self.add(name, [self.value(part) for part in parts(node) if part is not None])

    def constant(self, text: str) -> Value:
        return self.add(f"prim::Constant[value={text}]", [])

    def attribute(self, node: ast.Attribute) -> Value:
        name = dotted_name(node) or ""
        if name.startswith(("CONSTANTS.", "torch.", "ops.", "__torch__.")):
            return self.constant(name)
        return self.member(self.value(node.value), node.attr)

    def member(self, owner: Value, name: str) -> Value:
        """Add the reading of an attribute."""
        value = self.add(f'prim::GetAttr[name="{name}"]', [owner])
        if owner.cls is not None and name in owner.cls.attributes:
            value.cls = self.class_of(owner.cls.attributes[name])
        return value

    def class_of(self, annotation: ast.expr) -> ScriptClass | None:
        """Return the class that a type names; it is found through the resolved methods."""
        name = dotted_name(annotation)
        return None if name is None else self.classes().get(name)

    def classes(self) -> dict[str, ScriptClass]:
        """Return the classes of the program, by name."""
        program = self.function.program
        return {} if program is None else program.classes

    def call(self, node: ast.Call) -> Value:
        """Add a call; a function of the program may be inlined."""
        target = node.func
        name = dotted_name(target) or ""
        place = f"{self.scope[0].file}:{getattr(node, 'lineno', 0)}"
        resolved = self.scope[0].resolved.get(target)
        if name == "getattr" and isinstance(node.args[1], ast.Constant):
            return self.member(self.value(node.args[0]), str(node.args[1].value))
        if name in ("annotate", "unchecked_cast"):
            return self.value(node.args[1])
        if isinstance(target, ast.Attribute) and not name.startswith(("torch.", "ops.", "__torch")):
            return self.method(node, target, place)
        inputs = [self.value(part) for part in node.args]
        inputs += [self.value(keyword.value) for keyword in node.keywords]
        if isinstance(resolved, Function):
            return self.function_call(resolved, node, inputs, place)
        space, _, short = name.rpartition(".")
        prefix = {"torch": "aten", "ops.prim": "prim", "": "prim"}.get(space, "aten")
        if isinstance(resolved, ScriptClass):
            prefix, short = "prim", f'CreateObject[name="{resolved.name}"]'
        return self.add(f"{prefix}::{short}", inputs, place)

    def method(self, node: ast.Call, target: ast.Attribute, place: str) -> Value:
        owner = self.value(target.value)
        inputs = [owner, *(self.value(part) for part in node.args)]
        inputs += [self.value(keyword.value) for keyword in node.keywords]
        method = owner.cls.methods.get(target.attr) if owner.cls is not None else None
        if method is not None and self.inlined:
            return self.function_call(method, node, inputs, place)
        return self.add(f'prim::CallMethod[name="{target.attr}"]', inputs, place)

    def function_call(
        self, function: Function, node: ast.Call, inputs: list[Value], place: str
    ) -> Value:
        """Add the call of a function of the program, or what it does."""
        simple = not any(isinstance(part, ast.If | ast.While | ast.For) for part in
                         ast.walk(function.node))  # fmt: skip
        if not self.inlined or node.keywords or not simple or self.depth >= MAX_INLINED:
            return self.add(f'prim::CallFunction[name="{function.name}"]', inputs, place)
        names = {
            part.arg: value for part, value in zip(function.parameters(), inputs, strict=False)
        }
        for name, default in function.defaults().items():
            if name not in names:
                names[name] = self.value(default)
        self.depth += 1
        result = self.block(function, names)
        self.depth -= 1
        return result


OPERATIONS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "remainder", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__",
    ast.BitOr: "__or__", ast.BitXor: "__xor__", ast.LShift: "__lshift__",
    ast.RShift: "__rshift__", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le",
    ast.Gt: "gt", ast.GtE: "ge", ast.Is: "__is__", ast.IsNot: "__isnot__",
    ast.In: "__contains__", ast.NotIn: "__not_contains__", ast.USub: "neg", ast.UAdd: "positive",
    ast.Not: "__not__", ast.Invert: "bitwise_not",
}  # fmt: skip

Parts = Callable[[Any], list[Any]]
EXPRESSIONS: dict[type, tuple[str, Parts]] = {
    ast.List: ("prim::ListConstruct", lambda node: node.elts),
    ast.Tuple: ("prim::TupleConstruct", lambda node: node.elts),
    ast.Dict: ("prim::DictConstruct", lambda node: [*node.keys, *node.values]),
    ast.Subscript: ("aten::__getitem__", lambda node: [node.value, node.slice]),
    ast.Slice: ("aten::slice", lambda node: [node.lower, node.upper, node.step]),
    ast.BoolOp: ("prim::And", lambda node: node.values),
}  # fmt: skip
