"""The cases to test large modules with: containers, embeddings, recurrent layers, transformers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.module_cases import SPACE, Made, case

# Containers --------------------------------------------------------------------------------

LAYER = Made(lambda nn: nn.Linear(3, 2))
case("Sequential", x=(4, 3))
case("Sequential", LAYER, Made(lambda nn: nn.ReLU()), Made(lambda nn: nn.Linear(2, 1)), x=(4, 3))
case("Sequential", LAYER, Made(lambda nn: nn.Sequential(nn.Tanh(), nn.BatchNorm1d(2))), x=(4, 3))
case("DataParallel", LAYER, x=(4, 3))
case("DataParallel", Made(lambda nn: nn.Dropout(0.0)), dim=1, x=(4, 3))
case("ModuleList", x=None)
case("ModuleList", Made(lambda nn: [nn.Linear(1, 1), nn.Linear(1, 1), nn.ReLU()]), x=None)
case("ModuleDict", x=None)
case("ModuleDict", Made(lambda nn: {"b": nn.Linear(2, 1), "a": nn.BatchNorm1d(2)}), x=None)
case("ParameterList", x=None)
case("ParameterList", [np.ones(2), np.zeros((2, 3))], x=None)
case("ParameterDict", x=None)
case("ParameterDict", {"b": np.ones(2), "a": np.zeros((2, 3))}, x=None)

# Tables ------------------------------------------------------------------------------------

NUMBERS, SQUARE = np.array([[0, 4, 1], [1, 1, 2]]), np.array([0, 4, 1, 1, 1, 2])
for _settings in (
    {}, {"padding_idx": -1}, {"scale_grad_by_freq": True}, {"max_norm": 1.0, "norm_type": 1.0},
):  # fmt: skip
    case("Embedding", 5, 3, **_settings, x=[NUMBERS])
case("Embedding", 5, 3, padding_idx=2, x=[np.array(2)])
for _settings in ({}, {"mode": "sum"}, {"mode": "max"}, {"padding_idx": 1},
                  {"max_norm": 1.0, "mode": "sum"}):  # fmt: skip
    case("EmbeddingBag", 5, 3, **_settings, x=[SQUARE, np.array([0, 2, 2])])
case("EmbeddingBag", 5, 3, include_last_offset=True, x=[SQUARE, np.array([0, 2, 2, 6])])
case("EmbeddingBag", 5, 3, mode="sum", x=[NUMBERS], call={"per_sample_weights": np.ones((2, 3))})

# Recurrent ---------------------------------------------------------------------------------

RECURRENT: list[dict[str, Any]] = [
    {}, {"num_layers": 2, "bias": False}, {"bidirectional": True}, {"batch_first": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.0},
]  # fmt: skip
for _name in ("RNN", "GRU", "LSTM"):
    for _settings in RECURRENT:
        case(_name, 3, 4, **_settings, x=(2, 5, 3))
        case(_name, 3, 4, **_settings, x=(5, 3))
    case(_name, 3, 4, num_layers=2, dropout=0.5, x=(5, 2, 3), random="dropout between layers")
    _h = (1, 2, 4)
    case(_name, 3, 4, x=[(5, 2, 3), (_h, _h) if _name == "LSTM" else _h])
case("RNN", 3, 4, nonlinearity="relu", x=(5, 2, 3))
case("LSTM", 3, 4, proj_size=2, x=(5, 2, 3))
case("LSTM", 3, 4, proj_size=2, num_layers=2, bidirectional=True, x=(5, 2, 3))
for _name in ("RNNCell", "GRUCell", "LSTMCell"):
    case(_name, 3, 4, x=(2, 3))
    case(_name, 3, 4, bias=False, x=(3,))
    _h = (2, 4)
    case(_name, 3, 4, x=[(2, 3), (_h, _h) if _name == "LSTMCell" else _h])
case("RNNCell", 3, 4, nonlinearity="relu", x=(2, 3))

# Attention and transformers ----------------------------------------------------------------

HIDDEN = np.triu(np.ones((3, 3), bool), 1)
PADDING = np.array([[False, False, True], [False, False, False]])
for _settings in ({}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True},
                  {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True}):  # fmt: skip
    _x = [(2, 3, 4) if _settings.get("batch_first") else (3, 2, 4)] * 3
    case("MultiheadAttention", 4, 2, **_settings, x=_x)
    case("MultiheadAttention", 4, 2, **_settings, x=_x, call={"key_padding_mask": PADDING})
case("MultiheadAttention", 4, 2, kdim=3, vdim=5, x=[(3, 2, 4), (6, 2, 3), (6, 2, 5)])
case("MultiheadAttention", 4, 2, x=[(3, 4)] * 3, call={"attn_mask": HIDDEN})
case("MultiheadAttention", 4, 2, x=[(3, 4)] * 3, call={"need_weights": False})
case("MultiheadAttention", 4, 2, x=[(3, 4)] * 3, call={"average_attn_weights": False})

STYLES: list[dict[str, Any]] = [
    {}, {"norm_first": True}, {"batch_first": True, "bias": False}, {"activation": "gelu"},
    {"layer_norm_eps": 1e-2, "norm_first": True, "batch_first": True},
]  # fmt: skip
for _settings in STYLES:
    _first = _settings.get("batch_first")
    _short, _long = ((2, 3, 8), (2, 4, 8)) if _first else ((3, 2, 8), (4, 2, 8))
    case("TransformerEncoderLayer", 8, 2, 5, 0.0, **_settings, x=_short)
    case("TransformerEncoderLayer", 8, 2, 5, 0.0, **_settings, x=_short,
         call={"src_mask": HIDDEN, "src_key_padding_mask": PADDING})  # fmt: skip
    case("TransformerDecoderLayer", 8, 2, 5, 0.0, **_settings, x=[_short, _long])
    case("TransformerDecoderLayer", 8, 2, 5, 0.0, **_settings, x=[_short, _long],
         call={"tgt_mask": HIDDEN, "tgt_key_padding_mask": PADDING})  # fmt: skip
    case("Transformer", 8, 2, 1, 2, 5, 0.0, **_settings, x=[_long, _short],
         call={"tgt_mask": HIDDEN})  # fmt: skip
case("TransformerEncoderLayer", 8, 2, 5, 0.5, x=(3, 2, 8), random="dropout")
case("TransformerDecoderLayer", 8, 2, 5, 0.5, x=[(3, 2, 8), (4, 2, 8)], random="dropout")


def stack(what: str, **settings: Any) -> Made:
    """A transformer layer, for a stack of copies."""
    return Made(lambda nn: getattr(nn, f"Transformer{what}Layer")(8, 2, 5, 0.0, **settings))


NORM = Made(lambda nn: nn.LayerNorm(8))
case("TransformerEncoder", stack("Encoder"), 2, x=(3, 2, 8))
case("TransformerEncoder", stack("Encoder", batch_first=True), 2, NORM, x=(2, 3, 8))
for _nested in (True, False):  # in evaluation PyTorch may leave out what is hidden, and put zeros
    case("TransformerEncoder", stack("Encoder", batch_first=True), 2, x=(2, 3, 8),
         enable_nested_tensor=_nested, call={"src_key_padding_mask": PADDING})  # fmt: skip
case("TransformerEncoder", stack("Encoder", norm_first=True), 2, NORM, x=(3, 2, 8),
     mask_check=False, call={"mask": HIDDEN})  # fmt: skip
case("TransformerDecoder", stack("Decoder"), 2, x=[(3, 2, 8), (4, 2, 8)])
case("TransformerDecoder", stack("Decoder", batch_first=True), 2, NORM, x=[(2, 3, 8), (2, 4, 8)])

# Lazy --------------------------------------------------------------------------------------

case("LazyLinear", 3, x=(2, 5))
case("LazyLinear", 3, bias=False, x=(2, 1, 5))
for _rank, _shape in SPACE.items():
    case(f"LazyConv{_rank}d", 6, 2, padding=1, groups=2, x=_shape)
    case(f"LazyConv{_rank}d", 3, 2, bias=False, stride=2, x=_shape[1:])
    case(f"LazyConvTranspose{_rank}d", 6, 2, groups=2, x=_shape)
    case(f"LazyConvTranspose{_rank}d", 3, 2, stride=2, output_padding=1, x=_shape)
    case(f"LazyBatchNorm{_rank}d", x=_shape)
    case(f"LazyBatchNorm{_rank}d", 1e-3, None, bias=False, x=_shape)
    case(f"LazyInstanceNorm{_rank}d", x=_shape)
    case(f"LazyInstanceNorm{_rank}d", 1e-3, bias=False, x=_shape)
