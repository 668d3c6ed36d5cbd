"""Tensors as text: `tensor([0.1269, 0.6931, 2.1269])`, as PyTorch prints them.

Three steps, each a function or two below:

1. A large tensor is cut down to its corners (`visible_part`), so that printing
   a GPU tensor brings only a few elements to the host.
2. All its elements get one common format (`_number_format`), so that columns align.
3. The formatted elements are laid out in nested brackets, followed by suffixes for
   an unusual dtype or device and for the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..backends.numpy import Array, Namespace, Number

_PREFIX = "tensor("


@dataclass(frozen=True, slots=True)
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}
_options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors print from now on; what is left out keeps its value.

    Args:
        precision: digits after the point (4).
        threshold: tensors with more elements show only their corners (1000).
        edgeitems: how many elements of each end a corner shows (3).
        linewidth: characters per line (80).
        profile: start from "default", "short" or "full" (never shortened).
        sci_mode: True for `1.0000e+00` always, False for never, None to decide
            by the values. Unlike the others, it goes back to None if left out.

    Raises: ValueError: `profile` is not one of the three, or a number is too small.

    >>> set_printoptions(precision=2)
    >>> tensor([math.pi])
    tensor([3.14])
    >>> set_printoptions(profile="default")
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"set_printoptions: profile is one of {list(_PROFILES)}, got {profile!r}")
    arguments = {
        "precision": precision, "threshold": threshold,
        "edgeitems": edgeitems, "linewidth": linewidth,
    }  # fmt: skip
    changes: dict[str, Any] = {
        name: value for name, value in arguments.items() if value is not None
    }
    for name, value in changes.items():
        least = 0 if name in ("precision", "threshold") else 1
        if value < least:
            raise ValueError(f"set_printoptions: {name} is at least {least}, got {value}")
    start = _PROFILES[profile] if profile else _options
    _options = replace(start, **changes, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """Return how tensors print at present, as `set_printoptions` takes it.

    >>> get_printoptions()["precision"]
    4
    """
    return asdict(_options)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Print in another way inside a `with` block; see `set_printoptions`.

    >>> with printoptions(precision=2):
    ...     print(tensor([math.pi]))
    tensor([3.14])
    """
    global _options
    before = _options
    set_printoptions(**options)
    try:
        yield
    finally:
        _options = before


# ---------------------------------------------------------------- which elements


def visible_part(array: Array, xp: Namespace = np) -> Any:
    """Return what printing shows of `array`: all of it, or its corners if it is large.

    Args:
        array: an array of any backend, `xp` that backend's module.

    >>> from edutorch.core.formatting import visible_part
    >>> import numpy
    >>> visible_part(numpy.arange(5000))
    array([   0,    1,    2, 4997, 4998, 4999])
    """
    if math.prod(array.shape) <= _options.threshold:
        return array
    edge = _options.edgeitems
    for axis, length in enumerate(array.shape):
        # Only where something is left out; the gap is drawn later from the shape.
        if length > 2 * edge:
            before = (slice(None),) * axis
            ends = array[(*before, slice(edge))], array[(*before, slice(length - edge, length))]
            array = xp.concatenate(ends, axis=axis)
    return array


# ---------------------------------------------------------------- one element


@dataclass(frozen=True, slots=True)
class _NumberFormat:
    """The format of each element of one tensor; `width` makes them line up."""

    spec: str
    width: int
    whole: bool = False

    def __call__(self, number: Number) -> str:
        text = format(number, self.spec)
        # PyTorch writes 1., and neither nan. nor inf.
        if self.whole and math.isfinite(number):
            text += "."
        return text.rjust(self.width)


def _is_scientific(sizes: np.ndarray, whole: bool) -> bool:
    """Return False if the magnitudes are similar, and neither huge nor tiny."""
    if _options.sci_mode is not None:
        return _options.sci_mode
    # PyTorch's three limits: four columns of digits have to tell the elements apart.
    smallest, largest = sizes.min(), sizes.max()
    return bool(largest / smallest > 1000 or largest > 1e8 or (smallest < 1e-4 and not whole))


def _float_format(elements: np.ndarray) -> _NumberFormat:
    """Return the format of floats. Zeros, nan and inf fit into any: the other elements decide."""
    # float16 would overflow in the ratio of largest and smallest.
    elements = elements.astype(np.float64)
    deciding = elements[np.isfinite(elements) & (elements != 0)]
    if deciding.size == 0:
        return _NumberFormat(".0f", 1, whole=True)
    whole = bool((deciding == np.ceil(deciding)).all())
    if _is_scientific(np.abs(deciding), whole):
        style = _NumberFormat(f".{_options.precision}e", 0)
    elif whole:
        style = _NumberFormat(".0f", 0, whole=True)
    else:
        style = _NumberFormat(f".{_options.precision}f", 0)
    # By the elements that are shown, as PyTorch does: other parts may have other widths.
    return replace(style, width=max(map(len, map(style, deciding.tolist()))))


def _number_format(elements: np.ndarray) -> tuple[Callable[[Any], str], int]:
    """Return a function that formats one element, and the width of its text."""
    if elements.dtype.kind == "c":
        real, imag = _float_format(np.real(elements)), _float_format(np.imag(elements))

        def write_complex(number: complex) -> str:
            # The sign stands between the parts: padding in front of it would tear them apart.
            imaginary = imag(number.imag).lstrip()
            sign = "" if imaginary.startswith("-") else "+"
            return f"{real(number.real)}{sign}{imaginary}j"

        return write_complex, real.width + imag.width + 1
    if elements.dtype.kind in "biu":
        width = max(len(str(number)) for number in elements.ravel().tolist())
        return lambda number: str(number).rjust(width), width
    style = _float_format(elements)
    return style, style.width


# ---------------------------------------------------------------- layout


def _with_gap(items: list[str], length: int, mark: str) -> list[str]:
    """Mark where elements were left out, if any were."""
    edge = _options.edgeitems
    return items if len(items) == length else [*items[:edge], mark, *items[edge:]]


def _nested(words: np.ndarray, shape: tuple[int, ...], indent: int, width: int) -> str:
    """Lay out `words`, the visible elements of a tensor of `shape`, in nested brackets."""
    if words.ndim == 0:
        return words.item()
    inside = " " * (indent + 1)
    if words.ndim == 1:
        items = _with_gap(words.tolist(), shape[0], " ...")
        # 2: the comma and the space.
        count = max(1, (_options.linewidth - indent) // (width + 2))
        lines = [", ".join(items[at : at + count]) for at in range(0, len(items), count)]
        return "[" + (",\n" + inside).join(lines) + "]"
    rows = [_nested(row, shape[1:], indent + 1, width) for row in words]
    # A blank line between matrices, two between stacks of them, and so on.
    separator = "," + "\n" * (words.ndim - 1) + inside
    return "[" + separator.join(_with_gap(rows, shape[0], "...")) + "]"


def with_suffixes(text: str, suffixes: list[str], new_line: bool = False) -> str:
    """Append `suffixes`, each on the current line if it still fits there.

    Args: new_line: whether the first begins a line, as that of a sparse tensor does.
    """
    # The length of the last line, and the closing bracket.
    used = len(text) - text.rfind("\n") + 1
    for position, suffix in enumerate(suffixes):
        if used + len(suffix) + 2 > _options.linewidth or (new_line and not position):
            text += ",\n" + " " * len(_PREFIX) + suffix
            used = len(_PREFIX) + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text + ")"


def _complex_of(real_name: str) -> str:
    return "complex128" if real_name == "float64" else "complex64"


def elements_text(part: np.ndarray, shape: tuple[int, ...], indent: int) -> str:
    """Write the visible elements of a tensor of `shape`, further lines indented so far."""
    write, width = _number_format(part)
    words = np.array([write(number) for number in part.ravel().tolist()], dtype=object)
    return _nested(words.reshape(part.shape), shape, indent, width)


def tensor_text(
    part: np.ndarray | None,
    dtype_name: str,
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    device_name: str = "cpu",
    default_dtype_name: str = "float32",
    shape: tuple[int, ...] | None = None,
) -> str:
    """Write a tensor as PyTorch does.

    Args:
        part: the visible part, on the host: the result of `visible_part`; None without elements.
        dtype_name: `"float32"`; shown unless the elements imply it.
        requires_grad, grad_fn_name: how it takes part in the graph.
        device_name: `"cpu"` is not shown.
        default_dtype_name: the default dtype at present.
        shape: the whole tensor's shape (that of `part` if left out).

    >>> from edutorch.core.formatting import tensor_text
    >>> import numpy
    >>> print(tensor_text(numpy.array([[1.0, 20.5], [-3.0, 0.0]]), "float64"))
    tensor([[ 1.0000, 20.5000],
            [-3.0000,  0.0000]], dtype=torch.float64)
    """
    shape = part.shape if shape is None and part is not None else shape or ()
    suffixes = [f"device='{device_name}'"] if device_name != "cpu" else []
    silent = {default_dtype_name}
    if part is None:
        body = "..."
        suffixes.append(f"size={tuple(shape)}")
    elif part.size == 0:
        body = "[]"
        if len(shape) != 1:
            suffixes.append(f"size={tuple(shape)}")
    else:
        # What the elements show by themselves: 1, True and 1.+2.j.
        silent |= {_complex_of(default_dtype_name), "int64", "bool"}
        body = elements_text(part, shape, len(_PREFIX))
    if dtype_name not in silent:
        suffixes.append(f"dtype=torch.{dtype_name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return with_suffixes(_PREFIX + body, suffixes)
