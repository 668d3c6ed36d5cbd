"""edutorch: tensors and autograd to be read, with PyTorch's names, drawing their own graph."""

from __future__ import annotations

import gc as _gc
import warnings as _warnings
from math import e, inf, nan, pi
from typing import Any as _Any

# What exists because PyTorch has it lies in `compat/`, and is imported as `edutorch.<name>`.
__path__.append(__path__[0] + "/compat")

from .version import OWN as __version__

# 1/0 is inf and 0/0 is NaN, as in PyTorch: no warning for what our own files compute.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"edutorch\.")

# What these imports make is no garbage: looking for it would take a twentieth of their time.
_collects = _gc.isenabled()
_gc.disable()
try:
    from . import (
        amp, autograd, cpu, cuda, fft, func, kernels, linalg, nn, optim, overrides, random, signal,
        special, utils,
    )  # fmt: skip
finally:
    if _collects:
        _gc.enable()
from .amp import autocast
from .amp.autocast_mode import (
    autocast_decrement_nesting, autocast_increment_nesting, clear_autocast_cache,
    get_autocast_cpu_dtype, get_autocast_dtype, get_autocast_gpu_dtype, is_autocast_cache_enabled,
    is_autocast_cpu_enabled, is_autocast_enabled, set_autocast_cache_enabled,
    set_autocast_cpu_dtype, set_autocast_cpu_enabled, set_autocast_dtype, set_autocast_enabled,
    set_autocast_gpu_dtype,
)  # fmt: skip
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled,
)  # fmt: skip
from .compiler import compile
from .core.formatting import set_printoptions
from .core.shapes import Size, broadcast_shapes
from .core.tensor import Tensor
from .backends.device import device, get_default_device, set_default_device
from .dtypes import (
    bfloat16, can_cast, cdouble, cfloat, complex64, complex128, double, dtype, finfo, float,
    float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float16, float32, float64,
    get_default_dtype, half, iinfo, int, int8, int16, int32, int64, long,
    promote_types, set_default_dtype, short, uint8, uint16, uint32, uint64,
)  # fmt: skip
from .dtypes import bool as bool
from .dtypes import result_type
from .func import vmap
from .errors import OutOfMemory as OutOfMemoryError
from .core.storage import (
    TypedStorage, UntypedStorage, channels_last, channels_last_3d, contiguous_format, layout,
    memory_format, preserve_format, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr,
    strided,
)  # fmt: skip
from .torch_level import *  # before ops: a name of both is the op
from .ops import *
from .old_types import *
from .serialization import load, save
from .settings import *
from .signal.spectrogram import istft, stft
from .amp.lists import wrap_methods as _wrap_methods  # isort: skip

_wrap_methods()  # now that all methods are there

newaxis = None


def _ops_attribute(name: str) -> _Any:
    """Return what `torch.ops` has besides our ops: namespaces of operators, such as `ops.aten`."""
    if name.startswith("__"):
        raise AttributeError(f"module 'edutorch.ops' has no attribute {name!r}", name=name)
    from .library.torch_ops import ops_attribute

    return ops_attribute(name)


setattr(ops, "__getattr__", _ops_attribute)  # noqa: B010, F405

_LATER = (
    "_C", "ao", "audio", "classroom", "distributed", "distributions", "export", "functional",
    "fx", "hub", "jit", "library", "multiprocessing", "onnx", "profiler", "quantization", "rl",
    "sparse", "testing", "text", "train", "types", "vision", "viz", "zoo",
)  # fmt: skip

_NAMES_BY_MODULE = {
    ".classroom": ("check",),
    ".export.control_flow": ("cond", "scan", "while_loop"),
    ".viz.magic": ("load_ipython_extension",),  # `%load_ext edutorch`
    ".ops.sparse.public": (
        "hspmm", "smm", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor",
        "sparse_csr_tensor", "spmm",
    ),
    ".ao.quantized_tensor": (
        "_make_per_tensor_quantized_tensor", "dequantize", "quantize_per_channel",
        "quantize_per_tensor", "quantize_per_tensor_dynamic",
    ),
    ".ao.quantization.fake_quantize": (
        "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine",
    ),
    ".ao.affine": (
        "per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric",
        "per_tensor_affine", "per_tensor_symmetric", "qint8", "qint32", "qscheme", "quint8",
    ),
}  # fmt: skip
_LATER_NAMES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> _Any:
    """Load what few need when it is first asked for: `edutorch.viz`, `edutorch.distributions`."""
    from importlib import import_module

    if name in _LATER:
        return import_module(f"edutorch.{name}")
    if name in _LATER_NAMES:
        return getattr(import_module(f"edutorch{_LATER_NAMES[name]}"), name)
    if name == "default_generator":
        return random.default_generator
    raise AttributeError(f"module 'edutorch' has no attribute {name!r}")
