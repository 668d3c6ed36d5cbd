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

# Normalisation -----------------------------------------------------------------------------------

IMAGE = some(2, 2, 4, 3)
CASES["standardize"] = [{"input": A, "dims": (1,), "eps": 0.01}, {"input": IMAGE, "dims": (0, 2,
    3), "eps": 0.01}]

INTERNAL["nll_spread"] = "the gradient of nll_loss"
INTERNAL["standardize"] = "part of the norms in test_norm.py"
for name in ("l1_loss", "mse_loss"):
    OTHER_TYPES[name, "int"] = "layers and losses are for floating numbers"
