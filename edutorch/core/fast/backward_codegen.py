"""Generates the Python source of a node's `backward`, as `call_codegen.py` does for calls."""

from __future__ import annotations

import inspect
import textwrap
from typing import TYPE_CHECKING

from ...backends.kernel_registry import GeneratedSlot, is_declared
from ..precision import SCALING, names_to_widen

if TYPE_CHECKING:
    from ..op import Op


def backward_source(op: Op) -> str:
    """Return the source of `backward(node, g, edges, recording)`: unpack, check, call the rules."""
    lines = ["saved = node.saved"]
    if op.saved:
        names = "".join(f"{name}, " for name in op.saved)
        lines += ["if saved is None:", "    raise second_backward(node)", f"{names} = saved"]
    for name in op.saved:
        if name == "y":
            lines += [
                "writes = node.writes",
                *stale_check("", "'the result'", "y"),
                "if recording:",
                "    y = restore_result(node, y)",
            ]
        elif name in op.inputs and op.variadic:
            lines += [
                f"for tensor in {name}:",
                "    writes = tensor._writes",
                *stale_check("    ", repr(name), "tensor._array"),
                "if not recording:",
                f"    {name} = [tensor._array for tensor in {name}]",
            ]
        elif name in op.inputs:
            lines += [
                f"if isinstance({name}, Tensor):",
                f"    writes = {name}._writes",
                *stale_check("    ", repr(name), f"{name}._array"),
                "    if not recording:",
                f"        {name} = {name}._array",
            ]
            if op.rule_slots:
                lines += [
                    f"        if {name}.__class__ is not ndarray:",
                    f"            {name} = as_ndarray({name})",
                ]
            if op.name in SCALING and name in op.scalars:
                lines += ["elif g.dtype.itemsize == 2:", "    g = widen(g)"]
        elif name in op.copied and name not in op.outputs:
            lines += [f"if {name}.__class__ is not int:"]
            lines += [f"    refuse_stale_index(node, {name!r}, {name})"]
    lines += widen_lines(op)
    if op.family.reduces:
        lines += ["shape = keepdim_shape(input_shape, dim)", "g = g.reshape(shape)"]
        if "y" in op.saved:
            lines += ["y = y.reshape(shape)"]
    if op.variadic:  # its rule returns a gradient for each tensor
        # A list of tensors is one input: its rule sees them all.
        lines += [f"return rule_{op.inputs[0]}({', '.join(op.rules[op.inputs[0]].parameters)})"]
    elif op.joint_vjp is not None:
        parameters = tuple(inspect.signature(op.joint_vjp).parameters)
        lines += ["gs = None", *_kernel_first(op, "joint_vjp", parameters, "gs")]
        lines += ["return [g if e is not None else None for g, e in zip(gs, edges)]"]
    else:
        lines += ["".join(f"e_{name}, " for name in op.inputs) + "= edges"]
        results = "".join(f"{_result(op, name, lines)}, " for name in op.inputs)
        lines += [f"return ({results})"]
    body = textwrap.indent("\n".join(lines), "    ")
    return f"def backward(node, g, edges, recording):\n{body}\n"


def widen_lines(op: Op) -> list[str]:
    """The code that lets the rules of an op compute with 16-bit floats in float32."""
    names = names_to_widen(op)
    if not names:
        return []
    listed = "".join(f"{name}, " for name in names)
    # A lazy gradient has no dtype yet.
    later = "g.dtype is not None and " if op.takes_one_hot else ""
    decided = " and (g.__class__ is ndarray or widens(OP, g))"  # by the device
    return [f"if {later}g.dtype.itemsize == 2{decided}:", f"    {listed}= widen(({listed}))"]


def stale_check(indent: str, name: str, array: str) -> list[str]:
    """The code that raises an error if `array` was overwritten after it was saved."""
    late = f"{indent}if writes is not None and writes.time > node._order"
    return [
        f"{late} and writes.may_have_changed({array}, node._order):",
        f"{indent}    raise stale_value(node, {name}, writes)",
    ]


def _result(op: Op, name: str, lines: list[str]) -> str:
    """The gradient of an input as an expression; what has to be done before is added to `lines`."""
    rule = op.rules.get(name)
    if rule is None:
        return "None"
    if name not in op.rule_slots and not is_declared(f"{op.name}/{name}"):
        return f"rule_{name}({', '.join(rule.parameters)}) if e_{name} is not None else None"
    lines += [f"at_{name} = None", f"if e_{name} is not None:"]
    lines += [f"    {line}" for line in _kernel_first(op, name, rule.parameters, f"at_{name}")]
    return f"at_{name}"


def _kernel_first(op: Op, name: str, parameters: tuple[str, ...], result: str) -> list[str]:
    """Call a rule; before it the kernel that may stand in for it, for arrays that are worth it."""
    arguments, slot = ", ".join(parameters), op.rule_slots.get(name)
    if slot is None and is_declared(f"{op.name}/{name}"):
        return [
            "if g.__class__ is not ndarray:",
            f"    {result} = rule_on_device(OP, {name!r}, ({arguments},))",
            f"if {result} is None:",
            f"    {result} = rule_{name}({arguments})",
        ]
    if slot is None:
        return [f"{result} = rule_{name}({arguments})"]
    # A kernel is worth its call for large arrays only.
    first = "g" if "g" in parameters else parameters[0]  # its size decides
    if "reduction" in op.settings and isinstance(slot, GeneratedSlot):
        first = next(name for name in parameters if name in op.inputs)  # g is one number
    return [
        f"if {first}.__class__ is ndarray:",
        f"    if {slot.size_test(f'KERNEL_{name}', first, ())}:",
        f"        {result} = (KERNEL_{name}.run or KERNEL_{name})({arguments})",
        "else:",
        f"    {result} = capture_rule(OP, {name!r}, ({arguments},))",
        f"if {result} is None:",
        f"    {result} = rule_{name}({arguments})",
    ]
