"""Modules whose initial values are compared with PyTorch's: large enough for statistics."""

from __future__ import annotations

from typing import Any

STARTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "Linear": ((40, 30), {}), "Bilinear": ((9, 8, 20), {}),
    "Conv1d": ((8, 20, 5), {}), "Conv2d": ((8, 20, 3), {"groups": 2}), "Conv3d": ((4, 20, 2), {}),
    "ConvTranspose1d": ((8, 20, 5), {}), "ConvTranspose2d": ((8, 20, 3), {"groups": 2}),
    "ConvTranspose3d": ((4, 20, 2), {}),
    "BatchNorm1d": ((5,), {}), "BatchNorm2d": ((5,), {}), "BatchNorm3d": ((5,), {}),
    "SyncBatchNorm": ((5,), {}), "InstanceNorm1d": ((5,), {"affine": True}),
    "InstanceNorm2d": ((5,), {"affine": True}), "InstanceNorm3d": ((5,), {"affine": True}),
    "LayerNorm": ((5,), {}), "RMSNorm": ((5,), {}), "GroupNorm": ((2, 4), {}),
    "PReLU": ((5,), {"init": 0.1}), "Embedding": ((50, 20), {"padding_idx": 3}),
    "EmbeddingBag": ((50, 20), {}), "RNN": ((10, 20, 2), {"bidirectional": True}),
    "LSTM": ((10, 20), {"proj_size": 7}), "GRU": ((10, 20), {}), "RNNCell": ((10, 20), {}),
    "LSTMCell": ((10, 20), {}), "GRUCell": ((10, 20), {}),
    "MultiheadAttention": ((24, 2), {"add_bias_kv": True}),
    "TransformerEncoderLayer": ((16, 2, 20), {}), "TransformerDecoderLayer": ((16, 2, 20), {}),
    "Transformer": ((16, 2, 1, 1, 20), {}),
    "AdaptiveLogSoftmaxWithLoss": ((16, 60, [20, 40]), {"head_bias": True}),
    "LinearCrossEntropyLoss": ((20, 30), {"bias": True}),
}  # fmt: skip

WITHOUT_START: dict[str, str] = {
    "Sequential": "begins as the modules in it", "DataParallel": "begins as the module in it",
    "ModuleList": "begins as the modules in it", "ModuleDict": "begins as the modules in it",
    "ParameterList": "holds what it is given", "ParameterDict": "holds what it is given",
    "TransformerEncoder": "holds copies of the layer that it is given",
    "TransformerDecoder": "holds copies of the layer that it is given",
}  # fmt: skip
_LAZY = (
    "has no numbers before its first call; tests/nn/test_lazy.py compares the start with the "
    "ordinary layer's"
)
WITHOUT_START["LazyLinear"] = _LAZY
for _kind in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm"):
    WITHOUT_START |= {f"Lazy{_kind}{rank}d": _LAZY for rank in (1, 2, 3)}
