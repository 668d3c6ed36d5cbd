"""Types of layers' arguments, as in `torch.nn.common_types`, and of those of their tensors."""

from __future__ import annotations

from typing import Any

from ..backends.device import DeviceLike as DeviceLike
from ..core.tensor import Tensor
from ..dtypes import DTypeLike as DTypeLike

__all__: list[str] = []

_scalar_or_tuple_any_t = int | tuple[int, ...]
_scalar_or_tuple_1_t = int | tuple[int]
_scalar_or_tuple_2_t = int | tuple[int, int]
_scalar_or_tuple_3_t = int | tuple[int, int, int]
_scalar_or_tuple_4_t = int | tuple[int, int, int, int]
_scalar_or_tuple_6_t = int | tuple[int, int, int, int, int, int]

_size_any_t = _scalar_or_tuple_any_t
_size_1_t = _scalar_or_tuple_1_t
_size_2_t = _scalar_or_tuple_2_t
_size_3_t = _scalar_or_tuple_3_t
_size_4_t = _scalar_or_tuple_4_t
_size_6_t = _scalar_or_tuple_6_t

_ratio_2_t = float | tuple[float, float]
_ratio_3_t = float | tuple[float, float, float]
_ratio_any_t = float | tuple[float, ...]

_tensor_list_t = Tensor | list[Tensor]
_maybe_indices_t = Tensor | tuple[Tensor, Tensor]


FACTORY_NAMES = {"device", "dtype", "memory_format"}


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the factory arguments, passed one by one or as `factory_kwargs`.

    Raises: TypeError: an unknown name, or one that is passed twice.

    >>> nn.factory_kwargs({"factory_kwargs": {"dtype": float64}, "device": "cpu"})
    {'dtype': torch.float64, 'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    unknown = kwargs.keys() - FACTORY_NAMES - {"factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    result = dict(kwargs.get("factory_kwargs", {}))
    for name in kwargs.keys() & FACTORY_NAMES:
        if name in result:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        result[name] = kwargs[name]
    return result
