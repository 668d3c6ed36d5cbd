"""Entries for the ops of networks: convolutions, pooling, normalization, recurrence, losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...fx.node import Node
from ...nn.functional.conv import resolve_window
from .elementwise import converted
from .table import Unsupported, entry
from .values import Value, cpp_type, rank_of, sizes


def flag(value: bool) -> str:
    return "true" if value else "false"


# Convolutions -------------------------------------------------------------------------------------


def window(
    kernel: Sequence[int], stride: Sequence[int], pads: Sequence[Sequence[int]],
    dilation: Sequence[int],
) -> str:  # fmt: skip
    """Return the settings of a window: kernel, stride, pads before and behind, dilation."""
    before, after = (sizes([pair[side] for pair in pads]) for side in (0, 1))
    parts = sizes(kernel), sizes(stride), before, after, sizes(dilation)
    return f"edu::Window{{{', '.join(parts)}}}"


@entry("op:conv2d", "op:conv_nd")
def conv(
    node: Node, input: Value, weight: Value, bias: Value | None = None, *settings: Any,
    **named: Any,
) -> str:  # fmt: skip
    """A convolution over any number of axes."""
    names = ("stride", "padding", "dilation", "groups")
    values = {**dict(zip(names, settings, strict=False)), **named}
    shape = tuple(static_sizes(weight.shape, "filters"))
    kernel, stride, pads, dilation = resolve_window(
        shape, values.get("stride", 1), values.get("padding", 0), values.get("dilation", 1)
    )
    if rank_of(input) != len(shape):
        raise Unsupported("an image without a batch")
    moving = window(kernel, stride, pads, dilation)
    return f"edu::conv({input}, {weight}, {bias or '{}'}, {moving}, {values.get('groups', 1)})"


def static_sizes(shape: Sequence[Any], what: str) -> list[int]:
    """Return sizes that are numbers.

    Raises: Unsupported: one of them is dynamic.
    """
    if not all(isinstance(size, int) for size in shape):
        raise Unsupported(f"{what} of dynamic sizes")
    return [int(size) for size in shape]


@entry("op:conv_transpose_nd")
def conv_transpose(
    node: Node, input: Value, weight: Value, size: Sequence[Any], stride: Sequence[int],
    pads: Sequence[Sequence[int]], dilation: Sequence[int], groups: int,
) -> str:  # fmt: skip
    """A transposed convolution: the gradient of a convolution by its input."""
    moving = window(static_sizes(weight.shape, "filters")[2:], stride, pads, dilation)
    return f"edu::conv_transpose({input}, {weight}, {sizes(size)}, {moving}, {groups})"


@entry("op:conv_weight_grad")
def conv_weight_grad(
    node: Node, input: Value, response: Value, kernel: Sequence[int], stride: Sequence[int],
    pads: Sequence[Sequence[int]], dilation: Sequence[int], groups: int,
) -> str:  # fmt: skip
    """The gradient of a convolution by its filters."""
    moving = window(kernel, stride, pads, dilation)
    return f"edu::conv_weight_grad({input}, {response}, {moving}, {groups})"


# Pooling ------------------------------------------------------------------------------------------


def pool_window(
    kernel: Sequence[Any], stride: Sequence[int] | None, padding: Sequence[int],
    dilation: Sequence[int] | None = None,
) -> str:  # fmt: skip
    """Return the window of a pooling."""
    ones = (1,) * len(kernel)
    static_sizes(kernel, "windows")
    return window(kernel, stride or kernel, [(p, p) for p in padding], dilation or ones)


def outputs_of(shape: Sequence[Any], axes: int, moving: str, input: Value, ceil_mode: bool) -> str:
    """Return how often a window fits: numbers where they are known."""
    last = shape[len(shape) - axes :]
    if all(isinstance(size, int) for size in last):
        return sizes(last)
    if ceil_mode:
        raise Unsupported("ceil_mode with a dynamic size")
    return f"{moving}.outputs({input}.shape)"


@entry("op:max_pool")
def max_pool(
    node: Node, input: Value, kernel_size: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool,
) -> str:  # fmt: skip
    """The largest element of each window."""
    moving = pool_window(kernel_size, stride, padding, dilation)
    outputs = outputs_of(node.meta["shape"], len(kernel_size), moving, input, ceil_mode)
    return f"edu::max_pool({input}, {moving}, {outputs})"


@entry("op:max_pool_indices")
def max_pool_indices(node: Node, input: Value, settings: Sequence[Any]) -> str:
    """The number of the element that each window takes."""
    kernel, stride, padding, dilation, ceil_mode = settings
    moving = pool_window(kernel, stride, padding, dilation)
    outputs = outputs_of(node.meta["shape"], len(kernel), moving, input, ceil_mode)
    taps = cpp_type(node.meta["dtype"])
    return f"edu::max_pool_indices<{taps}>({input}, {moving}, {outputs})"


@entry("op:max_pool_scatter")
def max_pool_scatter(
    node: Node, input: Value, tap: Value, shape: Sequence[Any], settings: Sequence[Any]
) -> str:
    """Each element goes to the one that it was taken from."""
    kernel, stride, padding, dilation, _ = settings
    moving = pool_window(kernel, stride, padding, dilation)
    return f"edu::max_pool_scatter({input}, {tap}, {sizes(shape)}, {moving})"


@entry("op:avg_pool")
def avg_pool(
    node: Node, input: Value, kernel_size: Sequence[Any], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> str:  # fmt: skip
    """The average of each window."""
    if not all(isinstance(size, int) for size in kernel_size):  # the whole of an axis
        axes = sizes(range(rank_of(input) - len(kernel_size), rank_of(input)))
        return f"edu::mean<{cpp_type(node.meta['dtype'])}>({input}, {axes}, true)"
    moving = pool_window(kernel_size, stride, padding)
    outputs = outputs_of(node.meta["shape"], len(kernel_size), moving, input, ceil_mode)
    counts = f"{flag(count_include_pad)}, {divisor_override or 0}"
    value = converted(input, node.meta["dtype"])
    return f"edu::avg_pool({value}, {moving}, {outputs}, {counts})"


@entry("op:avg_pool_grad")
def avg_pool_grad(node: Node, input: Value, shape: Sequence[Any], settings: Sequence[Any]) -> str:
    """Each element is spread evenly over its window."""
    kernel, stride, padding, _, count_include_pad, divisor_override = settings
    moving = pool_window(kernel, stride, padding)
    counts = f"{flag(count_include_pad)}, {divisor_override or 0}"
    return f"edu::avg_pool_grad({input}, {sizes(shape)}, {moving}, {counts})"


# Normalization and attention ----------------------------------------------------------------------


@entry("op:softmax", "op:log_softmax")
def softmax(node: Node, input: Value, dim: int, dtype: Any = None) -> str:
    """Softmax along an axis, or its logarithm."""
    name = getattr(node.target, "__name__", "softmax")
    return f"edu::{name}({converted(input, node.meta['dtype'])}, {dim})"


@entry("op:native_layer_norm")
def layer_norm(
    node: Node, input: Value, weight: Value | None, bias: Value | None, axes: int, eps: float
) -> str:
    """Mean 0 and variance 1 over the last axes."""
    return f"edu::layer_norm({input}, {weight or '{}'}, {bias or '{}'}, {axes}, {eps})"


@entry("op:native_batch_norm")
def batch_norm(
    node: Node, input: Value, weight: Value | None, bias: Value | None, eps: float
) -> str:
    """Mean 0 and variance 1 of each channel over the batch, with both."""
    return f"edu::batch_norm({input}, {weight or '{}'}, {bias or '{}'}, {eps})"


@entry("op:attention_forward")
def attention(
    node: Node, query: Value, key: Value, value: Value, scale: float, is_causal: bool = False
) -> str:
    """softmax(scale · q kᵀ) v."""
    return f"edu::attention({query}, {key}, {value}, {scale}, {flag(is_causal)})"


# Recurrent networks -------------------------------------------------------------------------------


@entry("op:lstm_sequence")
def lstm(node: Node, x: Value, h: Value, c: Value, weight: Value, reverse: bool = False) -> str:
    """The states of an LSTM at each time, and its gates."""
    return f"edu::lstm({x}, {h}, {c}, {weight}, {flag(reverse)})"


@entry("op:gru_sequence")
def gru(
    node: Node, x: Value, h: Value, weight: Value, bias: Value | None = None,
    reverse: bool = False,
) -> str:  # fmt: skip
    """The states of a GRU at each time."""
    return f"edu::gru({x}, {h}, {weight}, {bias or '{}'}, {flag(reverse)})"


@entry("op:rnn_sequence")
def rnn(
    node: Node, x: Value, h: Value, weight: Value, nonlinearity: str = "tanh",
    reverse: bool = False,
) -> str:  # fmt: skip
    """The states of an Elman network at each time."""
    return f"edu::rnn({x}, {h}, {weight}, {flag(nonlinearity == 'tanh')}, {flag(reverse)})"


# Losses -------------------------------------------------------------------------------------------


@entry("op:nll_loss")
def nll_loss(
    node: Node, input: Value, target: Value, weight: Value | None = None,
    ignore_index: int = -100, reduction: str = "mean",
) -> str:  # fmt: skip
    """The negative log-likelihood of classes."""
    values = f"{input}, {converted(target, 'int64')}, {weight or '{}'}, {ignore_index}"
    if reduction == "none":
        return f"edu::nll_losses({values})"
    return f"edu::nll_loss({values}, {flag(reduction == 'mean')})"


@entry("op:nll_grad")
def nll_grad(
    node: Node, input: Value, target: Value, weight: Value | None, shape: Sequence[Any],
    ignore_index: int, reduction: str,
) -> str:  # fmt: skip
    """The gradient of the negative log-likelihood."""
    classes = converted(target, "int64")
    is_mean = flag(reduction == "mean")
    settings = f"{sizes(shape)}, {ignore_index}, {is_mean}"
    return f"edu::nll_grad({input}, {classes}, {weight or '{}'}, {settings})"
