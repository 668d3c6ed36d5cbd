"""Convolutions and attention by cuDNN, through NVIDIA's cudnn-frontend.

A computation is a small graph of cuDNN, which it compiles to one kernel or a few. The graph depends
on shapes, strides and dtypes only, and is made once for each; a call hands over addresses. Calls
may be captured in a CUDA graph. What cuDNN does not support is left to the definition.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ... import backends
from ...backends import Backend
from ...backends.numpy import Array
from ...nn import functional
from ...nn.functional import attention, conv
from ...nn.functional.conv import resolve_window

__all__ = ["CudnnGraph", "use_cudnn"]

Run = Callable[..., Any]

TYPES = {"float32": "FLOAT", "float16": "HALF", "bfloat16": "BFLOAT16", "float64": "DOUBLE"}
HALVES = ("float16", "bfloat16")
MAX_HEAD_SIZE = 128
"""Attention takes heads of at most so many elements, a multiple of 8."""

_replaced: list[Any] = []  # by the tests


@functools.cache
def installed_cudnn() -> ModuleType | None:
    """Return cudnn-frontend, or None where it, or cuDNN itself, is not installed."""
    try:
        import cudnn

        cudnn.backend_version()
    except (ImportError, OSError, RuntimeError):
        return None
    return cudnn


@contextmanager
def use_cudnn(module: Any) -> Iterator[None]:
    """Call another module in place of cudnn inside the block, for the device "strict" too."""
    _replaced.append(module)
    graph_of.cache_clear()
    handle.cache_clear()
    try:
        yield
    finally:
        _replaced.pop()
        graph_of.cache_clear()
        handle.cache_clear()


def cudnn_for(backend: Backend) -> Any:
    """Return the module for the arrays of a device; None: it is left to the definition."""
    if _replaced:
        return _replaced[-1]
    if not backend.is_accelerator or backend.is_simulated:
        return None
    return installed_cudnn()


@functools.cache
def handle(device: str) -> Any:
    """Return cuDNN's handle for a device."""
    module = _replaced[-1] if _replaced else installed_cudnn()
    return module.create_handle()


class Spec(NamedTuple):
    """What a graph of cuDNN reads or writes.

    Attributes:
        shape, strides: strides are in elements.
        is_host: whether it is a number of the host, which each call hands over.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    is_host: bool = False

    @classmethod
    def of(cls, array: Array | Host) -> Spec:
        """Return the spec of an array or number."""
        if isinstance(array, Host):
            return cls((1, 1, 1, 1), (1, 1, 1, 1), "float32", True)
        item = array.dtype.itemsize
        return cls(tuple(array.shape), tuple(s // item for s in array.strides), array.dtype.name)


class Host:
    """A number of the host, in float32, as cuDNN takes it: an address in the host's memory."""

    __slots__ = ("array",)

    def __init__(self, value: float) -> None:
        self.array = np.array(value, np.float32)

    def data_ptr(self) -> int:
        """Return the address of the number."""
        return self.array.ctypes.data


class Address:
    """An array as cuDNN takes it: an address, like that of a tensor of PyTorch."""

    __slots__ = ("array", "value")

    def __init__(self, array: Array) -> None:
        self.array, self.value = array, backends.of(array).address(array)

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self.value


Builder = Callable[..., dict[str, Any]]
"""Adds the nodes of a computation to a graph, given its inputs by name; returns its outputs."""


class CudnnGraph:
    """A compiled graph of cuDNN: `run(inputs, outputs)`, both arrays by name."""

    def __init__(
        self, module: Any, device: str, build: Builder, inputs: dict[str, Spec],
        settings: tuple[Any, ...],
    ) -> None:  # fmt: skip
        self.module, self.handle = module, handle(device)
        types = module.data_type
        first = next(iter(inputs.values()))
        wide = types.DOUBLE if first.dtype == "float64" else types.FLOAT
        self.graph = module.pygraph(
            io_data_type=types.__members__[TYPES[first.dtype]], intermediate_data_type=wide,
            compute_data_type=wide, handle=self.handle,
        )  # fmt: skip
        self.inputs = {
            name: self.graph.tensor(
                name=name, dim=list(spec.shape), stride=list(spec.strides),
                data_type=types.__members__[TYPES[spec.dtype]], is_pass_by_value=spec.is_host,
            )
            for name, spec in inputs.items()
        }  # fmt: skip
        self.outputs = build(module, self.graph, self.inputs, *settings)
        self.graph.build([module.heur_mode.A, module.heur_mode.FALLBACK])
        self.workspace = int(self.graph.get_workspace_size())

    def run(self, inputs: dict[str, Array | Host], outputs: dict[str, Array]) -> None:
        """Compute, on the current stream."""
        backend = backends.of(next(iter(outputs.values())))
        space = backend.xp.empty((max(self.workspace, 1),), np.uint8)
        pack = {
            self.inputs[name]: array if isinstance(array, Host) else Address(array)
            for name, array in inputs.items()
        }
        pack |= {self.outputs[name]: Address(array) for name, array in outputs.items()}
        self.module.set_stream(self.handle, backend.xp.cuda.get_current_stream().ptr)
        self.graph.execute(pack, Address(space), handle=self.handle)


@functools.lru_cache(maxsize=1024)
def graph_of(
    device: str, build: Builder, inputs: tuple[tuple[str, Spec], ...], settings: tuple[Any, ...]
) -> CudnnGraph | None:
    """Return the graph for these shapes, or None where cuDNN has none."""
    module = _replaced[-1] if _replaced else installed_cudnn()
    try:
        return CudnnGraph(module, device, build, dict(inputs), settings)
    except module.cudnnGraphNotSupportedError:
        return None


def run_graph(
    build: Builder, inputs: dict[str, Any], settings: tuple[Any, ...],
    outputs: dict[str, tuple[tuple[int, ...], Any]],
) -> dict[str, Any] | None:  # fmt: skip
    """Compute by a graph of cuDNN; return its outputs by name, or None where there is no graph.

    Args:
        inputs: arrays, of which the first has the dtype that counts, and numbers (`Host`).
        outputs: the shape and dtype of each.
    """
    backend = backends.of(next(iter(inputs.values())))
    arrays = [array for array in inputs.values() if not isinstance(array, Host)]
    if cudnn_for(backend) is None or any(array.dtype.name not in TYPES for array in arrays):
        return None
    if not all(array.size for array in arrays):
        return None
    specs = tuple((name, Spec.of(array)) for name, array in inputs.items())
    graph = graph_of(backend.device_name, build, specs, settings)
    if graph is None:
        return None
    made = {name: backend.xp.empty(shape, dtype) for name, (shape, dtype) in outputs.items()}
    graph.run(inputs, made)
    return made


def mark_output(tensor: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Make a tensor of a graph an output, row by row in memory."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tensor.set_output(True).set_dim(list(shape)).set_stride(strides).set_data_type(dtype)


# Convolutions ------------------------------------------------------------------------------------


class Window(NamedTuple):
    """The settings of a convolution, by axis; `pads` are in front and behind."""

    stride: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]

    def arguments(self) -> dict[str, list[int]]:
        """Return cuDNN's arguments."""
        return {
            "pre_padding": [pad[0] for pad in self.pads],
            "post_padding": [pad[1] for pad in self.pads],
            "stride": list(self.stride), "dilation": list(self.dilation),
        }  # fmt: skip


def build_conv(
    module: Any, graph: Any, t: dict[str, Any], window: Window, shape: tuple[int, ...], relu: bool
) -> dict[str, Any]:
    y = graph.conv_fprop(image=t["input"], weight=t["weight"], **window.arguments())
    if "bias" in t:
        y.set_data_type(module.data_type.FLOAT)  # rounded once, at the end
        y = graph.bias(input=y, bias=t["bias"])
    if relu:
        y = graph.relu(input=y)
    return {"y": mark_output(y, shape, t["input"].get_data_type())}


def build_conv_input(
    module: Any, graph: Any, t: dict[str, Any], window: Window, shape: tuple[int, ...]
) -> dict[str, Any]:
    dx = graph.conv_dgrad(loss=t["g"], filter=t["weight"], **window.arguments())
    return {"dx": mark_output(dx, shape, t["g"].get_data_type())}


def build_conv_weight(
    module: Any, graph: Any, t: dict[str, Any], window: Window, shape: tuple[int, ...]
) -> dict[str, Any]:
    dw = graph.conv_wgrad(image=t["input"], loss=t["g"], **window.arguments())
    return {"dw": mark_output(dw, shape, t["g"].get_data_type())}


def convolution(
    input: Array, weight: Array, bias: Array | None, window: Window, relu: bool = False
) -> Any:
    """Return a convolution, plus a bias for each channel, after ReLU where asked; or None.

    Args:
        input: (n, c, …).
        weight: (o, c / groups, …): cuDNN sees the groups by the channels.
        bias: (o).
    """
    filters = zip(weight.shape[2:], window.dilation, strict=True)
    taps = [(size - 1) * step + 1 for size, step in filters]
    axes = zip(input.shape[2:], window.pads, taps, window.stride, strict=True)
    spatial = [(size + sum(pad) - tap) // step + 1 for size, pad, tap, step in axes]
    shape = (input.shape[0], weight.shape[0], *spatial)
    if min(spatial, default=0) < 1 or len(spatial) not in (2, 3) or input.dtype != weight.dtype:
        return None
    arrays = {"input": input, "weight": weight}
    if bias is not None:
        arrays["bias"] = bias.reshape(1, -1, *(1,) * len(spatial))
    results = run_graph(build_conv, arrays, (window, shape, relu), {"y": (shape, input.dtype)})
    return None if results is None else results["y"]


def window_of(weight_shape: tuple[int, ...], stride: Any, padding: Any, dilation: Any) -> Window:
    """Return the settings of a convolution by axis."""
    _, stride, pads, dilation = resolve_window(weight_shape, stride, padding, dilation)
    return Window(tuple(stride), tuple(map(tuple, pads)), tuple(dilation))


@functional.conv2d.kernel("cuda", min_size=0)
@conv.conv_nd.kernel("cuda", min_size=0)
def convolutions() -> Run:
    """Make the convolutions."""

    def run(
        input: Array, weight: Array, bias: Array | None, stride: Any, padding: Any, dilation: Any,
        groups: int,
    ) -> Any:  # fmt: skip
        if input.ndim != weight.ndim or input.shape[1] != weight.shape[1] * groups:
            return None  # the definition says what is wrong
        return convolution(input, weight, bias, window_of(weight.shape, stride, padding, dilation))

    return run


@conv.conv_transpose_nd.kernel("cuda", min_size=0)
def transposed_convolutions() -> Run:
    """Make the gradient of a convolution by its input, which is a transposed convolution."""

    def run(
        input: Array, weight: Array, size: Any, stride: Any, pads: Any, dilation: Any, groups: int
    ) -> Any:
        if len(size) not in (2, 3) or input.dtype != weight.dtype:
            return None
        window = Window(tuple(stride), tuple(map(tuple, pads)), tuple(dilation))
        shape = (input.shape[0], weight.shape[1] * groups, *size)
        arrays = {"g": as_dense(input), "weight": weight}
        results = run_graph(build_conv_input, arrays, (window, shape), {"dx": (shape, input.dtype)})
        return None if results is None else results["dx"]

    return run


@conv.conv_weight_grad.kernel("cuda", min_size=0)
def weight_gradients() -> Run:
    """Make the gradient of a convolution by its filters."""

    def run(
        input: Array, response: Array, kernel: Any, stride: Any, pads: Any, dilation: Any,
        groups: int,
    ) -> Any:  # fmt: skip
        if len(kernel) not in (2, 3) or input.dtype != response.dtype:
            return None
        window = Window(tuple(stride), tuple(map(tuple, pads)), tuple(dilation))
        shape = (response.shape[1], input.shape[1] // groups, *kernel)
        arrays = {"input": input, "g": as_dense(response)}
        results = run_graph(
            build_conv_weight, arrays, (window, shape), {"dw": (shape, input.dtype)}
        )
        return None if results is None else results["dw"]

    return run


def as_dense(array: Array) -> Array:
    """Return a gradient in memory of its own, if it is one number for all elements."""
    return array if 0 not in array.strides else backends.of(array).xp.ascontiguousarray(array)


# Attention --------------------------------------------------------------------------------------


def build_attention(
    module: Any, graph: Any, t: dict[str, Any], scale: float, is_causal: bool,
    shape: tuple[int, ...],
) -> dict[str, Any]:  # fmt: skip
    y, stats = graph.sdpa(
        q=t["q"], k=t["k"], v=t["v"], attn_scale=scale, use_causal_mask=is_causal,
        generate_stats=True,
    )  # fmt: skip
    kept = mark_output(stats, (*shape[:-1], 1), module.data_type.FLOAT)
    return {"y": mark_output(y, shape, t["q"].get_data_type()), "stats": kept}


def build_attention_backward(
    module: Any, graph: Any, t: dict[str, Any], scale: float, is_causal: bool
) -> dict[str, Any]:
    gradients = graph.sdpa_backward(
        q=t["q"], k=t["k"], v=t["v"], o=t["y"], dO=t["g"], stats=t["stats"], attn_scale=scale,
        use_causal_mask=is_causal,
    )  # fmt: skip
    names = ("q", "k", "v")
    return {
        f"d{name}": mark_output(gradient, t[name].get_dim(), t[name].get_data_type())
        for name, gradient in zip(names, gradients, strict=True)
    }


def attention_with_stats(
    query: Array, key: Array, value: Array, scale: float, is_causal: bool
) -> dict[str, Any] | None:
    """Return attention and the logarithm of each query's sum, or None where cuDNN has none."""
    if query.dtype.name not in HALVES or query.ndim != 4:
        return None
    sizes = (query.shape[-1], value.shape[-1])
    if any(size % 8 or size > MAX_HEAD_SIZE for size in sizes):
        return None
    if is_causal and query.shape[2] != key.shape[2]:  # aligned in another way than ours
        return None
    arrays = {"q": as_dense(query), "k": as_dense(key), "v": as_dense(value)}
    if any(array.strides[-1] != array.dtype.itemsize for array in arrays.values()):
        return None
    shape = (*query.shape[:-1], value.shape[-1])
    outputs = {"y": (shape, query.dtype), "stats": ((*shape[:-1], 1), np.dtype("float32"))}
    return run_graph(build_attention, arrays, (float(scale), bool(is_causal), shape), outputs)


@attention.attention_forward.kernel("cuda", min_size=0)
def attention_forward() -> Run:
    """Make softmax(scale · q kᵀ) v, without the weights in memory."""

    def run(query: Array, key: Array, value: Array, scale: float, is_causal: bool) -> Any:
        results = attention_with_stats(query, key, value, scale, is_causal)
        return None if results is None else results["y"]

    return run


@attention.attention_forward.kernel("cuda", "joint_vjp", min_size=0)
def attention_backward() -> Run:
    """Make the gradients of q, k and v. What forward knew about each row is computed once more."""

    def run(g: Array, query: Array, key: Array, value: Array, scale: float, is_causal: bool) -> Any:
        results = attention_with_stats(query, key, value, scale, is_causal)
        if results is None:
            return None
        arrays = {"q": as_dense(query), "k": as_dense(key), "v": as_dense(value)}
        arrays |= {"y": results["y"], "g": as_dense(g), "stats": results["stats"]}
        outputs = {f"d{name}": (arrays[name].shape, query.dtype) for name in "qkv"}
        settings = (float(scale), bool(is_causal))
        made = run_graph(build_attention_backward, arrays, settings, outputs)
        return None if made is None else (made["dq"], made["dk"], made["dv"])

    return run
