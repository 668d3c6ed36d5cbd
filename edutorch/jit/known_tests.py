"""Tests whose answer is known before a function runs: `if self.bias is not None`."""

from __future__ import annotations

import ast

from ..core.tensor import Tensor
from ..nn.modules.module import Module
from .statics import AttributeOf, Static, Statics


def known_answer(statics: Statics, node: ast.expr) -> bool | None:
    """Return the answer of a test that is known before the function runs, or None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        known = known_answer(statics, node.operand)
        return None if known is None else not known
    if isinstance(node, ast.BoolOp):
        answers = [known_answer(statics, part) for part in node.values]
        decides = isinstance(node.op, ast.Or)
        if decides in answers and None not in answers[: answers.index(decides)]:
            return decides
        return None if None in answers else not decides
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
        return none_test(statics, node)
    if isinstance(node, ast.Call):
        return known_question(statics, node)
    if isinstance(node, ast.Constant):
        return bool(node.value)
    known = statics.find(node)
    is_plain = isinstance(known, Static) and (known.value is None or type(known.value) is bool)
    return bool(known.value) if is_plain and isinstance(known, Static) else None


def none_test(statics: Statics, node: ast.Compare) -> bool | None:
    """Return the answer of `self.bias is None`, if the module decides it."""
    right = node.comparators[0]
    if not isinstance(right, ast.Constant) or right.value is not None:
        return None
    known = statics.find(node.left)
    if isinstance(known, AttributeOf):
        if not isinstance(known.value, Tensor) or known.name not in known.owner._parameters:
            return None
        is_none = False
    elif isinstance(known, Static):
        is_none = known.value is None
    else:
        return None
    return is_none is isinstance(node.ops[0], ast.Is)


def known_question(statics: Statics, node: ast.Call) -> bool | None:
    """Return the answer of `torch.jit.is_scripting()`, `hasattr(self, "x")` and their kin."""
    known = statics.find(node.func)
    function = known.value if isinstance(known, Static) else None
    name = getattr(function, "__name__", "")
    if name == "is_scripting" and not node.args:
        return True
    if name in ("is_tracing", "is_compiling") and not node.args:
        return False
    if function is hasattr and len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
        owner = statics.find(node.args[0])
        if isinstance(owner, Static) and isinstance(owner.value, Module):
            return hasattr(owner.value, str(node.args[1].value))
    if function is isinstance and len(node.args) == 2:
        owner, cls = statics.find(node.args[0]), statics.find(node.args[1])
        if isinstance(owner, Static) and isinstance(cls, Static):
            return isinstance(owner.value, cls.value)
    return None
