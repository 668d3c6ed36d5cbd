"""Where the tensors of a layer are made, and of which type: `device` and `dtype`."""

from __future__ import annotations

from typing import Any

__all__ = ["factory_kwargs"]

FACTORY_NAMES = {"device", "dtype", "memory_format"}


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments for making tensors, given one by one or as `factory_kwargs`.

    Raises: TypeError: another name, or one that is given twice.

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
