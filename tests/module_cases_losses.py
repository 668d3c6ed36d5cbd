"""The cases to test every loss with: each with each reduction."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.module_cases import case

RANDOM = np.random.default_rng(3)
X, Y, P, Q = (6, 4), (6, 4), RANDOM.uniform(0.05, 0.95, (6, 4)), RANDOM.dirichlet(np.ones(4), 6)
CLASSES = np.array([0, 3, 2, 2, 1, 0])
PIXELS = RANDOM.integers(0, 4, (2, 3, 5))
LABELS = np.array(
    [[3, 0, -1, 1], [-1, 0, 0, 0], [0, 1, 2, 3], [2, -1, -1, -1], [1, 0, -1, 3], [0, -1, 2, 2]]
)
WEIGHT = np.array([0.5, 1.0, 2.0, 0.1])
SIGNS, ROW_SIGNS = np.sign(RANDOM.normal(size=(6, 4))), np.array([1.0, -1, 1, 1, -1, -1])
COUNTS = RANDOM.poisson(2, (6, 4)).astype(float)
REDUCTIONS = ("mean", "sum", "none")
PICTURE = (2, 4, 3, 5)


def distance(a: Any, b: Any) -> Any:
    """A custom distance, which both libraries can compute."""
    return (a - b).abs().sum(-1)


LOSSES: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("MSELoss", {}, [X, Y]), ("MSELoss", {}, [(3,), (3,)]),
    ("L1Loss", {}, [X, Y]), ("L1Loss", {}, [(3,), (3,)]),
    ("SmoothL1Loss", {"beta": 0.7}, [X, Y]), ("SmoothL1Loss", {"beta": 0.0}, [X, Y]),
    ("HuberLoss", {"delta": 0.7}, [X, Y]), ("HuberLoss", {}, [X, Y]),
    ("KLDivLoss", {}, [X, Q]), ("KLDivLoss", {"log_target": True}, [X, Y]),
    ("BCELoss", {}, [P, Q]), ("BCELoss", {"weight": WEIGHT}, [P, Q]),
    ("BCEWithLogitsLoss", {}, [X, Q]),
    ("BCEWithLogitsLoss", {"weight": WEIGHT, "pos_weight": WEIGHT * 3}, [X, Q]),
    ("CrossEntropyLoss", {}, [X, CLASSES]), ("CrossEntropyLoss", {"weight": WEIGHT}, [X, CLASSES]),
    ("CrossEntropyLoss", {"ignore_index": 2, "weight": WEIGHT}, [PICTURE, PIXELS]),
    ("CrossEntropyLoss", {"label_smoothing": 0.3, "weight": WEIGHT, "ignore_index": 0},
     [X, CLASSES]),
    ("CrossEntropyLoss", {"label_smoothing": 0.2}, [X, Q]),
    ("CrossEntropyLoss", {}, [(4,), np.array(2)]),
    ("NLLLoss", {}, [X, CLASSES]), ("NLLLoss", {"weight": WEIGHT, "ignore_index": 2}, [X, CLASSES]),
    ("NLLLoss", {"ignore_index": 1}, [PICTURE, PIXELS]), ("NLLLoss", {}, [(4,), np.array(2)]),
    ("NLLLoss2d", {}, [PICTURE, PIXELS]), ("NLLLoss2d", {"ignore_index": 1}, [PICTURE, PIXELS]),
    ("PoissonNLLLoss", {}, [X, COUNTS]),
    ("PoissonNLLLoss", {"full": True, "log_input": False, "eps": 1e-3}, [P, COUNTS]),
    ("GaussianNLLLoss", {}, [X, Y, P]), ("GaussianNLLLoss", {"full": True}, [X, Y, P[:, :1]]),
    ("GaussianNLLLoss", {"eps": 0.3}, [X, Y, P]),
    ("MultiMarginLoss", {}, [X, CLASSES]),
    ("MultiMarginLoss", {"p": 2, "margin": 0.4, "weight": WEIGHT}, [X, CLASSES]),
    ("MultiLabelMarginLoss", {}, [X, LABELS]), ("MultiLabelMarginLoss", {}, [(4,), LABELS[0]]),
    ("MultiLabelSoftMarginLoss", {}, [X, P]),
    ("MultiLabelSoftMarginLoss", {"weight": WEIGHT}, [X, P]),
    ("SoftMarginLoss", {}, [X, SIGNS]), ("SoftMarginLoss", {}, [(6,), ROW_SIGNS]),
    ("HingeEmbeddingLoss", {}, [X, SIGNS]), ("HingeEmbeddingLoss", {"margin": 0.2}, [X, SIGNS]),
    ("MarginRankingLoss", {}, [(6,), (6,), ROW_SIGNS]),
    ("MarginRankingLoss", {"margin": 0.3}, [(6,), (6,), ROW_SIGNS]),
    ("CosineEmbeddingLoss", {}, [X, Y, ROW_SIGNS]),
    ("CosineEmbeddingLoss", {"margin": 0.1}, [X, Y, ROW_SIGNS]),
    ("TripletMarginLoss", {"p": 3.0}, [X, Y, X]),
    ("TripletMarginLoss", {"swap": True, "margin": 2.0, "eps": 1e-3}, [X, Y, X]),
    ("TripletMarginWithDistanceLoss", {}, [X, Y, X]),
    ("TripletMarginWithDistanceLoss",
     {"swap": True, "margin": 2.0, "distance_function": distance}, [X, Y, X]),
]  # fmt: skip

WITHOUT_SLOPE = {  # the targets of these get no gradient from PyTorch, or are no numbers
    "MultiMarginLoss", "MultiLabelMarginLoss", "NLLLoss", "NLLLoss2d", "SoftMarginLoss",
    "HingeEmbeddingLoss", "MultiLabelSoftMarginLoss", "PoissonNLLLoss",
}  # fmt: skip
for _name, _settings, _x in LOSSES:
    _grads = (0,) if _name in WITHOUT_SLOPE else None
    if _name in ("MarginRankingLoss", "CosineEmbeddingLoss"):
        _grads = (0, 1)
    for _reduction in REDUCTIONS:
        case(_name, **_settings, reduction=_reduction, x=_x, grads=_grads)
case("KLDivLoss", reduction="batchmean", x=[X, Q])

TEXTS = np.array([[1, 2, 2], [3, 4, 1], [2, 1, 4]])
LENGTHS = [TEXTS, np.array([8, 7, 3]), np.array([3, 2, 3])]
SCORES = np.log(RANDOM.dirichlet(np.ones(5), (8, 3)))
for _reduction in REDUCTIONS:
    case("CTCLoss", reduction=_reduction, x=[SCORES, *LENGTHS])
    case("CTCLoss", 4, _reduction, True, x=[SCORES, TEXTS - 1, *LENGTHS[1:]])

_wide = np.array([0, 3, 5, 19, 12])
case("AdaptiveLogSoftmaxWithLoss", 64, 20, [4, 10, 15], x=[(5, 64), _wide])
case("AdaptiveLogSoftmaxWithLoss", 16, 20, [4, 10, 15], div_value=2.0, head_bias=True,
     x=[(16,), np.array(17)])  # fmt: skip
case("LinearCrossEntropyLoss", 3, 5, x=[(4, 3), np.array([0, 4, 2, 1])])
case("LinearCrossEntropyLoss", 3, 5, bias=True, label_smoothing=0.1,
     x=[(4, 3), np.array([0, 4, 2, 1])])  # fmt: skip
case("LinearCrossEntropyLoss", 3, 5, out_features=(2,), ignore_index=1, reduction="sum",
     x=[(4, 3), np.array([[0, 4], [1, 2], [3, 3], [0, 1]])])  # fmt: skip
