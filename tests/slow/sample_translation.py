"""PyTorch's values and functions as edutorch's: what PyTorch's own samples are made of.

A sample holds tensors of any stride, types, layouts, slices and functions; the function that it is
for may be a lambda of PyTorch's test code. Such a lambda is rebuilt with edutorch in the place of
`torch`, so that both run the same text.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import torch

import edutorch

NAMESPACES = (
    "",
    "nn.functional",
    "nn.init",
    "linalg",
    "special",
    "fft",
    "signal.windows",
    "sparse",
    "autograd",
    "Tensor",
)
DTYPES = {
    getattr(torch, name): getattr(edutorch, name)
    for name in (
        "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
    ).split()
}
NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPES}


class NoCounterpartError(Exception):
    """edutorch has no such type, function or kind of tensor."""


def lookup(root: Any, path: str) -> Any:
    """Return the attribute at a dotted path, or None where there is none."""
    for part in path.split("."):
        root = getattr(root, part, None)
        if root is None:
            return None
    return root


@functools.cache
def public_functions() -> dict[int, tuple[Any, str]]:
    """Return the dotted name of each public function of PyTorch, by the function's id."""
    table: dict[int, tuple[Any, str]] = {}
    for namespace in NAMESPACES:
        owner = lookup(torch, namespace) if namespace else torch
        for name in sorted(dir(owner), key=lambda name: name.startswith("_")):
            value = getattr(owner, name, None)
            if callable(value) and not isinstance(value, torch.dtype):
                path = f"{namespace}.{name}" if namespace else name
                table.setdefault(id(value), (value, path))
    return table


def counterpart(name: str) -> Any:
    """Return edutorch's function, or the method, that has this name in PyTorch; or None."""
    function = lookup(edutorch, name)
    if isinstance(function, (types.NoneType, types.ModuleType, edutorch.dtype)):
        methods = (getattr(edutorch.Tensor, method, None) for method in (name, f"{name}_"))
        return next((method for method in methods if method is not None), None)
    return function


def translate_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return edutorch's function for PyTorch's, or the same text with edutorch as `torch`."""
    known = public_functions().get(id(function))
    if known is not None:
        translated = lookup(edutorch, known[1])
        if translated is None:
            raise NoCounterpartError(known[1])
        return translated
    if isinstance(function, functools.partial):
        keywords = {key: translate(value) for key, value in function.keywords.items()}
        arguments = [translate(value) for value in function.args]
        return functools.partial(translate_function(function.func), *arguments, **keywords)
    if hasattr(function, "sample_inputs_func"):  # an OpInfo, which can be called
        return TranslatedInfo(function)
    if getattr(function, "__name__", "") == "wrapper_set_seed":
        return call_seeded
    if isinstance(function, types.FunctionType):
        return rebuild(function)
    if isinstance(function, type) and function.__module__.startswith("torch."):
        translated = lookup(edutorch, f"{function.__module__}.{function.__qualname__}"[6:])
        translated = translated or lookup(edutorch.nn, function.__qualname__)
        if translated is None:
            raise NoCounterpartError(function.__qualname__)
        return translated
    if isinstance(function, torch.nn.Module):
        raise NoCounterpartError(f"a module as an argument: {type(function).__name__}")
    if getattr(function, "__module__", None) in ("builtins", "operator", "_operator"):
        return function
    raise NoCounterpartError(repr(function))


class TranslatedInfo:
    """One of PyTorch's OpInfos that calls edutorch's function; what else it knows stays.

    Args:
        info: The OpInfo.
    """

    def __init__(self, info: Any) -> None:
        self.info, self.function = info, translate_function(info.op)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.info, name)


def rebuild(function: types.FunctionType) -> Callable[..., Any]:
    """Compile nothing anew: the same code, with globals and closure translated."""
    values = dict(function.__globals__)
    values.update(torch=edutorch, F=edutorch.nn.functional)
    for name in function.__code__.co_names:
        value = values.get(name)
        is_helper = isinstance(value, types.FunctionType) and "torch" in value.__module__
        if is_helper and value is not function:
            values[name] = translate_function(value)
    cells = tuple(
        types.CellType(translate(cell.cell_contents)) for cell in function.__closure__ or ()
    )
    defaults = tuple(translate(value) for value in function.__defaults__ or ())
    rebuilt = types.FunctionType(
        function.__code__, values, function.__name__, defaults or None, cells
    )
    rebuilt.__kwdefaults__ = {
        key: translate(value) for key, value in (function.__kwdefaults__ or {}).items()
    } or None
    return rebuilt


def call_seeded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a random function from a fixed seed."""
    edutorch.manual_seed(42 + _shift)
    return function(*args, **kwargs)


_shift = 0  # of that seed: for another draw


@contextlib.contextmanager
def other_seed(shift: int) -> Iterator[None]:
    """Let both start from other random numbers, also where PyTorch's own wrapper sets a seed."""
    global _shift
    manual_seed = torch.manual_seed
    torch.manual_seed = lambda seed: manual_seed(seed + shift)
    _shift = shift
    try:
        torch.manual_seed(0)
        edutorch.manual_seed(shift)
        yield
    finally:
        torch.manual_seed = manual_seed
        _shift = 0


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Return a copy as a NumPy array with the same strides, also where elements overlap."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.device.type != "cpu":
        raise NoCounterpartError(f"a tensor on {tensor.device}")
    if tensor.layout is not torch.strided or tensor.dtype not in DTYPES:
        raise NoCounterpartError(f"{tensor.dtype} {tensor.layout}")
    if tensor.dim() > 64:
        raise NoCounterpartError("more than NumPy's 64 dims")
    if tensor.dtype is torch.bfloat16:
        array = tensor.view(torch.int16).numpy(force=True).view(ml_dtypes.bfloat16)
    else:
        array = tensor.numpy(force=True)  # also zeros that PyTorch has not made yet
    if array.flags.c_contiguous or 0 in array.shape:
        return array.copy()
    span = sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True))
    flat = np.lib.stride_tricks.as_strided(
        array, (span // array.itemsize + 1,), (array.itemsize,)
    ).copy()
    return np.lib.stride_tricks.as_strided(flat, array.shape, array.strides)


def translate_tensor(tensor: torch.Tensor) -> Any:
    """Return a leaf of edutorch with the same elements, strides and `requires_grad`."""
    if isinstance(tensor, torch.nn.Parameter):
        return edutorch.nn.Parameter(
            edutorch.from_numpy(to_numpy(tensor)), requires_grad=tensor.requires_grad
        )
    if tensor.layout is not torch.strided:
        return translate_sparse(tensor)
    memory = tensor.untyped_storage().nbytes() // tensor.element_size()
    if tensor.dtype in DTYPES and tensor.numel() and tensor.storage_offset() and memory < 10_000:
        flat = edutorch.from_numpy(to_numpy(tensor.detach().as_strided((memory,), (1,), 0)))
        with edutorch.no_grad():  # what lies beside a view can be reached through it
            translated = flat.as_strided(
                tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
            )
    else:
        translated = edutorch.from_numpy(to_numpy(tensor))
    return translated.requires_grad_() if tensor.requires_grad else translated


def translate_sparse(tensor: torch.Tensor) -> Any:
    """Return a sparse leaf of edutorch with the same elements in the same order."""
    plain = tensor.detach()
    values = plain._values() if tensor.layout is torch.sparse_coo else plain.values()
    if tensor.layout is torch.sparse_csr:
        make, parts = edutorch.sparse_csr_tensor, (plain.crow_indices(), plain.col_indices())
    elif tensor.layout is torch.sparse_coo:
        make, parts = edutorch.sparse_coo_tensor, (plain._indices(),)
    else:
        raise NoCounterpartError(str(tensor.layout))
    arrays = [edutorch.from_numpy(to_numpy(part)) for part in (*parts, values)]
    return make(*arrays, tuple(tensor.shape), requires_grad=tensor.requires_grad)


_together: dict[int, Any] | None = None  # the tensors of one call, by the ids of PyTorch's


def translate_together(*values: Any) -> list[Any]:
    """Translate the parts of a call: a tensor that is in it twice is one tensor."""
    global _together
    _together = {}
    try:
        return [translate(value) for value in values]
    finally:
        _together = None


def translate(value: Any) -> Any:
    """Return what edutorch is called with where PyTorch is called with `value`."""
    if isinstance(value, torch.Tensor):
        known = _together.get(id(value)) if _together is not None else None
        translated = translate_tensor(value) if known is None else known
        if _together is not None:
            _together[id(value)] = translated
        return translated
    if isinstance(value, torch.dtype):
        if value not in DTYPES:
            raise NoCounterpartError(str(value))
        return DTYPES[value]
    if isinstance(value, torch.Size):
        return edutorch.Size(value)
    if isinstance(value, (torch.device, torch.memory_format, torch.layout)):
        translated = lookup(edutorch, str(value).removeprefix("torch."))
        if isinstance(value, torch.device):
            return edutorch.device("cpu")
        if translated is None:
            raise NoCounterpartError(str(value))
        return translated
    if isinstance(value, slice):
        return slice(*(translate(part) for part in (value.start, value.stop, value.step)))
    if isinstance(value, tuple):
        parts = [translate(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, list):
        return [translate(part) for part in value]
    if isinstance(value, dict):
        return {key: translate(part) for key, part in value.items()}
    if value is torch:
        return edutorch
    if isinstance(value, torch.Generator):
        return edutorch.Generator().manual_seed(value.initial_seed())
    if callable(value) and not isinstance(value, type(Ellipsis)):
        return translate_function(value)
    return value


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return `value` with each of PyTorch's tensors in it changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        parts = [map_tensors(part, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: map_tensors(part, change) for key, part in value.items()}
    return value


WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def widen(value: Any) -> Any:
    """Return a sample with its floats in float64: what the judge is called with."""

    def wider(tensor: torch.Tensor) -> torch.Tensor:
        dtype = WIDER.get(tensor.dtype)
        if dtype is None:
            return tensor
        return tensor.detach().to(dtype).requires_grad_(tensor.requires_grad)

    value = map_tensors(value, wider)
    if isinstance(value, dict):
        return {
            key: WIDER.get(part, part) if isinstance(part, torch.dtype) else part
            for key, part in value.items()
        }
    return value


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """Start every source of random numbers of both from the same seed."""
    torch.default_generator.manual_seed(0)  # `torch.manual_seed` seeds absent devices too
    np.random.seed(0)
    edutorch.manual_seed(0)
    yield
