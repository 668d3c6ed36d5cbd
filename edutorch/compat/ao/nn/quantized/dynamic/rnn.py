"""`LSTM` and `GRU` with int8 weights: each product is one of a dynamic `Linear`.

    gates = W_ih x + b_ih + W_hh h + b_hh

The inputs x are quantized once for all times, h at each time step; the gates' functions and the
states stay floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edutorch import nn
from edutorch.core.tensor import Tensor
from edutorch.errors import NotHereError, ShapeError
from edutorch.modes import no_grad
from edutorch.nn import Module, ModuleList
from edutorch.nn.functional.rnn import gru_gates, lstm_gates, run_forward, run_reverse
from edutorch.ops import cat, split, stack

from ..weights import OneLineModule
from .linear import Linear

__all__ = ["GRU", "LSTM"]

SETTINGS = (
    "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
    "bidirectional", "proj_size",
)  # fmt: skip

State = tuple[Tensor, ...]


def lstm_step(x: Tensor, state: State, hidden: Linear) -> State:
    """Return the next h and c; `x` is W_ih x + b_ih."""
    h, c = state
    y = lstm_gates(x + hidden(h), c)
    return y[0], y[1]


def gru_step(x: Tensor, state: State, hidden: Linear) -> State:
    """Return the next h; `x` is W_ih x + b_ih."""
    (h,) = state
    return (gru_gates(x, hidden(h), h),)


STEPS = {"LSTM": lstm_step, "GRU": gru_step}


class DynamicRNN(OneLineModule, nn.RNNBase):
    """Base of both: the float layer's interface, with integer weights.

    `input_layers[i]` and `hidden_layers[i]` have W_ih and W_hh of each layer and direction.
    """

    def __init__(self, mod: Any) -> None:
        Module.__init__(self)
        if mod.proj_size:
            raise NotHereError(
                "quantize_dynamic", "an LSTM with proj_size is not supported",
                {"proj_size": mod.proj_size}, "leave it out of the set of layers",
            )  # fmt: skip
        for name in SETTINGS:
            setattr(self, name, getattr(mod, name))
        self.input_layers, self.hidden_layers = ModuleList(), ModuleList()
        self._all_weights = []
        for weights in mod.all_weights:
            w_ih, w_hh, b_ih, b_hh = weights if mod.bias else (*weights, None, None)
            self.input_layers.append(Linear(w_ih, b_ih, mod.qconfig.weight()))
            self.hidden_layers.append(Linear(w_hh, b_hh, mod.qconfig.weight()))
        self.dtype = self.input_layers[0].dtype
        self.train(mod.training)

    @classmethod
    def from_float(cls, mod: Module, **kwargs: Any) -> DynamicRNN:
        """Make it from a float layer: its `qconfig` says how weights are quantized."""
        return cls(mod)

    def run_layers(self, x: Tensor, sizes: list[int], states: State) -> tuple[Tensor, Any]:
        """Run all steps of all layers. `x` is packed time by time, as for `nn.RNNBase`."""
        directions = (run_forward, run_reverse) if self.bidirectional else (run_forward,)
        last: list[State] = []
        with no_grad():
            for layer in range(self.num_layers):
                outputs = []
                for run, direction in enumerate(directions, layer * len(directions)):
                    start = tuple(state[run] for state in states)
                    parts = split(self.input_layers[run](x), sizes)
                    hidden = self.hidden_layers[run]
                    results, end = direction(STEPS[self.mode], parts, start, hidden)
                    outputs.append(cat(results))
                    last.append(end)
                x = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
                if layer < self.num_layers - 1:
                    x = nn.functional.dropout(x, self.dropout, self.training)
        return x, tuple(stack(tensors) for tensors in zip(*last, strict=True))

    def check_input(self, input: Tensor, axes: int) -> None:
        """Raise ShapeError unless the input has the right number of axes and features."""
        if input.ndim != axes or input.shape[-1] != self.input_size:
            raise ShapeError(
                type(self).__name__, f"expected {axes} dimensions with {self.input_size} features",
                {"input": tuple(input.shape)},
            )  # fmt: skip

    def get_weight(self) -> dict[str, Tensor]:
        """Return the quantized weights by PyTorch's names."""
        return {
            f"weight_{part}_{suffix}": layer.weight()
            for part, layers in (("ih", self.input_layers), ("hh", self.hidden_layers))
            for suffix, layer in zip(self.suffixes(), layers, strict=True)
        }

    def get_bias(self) -> dict[str, Tensor | None]:
        """Return the biases by PyTorch's names."""
        return {
            f"bias_{part}_{suffix}": layer.bias()
            for part, layers in (("ih", self.input_layers), ("hh", self.hidden_layers))
            for suffix, layer in zip(self.suffixes(), layers, strict=True)
        }

    def suffixes(self) -> Sequence[str]:
        """Return the ends of the parameters' names: l0, l0_reverse, …"""
        ends = ("", "_reverse") if self.bidirectional else ("",)
        return [f"l{layer}{end}" for layer in range(self.num_layers) for end in ends]

    def _get_name(self) -> str:
        return f"DynamicQuantized{self.mode}"


class LSTM(DynamicRNN):
    """An LSTM with int8 weights.

    >>> model = nn.Sequential(nn.LSTM(3, 4))
    >>> quantized = edutorch.ao.quantization.quantize_dynamic(model, {nn.LSTM})
    >>> quantized[0](zeros(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """


class GRU(DynamicRNN):
    """A GRU with int8 weights."""
