"""Sample arguments for the ops behind losses and activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_cases import AN_EDGE, CASES, NOT_FINITE, OTHER_TYPES, A, Case, index, some
from tests.op_oracles import THEIRS

X, T = some(3, 4), some(3, 4, low=-1.7, high=2.4, seed=1)
P, Q = some(3, 4, low=0.1, high=0.9, seed=2), some(3, 4, low=0.05, high=0.95, seed=3)

REDUCTIONS = ("mean", "sum", "none")


def _on_pairs(name: str) -> Any:
    """PyTorch's loss; it would warn of shapes that broadcast, which the blocks leave to others."""
    return lambda torch: (
        lambda input, target, reduction="mean", **settings: getattr(torch.nn.functional, name)(
            *torch.broadcast_tensors(input, target), reduction=reduction, **settings
        )
    )


for _name in ("mse_loss", "l1_loss"):
    CASES[_name] = [{"input": X, "target": T, "reduction": reduction} for reduction in REDUCTIONS]
    CASES[_name] += [{"input": X, "target": T[:1], "reduction": "mean"}]
    THEIRS[_name] = _on_pairs(_name)

for _name, _setting in (("huber_loss", "delta"), ("smooth_l1_loss", "beta")):
    CASES[_name] = [
        {"input": X, "target": T, "reduction": reduction, _setting: 0.7} for reduction in REDUCTIONS
    ]
    CASES[_name] += [{"input": X, "target": T[:1], "reduction": "sum", _setting: 1.5}]
    THEIRS[_name] = _on_pairs(_name)

CASES["bce_forward"] = [
    {"input": P, "target": Q},
    {"input": np.array([0.0, 1.0, 0.0, 1.0]), "target": np.array([0.0, 1.0, 1.0, 0.0]),
     "only_values": AN_EDGE},
]  # fmt: skip
THEIRS["bce_forward"] = lambda torch: (
    lambda input, target: torch.nn.functional.binary_cross_entropy(input, target, reduction="none")
)

CASES["hardtanh_forward"] = [
    {"input": A, "min_val": -0.5, "max_val": 0.75},
    {"input": np.array([np.nan, np.inf, -np.inf, 0.0, 6.0]), "min_val": 0.0, "max_val": 6.0,
     "only_values": NOT_FINITE},
]  # fmt: skip
THEIRS["hardtanh_forward"] = lambda torch: torch.nn.functional.hardtanh
OTHER_TYPES["hardtanh_forward", "int"] = "integers are clamped: `hardtanh` asks another op"

# Alignments: two different labels, two equal ones, and an empty target.
STATES = index([[0, 1, 0, 2, 0], [0, 2, 0, 2, 0], [0, 0, 0, 0, 0]])
ALIGNED: Case = {"labels": STATES, "times": index(5, 4, 3), "counts": index(2, 2, 0)}
CASES["ctc_loss_forward"] = [
    {"input": some(5, 3, 3, low=-3.0, high=-0.2), **ALIGNED,
     "only_values": "right behind log_softmax alone: tests/nn/test_second_derivatives.py"},
    {"input": some(2, 3, 3, low=-3.0, high=-0.2), **ALIGNED, "times": index(2, 2, 0),
     "only_values": NOT_FINITE},
]  # fmt: skip


def _ctc(torch: Any) -> Any:
    def losses(input: Any, labels: Any, times: Any, counts: Any) -> Any:
        targets = labels[:, 1::2].contiguous()
        return torch.nn.functional.ctc_loss(input, targets, times, counts, reduction="none")

    return losses


THEIRS["ctc_loss_forward"] = _ctc
