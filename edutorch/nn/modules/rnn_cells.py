"""One step of a recurrent network as a layer: the user writes the loop."""

from __future__ import annotations

import math
from typing import Any

from ...core.tensor import Tensor
from ...errors import ShapeError, ValueRangeError
from ...ops import empty, zeros
from .. import functional as F
from .. import init
from ..functional.op_decorators import SettingError
from ..functional.rnn import Step, gru_step, lstm_step, relu_step, tanh_step
from ..parameter import Parameter
from .module import Module

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


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
