"""Layers of `torch.nn` in TorchScript, where their own `forward` is more than the subset.

Each function stands in for the `forward` of the layer named in its decorator, and of the classes
derived from it. They are only translated, never called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .. import nn
from ..core.tensor import Tensor
from .functional_forms import aten

F = TypeVar("F", bound=Callable[..., Any])
LAYER_FORMS: dict[type, Any] = {}


def forward_of(*classes: type) -> Callable[[F], F]:
    """Register the form of layers."""

    def register(function: F) -> F:
        LAYER_FORMS.update(dict.fromkeys(classes, function))
        return function

    return register


def parameter_list(module: nn.Module) -> list[Tensor]:
    """Stand for `[module.weight_ih_l0, …]`: all parameters in their order."""
    return list(module.parameters())


parameter_list.expands_parameters = True  # type: ignore[attr-defined]


@forward_of(nn.Sequential)
def sequential(self, input):  # noqa: ANN001, ANN201
    for module in self:
        input = module(input)
    return input


@forward_of(nn.Identity)
def identity(self, input):  # noqa: ANN001, ANN201
    return input


# Convolutions -----------------------------------------------------------------------------------


@forward_of(nn.Conv1d)
def conv1d(self: nn.Conv1d, input: Tensor) -> Tensor:
    assert self.padding_mode == "zeros", "only zeros are padded in TorchScript"
    x = aten.unsqueeze(input, 0) if input.dim() == 2 else input
    y = aten.conv1d(
        x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
    )
    return aten.squeeze(y, 0) if input.dim() == 2 else y


@forward_of(nn.Conv2d)
def conv2d(self: nn.Conv2d, input: Tensor) -> Tensor:
    assert self.padding_mode == "zeros", "only zeros are padded in TorchScript"
    x = aten.unsqueeze(input, 0) if input.dim() == 3 else input
    y = aten.conv2d(
        x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
    )
    return aten.squeeze(y, 0) if input.dim() == 3 else y


@forward_of(nn.Conv3d)
def conv3d(self: nn.Conv3d, input: Tensor) -> Tensor:
    assert self.padding_mode == "zeros", "only zeros are padded in TorchScript"
    x = aten.unsqueeze(input, 0) if input.dim() == 4 else input
    y = aten.conv3d(
        x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
    )
    return aten.squeeze(y, 0) if input.dim() == 4 else y


@forward_of(nn.ConvTranspose1d)
def conv_transpose1d(self: nn.ConvTranspose1d, input: Tensor) -> Tensor:
    return aten.conv_transpose1d(
        input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups,
        self.dilation,
    )  # fmt: skip


@forward_of(nn.ConvTranspose2d)
def conv_transpose2d(self: nn.ConvTranspose2d, input: Tensor) -> Tensor:
    return aten.conv_transpose2d(
        input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups,
        self.dilation,
    )  # fmt: skip


# Norms and pooling ------------------------------------------------------------------------------


@forward_of(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
def batch_norm(self: nn.BatchNorm2d, input: Tensor) -> Tensor:
    if input.dim() not in self.axes:
        raise ValueError(f"expected another number of dimensions (got {input.dim()}D input)")
    momentum = 0.0 if self.momentum is None else self.momentum
    if self.training and self.num_batches_tracked is not None:
        aten.add_(self.num_batches_tracked, 1)
        if self.momentum is None:
            momentum = 1.0 / aten.item(self.num_batches_tracked)
    uses_batch = self.training or self.running_mean is None
    return aten.batch_norm(
        input, self.weight, self.bias, self.running_mean, self.running_var, uses_batch, momentum,
        self.eps, False,
    )  # fmt: skip


@forward_of(nn.MaxPool1d)
def max_pool1d(self: nn.MaxPool1d, input: Tensor) -> Tensor:
    return aten.max_pool1d(
        input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
    )


@forward_of(nn.MaxPool2d)
def max_pool2d(self: nn.MaxPool2d, input: Tensor) -> Tensor:
    return aten.max_pool2d(
        input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
    )


@forward_of(nn.AvgPool2d)
def avg_pool2d(self: nn.AvgPool2d, input: Tensor) -> Tensor:
    return aten.avg_pool2d(
        input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
        self.count_include_pad, self.divisor_override,
    )  # fmt: skip


@forward_of(nn.AdaptiveAvgPool1d)
def adaptive_avg_pool1d(self: nn.AdaptiveAvgPool1d, input: Tensor) -> Tensor:
    return aten.adaptive_avg_pool1d(input, self.output_size)


@forward_of(nn.AdaptiveAvgPool2d)
def adaptive_avg_pool2d(self: nn.AdaptiveAvgPool2d, input: Tensor) -> Tensor:
    return aten.adaptive_avg_pool2d(input, self.output_size)


@forward_of(nn.AdaptiveMaxPool2d)
def adaptive_max_pool2d(self: nn.AdaptiveMaxPool2d, input: Tensor) -> Tensor:
    return aten.adaptive_max_pool2d(input, self.output_size)[0]


# Recurrent networks -----------------------------------------------------------------------------


@forward_of(nn.LSTM)
def lstm(
    self: nn.LSTM, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    axis = 0 if self.batch_first else 1
    single = input.dim() == 2
    x = aten.unsqueeze(input, axis) if single else input
    layers = self.num_layers * (2 if self.bidirectional else 1)
    size = self.proj_size if self.proj_size > 0 else self.hidden_size
    if hx is None:
        h = aten.zeros([layers, x.size(axis), size], dtype=x.dtype, device=x.device)
        c = aten.zeros([layers, x.size(axis), self.hidden_size], dtype=x.dtype, device=x.device)
    else:
        h = aten.unsqueeze(hx[0], 1) if single else hx[0]
        c = aten.unsqueeze(hx[1], 1) if single else hx[1]
    y, h_n, c_n = aten.lstm(
        x, [h, c], parameter_list(self), self.bias, self.num_layers, self.dropout, self.training,
        self.bidirectional, self.batch_first,
    )  # fmt: skip
    if single:
        return aten.squeeze(y, axis), (aten.squeeze(h_n, 1), aten.squeeze(c_n, 1))
    return y, (h_n, c_n)


@forward_of(nn.GRU)
def gru(self: nn.GRU, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
    axis = 0 if self.batch_first else 1
    single = input.dim() == 2
    x = aten.unsqueeze(input, axis) if single else input
    layers = self.num_layers * (2 if self.bidirectional else 1)
    if hx is None:
        h = aten.zeros([layers, x.size(axis), self.hidden_size], dtype=x.dtype, device=x.device)
    else:
        h = aten.unsqueeze(hx, 1) if single else hx
    y, h_n = aten.gru(
        x, h, parameter_list(self), self.bias, self.num_layers, self.dropout, self.training,
        self.bidirectional, self.batch_first,
    )  # fmt: skip
    return (aten.squeeze(y, axis), aten.squeeze(h_n, 1)) if single else (y, h_n)


@forward_of(nn.RNN)
def rnn(self: nn.RNN, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
    axis = 0 if self.batch_first else 1
    single = input.dim() == 2
    x = aten.unsqueeze(input, axis) if single else input
    layers = self.num_layers * (2 if self.bidirectional else 1)
    if hx is None:
        h = aten.zeros([layers, x.size(axis), self.hidden_size], dtype=x.dtype, device=x.device)
    else:
        h = aten.unsqueeze(hx, 1) if single else hx
    if self.nonlinearity == "tanh":
        y, h_n = aten.rnn_tanh(
            x, h, parameter_list(self), self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional, self.batch_first,
        )  # fmt: skip
    else:
        y, h_n = aten.rnn_relu(
            x, h, parameter_list(self), self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional, self.batch_first,
        )  # fmt: skip
    return (aten.squeeze(y, axis), aten.squeeze(h_n, 1)) if single else (y, h_n)


@forward_of(nn.LSTMCell)
def lstm_cell(
    self: nn.LSTMCell, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    x = aten.unsqueeze(input, 0) if input.dim() == 1 else input
    if hx is None:
        h = aten.zeros([x.size(0), self.hidden_size], dtype=x.dtype, device=x.device)
        c = h
    else:
        h = aten.unsqueeze(hx[0], 0) if input.dim() == 1 else hx[0]
        c = aten.unsqueeze(hx[1], 0) if input.dim() == 1 else hx[1]
    h_n, c_n = aten.lstm_cell(x, [h, c], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    if input.dim() == 1:
        return aten.squeeze(h_n, 0), aten.squeeze(c_n, 0)
    return h_n, c_n


@forward_of(nn.GRUCell)
def gru_cell(self: nn.GRUCell, input: Tensor, hx: Tensor | None = None) -> Tensor:
    x = aten.unsqueeze(input, 0) if input.dim() == 1 else input
    if hx is None:
        h = aten.zeros([x.size(0), self.hidden_size], dtype=x.dtype, device=x.device)
    else:
        h = aten.unsqueeze(hx, 0) if input.dim() == 1 else hx
    y = aten.gru_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    return aten.squeeze(y, 0) if input.dim() == 1 else y
