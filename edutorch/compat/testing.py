"""`torch.testing`: comparison of actual with expected values, and random tensors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from edutorch import dtypes
from edutorch.core.tensor import Tensor
from edutorch.errors import InvalidValueError
from edutorch.ops import rand, randint, tensor

__all__ = ["assert_close", "make_tensor"]

# Default tolerances by dtype: (relative, absolute).
TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5), dtypes.bfloat16: (1.6e-2, 1e-5), dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7), dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}  # fmt: skip


class Options(NamedTuple):
    """How values are compared: the arguments of `assert_close`."""

    checks: dict[str, bool]
    rtol: float | None
    atol: float | None
    equal_nan: bool
    allow_subclasses: bool


def assert_close(
    actual: object,
    expected: object,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual − expected| ≤ atol + rtol · |expected| everywhere.

    Tensors, arrays and numbers are compared; lists and dicts of them element by element.

    Args:
        rtol: the relative tolerance; the default depends on the dtype (float32: 1.3e-6).
        atol: the absolute tolerance (float32: 1e-5). Give both or none.
        equal_nan: whether NaN equals NaN.
        check_device, check_dtype, check_stride: which attributes must be equal.
        msg: a message, or a function from the default message to a message.
    Raises:
        AssertionError: they differ. The message has the number of mismatches and the largest.
        ValueError: only one of `rtol` and `atol` is given.
        TypeError: values that cannot be compared.

    >>> edutorch.testing.assert_close(tensor([1.0, 2.0]), tensor([1.0, 2.0000001]))
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"assert_close: give both `rtol` and `atol` or none; {missing} is missing")
    checks = {
        "device": check_device, "dtype": check_dtype, "layout": check_layout,
        "stride": check_stride,
    }  # fmt: skip
    options = Options(checks, rtol, atol, equal_nan, allow_subclasses)
    message = _describe_difference(actual, expected, "", options)
    if message is not None:
        raise AssertionError(msg(message) if callable(msg) else message if msg is None else msg)


def _describe_difference(
    actual: object, expected: object, path: str, options: Options
) -> str | None:
    """Return where and how two values differ; None if they are close."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            return f"The keys do not match: {list(actual)} != {list(expected)}."
        pairs = [(f"{path}[{key!r}]", actual[key], expected[key]) for key in actual]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The lengths do not match: {len(actual)} != {len(expected)}."
        pairs = [
            (f"{path}[{i}]", *both) for i, both in enumerate(zip(actual, expected, strict=True))
        ]
    else:
        message = _describe_leaf_difference(actual, expected, options)
        at = f"\n\nThe failure occurred for item {path}" if path else ""
        return None if message is None else message + at
    for inner, one, other in pairs:
        if (message := _describe_difference(one, other, inner, options)) is not None:
            return message
    return None


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _describe_leaf_difference(actual: object, expected: object, options: Options) -> str | None:
    checks = options.checks
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if not options.allow_subclasses and type(actual) is not type(expected):
        related = False
    are_scalars = isinstance(actual, int | float | complex) and isinstance(
        expected, int | float | complex
    )
    is_array = isinstance(actual, Tensor | np.ndarray | np.generic)
    if not (are_scalars or (related and is_array)):
        if actual is None and expected is None:
            return None
        raise TypeError(
            f"assert_close: cannot compare {type(actual).__name__} with {type(expected).__name__}"
        )
    one, other = (_as_tensor(value) for value in (actual, expected))
    if are_scalars and type(actual) is not type(expected) and checks["dtype"]:
        return f"The (d)types do not match: {type(actual)} != {type(expected)}."
    if tuple(one.shape) != tuple(other.shape):
        return _attribute_message("shape", one.shape, other.shape)
    if not are_scalars:
        for name, wanted in checks.items():
            ours, theirs = (_get_property(value, name) for value in (one, other))
            if wanted and ours != theirs:
                return _attribute_message(name, ours, theirs)
    default = [TOLERANCES.get(value.dtype, (0.0, 0.0)) for value in (one, other)]
    # Of two dtypes the looser tolerance: the more exact side cannot help it.
    relative = max(pair[0] for pair in default) if options.rtol is None else options.rtol
    absolute = max(pair[1] for pair in default) if options.atol is None else options.atol
    return _compare_values(one, other, relative, absolute, options.equal_nan, are_scalars)


def _as_tensor(value: object) -> Tensor:
    """Convert a number, in Python's precision, or an array to a tensor."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, complex):
        return tensor(value, dtype=dtypes.complex128)
    if isinstance(value, float):
        return tensor(value, dtype=dtypes.float64)
    return tensor(value)


def _get_property(value: Tensor, name: str) -> Any:
    return value.stride() if name == "stride" else getattr(value, name)


def _attribute_message(name: str, one: object, other: object) -> str:
    return f"The values for attribute {name!r} do not match: {one} != {other}."


def _compare_values(
    actual: Tensor, expected: Tensor, rtol: float, atol: float, equal_nan: bool, are_scalars: bool
) -> str | None:
    """Compare element by element, in float64 if one is floating-point."""
    one, other = (value.detach().cpu().resolve_conj().numpy() for value in (actual, expected))
    if actual.is_floating_point() or expected.is_floating_point():
        one, other = one.astype(np.float64), other.astype(np.float64)
    elif one.dtype.kind in "bui":  # the difference of two bytes may be negative
        one, other = one.astype(np.int64), other.astype(np.int64)
    close = np.isclose(one, other, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if close.all():
        return None
    exactly = rtol == atol == 0
    word = "equal" if exactly else "close"
    up_to = ["", ""] if exactly else [f" (up to {limit} allowed)" for limit in (atol, rtol)]
    with np.errstate(all="ignore"):
        absolute_error = np.where(close, 0, np.abs(one - other))
        relative_error = np.where(close, 0, absolute_error / np.abs(other))
    if are_scalars or one.ndim == 0:
        return (
            f"Scalars are not {word}!\n\nExpected {other.item()} but got {one.item()}.\n"
            f"Absolute difference: {absolute_error.item()}{up_to[0]}\n"
            f"Relative difference: {relative_error.item()}{up_to[1]}"
        )
    count, mismatched = math.prod(close.shape), int((~close).sum())
    lines = [
        f"Greatest {measure} difference: {worst.flat[at].item()} at index "
        f"{tuple(int(i) for i in np.unravel_index(at, worst.shape))}{limit}"
        for measure, worst, limit in (
            ("absolute", absolute_error, up_to[0]),
            ("relative", relative_error, up_to[1]),
        )
        for at in [int(np.argmax(worst))]
    ]
    head = f"Tensor-likes are not {word}!\n\nMismatched elements: {mismatched} / {count}"
    return "\n".join([f"{head} ({mismatched / count:.1%})", *lines])


# Random tensors -------------------------------------------------------------------------------


def make_tensor(
    *shape: Any, dtype: dtypes.dtype, device: Any = None, low: float | None = None,
    high: float | None = None, requires_grad: bool = False, noncontiguous: bool = False,
    exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Return a tensor with random elements, uniform from `low` to `high`, for a test.

    Args:
        shape: the sizes, or one sequence of them.
        low, high: by default -9 and 9; 0 and 2 for bool, 0 and 10 for unsigned, -9 and 10 for
            other integers. Integers are less than `high`.
        noncontiguous: whether the tensor is every second element of a larger one.
        exclude_zero: whether zeros become the smallest positive number (integers: 1).
        memory_format: such as `edutorch.channels_last`.

    Raises: ValueError: `low` is not less than `high` (floats may be equal).

    >>> pixels = edutorch.testing.make_tensor(2, 3, dtype=edutorch.uint8, high=256)
    >>> pixels.shape, pixels.dtype
    (torch.Size([2, 3]), torch.uint8)
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    is_whole = not (dtype.is_floating_point or dtype.is_complex)
    is_unsigned = is_whole and not dtype.is_signed
    first = 0 if is_unsigned else -9
    last = (2 if dtype is dtypes.bool else 10) if is_whole else 9
    low, high = first if low is None else low, last if high is None else high
    if low == high and not is_whole:
        warnings.warn("make_tensor: low equals high; use torch.full", FutureWarning, stacklevel=2)
    elif not low < high:
        raise InvalidValueError("make_tensor", f"low must be less than high, got {low} and {high}")
    drawn = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else sizes
    if is_whole:
        low, high = math.ceil(low), math.ceil(high)
        result = randint(int(low), int(high), drawn, device=device).to(dtype)
    else:
        result = (rand(*drawn, dtype=dtypes.float64, device=device) * (high - low) + low).to(dtype)
        if dtype.is_complex:
            result = result + 1j * rand(*drawn, device=device).to(dtype) * (high - low)
    if exclude_zero:
        result[result == 0] = 1 if is_whole else dtypes.finfo(dtype).tiny
    if drawn is not sizes:
        result = result[..., ::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    return result.requires_grad_(requires_grad)
