"""`torch.export.export`: a module becomes a program.

    module → captures at several sizes → one graph with formulas → named inputs → checked

The captured graph of each size is compared with the others (`compare.py`); `build.py` names the
inputs and adds nodes for sizes; the finished program is compared with the module at further sizes.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.op import Op
from ..core.tensor import Tensor
from ..errors import EdutorchError
from ..fx.graph_module import GraphModule
from ..nn import Module
from ..utils._pytree import tree_flatten
from .build import ProgramBuilder
from .compare import merge_captures, merge_values
from .dims import AxisMap, parse_dynamic_shapes
from .errors import ExportError
from .program import CallSpec, ExportedProgram, ValueRange
from .samples import (
    Arguments,
    Sample,
    argument_names,
    capture_samples,
    checked_sizes,
    run_at,
    unchanged,
)  # fmt: skip

__all__ = ["decompose", "export"]

Expands = Callable[[Op], bool]


def export(
    mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
    dynamic_shapes: Any = None, strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:  # fmt: skip
    """Return a module as a program: a graph of ops with its weights, without its Python.

    The module is run a few times, in its mode (training or evaluation), at different sizes of its
    dynamic axes. It is left as it was.

    Args:
        mod: the module.
        args, kwargs: example arguments: tensors, containers of them, and constants.
        dynamic_shapes: which axes may change, by argument: {"x": {0: Dim("batch")}}.
        strict: accepted; there is one way to export here.
        preserve_module_call_signature, prefer_deferred_runtime_asserts_over_guards: accepted.

    Raises: ExportError: Python control flow reads data or a dynamic size; the line is named.

    >>> program = edutorch.export.export(nn.Linear(2, 3), (ones(4, 2),))
    >>> program.module()(ones(4, 2)).shape
    torch.Size([4, 3])
    """
    if not isinstance(mod, Module):
        name = type(mod).__name__
        raise ValueError(
            f"Expected `mod` to be an instance of `torch.nn.Module`, got {name}; a function "
            "becomes one as the forward of a class"
        )
    if not isinstance(args, tuple | list):
        name = type(args).__name__
        raise ExportError(
            f"Expecting `args` to be a tuple of example positional inputs, got {name}",
            hint="a single argument is (x,)",
        )
    args, kwargs = tuple(args), dict(kwargs or {})
    leaves, spec = tree_flatten((args, kwargs))
    arguments = Arguments(leaves, spec, argument_names(mod, args, kwargs))
    values = [*args, *kwargs.values()]
    axes = parse_dynamic_shapes(dynamic_shapes, arguments.names, values)
    return export_with(mod, arguments, axes, (args, kwargs))


def export_with(
    module: Module, arguments: Arguments, axes: AxisMap, example: Any,
    expands: Expands | None = None,
) -> ExportedProgram:  # fmt: skip
    """Export with these dynamic axes; axes of `Dim.AUTO` become static where they have to."""
    first_error: EdutorchError | None = None
    for attempt in weaker_axes(axes):
        try:
            return export_once(module, arguments, attempt, example, expands)
        except ExportError as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error


def weaker_axes(axes: AxisMap) -> Iterator[AxisMap]:
    """Yield the axes, and if some are automatic, with ever fewer of these dynamic."""
    yield axes
    automatic = [name for name, symbol in axes.symbols.items() if symbol.is_automatic]
    if not automatic:
        return
    yield axes.merged()
    if len(automatic) > 1:
        yield from (axes.without({name}) for name in automatic)
    yield axes.without(set(automatic))


def export_once(
    module: Module, arguments: Arguments, axes: AxisMap, example: Any, expands: Expands | None
) -> ExportedProgram:
    """Export with exactly these dynamic axes."""
    samples = capture_samples(module, arguments, axes, expands)
    captured = samples[0].captured
    merged = merge_captures(samples)
    builder = ProgramBuilder(module, merged, captured, arguments, axes)
    builder.allows_arrays = expands is not None
    graph_module, signature = builder.build(merged_leaves(samples))
    ranges = {name: ValueRange(s.min, s.max) for name, s in axes.symbols.items()}
    call_spec = CallSpec(arguments.spec, captured.spec, arguments.names)
    program = ExportedProgram(
        graph_module, signature, builder.state, builder.constants, ranges, call_spec, example
    )
    if expands is None:  # a program that is taken apart is for other runtimes, not for ours
        verify(module, program, arguments, axes)
    return program


def merged_leaves(samples: list[Sample]) -> list[tuple[str, Any]]:
    """Return what the captures return, with formulas in place of numbers that differ.

    Raises: ExportError: the captures return different things.
    """
    columns = [sample.captured.leaves for sample in samples]
    if len({str([leaf_type for leaf_type, _ in leaves]) for leaves in columns}) > 1:
        raise ExportError("what the module returns depends on a size")
    merged = []
    for column in zip(*columns, strict=True):
        leaf_type, value = column[0]
        if leaf_type == "value":
            value = merge_values(samples, [v for _, v in column])
        merged.append((leaf_type, value))
    return merged


def decompose(program: ExportedProgram, expands: Expands) -> ExportedProgram:
    """Return a program with some ops recorded by what their definitions call."""
    example = program.example_inputs
    if example is None:
        raise ExportError("the program has no example inputs to run it with")
    parted = export_with(program.module(), program.arguments(), program.axes(), example, expands)
    restore_lines(parted.graph_module)
    return parted


def restore_lines(module: GraphModule) -> None:
    """Let nodes come from the lines of the first module, not from those of its graph's code."""
    for node in module.graph.nodes:
        file, _, number = (node.meta.get("line") or "").rpartition(":")
        if not file.startswith("<graph "):
            continue
        before = linecache.getlines(file)[: int(number)]
        comment = next((text for text in reversed(before) if text.strip().startswith("# ")), "")
        node.meta["line"] = comment.strip().removeprefix("# ") or None
    for _, branch in module.named_children():
        if isinstance(branch, GraphModule):
            restore_lines(branch)


# Checking -----------------------------------------------------------------------------------------


def verify(module: Module, program: ExportedProgram, arguments: Arguments, axes: AxisMap) -> None:
    """Compare the program with the module at the smallest, the example's and the largest sizes.

    Raises: ExportError: they differ.
    """
    if any(node.is_impure() and node.op == "call_function" for node in program.graph.nodes):
        return  # random numbers are drawn in another order
    running = program.module()
    for sizes in checked_sizes(axes):
        leaves = arguments.at(axes, sizes)
        text = ", ".join(f"{size.name}={number}" for size, number in sizes.items()) or "the example"
        with unchanged(module):
            try:
                expected = tree_flatten(run_at(module, leaves, arguments.spec))[0]
            except Exception as error:
                raise ExportError(
                    f"the module does not run at {text}: {error}",
                    hint="narrow the range: Dim(name, min=…, max=…)",
                ) from error
        with unchanged(module):
            try:
                computed = tree_flatten(run_at(running, leaves, arguments.spec))[0]
            except Exception as error:
                raise ExportError(f"the program fails at {text}: {error}") from error
        compare_results(expected, computed, text)


def compare_results(expected: list[Any], computed: list[Any], text: str) -> None:
    """Raise ExportError unless a program returns what the module returns."""
    for index, (right, value) in enumerate(zip(expected, computed, strict=True)):
        if not isinstance(right, Tensor):
            same = right == value
        else:
            arrays = [tensor.detach().numpy() for tensor in (right, value)]
            finite = np.abs(arrays[0][np.isfinite(arrays[0])]).max(initial=1)
            same = arrays[0].shape == arrays[1].shape and np.allclose(
                *(array.astype(np.complex128) for array in arrays), 1e-4, 1e-5 * float(finite),
                equal_nan=True,
            )  # fmt: skip
        if not same:
            raise ExportError(
                f"at {text} output {index} of the program differs from the module's",
                hint="give the axis Dim.STATIC, or a range that leaves this size out",
            )
