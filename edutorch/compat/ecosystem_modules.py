"""PyTorch's small modules that torchvision, torchaudio and timm import, as a table.

`small_modules.py` has those that scripts ask for. The alias imports this file.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from edutorch import hub
from edutorch.core.tensor import Tensor
from edutorch.ops import cat
from edutorch.small_modules import add_module

# Annotations of TorchScript -----------------------------------------------------------------------

TYPES = ("Any", "Dict", "List", "Optional", "Tuple", "Union")

import_module("edutorch.jit")
add_module(
    "jit.annotations", "`torch.jit.annotations`: types in annotations.",
    **{name: getattr(typing, name) for name in TYPES},
    # A list of so many elements, or one for all of them: `BroadcastingList2[int]`.
    **{f"BroadcastingList{count}": list for count in (1, 2, 3)},
)  # fmt: skip


# What another module has --------------------------------------------------------------------------


def tqdm(iterable: Iterable[Any] | None = None, *args: Any, **kwargs: Any) -> Any:
    """Show the progress of a loop, if the package tqdm is there; else return the iterable."""
    try:
        from tqdm.auto import tqdm as bar
    except ModuleNotFoundError:
        return iterable
    return bar(iterable, *args, **kwargs)


add_module(
    "utils.model_zoo", "`torch.utils.model_zoo`: the older name of parts of `torch.hub`.",
    tqdm, load_url=hub.load_state_dict_from_url,
)  # fmt: skip


# Questions about the machine ----------------------------------------------------------------------


def is_compile_supported(device_type: str) -> bool:
    """Return True if `torch.compile` makes kernels for a type of device: here for the CPU."""
    return device_type == "cpu"


def get_cpu_capability() -> str:
    """Return "DEFAULT": the kernels are compiled on this machine, or are NumPy's."""
    return "DEFAULT"


add_module("_dynamo.utils", "`torch._dynamo.utils`: a question to it.", is_compile_supported)
add_module("backends.cpu", "`torch.backends.cpu`: the processor.", get_cpu_capability)


# Private functions that libraries call -----------------------------------------------------------


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Return one tensor with the elements of all, one after another."""
    return cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the parts of a tensor of `_flatten_dense_tensors`, with the shapes of `tensors`."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True))


def _copy_to_script_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function: there is no TorchScript to copy it to."""
    return fn


def is_fake(x: object) -> bool:
    """Return True for a tensor without elements: on the device "meta"."""
    return isinstance(x, Tensor) and x.is_meta


add_module(
    "_utils", "`torch._utils`: private functions of PyTorch.",
    _flatten_dense_tensors, _unflatten_dense_tensors,
)  # fmt: skip
add_module("_jit_internal", "`torch._jit_internal`.", _copy_to_script_wrapper)
add_module("_subclasses", "`torch._subclasses`: tensors without elements.")
add_module("_subclasses.fake_tensor", "`torch._subclasses.fake_tensor`: a question.", is_fake)
