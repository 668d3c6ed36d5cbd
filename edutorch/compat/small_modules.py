"""PyTorch's small modules: hardware and libraries that edutorch does not use, and other names.

Scripts ask them questions ("is there an Apple GPU?") and set switches, so each exists, and answers
no. A file for each would be longer than what it says: here they are a table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from edutorch import backends, compiler, cuda
from edutorch.backends.device import device
from edutorch.core import return_types
from edutorch.core.autograd.graph import RemovableHandle
from edutorch.core.storage import TypedStorage, UntypedStorage
from edutorch.errors import DeviceError
from edutorch.settings import get_num_threads
from edutorch.version import TorchVersion, __version__


def add_module(name: str, doc: str, *functions: Callable[..., Any], **values: object) -> ModuleType:
    """Make `edutorch.<name>` a module of these functions, by their own names, and these values.

    It is registered at once: that takes less time than finding and reading a file.
    """
    full = f"edutorch.{name}"
    module = ModuleType(full, doc)
    module.__spec__ = ModuleSpec(full, None)  # without one, `importlib.util.find_spec` fails
    vars(module).update({function.__name__: function for function in functions}, **values)
    sys.modules[full] = module
    parent, _, leaf = full.rpartition(".")
    setattr(sys.modules[parent], leaf, module)
    vars(sys.modules[parent]).setdefault("__path__", [])  # a package: its modules can be imported
    return module


# A device that is not there, and a library that is not used --------------------------------------


def is_available() -> bool:
    """Return False: it is not supported."""
    return False


def is_built() -> bool:
    """Return False: it is not supported on any machine."""
    return False


def device_count() -> int:
    """Return 0: no such device is supported."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator on such a device."""


def manual_seed_all(seed: int) -> None:
    """Do nothing: there is no generator on such a device."""


def empty_cache() -> None:
    """Do nothing: there is no memory on such a device."""


def is_current_stream_capturing() -> bool:
    """Return False: there is no such device."""
    return False


class NoDeviceError(DeviceError, AssertionError):
    """A question to a device that is not there."""


def without_device(name: str, message: str) -> Callable[..., Any]:
    """Return the function `name` of a device that is not there: it raises, as PyTorch's does."""

    def function(*args: Any, **named: Any) -> Any:
        raise NoDeviceError(name, message, hint="device='cpu' is the computer's own processor")

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = "Raise NoDeviceError: there is no such device."
    return function


def answering(name: str, answer: Callable[[], Any]) -> Callable[..., Any]:
    """Return the function `name` of a device that is not there, with its only answer."""

    def function(*args: Any, **named: Any) -> Any:
        return answer()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return {answer()!r}: there is no such device."
    return function


NULL_DEVICE = (is_available, device_count, manual_seed)
IN_MPS = {
    "synchronize": "deviceSynchronize",
    "empty_cache": "emptyCache",
    "current_allocated_memory": "getCurrentAllocatedMemory",
    "driver_allocated_memory": "getDriverAllocatedMemory",
    "recommended_max_memory": "getRecommendedMaxMemory",
    "seed": "getDefaultGenerator",
    "get_rng_state": "getDefaultGenerator",
    "set_rng_state": "getDefaultGenerator",
    "set_per_process_memory_fraction": "setMemoryFraction",
}
"""Functions of `torch.mps` that need a device, and what its error calls them."""

IN_XPU = (
    "current_device", "current_stream", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "init", "initial_seed", "mem_get_info",
    "set_rng_state", "synchronize",
)  # fmt: skip
"""Functions of `torch.xpu` that need a device."""

XPU_ANSWERS: dict[str, Callable[[], Any]] = {
    "is_bf16_supported": bool, "is_initialized": bool, "is_tf32_supported": bool,
    "max_memory_allocated": int, "max_memory_reserved": int, "memory_allocated": int,
    "memory_reserved": int, "get_arch_list": list, "get_rng_state_all": list, "memory_stats": dict,
}  # fmt: skip
"""Functions of `torch.xpu` that say that there is nothing: False, 0, [] or {}."""

add_module(
    "mps", "`torch.mps`: Apple GPUs, which are not supported.", *NULL_DEVICE,
    *(without_device(f"mps.{_name}", f"Cannot execute {_inside}() without MPS backend.")
      for _name, _inside in IN_MPS.items()),
)  # fmt: skip
add_module(
    "xpu", "`torch.xpu`: Intel GPUs, which are not supported.", *NULL_DEVICE, manual_seed_all,
    empty_cache, is_current_stream_capturing,
    *(without_device(f"xpu.{_name}", "Torch not compiled with XPU enabled") for _name in IN_XPU),
    *(answering(_name, _answer) for _name, _answer in XPU_ANSWERS.items()),
)  # fmt: skip
add_module(
    "backends.mps", "`torch.backends.mps`: Apple GPUs, which are not supported.",
    is_available, is_built,
)  # fmt: skip
for _name, _library, _values in (
    ("mkl", "Intel's BLAS library", {}),
    ("mkldnn", "oneDNN, Intel's library of deep learning kernels", {"enabled": True}),
    ("openmp", "a library for threads", {}),
):
    _doc = f"`torch.backends.{_name}`: {_library}, which is not used."
    add_module(f"backends.{_name}", _doc, is_available, **_values)


# cuDNN, whose switches are stored and have no effect ----------------------------------------------


def version() -> int | None:
    """Return None: cuDNN is not used."""
    return None


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Set the switches inside a `with` block only."""
    inside = dict(locals())
    switches = vars(cudnn)
    before = {name: switches[name] for name in inside}
    switches.update(inside)
    try:
        yield
    finally:
        switches.update(before)


cudnn = add_module(
    "backends.cudnn", "`torch.backends.cudnn`: switches that scripts set.",
    is_available, version, flags,
    enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
)  # fmt: skip


# The GPU under another name -----------------------------------------------------------------------


def current_accelerator(check_available: bool = False) -> device | None:
    """Return the GPU device, or None if there is no GPU."""
    return device(backends.ACCELERATOR) if cuda.is_available() else None


def of_accelerator(name: str, in_cuda: str) -> Callable[..., Any]:
    """Return a function of `torch.accelerator`: that of `torch.cuda` if there is a GPU."""

    def function(*args: Any, **named: Any) -> Any:
        if not cuda.is_available():
            raise DeviceError(
                f"accelerator.{name}", "Cannot access accelerator device when none is available.",
                hint="ask torch.accelerator.is_available() first",
            )  # fmt: skip
        return getattr(cuda, in_cuda)(*args, **named)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`torch.cuda.{in_cuda}`. Raises: DeviceError: there is no GPU."
    return function


IN_CUDA = {
    "current_device_index": "current_device",
    "current_device_idx": "current_device",
    "set_device_index": "set_device",
    "set_device_idx": "set_device",
    "get_memory_info": "mem_get_info",
    "device_index": "device",
    **{
        name: name
        for name in (
            "current_stream", "empty_cache", "get_device_capability", "max_memory_allocated",
            "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
            "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_stream",
            "synchronize",
        )
    },
}  # fmt: skip
"""The functions of `torch.accelerator`, and their names in `torch.cuda`."""

add_module(
    "accelerator", "`torch.accelerator`: the GPU, whoever made it. Only NVIDIA's are supported.",
    cuda.is_available, cuda.device_count, current_accelerator,
    *(of_accelerator(_name, _in_cuda) for _name, _in_cuda in IN_CUDA.items()),
)  # fmt: skip


# Descriptions of the library ----------------------------------------------------------------------


def show() -> str:
    """Return a description of the libraries in use."""
    return f"edutorch (as PyTorch {__version__}), not compiled\n  - NumPy {np.__version__}\n"


def parallel_info() -> str:
    """Return a description of the threads."""
    return f"at most {get_num_threads()} threads in an op\n"


add_module("__config__", "`torch.__config__`: the libraries in use.", show, parallel_info)
add_module(
    "torch_version", "`torch.torch_version`: versions that compare by numbers.", TorchVersion
)
add_module(
    "return_types", "`torch.return_types`: the named tuples of ops with several results.",
    **{name: value for name, value in vars(return_types).items() if isinstance(value, type)},
)  # fmt: skip


# The compiler under its inner name ----------------------------------------------------------------


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Return a function that runs `f` once and returns a summary of its graph.

    >>> summary = edutorch._dynamo.explain(lambda x: (x * 2).relu())(ones(2))
    >>> summary.graph_count, summary.op_count, summary.break_reasons
    (1, 2, [])
    """

    def explained(*args: Any, **kwargs: Any) -> SimpleNamespace:
        from edutorch.fx import GraphModule, capture

        captured = capture(f, *args, **kwargs)
        calls = [node for node in captured.graph.nodes if node.op == "call_function"]
        return SimpleNamespace(
            graphs=[GraphModule({}, captured.graph)], graph_count=1, op_count=len(calls),
            graph_break_count=len(captured.reasons), break_reasons=captured.reasons,
            ops_per_graph=[[node.target for node in calls]],
        )  # fmt: skip

    return explained(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else explained


def load_compiler(name: str) -> Any:
    """Import the compiler when `config` or `OptimizedModule` is first asked for: it is large."""
    if name in ("config", "OptimizedModule"):
        from edutorch.compilation import compiled_function

        return getattr(compiled_function, name)
    raise AttributeError(f"module 'edutorch._dynamo' has no attribute {name!r}")


add_module(
    "_dynamo", "`torch._dynamo`, as far as programs use it: `reset`, `config` and `explain`.",
    compiler.allow_in_graph, compiler.assume_constant_result, compiler.disable,
    compiler.is_compiling, compiler.list_backends, compiler.reset, explain,
    __getattr__=load_compiler,
)  # fmt: skip


add_module(
    "_dynamo.eval_frame", "`torch._dynamo.eval_frame`: compiled modules.", __getattr__=load_compiler
)


class TransformGetItemToIndex(nullcontext):
    """A context in which `vmap` indexes with batched indices: here it always does."""


add_module(
    "_dynamo._trace_wrapped_higher_order_op", "A private module that transformers asks.",
    TransformGetItemToIndex=TransformGetItemToIndex,
)  # fmt: skip


# Classes of ours under another name ---------------------------------------------------------------

add_module("storage", "`torch.storage`: the memory of tensors.", UntypedStorage, TypedStorage)
add_module(
    "utils.hooks", "`torch.utils.hooks`: the handles of hooks.", RemovableHandle=RemovableHandle
)
add_module(
    "nn.parallel.distributed", "`torch.nn.parallel.distributed`.",
    __getattr__=lambda name: getattr(import_module("edutorch.nn.parallel"), name),
)  # fmt: skip
add_module(
    "futures", "`torch.futures`: results that come later, as hooks of DDP return them.",
    __getattr__=lambda name: getattr(import_module("edutorch.distributed.work"), name),
)  # fmt: skip
