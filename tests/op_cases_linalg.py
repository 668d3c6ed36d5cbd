"""Sample arguments for the ops of edutorch.linalg; see `op_cases.py`."""

from __future__ import annotations

import numpy as np

from tests.op_cases import CASES, EXCLUDED, INTERNAL, some

# fmt: off
SQUARE = some(2, 3, 3) + 2 * np.eye(3)
WIDE, TALL = some(2, 3, seed=1), some(3, 2, seed=2)

CASES["inv"] = CASES["det"] = CASES["log_abs_det"] = [{"input": SQUARE}, {"input": SQUARE[0]}]
CASES["solve_matrices"] = [{"input": SQUARE, "other": some(2, 3, 2)}]
CASES["pinv"] = [{"input": SQUARE}, {"input": WIDE}, {"input": TALL}]
CASES["qr_joined"] = [
    {"input": SQUARE, "complete": False}, {"input": WIDE, "complete": True},
    {"input": TALL, "complete": False},
]
CASES["svd_joined"] = [
    {"input": SQUARE, "full_matrices": True}, {"input": WIDE, "full_matrices": False},
    {"input": TALL, "full_matrices": False},
]
INTERNAL |= {
    "inv", "det", "pinv", "log_abs_det", "solve_matrices", "qr_joined", "svd_joined",
}
for name in ("cholesky", "eigh_joined"):
    EXCLUDED[name] = "takes symmetric matrices only: see test_linalg.py"
