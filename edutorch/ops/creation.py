"""Tensors out of nothing: from numbers, constants and ranges.

Each block computes an array with the device's `xp`; the decorator adds what all of
them share: `dtype`, `device`, `requires_grad`, and sizes one by one or as a tuple.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.numpy import Array
from ..core.apply import InferenceWrites
from ..core.tensor import Tensor, link_view, wrap
from ..device import backend_for
from ..errors import ShapeError
from ..modes import current

CREATIONS: dict[str, Callable[..., Tensor]] = {}
"""Every function made by `creation`, by name."""


def created(array: Array, requires_grad: bool = False) -> Tensor:
    """Wrap a new array; in inference mode it stays outside every graph."""
    output = wrap(array)
    if current().inference:
        output._writes = InferenceWrites()
    return output.requires_grad_() if requires_grad else output


def sizes(op: str, size: Sequence[Any]) -> tuple[int, ...]:
    """Read a shape given as numbers or as one sequence.

    Raises: ShapeError: a size is negative. TypeError: not an integer.
    """
    if len(size) == 1 and not isinstance(size[0], int):
        size = size[0] if isinstance(size[0], Sequence) else (size[0],)
    shape = tuple(operator.index(each) for each in size)
    if any(each < 0 for each in shape):
        raise ShapeError(op, "a size cannot be negative", {"size": shape})
    return shape


def creation(forward: Callable[..., Array]) -> Callable[..., Tensor]:
    """Make a public creation function from `forward(xp, …, dtype)`."""
    name = forward.__name__
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    takes_sizes = parameters[0].kind is inspect.Parameter.VAR_POSITIONAL

    @functools.wraps(forward)
    def function(
        *args: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any
    ) -> Tensor:
        if takes_sizes:
            args = sizes(name, (named.pop("size"),) if "size" in named else args)
        kind = None if dtype is None else dtype.numpy
        backend = backend_for(device)
        return created(backend.asarray(forward(backend.xp, *args, dtype=kind, **named)), requires_grad)

    keyword = inspect.Parameter.KEYWORD_ONLY
    extra = [inspect.Parameter(each, keyword, default=None) for each in ("dtype", "device")]
    extra.append(inspect.Parameter("requires_grad", keyword, default=False))
    kept = [each for each in parameters if each.name != "dtype"]
    function.__signature__ = inspect.Signature([*kept, *extra])  # type: ignore[attr-defined]
    CREATIONS[name] = function
    return function


def _float(dtype: Any) -> Any:
    return dtypes.get_default_dtype().numpy if dtype is None else dtype


@creation
def zeros(xp: Any, *size: int, dtype: Any = None) -> Array:
    """A tensor full of zeros.

    >>> zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return xp.zeros(size, _float(dtype))


@creation
def ones(xp: Any, *size: int, dtype: Any = None) -> Array:
    """A tensor full of ones.

    >>> ones(3)
    tensor([1., 1., 1.])
    """
    return xp.ones(size, _float(dtype))


@creation
def empty(xp: Any, *size: int, dtype: Any = None) -> Array:
    """A tensor whose numbers are whatever was in memory: write before you read.

    >>> empty(2, 0).shape
    torch.Size([2, 0])
    """
    return xp.empty(size, _float(dtype))


@creation
def full(xp: Any, size: Sequence[int], fill_value: Any, *, dtype: Any = None) -> Array:
    """A tensor full of one number, of that number's type.

    >>> full((2,), 7)
    tensor([7, 7])
    """
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    kind = dtypes.scalar_type(fill_value).numpy if dtype is None else dtype
    return xp.full(sizes("full", (size,)), fill_value, kind)


@creation
def eye(xp: Any, n: int, m: int | None = None, *, dtype: Any = None) -> Array:
    """The identity matrix: ones on the diagonal.

    >>> eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    return xp.eye(n, m, dtype=_float(dtype))


@creation
def arange(xp: Any, start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Array:
    """The numbers start, start + step, … up to but without end.

    >>> arange(3), arange(1, 2, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    start, end, step = (
        each.item() if isinstance(each, Tensor) else each for each in (start, end, step)
    )
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) * step < 0:
        raise ShapeError("arange", f"from {start} to {end} cannot be reached in steps of {step}")
    if dtype is None:
        whole = all(isinstance(each, int) for each in (start, end, step))
        dtype = np.dtype(np.int64) if whole else _float(None)
    return xp.arange(start, end, step).astype(dtype)


@creation
def linspace(xp: Any, start: float, end: float, steps: int, *, dtype: Any = None) -> Array:
    """`steps` numbers from start to end, both included, at equal distances.

    >>> linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    return xp.linspace(start, end, steps).astype(_float(dtype))


# From numbers -------------------------------------------------------------------------


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Make a tensor from a number, nested lists or an array; the numbers are copied.

    Raises: ShapeError: the nested lists are not all of one length.

    >>> tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor) and device is None:
        device = data.device
    backend = backend_for(device)
    array = host_array(data, dtype)
    array = array.copy() if array is data or array.base is not None else array
    return created(backend.from_numpy(array), requires_grad)


def host_array(data: Any, dtype: Any = None) -> np.ndarray:
    """Read numbers of any kind into a NumPy array of the type PyTorch would choose."""
    if isinstance(data, Tensor):
        array = backends.of(data._array).to_numpy(data._array)
    elif isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
    else:
        array = from_lists(data)
    kind = array.dtype if dtype is None else dtype.numpy
    dtypes.of(kind)
    return array if array.dtype == kind else array.astype(kind)


def from_lists(data: Any) -> np.ndarray:
    """Read nested lists of numbers (or 0-d tensors)."""
    data = numbers_of(data)
    try:
        array = np.array(data)
    except ValueError:
        raise ragged(data) from None
    if array.dtype.kind in "OUS":
        raise TypeError(f"tensor: cannot make numbers of {type(data).__name__}: {str(data)[:60]}")
    if array.size == 0 and array.dtype == np.float64:
        return array.astype(dtypes.get_default_dtype().numpy)
    if array.dtype == np.float64:
        return array.astype(dtypes.get_default_dtype().numpy)
    if array.dtype == np.complex128:
        return array.astype(dtypes.get_default_dtype().to_complex().numpy)
    return array


def numbers_of(data: Any) -> Any:
    if isinstance(data, list | tuple):
        return [numbers_of(each) for each in data]
    return data.tolist() if isinstance(data, Tensor | np.ndarray | np.generic) else data


def ragged(data: Any) -> ShapeError:
    """Say where nested lists differ in length."""
    path, level = "data", data
    while True:
        lengths = [len(each) if isinstance(each, list) else None for each in level]
        odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if odd is not None:
            return ShapeError(
                "tensor",
                "all lists at one depth must have the same length",
                {f"len({path}[0])": lengths[0], f"len({path}[{odd}])": lengths[odd]},
                "pad the shorter ones, or keep a list of tensors",
            )
        deeper = [i for i, each in enumerate(level) if isinstance(each, list) and each]
        first = next((i for i in deeper if _is_ragged(level[i])), None)
        if first is None:  # the lists agree within each branch, but not between them
            return ShapeError("tensor", "the nested lists differ in depth or length")
        path, level = f"{path}[{first}]", level[first]


def _is_ragged(data: Any) -> bool:
    try:
        np.array(data)
    except ValueError:
        return True
    return False


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Make a tensor from anything, sharing memory with a tensor or array where possible.

    >>> x = ones(2)
    >>> as_tensor(x) is x
    True
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    backend = backend_for(device)
    return created(backend.from_numpy(host_array(data, dtype)))


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """Make a CPU tensor of the same memory as a NumPy array.

    >>> import numpy
    >>> a = numpy.zeros(2); x = from_numpy(a); a[0] = 5; x
    tensor([5., 0.], dtype=torch.float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, got {type(ndarray).__name__}")
    dtypes.of(ndarray.dtype)
    return created(ndarray)


# Like another tensor --------------------------------------------------------------------


def like(input: Any, make: str, dtype: Any, device: Any, requires_grad: bool, *args: Any) -> Any:
    """Make a tensor of the shape, type and device of `input` (an array for an array)."""
    array = input._array if isinstance(input, Tensor) else input
    backend = backends.of(array) if device is None else backend_for(device)
    kind = array.dtype if dtype is None else dtype.numpy
    made = getattr(backend.xp, make)(array.shape, *args, dtype=kind)
    return created(made, requires_grad) if isinstance(input, Tensor) else made


def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros in the shape of another tensor.

    >>> zeros_like(tensor([1, 2]))
    tensor([0, 0])
    """
    return like(input, "zeros", dtype, device, requires_grad)


def ones_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones in the shape of another tensor.

    >>> ones_like(tensor([3, 4]))
    tensor([1, 1])
    """
    return like(input, "ones", dtype, device, requires_grad)


def empty_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor in the shape of another, its numbers not set.

    >>> empty_like(zeros(0)).shape
    torch.Size([0])
    """
    return like(input, "empty", dtype, device, requires_grad)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """One number in the shape of another tensor.

    >>> full_like(tensor([1, 2]), 7)
    tensor([7, 7])
    """
    return like(input, "full", dtype, device, requires_grad, fill_value)


def view_of(tensor: Tensor) -> Tensor:
    """Return another tensor of the same memory, without history."""
    output = wrap(tensor._array)
    link_view(output, tensor)
    return output
