"""`torch.nn.quantized.dynamic`: the older name of `torch.ao.nn.quantized.dynamic`."""

from __future__ import annotations

from edutorch.ao.nn.quantized.dynamic import GRU, LSTM, Linear

__all__ = ["GRU", "LSTM", "Linear"]
