"""Creation of tensors with the shape, dtype and device of another one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.device import backend_for
from ..core.allocation import check_memory
from ..core.memory_format import make_in_order, memory_order, preserve_format
from ..core.subclasses import cast_to_class, result_class
from ..core.tensor import PLAIN_TENSORS, Tensor
from ..core.tensor_methods import as_method
from .creation import empty_strided, parse_size, require_strided, scalar_of, wrap_new
from .from_data import tensor


def make_like(
    input: Any, make: str, dtype: Any, device: Any, requires_grad: bool, *args: Any,
    layout: Any = None, memory_format: Any = None,
) -> Any:  # fmt: skip
    """Make a tensor of the shape, dtype and device of `input` (an array for an array).

    Its memory order is that of `input`, unless `memory_format` is given.
    """
    array = input._array if isinstance(input, Tensor) else input
    array = np.asarray(array) if isinstance(array, np.generic) else array
    backend = backends.of(array) if device is None else backend_for(device)
    array_dtype = array.dtype if dtype is None else dtypes.array_type(dtype)
    build = getattr(backend.xp, make)
    if not isinstance(input, Tensor):
        return build(array.shape, *args, dtype=array_dtype)
    require_strided(f"{make}_like", layout)
    if memory_format is None or memory_format is preserve_format:
        order = memory_order(array)
    else:
        order = memory_format.order_of(f"{make}_like", array.ndim)
    check_memory(f"{make}_like", array.shape, array_dtype)
    result_array = make_in_order(
        lambda shape: build(shape, *args, dtype=array_dtype), array.shape, order
    )
    output = wrap_new(result_array, requires_grad)
    if input.__class__ not in PLAIN_TENSORS:
        output = cast_to_class(result_class([input]) or Tensor, output)
    return output


def zeros_like(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Zeros in the shape of another tensor.

    >>> zeros_like(tensor([1, 2]))
    tensor([0, 0])
    """
    return make_like(
        input, "zeros", dtype, device, requires_grad, layout=layout, memory_format=memory_format
    )


def ones_like(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Ones in the shape of another tensor.

    >>> ones_like(tensor([3, 4]))
    tensor([1, 1])
    """
    return make_like(
        input, "ones", dtype, device, requires_grad, layout=layout, memory_format=memory_format
    )


def empty_like(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialized tensor in the shape of another.

    >>> empty_like(zeros(0)).shape
    torch.Size([0])
    """
    return make_like(
        input, "empty", dtype, device, requires_grad, layout=layout, memory_format=memory_format
    )


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor filled with `fill_value` in the shape of another tensor.

    >>> full_like(tensor([1, 2]), 7)
    tensor([7, 7])
    """
    return make_like(
        input, "full", dtype, device, requires_grad, scalar_of("full_like", fill_value),
        layout=layout, memory_format=memory_format,
    )  # fmt: skip


# Another shape: methods only ------------------------------------------------------------------


def _make_new(input: Tensor, make: str, size: Any, named: dict[str, Any], *value: Any) -> Tensor:
    dtype, device = named.pop("dtype", None), named.pop("device", None)
    requires_grad = named.pop("requires_grad", False)
    require_strided(f"new_{make}", named.pop("layout", None))
    named.pop("pin_memory", None)
    if "size" in named:
        size = (named.pop("size"),)
    if named:
        raise TypeError(f"new_{make}: unexpected arguments {', '.join(named)}")
    backend = backends.of(input._array) if device is None else backend_for(device)
    array_dtype = input._array.dtype if dtype is None else dtypes.array_type(dtype)
    shape = parse_size(f"new_{make}", size)
    check_memory(f"new_{make}", shape, array_dtype)
    array = getattr(backend.xp, make)(shape, *value, dtype=array_dtype)
    return wrap_new(array, requires_grad)


@as_method
def new_zeros(input: Tensor, *size: Any, **named: Any) -> Tensor:
    """Zeros of another shape, with the dtype and device of this tensor.

    >>> tensor([1]).new_zeros(2)
    tensor([0, 0])
    """
    return _make_new(input, "zeros", size, named)


@as_method
def new_ones(input: Tensor, *size: Any, **named: Any) -> Tensor:
    """Ones of another shape, with the dtype and device of this tensor.

    >>> tensor([1]).new_ones((2,))
    tensor([1, 1])
    """
    return _make_new(input, "ones", size, named)


@as_method
def new_empty(input: Tensor, *size: Any, **named: Any) -> Tensor:
    """An uninitialized tensor of another shape, with the dtype and device of this one.

    >>> tensor([1]).new_empty(0).dtype
    torch.int64
    """
    return _make_new(input, "empty", size, named)


@as_method
def new_full(input: Tensor, size: Any, fill_value: Any, **named: Any) -> Tensor:
    """A filled tensor of another shape, with the dtype and device of this tensor.

    >>> tensor([1.0]).new_full((2,), 7)
    tensor([7., 7.])
    """
    return _make_new(input, "full", (size,), named, scalar_of("new_full", fill_value))


@as_method
def new_empty_strided(
    input: Tensor, size: Any, stride: Any, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialized tensor with the given strides, with the dtype and device of this one.

    >>> tensor([1]).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    return empty_strided(
        size, stride, dtype=dtype or input.dtype, layout=layout, device=device or input.device,
        requires_grad=requires_grad,
    )  # fmt: skip


@as_method
def new_tensor(
    input: Tensor, data: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of the given data, with the dtype and device of this one.

    >>> tensor([1.0]).new_tensor([2, 3])
    tensor([2., 3.])
    """
    require_strided("new_tensor", layout)
    return tensor(
        data, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad
    )
