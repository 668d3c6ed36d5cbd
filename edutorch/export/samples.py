"""Captures of a module at several sizes of its dynamic axes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autograd import no_grad
from ..core.op import Op
from ..core.tensor import Tensor, wrap
from ..fx.capture import CaptureSession
from ..fx.capture_context import CaptureOptions
from ..fx.captured_graph import Captured
from ..nn import Module
from ..random import fork_rng
from ..utils._pytree import TreeSpec, tree_unflatten
from .dims import UNBOUNDED, AxisMap, Symbol
from .errors import ExportError
from .formulas import Size, evaluate

__all__ = ["Arguments", "Sample", "argument_names", "capture_samples", "run_at", "sample_sizes"]

CAPTURES = 4
"""Captures from which formulas are worked out; one more is compared with what they say."""

IGNORED_REASONS = ("it prints", "it can reach too many things", "it can go on with an iterator")
"""Reasons against compiling a function that are none against exporting it."""


@dataclass(frozen=True)
class Arguments:
    """The example arguments of a module, flattened."""

    leaves: list[Any]
    spec: TreeSpec
    names: list[str]

    def at(self, axes: AxisMap, sizes: dict[Size, int]) -> list[Any]:
        """Return the leaves with their dynamic axes in these sizes: elements are repeated."""
        resized = list(self.leaves)
        for (leaf, axis), formula in axes.formulas.items():
            resized[leaf] = resize(resized[leaf], axis, int(evaluate(formula, sizes)))
        return resized


@dataclass
class Sample:
    """One capture: the size of each symbol, and what was captured."""

    sizes: dict[Size, int]
    captured: Captured


def argument_names(module: Module, args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """Return the names of a call's arguments, in order.

    Raises: ExportError: the module does not take them.
    """
    try:
        signature = inspect.signature(module.forward)
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ExportError(f"the module does not take these arguments: {error}") from None
    names = []
    for name in bound.arguments:
        match signature.parameters[name].kind:
            case inspect.Parameter.VAR_POSITIONAL:
                names += [f"{name}_{index}" for index in range(len(bound.arguments[name]))]
            case inspect.Parameter.VAR_KEYWORD:
                pass
            case _:
                names.append(name)
    return [*names[: len(args)], *kwargs]


def resize(value: Tensor, axis: int, size: int) -> Tensor:
    """Return a tensor with an axis of another size, filled by repeating what is there."""
    array = value.detach().numpy()
    count = max(array.shape[axis], 1)
    repeated = np.take(array, np.arange(size) % count, axis) if array.size else None
    shape = (*array.shape[:axis], size, *array.shape[axis + 1 :])
    filled = np.zeros(shape, array.dtype) if repeated is None else np.ascontiguousarray(repeated)
    return wrap(filled)


# Sizes --------------------------------------------------------------------------------------------


def sample_sizes(axes: AxisMap, count: int = CAPTURES + 1) -> list[dict[Size, int]]:
    """Return sizes to capture at: distinct primes near the examples, so that factors are seen."""
    symbols = list(axes.symbols.values())
    candidates = [candidate_sizes(symbol, count * len(symbols)) for symbol in symbols]
    samples = []
    for sample in range(count):
        sizes: dict[Size, int] = {}
        for position, symbol in enumerate(symbols):
            options = candidates[position]
            index = sample * len(symbols) + position
            sizes[symbol.size] = options[index % len(options)]
        samples.append(sizes)
    return samples


def candidate_sizes(symbol: Symbol, count: int) -> list[int]:
    """Return sizes in the range of a symbol, near its example: primes where there are enough."""
    low, high = max(symbol.min, 1), symbol.max
    last = min(high, max(2 * symbol.example, 16 * count + 32))
    near = sorted(range(max(low, 2), last + 1), key=lambda size: abs(size - symbol.example))
    primes = [size for size in near if size > 2 and is_prime(size)]
    options = primes if len(primes) > CAPTURES else near
    return sorted(options[: max(count, CAPTURES + 1)]) or [symbol.example]


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def checked_sizes(axes: AxisMap) -> list[dict[Size, int]]:
    """Return the sizes at which a finished program is compared with the module."""
    symbols = list(axes.symbols.values())
    smallest = {symbol.size: max(symbol.min, 1) for symbol in symbols}
    examples = {symbol.size: symbol.example for symbol in symbols}
    largest = {s.size: s.max for s in symbols if s.max < min(UNBOUNDED, 4 * s.example + 64)}
    return [smallest, examples, {**examples, **largest}]


# Captures -----------------------------------------------------------------------------------------


def capture_samples(
    module: Module, arguments: Arguments, axes: AxisMap, expands: Callable[[Op], bool] | None
) -> list[Sample]:
    """Capture a module at several sizes of its dynamic axes.

    Raises: ExportError: it does not run at these sizes, or no graph can represent it.
    """
    options = CaptureOptions(keeps_creations=True, keeps_branches=True, expands=expands)
    samples = []
    for sizes in sample_sizes(axes):
        args, kwargs = tree_unflatten(arguments.at(axes, sizes), arguments.spec)
        with unchanged(module), no_grad():
            try:
                captured = CaptureSession(module, args, kwargs, options).run()
            except Exception as error:
                if not axes.symbols:
                    raise
                raise wrong_size(sizes, error) from error
        check_reasons(captured)
        samples.append(Sample(sizes, captured))
        if not axes.symbols:
            break
    return samples


def run_at(module: Callable[..., Any], leaves: list[Any], spec: TreeSpec) -> Any:
    """Call a module with flat arguments, without gradients."""
    args, kwargs = tree_unflatten(leaves, spec)
    with no_grad():
        return module(*args, **kwargs)


@contextmanager
def unchanged(module: Module) -> Iterator[None]:
    """Restore the parameters and buffers of a module, and the random generator, afterwards."""
    tensors = [*module.parameters(), *module.buffers()]
    arrays = [(tensor._array, tensor._array.copy()) for tensor in tensors]
    with fork_rng():
        try:
            yield
        finally:
            for array, before in arrays:
                array[...] = before


def wrong_size(sizes: dict[Size, int], error: Exception) -> ExportError:
    """Return the error for a module that does not run at other sizes than the example's."""
    text = ", ".join(f"{size.name}={number}" for size, number in sizes.items())
    return ExportError(
        f"the module does not run at {text}: {error}",
        hint="axes that must agree want the same Dim, or Dim.AUTO; a limit is Dim(name, max=…); "
        "a multiple is 2 * Dim(name)",
    )


def check_reasons(captured: Captured) -> None:
    """Raise ExportError if no graph can represent what was captured."""
    reasons = [pair for pair in captured.reasons if not pair[0].startswith(IGNORED_REASONS)]
    if not reasons:
        return
    text, line = reasons[0]
    raise ExportError(
        f"{line}: {text}",
        hint="in an exported program torch.cond takes the place of an `if`, torch.while_loop of a "
        "`while`, and torch.scan of a `for` over an axis",
    )
