"""The usual call of a compiled version as one function: guards, program and result in a row.

`Guards.mismatch`, `CompiledVersion.gather` and `run` say what a call does, for all calls. Of small
programs they take more time than the kernels. So where a version is plain (no containers as
arguments, nothing written, arrays of NumPy's), the same is written out for its arguments:

    print(compiled.entries[0].entry.source)

It returns MISS where something differs or fails: then the general way finds out what.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes, events
from ..backends.device import get_default_device
from ..core.autograd.graph import LEAF
from ..core.op import ARRAY_ERRORS
from ..core.tensor import PLAIN_TENSORS, Tensor, wrap
from ..fx.capture_patches import current_tracer
from ..modes import current
from .guards import VALUES, Guards

if TYPE_CHECKING:
    from .compiled_version import CompiledVersion

__all__ = ["MISS", "Entry", "make_entry"]

MISS = object()


class Entry:
    """A generated function of the arguments, and its source."""

    def __init__(self, source: str, scope: dict[str, Any]) -> None:
        self.source = source
        exec(compile(source, "<edutorch.compile: entry>", "exec"), scope)
        self.call: Callable[[tuple[Any, ...], dict[str, Any]], Any] = scope["entry"]


def make_entry(version: CompiledVersion) -> Entry | None:
    """Return the usual call of a version whose arguments are no containers, and all by position.

    Returns: None where only the general way is right.
    """
    guards, inputs = version.guards, version.inputs
    fixed = {id(tensor): f"t{i}" for i, (_, tensor, *_) in enumerate(guards.fixed_tensors)}
    fixed |= {id(tensor): f"a{index}" for index, tensor in guards.identities}
    if version.writes or version.grads or version.captured.dropped:
        return None
    if any(input_.kind == "tensor" and id(input_.tensor) not in fixed for input_ in inputs):
        return None
    scope: dict[str, Any] = {
        "MISS": MISS, "modes": current, "MODE": guards.mode, "tracer": current_tracer,
        "listeners": events._STEP_LISTENERS.get, "ndarray": np.ndarray, "LEAF": LEAF,
        "default_dtype": dtypes.get_default_dtype, "DTYPE": guards.flags[0],
        "default_device": get_default_device, "DEVICE": guards.flags[1], "wrap": wrap,
        "FORWARD": version.forward, "BUILD": version.build_result, "ERRORS": ARRAY_ERRORS,
        "RECORD": version.record, "memory_mismatch": guards.memory_mismatch,
        "new": partial(object.__new__, Tensor),
    }  # fmt: skip
    tests = ["modes() is not MODE", "tracer()", "listeners()"]
    for index, known in enumerate(guards.leaves):
        tests += argument_tests(f"x{index}", f"a{index}", known, scope)
    tests += ["default_dtype() is not DTYPE", "default_device() is not DEVICE"]
    tests += other_tests(guards, scope)
    arrays, tensors = [], []
    for input_ in inputs:
        if input_.kind not in ("argument", "tensor"):
            return None
        index = input_.index if input_.kind == "argument" else None
        arrays.append(f"a{index}" if index is not None else fixed[id(input_.tensor)])
        tensors.append(arrays[-1].replace("a", "x").replace("t", "T"))
    return Entry(entry_text(version, len(guards.leaves), tests, (arrays, tensors)), scope)


def argument_tests(
    name: str, array: str, known: tuple[Any, ...], scope: dict[str, Any]
) -> list[str]:
    """Return the conditions under which an argument differs from the captured call's."""
    cls, value = known[:2]
    if cls not in PLAIN_TENSORS:
        scope[f"V_{name}"], scope[f"C_{name}"] = value, cls
        test = f"{name} is not V_{name}"
        if cls in VALUES:
            test = f"({test} and ({name}.__class__ is not C_{name} or {name} != V_{name}))"
        return [test]
    _, shape, dtype, strides, needs = known
    scope[f"C_{name}"], scope[f"D_{name}"] = cls, dtype
    differs = {
        None: f"{name}._node is not None",
        "leaf": f"{name}._node is not LEAF",
        "computed": f"{name}._node is LEAF or {name}._node is None",
    }
    return [
        f"{name}.__class__ is not C_{name}",
        f"({array} := {name}._array).__class__ is not ndarray",
        f"{array}.shape != {shape!r}",
        f"{array}.dtype is not D_{name}",
        f"{array}.strides != {strides!r}",
        differs[needs],
    ]


def other_tests(guards: Guards, scope: dict[str, Any]) -> list[str]:
    """Return the conditions under which what is no argument differs from the captured call."""
    tests = []
    for i, fixed in enumerate(guards.fixed_tensors):
        scope[f"F{i}"], scope[f"T{i}"] = fixed, fixed[1]
        tests += [
            f"(t{i} := T{i}._array) is not F{i}[3]",  # the general way takes note of another one
            f"t{i}.__class__ is not ndarray",
            f"T{i}._node is not F{i}[4]",
        ]
    for i, (tensor, before) in enumerate(guards.absent):
        scope[f"G{i}"] = tensor
        tests.append(f"G{i}._grad is {'not ' if before is None else ''}None")
    for index, tensor in guards.identities:
        scope[f"I{index}"] = tensor
        tests.append(f"x{index} is not I{index}")
    if guards.pairs or guards.shown or guards.owners:
        leaves = ", ".join(f"x{index}" for index in range(len(guards.leaves)))
        tests.append(f"memory_mismatch([{leaves}]) is not None")
    reach = guards.reach
    if reach is not None and reach.has_state():
        scope["changed"] = reach.changed
        tests.append("changed() is not None")
    return tests


def entry_text(
    version: CompiledVersion, count: int, tests: list[str], operands: tuple[list[str], list[str]]
) -> str:
    """Return the source of the usual call.

    Args:
        operands: the names of the inputs' arrays, and of their tensors.
    """
    arrays, tensors = (", ".join(names) for names in operands)
    parameters = "".join(f"x{index}, " for index in range(count))
    lines = [
        "def entry(args, kwargs):",
        f"    if kwargs or len(args) != {count}:",
        "        return MISS",
        *([f"    {parameters}= args"] if count else []),
        "    if (",
        "        " + "\n        or ".join(tests),
        "    ):",
        "        return MISS",
        "    try:",
        f"        outputs = FORWARD([{arrays}])",
        "    except ERRORS:",
        "        return MISS",
    ]
    position = single_result(version)
    if position is None:
        return "\n".join([*lines, f"    return BUILD(outputs, [{tensors}], [{arrays}])", ""])
    lines += [
        f"    y = outputs[{position}]",
        "    if y.__class__ is not ndarray:",
        "        output = wrap(y)",
        "    else:",
        "        output = new()",
        "        output._array = y",
        "        output._node = output._grad = output._writes = None",
        "        output._base = output._hooks = None",
    ]
    if version.backward is not None:
        lines += [f"    RECORD(outputs, [{tensors}], [{arrays}], [output])"]
    return "\n".join([*lines, "    return output", ""])


def single_result(version: CompiledVersion) -> int | None:
    """Return the position of the output that is all that a call returns, an ordinary tensor."""
    if not version.simple or version.guards.mode.inference:
        return None
    if version.leaf_results or version.captured.spent:
        return None
    ((position, output),) = version.results
    node = version.captured.graph.output_node().args[0][position]
    is_stored = np.dtype(node.meta["dtype"]) in dtypes.STORED
    return None if output.shares != -1 or is_stored else position
