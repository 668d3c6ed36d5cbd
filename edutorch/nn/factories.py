"""Factory arguments of a layer's tensors: `device`, `dtype` and `memory_format`."""

from __future__ import annotations

from typing import Any

__all__ = ["factory_kwargs"]

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
