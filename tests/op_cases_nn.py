"""Sample arguments for the ops of nn.functional; see `op_cases.py`."""

from __future__ import annotations

from tests.op_cases import CASES, INTERNAL, OTHER_TYPES, index, some

# fmt: off
A, B = some(2, 3), some(2, 3, low=-1.9, high=2.3, seed=1)

# Elementwise -------------------------------------------------------------------------------------

CASES["leaky"] = [{"input": A}, {"input": A, "negative_slope": 0.3}]
CASES["exponential_linear"] = [{"input": A}, {"input": A, "alpha": 0.5}]
CASES["silu_of"] = [{"input": A}]
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
CASES["mse_loss"] = [{"input": A, "target": B, "reduction": each} for each in REDUCTIONS]
CASES["l1_loss"] = CASES["mse_loss"]
CASES["logits_loss"] = [{"input": A, "target": some(2, 3, low=0.0, high=1.0, seed=1)}]
SCORES, RIGHT = some(3, 4, low=-3.0, high=-0.1), index(1, 3, 0)
CASES["nll_loss"] = [
    {"input": SCORES, "target": RIGHT, "reduction": each} for each in REDUCTIONS
] + [
    {"input": SCORES, "target": RIGHT, "ignore_index": 3},
    {"input": some(4), "target": index([2]).reshape(()), "reduction": "sum"},
    {"input": some(2, 3, 2), "target": index([[1, 0], [2, 2]])},
]
NLL: dict[str, object] = {"target": RIGHT, "weight": None, "shape": (3, 4), "ignore_index": -100}
CASES["nll_spread"] = [
    {"input": some(3), **NLL, "reduction": "none"}, {"input": some(), **NLL, "reduction": "mean"},
    {"input": some(), **NLL, "reduction": "sum"},
]

# Images ------------------------------------------------------------------------------------------

IMAGE, FILTERS = some(2, 2, 4, 3), some(2, 2, 2, 2, seed=1)
CASES["conv2d"] = [
    {"input": IMAGE, "weight": FILTERS, "bias": some(2, seed=2)},
    {"input": IMAGE, "weight": FILTERS, "stride": (2, 1), "padding": (1, 0)},
    {"input": IMAGE, "weight": some(4, 1, 2, 1, seed=1), "groups": 2, "dilation": (2, 1)},
    {"input": some(1, 1, 3, 3), "weight": some(1, 1, 3, 1, seed=1), "padding": "same"},
]
FACES: dict[str, object] = {"stride": (2, 1), "pads": ((1, 0), (0, 0)), "dilation": (1, 1),
    "groups": 1}
CASES["transposed"] = [{"input": some(1, 2, 2, 2), "weight": FILTERS, "size": (4, 3), **FACES}]
CASES["conv2d_weight"] = [
    {"input": some(1, 2, 4, 3), "response": some(1, 2, 2, 2), "kernel": (2, 2), **FACES}
]
CASES["constant_pad"] = [
    {"input": A, "pads": ((1, 0), (0, 2)), "value": 0.0},
    {"input": A, "pads": ((0, -1), (2, -1)), "value": 1.5},
]
WINDOWS: dict[str, object] = {"kernel_size": 2, "stride": 1, "padding": 0}
CASES["max_pool"] = [
    {"input": some(1, 2, 4, 4), **WINDOWS, "dilation": 1, "ceil_mode": False},
    {"input": some(2, 5, 4), **WINDOWS, "stride": None, "padding": 1, "dilation": 1,
        "ceil_mode": True},
]
SETTINGS = (2, 2, 0, 1, False)
CASES["winning_tap"] = [{"input": some(1, 1, 4, 4), "settings": SETTINGS}]
TAPS = index([[0, 3], [1, 2]]).reshape(1, 1, 2, 2)
CASES["tap_spread"] = [
    {"input": some(1, 1, 2, 2), "tap": TAPS, "shape": (1, 1, 4, 4), "settings": SETTINGS}
]
CASES["tap_pick"] = [{"input": some(1, 1, 4, 4), "tap": TAPS, "settings": SETTINGS}]
CASES["avg_pool2d"] = [
    {"input": some(1, 2, 4, 4), "kernel_size": 2},
    {"input": some(1, 5, 4), "kernel_size": (3, 2), "stride": 2, "padding": 1, "ceil_mode": True},
    {"input": some(1, 1, 4, 4), "kernel_size": 2, "padding": 1, "count_include_pad": False},
    {"input": some(1, 1, 4, 4), "kernel_size": 2, "divisor_override": 3},
]
CASES["avg_spread"] = [
    {"input": some(1, 1, 2, 2), "shape": (1, 1, 4, 4), "settings": (2, 2, 0, False, True, None)}
]
CASES["standardize"] = [{"input": A, "dims": (1,), "eps": 0.01}, {"input": IMAGE, "dims": (0, 2,
    3), "eps": 0.01}]

INTERNAL |= {
    "transposed", "conv2d_weight", "tap_spread", "tap_pick", "avg_spread", "nll_spread",
        "standardize",
    "winning_tap",
}
for name in ("avg_pool2d", "l1_loss", "mse_loss"):
    OTHER_TYPES[name, "int"] = "layers and losses are for floating numbers"
