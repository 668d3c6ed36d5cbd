"""Recurrent layers and cells: RNN, LSTM, GRU.

The equations of one step, and the loop over the steps, are in `nn/functional/rnn.py`. A layer adds
the parameters, the initial states, and the forms that its input may have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.tensor import Tensor
from ...errors import ArgumentError, InvalidValueError, ShapeError, ValueRangeError, warn
from ...ops import index_select, reshape, transpose, zeros
from .. import init
from ..common_types import DeviceLike, DTypeLike
from ..functional.op_decorators import SettingError
from ..functional.rnn import (
    LayerSettings,
    State,
    Step,
    cell_step,
    gru_step,
    lstm_step,
    relu_step,
    run_recurrent,
    tanh_step,
)
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module
from .utils import register_empty

__all__ = [
    "GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase",
]  # fmt: skip

Hidden = Tensor | Sequence[Tensor] | None
"""The states that a user passes: h, or (h, c) for an LSTM; None are zeros."""

STEPS: dict[str, tuple[Step, int]] = {
    "LSTM": (lstm_step, 4), "GRU": (gru_step, 3), "RNN_TANH": (tanh_step, 1),
    "RNN_RELU": (relu_step, 1),
}  # fmt: skip
"""The step function and the number of gates of each mode."""


class RNNBase(Module):
    """Base of the recurrent layers.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        input_size: the number of input features at each time step.
        hidden_size: the number of features of the hidden state.
        num_layers: the number of stacked layers; each reads the outputs of the one below.
        bias: whether the layer adds biases.
        batch_first: (n, time, …) instead of (time, n, …); the states stay (layers, n, …).
        dropout: the probability of zeroing elements between layers while training.
        bidirectional: add a second network that reads backwards; the outputs are concatenated.
        proj_size: LSTM only: the size of a linear projection of the hidden state.

    The parameters are initialized uniformly in ±1/√hidden_size.

    Raises: ValueError, TypeError: invalid settings.

    >>> nn.RNNBase("GRU", 3, 4)(zeros(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = dropout, bidirectional, proj_size
        check_settings(self)
        self.dropout = float(dropout)
        self._all_weights = []
        # PyTorch's names of the parameters, so that its state_dicts load.
        directions = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            layer_input_size = self.output_size * len(directions) if layer else input_size
            for suffix in directions:
                shapes = self.shapes(layer_input_size).items()
                named = {f"{part}_l{layer}{suffix}": shape for part, shape in shapes}
                register_empty(self, named, device, dtype)
                self._all_weights.append(list(named))
        self.reset_parameters()

    @property
    def output_size(self) -> int:
        """The number of output features of one direction of a layer."""
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
        """Reinitialize the parameters."""
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
        """Do nothing: in PyTorch this copies the weights into one buffer for cuDNN."""

    def forward(self, input: Tensor | PackedSequence, hx: Hidden = None) -> tuple[Any, Any]:
        """Return the outputs at each time step, and the last states.

        Args:
            input: (time, n, k), one sequence (time, k), or a PackedSequence.
            hx: the initial states, (layers · directions, n, hidden); zeros by default.
        """
        if isinstance(input, PackedSequence):
            data, sizes, order, inverse_order = input
            self.check_input(input.data, 2)
            states = self.initial_states(hx, data, int(sizes[0]))
            if hx is not None:
                states = permute_states(states, order)
            y, last_states = self.run_layers(data, sizes.tolist(), states)
            # The user sees the states in the order of the batch before it was sorted.
            last_states = permute_states(last_states, inverse_order)
            y = PackedSequence(y, sizes, order, inverse_order)
            return y, self.unpack_state(last_states)
        if input.ndim not in (2, 3):
            raise SettingError(
                type(self).__name__, f"Expected input to be 2D or 3D, got {input.ndim}D instead",
                {"input": tuple(input.shape)},
            )  # fmt: skip
        is_unbatched = input.ndim == 2
        # The loops below know batches only.
        if is_unbatched:
            input, hx = self.add_batch_axis(input, hx)
        self.check_input(input, 3)
        x = transpose(input, 0, 1) if self.batch_first else input
        steps, batch, features = x.shape
        if not steps:
            raise ShapeError(
                type(self).__name__, "Expected sequence length to be larger than 0 in RNN",
                {"input": tuple(input.shape)},
            )  # fmt: skip
        states = self.initial_states(hx, x, batch)
        y, last_states = self.run_layers(
            reshape(x, (steps * batch, features)), [batch] * steps, states
        )
        y = reshape(y, (steps, batch, y.shape[-1]))
        y = transpose(y, 0, 1) if self.batch_first else y
        if is_unbatched:
            y = y.squeeze(0 if self.batch_first else 1)
            last_states = [state.squeeze(1) for state in last_states]
        return y, self.unpack_state(last_states)

    def run_layers(self, x: Tensor, sizes: list[int], states: State) -> tuple[Tensor, Any]:
        """Run all steps of all layers."""
        settings = LayerSettings(
            self.bias, self.num_layers, self.dropout, self.training, self.bidirectional
        )
        return run_recurrent(STEPS[self.mode][0], x, sizes, states, self._flat_weights, settings)

    # States: always a tuple inside; for the user (h, c) or h ----------------------------------

    def initial_states(self, hx: Hidden, input: Tensor, batch: int) -> tuple[Tensor, ...]:
        """Return the initial states as a tuple: those that were given, or zeros."""
        rows = self.num_layers * (2 if self.bidirectional else 1)
        sizes = (self.output_size, self.hidden_size) if self.mode == "LSTM" else (self.output_size,)
        if hx is None:
            # As the input, not as the weights: under autocast these differ.
            factory_kwargs = {"dtype": input.dtype, "device": input.device}
            return tuple(zeros(rows, batch, size, **factory_kwargs) for size in sizes)
        states = self.as_states(hx)
        names = ("hidden[0]", "hidden[1]") if self.mode == "LSTM" else ("hidden",)
        for name, size, state in zip(names, sizes, states, strict=True):
            if tuple(state.shape) != (rows, batch, size):
                raise ShapeError(
                    type(self).__name__,
                    f"Expected {name} size ({rows}, {batch}, {size}), got {list(state.shape)}",
                    {"input": tuple(input.shape)},
                    "a state is (layers · directions, batch, features)",
                )  # fmt: skip
        return states

    def add_batch_axis(self, input: Tensor, hx: Hidden) -> tuple[Tensor, Any]:
        """Add a batch axis to a sequence and to its initial states."""
        input = input.unsqueeze(0 if self.batch_first else 1)
        if hx is None:
            return input, None
        states = self.as_states(hx)
        if any(state.ndim != 2 for state in states):
            ranks = [state.ndim for state in states]
            raise ShapeError(
                type(self).__name__,
                f"For unbatched 2-D input, hx should also be 2-D but got {ranks}-D tensors",
            )
        return input, self.unpack_state([state.unsqueeze(1) for state in states])

    def as_states(self, hx: Any) -> State:
        """Return the states that a user passed as a tuple."""
        return tuple(hx) if self.mode == "LSTM" else (hx,)

    def unpack_state(self, states: Sequence[Tensor]) -> Any:
        """Return the states in the user's form: (h, c) for an LSTM, else h."""
        return tuple(states) if self.mode == "LSTM" else states[0]

    def check_input(self, input: Tensor, axes: int) -> None:
        """Raise unless the input has the right number of axes, features and dtype."""
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
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
            "bidirectional": False,
        }  # fmt: skip
        for name, value in defaults.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text


def check_settings(layer: RNNBase) -> None:
    """Raise TypeError or ValueError for invalid settings."""
    name, dropout = type(layer).__name__, layer.dropout
    # A bool is an int in Python, but True as a probability is a mistake.
    is_number = isinstance(dropout, int | float) and not isinstance(dropout, bool)
    if not is_number or not 0 <= dropout <= 1:
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
    for setting, cls in (
        ("bias", bool), ("batch_first", bool), ("input_size", int), ("hidden_size", int),
    ):  # fmt: skip
        value = getattr(layer, setting)
        if not isinstance(value, cls):
            raise ArgumentError(
                name,
                f"{setting} should be of type {cls.__name__}, got: {type(value).__name__}",
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


def permute_states(states: tuple[Tensor, ...], order: Tensor | None) -> tuple[Tensor, ...]:
    """Reorder the samples of all states."""
    if order is None:
        return states
    return tuple(index_select(state, 1, order) for state in states)


class RNN(RNNBase):
    """Elman RNN: hₜ = tanh(W_ih xₜ + b_ih + W_hh hₜ₋₁ + b_hh).

    Args: as for `RNNBase`; `nonlinearity` is "tanh" or "relu".

    Shape: (time, n, input_size) to (time, n, hidden_size), and the last states
    (layers · directions, n, hidden_size).

    Paper: Elman, Finding structure in time, 1990.

    >>> y, h = nn.RNN(3, 4)(zeros(5, 2, 3))
    >>> y.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, device: DeviceLike = None, dtype: DTypeLike = None,
        **refused: Any,
    ) -> None:  # fmt: skip
        refuse_projection(refused)
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
    """Long short-term memory: gates control what is forgotten, added and output.

        i, f, g, o = parts of W_ih xₜ + b_ih + W_hh hₜ₋₁ + b_hh
        cₜ = σ(f) · cₜ₋₁ + σ(i) · tanh(g)        forget gate f, input gate i
        hₜ = σ(o) · tanh(cₜ)                      output gate o

    Along c a gradient is only multiplied by σ(f): it need not vanish over many steps.

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
        proj_size: int = 0, device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, proj_size, device, dtype,
        )  # fmt: skip


class GRU(RNNBase):
    """Gated recurrent unit: one state, with a reset gate and an update gate.

        rₜ = σ(W_ir xₜ + b_ir + W_hr hₜ₋₁ + b_hr)                reset gate
        zₜ = σ(W_iz xₜ + b_iz + W_hz hₜ₋₁ + b_hz)                update gate
        nₜ = tanh(W_in xₜ + b_in + rₜ · (W_hn hₜ₋₁ + b_hn))      candidate state
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
        device: DeviceLike = None, dtype: DTypeLike = None, **refused: Any,
    ) -> None:  # fmt: skip
        refuse_projection(refused)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, 0, device, dtype,
        )  # fmt: skip


def refuse_projection(settings: dict[str, Any]) -> None:
    """Raise for `proj_size`, which only an LSTM has, and for unknown settings."""
    # Named by itself, since it is an argument of the base class.
    if "proj_size" in settings:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    if settings:
        raise TypeError(f"got an unexpected keyword argument '{next(iter(settings))}'")


class RNNCellBase(Module):
    """Base of the recurrent cells.

    Args:
        input_size: the number of input features.
        hidden_size: the number of features of the hidden state.
        bias: whether the cell adds biases.
        num_chunks: the number of gates.

    The parameters are initialized uniformly in ±1/√hidden_size.
    """

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int,
        device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        shapes = {
            "weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size),
            "bias_ih": (rows,) if bias else None, "bias_hh": (rows,) if bias else None,
        }  # fmt: skip
        register_empty(self, shapes, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the parameters."""
        # An empty cell is valid in PyTorch.
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def take_step(
        self, step: Step, input: Tensor, states: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the new states after one step; without states it starts from zeros."""
        fits = self.fits(input, states)
        if not fits:
            self.check_dims(input, states)
        is_unbatched = input.ndim == 1
        if is_unbatched:
            input, states = input.unsqueeze(0), tuple(state.unsqueeze(0) for state in states)
        if not states:
            factory_kwargs = {"dtype": input.dtype, "device": input.device}
            count = 2 if step is lstm_step else 1
            states = (zeros(input.shape[0], self.hidden_size, **factory_kwargs),) * count
        if not fits:
            self.check(input, states)
        new_states = cell_step(step, input, states, *self.weights())
        return tuple(state.squeeze(0) for state in new_states) if is_unbatched else new_states

    def weights(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Return w_ih, w_hh, b_ih and b_hh."""
        own: Any = self._parameters  # as attributes, they would be searched elsewhere first
        try:
            return own["weight_ih"], own["weight_hh"], own["bias_ih"], own["bias_hh"]
        except KeyError:  # one is computed from others (`utils.parametrize`)
            return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def fits(self, input: Tensor, states: tuple[Tensor, ...]) -> bool:
        """Whether input and states are batches that fit the cell and each other."""
        shape = input._array.shape
        if len(shape) != 2 or shape[1] != self.input_size or not states:
            return False
        state_shape = shape[0], self.hidden_size
        return {state._array.shape for state in states} == {state_shape}

    def check_dims(self, input: Tensor, states: tuple[Tensor, ...]) -> None:
        """Raise SettingError unless input and states are batches or single samples."""
        for name, tensor in (("input", input), *(("hidden", state) for state in states)):
            if tensor.ndim not in (1, 2):
                raise SettingError(
                    type(self).__name__,
                    f"Expected {name} to be 1D or 2D, got {tensor.ndim}D instead",
                )

    def check(self, input: Tensor, states: tuple[Tensor, ...]) -> None:
        """Raise ShapeError unless input and states fit the cell and each other."""
        shapes = {"input": tuple(input.shape), "hx": tuple(states[0].shape)}
        name, (batch, features) = type(self).__name__, input.shape
        if features != self.input_size:
            raise ShapeError(
                name, f"input has inconsistent input_size: got {features} expected "
                f"{self.input_size}", shapes,
            )  # fmt: skip
        for index, state in enumerate(states):
            if state.shape[0] != batch:
                raise ShapeError(
                    name, f"Input batch size {batch} doesn't match hidden{index} batch size "
                    f"{state.shape[0]}", shapes,
                )  # fmt: skip
            if state.shape[1] != self.hidden_size:
                raise ShapeError(
                    name, f"hidden{index} has inconsistent hidden_size: got {state.shape[1]}, "
                    f"expected {self.hidden_size}", shapes,
                )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of an Elman RNN: h ← tanh(W_ih x + b_ih + W_hh h + b_hh).

    Args:
        input_size, hidden_size: the sizes of x and h.
        bias: whether the cell adds biases.
        nonlinearity: "tanh" or "relu".

    Shape: (n, input_size) and (n, hidden_size), or both without n, to the new h.

    >>> nn.RNNCell(3, 4)(zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the new state. Raises: RuntimeError: an unknown nonlinearity."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueRangeError("RNNCell", f"Unknown nonlinearity: {self.nonlinearity}")
        step = tanh_step if self.nonlinearity == "tanh" else relu_step
        return self.take_step(step, input, () if hx is None else (hx,))[0]


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
        self, input_size: int, hidden_size: int, bias: bool = True, device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        h, c = self.take_step(lstm_step, input, () if hx is None else tuple(hx))
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU: n = tanh(xₙ + σ(r) · hₙ);  h ← (1 - σ(z)) · n + σ(z) · h.

    Shape: (n, input_size) and (n, hidden_size), or both without n, to the new h.

    Paper: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014.

    >>> nn.GRUCell(3, 4)(zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self.take_step(gru_step, input, () if hx is None else (hx,))[0]
