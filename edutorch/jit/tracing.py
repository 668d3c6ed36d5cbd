"""`torch.jit.trace`: the program of one run.

The function runs once, on the example, and every op is recorded (`fx.capture`). The trace computes
the same ops on other inputs: a branch, a loop or a number that depended on the example's values is
frozen, and a warning says where. Sizes of the example are constants too, except the batch: a second
run, with more rows, shows which numbers grow with it.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import no_grad
from ..core.tensor import Tensor
from ..errors import ArgumentError, EdutorchError
from ..fx.capture import capture
from ..fx.captured_graph import Captured
from ..nn.modules.module import Module
from ..ops import cat
from ..utils._pytree import tree_flatten
from .code_text import file_texts
from .compiler import Compiler, file_of
from .errors import Error, NotSupportedError
from .program import Function, ScriptClass
from .resolution import resolve_program
from .script_module import RecursiveScriptModule
from .trace_writer import GraphWriter

__all__ = ["TracedModule", "TracerWarning", "TracingCheckError", "trace"]

MORE_ROWS = 3


class TracerWarning(UserWarning):
    """A trace may be wrong for other inputs: something was frozen."""


class TracingCheckError(EdutorchError, RuntimeError):
    """A trace computes something other than the function, on inputs to check it with."""


class TracedModule(RecursiveScriptModule):
    """A traced function or module; it shares the parameters of the module that was traced."""

    def _get_name(self) -> str:
        return "TracedModule"


def trace(
    func: Callable[..., Any], example_inputs: Any = None, optimize: Any = None,
    check_trace: bool = True, check_inputs: Sequence[Any] | None = None,
    check_tolerance: float = 1e-5, strict: bool = True, **settings: Any,
) -> Any:  # fmt: skip
    """Run a function or module once, and return the program of what it computed.

    Args:
        func: a function or a module of tensors.
        example_inputs: a tensor, or a tuple of tensors.
        optimize, strict, settings: PyTorch's arguments, which mean nothing here.
        check_trace: whether to compare the trace with the function on the example.
        check_inputs: more inputs to compare them on: tuples of tensors.
        check_tolerance: how far the results may differ, relative and absolute.

    Raises: TracingCheckError: the trace and the function differ on one of the inputs.
        NotSupportedError: a step cannot be written: random numbers, gradients.

    >>> traced = edutorch.jit.trace(lambda x: (x * 2).relu(), ones(3))
    >>> print(traced.code, end="")
    def forward(self, x: Tensor):
      mul = torch.mul(x, 2)
      relu = torch.relu(mul)
      return relu
    """
    inputs = as_inputs(example_inputs)
    names = argument_names(func, len(inputs))
    with no_grad():
        captured = capture(func, *inputs)
        warn_frozen(captured)
        traced = build(func, captured, names, second_capture(func, inputs, captured))
        if check_trace:
            check(func, traced, inputs, check_tolerance, "the example")
        for number, values in enumerate(check_inputs or ()):
            check(func, traced, as_inputs(values), check_tolerance, f"check_inputs[{number}]")
    return traced


def as_inputs(values: Any) -> tuple[Tensor, ...]:
    """Return the inputs as a tuple of tensors.

    Raises: ArgumentError: one of them is no tensor.
    """
    inputs = values if isinstance(values, tuple | list) else (values,)
    for index, value in enumerate(inputs):
        if not isinstance(value, Tensor):
            raise ArgumentError(
                "jit.trace", f"example_inputs[{index}] is a {type(value).__name__}, not a tensor",
                hint="trace a function of tensors; what else it needs is fixed with "
                "functools.partial, or script it",
            )  # fmt: skip
    return tuple(inputs)


def argument_names(func: Any, count: int) -> list[str]:
    """Return the names of the first parameters of a function or a module's forward."""
    function = func.forward if isinstance(func, Module) else func
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = plain[:count] + [f"input_{index}" for index in range(len(plain), count)]
    return [name if name not in ("self", "torch", "ops") else f"{name}_" for name in names]


def warn_frozen(captured: Captured) -> None:
    """Warn about what was frozen, each with its file and line."""
    for reason, line in captured.reasons:
        warnings.warn(
            f"{line}: {reason}: the trace keeps what the example led to, and may be wrong for "
            "other inputs; torch.jit.script keeps the branch",
            TracerWarning, stacklevel=4,
        )  # fmt: skip


def second_capture(
    func: Any, inputs: tuple[Tensor, ...], captured: Captured
) -> tuple[int, int, Captured] | None:
    """Capture once more with a larger batch, and return both sizes with it.

    None if the first axes are not one batch, or the function takes no other size.
    """
    sizes = {value.shape[0] if value.ndim else 0 for value in inputs}
    is_training = isinstance(func, Module) and func.training
    if len(sizes) != 1 or 0 in sizes or is_training or captured.reasons:
        return None
    (size,) = sizes
    larger = [cat([value, *[value[:1]] * MORE_ROWS]) for value in inputs]
    try:
        other = capture(func, *larger)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return None
    return size, size + MORE_ROWS, other


def build(
    func: Any, captured: Captured, names: list[str], batch: tuple[int, int, Captured] | None
) -> TracedModule:
    """Return the traced module of a captured graph."""
    if batch is not None and is_similar(captured, batch[2]):
        try:
            return write_module(func, captured, names, batch)
        except NotSupportedError:
            pass  # some number is no multiple of the batch: it stays a constant
    return write_module(func, captured, names, None)


def is_similar(first: Captured, second: Captured) -> bool:
    """Return True if two graphs have the same steps, and the same constants."""
    pairs = zip(first.graph.nodes, second.graph.nodes, strict=False)
    if len(list(first.graph.nodes)) != len(list(second.graph.nodes)):
        return False
    return all(
        a.op == b.op and (a.op in ("placeholder", "output", "get_attr") or a.target is b.target)
        for a, b in pairs
    )


def write_module(
    func: Any, captured: Captured, names: list[str], batch: tuple[int, int, Captured] | None
) -> TracedModule:
    module = func if isinstance(func, Module) else None
    holder = module if module is not None else Module()
    writer = GraphWriter(captured, holder, names, batch)
    definition = writer.run()
    compiler = Compiler()
    cls = compiler.finish(holder)
    if module is None:
        rename(compiler, cls, func)
    cls = ScriptClass(**vars(cls))  # the root's own: another module may share the class
    compiler.program.classes[cls.name] = cls
    source = getattr(getattr(func, "__code__", None), "co_filename", None)
    definition.args.args[0].annotation = None
    function = Function(f"{cls.name}.forward", definition, file_of(cls.name), cls, source)
    cls.methods["forward"] = function
    program = compiler.program
    program.constants = tuple(writer.constants)
    resolve_program(program)
    program.files = file_texts(program)
    traced = fill(TracedModule(cls), holder, compiler)
    for part in traced.modules():
        part.__dict__["program"] = program
    assert isinstance(traced, TracedModule)
    return traced


def rename(compiler: Compiler, cls: ScriptClass, func: Any) -> None:
    """Name the class of a traced function after it."""
    del compiler.program.classes[cls.name]
    name = getattr(func, "__name__", "traced")
    cls.name = f"__torch__.{name if name.isidentifier() else 'traced'}"
    compiler.program.classes[cls.name] = cls


def fill(target: Any, module: Module, compiler: Compiler) -> Any:
    """Give a module of the program the parameters, buffers and values of a Python module."""
    target.__dict__["training"] = module.training
    target._parameters.update(module._parameters)
    target._buffers.update(module._buffers)
    for name in target.script_class.attributes:
        if name not in {*module._parameters, *module._buffers, *module._modules, "training"}:
            target.__dict__[name] = getattr(module, name)
    for name, child in module._modules.items():
        if child is not None:
            empty = RecursiveScriptModule(compiler.classes[id(child)])
            target._modules[name] = fill(empty, child, compiler)
    return target


def check(
    func: Any, traced: TracedModule, inputs: tuple[Tensor, ...], tolerance: float, what: str
) -> None:
    """Compare a trace with the function on inputs.

    Raises: TracingCheckError: they differ; the error has the largest difference.
    """
    expected = func(*[value.clone() for value in inputs])
    try:
        result = traced(*[value.clone() for value in inputs])
    except (Error, EdutorchError, RuntimeError, ValueError, TypeError, IndexError) as error:
        raise TracingCheckError(
            "jit.trace", f"the trace fails on {what}: {str(error).splitlines()[0]}",
            {name: tuple(value.shape) for name, value in zip("abcdefgh", inputs, strict=False)},
            "sizes other than the batch are those of the example: script the function instead",
        ) from error  # fmt: skip
    for index, (a, b) in enumerate(zip(tree_flatten(expected)[0], tree_flatten(result)[0],
                                       strict=True)):  # fmt: skip
        if isinstance(a, Tensor) and not is_close(a, b, tolerance):
            raise TracingCheckError(
                "jit.trace", f"output {index} of the trace differs on {what}",
                {"function": tuple(a.shape), "trace": tuple(b.shape), "difference": distance(a, b)},
                "the function depends on values (a branch, a loop) or on random numbers: script it",
            )  # fmt: skip


def is_close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    return a.shape == b.shape and bool(
        a.double().isclose(b.double(), rtol=tolerance, atol=tolerance, equal_nan=True).all()
    )


def distance(a: Tensor, b: Tensor) -> str:
    if a.shape != b.shape:
        return "their shapes differ"
    return f"{float((a.double() - b.double()).abs().max()):.3g}"
