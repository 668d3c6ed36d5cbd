"""`torch._C`: what libraries ask of PyTorch's compiled part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from edutorch.backends.device import device
from edutorch.core.subclasses import DisableTorchFunctionSubclass
from edutorch.core.tensor import Tensor
from edutorch.modes import override_modes
from edutorch.nn.modules.state_dict import parse_to

__all__ = [
    "DispatchKey", "DispatchKeySet", "DisableTorchFunctionSubclass", "_ExcludeDispatchKeyGuard",
    "_TensorMeta", "_disabled_torch_function_impl", "_get_tracing_state", "_log_api_usage_once",
    "_nn",
]  # fmt: skip

_TensorMeta = type(Tensor)


def _disabled_torch_function_impl(
    func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """Call a function on a subclass as on a plain tensor: `__torch_function__` of such a class."""
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs or {})


def _log_api_usage_once(event: str) -> None:
    """Do nothing: nobody counts which functions are used."""


def _get_tracing_state() -> None:
    """Return None: nothing is traced by `torch.jit` here."""


class _Names(type):
    """A class each of whose attributes is its own name."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_Names):
    """The layers through which PyTorch's calls go, as names: `DispatchKey.AutocastCPU`."""


class DispatchKeySet(frozenset[str]):
    """A set of dispatch keys, from one of them; `|` unites two.

    >>> keys = edutorch._C.DispatchKeySet(edutorch._C.DispatchKey.CPU)
    >>> sorted(keys | edutorch._C.DispatchKeySet("CUDA"))
    ['CPU', 'CUDA']
    """

    def __new__(cls, key: str) -> DispatchKeySet:
        return super().__new__(cls, [key])


@contextmanager
def _ExcludeDispatchKeyGuard(keys: frozenset[str]) -> Iterator[None]:
    """Leave layers of PyTorch out; of those, autocast is one that is here, too."""
    if any(key.startswith("Autocast") for key in keys):
        with override_modes(autocast=None):
            yield
    else:
        yield


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Return what `Module.to` is asked for: device, dtype, non_blocking, memory_format."""
    asked, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
    return None if asked is None else device(asked), dtype, non_blocking, memory_format


_nn = SimpleNamespace(_parse_to=_parse_to)
"""Compiled functions behind `torch.nn`: Lightning and fastai read arguments of `to` with one."""
