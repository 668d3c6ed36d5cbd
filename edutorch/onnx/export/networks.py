"""Entries for the ops of networks: convolutions, pooling, normalization, attention, losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...export.functions import name_of_function
from ...fx.node import Node
from ...nn.functional.conv import resolve_window
from .builder import Builder, Value, is_value
from .elementwise import number
from .movement import rank
from .table import entry


def onnx_pads(pads: Sequence[Sequence[int]]) -> list[int]:
    """Return pads in the order of ONNX: all beginnings, then all ends."""
    return [before for before, _ in pads] + [after for _, after in pads]


# Convolutions -------------------------------------------------------------------------------------


@entry("op:conv2d", "op:conv_nd")
def conv(
    b: Builder, node: Node, input: Value, weight: Value, bias: Value | None = None,
    *settings: Any, **named: Any,
) -> Value:  # fmt: skip
    """A convolution over any number of axes."""
    names = ("stride", "padding", "dilation", "groups")
    values = {**dict(zip(names, settings, strict=False)), **named}
    shape = tuple(int(size) for size in weight.shape)
    kernel, stride, pads, dilation = resolve_window(
        shape, values.get("stride", 1), values.get("padding", 0), values.get("dilation", 1)
    )
    return b.op(
        "Conv", input, weight, bias, kernel_shape=list(kernel), strides=list(stride),
        pads=onnx_pads(pads), dilations=list(dilation), group=values.get("groups", 1),
    )  # fmt: skip


@entry("op:conv_transpose_nd")
def conv_transpose(
    b: Builder, node: Node, input: Value, weight: Value, size: Sequence[Any],
    stride: Sequence[int], pads: Sequence[Sequence[int]], dilation: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """A transposed convolution. What its size lacks becomes padding of the output."""
    kernel = [int(n) for n in weight.shape[2:]]
    extra = []
    for axis, step in enumerate(stride):
        reach = sum(pads[axis]) - dilation[axis] * (kernel[axis] - 1) - 1
        target, source = size[axis], input.shape[axis + 2]
        if is_value(target) or not isinstance(source, int):
            extra.append(0)  # no output padding: checked by `verify`
        else:
            extra.append(int(target) + reach - (source - 1) * step)
    return b.op(
        "ConvTranspose", input, weight, kernel_shape=kernel, strides=list(stride),
        pads=onnx_pads(pads), dilations=list(dilation), group=groups, output_padding=extra,
    )  # fmt: skip


@entry("op:constant_pad")
def constant_pad(b: Builder, node: Node, input: Value, pads: Sequence[Any], value: float) -> Value:
    """A border of one number; negative pads cut."""
    flat = [pair[0] for pair in pads] + [pair[1] for pair in pads]
    return b.op("Pad", input, b.vector(flat), b.const(value, node.meta["dtype"]), mode="constant")


# Normalization ------------------------------------------------------------------------------------


@entry("op:native_layer_norm")
def layer_norm(
    b: Builder, node: Node, input: Value, weight: Value | None, bias: Value | None, axes: int,
    eps: float,
) -> Value:  # fmt: skip
    """Mean 0 and variance 1 over the last axes."""
    if weight is None:
        weight = b.op("Expand", number(b, node, 1.0), last_sizes(b, input, axes))
    return b.op("LayerNormalization", input, weight, bias, axis=-axes, epsilon=eps)


def last_sizes(b: Builder, input: Value, axes: int) -> Value:
    """Return the sizes of the last axes."""
    return b.op("Shape", input, start=rank(input) - axes)


@entry("op:fused_rms_norm")
def rms_norm(
    b: Builder, node: Node, input: Value, weight: Value | None, axes: int, eps: float
) -> Value:
    """A mean square of 1 over the last axes."""
    if b.opset >= 23:
        if weight is None:
            weight = b.op("Expand", number(b, node, 1.0), last_sizes(b, input, axes))
        return b.op("RMSNormalization", input, weight, axis=-axes, epsilon=eps)
    dims = b.const([-axis for axis in range(axes, 0, -1)], np.int64)
    square = b.op("ReduceMean", b.op("Mul", input, input), dims, keepdims=1)
    scale = b.op("Reciprocal", b.op("Sqrt", b.op("Add", square, number(b, node, eps))))
    result = b.op("Mul", input, scale)
    return result if weight is None else b.op("Mul", result, weight)


@entry("op:native_group_norm")
def group_norm(
    b: Builder, node: Node, input: Value, weight: Value | None, bias: Value | None,
    num_groups: int, eps: float,
) -> Value:  # fmt: skip
    """Mean 0 and variance 1 over each group of channels."""
    grouped = b.op("Reshape", input, b.const([0, num_groups, -1], np.int64))
    ones = b.const(np.ones(num_groups), node.meta["dtype"])
    zeros = b.const(np.zeros(num_groups), node.meta["dtype"])
    scaled = b.op("InstanceNormalization", grouped, ones, zeros, epsilon=eps)
    result = b.op("Reshape", scaled, b.shape(input))
    shape = [-1, *[1] * (rank(input) - 2)]
    if weight is not None:
        result = b.op("Mul", result, b.reshape(weight, shape))
    return result if bias is None else b.op("Add", result, b.reshape(bias, shape))


@entry("op:native_batch_norm")
def batch_norm(
    b: Builder, node: Node, input: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """Mean 0 and variance 1 of each channel over the batch, with both."""
    axes = b.const([axis for axis in range(rank(input)) if axis != 1], np.int64)
    shape = [-1, *[1] * (rank(input) - 2)]
    mean = b.op("ReduceMean", input, axes, keepdims=1)
    offset = b.op("Sub", input, mean)
    variance = b.op("ReduceMean", b.op("Mul", offset, offset), axes, keepdims=1)
    eps_value = b.const(eps, input.dtype.numpy())
    result = b.op("Div", offset, b.op("Sqrt", b.op("Add", variance, eps_value)))
    if weight is not None:
        result = b.op("Mul", result, b.reshape(weight, shape))
    if bias is not None:
        result = b.op("Add", result, b.reshape(bias, shape))
    return result, b.reshape(mean, [-1]), b.reshape(variance, [-1])


# Attention ----------------------------------------------------------------------------------------


@entry("op:attention_forward")
def attention(
    b: Builder, node: Node, query: Value, key: Value, value: Value, scale: float,
    is_causal: bool = False,
) -> Value:  # fmt: skip
    """softmax(scale · q kᵀ) v: one node from opset 23 on where there are batch and heads."""
    if b.opset >= 23 and rank(query) == 4:
        return b.op("Attention", query, key, value, scale=float(scale), is_causal=int(is_causal))
    order = [*range(rank(key) - 2), rank(key) - 1, rank(key) - 2]
    scaled = b.op("Mul", query, number(b, node, scale))
    scores = b.op("MatMul", scaled, b.op("Transpose", key, perm=order))
    if is_causal:
        scores = b.op("Where", future_mask(b, query, key), number(b, node, -math.inf), scores)
    return b.op("MatMul", b.op("Softmax", scores, axis=-1), value)


def future_mask(b: Builder, query: Value, key: Value) -> Value:
    """Return a matrix that is True where a key comes after a query."""
    zero, one = b.const(0, np.int64), b.const(1, np.int64)
    rows, columns = (
        b.op("Range", zero, b.size(value, rank(value) - 2), one) for value in (query, key)
    )
    return b.op("Greater", b.unsqueeze(columns, 0), b.unsqueeze(rows, 1))


# Recurrent networks -------------------------------------------------------------------------------

GATE_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""The gates in the order of ONNX (i o f c; z r h), as numbers in ours (i f g o; r z n)."""


def recurrence(
    b: Builder, cell: str, x: Value, weight: Value, bias: Value | None, states: Sequence[Value],
    **attributes: Any,
) -> tuple[Value, ...]:  # fmt: skip
    """Add an LSTM, GRU or RNN whose input is already multiplied with its weights.

    ONNX multiplies the input itself: the weights of the input are an identity matrix here, with its
    rows in the order of ONNX's gates.
    """
    hidden = int(weight.shape[1])
    order = GATE_ORDER[cell]
    rows = np.concatenate([np.arange(hidden) + gate * hidden for gate in order])
    dtype = x.dtype.numpy()
    picked = np.eye(len(order) * hidden, dtype=dtype)[rows]
    picks = b.const(rows, np.int64)
    weights = b.unsqueeze(b.op("Gather", weight, picks, axis=0), 0)
    if bias is None:
        biases = None
    else:
        hidden_bias = b.op("Gather", bias, picks, axis=0)
        zeros = b.const(np.zeros(len(rows)), dtype)
        biases = b.unsqueeze(b.op("Concat", zeros, hidden_bias, axis=0), 0)
    first = [b.unsqueeze(state, 0) for state in states]
    return b.op(
        {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN"}[cell], x, b.const(picked[None]),
        weights, biases, None, *first, outputs=2 + (cell == "lstm"), hidden_size=hidden,
        **attributes,
    )  # fmt: skip


def direction(reverse: bool) -> str:
    return "reverse" if reverse else "forward"


class LstmStates(NamedTuple):
    """The states of an LSTM: h at each time, and the last c, of ONNX's own op.

    Others, and the gates, come from a `Scan` over the steps, which is added where they are read.

    Args:
        hidden, cell: h at each time; the last c.
        inputs: x, h, c and weight, as of `lstm_sequence`.
        reverse: whether it runs backward in time.
        known: what the steps returned, by builder.
        gates: whether this stands for the gates.
    """

    hidden: Value
    cell: Value
    inputs: tuple[Value, Value, Value, Value]
    reverse: bool
    known: dict[Builder, tuple[Value, Value, Value]]
    gates: bool = False

    def pick(self, b: Builder, index: Any) -> Value | None:
        """Return what an index into (h and c, times, …) names if ONNX's op has it, else None."""
        if self.gates:
            return None
        if isinstance(index, int) and index == 0:
            return self.hidden
        last = 0 if self.reverse else -1
        if isinstance(index, tuple) and len(index) == 2 and index[1] == last:
            end = b.op("Gather", self.hidden, b.const(last, np.int64), axis=0)
            return end if index[0] == 0 else b.squeeze(self.cell, 0)
        return None

    def whole(self, b: Builder) -> Value:
        """Return all states, (2, t, n, k), or all gates, (t, n, 4 k)."""
        if b not in self.known:
            self.known[b] = lstm_steps(b, self.inputs, self.reverse)
        hidden, cell, gates = self.known[b]
        if self.gates:
            return gates
        both = b.op("Concat", b.unsqueeze(hidden, 0), b.unsqueeze(cell, 0), axis=0)
        times, batch = self.inputs[0].shape[:2]
        return b.like(both, self.inputs[0].dtype.numpy(), [2, times, batch, hidden.shape[-1]])


def lstm_steps(
    b: Builder, inputs: tuple[Value, Value, Value, Value], reverse: bool
) -> tuple[Value, Value, Value]:
    """Return h, c and the gates of an LSTM at each time, by a Scan over its steps."""
    x, h, c, weight = inputs
    dtype, size = x.dtype.numpy(), h.shape[-1]
    transposed = b.op("Transpose", weight, perm=[1, 0])
    inner = Builder(b.opset, b)
    state = inner.value("hidden", dtype, h.shape)
    cell = inner.value("cell", dtype, c.shape)
    step = inner.value("step", dtype, x.shape[1:])
    gates = inner.op("Add", step, inner.op("MatMul", state, transposed))
    parts = inner.op("Split", gates, outputs=4, axis=-1, num_outputs=4)
    i, f, o = (inner.op("Sigmoid", parts[k]) for k in (0, 1, 3))
    kept, added = inner.op("Mul", f, cell), inner.op("Mul", i, inner.op("Tanh", parts[2]))
    following = inner.op("Add", kept, added)
    output = inner.op("Mul", o, inner.op("Tanh", following))
    rows = [inner.op("Identity", value) for value in (output, following, gates)]
    body = inner.graph([state, cell, step], [output, following, *rows], b.unique("step"))
    *_, hidden, cells, all_gates = b.op(
        "Scan", h, c, x, outputs=5, body=body, num_scan_inputs=1,
        scan_input_directions=[int(reverse)], scan_output_directions=[int(reverse)] * 3,
    )  # fmt: skip
    for value in (hidden, cells):
        b.like(value, dtype, [*x.shape[:2], size])
    return hidden, cells, b.like(all_gates, dtype, x.shape)


@entry("op:lstm_sequence")
def lstm(
    b: Builder, node: Node, x: Value, h: Value, c: Value, weight: Value, reverse: bool = False
) -> tuple[LstmStates, LstmStates]:
    """The states of an LSTM, and its gates."""
    y, _, last = recurrence(b, "lstm", x, weight, None, [h, c], direction=direction(reverse))
    states = LstmStates(b.squeeze(y, 1), last, (x, h, c, weight), reverse, {})
    return states, states._replace(gates=True)


@entry("op:gru_sequence")
def gru(
    b: Builder, node: Node, x: Value, h: Value, weight: Value, bias: Value | None = None,
    reverse: bool = False,
) -> Value:  # fmt: skip
    """The states of a GRU at each time."""
    y, _ = recurrence(
        b, "gru", x, weight, bias, [h], direction=direction(reverse), linear_before_reset=1
    )
    return b.squeeze(y, 1)


@entry("op:rnn_sequence")
def rnn(
    b: Builder, node: Node, x: Value, h: Value, weight: Value, nonlinearity: str = "tanh",
    reverse: bool = False,
) -> Value:  # fmt: skip
    """The states of an Elman network at each time."""
    activation = "Tanh" if nonlinearity == "tanh" else "Relu"
    y, _ = recurrence(
        b, "rnn", x, weight, None, [h], direction=direction(reverse), activations=[activation]
    )
    return b.squeeze(y, 1)


# Losses -------------------------------------------------------------------------------------------


@entry("op:nll_loss")
def nll_loss(
    b: Builder, node: Node, input: Value, target: Value, weight: Value | None = None,
    ignore_index: int = -100, reduction: str = "mean",
) -> Value:  # fmt: skip
    """The negative log-likelihood of classes."""
    is_single = rank(input) == 1
    if is_single:
        input, target = b.unsqueeze(input, 0), b.unsqueeze(target, 0)
    loss = b.op(
        "NegativeLogLikelihoodLoss", input, b.cast(target, np.int64), weight,
        ignore_index=ignore_index, reduction=reduction,
    )  # fmt: skip
    return b.squeeze(loss, 0) if is_single and reduction == "none" else loss


@entry("op:mse_loss", "op:l1_loss")
def difference_loss(
    b: Builder, node: Node, input: Value, target: Value, reduction: str = "mean"
) -> Value:
    """The mean of squared, or absolute, differences."""
    offset = b.op("Sub", input, target)
    is_squared = name_of_function(node.target) == "op:mse_loss"
    size = b.op("Mul", offset, offset) if is_squared else b.op("Abs", offset)
    if reduction == "none":
        return size
    return b.op("ReduceMean" if reduction == "mean" else "ReduceSum", size, keepdims=0)
