"""Recurrent networks: layers that read a sequence and remember.

The equations of one step are in [functional](../functional/recurrent.py), with the loop
that takes the steps. Here is what a layer adds: parameters, first states, and the forms
that its input may have.
"""

from __future__ import annotations

import math
from typing import Any

from ...core.tensor import Tensor
from ...errors import ArgumentError, InvalidValueError, ShapeError, ValueRangeError, warn
from ...ops import empty, index_select, reshape, transpose, zeros
from .. import functional as F
from .. import init
from ..functional.op_decorators import SettingError
from ..functional.rnn import Step, gru_step, lstm_step, network, relu_step, tanh_step
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = [
    "GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase",
]  # fmt: skip

STEPS: dict[str, tuple[Step, int]] = {
    "LSTM": (lstm_step, 4), "GRU": (gru_step, 3), "RNN_TANH": (tanh_step, 1),
    "RNN_RELU": (relu_step, 1),
}  # fmt: skip
"""The step of each kind of network, and how many gates it has."""


class RNNBase(Module):
    """What recurrent layers share.

    Args:
        mode: the kind of step: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        input_size: how many numbers the input has at each time.
        hidden_size: how many the network remembers.
        num_layers: networks on top of each other; each reads the outputs of the one below.
        bias: with shifts.
        batch_first: (n, time, …) instead of (time, n, …); the states stay (layers, n, …).
        dropout: drops numbers between layers while training.
        bidirectional: a second network reads backwards; the outputs stand side by side.
        proj_size: LSTM only: what is handed on has this size, by one more linear map.

    Starts with uniform numbers from ±1/√hidden_size.

    Raises: ValueError, TypeError: settings that make no network.

    >>> nn.RNNBase("GRU", 3, 4)(zeros(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1,
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = dropout, bidirectional, proj_size
        check_settings(self)
        self.dropout = float(dropout)
        self._all_weights = []
        directions = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            below = self.output_size * len(directions) if layer else input_size
            for suffix in directions:
                names = []
                for part, shape in self.shapes(below).items():
                    names.append(f"{part}_l{layer}{suffix}")
                    made = Parameter(empty(shape, device=device, dtype=dtype))
                    self.register_parameter(names[-1], made)
                self._all_weights.append(names)
        self.reset_parameters()

    @property
    def output_size(self) -> int:
        """How many numbers one direction of a layer hands on at each time."""
        return self.proj_size or self.hidden_size

    def shapes(self, input_size: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters of one direction of one layer."""
        rows = STEPS[self.mode][1] * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, input_size), "weight_hh": (rows, self.output_size)
        }  # fmt: skip
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    def reset_parameters(self) -> None:
        """Draw new random numbers."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [weight for weights in self.all_weights for weight in weights]

    def flatten_parameters(self) -> None:
        """Do nothing: PyTorch lays the weights side by side for the GPU's library here."""

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Read a sequence. Returns what came out at each time, and the last states.

        Args:
            input: (time, n, k), one sequence (time, k), or a PackedSequence.
            hx: the first states, (layers · directions, n, hidden); zeros if not given.
        """
        if isinstance(input, PackedSequence):
            data, sizes, order, back = input
            self.check_input(input.data, 2)
            states = self.states(hx, data, int(sizes[0]))
            if hx is not None:
                states = permuted(states, order)
            y, last = self.run(data, sizes.tolist(), states)
            return PackedSequence(y, sizes, order, back), self.shown(permuted(last, back))
        if input.ndim not in (2, 3):
            raise SettingError(
                type(self).__name__, f"Expected input to be 2D or 3D, got {input.ndim}D instead",
                {"input": tuple(input.shape)},
            )  # fmt: skip
        single = input.ndim == 2
        if single:
            input, hx = self.with_batch(input, hx)
        self.check_input(input, 3)
        x = transpose(input, 0, 1) if self.batch_first else input
        times, batch, features = x.shape
        if not times:
            raise ShapeError(
                type(self).__name__, "Expected sequence length to be larger than 0 in RNN",
                {"input": tuple(input.shape)},
            )  # fmt: skip
        states = self.states(hx, x, batch)
        y, last = self.run(reshape(x, (times * batch, features)), [batch] * times, states)
        y = reshape(y, (times, batch, y.shape[-1]))
        y = transpose(y, 0, 1) if self.batch_first else y
        if single:
            y, last = y.squeeze(0 if self.batch_first else 1), [each.squeeze(1) for each in last]
        return y, self.shown(last)

    def run(self, x: Tensor, sizes: list[int], states: Any) -> tuple[Tensor, Any]:
        """Take all steps of all layers."""
        return network(
            STEPS[self.mode][0], x, sizes, states, self._flat_weights, self.bias, self.num_layers,
            self.dropout, self.training, self.bidirectional,
        )  # fmt: skip

    # States: a tuple inside, the user's form outside ------------------------------------------

    def states(self, hx: Any, input: Tensor, batch: int) -> tuple[Tensor, ...]:
        """Return the first states: those that were given, or zeros."""
        runs = self.num_layers * (2 if self.bidirectional else 1)
        sizes = (self.output_size, self.hidden_size) if self.mode == "LSTM" else (self.output_size,)
        if hx is None:
            made = {"dtype": input.dtype, "device": input.device}
            return tuple(zeros(runs, batch, size, **made) for size in sizes)
        given = tuple(hx) if self.mode == "LSTM" else (hx,)
        names = ("hidden[0]", "hidden[1]") if self.mode == "LSTM" else ("hidden",)
        for name, size, state in zip(names, sizes, given, strict=True):
            if tuple(state.shape) != (runs, batch, size):
                raise ShapeError(
                    type(self).__name__,
                    f"Expected {name} size ({runs}, {batch}, {size}), got {list(state.shape)}",
                    {"input": tuple(input.shape)},
                    "a state is (layers · directions, batch, features)",
                )  # fmt: skip
        return given

    def with_batch(self, input: Tensor, hx: Any) -> tuple[Tensor, Any]:
        """Make a batch of one sequence, and of its first states."""
        input = input.unsqueeze(0 if self.batch_first else 1)
        if hx is None:
            return input, None
        given = tuple(hx) if self.mode == "LSTM" else (hx,)
        if any(each.ndim != 2 for each in given):
            found = [each.ndim for each in given]
            raise ShapeError(
                type(self).__name__,
                f"For unbatched 2-D input, hx should also be 2-D but got {found}-D tensors",
            )
        return input, self.shown([each.unsqueeze(1) for each in given])

    def shown(self, states: Any) -> Any:
        """Return the states as the user has them: (h, c) of an LSTM, else h."""
        return tuple(states) if self.mode == "LSTM" else states[0]

    def check_input(self, input: Tensor, axes: int) -> None:
        """Raise unless the input has the right axes, features and type."""
        name, shape = type(self).__name__, tuple(input.shape)
        weight = getattr(self, self._all_weights[0][0])
        if input.dtype is not weight.dtype:
            raise SettingError(
                name, f"RNN input dtype ({input.dtype}) does not match weight dtype "
                f"({weight.dtype}). Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})",
            )  # fmt: skip
        if len(shape) != axes:
            raise ShapeError(
                name, f"input must have {axes} dimensions, got {len(shape)}", {"input": shape}
            )
        if shape[-1] != self.input_size:
            raise ShapeError(
                name, "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {shape[-1]}", {"input": shape},
            )  # fmt: skip

    def extra_repr(self) -> str:
        """Return the settings that differ from the usual ones."""
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
            "bidirectional": False,
        }  # fmt: skip
        for name, value in usual.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text


def check_settings(layer: RNNBase) -> None:
    """Raise TypeError or ValueError for settings that make no network."""
    name, dropout = type(layer).__name__, layer.dropout
    number = isinstance(dropout, int | float) and not isinstance(dropout, bool)
    if not number or not 0 <= dropout <= 1:
        raise InvalidValueError(
            name,
            "dropout should be a number in range [0, 1] representing the probability of an "
            "element being zeroed",
        )
    if dropout and layer.num_layers == 1:
        warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and num_layers=1"
        )
    for setting, kind in (
        ("bias", bool), ("batch_first", bool), ("input_size", int), ("hidden_size", int),
    ):  # fmt: skip
        value = getattr(layer, setting)
        if not isinstance(value, kind):
            raise ArgumentError(
                name, f"{setting} should be of type {kind.__name__}, got: {type(value).__name__}"
            )
    for setting in ("input_size", "hidden_size", "num_layers"):
        if getattr(layer, setting) <= 0:
            raise SettingError(name, f"{setting} must be greater than zero")
    if layer.proj_size < 0:
        raise SettingError(
            name, "proj_size should be a positive integer or zero to disable projections"
        )
    if layer.proj_size >= layer.hidden_size:
        raise SettingError(name, "proj_size has to be smaller than hidden_size")
    if layer.mode not in STEPS:
        raise SettingError(name, f"Unrecognized RNN mode: {layer.mode}")


def permuted(states: tuple[Tensor, ...], order: Tensor | None) -> tuple[Tensor, ...]:
    """Put the samples of all states into another order."""
    if order is None:
        return states
    return tuple(index_select(state, 1, order) for state in states)


class RNN(RNNBase):
    """The simplest network that remembers: hₜ = tanh(W_ih xₜ + b_ih + W_hh hₜ₋₁ + b_hh).

    Args: as for `RNNBase`; `nonlinearity` is "tanh" or "relu".

    Shape: (time, n, input_size) to (time, n, hidden_size), and the last states
    (layers · directions, n, hidden_size).

    Paper: Elman, Finding structure in time, 1990.

    >>> y, h = nn.RNN(3, 4)(zeros(5, 2, 3))
    >>> y.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1,
        nonlinearity: str = "tanh", bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, device: Any = None,
        dtype: Any = None, **refused: Any,
    ) -> None:  # fmt: skip
        no_projection(refused)
        if nonlinearity not in ("tanh", "relu"):
            raise InvalidValueError(
                type(self).__name__,
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.",
            )
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first,
            dropout, bidirectional, 0, device, dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """A network that remembers for long: gates decide what is kept, added and shown.

        i, f, g, o = parts of W_ih xₜ + b_ih + W_hh hₜ₋₁ + b_hh
        cₜ = σ(f) · cₜ₋₁ + σ(i) · tanh(g)        forget a little, add a little
        hₜ = σ(o) · tanh(cₜ)                      show a part of it

    Along c a gradient is only multiplied by σ(f): it does not fade with each step.

    Args: as for `RNNBase`.

    Shape: (time, n, input_size) to (time, n, hidden_size), and the last states (h, c),
    each (layers · directions, n, hidden_size).

    Paper: Hochreiter and Schmidhuber, Long short-term memory, 1997.

    >>> y, (h, c) = nn.LSTM(3, 4, num_layers=2)(zeros(5, 2, 3))
    >>> y.shape, h.shape, c.shape
    (torch.Size([5, 2, 4]), torch.Size([2, 2, 4]), torch.Size([2, 2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, proj_size, device, dtype,
        )  # fmt: skip


class GRU(RNNBase):
    """A network between the two: one state, and gates for how much of it is new.

        rₜ = σ(W_ir xₜ + b_ir + W_hr hₜ₋₁ + b_hr)                what of the old is looked at
        zₜ = σ(W_iz xₜ + b_iz + W_hz hₜ₋₁ + b_hz)                what of the old is kept
        nₜ = tanh(W_in xₜ + b_in + rₜ · (W_hn hₜ₋₁ + b_hn))      what could be new
        hₜ = (1 - zₜ) · nₜ + zₜ · hₜ₋₁

    Args: as for `RNNBase`.

    Shape: (time, n, input_size) to (time, n, hidden_size), and the last states
    (layers · directions, n, hidden_size).

    Paper: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014.

    >>> y, h = nn.GRU(3, 4, bidirectional=True)(zeros(5, 2, 3))
    >>> y.shape, h.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: Any = None, dtype: Any = None, **refused: Any,
    ) -> None:  # fmt: skip
        no_projection(refused)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, 0, device, dtype,
        )  # fmt: skip


def no_projection(settings: dict[str, Any]) -> None:
    """Refuse settings that only an LSTM has, and those that nothing has."""
    if "proj_size" in settings:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    if settings:
        raise TypeError(f"got an unexpected keyword argument '{next(iter(settings))}'")


class RNNCellBase(Module):
    """What the cells share.

    Args:
        input_size: how many numbers the input has.
        hidden_size: how many the cell remembers.
        bias: with shifts.
        num_chunks: how many gates the cell has.

    Starts with uniform numbers from ±1/√hidden_size.
    """

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        for name, shape in (
            ("weight_ih", (rows, input_size)), ("weight_hh", (rows, hidden_size)),
            ("bias_ih", (rows,) if bias else None), ("bias_hh", (rows,) if bias else None),
        ):  # fmt: skip
            made = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new random numbers."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def take(self, step: Step, input: Tensor, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Take one step from the given states (zeros, if there are none), with or without n."""
        for what, each in (("input", input), *(("hidden", state) for state in given)):
            if each.ndim not in (1, 2):
                raise SettingError(
                    type(self).__name__,
                    f"Expected {what} to be 1D or 2D, got {each.ndim}D instead",
                )
        single = input.ndim == 1
        if single:
            input, given = input.unsqueeze(0), tuple(each.unsqueeze(0) for each in given)
        if not given:
            made = {"dtype": input.dtype, "device": input.device}
            count = 2 if step is lstm_step else 1
            given = (zeros(input.shape[0], self.hidden_size, **made),) * count
        self.check(input, given)
        new = step(
            F.linear(input, self.weight_ih, self.bias_ih), given, self.weight_hh, self.bias_hh
        )
        return tuple(each.squeeze(0) for each in new) if single else new

    def check(self, input: Tensor, states: tuple[Tensor, ...]) -> None:
        """Raise ShapeError unless input and states fit the cell and each other."""
        shapes = {"input": tuple(input.shape), "hx": tuple(states[0].shape)}
        name, (batch, features) = type(self).__name__, input.shape
        if features != self.input_size:
            raise ShapeError(
                name, f"input has inconsistent input_size: got {features} expected "
                f"{self.input_size}", shapes,
            )  # fmt: skip
        for number, state in enumerate(states):
            if state.shape[0] != batch:
                raise ShapeError(
                    name, f"Input batch size {batch} doesn't match hidden{number} batch size "
                    f"{state.shape[0]}", shapes,
                )  # fmt: skip
            if state.shape[1] != self.hidden_size:
                raise ShapeError(
                    name, f"hidden{number} has inconsistent hidden_size: got {state.shape[1]}, "
                    f"expected {self.hidden_size}", shapes,
                )  # fmt: skip

    def extra_repr(self) -> str:
        """Return the settings that differ from the usual ones."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """The simplest step: h ← tanh(W_ih x + b_ih + W_hh h + b_hh).

    Args:
        input_size, hidden_size: of x and h.
        bias: with shifts.
        nonlinearity: "tanh" or "relu".

    Shape: (n, input_size) and (n, hidden_size), or both without n, to the new h.

    >>> nn.RNNCell(3, 4)(zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the new state. Raises: RuntimeError: an unknown nonlinearity."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueRangeError("RNNCell", f"Unknown nonlinearity: {self.nonlinearity}")
        step = tanh_step if self.nonlinearity == "tanh" else relu_step
        return self.take(step, input, () if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM: from (h, c) to the new (h, c).

        i, f, g, o = parts of W_ih x + b_ih + W_hh h + b_hh
        c ← σ(f) · c + σ(i) · tanh(g)
        h ← σ(o) · tanh(c)

    Shape: (n, input_size) and a pair of (n, hidden_size), or all without n.

    Paper: Hochreiter and Schmidhuber, Long short-term memory, 1997.

    >>> h, c = nn.LSTMCell(3, 4)(zeros(2, 3))
    >>> h.shape, c.shape
    (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the new states."""
        h, c = self.take(lstm_step, input, () if hx is None else tuple(hx))
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU: n = tanh(xₙ + σ(r) · hₙ);  h ← (1 - σ(z)) · n + σ(z) · h.

    Shape: (n, input_size) and (n, hidden_size), or both without n, to the new h.

    Paper: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014.

    >>> nn.GRUCell(3, 4)(zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the new state."""
        return self.take(gru_step, input, () if hx is None else (hx,))[0]
