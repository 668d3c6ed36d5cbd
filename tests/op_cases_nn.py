"""Sample arguments for the ops of nn.functional; see `op_cases.py`."""

from __future__ import annotations

from tests.op_cases import CASES, INTERNAL, OTHER_TYPES, index, some

# fmt: off
A, B = some(2, 3), some(2, 3, low=-1.9, high=2.3, seed=1)

# Elementwise -------------------------------------------------------------------------------------

CASES["leaky_relu_forward"] = [{"input": A}, {"input": A, "negative_slope": 0.3}]
CASES["prelu_forward"] = [
    {"input": A, "weight": some(3, seed=2)}, {"input": A, "weight": some(1, seed=3)},
]
CASES["elu_forward"] = [{"input": A}, {"input": A, "alpha": 0.5}]
CASES["silu_forward"] = [{"input": A}]
CASES["selu_forward"] = [{"input": A}]
CASES["logsigmoid_forward"] = [{"input": A}, {"input": 20 * A}]
CASES["mish_forward"] = [{"input": A}]
CASES["hardswish_forward"] = [{"input": A}, {"input": 3 * A}]
CASES["gelu"] = [{"input": A}, {"input": A, "approximate": "tanh"}]

# Linear ------------------------------------------------------------------------------------------

WEIGHT, BIAS = some(4, 3, seed=1), some(4, seed=2)
CASES["linear"] = [
    {"input": A, "weight": WEIGHT, "bias": BIAS}, {"input": A, "weight": WEIGHT},
    {"input": some(3), "weight": WEIGHT, "bias": BIAS},
    {"input": some(2, 2, 3), "weight": WEIGHT, "bias": BIAS},
    {"input": some(0, 3), "weight": WEIGHT, "bias": BIAS},
]

# Losses ------------------------------------------------------------------------------------------

REDUCTIONS = ("mean", "sum", "none")
CASES["mse_loss"] = [{"input": A, "target": B, "reduction": reduction} for reduction in REDUCTIONS]
CASES["l1_loss"] = CASES["mse_loss"]
CASES["bce_with_logits_forward"] = [{"input": A, "target": some(2, 3, low=0.0, high=1.0, seed=1)}]
CASES["kl_div_forward"] = CASES["bce_with_logits_forward"]
CASES["bce_with_logits_grad"] = CASES["bce_with_logits_forward"]
SCORES, RIGHT = some(3, 4, low=-3.0, high=-0.1), index(1, 3, 0)
CASES["nll_loss"] = [
    {"input": SCORES, "target": RIGHT, "reduction": reduction} for reduction in REDUCTIONS
] + [
    {"input": SCORES, "target": RIGHT, "ignore_index": 3},
    {"input": some(4), "target": index([2]).reshape(()), "reduction": "sum"},
    {"input": some(2, 3, 2), "target": index([[1, 0], [2, 2]])},
]
NLL: dict[str, object] = {"target": RIGHT, "weight": None, "shape": (3, 4), "ignore_index": -100}
CASES["nll_grad"] = [
    {"input": some(3), **NLL, "reduction": "none"}, {"input": some(), **NLL, "reduction": "mean"},
    {"input": some(), **NLL, "reduction": "sum"},
]
CASES["fused_cross_entropy"] = [
    {"input": SCORES, "target": RIGHT, "reduction": reduction} for reduction in REDUCTIONS
] + [{"input": SCORES, "target": RIGHT, "ignore_index": 3}]

# Normalisation -----------------------------------------------------------------------------------

IMAGE = some(2, 2, 4, 3)
EACH = {"weight": some(2, seed=1), "bias": some(2, seed=2), "eps": 0.01}
BARE = {"weight": None, "bias": None, "eps": 0.01}
CASES["native_layer_norm"] = [
    {"input": A, **BARE, "axes": 1},
    {"input": IMAGE, "weight": some(4, 3, seed=1), "bias": some(4, 3, seed=2), "axes": 2,
     "eps": 0.01},
]
CASES["fused_rms_norm"] = [
    {"input": A, "weight": some(3, seed=1), "axes": 1, "eps": 0.01},
    {"input": IMAGE, "weight": None, "axes": 2, "eps": 0.01},
]
CASES["native_batch_norm"] = [
    {"input": IMAGE, **EACH}, {"input": some(3, 2), **EACH}, {"input": IMAGE, **BARE},
]
CASES["native_group_norm"] = [
    {"input": IMAGE, **EACH, "num_groups": 1}, {"input": IMAGE, **BARE, "num_groups": 2},
]

# Recurrent networks, and attention ---------------------------------------------------------------

STATE = some(2, 3, seed=1)
CASES["lstm_gates"] = [{"x": some(2, 12), "c": STATE}]
CELL = {"input": some(2, 4), "h": some(2, 3, seed=2), "c": STATE, "w_ih": some(12, 4, seed=3),
        "w_hh": some(12, 3, seed=4)}  # fmt: skip
CASES["lstm_cell_forward"] = [CELL, {**CELL, "b_ih": some(12, seed=5), "b_hh": some(12, seed=6)}]
CASES["gru_gates"] = [{"x": some(2, 9), "hidden": some(2, 9, seed=2), "h": STATE}]
LSTM = {"x": some(3, 2, 12), "h": some(2, 3, seed=2), "c": STATE, "weight": some(12, 3, seed=3)}
CASES["lstm_sequence"] = [LSTM, {**LSTM, "reverse": True}]
GRU = {"x": some(3, 2, 9), "h": STATE, "weight": some(9, 3, seed=2)}
CASES["gru_sequence"] = [GRU, {**GRU, "bias": some(9, seed=3), "reverse": True}]
CASES["rnn_sequence"] = [
    {"x": some(3, 2, 3), "h": STATE, "weight": some(3, 3, seed=2), **settings}
    for settings in ({}, {"nonlinearity": "relu", "reverse": True})
]
CASES["attention_forward"] = [
    {"query": some(2, 3, 2), "key": some(2, 4, 2, seed=1), "value": some(2, 4, 3, seed=2),
     "scale": 0.7, "is_causal": is_causal}
    for is_causal in (False, True)
]  # fmt: skip
for name in (
    "lstm_gates", "lstm_cell_forward", "gru_gates", "lstm_sequence", "gru_sequence",
    "rnn_sequence",
):  # fmt: skip
    INTERNAL[name] = "part of the layers in test_recurrent.py"
INTERNAL["attention_forward"] = "part of scaled_dot_product_attention in test_attention.py"

INTERNAL["fused_cross_entropy"] = "the whole of cross_entropy where a kernel computes it"
INTERNAL["nll_grad"] = "the gradient of nll_loss"
for name in "native_layer_norm native_batch_norm native_group_norm fused_rms_norm".split():
    INTERNAL[name] = "the whole of a norm in test_norm.py"
for name in ("l1_loss", "mse_loss"):
    OTHER_TYPES[name, "int"] = "layers and losses are for floating numbers"
