"""`torch.ops.aten`: PyTorch's own operators, answered by edutorch's functions.

Most have the name of a function: `aten.relu.default` is `relu`. The rest are in the tables below.
An operator is looked up when it is first asked for, and no schema is kept for it: `_schema` is
that of its name only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import edutorch  # the functions of `linalg`, `special` and `fft` too
from edutorch.core.tensor import Tensor
from edutorch.nn import functional

from .operators import OpNamespace, OpOverload, OpOverloadPacket
from .schema import FunctionSchema

__all__ = ["AtenNamespace"]

OVERLOADS = {
    "default", "Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor", "dim", "int",
    "ScalarSelf", "ScalarOther", "self", "correction", "dim_IntList", "dim_DimnameList", "start",
    "start_step", "Dimname", "IntList", "using_ints", "names", "vec", "x", "Int", "p", "tensor",
    "dim_max", "other", "min", "deprecated", "low", "float", "generator", "like", "sizes", "src",
    "value", "memory_format", "dtype", "Tensor_mode", "Scalar_mode", "mode", "out", "grad_input",
}  # fmt: skip
"""The names of overloads. Our functions tell their arguments apart themselves."""

PREFIXES = {"linalg_": "linalg", "special_": "special", "fft_": "fft"}
"""`aten.linalg_inv` is `linalg.inv`."""


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `aten.native_layer_norm` returns: the result, the mean and 1/σ."""
    dims = tuple(range(-len(normalized_shape), 0))
    mean = input.mean(dims, keepdim=True)
    scale = (input.var(dims, correction=0, keepdim=True) + eps).rsqrt()
    return functional.layer_norm(input, normalized_shape, weight, bias, eps), mean, scale


def batch_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return what `aten.native_batch_norm` returns: the result, and in training mean and 1/σ."""
    dims = (0, *range(2, input.ndim))
    result = functional.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )
    if not training:
        return result, input.new_empty(0), input.new_empty(0)
    return result, input.mean(dims), (input.var(dims, correction=0) + eps).rsqrt()


def group_norm(
    input: Tensor, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `aten.native_group_norm` returns: the result, and each group's mean and 1/σ."""
    groups = input.reshape(N, group, -1)
    scale = (groups.var(-1, correction=0) + eps).rsqrt()
    return functional.group_norm(input, group, weight, bias, eps), groups.mean(-1), scale


def convolution(
    input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    """Convolve: the one operator behind `conv1d`, …, `conv_transpose3d`."""
    dims = input.ndim - 2
    if transposed:
        function = getattr(functional, f"conv_transpose{dims}d")
        return function(
            input, weight, bias, stride, padding, output_padding, groups, dilation
        )  # fmt: skip
    return getattr(functional, f"conv{dims}d")(
        input, weight, bias, stride, padding, dilation, groups
    )


def slice_along(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Return input[start:end:step] along one dimension."""
    return input[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_softmax": lambda input, dim, half_to_float=False: input.softmax(dim),
    "_log_softmax": lambda input, dim, half_to_float=False: input.log_softmax(dim),
    "_to_copy": lambda input, **kwargs: input.to(
        copy=True, **{name: value for name, value in kwargs.items() if name in ("dtype", "device")}
    ),
    "_unsafe_view": lambda input, size: input.reshape(size),
    "_reshape_copy": lambda input, size: input.reshape(size).clone(),
    "alias": lambda input: input.view_as(input),
    "convolution": convolution,
    "native_layer_norm": layer_norm,
    "native_batch_norm": batch_norm,
    "native_group_norm": group_norm,
    "constant_pad_nd": lambda input, pad, value=0: functional.pad(input, pad, "constant", value),
    "index": lambda input, indices: input[
        tuple(slice(None) if index is None else index for index in indices)
    ],
    "slice": slice_along,
    "threshold_backward": lambda grad, input, threshold: grad * (input > threshold),
    "tanh_backward": lambda grad, output: grad * (1 - output * output),
    "sigmoid_backward": lambda grad, output: grad * output * (1 - output),
    "_local_scalar_dense": lambda input: input.item(),
    "lift_fresh_copy": lambda input: input.clone(),
    "lift_fresh": lambda input: input,
    "scalar_tensor": lambda value, **kwargs: edutorch.tensor(value, **kwargs),
    "sym_size": lambda input, dim: input.shape[dim],
    "sym_numel": lambda input: input.numel(),
    "native_dropout": lambda input, p, train: (
        functional.dropout(input, p, bool(train)), edutorch.ones_like(input, dtype=edutorch.bool),
    ),
    "max_pool2d_with_indices": lambda input, *args, **kwargs: functional.max_pool2d(
        input, *args, return_indices=True, **kwargs
    ),
    "_adaptive_avg_pool2d": functional.adaptive_avg_pool2d,
    "upsample_nearest2d": lambda input, size=None, scale=None: functional.interpolate(
        input, size, scale
    ),
    "convert_element_type": lambda input, dtype: input.to(dtype),  # of `prims`
}  # fmt: skip
"""Operators without a function of that name."""


def find_function(name: str) -> Callable[..., Any] | None:
    """Return the function behind `aten.<name>`, or None."""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    for prefix, module in PREFIXES.items():
        if name.startswith(prefix):
            return getattr(getattr(edutorch, module), name.removeprefix(prefix), None)
    if name.startswith("_"):
        return None
    for module in (edutorch.ops, functional):
        if callable(vars(module).get(name)):
            return vars(module)[name]
    return getattr(Tensor, name, None)


class AtenNamespace(OpNamespace):
    """`torch.ops.aten`, and `torch.ops.prims`, whose operators are looked up by name."""

    def fill(self) -> None:
        """Do nothing: operators are looked up one by one."""
        self.is_filled = True

    def find_packet(self, name: str) -> OpOverloadPacket | None:
        """Return the operator of a name, or None."""
        function = find_function(name)
        if function is None:
            return None
        packet = self.packets[name] = AtenPacket(self.name, name, function)
        return packet


class AtenPacket(OpOverloadPacket):
    """All overloads of one of PyTorch's operators."""

    def __init__(self, namespace: str, name: str, function: Callable[..., Any]) -> None:
        super().__init__(namespace, name)
        self.function = function

    def find_overload(self, name: str) -> OpOverload | None:
        """Return an overload, or None if PyTorch has none of that name."""
        if name not in OVERLOADS:
            return None
        overload = self.overload_table[name] = AtenOverload(self, name)
        return overload

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return call_function(self.function, args, kwargs)


class AtenOverload(OpOverload):
    """One of PyTorch's operators."""

    def __init__(self, packet: AtenPacket, overload: str) -> None:
        name = f"{packet.namespace}::{packet.opname}"
        super().__init__(
            packet, FunctionSchema(name, "" if overload == "default" else overload, (), ())
        )
        self.function = packet.function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return call_function(self.function, args, kwargs)


def call_function(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function with PyTorch's names: the first argument of an operator is `self`."""
    if "self" not in kwargs:
        return function(*args, **kwargs)
    others = {name: value for name, value in kwargs.items() if name != "self"}
    return function(kwargs["self"], *args, **others)
